//! A bundle: plain files in a fixed order, named by one digest.

use std::collections::BTreeMap;
use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::limits::{Budget, LimitError, Limits};
use crate::path::{BundlePath, LOCK_FILE};
use crate::tar;

/// One file of a bundle, byte for byte as it was on disk.
#[derive(Clone, Eq, PartialEq)]
pub struct File {
    /// Where it is.
    pub path: BundlePath,
    /// What is in it.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for File {
    /// Without the bytes: there may be values in them that nobody should find in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.path, self.bytes.len())
    }
}

/// A packed root. Two bundles with the same digest have the same files, byte for byte.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Bundle {
    files: Vec<File>,
    digest: [u8; 32],
}

/// Why files do not make a bundle.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BundleError {
    /// Two files, or a file and a folder, share a path.
    #[error("{0} is there twice")]
    Twice(BundlePath),
    /// Some file systems would take one for the other.
    #[error("{first} and {second} differ by case alone; rename one of them")]
    Case {
        /// One of them, or its folder.
        first: String,
        /// The other one.
        second: String,
    },
    /// It is too much.
    #[error(transparent)]
    Limit(#[from] LimitError),
}

impl Bundle {
    /// Makes a bundle of files, in whatever order they come.
    ///
    /// # Errors
    /// [`BundleError`]: a path twice, paths that differ by case alone, a passed limit.
    pub fn new(mut files: Vec<File>, limits: &Limits) -> Result<Self, BundleError> {
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let mut budget = Budget::new(limits);
        for file in &files {
            budget.take_file(&file.path, file.bytes.len())?;
        }
        check_paths(&files)?;
        let digest = Sha256::digest(tar::write(&files)).into();
        Ok(Self { files, digest })
    }

    /// The files, sorted by path, byte by byte.
    #[must_use]
    pub fn files(&self) -> &[File] {
        &self.files
    }

    /// What is in the file at `path`.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<&[u8]> {
        self.files
            .binary_search_by(|file| file.path.as_str().cmp(path))
            .ok()
            .map(|at| self.files[at].bytes.as_slice())
    }

    /// SHA-256 of [`Bundle::to_tar`].
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// The dependency lock file, if the root has one.
    #[must_use]
    pub fn lock_file(&self) -> Option<&[u8]> {
        self.file(LOCK_FILE)
    }

    /// The bundle as a POSIX tar (ustar): sorted by path, plain files only, mode 0644, no owner, no time.
    /// The same files give the same bytes.
    #[must_use]
    pub fn to_tar(&self) -> Vec<u8> {
        tar::write(&self.files)
    }

    /// Reads what [`Bundle::to_tar`] wrote, and nothing else.
    ///
    /// # Errors
    /// [`tar::TarError`]
    pub fn from_tar(bytes: &[u8], limits: &Limits) -> Result<Self, tar::TarError> {
        let bundle = Self::new(tar::read(bytes, limits)?, limits)?;
        // One bundle has one form: nothing hides in padding, fields that nobody reads, or behind the end.
        if bundle.to_tar() != bytes {
            return Err(tar::TarError::NotOurs);
        }
        Ok(bundle)
    }
}

fn check_paths(files: &[File]) -> Result<(), BundleError> {
    // Every file and every folder, by its lower-case form.
    let mut seen: BTreeMap<String, (&str, bool)> = BTreeMap::new();
    for File { path, .. } in files {
        let text = path.as_str();
        let ends = text.match_indices('/').map(|(at, _)| (at, false));
        for (end, is_file) in ends.chain([(text.len(), true)]) {
            let name = &text[..end];
            match seen.insert(name.to_lowercase(), (name, is_file)) {
                Some((other, _)) if other != name => {
                    return Err(BundleError::Case {
                        first: other.to_owned(),
                        second: name.to_owned(),
                    });
                }
                Some((_, was_file)) if was_file || is_file => {
                    return Err(BundleError::Twice(path.clone()));
                }
                Some(_) | None => {}
            }
        }
    }
    Ok(())
}
