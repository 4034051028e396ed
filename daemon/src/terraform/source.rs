//! What a root is right now: its files, packed and checked, and the values of its secret variables.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use ring::digest::{Context, SHA256, digest};
use ring::hmac;
use sandbox_bundle::{Bundle, Limits, RootFolder};
use zeroize::Zeroizing;

use super::Root;
use super::variables::{self, FromVault};
use crate::config;
use crate::report::{Code, Failure};
use crate::request::Parts;
use crate::store::MadeFrom;

/// In the state folder.
const KEY_FILE: &str = "digest.key";
pub(super) const NO_LINKS: i32 = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();

/// A root as it is now.
pub(super) struct Source {
    pub(super) bundle: Bundle,
    pub(super) tar: Vec<u8>,
    /// Values of secret variables, as JSON; `None` where there are none.
    pub(super) variables: Option<Zeroizing<Vec<u8>>>,
    /// Keyed: a plain hash of a weak secret tells it to whoever guesses.
    pub(super) variables_digest: [u8; 32],
}

impl Source {
    /// Reads, packs and checks. On a thread of its own: a disk may take its time.
    pub(super) async fn read(root: &Root, parts: &Parts) -> Result<Self, Failure> {
        let from_vault = variables::from_vault(root, parts).await?;
        let (root, limits, key) = (root.clone(), parts.limits.clone(), parts.keyed.clone());
        let providers = parts.sandboxes.providers().to_vec();
        let read = tokio::task::spawn_blocking(move || {
            let key = (&key, &from_vault);
            Self::read_now(&root, &limits, &providers, key)
        });
        read.await.unwrap_or_else(|panic| {
            tracing::error!(%panic, "packing a root panicked");
            Err(Failure::new(
                Code::Internal,
                "sandboxd failed inside while it packed the source.",
            ))
        })
    }

    fn read_now(
        root: &Root,
        limits: &config::Limits,
        providers: &[config::Provider],
        (key, from_vault): (&Keyed, &FromVault),
    ) -> Result<Self, Failure> {
        let settings = &root.settings;
        let folder = RootFolder {
            folder: settings.folder.clone(),
            var_files: settings.var_files.clone(),
            data: settings.data_files.clone(),
        };
        let bundle = Bundle::pack(&folder, &bundle_limits(limits)).map_err(|e| {
            Failure::new(
                Code::SourceRefused,
                format!("The source could not be packed: {e}."),
            )
        })?;
        super::check::source(&bundle, providers, &settings.state)?;
        let variables = variables::json(settings, from_vault)?;
        let variables_digest = key.of(variables.as_deref().map_or(&[], Vec::as_slice));
        Ok(Self {
            tar: bundle.to_tar(),
            bundle,
            variables,
            variables_digest,
        })
    }

    /// What a plan of this is made from.
    pub(super) fn made_from(
        &self,
        root: &Root,
        image: &str,
        state: Option<(&str, u64)>,
    ) -> MadeFrom {
        let mut inputs = Context::new(&SHA256);
        inputs.update(b"agent-sandbox plan inputs 1\n");
        inputs.update(&root.settings_digest());
        inputs.update(&self.variables_digest);
        inputs.update(image.as_bytes());
        let (lineage, serial) = state.unwrap_or_default();
        MadeFrom {
            bundle: self.bundle.digest(),
            inputs: bytes(inputs.finish().as_ref()),
            lineage: lineage.to_owned(),
            serial,
        }
    }

    /// Of the lock file, which must be there.
    pub(super) fn lock_digest(&self) -> [u8; 32] {
        sha256(self.bundle.lock_file().unwrap_or_default())
    }
}

pub(super) fn bundle_limits(limits: &config::Limits) -> Limits {
    Limits {
        bytes: limits.bundle_bytes,
        files: limits.bundle_files,
        ..Limits::default()
    }
}

/// Keys the digest of secret values. It is kept, since approvals outlive a run of the daemon.
#[derive(Clone)]
pub struct Keyed(hmac::Key);

impl Keyed {
    /// The one of a state folder, which is made where there is none.
    ///
    /// # Errors
    /// When it can neither be read nor made, or is not 32 bytes long and closed to everybody else.
    pub fn open(directory: &Path) -> io::Result<Self> {
        let path = directory.join(KEY_FILE);
        let mut options = File::options();
        options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(NO_LINKS);
        match options.open(&path) {
            Ok(mut file) => {
                let key: [u8; 32] = crate::random::bytes()
                    .map_err(|_| io::Error::other("the system gave no random bytes"))?;
                file.write_all(&key)?;
                file.sync_all()?;
                File::open(directory)?.sync_all()?;
                Ok(Self::new(&key))
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                let mut file = File::options()
                    .read(true)
                    .custom_flags(NO_LINKS)
                    .open(&path)?;
                let meta = file.metadata()?;
                let mut key = Zeroizing::new([0; 32]);
                if !meta.is_file() || meta.mode() & 0o077 != 0 || meta.len() != 32 {
                    return Err(io::Error::other(format!(
                        "{KEY_FILE} must be a plain file of 32 bytes, closed to everybody else"
                    )));
                }
                file.read_exact(&mut *key)?;
                Ok(Self::new(&key))
            }
            Err(e) => Err(e),
        }
    }

    fn new(key: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    fn of(&self, values: &[u8]) -> [u8; 32] {
        bytes(hmac::sign(&self.0, values).as_ref())
    }
}

impl std::fmt::Debug for Keyed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keyed")
    }
}

pub(super) fn sha256(data: &[u8]) -> [u8; 32] {
    bytes(digest(&SHA256, data).as_ref())
}

pub(super) fn bytes(digest: &[u8]) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn the_key_of_digests_is_made_once_and_must_stay_closed() {
        let folder = tempfile::tempdir().unwrap();
        let first = Keyed::open(folder.path()).unwrap().of(b"a");
        assert_eq!(Keyed::open(folder.path()).unwrap().of(b"a"), first);
        let elsewhere = tempfile::tempdir().unwrap();
        assert_ne!(Keyed::open(elsewhere.path()).unwrap().of(b"a"), first);
        let file = folder.path().join(KEY_FILE);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(Keyed::open(folder.path()).is_err());
    }
}
