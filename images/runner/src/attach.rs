//! `runner attach`: what the daemon execs. Its stdin and stdout carry the frames of one request.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use tokio::net::unix::pipe;
use tokio::runtime::{Builder, Runtime};

use crate::ending::Ending;
use crate::harden;
use crate::latch::{self, LatchName};
use crate::places::Places;
use crate::session;

/// Takes the latch and serves one request. Says on stderr why it ended early, never what with.
pub fn run(name: &LatchName, places: &Places) -> Ending {
    if let Err(error) = harden::become_opaque() {
        eprintln!("runner: could not make this process non-dumpable: {error}");
        return Ending::Fault;
    }
    harden::quiet_panics();
    let latch = match latch::take(name) {
        Ok(latch) => latch,
        Err(error) => {
            eprintln!("runner: {error}");
            return Ending::Refused;
        }
    };
    // Unwinding drops what holds the credential, and PID 1 still learns how it ended.
    let ending = std::panic::catch_unwind(|| serve(places)).unwrap_or(Ending::Fault);
    latch.end(ending);
    ending
}

fn serve(places: &Places) -> Ending {
    let served = runtime().and_then(|runtime| {
        let _inside = runtime.enter();
        let input = pipe::Receiver::from_owned_fd_unchecked(nonblocking(&io::stdin())?)?;
        let output = pipe::Sender::from_owned_fd_unchecked(nonblocking(&io::stdout())?)?;
        Ok(runtime.block_on(session::serve(input, output, places)))
    });
    match served {
        Ok(Ok(ending)) => ending,
        Ok(Err(abort)) => {
            eprintln!("runner: {abort}");
            abort.ending()
        }
        Err(error) => {
            eprintln!("runner: could not use stdin and stdout as a stream: {error}");
            Ending::Fault
        }
    }
}

/// One thread: there is one request, and fewer threads start sooner.
pub(crate) fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// A second handle on a standard stream, for polling. A pipe, a socket or a terminal will do: tokio
/// reads and writes them alike, which is why its check for a pipe is left out.
fn nonblocking(stream: &impl std::os::fd::AsFd) -> io::Result<OwnedFd> {
    let fd = stream.as_fd().try_clone_to_owned()?;
    fcntl_setfl(&fd, fcntl_getfl(&fd)? | OFlags::NONBLOCK)?;
    Ok(fd)
}
