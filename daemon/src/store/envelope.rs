//! What a saved plan or a state is at rest: the bytes themselves, or encrypted with a data key that Vault wrapped.
//!
//! An encrypted row is `NUL s b x`, the version 1, the length of the wrapped key (two bytes, big endian), that key, a
//! nonce of 12 bytes, and the bytes under AES-256-GCM. A plan begins with `PK` and a state with `{`, so no plain row
//! looks like one. Head and row are authenticated as well: a row that was put in another's place does not open.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use sandbox_core::names::RootName;
use secrecy::{ExposeSecret as _, SecretSlice};
use zeroize::Zeroizing;

const MAGIC: &[u8] = b"\0sbx";
const VERSION: u8 = 1;
/// Up to where the wrapped key begins: magic, version and its length.
const HEAD: usize = MAGIC.len() + 3;

/// Bytes as a row has them. Not printable.
pub struct Envelope(SecretSlice<u8>);

/// What a row is of. It opens as that alone.
#[derive(Clone, Copy, Debug)]
pub enum Of<'a> {
    /// The plan file with that SHA-256.
    Plan {
        /// Of which root.
        root: &'a RootName,
        /// Of the file as Terraform wrote it.
        digest: &'a [u8; 32],
    },
    /// A version of a state.
    State {
        /// Of which root.
        root: &'a RootName,
        /// Terraform's mark of where it began.
        lineage: &'a str,
        /// Terraform's count of its versions.
        serial: u64,
    },
}

/// A key to encrypt rows with, and itself as Vault wrapped it. Not printable.
pub struct DataKey {
    key: LessSafeKey,
    wrapped: String,
}

/// Why a row was not made or does not open.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum EnvelopeError {
    /// It is encrypted, and there is no key.
    #[error(
        "it is encrypted with a key of Vault's, and sandboxd.toml names none: put vault.transit back as it was"
    )]
    NoKey,
    /// A later sandboxd wrote it.
    #[error("it is encrypted in a way of version {0}, and this sandboxd knows version 1")]
    Newer(u8),
    /// Its beginning is not what it should be.
    #[error("its beginning is damaged")]
    Malformed,
    /// It was changed, is in the place of another one, or is of another key.
    #[error("it is not what was written there, or not of that key")]
    Changed,
    /// A key that is no key of ours.
    #[error("the key is not 256 bits long with a wrapping of at most 64 KiB")]
    NoDataKey,
    /// The system gave no random bytes.
    #[error("the system gave no random bytes")]
    NoRandom,
}

impl DataKey {
    /// A key of 32 bytes that Vault wrapped.
    ///
    /// # Errors
    /// [`EnvelopeError::NoDataKey`]
    pub fn new(key: &[u8], wrapped: String) -> Result<Self, EnvelopeError> {
        let key = UnboundKey::new(&AES_256_GCM, key).map_err(|_| EnvelopeError::NoDataKey)?;
        if wrapped.is_empty() || u16::try_from(wrapped.len()).is_err() {
            return Err(EnvelopeError::NoDataKey);
        }
        let key = LessSafeKey::new(key);
        Ok(Self { key, wrapped })
    }
}

