//! Waiting for what must come about, and no longer.

use std::thread;
use std::time::{Duration, Instant};

/// What `look` finds, as soon as it finds it.
pub(crate) fn until<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + limit;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "not within {limit:?}: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}
