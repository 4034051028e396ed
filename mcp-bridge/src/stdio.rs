//! Standard input and output, each on a thread of its own.
//!
//! Threads, because a read or write on these may block for as long as the client likes, and they may
//! be files, pipes, sockets or terminals: not all can be polled, and setting them non-blocking would
//! change them for whoever shares them. The queues between are short, so a client that does not read
//! makes us stop reading, not grow.

use std::io::{self, Read, Write};
use std::thread;

use tokio::sync::{mpsc, oneshot};

use crate::line::{Line, Lines};

/// Lines read and not yet looked at. Each may be long.
const READ_AHEAD: usize = 2;

/// Lines ready to be written.
const WRITE_AHEAD: usize = 64;

/// Where messages to the client go, one JSON text each, without a line end.
pub(crate) type Outbox = mpsc::Sender<String>;

/// The client's lines. The channel ends with the input.
///
/// # Errors
/// When no thread can be started.
pub(crate) fn read_lines() -> io::Result<mpsc::Receiver<Line>> {
    let (lines, receiver) = mpsc::channel(READ_AHEAD);
    start("stdin", move || {
        let mut cutter = Lines::default();
        let mut buffer = vec![0; 32 * 1024];
        let mut input = io::stdin().lock();
        loop {
            match input.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => {
                    let mut unheard = false;
                    cutter.feed(&buffer[..length], |line| {
                        unheard |= lines.blocking_send(line).is_err();
                    });
                    if unheard {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A terminal that went away, say: the same to us as an end.
                Err(_) => break,
            }
        }
        if let Some(line) = cutter.finish() {
            // The session ending first is no loss: nobody is left to answer.
            lines.blocking_send(line).unwrap_or_default();
        }
    })?;
    Ok(receiver)
}

/// The way to the client, and what resolves once everything sent on it is written or the client has
/// closed its end.
///
/// # Errors
/// When no thread can be started.
pub(crate) fn write_lines() -> io::Result<(Outbox, oneshot::Receiver<()>)> {
    let (outbox, mut lines) = mpsc::channel::<String>(WRITE_AHEAD);
    let (done, written) = oneshot::channel();
    start("stdout", move || {
        let mut output = io::stdout().lock();
        while let Some(mut line) = lines.blocking_recv() {
            line.push('\n');
            if output
                .write_all(line.as_bytes())
                .and_then(|()| output.flush())
                .is_err()
            {
                break;
            }
        }
        drop(lines);
        done.send(()).unwrap_or_default();
    })?;
    Ok((outbox, written))
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map(drop)
}
