//! The proof that nothing but the API server can be reached, before a request comes in.
//!
//! A new pod's network policy takes a moment to bite, and until then everything is open. So a
//! listener that is known to be up is tried until it is blocked; then the API server must answer,
//! by its certificate (else the pod may simply have no network yet); and then the listener must be
//! blocked once more.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use sandbox_proto::runner::v1::Egress;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::api::{Connection, DialError, Server};

/// How long a connection may take: the listener then counts as blocked, the API server as not there
/// yet. Both are neighbours, reached in a millisecond when they can be reached at all.
pub const CONNECT_LIMIT: Duration = Duration::from_millis(250);

/// Between two rounds.
const PAUSE: Duration = Duration::from_millis(25);

/// What was found.
pub struct Proof {
    /// For Hello.
    pub egress: Egress,
    /// The connection that answered; there if, and only if, egress is closed.
    pub connection: Option<Connection>,
}

/// Tries for at most `limit` to prove that `forbidden` is blocked while `server` answers.
pub async fn prove(server: &Server, forbidden: SocketAddr, limit: Duration) -> Proof {
    let started = Instant::now();
    let mut seen = Seen::default();
    let proven = timeout_at(started + limit, until_closed(server, forbidden, &mut seen)).await;
    let elapsed = started.elapsed().as_millis();
    let (connection, detail) = match proven {
        Ok((connection, how)) => {
            let detail = seen.closed(forbidden, &how, &connection);
            (Some(connection), detail)
        }
        Err(_) => (None, seen.not_closed(forbidden, limit)),
    };
    let egress = Egress {
        closed: connection.is_some(),
        detail,
        open_attempts: seen.open,
        elapsed_ms: u32::try_from(elapsed).unwrap_or(u32::MAX),
    };
    Proof { egress, connection }
}

async fn until_closed(
    server: &Server,
    forbidden: SocketAddr,
    seen: &mut Seen,
) -> (Connection, String) {
    loop {
        if seen.try_forbidden(forbidden).await.is_some() {
            let connection = seen.await_server(server).await;
            if let Some(how) = seen.try_forbidden(forbidden).await {
                return (connection, how);
            }
        }
        sleep(PAUSE).await;
    }
}

/// What the attempts so far have shown.
#[derive(Default)]
struct Seen {
    attempts: u32,
    open: u32,
    last: String,
    api_error: Option<DialError>,
}

impl Seen {
    /// Dials until the API server answers. While a new pod has no network its packets are dropped,
    /// and a dropped SYN is repeated only after a second: so many short attempts, not one long.
    async fn await_server(&mut self, server: &Server) -> Connection {
        loop {
            match server.dial(CONNECT_LIMIT).await {
                Ok(connection) => return connection,
                Err(error) => self.api_error = Some(error),
            }
            sleep(PAUSE).await;
        }
    }

    /// How it was blocked, or `None` if it was not, or if what came back says neither.
    async fn try_forbidden(&mut self, forbidden: SocketAddr) -> Option<String> {
        self.attempts += 1;
        let outcome = match timeout(CONNECT_LIMIT, TcpStream::connect(forbidden)).await {
            Err(_) => Ok(format!("no answer in {} ms", CONNECT_LIMIT.as_millis())),
            Ok(Ok(_)) => {
                self.open += 1;
                Err("connected".to_owned())
            }
            Ok(Err(error)) if is_blocked(error.kind()) => Ok(error.to_string()),
            Ok(Err(error)) => Err(error.to_string()),
        };
        let (Ok(said) | Err(said)) = &outcome;
        self.last.clone_from(said);
        outcome.ok()
    }

    fn closed(&self, forbidden: SocketAddr, how: &str, connection: &Connection) -> String {
        let first = match self.open {
            0 => String::new(),
            1 => "open for the first attempt, then ".to_owned(),
            open => format!("open for the first {open} attempts, then "),
        };
        format!(
            "{forbidden} was {first}blocked ({how}) before and after the API server at {} answered",
            connection.peer()
        )
    }

    fn not_closed(&self, forbidden: SocketAddr, limit: Duration) -> String {
        let limit = limit.as_millis();
        let Self { attempts, open, .. } = self;
        let tried = format!(
            "{forbidden} was reached in {open} of {attempts} attempts within {limit} ms, last: {}",
            self.last
        );
        match &self.api_error {
            Some(error) => format!("{tried}; the API server did not answer: {error}"),
            None => tried,
        }
    }
}

/// Whether this is how a blocked connection fails. Anything else (no file descriptors left, say) is
/// a fault of our own and proves nothing.
fn is_blocked(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{
        ConnectionRefused, HostUnreachable, NetworkUnreachable, PermissionDenied, TimedOut,
    };
    matches!(
        kind,
        ConnectionRefused | HostUnreachable | NetworkUnreachable | PermissionDenied | TimedOut
    )
}
