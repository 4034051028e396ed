//! What the API server says to a token: the only proof that a credential works, or is dead.

use std::fmt;
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use tokio::time::Instant;

use super::Scope;
use crate::report::chain;
use crate::sandbox::Cluster;

/// What the API server said when it was asked with a token.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Answer {
    /// It did what was asked.
    Accepted,
    /// 401 or 403, from the API server itself.
    Refused(u16),
    /// Anything else. Proves nothing.
    Nothing(String),
}

/// Asks the API server with leased tokens.
#[derive(Debug)]
pub struct Prover {
    http: reqwest::Client,
    base: String,
}

/// What the API server answers every refusal with; a proxy in between does not.
#[derive(serde::Deserialize)]
struct Status {
    kind: String,
    code: Option<u16>,
}

impl Prover {
    /// Talks to the cluster's API server and trusts its authority alone.
    ///
    /// # Errors
    /// When the HTTP client cannot be made.
    pub fn new(cluster: &Cluster) -> Result<Self, reqwest::Error> {
        let ca = reqwest::Certificate::from_pem_bundle(cluster.ca_pem().as_bytes())?;
        let http = reqwest::Client::builder()
            .tls_backend_rustls()
            .tls_certs_only(ca)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(Duration::from_secs(5))
            .build()?;
        Ok(Self {
            http,
            base: cluster.url().trim_end_matches('/').to_owned(),
        })
    }

    /// Does with the token the least that its scope allows.
    pub(super) async fn ask(&self, token: &SecretString, scope: &Scope) -> Answer {
        let list = scope.listed.path(scope.namespace.as_str());
        self.get(token, &format!("{list}?limit=1")).await
    }

    /// Reads `path` with the token.
    pub(super) async fn get(&self, token: &SecretString, path: &str) -> Answer {
        #[expect(
            clippy::disallowed_methods,
            reason = "into the Authorization header, to the API server only"
        )]
        let asked = self
            .http
            .get(format!("{}{path}", self.base))
            .bearer_auth(token.expose_secret())
            .send()
            .await;
        let response = match asked {
            Ok(response) => response,
            Err(e) => return Answer::Nothing(chain(&e.without_url())),
        };
        let status = response.status().as_u16();
        match status {
            200 => Answer::Accepted,
            401 | 403 => {
                let body = response.bytes().await.unwrap_or_default();
                match serde_json::from_slice::<Status>(&body) {
                    Ok(s) if s.kind == "Status" && s.code == Some(status) => {
                        Answer::Refused(status)
                    }
                    _ => Answer::Nothing(format!("{status}, but not from the API server itself")),
                }
            }
            _ => Answer::Nothing(format!("HTTP {status}")),
        }
    }

    /// Asks until the token is accepted, or for too long; gives the last answer.
    pub(super) async fn wait_until_accepted(
        &self,
        token: &SecretString,
        scope: &Scope,
        limit: Duration,
    ) -> Answer {
        let until = Instant::now() + limit;
        let mut pause = Duration::from_millis(5);
        loop {
            let answer = self.ask(token, scope).await;
            if answer == Answer::Accepted || Instant::now() + pause > until {
                return answer;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(200));
        }
    }

    /// Asks until the token is refused.
    ///
    /// # Errors
    /// The last answer, when `limit` passed without a refusal.
    pub(super) async fn wait_for_refusal(
        &self,
        token: &SecretString,
        scope: &Scope,
        limit: Duration,
    ) -> Result<u16, String> {
        let until = Instant::now() + limit;
        let mut pause = Duration::from_millis(2);
        loop {
            match self.ask(token, scope).await {
                Answer::Refused(status) => return Ok(status),
                last if Instant::now() + pause > until => return Err(last.to_string()),
                Answer::Accepted | Answer::Nothing(_) => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_millis(100));
                }
            }
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted => f.write_str("the API server accepts the token"),
            Self::Refused(status) => write!(f, "the API server refuses the token with {status}"),
            Self::Nothing(why) => write!(f, "no proof: {why}"),
        }
    }
}
