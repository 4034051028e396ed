//! What the daemon asks Vault for as itself: keys for what it keeps, and values of variables.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustify_derive::Endpoint;
use secrecy::{ExposeSecret as _, SecretString};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use vaultrs::api::EndpointResult;
use zeroize::Zeroizing;

use super::{Vault, VaultError};
use crate::broker::session::Session;
use crate::config::{KvPath, Transit};

/// A data key, and itself as Vault wrapped it.
pub(in crate::broker) struct Wrapped {
    pub(in crate::broker) key: Zeroizing<Vec<u8>>,
    pub(in crate::broker) wrapped: String,
}

/// The fields of a secret. One that is no text is `None`.
pub(in crate::broker) type Fields = BTreeMap<String, Option<SecretString>>;

#[derive(Debug, Endpoint, Serialize)]
#[endpoint(path = "{self.mount}/datakey/plaintext/{self.key}", method = "POST")]
struct NewDataKey {
    #[endpoint(skip)]
    #[serde(skip)]
    mount: String,
    #[endpoint(skip)]
    #[serde(skip)]
    key: String,
    bits: u16,
}

#[derive(Debug, Endpoint, Serialize)]
#[endpoint(path = "{self.mount}/decrypt/{self.key}", method = "POST")]
struct Decrypt {
    #[endpoint(skip)]
    #[serde(skip)]
    mount: String,
    #[endpoint(skip)]
    #[serde(skip)]
    key: String,
    ciphertext: String,
}

#[derive(Debug, Endpoint, Serialize)]
#[endpoint(path = "{self.mount}/data/{self.path}", method = "GET")]
struct ReadSecret {
    #[endpoint(skip)]
    #[serde(skip)]
    mount: String,
    #[endpoint(skip)]
    #[serde(skip)]
    path: String,
}

#[derive(Deserialize)]
struct NewKey {
    plaintext: SecretString,
    #[serde(default)]
    ciphertext: String,
}

#[derive(Deserialize)]
struct KnownKey {
    plaintext: SecretString,
}

#[derive(Deserialize)]
struct SecretAnswer {
    data: BTreeMap<String, Field>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Field {
    Text(SecretString),
    Other(IgnoredAny),
}

impl Vault {
    /// A new key of 256 bits.
    pub(in crate::broker) async fn data_key(
        &self,
        by: &Session,
        with: &Transit,
    ) -> Result<Wrapped, VaultError> {
        const CALL: &str = "a data key";
        let endpoint = NewDataKey {
            mount: with.mount.to_string(),
            key: with.key.to_string(),
            bits: 256,
        };
        let answer: NewKey = self.data_of(CALL, by, endpoint).await?;
        Ok(Wrapped {
            key: decoded(CALL, &answer.plaintext)?,
            wrapped: answer.ciphertext,
        })
    }

    /// The key that was wrapped so.
    pub(in crate::broker) async fn unwrap_key(
        &self,
        by: &Session,
        with: &Transit,
        wrapped: &str,
    ) -> Result<Zeroizing<Vec<u8>>, VaultError> {
        const CALL: &str = "the decryption of a data key";
        let endpoint = Decrypt {
            mount: with.mount.to_string(),
            key: with.key.to_string(),
            ciphertext: wrapped.to_owned(),
        };
        let answer: KnownKey = self.data_of(CALL, by, endpoint).await?;
        decoded(CALL, &answer.plaintext)
    }

    /// What the newest version of a secret has.
    pub(in crate::broker) async fn read_secret(
        &self,
        by: &Session,
        at: &KvPath,
    ) -> Result<Fields, VaultError> {
        let endpoint = ReadSecret {
            mount: at.mount().to_owned(),
            path: at.path().to_owned(),
        };
        let answer: SecretAnswer = self.data_of("a secret's fields", by, endpoint).await?;
        let fields = answer.data.into_iter().map(|(name, field)| match field {
            Field::Text(text) => (name, Some(text)),
            Field::Other(_) => (name, None),
        });
        Ok(fields.collect())
    }

    async fn data_of<T: DeserializeOwned + Send + Sync>(
        &self,
        call: &'static str,
        by: &Session,
        endpoint: impl rustify::endpoint::Endpoint<Response = ()>,
    ) -> Result<T, VaultError> {
        let answer = self.call(call, Some(&by.token), endpoint).await?;
        // The parser's error is dropped on purpose: it carries the answer, key included.
        let malformed = || VaultError::Malformed { call };
        let envelope: EndpointResult<T> =
            serde_json::from_slice(answer.response.body()).map_err(|_| malformed())?;
        envelope.data.ok_or_else(malformed)
    }
}

fn decoded(call: &'static str, key: &SecretString) -> Result<Zeroizing<Vec<u8>>, VaultError> {
    #[expect(
        clippy::disallowed_methods,
        reason = "from Vault's spelling of a key into a cipher, in this process"
    )]
    let key = STANDARD.decode(key.expose_secret());
    key.map(Zeroizing::new)
        .map_err(|_| VaultError::Malformed { call })
}
