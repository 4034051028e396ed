//! PID 1 reaps. In a file of its own: reaping takes whatever child this process has.
#![cfg(test)]

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use sandbox_runner::hold;

fn state_of(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

#[test]
fn children_that_have_ended_are_collected_and_running_ones_are_left() {
    let mut running = Command::new("sleep").arg("60").spawn().unwrap();
    let ended: Vec<_> = (0..3)
        .map(|_| Command::new("true").spawn().unwrap().id())
        .collect();
    let deadline = Instant::now() + Duration::from_secs(10);
    while !ended.iter().all(|&pid| state_of(pid) == Some('Z')) {
        assert!(Instant::now() < deadline, "the children never ended");
        std::thread::yield_now();
    }
    hold::reap();
    assert!(ended.iter().all(|&pid| state_of(pid).is_none()));
    assert!(state_of(running.id()).is_some());
    running.kill().unwrap();
    running.wait().unwrap();
}
