//! Signals that end or suspend the watch. Each leaves the terminal as it was.

use std::io;

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind, signal};

/// What a signal asks for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Told {
    /// To end; the signal's number.
    End(u8),
    /// To stop until somebody continues us.
    Suspend,
}

pub(super) struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hangup: unix::Signal,
    quit: unix::Signal,
    suspend: unix::Signal,
}

impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            quit: signal(SignalKind::quit())?,
            suspend: signal(SignalKind::from_raw(Signal::TSTP.as_raw()))?,
        })
    }

    pub(super) async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.hangup.recv() => Told::End(1),
            _ = self.interrupt.recv() => Told::End(2),
            _ = self.quit.recv() => Told::End(3),
            _ = self.terminate.recv() => Told::End(15),
            _ = self.suspend.recv() => Told::Suspend,
        }
    }
}
