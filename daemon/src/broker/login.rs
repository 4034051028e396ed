//! The daemon's login, and what it asks Vault for as itself: keys for what it keeps, and values of variables.

use std::sync::Arc;

use secrecy::{SecretSlice, SecretString};

use super::session::{Session, SessionError, Sessions};
use super::vault::{Fields, Vault, VaultError};
use crate::clock::Clock;
use crate::config::{self, KvPath, Transit};
use crate::report::Code;
use crate::store::{DataKey, Envelope, EnvelopeError, Of, Store, StoreError};

/// The daemon's login to Vault. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Login {
    pub(super) vault: Arc<Vault>,
    pub(super) sessions: Arc<Sessions>,
    transit: Option<Transit>,
}

/// Why something of the daemon's own was not to be had.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// Vault did not do it.
    #[error(transparent)]
    Vault(#[from] VaultError),
    /// There is nothing at a path of a KV engine.
    #[error("there is no such secret, or its newest version is deleted")]
    NoSecret,
    /// The journal did not take the login.
    #[error("the journal did not take the login")]
    Store(#[from] StoreError),
    /// What is kept does not open, or was not made.
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
}

impl LoginError {
    /// The code callers get.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Vault(e) => e.code(),
            Self::NoSecret => Code::VaultRefused,
            Self::Store(_) | Self::Envelope(_) => Code::StoreUnavailable,
        }
    }

    /// A clause for callers, without the daemon's paths.
    #[must_use]
    pub fn for_callers(&self) -> String {
        match self {
            Self::Vault(e) => e.for_callers(),
            Self::NoSecret | Self::Store(_) | Self::Envelope(_) => self.to_string(),
        }
    }
}

impl From<SessionError> for LoginError {
    fn from(e: SessionError) -> Self {
        match e {
            SessionError::Vault(e) => Self::Vault(e),
            SessionError::Store(e) => Self::Store(e),
        }
    }
}

/// The fields of a secret. Not printable.
pub struct Secret(Fields);

impl Secret {
    /// A field that is a text.
    ///
    /// # Errors
    /// A clause that says what is wrong.
    pub fn field(&self, name: &str) -> Result<&SecretString, &'static str> {
        match self.0.get(name) {
            Some(Some(text)) => Ok(text),
            Some(None) => Err("that field is no text"),
            None => Err("there is no such field"),
        }
    }
}

impl Login {
    /// Prepares one. Vault is not asked for anything yet.
    ///
    /// # Errors
    /// When the configuration's files cannot be read or the client cannot be made.
    pub fn new(config: &config::Vault, store: Store, clock: Clock) -> anyhow::Result<Self> {
        Ok(Self {
            vault: Arc::new(Vault::new(config)?),
            sessions: Arc::new(Sessions::new(config.clone(), store, clock)),
            transit: config.transit.clone(),
        })
    }

    /// A new key for what is kept; `None` where none is configured.
    ///
    /// # Errors
    /// What kept it.
    pub async fn data_key(&self) -> Result<Option<DataKey>, LoginError> {
        let Some(transit) = &self.transit else {
            return Ok(None);
        };
        let made = self.ask(|by| async move { self.vault.data_key(&by, transit).await });
        let made = made.await?;
        Ok(Some(DataKey::new(&made.key, made.wrapped)?))
    }

    /// What is in a row. Vault is asked where that is encrypted.
    ///
    /// # Errors
    /// What keeps it closed.
    pub async fn open(&self, row: &Envelope, of: Of<'_>) -> Result<SecretSlice<u8>, LoginError> {
        let key = match (row.wrapped_key()?, &self.transit) {
            (Some(wrapped), Some(transit)) => {
                let key = self
                    .ask(|by| async move { self.vault.unwrap_key(&by, transit, wrapped).await });
                let key = key.await?;
                Some(DataKey::new(&key, wrapped.to_owned())?)
            }
            _ => None,
        };
        Ok(row.open(of, key.as_ref())?)
    }

    /// The newest version of a secret in a KV engine.
    ///
    /// # Errors
    /// What kept it.
    pub async fn secret(&self, at: &KvPath) -> Result<Secret, LoginError> {
        let fields = self.ask(|by| async move { self.vault.read_secret(&by, at).await });
        fields.await.map(Secret).map_err(|e| match e {
            LoginError::Vault(VaultError::Refused { status: 404, .. }) => LoginError::NoSecret,
            e @ (LoginError::Vault(_)
            | LoginError::NoSecret
            | LoginError::Store(_)
            | LoginError::Envelope(_)) => e,
        })
    }

    /// Gives the login back. What still hangs from it ends with it.
    pub async fn end(&self) {
        self.sessions.end(&self.vault).await;
    }

    /// Vault may have lost the login, restored from a snapshot or by an operator's hand: then with another one.
    async fn ask<T, F>(&self, what: impl Fn(Arc<Session>) -> F) -> Result<T, LoginError>
    where
        F: Future<Output = Result<T, VaultError>>,
    {
        let session = self.sessions.current(&self.vault).await?;
        match what(Arc::clone(&session)).await {
            Err(VaultError::Refused { status: 403, .. }) => {
                self.sessions.forget(&session).await;
                let fresh = self.sessions.current(&self.vault).await?;
                Ok(what(fresh).await?)
            }
            answer => Ok(answer?),
        }
    }
}
