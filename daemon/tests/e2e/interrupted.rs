//! Calls that something ends in the middle: the Job, the client, the daemon.

use rustix::process::Signal;

use crate::bridge::Bridge;
use crate::cluster::kubectl;
use crate::cluster_lock::ClusterLock;
use crate::daemon::Stopped;
use crate::frozen::Frozen;
use crate::ground::assert_nothing_left;
use crate::trail::{Trail, names, only};

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn a_job_that_is_deleted_in_mid_call_is_told_and_its_replacement_never_served() {
    let _lock = ClusterLock::take();
    let trail = Trail::of_the_installed();
    let mut bridge = Bridge::start();
    let frozen = Frozen::call(&mut bridge, &trail);
    let job = frozen.started.text("job").to_owned();
    let pod = frozen.started.text("pod");
    kubectl(&[
        "-n",
        "sandbox-jobs",
        "delete",
        "pod",
        pod,
        "--grace-period=0",
        "--force",
        "--wait=false",
    ]);
    let answer = bridge.answer(frozen.call);
    answer.assert_refused("SANDBOX_LOST", &job);

    let events = trail.of_once(&frozen.request, "credential.proven_dead");
    let completed = only(&events, "sandbox.completed");
    assert_eq!(completed.text("outcome"), "failed");
    assert!(!names(&events).contains(&"api.call"), "{events:?}");
    assert_eq!(
        only(&events, "credential.revoked").fields["refused_with"],
        403
    );
    assert_eq!(only(&events, "tool.result").text("code"), "SANDBOX_LOST");
    assert_nothing_left(&trail);
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn a_call_whose_client_is_gone_runs_to_its_end_and_its_owner_can_ask_for_it() {
    let _lock = ClusterLock::take();
    let trail = Trail::of_the_installed();
    let mut bridge = Bridge::start();
    let frozen = Frozen::call(&mut bridge, &trail);
    let request = frozen.request.clone();
    bridge.kill();
    assert_eq!(trail.status()["requests_running"], 1);
    frozen.resume();
    let events = trail.of_once(&request, "credential.proven_dead");
    assert_eq!(only(&events, "tool.result").text("outcome"), "succeeded");

    let answer = Bridge::start().call("get_request", serde_json::json!({ "request_id": request }));
    assert!(!answer.is_error(), "{}", answer.text());
    assert_eq!(answer.field("outcome"), "succeeded");
    assert!(answer.text().contains("web-"), "{}", answer.text());
    assert_nothing_left(&trail);
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn a_daemon_that_is_terminated_in_mid_call_ends_it_revokes_and_proves_before_it_goes() {
    let _lock = ClusterLock::take();
    let trail = Trail::of_the_installed();
    let mut bridge = Bridge::start();
    let frozen = Frozen::call(&mut bridge, &trail);
    let mark = trail.mark();
    let stopped = Stopped::by(Signal::TERM);
    let answer = bridge.answer(frozen.call);
    assert!(
        ["STOPPING", "CONNECTION_LOST"].contains(&answer.code()),
        "{}",
        answer.text()
    );

    let events = trail.since(mark);
    let of_the_call: Vec<_> = events
        .iter()
        .filter(|e| e.request == frozen.request)
        .collect();
    let of = |name: &str| of_the_call.iter().find(|event| event.name == name).unwrap();
    assert_eq!(of("credential.revoked").fields["refused_with"], 403);
    assert_eq!(of("tool.result").text("outcome"), "cancelled");
    assert_eq!(of("credential.proven_dead").text("pod"), "gone");
    let last = only(&events, "daemon.stopped");
    assert_eq!(last.fields["tasks_left"], 0);
    assert!(crate::cluster::object_names("/apis/batch/v1/namespaces/sandbox-jobs/jobs").is_empty());
    assert_eq!(crate::ground::of_leases(&trail), Vec::<String>::new());

    stopped.start();
    assert!(!bridge.pods("demo-app").is_error());
    trail.assert_whole();
    assert_nothing_left(&trail);
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn what_a_killed_daemon_had_open_is_ended_at_the_next_start_and_closed_as_unknown() {
    let _lock = ClusterLock::take();
    let trail = Trail::of_the_installed();
    let mut bridge = Bridge::start();
    let frozen = Frozen::call(&mut bridge, &trail);
    let (request, job) = (
        frozen.request.clone(),
        frozen.started.text("job").to_owned(),
    );
    let account = frozen.issued.text("service_account").to_owned();
    let stopped = Stopped::by(Signal::KILL);
    let answer = bridge.answer(frozen.call);
    answer.assert_refused("CONNECTION_LOST", "whether it finished is not known");
    assert_eq!(answer.request_id(), request);
    let left = crate::ground::leased_objects();
    assert!(
        left.iter().any(|what| what.ends_with(&account)),
        "nothing to end: {left:?}"
    );

    let mark = trail.mark();
    stopped.start();
    let events = trail.since(mark);
    let deleted = events.iter().find(|event| event.text("job") == job);
    assert_eq!(
        deleted.map(|event| event.name.as_str()),
        Some("reconcile.job_deleted")
    );
    let events = trail.of(&request);
    let revoked = only(&events, "reconcile.lease_revoked");
    assert_eq!(revoked.text("lease_id"), frozen.issued.text("lease_id"));
    assert!(
        revoked.text("seen").contains("may list nothing any more"),
        "{revoked:?}"
    );
    assert_eq!(only(&events, "tool.result").text("outcome"), "unknown");

    let answer = bridge.call("get_request", serde_json::json!({ "request_id": request }));
    assert_eq!(answer.field("outcome"), "unknown", "{}", answer.text());
    trail.assert_whole();
    assert_nothing_left(&trail);
}
