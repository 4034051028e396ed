//! The installed daemon, ended and started as an operator does.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::places::{home, script};
use crate::trail::Trail;
use crate::wait::until;

/// The installed daemon while it is not there; dropping it starts it again.
pub(crate) struct Stopped(());

impl Stopped {
    pub(crate) fn now() -> Self {
        let stopped = Self(());
        script("scripts/daemon", &["down"]);
        stopped
    }

    /// Sends it a signal and waits until it is gone.
    pub(crate) fn by(signal: Signal) -> Self {
        let stopped = Self(());
        let pid = pid();
        kill_process(pid, signal).unwrap();
        until("the daemon's end", Duration::from_mins(1), || {
            is_gone(pid).then_some(())
        });
        stopped
    }

    pub(crate) fn start(self) {
        drop(self);
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        script("scripts/daemon", &["up"]);
    }
}

pub(crate) fn pid() -> Pid {
    let text = fs::read_to_string(home().join("sandboxd.pid")).expect("sandboxd: run scripts/up");
    let pid = text.split(' ').next().unwrap().parse().unwrap();
    Pid::from_raw(pid).unwrap()
}

pub(crate) fn is_gone(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    stat.map_or(true, |stat| stat.contains(") Z "))
}

/// Waits until the spares are there, so that a call starts from rest; gives how many there are.
pub(crate) fn at_rest(trail: &Trail) -> usize {
    let size = until(
        "spares, and nothing that runs",
        Duration::from_mins(1),
        || {
            let status = trail.status();
            let rests =
                status["requests_running"] == 0 && status["pool_ready"] == status["pool_size"];
            rests.then(|| status["pool_size"].as_u64().unwrap())
        },
    );
    usize::try_from(size).unwrap()
}
