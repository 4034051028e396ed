//! The state while an apply runs: Terraform writes the file anew after each operation, and each version
//! goes out at once, so that a pod that is lost loses the operation in flight and nothing more.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use sandbox_proto::runner::v1::artifact::Kind;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::reports::Reports;

/// How often the file is looked at. One look costs some microseconds, a lost version an operation.
pub const PAUSE: Duration = Duration::from_millis(20);

/// A larger state is not sent, and its run fails.
pub const MAX_STATE_BYTES: u64 = 32 * 1024 * 1024;

/// Follows one state file.
pub struct Snapshots {
    path: PathBuf,
    reports: Reports,
    /// What the file looked like when it was last read whole; at first, as it was handed in.
    seen: Option<Look>,
    sent: Vec<u8>,
}

#[derive(Clone, Copy, Eq, PartialEq)]
struct Look {
    length: u64,
    modified: std::time::SystemTime,
}

/// What makes a state whole. Terraform writes over the file in place, so a reader may find a part.
#[derive(Deserialize)]
struct Whole {
    #[serde(rename = "version")]
    _version: u64,
    #[serde(rename = "serial")]
    _serial: u64,
    #[serde(rename = "lineage")]
    _lineage: String,
    #[serde(rename = "resources")]
    _resources: IgnoredAny,
}

impl Snapshots {
    /// Follows `path`, where `before` is what it has now.
    #[must_use]
    pub fn new(path: PathBuf, before: Option<&[u8]>, reports: Reports) -> Self {
        Self {
            path,
            reports,
            seen: None,
            sent: before.unwrap_or_default().to_vec(),
        }
    }

    /// Sends the state if there is a new one. To be run to its end: a half-sent state stands in the way
    /// of the next one.
    pub async fn look(&mut self) {
        // What goes wrong here is told of by `finish`, if it still goes wrong then.
        if let Ok(Some(state)) = self.changed() {
            self.send(state).await;
        }
    }

    /// Sends the last version, if it has not been sent.
    ///
    /// # Errors
    /// When there is a state that cannot be sent: what was applied is then known to Terraform's
    /// messages alone.
    pub async fn finish(&mut self) -> io::Result<()> {
        self.seen = None;
        if let Some(state) = self.changed()? {
            self.send(state).await;
        }
        Ok(())
    }

    async fn send(&mut self, state: Vec<u8>) {
        self.sent = state;
        self.reports.artifact(Kind::State, &self.sent).await;
    }

    /// The state, if it is whole and not the one that was sent last.
    fn changed(&mut self) -> io::Result<Option<Vec<u8>>> {
        let metadata = match fs::metadata(&self.path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let look = Look {
            length: metadata.len(),
            modified: metadata.modified()?,
        };
        if self.seen == Some(look) || look.length == 0 {
            return Ok(None);
        }
        if look.length > MAX_STATE_BYTES {
            return Err(io::Error::other(format!(
                "it has {} bytes, over the limit of {MAX_STATE_BYTES}",
                look.length
            )));
        }
        let state = fs::read(&self.path)?;
        serde_json::from_slice::<Whole>(&state).map_err(io::Error::other)?;
        self.seen = Some(look);
        Ok((state != self.sent).then_some(state))
    }
}
