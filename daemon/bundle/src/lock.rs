//! The dependency lock file against the providers of the image.
//!
//! `terraform init -lockfile=readonly` would refuse the same in the sandbox; here it is said before anything
//! runs, and with the command that mends it. Line ends do not matter: Terraform reads CRLF as it is.

use std::collections::BTreeSet;

use crate::bundle::Bundle;
use crate::check::ProviderSource;
use crate::names::Role;
use crate::path::LOCK_FILE;
use crate::source::{Found, Literal, Source};

/// A provider in the image.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Available {
    /// With its host.
    pub source: ProviderSource,
    /// e.g. `2.38.0`
    pub version: String,
    /// Of its package for the image's platform, as in a lock file: `h1:…`, and `zh:…` where it is known.
    pub hashes: Vec<String>,
}

/// Why the root's lock file does not fit the image. Whole sentences are made of them by `Display`, the
/// command that mends it included.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum LockFault {
    /// The source uses providers, and there is no lock file.
    #[error(
        "the root has no {LOCK_FILE}, so which providers it uses is not fixed; run `{mend}` in its folder"
    )]
    Missing {
        /// The command.
        mend: String,
    },
    /// It cannot be read.
    #[error("{LOCK_FILE}:{line}: {problem}; delete the file and run `{mend}` in the root's folder")]
    Unreadable {
        /// Counted from 1.
        line: u32,
        /// What stands there.
        problem: String,
        /// The command.
        mend: String,
    },
    /// It says nothing of a provider that the source uses.
    #[error(
        "{LOCK_FILE} has no entry for the provider {provider}; run `{mend}` in the root's folder"
    )]
    NotLocked {
        /// Which.
        provider: String,
        /// The command.
        mend: String,
    },
    /// The image does not have this provider, or not in this version.
    #[error(
        "{LOCK_FILE}:{line}: it wants {provider} {version}, and the image has {available}; build the image with that version, or lock the image's"
    )]
    Version {
        /// Counted from 1.
        line: u32,
        /// Which.
        provider: String,
        /// The one in the lock file.
        version: String,
        /// Those in the image.
        available: String,
    },
    /// It has no hash for the image's platform, as when it was made on another one.
    #[error(
        "{LOCK_FILE}:{line}: none of its hashes is that of {provider} {version} in the image, as when it was made on another platform; run `{mend}` in the root's folder, and if that changes nothing the image has another build of the provider than the registry"
    )]
    Platform {
        /// Counted from 1.
        line: u32,
        /// Which.
        provider: String,
        /// Its version.
        version: String,
        /// The command.
        mend: String,
    },
    /// It lists the release with all its platforms, and the image's package is not among them.
    #[error(
        "{LOCK_FILE}:{line}: DIFFERENT CONTENT: the lock file lists the packages of {provider} {version}, and the one in the image is none of them. Either the image was built from another package or one of the two was changed; find out which before going on"
    )]
    Differs {
        /// Counted from 1.
        line: u32,
        /// Which.
        provider: String,
        /// Its version.
        version: String,
    },
}

impl LockFault {
    /// Where in the lock file, counted from 1; `None` where it lacks something.
    #[must_use]
    pub fn line(&self) -> Option<u32> {
        match self {
            Self::Missing { .. } | Self::NotLocked { .. } => None,
            Self::Unreadable { line, .. }
            | Self::Version { line, .. }
            | Self::Platform { line, .. }
            | Self::Differs { line, .. } => Some(*line),
        }
    }
}

/// The command that mends a lock file where there is a registry. `platform` is the image's, e.g. `linux_amd64`.
#[must_use]
pub fn mend_by_registry(platform: &str) -> String {
    format!("terraform providers lock -platform={platform}")
}

