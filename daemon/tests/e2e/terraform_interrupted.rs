//! Applies that something ends in the middle, or that nobody waits for: told truthfully, never run twice, and
//! the next plan shows what is there.

use std::time::Duration;

use crate::bridge::Bridge;
use crate::cluster::{kubectl, try_kubectl};
use crate::cluster_lock::ClusterLock;
use crate::ground::{assert_nothing_left, rows};
use crate::openbao::Away;
use crate::own_daemon::set;
use crate::root::{Root, writes};
use crate::trail::{Event, Trail, only};
use crate::wait::until;

/// Keeps what is deleted where it is.
const FINALIZER: &str = "e2e.example.com/hold";

/// A replacement that stands still: the old Deployment is being deleted, and something holds it.
struct InTheMiddle {
    approval: String,
    call: u64,
    request: String,
    job: String,
}

impl InTheMiddle {
    fn of(root: &Root, bridge: &mut Bridge, trail: &Trail) -> Self {
        root.apply(bridge);
        root.hold(FINALIZER);
        root.write("main.tf", &root.source("storefront", 0));
        let approval = Root::ask(bridge);
        root.grant(&approval, &format!("Deployment/demo-app/{}", root.name()));
        let mark = trail.mark();
        let call = Root::begin(bridge, &approval);
        let deletion = |event: &Event| event.name == "api.call" && event.text("method") == "DELETE";
        let deletion = trail.wait_for(mark, "the deletion in the cluster", deletion);
        let events = trail.of(&deletion.request);
        Self {
            approval,
            call,
            job: only(&events, "sandbox.started").text("job").to_owned(),
            request: deletion.request,
        }
    }
}

