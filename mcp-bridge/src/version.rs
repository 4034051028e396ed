//! Versions of MCP, and the two ways a client may speak them.
//!
//! Up to 2025-11-25 a client opens with `initialize`. From 2026-07-28 on there is no opening: every
//! request names its version and the client's capabilities in `_meta`. Both kinds are in use, and a
//! request says by itself which one it is, so both are served side by side.

use std::fmt::{self, Write as _};

use rmcp::model::{ErrorData, MetaObject, ProtocolVersion, ResultType};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::escape;
use crate::identity;
use crate::message::is_string_or_number;

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

/// What the daemon is told of a client's name, at most.
const MAX_CLIENT_CHARS: usize = 100;

/// Which shape results have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Era {
    /// Opened by `initialize`, or not at all.
    Handshake,
    /// The request speaks for itself.
    PerRequest,
}

impl Era {
    /// The `resultType` of results, where the era has it.
    pub fn result_type(self) -> Option<ResultType> {
        (self == Self::PerRequest).then_some(ResultType::COMPLETE)
    }

    /// The `_meta` of results, where the era has it: who answers.
    pub fn result_meta(self) -> Option<MetaObject> {
        (self == Self::PerRequest).then(identity::result_meta)
    }
}

/// The version `initialize` is answered with: the client's if we know it and it has an `initialize`,
/// else our newest that has one.
pub(crate) fn negotiate(requested: Option<&str>) -> ProtocolVersion {
    requested
        .and_then(known)
        .filter(ProtocolVersion::has_initialize)
        .unwrap_or(ProtocolVersion::LATEST_WITH_INITIALIZE)
}

fn known(version: &str) -> Option<ProtocolVersion> {
    ProtocolVersion::KNOWN_VERSIONS
        .iter()
        .find(|known| known.as_str() == version)
        .cloned()
}

/// What a request's `_meta` says to us. What is not there, or not as it should be, is absent.
#[derive(Debug, Default)]
pub(crate) struct RequestMeta {
    /// JSON text, echoed in progress notifications.
    pub progress_token: Option<Box<RawValue>>,
    /// What the client calls itself.
    pub client: Option<ClientInfo>,
    version: Option<String>,
    has_capabilities: bool,
}

/// What a client calls itself; nobody has checked it.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct ClientInfo {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub version: String,
}

impl fmt::Display for ClientInfo {
    /// One line for people, escaped and cut.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = format!("{} {}", self.name, self.version);
        let name = escape::for_reader(name.trim());
        name.chars()
            .take(MAX_CLIENT_CHARS)
            .try_for_each(|c| f.write_char(c))
    }
}

impl RequestMeta {
    /// Reads `params._meta`.
    pub fn of(params: Option<&RawValue>) -> Self {
        let Some(params) = params else {
            return Self::default();
        };
        let meta = serde_json::from_str::<Params<'_>>(params.get())
            .ok()
            .and_then(|p| p.meta);
        let Some(meta) = meta.and_then(|m| serde_json::from_str::<Fields<'_>>(m.get()).ok()) else {
            return Self::default();
        };
        Self {
            progress_token: meta
                .progress_token
                .filter(|t| is_string_or_number(t))
                .map(ToOwned::to_owned),
            client: meta
                .client
                .and_then(|client| serde_json::from_str(client.get()).ok()),
            version: meta
                .version
                .and_then(|version| serde_json::from_str(version.get()).ok()),
            has_capabilities: meta.capabilities.is_some_and(|c| c.get().starts_with('{')),
        }
    }

    /// The era of a request with this `_meta`.
    ///
    /// # Errors
    /// It names a version we do not know, or lacks what its version requires.
    pub fn era(&self) -> Result<Era, ErrorData> {
        let Some(version) = &self.version else {
            return Ok(Era::Handshake);
        };
        let Some(known) = known(version) else {
            return Err(ErrorData::unsupported_protocol_version(
                serde_json::from_value(version.as_str().into()).unwrap_or_default(),
                ProtocolVersion::KNOWN_VERSIONS,
            ));
        };
        if known.has_initialize() {
            return Ok(Era::Handshake);
        }
        if !self.has_capabilities {
            return Err(missing(CAPABILITIES_KEY));
        }
        Ok(Era::PerRequest)
    }

    /// That this request speaks for itself, for methods that exist in that era alone.
    ///
    /// # Errors
    /// As for [`RequestMeta::era`], and when it names no version or an earlier one.
    pub fn require_per_request(&self) -> Result<(), ErrorData> {
        match self.era()? {
            Era::PerRequest => Ok(()),
            Era::Handshake => Err(missing(VERSION_KEY)),
        }
    }
}

fn missing(key: &str) -> ErrorData {
    ErrorData::invalid_params(
        format!("params._meta[\"{key}\"] is missing or not as MCP 2026-07-28 has it."),
        None,
    )
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow, rename = "_meta")]
    meta: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow, rename = "progressToken")]
    progress_token: Option<&'a RawValue>,
    #[serde(borrow, rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<&'a RawValue>,
    #[serde(borrow, rename = "io.modelcontextprotocol/clientInfo")]
    client: Option<&'a RawValue>,
    #[serde(borrow, rename = "io.modelcontextprotocol/clientCapabilities")]
    capabilities: Option<&'a RawValue>,
}
