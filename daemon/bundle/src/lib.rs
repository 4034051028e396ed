//! Packs a Terraform root into a bundle, and refuses source that would do more than its plan shows.
//!
//! What was packed is what is planned, reviewed and applied: a bundle is plain files in a fixed order, named
//! by one digest. The source is read the way Terraform reads it, and what cannot be read is refused, since
//! some of what Terraform runs (provisioners, an `exec` in a provider block) shows up nowhere in a plan.
//!
//! Functions that read files (`file`, `templatefile`, `fileset`, `abspath` and their like) are left alone.
//! They are evaluated in the sandbox, where the bundle, the image and nothing else can be read: the
//! credential is in the runner's memory and never in a file, and values do not reach the agent.

mod path;
mod names;
mod limits;
mod folder;
mod pack;
mod bundle;
mod tar;
mod diff;
mod source;
mod check;
pub mod lock;

pub use bundle::{Bundle, BundleError, File};
pub use check::survey;
pub use check::{ProviderSource, ProviderSourceError, Rules, SourceFault};
pub use diff::{FileAction, FileDiff, diff};
pub use limits::{LimitError, Limits};
pub use pack::{PackError, RootFolder};
pub use path::{BundlePath, PathError};
pub use tar::TarError;
