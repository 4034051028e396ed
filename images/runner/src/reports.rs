//! What the work tells the daemon while it goes on. The session sends it, in the order it was told.

use sandbox_proto::runner::v1::{
    ApiCall, Artifact, Operation, Output, Progress, artifact, from_runner, output,
};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::text::clip;

/// The longest piece of an artifact in one frame, in bytes.
const PIECE_BYTES: usize = 1024 * 1024;

/// The longest text of a call that is told, in bytes. A request's own head is bounded far above.
const MAX_CALL_TEXT: usize = 2048;

/// Where the work's reports go. A daemon that reads slowly slows the work down.
#[derive(Clone)]
pub struct Reports(mpsc::Sender<from_runner::Frame>);

/// A call to the API server, or one that was refused before it got there.
pub struct Call<'a> {
    /// HTTP method.
    pub method: &'a str,
    /// Path and query, without continue tokens.
    pub path: &'a str,
    /// HTTP status; 0 when there was no answer.
    pub status: u16,
    /// When it began.
    pub started: Instant,
    /// Why it was refused; empty when it was not.
    pub refused: &'a str,
}

impl Reports {
    /// Reports into `frames`.
    #[must_use]
    pub fn new(frames: mpsc::Sender<from_runner::Frame>) -> Self {
        Self(frames)
    }

    /// Tells which phase begins.
    pub async fn progress(&self, phase: &str) {
        let progress = Progress {
            phase: phase.to_owned(),
            operation: None,
        };
        self.send(from_runner::Frame::Progress(progress)).await;
    }

    /// Tells of an operation that began or ended.
    pub async fn operation(&self, operation: Operation) {
        let progress = Progress {
            phase: String::new(),
            operation: Some(operation),
        };
        self.send(from_runner::Frame::Progress(progress)).await;
    }

    /// Tells of one call.
    pub async fn call(&self, call: Call<'_>) {
        let elapsed = call.started.elapsed().as_millis();
        let call = ApiCall {
            method: clip(call.method, MAX_CALL_TEXT),
            path: clip(call.path, MAX_CALL_TEXT),
            status: call.status.into(),
            elapsed_ms: u32::try_from(elapsed).unwrap_or(u32::MAX),
            refused: clip(call.refused, MAX_CALL_TEXT),
        };
        self.send(from_runner::Frame::ApiCall(call)).await;
    }

    /// Sends the result. Nothing is lost if nobody listens any more.
    pub async fn output(&self, output: output::Output) {
        let output = Some(output);
        self.send(from_runner::Frame::Output(Output { output }))
            .await;
    }

    /// Sends a file the work made, in pieces that follow one another.
    pub async fn artifact(&self, kind: artifact::Kind, bytes: &[u8]) {
        let mut pieces = bytes.chunks(PIECE_BYTES).peekable();
        while let Some(piece) = pieces.next() {
            let last = pieces.peek().is_none();
            let sha256 = last.then(|| Sha256::digest(bytes).to_vec());
            let artifact = Artifact {
                kind: kind.into(),
                data: piece.to_vec().into(),
                last,
                sha256: sha256.unwrap_or_default().into(),
            };
            self.send(from_runner::Frame::Artifact(artifact)).await;
        }
    }

    async fn send(&self, frame: from_runner::Frame) {
        // The session that no longer takes reports is about to drop us.
        self.0.send(frame).await.ok();
    }
}
