//! The connection to sandboxd, and its refusals in words.

mod approvals;

use std::error::Error as _;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use sandbox_proto::PROTOCOL_VERSION;
use sandbox_proto::approver::v1 as proto;
use sandbox_proto::approver::v1::approver_service_client::ApproverServiceClient;
use tokio::net::UnixStream;
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Status, Streaming};
use tonic_types::StatusExt as _;
use tower::service_fn;

use crate::escape::escape;
use crate::failure::Failure;

const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// What to do for whom the socket is closed. sudo would get an agent's user in, and no verdict counted.
const AS_APPROVER: &str = "Run this as an account that is listed there, and that logged in by itself, by ssh or at a \
     console: a verdict by sudo from an agent's login does not count.";

/// For an answer that takes no work. The daemon asks Vault and Kubernetes how they are before it answers.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// For the daemon to read its whole trail.
const VERIFY_LIMIT: Duration = Duration::from_mins(30);

/// The longest message taken. A plan is never cut, so this only keeps a broken daemon from filling our memory.
const LARGEST_MESSAGE: usize = 256 * 1024 * 1024;

pub(crate) use approvals::{Changes, Verdict};

/// The daemon at one socket, and who the kernel says is at either end.
#[derive(Debug)]
pub(crate) struct Daemon {
    client: ApproverServiceClient<Channel>,
    socket: PathBuf,
    own_uid: u32,
    uid: Option<u32>,
}

impl Daemon {
    pub(crate) async fn connect(socket: &Path) -> Result<Self, Failure> {
        let own_uid = rustix::process::geteuid().as_raw();
        let stream = match timeout(CONNECT_LIMIT, UnixStream::connect(socket)).await {
            Ok(connected) => connected.map_err(|e| no_connection(socket, own_uid, &e))?,
            Err(_) => return Err(silent(socket, CONNECT_LIMIT)),
        };
        let uid = stream.peer_cred().ok().map(|peer| peer.uid());
        // One connection is all there is: whom we talk to must not change in the middle of a run.
        let once = Mutex::new(Some(stream));
        let connector = service_fn(move |_: Uri| {
            let stream = once.lock().unwrap_or_else(PoisonError::into_inner).take();
            let gone = || io::Error::new(ErrorKind::ConnectionAborted, "the connection was closed");
            async move { stream.map(TokioIo::new).ok_or_else(gone) }
        });
        // The name only fills in `:authority`.
        let channel =
            Endpoint::from_static("http://sandboxd").connect_with_connector_lazy(connector);
        let client = ApproverServiceClient::new(channel).max_decoding_message_size(LARGEST_MESSAGE);
        Ok(Self {
            client,
            socket: socket.to_owned(),
            own_uid,
            uid,
        })
    }

    /// The uid that listens, by the kernel's word.
    pub(crate) fn uid(&self) -> Option<u32> {
        self.uid
    }

    /// How the daemon is doing, and the hash of event `at_seq` of its trail.
    pub(crate) async fn status(
        &mut self,
        at_seq: u64,
    ) -> Result<proto::GetStatusResponse, Failure> {
        let ask = proto::GetStatusRequest {
            protocol_version: PROTOCOL_VERSION,
            at_seq,
        };
        let answer = timeout(ANSWER_LIMIT, self.client.get_status(ask)).await;
        let status = self.unpack(answer, ANSWER_LIMIT)?;
        if status.protocol_version == PROTOCOL_VERSION {
            return Ok(status);
        }
        Err(Failure::Error(format!(
            "This approver speaks version {PROTOCOL_VERSION} of the contract and sandboxd {} speaks version {}. \
             Install both from the same release.",
            escape(&status.daemon_version),
            status.protocol_version
        )))
    }

    /// What the daemon says of its own trail after reading all of it.
    pub(crate) async fn verify(&mut self) -> Result<proto::VerifyAuditResponse, Failure> {
        let ask = proto::VerifyAuditRequest {
            protocol_version: PROTOCOL_VERSION,
        };
        let answer = timeout(VERIFY_LIMIT, self.client.verify_audit(ask)).await;
        self.unpack(answer, VERIFY_LIMIT)
    }

