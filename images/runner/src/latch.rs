//! The latch between PID 1 and the one runner that may attach: an abstract Unix socket.
//!
//! An abstract socket needs no volume and leaves no file; it is the network namespace's, which in a
//! pod only this container has. Whoever connects first has taken the latch for good, also when it
//! dies before it reads the answer: a request is never served by a second runner.

use std::io::{self, Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::str::FromStr;
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;

use crate::ending::Ending;

/// What PID 1 says to the first, and to everyone after it.
pub(crate) const GRANTED: &[u8; 1] = b"+";
pub(crate) const TAKEN: &[u8; 1] = b"-";

/// How long PID 1 may take to answer; it has nothing else to do.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// Name of the abstract socket: 1 to 64 of `a-z`, `0-9` and `-`, e.g. `agent-sandbox-runner`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LatchName(String);

impl Default for LatchName {
    fn default() -> Self {
        Self("agent-sandbox-runner".to_owned())
    }
}

/// A name that is empty, too long, or has other characters.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a latch's name has 1 to 64 of a-z, 0-9 and '-'")]
pub struct LatchNameError;

impl FromStr for LatchName {
    type Err = LatchNameError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        if s.is_empty() || s.len() > 64 || !s.bytes().all(allowed) {
            return Err(LatchNameError);
        }
        Ok(Self(s.to_owned()))
    }
}

impl LatchName {
    fn address(&self) -> io::Result<SocketAddr> {
        SocketAddr::from_abstract_name(&self.0)
    }
}

/// Why the latch could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// Somebody attached before. There is no second time.
    #[error("this runner has been attached to before, and serves one request only")]
    Taken,
    /// No PID 1 holds a latch of that name, or it is another user's.
    #[error("no runner of ours holds the latch {name:?}")]
    Nobody {
        /// The latch's name.
        name: String,
        /// What the kernel said, if it did.
        #[source]
        source: Option<io::Error>,
    },
}

/// Opens the latch; the first to connect takes it.
pub(crate) fn open(name: &LatchName) -> io::Result<UnixListener> {
    let listener = UnixListener::bind_addr(&name.address()?)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// The taken latch. PID 1 ends when this process does, or when it is dropped.
pub struct Taken(UnixStream);

/// Takes the latch from PID 1.
///
/// # Errors
/// [`TakeError`]: it was taken before, or nobody holds it.
pub fn take(name: &LatchName) -> Result<Taken, TakeError> {
    let nobody = |source| TakeError::Nobody {
        name: name.0.clone(),
        source,
    };
    let mut stream = name
        .address()
        .and_then(|address| UnixStream::connect_addr(&address))
        .map_err(|error| nobody(Some(error)))?;
    // Anyone in the network namespace can bind an abstract name; only our own uid is PID 1.
    if !is_ours(&stream) {
        return Err(nobody(None));
    }
    let mut answer = [0];
    stream
        .set_read_timeout(Some(ANSWER_LIMIT))
        .and_then(|()| stream.read_exact(&mut answer))
        .map_err(|error| nobody(Some(error)))?;
    if answer != *GRANTED {
        return Err(TakeError::Taken);
    }
    Ok(Taken(stream))
}

impl Taken {
    /// Tells PID 1 how it ended; the connection closes with that.
    pub fn end(mut self, ending: Ending) {
        // PID 1 that is gone has ended the container already; there is no one else to tell.
        self.0.write_all(&[ending.code()]).ok();
    }
}

/// Whether the other end runs as our own uid, by the kernel's word.
pub(crate) fn is_ours(stream: &impl std::os::fd::AsFd) -> bool {
    socket_peercred(stream).is_ok_and(|peer| peer.uid == geteuid())
}
