//! OpenBao away, sealed, and gone while a credential is out.

use std::time::Duration;

use serde_json::json;

use crate::bridge::Bridge;
use crate::cluster_lock::ClusterLock;
use crate::frozen::Frozen;
use crate::ground::assert_nothing_left;
use crate::openbao::Away;
use crate::root::Root;
use crate::trail::{Trail, names, only};
use crate::wait::until;

/// Calls while OpenBao is `away`, and again when it is back.
fn assert_told(away: impl FnOnce() -> Away, code: &str, words: &str) {
    let _lock = ClusterLock::take();
    let trail = Trail::of_the_installed();
    let mut bridge = Bridge::start();
    let away = away();
    let answer = bridge.pods("demo-app");
    answer.assert_refused(code, words);
    let events = trail.of_once(answer.request_id(), "tool.result");
    // A sandbox is claimed at the same time, and told of if it was there first; nothing runs in it.
    let without_the_sandbox: Vec<_> = names(&events)
        .into_iter()
        .filter(|name| *name != "sandbox.started")
        .collect();
    assert_eq!(
        without_the_sandbox,
        ["tool.request", "guardrail.decision", "tool.result"]
    );
    let result = only(&events, "tool.result");
    assert_eq!(
        (result.text("outcome"), result.text("code")),
        ("failed", code)
    );
    let vault = |trail: &Trail| trail.status()["parts"][1].clone();
    assert_eq!(
        (&vault(&trail)["name"], &vault(&trail)["ok"]),
        (&"vault".into(), &false.into())
    );

    away.bring_back();
    let answer = bridge.pods("demo-app");
    assert!(!answer.is_error(), "{}", answer.text());
    assert_nothing_left(&trail);
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn without_openbao_the_answer_says_so_and_calls_work_once_it_is_back() {
    assert_told(
        Away::stopped,
        "VAULT_UNAVAILABLE",
        "No credential was issued",
    );
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn a_sealed_openbao_is_named_and_calls_work_once_it_is_unsealed() {
    assert_told(Away::sealed, "VAULT_SEALED", "sealed");
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn a_result_is_withheld_when_its_credential_cannot_be_revoked_and_the_lease_ends_once_it_can() {
    let _lock = ClusterLock::take();
    let trail = Trail::of_the_installed();
    let mut bridge = Bridge::start();
    let frozen = Frozen::call(&mut bridge, &trail);
    let (call, request) = (frozen.call, frozen.request.clone());
    let away = Away::stopped();
    frozen.resume();
    let answer = bridge.answer(call);
    answer.assert_refused("REVOCATION_UNPROVEN", "withheld");
    assert!(!answer.text().contains("web-"), "{}", answer.text());
    let events = trail.of_once(&request, "tool.result");
    assert_eq!(only(&events, "sandbox.completed").text("outcome"), "done");
    let revoked = only(&events, "credential.revoked");
    assert!(
        revoked.text("not_refused_yet").contains("did not revoke"),
        "{revoked:?}"
    );
    assert_eq!(trail.status()["leases_unproven"], 1);

    away.bring_back();
    let events = trail.of_once(&request, "credential.proven_dead");
    // 401 once the API server's cache of tokens has forgotten it, ten seconds after the end.
    let proven = &only(&events, "credential.proven_dead").fields["refused_with"];
    assert!([403, 401].iter().any(|status| proven == status), "{proven}");
    until("a closed lease", Duration::from_secs(30), || {
        (trail.status()["leases_unproven"] == 0).then_some(())
    });
    assert_nothing_left(&trail);
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn nothing_is_applied_to_a_root_while_a_credential_of_its_own_may_still_be_good() {
    let _lock = ClusterLock::take();
    let root = Root::new("e2e-unproven");
    let (trail, mut bridge) = (root.trail(), root.bridge());
    let approval = Root::ask(&mut bridge);
    root.grant(&approval, "yes");
    let mark = trail.mark();
    let planning = bridge.begin("terraform_plan", json!({ "working_dir": "demo" }));
    trail.wait_for(mark, "a sandbox", |event| event.name == "sandbox.started");
    let away = Away::stopped();
    let planned = bridge.answer(planning);
    let planned = bridge.end_of(planned);
    planned.assert_refused("REVOCATION_UNPROVEN", "withheld");
    let applied = Root::use_up(&mut bridge, &approval);
    applied.assert_refused("REVOCATION_UNPROVEN", planned.request_id());
    assert!(root.uid().is_empty());

    away.bring_back();
    until("a closed lease", Duration::from_secs(30), || {
        (trail.status()["leases_unproven"] == 0).then_some(())
    });
    let applied = Root::use_up(&mut bridge, &approval);
    assert_eq!(applied.field("outcome"), "finished", "{}", applied.text());

    // Nor without the key of its state, and then the approval is not used up.
    root.write("main.tf", &root.source("shop", 2));
    let approval = Root::ask(&mut bridge);
    root.grant(&approval, "yes");
    let away = Away::stopped();
    let applied = Root::use_up(&mut bridge, &approval);
    applied.assert_refused("VAULT_UNAVAILABLE", "");
    away.bring_back();
    assert_eq!(root.look("{.spec.replicas}"), "0");
    let applied = Root::use_up(&mut bridge, &approval);
    assert_eq!(applied.field("outcome"), "finished", "{}", applied.text());
    assert_nothing_left(&trail);
}
