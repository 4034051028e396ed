//! One at a time: tests that use the cluster `scripts/up` brought up wait here for one another, whichever
//! process they are in.

use std::fs::File;

/// Held by a test from its first line to its last.
#[must_use = "others may go ahead as soon as it is dropped"]
#[derive(Debug)]
pub struct ClusterLock(#[expect(dead_code, reason = "open means held")] File);

impl ClusterLock {
    /// Waits until no other test uses the cluster.
    pub fn take() -> Self {
        let home = std::env::var("AGENT_SANDBOX_HOME");
        let home = home.unwrap_or_else(|_| "/var/lib/agent-sandbox".to_owned());
        let file = File::create(format!("{home}/tests.lock"));
        let file = file.expect("scripts/up makes the folder, and tests with a cluster run as root");
        file.lock().expect("a lock that can be waited for");
        Self(file)
    }
}
