//! Who may not connect, and nobody to connect to.

use crate::bridge::Bridge;
use crate::cluster_lock::ClusterLock;
use crate::daemon::Stopped;
use crate::places::{AGENT, APPROVER};
use crate::trail::Trail;

/// A uid that no refusal of the last minute was about: the trail tells those once, then their count.
fn unlisted_uid() -> String {
    (100_000 + std::process::id() % 100_000).to_string()
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn a_uid_of_the_sockets_group_that_is_not_listed_is_refused_and_told_of() {
    let _lock = ClusterLock::take();
    let trail = Trail::of_the_installed();
    let mark = trail.mark();
    let uid = unlisted_uid();
    let answer = Bridge::start_as(&uid, AGENT, None).pods("demo-app");
    answer.assert_refused("NOT_ADMITTED", &uid);

    let who = format!("uid {uid}");
    let refused = trail.wait_for(mark, "peer.refused", |e| e.text("who") == who);
    assert_eq!(
        (refused.name.as_str(), refused.text("code")),
        ("peer.refused", "NOT_ADMITTED")
    );
    assert!(trail.since(mark).iter().all(|e| e.name != "tool.request"));
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn the_approvers_uid_is_no_agent() {
    let _lock = ClusterLock::take();
    let answer = Bridge::start_as(APPROVER, AGENT, None).pods("demo-app");
    answer.assert_refused("NOT_ADMITTED", "does not serve you");
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn a_uid_outside_the_sockets_group_does_not_reach_the_socket() {
    let _lock = ClusterLock::take();
    let uid = unlisted_uid();
    let answer = Bridge::start_as(&uid, &uid, None).pods("demo-app");
    answer.assert_refused("SOCKET_FORBIDDEN", &format!("closed to uid {uid}"));
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn without_a_daemon_the_answer_says_how_to_start_it_and_the_same_bridge_works_once_it_is_there() {
    let _lock = ClusterLock::take();
    let mut bridge = Bridge::start();
    assert!(!bridge.pods("demo-app").is_error());
    let stopped = Stopped::now();
    let answer = bridge.pods("demo-app");
    answer.assert_refused("DAEMON_NOT_RUNNING", "/run/sandboxd/agent/agent.sock");
    assert!(
        answer.field("next").contains("Start sandboxd"),
        "{}",
        answer.text()
    );
    stopped.start();
    assert!(!bridge.pods("demo-app").is_error());
}
