//! Why something was not done, in words a model can act on.
//!
//! The daemon explains its refusals itself (`google.rpc.ErrorInfo`, `BadRequest`); those words pass.
//! What the transport says does not: it names internals and helps nobody. The codes below are the
//! bridge's own and stay as they are; every other code is the daemon's.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use sandbox_proto::PROTOCOL_VERSION;
use sandbox_proto::agent::v1::ListActionsResponse;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::daemon::Access;

/// Nothing listens at the socket.
pub(crate) const DAEMON_NOT_RUNNING: &str = "DAEMON_NOT_RUNNING";
/// The socket or its folder is closed to this user.
pub(crate) const SOCKET_FORBIDDEN: &str = "SOCKET_FORBIDDEN";
/// The daemon does not take this user for an agent.
pub(crate) const PEER_REFUSED: &str = "PEER_REFUSED";
/// The daemon could not be reached, or hung up before it took the call.
pub(crate) const DAEMON_UNREACHABLE: &str = "DAEMON_UNREACHABLE";
/// The daemon did not answer in time; whether it took the call is not known.
pub(crate) const DAEMON_SILENT: &str = "DAEMON_SILENT";
/// Bridge and daemon speak different versions.
pub(crate) const PROTOCOL_MISMATCH: &str = "PROTOCOL_MISMATCH";
/// The connection ended while the request was under way; the daemon has it on record.
pub(crate) const CONNECTION_LOST: &str = "CONNECTION_LOST";
/// The arguments are longer than the daemon takes.
pub(crate) const ARGUMENTS_TOO_LARGE: &str = "ARGUMENTS_TOO_LARGE";
/// The result is longer than the bridge takes.
pub(crate) const RESULT_TOO_LARGE: &str = "RESULT_TOO_LARGE";
/// The daemon answered in a way it should not.
pub(crate) const DAEMON_FAULT: &str = "DAEMON_FAULT";
/// More calls at once than the bridge takes.
pub(crate) const TOO_MANY_CALLS: &str = "TOO_MANY_CALLS";

/// The `ErrorInfo` domain of sandboxd.
const DOMAIN: &str = "agent-sandbox";

const TRY_AGAIN: &str =
    "Call again in a moment; if it stays so, ask the operator to look at sandboxd's log.";

/// Why something was not done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Refusal {
    /// Stable, for programs.
    pub code: String,
    /// What happened and why, in whole sentences.
    pub message: String,
    /// What to do about it.
    pub next: String,
    /// The parameter at fault, if one is.
    pub field: Option<String>,
    /// The request it is about, if there is one on record.
    pub request_id: Option<String>,
}

