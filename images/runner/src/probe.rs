//! `pong` and `ping`: a listener known to be up, and one try to reach it. They prove that a network
//! policy blocks what it should, with baseline: what answers PONG without it, and not with it.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::attach;
use crate::ending::Ending;

/// What a listener answers.
pub const PONG: &[u8] = b"PONG\n";

/// How much of an answer is worth printing.
const MAX_ANSWER: u64 = 64;

/// Answers PONG to whoever connects to `port`, until SIGTERM.
pub fn pong(port: u16) -> Ending {
    match attach::runtime().and_then(|runtime| runtime.block_on(answer_all(port))) {
        Ok(()) => Ending::Done,
        Err(error) => {
            eprintln!("runner: could not listen on port {port}: {error}");
            Ending::Fault
        }
    }
}

async fn answer_all(port: u16) -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let listener = match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
        Ok(both_families) => both_families,
        Err(_) => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await?,
    };
    eprintln!("runner: answering on {}", listener.local_addr()?);
    loop {
        tokio::select! {
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            accepted = listener.accept() => match accepted {
                // Five bytes always fit a new socket's buffer: no caller can hold up the next one.
                Ok((mut stream, _)) => { stream.write_all(PONG).await.ok(); }
                // Of that one connection (reset before it was accepted), or too many of them.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
        }
    }
}

/// Connects to `target` once and prints what came back. [`Ending::Done`]: PONG. [`Ending::Failed`]:
/// not reached. [`Ending::Violation`]: reached, but that was no PONG.
pub fn ping(target: SocketAddr, timeout: Duration) -> Ending {
    let (ending, said) = match TcpStream::connect_timeout(&target, timeout) {
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            let limit = timeout.as_millis();
            (Ending::Failed, format!("no answer in {limit} ms"))
        }
        Err(error) => (Ending::Failed, error.to_string()),
        Ok(stream) => match read_answer(stream, Instant::now() + timeout) {
            answer if answer == PONG => (Ending::Done, "PONG".to_owned()),
            answer if answer.is_empty() => (
                Ending::Violation,
                "connected, but nothing came back".to_owned(),
            ),
            answer => (
                Ending::Violation,
                format!("connected, and got \"{}\"", answer.escape_ascii()),
            ),
        },
    };
    match writeln!(io::stdout(), "{target}: {said}") {
        Ok(()) => ending,
        Err(_) => Ending::Gone,
    }
}

/// What comes back until the other side closes, `deadline`, or [`MAX_ANSWER`] bytes.
fn read_answer(stream: TcpStream, deadline: Instant) -> Vec<u8> {
    let mut answer = Vec::new();
    let mut stream = stream.take(MAX_ANSWER);
    let mut chunk = [0; 64];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        // A timeout of zero would mean none.
        if left.is_zero() || stream.get_ref().set_read_timeout(Some(left)).is_err() {
            return answer;
        }
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return answer,
            Ok(read) => answer.extend_from_slice(&chunk[..read]),
        }
    }
}
