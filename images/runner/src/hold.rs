//! PID 1: opens the latch, waits for exactly one runner to attach, and ends with it.
//!
//! What it prints is the container's log, so it says no more than that it waits and how it ended.

use std::io;
use std::time::Duration;

use rustix::process::{WaitOptions, wait};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep_until};

use crate::attach;
use crate::ending::Ending;
use crate::latch::{self, GRANTED, LatchName, TAKEN};

/// Holds the latch until the attached runner ends, nobody attached within `idle`, or SIGTERM.
pub fn run(latch: &LatchName, idle: Duration) -> Ending {
    match attach::runtime().and_then(|runtime| runtime.block_on(hold(latch, idle))) {
        Ok(ending) => ending,
        Err(error) => {
            eprintln!("runner: could not hold the latch: {error}");
            Ending::Fault
        }
    }
}

async fn hold(latch: &LatchName, idle: Duration) -> io::Result<Ending> {
    // Before the latch opens: whoever attaches may count on PID 1 to end on SIGTERM.
    let mut signals = Signals::listen()?;
    let listener = UnixListener::from_std(latch::open(latch)?)?;
    eprintln!("runner: waiting for one attach");
    let deadline = Instant::now() + idle;
    let runner = loop {
        tokio::select! {
            biased;
            () = signals.end() => return Ok(Ending::Terminated),
            () = sleep_until(deadline) => {
                eprintln!("runner: nobody attached in {} s", idle.as_secs());
                return Ok(Ending::Idle);
            }
            connected = listener.accept() => {
                if let Some(runner) = admit(connected?.0).await {
                    break runner;
                }
            }
        }
    };
    let ending = tokio::select! {
        () = signals.end() => Ending::Terminated,
        ending = follow(runner) => ending,
        refused = refuse_all(&listener) => return Err(refused),
    };
    eprintln!("runner: ended with code {}", ending.code());
    Ok(ending)
}

/// Grants the latch to a process of our own uid. It is spent even when the answer gets lost.
async fn admit(mut stream: UnixStream) -> Option<UnixStream> {
    if !latch::is_ours(&stream) {
        stream.write_all(TAKEN).await.ok();
        return None;
    }
    stream.write_all(GRANTED).await.ok();
    Some(stream)
}

/// Waits for the attached runner to say how it ended, or to be gone.
async fn follow(mut runner: UnixStream) -> Ending {
    match runner.read_u8().await {
        Ok(code) => {
            // It has told, and is about to exit; PID 1 must not take the container down before.
            runner.read_u8().await.ok();
            Ending::from_code(code)
        }
        Err(_) => Ending::Fault,
    }
}

/// Says no to everyone else, for as long as PID 1 lives.
async fn refuse_all(listener: &UnixListener) -> io::Error {
    loop {
        match listener.accept().await {
            Ok((mut stream, _)) => stream.write_all(TAKEN).await.unwrap_or_default(),
            Err(error) => return error,
        }
    }
}

struct Signals {
    child: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            child: signal(SignalKind::child())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Ready when PID 1 is told to end. Reaps in the meantime. Nothing is lost when dropped.
    async fn end(&mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.child.recv() => reap(),
            }
        }
    }
}

/// Collects every child that has ended, orphans handed to PID 1 included.
pub fn reap() {
    while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
}