/// States that were kept.
fn states(trail: &Trail) -> Vec<String> {
    rows(
        trail,
        "SELECT lineage || ' ' || serial FROM state_version ORDER BY id",
    )
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn an_apply_whose_client_is_gone_goes_on_and_its_owner_can_ask_for_it() {
    let _lock = ClusterLock::take();
    let root = Root::new("e2e-gone");
    let (trail, mut bridge) = (root.trail(), root.bridge());
    root.write("main.tf", &root.source("shop", 1));
    let approval = Root::ask(&mut bridge);
    root.grant(&approval, "yes");
    let mark = trail.mark();
    Root::begin(&mut bridge, &approval);
    let launched = trail.wait_for(mark, "a launch", |event| event.name == "approval.consumed");
    bridge.kill();
    let events = trail.of_once(&launched.request, "credential.proven_dead");
    assert_eq!(only(&events, "tool.result").text("outcome"), "succeeded");
    assert_eq!(root.look("{.status.readyReplicas}"), "1");

    let ask = serde_json::json!({ "request_id": launched.request });
    let mut bridge = root.bridge();
    let answer = bridge.call("get_request", ask);
    assert_eq!(answer.field("outcome"), "succeeded", "{}", answer.text());
    let result = answer.field("result_json");
    assert!(result.contains("kubernetes_deployment.shop"), "{result}");
    let again = Root::use_up(&mut bridge, &approval);
    again.assert_refused("APPROVAL_USED", &launched.request);
    assert_nothing_left(&trail);
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn an_apply_that_loses_its_job_is_unknown_and_the_next_plan_shows_what_is_there() {
    let _lock = ClusterLock::take();
    let root = Root::new("e2e-lost");
    let (trail, mut bridge) = (root.trail(), root.bridge());
    let middle = InTheMiddle::of(&root, &mut bridge, &trail);
    let kept = states(&trail);
    kubectl(&[
        "-n",
        "sandbox-jobs",
        "delete",
        "job",
        &middle.job,
        "--wait=false",
    ]);
    let answer = bridge.answer(middle.call);
    let answer = bridge.end_of(answer);
    answer.assert_refused("APPLY_UNKNOWN", "its end was not seen");
    let events = trail.of_once(&middle.request, "credential.proven_dead");
    assert_eq!(only(&events, "tool.result").text("outcome"), "unknown");
    assert_eq!(
        only(&events, "terraform.applied").text("outcome"),
        "unknown"
    );
    assert_eq!(states(&trail), kept);
    assert_the_next_plan_is_right(&root, &mut bridge, &middle);
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn an_apply_whose_daemon_is_killed_is_unknown_and_never_runs_again() {
    let _lock = ClusterLock::take();
    let mut root = Root::new("e2e-killed");
    let (trail, mut bridge) = (root.trail(), root.bridge());
    let middle = InTheMiddle::of(&root, &mut bridge, &trail);
    let kept = states(&trail);
    root.daemon.kill();
    bridge
        .answer(middle.call)
        .assert_refused("CONNECTION_LOST", "");
    root.daemon.start();
    let events = trail.of_once(&middle.request, "reconcile.lease_revoked");
    assert_eq!(only(&events, "tool.result").text("outcome"), "unknown");
    let ask = serde_json::json!({ "request_id": middle.request });
    let answer = bridge.call("get_request", ask);
    assert_eq!(answer.field("outcome"), "unknown", "{}", answer.text());
    assert_eq!(states(&trail), kept);
    assert_the_next_plan_is_right(&root, &mut bridge, &middle);
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn an_apply_that_outlives_openbao_loses_no_state() {
    let _lock = ClusterLock::take();
    let mut root = Root::new("e2e-outlives");
    assert!(root.daemon.terminate().success());
    root.configure(|config| {
        let key = "mount = 'transit'\nkey = 'agent-sandbox'\n".parse::<toml::Table>();
        set(config, "vault", "transit", key.unwrap());
    });
    root.daemon.start();
    let (trail, mut bridge) = (root.trail(), root.bridge());
    let middle = InTheMiddle::of(&root, &mut bridge, &trail);
    let kept = states(&trail);
    let away = Away::stopped();
    root.let_go();
    let answer = bridge.answer(middle.call);
    let answer = bridge.end_of(answer);
    // The work was done, and its credential could not be taken back.
    answer.assert_refused("REVOCATION_UNPROVEN", "All of the plan was applied");
    let events = trail.of(&middle.request);
    assert_eq!(
        only(&events, "terraform.applied").text("outcome"),
        "succeeded"
    );
    assert_eq!(told_of_the_root(&trail), None);
    assert!(states(&trail).len() > kept.len());
    away.bring_back();
    let planned = Root::plan(&mut bridge);
    assert_eq!(
        planned.field("outcome"),
        "nothing_to_do",
        "{}",
        planned.text()
    );
    trail.of_once(&middle.request, "credential.proven_dead");
    assert_nothing_left(&trail);
}

/// The approval is gone and nothing goes on by itself; once the old Deployment is let go, the next plan makes
/// the new one and does nothing else.
fn assert_the_next_plan_is_right(root: &Root, bridge: &mut Bridge, middle: &InTheMiddle) {
    let trail = root.trail();
    let again = Root::use_up(bridge, &middle.approval);
    again.assert_refused("APPROVAL_USED", &middle.request);
    let job = format!("/apis/batch/v1/namespaces/sandbox-jobs/jobs/{}", middle.job);
    until("the end of the Job", Duration::from_secs(30), || {
        try_kubectl(&["get", "--raw", &job], "").err()
    });
    root.let_go();
    until("the end of the Deployment", Duration::from_secs(30), || {
        root.uid().is_empty().then_some(())
    });
    let planned = Root::plan(bridge);
    assert_eq!(planned.field("summary"), "1 to add", "{}", planned.text());
    // Agents and people are told of it until an apply succeeds.
    let mark = planned.field("last_apply").to_owned();
    assert!(mark.contains(&middle.request), "{mark}");
    assert!(planned.text().contains(&mark), "{}", planned.text());
    assert_eq!(told_of_the_root(&trail), Some(mark));
    let applied = root.apply(bridge);
    assert_eq!(told_of_the_root(&trail), None);
    assert_eq!(
        root.look("{.metadata.labels.app}"),
        format!("{}-storefront", root.name())
    );
    let events = trail.of(&middle.request);
    let deployments = "/apis/apps/v1/namespaces/demo-app/deployments";
    assert_eq!(
        writes(&events),
        [format!("DELETE {deployments}/{}", root.name())]
    );
    let events = trail.of(applied.request_id());
    assert_eq!(writes(&events), [format!("POST {deployments}")]);
    trail.assert_whole();
    assert_nothing_left(&trail);
}

/// What `approver status` says of the root, if anything.
fn told_of_the_root(trail: &Trail) -> Option<String> {
    let status = trail.status();
    let mut parts = status["parts"].as_array().unwrap().iter();
    let root = parts.find(|part| part["name"] == "root demo")?;
    Some(root["detail"].as_str().unwrap().to_owned())
}
