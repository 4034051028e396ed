//! The calls to Vault or OpenBao, and what its errors mean. The only place that names vaultrs.

mod own;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustify::clients::reqwest::Client as RestClient;
use rustify::endpoint::{Endpoint as _, EndpointResult as RestResult};
use rustify::errors::ClientError as RestError;
use rustify_derive::Endpoint;
use sandbox_core::names::NamespaceName;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use vaultrs::api::{AuthInfo, EndpointMiddleware, EndpointResult};
use zeroize::Zeroizing;

use super::session::Session;
use crate::config;
use crate::report::{Code, chain};

pub(super) use own::Fields;

/// The client to one server. Holds no token: each call brings its own.
pub(super) struct Vault {
    http: RestClient,
    namespace: Option<String>,
}

/// A token that can do one thing: read one credential.
pub(super) struct Child {
    pub(super) accessor: String,
    token: SecretString,
}

/// What the engine issued.
pub(super) struct Credential {
    pub(super) lease_id: String,
    pub(super) ttl_seconds: u32,
    pub(super) service_account: String,
    pub(super) token: SecretString,
}

/// How the server is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Health {
    /// It serves.
    Open,
    /// It must be unsealed.
    Sealed,
}

/// Why Vault did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// No answer, or none that makes sense.
    #[error("Vault does not answer")]
    Unreachable(#[source] anyhow::Error),
    /// It is sealed.
    #[error("Vault is sealed")]
    Sealed,
    /// It answered no.
    #[error("Vault answered {status} to {call}: {}", words.join("; "))]
    Refused {
        /// The HTTP status.
        status: u16,
        /// Which call.
        call: &'static str,
        /// Vault's own words, clipped, each on one line.
        words: Vec<String>,
    },
    /// It answered something else than was asked for.
    #[error("Vault's answer to {call} is not what it should be")]
    Malformed {
        /// Which call.
        call: &'static str,
    },
    /// A file with a secret of ours cannot be read.
    #[error("could not read {path}")]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl VaultError {
    /// The code callers get.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Unreachable(_) => Code::VaultUnavailable,
            Self::Sealed => Code::VaultSealed,
            Self::Refused { .. } | Self::Malformed { .. } | Self::File { .. } => Code::VaultRefused,
        }
    }

    /// A clause for callers, without the daemon's paths.
    #[must_use]
    pub fn for_callers(&self) -> String {
        match self {
            Self::File { .. } => "sandboxd's own login to Vault is not set up".to_owned(),
            Self::Unreachable(_) | Self::Sealed | Self::Refused { .. } | Self::Malformed { .. } => {
                self.to_string()
            }
        }
    }
}

#[derive(Debug, Endpoint, Serialize)]
#[endpoint(path = "auth/{self.mount}/login", method = "POST")]
struct LogIn {
    #[endpoint(skip)]
    #[serde(skip)]
    mount: String,
    role_id: Zeroizing<String>,
    secret_id: Zeroizing<String>,
}

#[derive(Debug, Endpoint, Serialize)]
#[endpoint(path = "auth/token/create/{self.role}", method = "POST")]
struct CreateChild {
    #[endpoint(skip)]
    #[serde(skip)]
    role: String,
    display_name: &'static str,
}

#[derive(Debug, Endpoint, Serialize)]
#[endpoint(
    path = "{self.mount}/creds/{self.role}",
    method = "POST",
    response = "Creds"
)]
struct Issue {
    #[endpoint(skip)]
    #[serde(skip)]
    mount: String,
    #[endpoint(skip)]
    #[serde(skip)]
    role: String,
    kubernetes_namespace: String,
}

#[derive(Deserialize)]
struct Creds {
    #[serde(rename = "service_account_name")]
    account: String,
    #[serde(rename = "service_account_namespace")]
    namespace: String,
    #[serde(rename = "service_account_token")]
    token: SecretString,
}

#[derive(Debug, Endpoint, Serialize)]
#[endpoint(path = "sys/leases/revoke/{self.lease}", method = "PUT")]
struct RevokeLease {
    #[endpoint(skip)]
    #[serde(skip)]
    lease: String,
    sync: bool,
}