impl Refusal {
    pub fn new(code: &str, message: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            message: message.into(),
            next: next.into(),
            field: None,
            request_id: None,
        }
    }

    /// What a gRPC status means, before the daemon has accepted a request.
    pub fn of_status(status: &Status, access: &Access) -> Self {
        if let Some(refusal) = Self::explained(status, access) {
            return refusal;
        }
        if let Some(error) = io_error(status) {
            return Self::of_io(error.kind(), access);
        }
        if status.source().is_some() || status.code() == Code::Unavailable {
            return Self::hung_up(access);
        }
        // Without `ErrorInfo` the text is the library's, not the daemon's, and is left out.
        match status.code() {
            Code::Unauthenticated => Self::new(
                PEER_REFUSED,
                format!("sandboxd does not take {access} for an agent."),
                "Ask the operator to list this uid under [agents] in sandboxd's configuration.",
            ),
            // What tonic says of a message longer than its reader takes.
            Code::OutOfRange => Self::new(
                ARGUMENTS_TOO_LARGE,
                "The arguments are longer than sandboxd takes.",
                "Call again with shorter arguments.",
            ),
            Code::Unimplemented => Self::new(
                PROTOCOL_MISMATCH,
                format!(
                    "What listens at {} does not offer sandboxd's agent service.",
                    access.socket.display()
                ),
                "Ask the operator whether this is sandboxd's agent socket and of the same release as the bridge.",
            ),
            code @ (Code::Ok
            | Code::InvalidArgument
            | Code::DeadlineExceeded
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::ResourceExhausted
            | Code::FailedPrecondition
            | Code::Aborted
            | Code::DataLoss
            | Code::Unavailable
            | Code::Cancelled
            | Code::Unknown
            | Code::Internal) => Self::new(
                DAEMON_FAULT,
                format!("sandboxd refused the call without saying why (gRPC status {code:?})."),
                TRY_AGAIN,
            ),
        }
    }

    /// What the end of a stream means once the request has been accepted.
    pub fn of_lost_stream(status: Option<&Status>, access: &Access) -> Self {
        if let Some(refusal) = status.and_then(|status| Self::explained(status, access)) {
            return refusal;
        }
        if status.is_some_and(|status| status.code() == Code::OutOfRange) {
            return Self::new(
                RESULT_TOO_LARGE,
                "The request ran, but its result is longer than the bridge takes.",
                "Ask for less, for example with a selector.",
            );
        }
        Self::new(
            CONNECTION_LOST,
            "The connection to sandboxd ended while the request was under way, perhaps because \
             sandboxd was restarted. The request is on record; whether it finished is not known here.",
            "Call get_request with this request_id to learn where it stands; do not repeat the call before.",
        )
    }

    /// The daemon did not answer within `limit`.
    pub fn silent(access: &Access, limit: Duration) -> Self {
        Self::new(
            DAEMON_SILENT,
            format!(
                "sandboxd did not answer {access} within {} s, so whether it took the call is not known.",
                limit.as_secs_f32()
            ),
            TRY_AGAIN,
        )
    }

    /// The daemon speaks another version.
    pub fn protocol_mismatch(daemon: &ListActionsResponse) -> Self {
        Self::new(
            PROTOCOL_MISMATCH,
            format!(
                "This bridge ({}) speaks version {PROTOCOL_VERSION} of the agent protocol, sandboxd \
                 ({}) speaks version {}.",
                env!("CARGO_PKG_VERSION"),
                daemon.daemon_version,
                daemon.protocol_version,
            ),
            "Ask the operator to install mcp-bridge and sandboxd of the same release.",
        )
    }

    /// What the daemon itself says, if it does.
    fn explained(status: &Status, access: &Access) -> Option<Self> {
        let details = status.get_error_details();
        let info = details
            .error_info()
            .filter(|info| info.domain == DOMAIN && !info.reason.is_empty())?;
        let field = details
            .bad_request()
            .and_then(|bad| bad.field_violations.first());
        let mut message = status.message().to_owned();
        if status.code() == Code::Unauthenticated {
            // The daemon need not tell a stranger more; the stranger knows who it is.
            message = format!("{message} (Tried as {access}.)");
        }
        Some(Self {
            code: info.reason.clone(),
            message,
            next: info
                .metadata
                .get("next")
                .cloned()
                .unwrap_or_else(|| TRY_AGAIN.to_owned()),
            field: field.map(|violation| violation.field.clone()),
            request_id: info.metadata.get("request_id").cloned(),
        })
    }

    fn of_io(kind: io::ErrorKind, access: &Access) -> Self {
        let Access { socket, uid } = access;
        let socket = socket.display();
        if matches!(
            kind,
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
        ) {
            return Self::new(
                DAEMON_NOT_RUNNING,
                format!(
                    "sandboxd is not running: nothing listens at {socket} (tried as uid {uid})."
                ),
                "Start sandboxd (scripts/up, or its system service), then call again; the bridge \
                 reconnects by itself.",
            );
        }
        if kind == io::ErrorKind::PermissionDenied {
            return Self::new(
                SOCKET_FORBIDDEN,
                format!("{socket} or its folder is closed to uid {uid}."),
                "Ask the operator to make this user an agent (uid under [agents], group of the \
                 socket's folder), then start the MCP client anew.",
            );
        }
        let hung_up = [
            io::ErrorKind::BrokenPipe,
            io::ErrorKind::ConnectionReset,
            io::ErrorKind::ConnectionAborted,
            io::ErrorKind::UnexpectedEof,
        ];
        if hung_up.contains(&kind) {
            return Self::hung_up(access);
        }
        Self::new(
            DAEMON_UNREACHABLE,
            format!("sandboxd could not be reached at {socket} (tried as uid {uid})."),
            "Ask the operator whether this is the path of sandboxd's agent socket.",
        )
    }

    fn hung_up(access: &Access) -> Self {
        Self::new(
            DAEMON_UNREACHABLE,
            format!(
                "sandboxd hung up before it took the call (tried as {access}). It may be stopping, \
                 or this uid is not listed under [agents]."
            ),
            TRY_AGAIN,
        )
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {}", self.code, self.message, self.next)
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "uid {} at {}", self.uid, self.socket.display())
    }
}

