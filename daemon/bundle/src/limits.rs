//! How much a bundle may be.

use crate::path::BundlePath;

/// How much a bundle may be. Each refusal names its own limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Bytes of all files together.
    pub bytes: usize,
    /// Files.
    pub files: usize,
    /// Folders between the root's own and a file.
    pub depth: usize,
    /// Names looked at in folders, packed or not.
    pub entries: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 8 << 20,
            files: 1_000,
            depth: 8,
            entries: 20_000,
        }
    }
}

/// Which limit was passed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum LimitError {
    /// [`Limits::bytes`]
    #[error("the files are more than {limit} bytes together; {path} was the one too many")]
    Bytes {
        /// The limit.
        limit: usize,
        /// The file that was being read.
        path: BundlePath,
    },
    /// [`Limits::files`]
    #[error("there are more than {limit} files; {path} was the one too many")]
    Files {
        /// The limit.
        limit: usize,
        /// The first one too many.
        path: BundlePath,
    },
    /// [`Limits::depth`]
    #[error("{path} is more than {limit} folders deep")]
    Depth {
        /// The limit.
        limit: usize,
        /// The file.
        path: BundlePath,
    },
    /// [`Limits::entries`]
    #[error("the folders have more than {limit} entries; {folder:?} was being read")]
    Entries {
        /// The limit.
        limit: usize,
        /// As seen from the root's folder; empty is that itself.
        folder: String,
    },
}

/// What is left of [`Limits`].
#[derive(Debug)]
pub(crate) struct Budget {
    limits: Limits,
    bytes: usize,
    files: usize,
    entries: usize,
}

impl Budget {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            limits: *limits,
            bytes: limits.bytes,
            files: limits.files,
            entries: limits.entries,
        }
    }

    /// How many bytes the next file may have.
    pub(crate) fn bytes_left(&self) -> usize {
        self.bytes
    }

    /// Counts a file that has `length` bytes, or as many as were read of it.
    pub(crate) fn take_file(&mut self, path: &BundlePath, length: usize) -> Result<(), LimitError> {
        if path.depth() > self.limits.depth {
            return Err(LimitError::Depth {
                limit: self.limits.depth,
                path: path.clone(),
            });
        }
        self.files = self.files.checked_sub(1).ok_or_else(|| LimitError::Files {
            limit: self.limits.files,
            path: path.clone(),
        })?;
        self.bytes = self
            .bytes
            .checked_sub(length)
            .ok_or_else(|| LimitError::Bytes {
                limit: self.limits.bytes,
                path: path.clone(),
            })?;
        Ok(())
    }

    /// Counts a name in `folder`.
    pub(crate) fn take_entry(&mut self, folder: &str) -> Result<(), LimitError> {
        self.entries = self
            .entries
            .checked_sub(1)
            .ok_or_else(|| LimitError::Entries {
                limit: self.limits.entries,
                folder: folder.to_owned(),
            })?;
        Ok(())
    }
}