/// Checks the lock file of a bundle. `mend` is the command, run in the root's folder, that mends it.
///
/// # Errors
/// Every [`LockFault`] there is.
pub fn check(bundle: &Bundle, image: &[Available], mend: &str) -> Result<(), Vec<LockFault>> {
    let mend = mend.to_owned();
    let used = bundle.providers();
    let Some(bytes) = bundle.lock_file() else {
        return if used.is_empty() {
            Ok(())
        } else {
            Err(vec![LockFault::Missing { mend }])
        };
    };
    let locked = match read(bytes) {
        Ok(locked) => locked,
        Err((line, problem)) => {
            return Err(vec![LockFault::Unreadable {
                line,
                problem,
                mend,
            }]);
        }
    };
    let mut faults: Vec<LockFault> = locked
        .iter()
        .filter(|locked| used.iter().any(|used| used.matches(&locked.source)))
        .filter_map(|locked| check_one(locked, image, &mend))
        .collect();
    let is_locked =
        |used: &&ProviderSource| locked.iter().any(|locked| locked.source.matches(used));
    faults.extend(
        used.iter()
            .filter(|used| !is_locked(used))
            .map(|used| LockFault::NotLocked {
                provider: used.to_string(),
                mend: mend.clone(),
            }),
    );
    if faults.is_empty() {
        Ok(())
    } else {
        Err(faults)
    }
}

/// One `provider` block of a lock file.
#[derive(Debug)]
struct Locked {
    line: u32,
    source: ProviderSource,
    version: String,
    hashes: BTreeSet<String>,
}

fn check_one(locked: &Locked, image: &[Available], mend: &str) -> Option<LockFault> {
    let line = locked.line;
    let provider = locked.source.to_string();
    let version = locked.version.clone();
    let same: Vec<&Available> = image
        .iter()
        .filter(|has| has.source.matches(&locked.source))
        .collect();
    let Some(has) = same.iter().find(|has| has.version == version) else {
        let versions: Vec<&str> = same.iter().map(|has| has.version.as_str()).collect();
        let available = if versions.is_empty() {
            "no such provider".to_owned()
        } else {
            versions.join(", ")
        };
        return Some(LockFault::Version {
            line,
            provider,
            version,
            available,
        });
    };
    if has.hashes.iter().any(|hash| locked.hashes.contains(hash)) {
        return None;
    }
    // A registry gives the hashes of all its packages of a release, `zh`, whatever platform asks; `h1` is
    // worked out from the package that was installed, so it says nothing of the others.
    let is_release_listed = locked.hashes.iter().any(|hash| hash.starts_with("zh:"));
    if is_release_listed && has.hashes.iter().any(|hash| hash.starts_with("zh:")) {
        return Some(LockFault::Differs {
            line,
            provider,
            version,
        });
    }
    Some(LockFault::Platform {
        line,
        provider,
        version,
        mend: mend.to_owned(),
    })
}

/// Reads a lock file; the error is a line and what stands there.
fn read(bytes: &[u8]) -> Result<Vec<Locked>, (u32, String)> {
    let source = Source::read(Role::Lock, bytes).map_err(|e| (e.line, e.problem))?;
    let view = source.view();
    if let Some(other) = view
        .names()
        .into_iter()
        .find(|name| name.text != "provider")
    {
        return Err((other.line, "something that is no provider block".to_owned()));
    }
    view.blocks("provider", 1).iter().map(locked).collect()
}

fn locked(block: &Found<'_>) -> Result<Locked, (u32, String)> {
    let fault = |line, problem: &str| (line, problem.to_owned());
    let source = block
        .label(0)
        .parse()
        .map_err(|_| fault(block.line, "a provider whose name is no source address"))?;
    let version = match &block.body.values("version")[..] {
        [(_, Literal::Text(version))] => version.clone(),
        _ => return Err(fault(block.line, "a provider without one version")),
    };
    let hashes = match &block.body.values("hashes")[..] {
        [] => BTreeSet::new(),
        [(line, Literal::List(hashes))] => hashes
            .iter()
            .map(|hash| hash.text().map(str::to_owned))
            .collect::<Option<_>>()
            .ok_or_else(|| fault(*line, "a hash that is no plain text"))?,
        [(line, _), ..] => return Err(fault(*line, "hashes that are no list")),
    };
    Ok(Locked {
        line: block.line,
        source,
        version,
        hashes,
    })
}