impl Envelope {
    /// Encrypts, where there is a key.
    ///
    /// # Errors
    /// [`EnvelopeError::NoRandom`]
    pub fn close(plain: &[u8], of: Of<'_>, key: Option<&DataKey>) -> Result<Self, EnvelopeError> {
        let Some(DataKey { key, wrapped }) = key else {
            return Ok(Self(SecretSlice::from(plain.to_vec())));
        };
        // Random nonces: a key is for one plan, or for the states of one apply.
        let nonce: [u8; NONCE_LEN] = crate::random::bytes().map_err(|_| EnvelopeError::NoRandom)?;
        let length = u16::try_from(wrapped.len()).map_err(|_| EnvelopeError::NoDataKey)?;
        let head = [MAGIC, &[VERSION], &length.to_be_bytes(), wrapped.as_bytes()].concat();
        let mut body = Zeroizing::new(Vec::with_capacity(plain.len() + AES_256_GCM.tag_len()));
        body.extend_from_slice(plain);
        key.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(of.beside(&head)),
            &mut *body,
        )
        .map_err(|_| EnvelopeError::NoDataKey)?;
        Ok(Self(SecretSlice::from([&head, &nonce[..], &body].concat())))
    }

    /// The key of an encrypted one, as Vault wrapped it; `None` for a plain one.
    ///
    /// # Errors
    /// [`EnvelopeError::Newer`] and [`EnvelopeError::Malformed`]
    pub fn wrapped_key(&self) -> Result<Option<&str>, EnvelopeError> {
        Ok(self.parts()?.map(|parts| parts.wrapped))
    }

    /// Decrypts, where it is encrypted. `key` is the unwrapped one of [`Self::wrapped_key`].
    ///
    /// # Errors
    /// [`EnvelopeError::NoKey`] and [`EnvelopeError::Changed`]; else as for [`Self::wrapped_key`].
    pub fn open(
        &self,
        of: Of<'_>,
        key: Option<&DataKey>,
    ) -> Result<SecretSlice<u8>, EnvelopeError> {
        let Some(parts) = self.parts()? else {
            return Ok(SecretSlice::from(self.as_row().to_vec()));
        };
        let DataKey { key, .. } = key.ok_or(EnvelopeError::NoKey)?;
        let nonce =
            Nonce::try_assume_unique_for_key(parts.nonce).map_err(|_| EnvelopeError::Malformed)?;
        let mut body = Zeroizing::new(parts.body.to_vec());
        let plain = key
            .open_in_place(nonce, Aad::from(of.beside(parts.head)), &mut body)
            .map_err(|_| EnvelopeError::Changed)?;
        Ok(SecretSlice::from(plain.to_vec()))
    }

    pub(super) fn of_row(row: Vec<u8>) -> Self {
        Self(SecretSlice::from(row))
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "into its row, in a folder closed to everybody else, or to be decrypted"
    )]
    pub(super) fn as_row(&self) -> &[u8] {
        self.0.expose_secret()
    }

    fn parts(&self) -> Result<Option<Parts<'_>>, EnvelopeError> {
        let row = self.as_row();
        if !row.starts_with(MAGIC) {
            return Ok(None);
        }
        let [version, high, low] = row[MAGIC.len()..]
            .first_chunk()
            .ok_or(EnvelopeError::Malformed)?;
        if *version != VERSION {
            return Err(EnvelopeError::Newer(*version));
        }
        let end = HEAD + usize::from(u16::from_be_bytes([*high, *low]));
        let (head, rest) = row.split_at_checked(end).ok_or(EnvelopeError::Malformed)?;
        let (nonce, body) = rest
            .split_at_checked(NONCE_LEN)
            .ok_or(EnvelopeError::Malformed)?;
        let wrapped = std::str::from_utf8(&head[HEAD..]).map_err(|_| EnvelopeError::Malformed)?;
        Ok(Some(Parts {
            head,
            wrapped,
            nonce,
            body,
        }))
    }
}

/// The parts of an encrypted row.
struct Parts<'a> {
    head: &'a [u8],
    wrapped: &'a str,
    nonce: &'a [u8],
    body: &'a [u8],
}

impl Of<'_> {
    /// What is authenticated beside the bytes: each part with its length, so that no two rows have the same.
    fn beside(&self, head: &[u8]) -> Vec<u8> {
        let parts: [&[u8]; 5] = match self {
            Self::Plan { root, digest } => [head, b"plan", root.as_str().as_bytes(), *digest, b""],
            Self::State {
                root,
                lineage,
                serial,
            } => [
                head,
                b"state",
                root.as_str().as_bytes(),
                lineage.as_bytes(),
                &serial.to_be_bytes(),
            ],
        };
        let mut all = Vec::new();
        for part in parts {
            all.extend_from_slice(&(part.len() as u64).to_be_bytes());
            all.extend_from_slice(part);
        }
        all
    }
}

#[cfg(test)]
mod tests;
