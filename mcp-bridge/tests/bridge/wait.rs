//! Waiting for a condition, with a deadline.

use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take before a test fails.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// Polls until there is a value, or fails.
pub fn wait_until<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = poll() {
            return value;
        }
        assert!(start.elapsed() < DEADLINE, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
