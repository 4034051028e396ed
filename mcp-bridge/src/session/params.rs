//! The parameters of the requests and notifications we know.

use rmcp::model::ErrorData;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::version::ClientInfo;

/// Log levels of MCP; rmcp's type for them is on its way out.
const LEVELS: [&str; 8] = [
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
];

/// Reads parameters; absent and null are an empty object.
pub(super) fn read<'a, T: Deserialize<'a>>(params: Option<&'a RawValue>) -> Result<T, ErrorData> {
    serde_json::from_str(params.map_or("{}", RawValue::get))
        .map_err(|error| ErrorData::invalid_params(format!("params: {error}"), None))
}

/// Of `initialize`. Clients leave out any of it, or send null; what cannot be read is absent.
#[derive(Default)]
pub(super) struct InitializeParams {
    pub(super) version: Option<String>,
    pub(super) client: ClientInfo,
}

impl InitializeParams {
    pub(super) fn read(params: Option<&RawValue>) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Fields<'a> {
            #[serde(borrow)]
            protocol_version: Option<&'a RawValue>,
            #[serde(borrow)]
            client_info: Option<&'a RawValue>,
        }
        let fields: Fields<'_> = read(params).unwrap_or_default();
        Self {
            version: fields
                .protocol_version
                .and_then(|json| serde_json::from_str(json.get()).ok()),
            client: fields
                .client_info
                .and_then(|json| serde_json::from_str(json.get()).ok())
                .unwrap_or_default(),
        }
    }
}

/// Of `tools/call`. The arguments stay as they were written.
#[derive(Deserialize)]
pub(super) struct CallParams<'a> {
    pub(super) name: String,
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
}

/// Of `notifications/cancelled`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CancelParams<'a> {
    #[serde(borrow)]
    pub(super) request_id: &'a RawValue,
}

/// Checks the parameters of `logging/setLevel`. We send no log messages, so every level of MCP's is
/// kept; clients set one unasked.
///
/// # Errors
/// There is no level, or it is none of MCP's.
pub(super) fn check_level(params: Option<&RawValue>) -> Result<(), ErrorData> {
    #[derive(Deserialize)]
    struct Fields {
        level: String,
    }
    let Fields { level } = read(params)?;
    if LEVELS.contains(&level.as_str()) {
        return Ok(());
    }
    let text = format!("params.level must be one of {}.", LEVELS.join(", "));
    Err(ErrorData::invalid_params(text, None))
}