/// The operating system's error behind a status, if there is one.
fn io_error(status: &Status) -> Option<&io::Error> {
    let mut source = status.source();
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref() {
            return Some(error);
        }
        source = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::path::PathBuf;

    use tonic_types::ErrorDetails;

    use super::*;

    fn access() -> Access {
        Access {
            socket: PathBuf::from("/run/agent.sock"),
            uid: 1234,
        }
    }

    fn explained(domain: &str, reason: &str) -> Status {
        let about = HashMap::from([("request_id".to_owned(), "r-1".to_owned())]);
        let details = ErrorDetails::with_error_info(reason, domain, about);
        Status::with_error_details(Code::Unavailable, "The vault is sealed.", details)
    }

    #[test]
    fn the_daemons_explanation_passes_with_its_request_and_a_next_step() {
        let refusal = Refusal::of_status(&explained("agent-sandbox", "VAULT_SEALED"), &access());
        assert_eq!(refusal.code, "VAULT_SEALED");
        assert_eq!(refusal.message, "The vault is sealed.");
        assert_eq!(refusal.next, TRY_AGAIN);
        assert_eq!(refusal.request_id.as_deref(), Some("r-1"));
    }

    #[test]
    fn an_explanation_from_elsewhere_or_without_a_code_does_not_pass() {
        for status in [
            explained("example.com", "SEALED"),
            explained("agent-sandbox", ""),
        ] {
            let refusal = Refusal::of_status(&status, &access());
            assert_eq!(refusal.code, DAEMON_UNREACHABLE);
            assert!(!refusal.message.contains("sealed"), "{refusal}");
        }
    }

    #[test]
    fn a_status_without_explanation_is_told_in_our_words() {
        for (code, ours) in [
            (Code::Unauthenticated, PEER_REFUSED),
            (Code::OutOfRange, ARGUMENTS_TOO_LARGE),
            (Code::Unimplemented, PROTOCOL_MISMATCH),
            (Code::Unavailable, DAEMON_UNREACHABLE),
            (Code::Internal, DAEMON_FAULT),
            (Code::PermissionDenied, DAEMON_FAULT),
        ] {
            let refusal = Refusal::of_status(&Status::new(code, "tonic says"), &access());
            assert_eq!(refusal.code, ours, "{code:?}");
            assert!(!refusal.to_string().contains("tonic says"), "{refusal}");
        }
    }

    #[test]
    fn an_error_of_the_system_is_found_behind_a_status_and_names_uid_and_socket() {
        for (kind, ours) in [
            (io::ErrorKind::NotFound, DAEMON_NOT_RUNNING),
            (io::ErrorKind::ConnectionRefused, DAEMON_NOT_RUNNING),
            (io::ErrorKind::PermissionDenied, SOCKET_FORBIDDEN),
            (io::ErrorKind::ConnectionReset, DAEMON_UNREACHABLE),
            (io::ErrorKind::InvalidInput, DAEMON_UNREACHABLE),
        ] {
            let status = Status::from_error(Box::new(io::Error::new(kind, "os error 13")));
            let text = Refusal::of_status(&status, &access()).to_string();
            assert!(text.starts_with(ours), "{kind:?}: {text}");
            assert!(
                text.contains("1234") && text.contains("/run/agent.sock"),
                "{text}"
            );
            assert!(!text.contains("os error"), "{text}");
        }
    }
}
