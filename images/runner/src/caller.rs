//! Calls to the API server on behalf of one request: each within its deadline, each reported, each
//! answer without the credential in it.

use std::sync::Arc;
use std::time::Duration;

use sandbox_proto::runner::v1::Failure;
use sandbox_proto::runner::v1::failure::Kind;
use tokio::time::{Instant, timeout_at};

use crate::api::{CONNECT_LIMIT, CallError, Connection, Reply, Server};
use crate::credential::Credential;
use crate::reports::{Call, Reports};
use crate::text::clip;

/// The longest [`Failure::detail`] before what clipping adds, in bytes. With that it is under 1 KiB.
const MAX_DETAIL_BYTES: usize = 960;

/// The right to call the API server for one request.
pub struct Caller {
    server: Server,
    kept: Option<Connection>,
    credential: Arc<Credential>,
    limit: Duration,
    deadline: Instant,
    /// Where what happens is told.
    pub reports: Reports,
}

/// What a call that got through brought.
pub enum Answer {
    /// The whole answer.
    Reply(Reply),
    /// More than we read.
    TooLong,
}

impl Caller {
    /// Calls `server`, over `connection` if that leads there, for `limit` from now on.
    #[must_use]
    pub fn new(
        server: Server,
        connection: Connection,
        credential: Arc<Credential>,
        limit: Duration,
        reports: Reports,
    ) -> Self {
        Self {
            server,
            kept: Some(connection),
            credential,
            limit,
            deadline: Instant::now() + limit,
            reports,
        }
    }

    /// GETs `path`, and reports the call as one to `shown`.
    ///
    /// # Errors
    /// A [`Failure`] when no answer came: it took too long, or the API server is away.
    pub async fn get(&mut self, path: &str, shown: &str) -> Result<Answer, Failure> {
        loop {
            let kept = self.kept.take().filter(|kept| kept.serves(&self.server));
            let was_kept = kept.is_some();
            let mut connection = match kept {
                Some(connection) => connection,
                None => self.dial().await?,
            };
            let started = Instant::now();
            let call = connection.get(path, &self.credential);
            let outcome = timeout_at(self.deadline, call).await;
            let status = match &outcome {
                Ok(Ok(reply)) => reply.status.as_u16(),
                Ok(Err(CallError::BrokeOff { status, .. } | CallError::TooLong { status })) => {
                    status.as_u16()
                }
                Ok(Err(CallError::NoAnswer(_))) | Err(_) => 0,
                Ok(Err(error @ CallError::Request)) => {
                    return Err(failure(Kind::Internal, &error.to_string()));
                }
            };
            let told = Call {
                method: "GET",
                path: shown,
                status,
                started,
                refused: "",
            };
            self.reports.call(told).await;
            match outcome {
                Ok(Ok(mut reply)) => {
                    // Before anything is cut or quoted from it, where half a token would pass.
                    self.credential.mask(&mut reply.body);
                    self.kept = Some(connection);
                    return Ok(Answer::Reply(reply));
                }
                Ok(Err(CallError::TooLong { .. })) => return Ok(Answer::TooLong),
                // A server may close a connection it has not heard from; a read may be repeated.
                Ok(Err(CallError::NoAnswer(_))) if was_kept => {}
                Ok(Err(error)) => {
                    let peer = connection.peer();
                    let detail = format!("the API server at {peer} gave no answer: {error}");
                    return Err(failure(Kind::Unreachable, &detail));
                }
                Err(_) => return Err(self.too_late()),
            }
        }
    }

    async fn dial(&self) -> Result<Connection, Failure> {
        self.reports.progress("connect").await;
        match timeout_at(self.deadline, self.server.dial(CONNECT_LIMIT)).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) => {
                let detail = format!("the API server could not be reached: {error}");
                Err(failure(Kind::Unreachable, &detail))
            }
            Err(_) => Err(self.too_late()),
        }
    }

    fn too_late(&self) -> Failure {
        let limit = self.limit.as_millis();
        failure(Kind::Timeout, &format!("it took longer than {limit} ms"))
    }
}

/// A failure whose detail has a bounded length.
#[must_use]
pub fn failure(kind: Kind, detail: &str) -> Failure {
    Failure {
        kind: kind.into(),
        detail: clip(detail, MAX_DETAIL_BYTES),
    }
}
