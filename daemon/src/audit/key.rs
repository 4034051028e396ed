//! The key that signs checkpoints.

use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use sandbox_core::audit::{Checkpoint, Head, PublicKey, Signature, UtcMillis};
use zeroize::Zeroizing;

use super::error::AuditError;
use super::folder::{self, Folder};

/// Its name in the state folder.
pub(super) const FILE: &str = "audit.key";

/// Whether `signature` is this key's Ed25519 signature of `message`.
#[must_use]
pub fn check_signature(key: &PublicKey, message: &[u8], signature: &Signature) -> bool {
    UnparsedPublicKey::new(&ED25519, key.0)
        .verify(message, &signature.0)
        .is_ok()
}

/// Signs how far the trail has come.
#[derive(Debug)]
pub(super) struct Signer {
    pair: Ed25519KeyPair,
    key: PublicKey,
}

impl Signer {
    /// Reads the folder's key, or makes one for a trail that knows none yet. Says whether it did.
    ///
    /// A trail with checkpoints wants the key that signed them: another one would look to every
    /// approver like somebody else's trail, and is.
    pub(super) fn load(
        folder: &Folder,
        known: Option<PublicKey>,
    ) -> Result<(Self, bool), AuditError> {
        let path = folder.file(FILE);
        let refused = |why: String| AuditError::Key {
            path: path.clone(),
            why,
        };
        let (pkcs8, made) = match (folder::read_private(&path)?, known) {
            (Some(pkcs8), _) => (Zeroizing::new(pkcs8), false),
            (None, None) => (make(folder)?, true),
            (None, Some(known)) => {
                return Err(refused(format!(
                    "is missing, and the trail's checkpoints are signed by {known}"
                )));
            }
        };
        let pair = Ed25519KeyPair::from_pkcs8(&pkcs8)
            .map_err(|e| refused(format!("is not an Ed25519 key in PKCS#8 ({e})")))?;
        let mut key = PublicKey([0; 32]);
        key.0.copy_from_slice(pair.public_key().as_ref());
        match known {
            Some(known) if known != key => Err(refused(format!(
                "is {key}, and the trail's checkpoints are signed by {known}"
            ))),
            Some(_) | None => Ok((Self { pair, key }, made)),
        }
    }

    /// A signed statement that the trail has come to `head`.
    pub(super) fn sign(&self, head: Head, time: UtcMillis) -> Checkpoint {
        let mut signature = Signature([0; 64]);
        signature.0.copy_from_slice(
            self.pair
                .sign(&Checkpoint::signed_bytes(head, time))
                .as_ref(),
        );
        Checkpoint {
            head,
            time,
            key: self.key,
            signature,
        }
    }
}

fn make(folder: &Folder) -> Result<Zeroizing<Vec<u8>>, AuditError> {
    let no_randomness = |_| AuditError::Key {
        path: folder.file(FILE),
        why: "could not be made: the system gave no randomness".to_owned(),
    };
    let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(no_randomness)?;
    let pkcs8 = Zeroizing::new(pkcs8.as_ref().to_vec());
    folder.write(FILE, &pkcs8)?;
    Ok(pkcs8)
}