#[derive(Debug, Endpoint, Serialize)]
#[endpoint(path = "auth/token/revoke-accessor", method = "POST")]
struct RevokeAccessor {
    accessor: String,
}

#[derive(Debug, Endpoint, Serialize)]
#[endpoint(path = "auth/token/revoke-self", method = "POST")]
struct RevokeSelf {}

#[derive(Debug, Endpoint, Serialize)]
#[endpoint(path = "sys/health", method = "GET")]
struct GetHealth {}

impl Vault {
    pub(super) fn new(config: &config::Vault) -> anyhow::Result<Self> {
        let pem = std::fs::read(&config.ca_file).map_err(|source| VaultError::File {
            path: config.ca_file.clone(),
            source,
        })?;
        let http = reqwest::Client::builder()
            .tls_backend_rustls()
            .tls_certs_only(reqwest::Certificate::from_pem_bundle(&pem)?)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_secs(5))
            .timeout(Duration::from_secs(20))
            .build()?;
        Ok(Self {
            http: RestClient::new(&config.address, http),
            namespace: config.namespace.clone(),
        })
    }

    pub(super) async fn log_in(&self, config: &config::Vault) -> Result<Session, VaultError> {
        let endpoint = LogIn {
            mount: config.approle_mount.to_string(),
            role_id: read_secret(&config.role_id_file)?,
            secret_id: read_secret(&config.secret_id_file)?,
        };
        let answer = self.call("the login", None, endpoint).await?;
        let auth = auth_of("the login", &answer)?;
        Ok(Session::new(
            auth.client_token.into(),
            auth.accessor,
            Duration::from_secs(auth.lease_duration),
        ))
    }

    pub(super) async fn create_child(&self, by: &Session, role: &str) -> Result<Child, VaultError> {
        let endpoint = CreateChild {
            role: role.to_owned(),
            display_name: "sandboxd-lease",
        };
        let answer = self
            .call("the child token", Some(&by.token), endpoint)
            .await?;
        let auth = auth_of("the child token", &answer)?;
        Ok(Child {
            accessor: auth.accessor,
            token: auth.client_token.into(),
        })
    }

    pub(super) async fn issue(
        &self,
        child: &Child,
        mount: &str,
        role: &str,
        namespace: &NamespaceName,
    ) -> Result<Credential, VaultError> {
        const CALL: &str = "the credential";
        let endpoint = Issue {
            mount: mount.to_owned(),
            role: role.to_owned(),
            kubernetes_namespace: namespace.to_string(),
        };
        let answer = self.call(CALL, Some(&child.token), endpoint).await?;
        // vaultrs' own helpers throw the lease id away; the envelope keeps it.
        let malformed = |_| VaultError::Malformed { call: CALL };
        let envelope = answer.wrap::<EndpointResult<Creds>>().map_err(malformed)?;
        match envelope.data {
            Some(creds)
                if creds.namespace == namespace.as_str() && !envelope.lease_id.is_empty() =>
            {
                Ok(Credential {
                    lease_id: envelope.lease_id,
                    ttl_seconds: envelope.lease_duration,
                    service_account: creds.account,
                    token: creds.token,
                })
            }
            _ => Err(VaultError::Malformed { call: CALL }),
        }
    }

    /// Returns when the `ServiceAccount` is deleted. A lease that is gone is no error.
    pub(super) async fn revoke_lease(&self, by: &Session, lease: &str) -> Result<(), VaultError> {
        let endpoint = RevokeLease {
            lease: lease.to_owned(),
            sync: true,
        };
        self.call("the lease's revocation", Some(&by.token), endpoint)
            .await
            .map(drop)
    }

    /// Ends a child token and whatever hangs from it. One that is gone is no error.
    pub(super) async fn revoke_accessor(
        &self,
        by: &Session,
        accessor: &str,
    ) -> Result<(), VaultError> {
        let endpoint = RevokeAccessor {
            accessor: accessor.to_owned(),
        };
        match self
            .call("a token's revocation", Some(&by.token), endpoint)
            .await
        {
            Ok(_) => Ok(()),
            Err(VaultError::Refused { words, .. })
                if words.iter().any(|w| w.contains("invalid accessor")) =>
            {
                Ok(())
            }
            Err(e) => Err(e),
        }
    }

    pub(super) async fn revoke_self(&self, session: &Session) -> Result<(), VaultError> {
        self.call("the logout", Some(&session.token), RevokeSelf {})
            .await
            .map(drop)
    }

    pub(super) async fn health(&self) -> Result<Health, VaultError> {
        match self.call("the health check", None, GetHealth {}).await {
            Ok(_) => Ok(Health::Open),
            Err(VaultError::Sealed) => Ok(Health::Sealed),
            Err(e) => Err(e),
        }
    }

    async fn call<E: rustify::endpoint::Endpoint>(
        &self,
        call: &'static str,
        token: Option<&SecretString>,
        endpoint: E,
    ) -> Result<RestResult<E::Response>, VaultError> {
        #[expect(
            clippy::disallowed_methods,
            reason = "into the X-Vault-Token header, to Vault only"
        )]
        let token = token
            .map(|t| t.expose_secret().to_owned())
            .unwrap_or_default();
        let middle = EndpointMiddleware {
            token,
            version: "v1".to_owned(),
            wrap: None,
            namespace: self.namespace.clone(),
        };
        let answer = endpoint.with_middleware(&middle).exec(&self.http).await;
        drop(Zeroizing::new(middle.token));
        answer.map_err(|e| meaning(call, e))
    }
}

