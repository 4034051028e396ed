//! Where work runs: disposable gVisor Jobs, each for one request, some started ahead.
//!
//! A sandbox gets nothing before its pod was read back and found to be what was asked for, and before
//! the runner in it found every way out closed but the API server's.

mod check;
mod cluster;
mod job;
mod network;
mod places;
mod pods;
mod pool;
mod start;
mod stream;
pub(crate) mod trial;

use prost::bytes::Bytes;
use ring::digest::{SHA256, digest};
use sandbox_proto::runner::v1 as wire;
use tokio::task::JoinHandle;

use crate::broker::Lease;
use crate::report::{Code, Failure, chain};

pub use cluster::{Cluster, ClusterError};
pub use job::Class;
pub(crate) use places::TERRAFORM_PLACES;
pub use pool::{PoolState, SandboxParts, Sandboxes};

use start::Ready;

pub(crate) use stream::Tell;

/// One call to the API server that the runner reported.
#[derive(Clone, Debug)]
pub struct Seen {
    /// HTTP method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// HTTP status, 0 without an answer.
    pub status: u32,
    /// Milliseconds it took.
    pub elapsed_ms: u32,
    /// Why the runner did not make it; empty when it did.
    pub refused: String,
}

/// What goes into a sandbox besides request and credential, as `Start` announces it.
pub(crate) struct Input {
    /// What it is.
    pub(crate) kind: wire::input::Kind,
    /// The whole of it.
    pub(crate) bytes: zeroize::Zeroizing<Vec<u8>>,
}

impl Input {
    /// How `Start` announces it.
    pub(crate) fn announced(&self) -> wire::Input {
        wire::Input {
            kind: self.kind.into(),
            size: self.bytes.len() as u64,
            sha256: Bytes::copy_from_slice(digest(&SHA256, &self.bytes).as_ref()),
        }
    }
}

/// A file that the work made, whole.
pub(crate) struct Made {
    /// What it is.
    pub(crate) kind: wire::artifact::Kind,
    /// The whole of it.
    pub(crate) bytes: zeroize::Zeroizing<Vec<u8>>,
}

/// What the runner said of itself, and what it found when it tried to get out.
#[derive(Clone, Debug)]
pub struct Proof {
    /// `/proc/version` inside. A claim; the pod's own record is what is checked.
    pub kernel: String,
    /// What was tried and what came back.
    pub egress: String,
}

/// A sandbox that belongs to one request. Dropping it deletes its Job in the background.
#[must_use = "a sandbox that is dropped is deleted"]
pub struct Claimed {
    sandboxes: Sandboxes,
    ready: Option<Ready>,
    pooled: bool,
}

impl Claimed {
    #[expect(clippy::expect_used, reason = "only drop and delete take it")]
    fn ready(&self) -> &Ready {
        self.ready
            .as_ref()
            .expect("a claimed sandbox is there until it is deleted")
    }

    /// Hands request and credential over, and follows the work to its end. Only the runner's own
    /// Finished frame means success.
    ///
    /// # Errors
    /// What kept the work from being done, the Job's loss included.
    pub(crate) async fn run(
        &mut self,
        mut start: wire::Start,
        lease: Option<&Lease>,
        inputs: &[Input],
        tell: &mut impl Tell,
    ) -> Result<wire::Output, Failure> {
        let Some(ready) = self.ready.as_mut() else {
            return Err(Failure::new(Code::Internal, "The sandbox is gone."));
        };
        start.api_server = Some(ready.api_server.clone());
        let lost = self
            .sandboxes
            .wait_until_lost(ready.name.clone(), ready.pod_uid.clone());
        tokio::select! {
            biased;
            ran = ready.stream.run(start, lease.map(Lease::token), inputs, tell) => ran,
            why = lost => Err(Failure::new(
                Code::SandboxLost,
                format!("The Job {} ended before the work was done: {why}.", ready.name),
            )),
        }
    }

    /// The Job's name.
    #[must_use]
    pub fn job(&self) -> &str {
        self.ready().name.as_str()
    }

    /// The pod's name.
    #[must_use]
    pub fn pod(&self) -> &str {
        &self.ready().pod
    }

    /// The pod's UID, by which a replacement would be noticed.
    #[must_use]
    pub fn pod_uid(&self) -> &str {
        &self.ready().pod_uid
    }

    /// Where it runs.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.ready().node
    }

    /// The `RuntimeClass` of the pod as the API server has it.
    #[must_use]
    pub fn runtime_class(&self) -> &str {
        &self.ready().runtime_class
    }

    /// The image of the pod as the API server has it.
    #[must_use]
    pub fn image(&self) -> &str {
        &self.ready().image
    }

    /// What the runner said and found.
    #[must_use]
    pub fn proof(&self) -> &Proof {
        &self.ready().proof
    }

    /// Whether it was started ahead.
    #[must_use]
    pub fn was_pooled(&self) -> bool {
        self.pooled
    }

    /// Deletes Job and pod in the background; the task ends when the pod is gone.
    #[must_use = "the task tells whether the pod is gone"]
    pub fn delete(mut self) -> JoinHandle<Result<(), String>> {
        let (sandboxes, ready) = (self.sandboxes.clone(), self.ready.take());
        sandboxes.clone().spawn(async move {
            match ready {
                Some(ready) => sandboxes.delete(ready).await.map_err(|e| chain(&e)),
                None => Ok(()),
            }
        })
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        if let Some(ready) = self.ready.take() {
            let sandboxes = self.sandboxes.clone();
            drop(self.sandboxes.spawn(async move {
                if let Err(e) = sandboxes.delete(ready).await {
                    tracing::error!(error = chain(&e), "a dropped sandbox is not deleted yet");
                }
            }));
        }
    }
}

impl std::fmt::Debug for Claimed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Claimed")
            .field("job", &self.ready.as_ref().map(|r| &r.name))
            .finish_non_exhaustive()
    }
}

/// Why there is no sandbox.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SandboxError {
    /// The Kubernetes API did not do what it was asked.
    #[error("could not {step}: {problem}")]
    Cluster {
        /// What was being done.
        step: &'static str,
        /// The API's or the transport's words.
        problem: String,
    },
    /// No pod came up.
    #[error("no sandbox came up: {0}")]
    Start(String),
    /// The pod is not what was asked for.
    #[error("the pod of {job} is not what was started: {problem}")]
    Changed {
        /// Which Job.
        job: String,
        /// The difference.
        problem: String,
    },
    /// The runner could get out.
    #[error("egress is not closed: {0}")]
    EgressOpen(String),
    /// The runner broke the protocol or fell silent.
    #[error("the runner {0}")]
    Runner(String),
    /// The journal did not take a step.
    #[error("the journal did not take a Job: {0}")]
    Store(String),
    /// The daemon is stopping.
    #[error("sandboxd is stopping")]
    Stopping,
}

impl From<SandboxError> for Failure {
    fn from(e: SandboxError) -> Self {
        let code = match &e {
            SandboxError::Cluster { .. } => Code::ClusterUnavailable,
            SandboxError::Start(_) | SandboxError::Runner(_) => Code::SandboxUnavailable,
            SandboxError::Changed { .. } => Code::SandboxChanged,
            SandboxError::EgressOpen(_) => Code::EgressOpen,
            SandboxError::Store(_) => Code::StoreUnavailable,
            SandboxError::Stopping => Code::Stopping,
        };
        let text = e.to_string();
        let mut sentence: String = text.chars().take(1).flat_map(char::to_uppercase).collect();
        sentence.extend(text.chars().skip(1));
        Self::new(code, format!("{sentence}."))
    }
}
