//! Why the trail could not be opened, written or asked.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use sandbox_core::audit::{Fault, TooLarge};
use sandbox_core::ids::RequestId;

/// Why something is not in the trail. Cloned to everyone whose event shared a write.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AuditError {
    /// Too little space to open new work. Ends by itself when there is more.
    #[error("the disk of the audit trail has {free} bytes free, new calls need {needed}")]
    LowSpace {
        /// Bytes free.
        free: u64,
        /// Bytes that have to be free.
        needed: u64,
    },
    /// Not even the space held back is enough for an event that ends work.
    #[error("the disk of the audit trail is full, and the space held back is used up")]
    Full,
    /// The trail is not as it was written.
    #[error("the audit trail is damaged at {0}")]
    Damaged(Fault),
    /// The path names another file by now, or somebody else wrote to it.
    #[error("{0} is not as this daemon left it: {1}")]
    Displaced(PathBuf, &'static str),
    /// The disk failed in a way that leaves open what it holds.
    #[error("could not write the audit trail, and nothing more is written until a restart")]
    Broken(#[source] Arc<io::Error>),
    /// The event does not fit a line.
    #[error("could not write the event down")]
    TooLarge(#[from] TooLarge),
    /// Another daemon uses the folder.
    #[error("{path} is held by another sandboxd{}", pid_clause(*.pid))]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// What that daemon wrote into it.
        pid: Option<u32>,
    },
    /// The state folder or a file in it is not safe to use.
    #[error("{path} {why}")]
    Folder {
        /// What.
        path: PathBuf,
        /// Why not, as a clause.
        why: String,
    },
    /// The signing key cannot be used.
    #[error("the signing key {path} {why}")]
    Key {
        /// Its file.
        path: PathBuf,
        /// Why not, as a clause.
        why: String,
    },
    /// The system refused.
    #[error("could not {doing} {path}")]
    Io {
        /// What was being done, as a verb.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: Arc<io::Error>,
    },
    /// The trail was closed, or its thread ended.
    #[error("the audit trail is closed")]
    Closed,
}

impl AuditError {
    /// For `map_err` on what the system answered.
    pub(super) fn io(
        doing: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            doing,
            path,
            source: Arc::new(source),
        }
    }
}

fn pid_clause(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (pid {pid})"))
}

/// Why a question to the trail has no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum QueryError {
    /// No event is of a request with such an id.
    #[error("no event is of that request")]
    UnknownRequest,
    /// Several requests have ids that begin so.
    #[error("several requests begin so: {}{}", list(.ids), if *.more { ", and more" } else { "" })]
    Ambiguous {
        /// Some of them, oldest first.
        ids: Vec<RequestId>,
        /// Whether there are more.
        more: bool,
    },
    /// The trail could not be read.
    #[error(transparent)]
    Audit(#[from] AuditError),
}

fn list(ids: &[RequestId]) -> String {
    ids.iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}
