//! Where the image has what the runner needs, and where it may write.

use std::path::PathBuf;

/// The folders and programs of an attached runner. The image's, unless its command line says otherwise.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Places {
    /// A folder in memory that this user may write: `/work`. Nothing is written elsewhere.
    pub work: PathBuf,
    /// Terraform's program: `/terraform`.
    pub terraform: PathBuf,
    /// The provider mirror, in Terraform's unpacked layout: `/providers`.
    pub providers: PathBuf,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            work: "/work".into(),
            terraform: "/terraform".into(),
            providers: "/providers".into(),
        }
    }
}