    /// Lines of the trail in order: of one request, or all when `request_id` is empty.
    pub(crate) async fn lines(&mut self, request_id: String) -> Result<LineStream<'_>, Failure> {
        let ask = proto::QueryAuditRequest {
            protocol_version: PROTOCOL_VERSION,
            request_id,
            after_seq: 0,
        };
        let answer = timeout(ANSWER_LIMIT, self.client.query_audit(ask)).await;
        let lines = self.unpack(answer, ANSWER_LIMIT)?;
        Ok(LineStream {
            lines,
            daemon: self,
        })
    }

    fn unpack<T, E>(
        &self,
        answer: Result<Result<tonic::Response<T>, Status>, E>,
        limit: Duration,
    ) -> Result<T, Failure> {
        match answer {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(self.refused(&status)),
            Err(_) => Err(silent(&self.socket, limit)),
        }
    }

    fn refused(&self, status: &Status) -> Failure {
        let (socket, uid, said) = (self.socket.display(), self.own_uid, said(status));
        // What to do next is said in our own words where the daemon does not let us in.
        let message = escape(status.message());
        let is = |codes: &[Code]| codes.contains(&status.code());
        Failure::Error(if is(&[Code::Unauthenticated, Code::PermissionDenied]) {
            format!(
                "sandboxd refused uid {uid} on {socket}: {message}\n\
                 Only the uids under [approvers] in its configuration may use this socket. {AS_APPROVER}"
            )
        } else if broke(status) {
            format!(
                "The connection to sandboxd on {socket} broke (as uid {uid}): {said}\n\
                 Look whether sandboxd is still running, and what its log says."
            )
        } else if is(&[Code::Unimplemented]) {
            format!(
                "What listens on {socket} is not sandboxd's approver service, or one of another \
                 version: {said}"
            )
        } else {
            said
        })
    }
}

/// Lines as the daemon sends them.
pub(crate) struct LineStream<'a> {
    lines: Streaming<proto::AuditLine>,
    daemon: &'a Daemon,
}

impl LineStream<'_> {
    pub(crate) async fn next(&mut self) -> Result<Option<proto::AuditLine>, Failure> {
        match timeout(ANSWER_LIMIT, self.lines.message()).await {
            Ok(line) => line.map_err(|status| self.daemon.refused(&status)),
            Err(_) => Err(silent(&self.daemon.socket, ANSWER_LIMIT)),
        }
    }
}

/// Whether the connection failed, and not the daemon refused: what has a cause here comes from the
/// connection, and a refusal of the daemon's own has a code of its own.
fn broke(status: &Status) -> bool {
    let refusal = status.get_details_error_info().is_some();
    !refusal
        && (status.source().is_some()
            || [Code::Unavailable, Code::Cancelled].contains(&status.code()))
}

/// What the daemon says, and what it says to do next.
fn said(status: &Status) -> String {
    let said = escape(status.message());
    let info = status.get_details_error_info();
    match info.as_ref().and_then(|info| info.metadata.get("next")) {
        Some(next) => format!("{said}\n{}", escape(next)),
        None => said,
    }
}

fn silent(socket: &Path, limit: Duration) -> Failure {
    Failure::Error(format!(
        "What listens on {} did not answer within {} s. Look at sandboxd's log.",
        socket.display(),
        limit.as_secs()
    ))
}

fn no_connection(socket: &Path, uid: u32, e: &io::Error) -> Failure {
    let socket = socket.display();
    let why = [
        ErrorKind::NotFound,
        ErrorKind::ConnectionRefused,
        ErrorKind::PermissionDenied,
    ]
    .into_iter()
    .find(|kind| *kind == e.kind());
    Failure::Error(match why {
        Some(ErrorKind::NotFound) => format!(
            "There is no daemon: {socket} does not exist (looked as uid {uid}). Start sandboxd, or give its socket \
             with --socket."
        ),
        Some(ErrorKind::ConnectionRefused) => format!(
            "There is no daemon: {socket} is there, but nobody listens on it any more (tried as uid {uid}). Start \
             sandboxd."
        ),
        Some(ErrorKind::PermissionDenied) => format!(
            "The folder or socket {socket} is closed to uid {uid}: it is for those under [approvers] in sandboxd's \
             configuration. {AS_APPROVER}"
        ),
        _ => format!("Could not connect to {socket} as uid {uid}: {e}."),
    })
}
