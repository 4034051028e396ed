//! A daemon that ends as by a power cut at each step of a call: its next start leaves nothing of it, and
//! never says that it succeeded when nobody saw it.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;

use crate::cluster_lock::ClusterLock;
use crate::ground::assert_nothing_left;
use crate::own_daemon::{OwnDaemon, without_spares};
use crate::trail::only;

/// In the order of a call, as `--crash-after` names them.
const STEPS: [&str; 11] = [
    "lease-asked",
    "child-made",
    "child-journalled",
    "credential-minted",
    "lease-journalled",
    "job-journalled",
    "job-created",
    "job-claimed",
    "sandbox-started",
    "lease-revoked",
    "job-deleted",
];

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn whatever_step_the_daemon_dies_at_its_next_start_ends_all_of_it() {
    let _lock = ClusterLock::take();
    // Without spares every Job that is journalled is one of the call's.
    let mut daemon = OwnDaemon::new(without_spares);
    daemon.run_build(Path::new(env!("CARGO_BIN_EXE_sandboxd")));
    let trail = daemon.trail();
    for step in STEPS {
        daemon.start_with(&["--crash-after", step]);
        let mark = trail.mark();
        let mut bridge = daemon.bridge();
        let answer = bridge.pods("demo-app");
        let status = daemon.wait_for_its_end();
        assert_eq!(status.signal(), Some(6), "{step}: {status}");
        // The Job goes in the background: its caller may have been answered.
        let answered = step == "job-deleted" && !answer.is_error();
        assert!(
            answered || answer.code() == "CONNECTION_LOST",
            "{step}: {}",
            answer.text()
        );

        daemon.start();
        let request = answer.request_id();
        let events = trail.of_once(request, "tool.result");
        let result = only(&events, "tool.result");
        let seen = trail
            .since(mark)
            .iter()
            .any(|e| e.name == "reconcile.request_closed");
        let expected = if seen { "unknown" } else { "succeeded" };
        assert_eq!(result.text("outcome"), expected, "{step}");
        assert!(seen || step == "job-deleted", "{step}: {events:?}");
        assert_nothing_left(&trail);
        let next = daemon.bridge().pods("demo-app");
        assert!(!next.is_error(), "{step}: {}", next.text());
        assert_nothing_left(&trail);
        trail.assert_whole();
        assert!(daemon.terminate().success());
    }
}