fn auth_of(call: &'static str, answer: &RestResult<()>) -> Result<AuthInfo, VaultError> {
    // The parser's error is dropped on purpose: it carries the answer, token included.
    let envelope = answer
        .wrap::<EndpointResult<()>>()
        .map_err(|_| VaultError::Malformed { call })?;
    let auth = envelope.auth.ok_or(VaultError::Malformed { call })?;
    if auth.client_token.trim() != auth.client_token || auth.client_token.is_empty() {
        return Err(VaultError::Malformed { call });
    }
    Ok(auth)
}

/// What an error of the client library means. Only a status and Vault's own words are kept: the
/// library's errors carry whole answers.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "every other variant means there was no answer"
)]
fn meaning(call: &'static str, error: RestError) -> VaultError {
    #[derive(Default, Deserialize)]
    struct Words {
        #[serde(default)]
        errors: Vec<String>,
        sealed: Option<bool>,
    }
    match error {
        RestError::ServerResponseError { code, content } => {
            let words: Words = content
                .and_then(|c| serde_json::from_str(&c).ok())
                .unwrap_or_default();
            let sealed = words.sealed == Some(true)
                || (code == 503 && words.errors.iter().any(|e| e.contains("sealed")));
            if sealed {
                return VaultError::Sealed;
            }
            // Vault lists several errors on lines of their own.
            let line = |e: String| e.split_whitespace().collect::<Vec<_>>().join(" ");
            let clip = |e: String| line(e).chars().take(300).collect();
            VaultError::Refused {
                status: code,
                call,
                words: words.errors.into_iter().map(clip).collect(),
            }
        }
        RestError::ResponseParseError { .. } | RestError::ResponseConversionError { .. } => {
            VaultError::Malformed { call }
        }
        other => VaultError::Unreachable(anyhow::anyhow!("{call}: {}", chain(&other))),
    }
}

fn read_secret(path: &Path) -> Result<Zeroizing<String>, VaultError> {
    let text = std::fs::read_to_string(path).map_err(|source| VaultError::File {
        path: path.to_owned(),
        source,
    })?;
    // A trailing line feed is how editors end files, and no part of any id.
    Ok(Zeroizing::new(Zeroizing::new(text).trim().to_owned()))
}

impl std::fmt::Debug for Vault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vault").finish_non_exhaustive()
    }
}
