//! Terraform under review: an edit that looks like a label, what it would do, who says yes, and exactly that.

use serde_json::json;
use toml::Table;

use crate::cluster_lock::ClusterLock;
use crate::ground::assert_nothing_left;
use crate::root::{Root, writes};
use crate::trail::{names, only};

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn an_open_approval_is_taken_back_by_its_owner_and_then_uses_nothing() {
    let _lock = ClusterLock::take();
    let root = Root::new("e2e-withdraw");
    let (trail, mut bridge) = (root.trail(), root.bridge());
    let approval = Root::ask(&mut bridge);
    root.write("main.tf", &root.source("storefront", 0));
    let ask = json!({ "working_dir": "demo" });
    let other = bridge.call("terraform_apply", ask.clone());
    let other = bridge.end_of(other);
    other.assert_refused("APPROVAL_OPEN", &approval);

    let withdraw = json!({ "working_dir": "demo", "approval_id": approval, "withdraw": true });
    let withdrawn = bridge.call("terraform_apply", withdraw.clone());
    assert_eq!(
        withdrawn.field("approval_state"),
        "cancelled",
        "{}",
        withdrawn.text()
    );
    let events = trail.of_once(withdrawn.request_id(), "tool.result");
    assert!(!names(&events).contains(&"credential.issued"), "{events:?}");
    let again = bridge.call("terraform_apply", withdraw);
    again.assert_refused("APPROVAL_CANCELLED", "");
    let used = Root::use_up(&mut bridge, &approval);
    used.assert_refused("APPROVAL_CANCELLED", "");
    let cooling = bridge.call("terraform_apply", ask);
    let cooling = bridge.end_of(cooling);
    cooling.assert_refused("APPROVAL_COOLING", "");
    assert!(root.uid().is_empty());
    assert_nothing_left(&trail);
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn a_root_whose_state_lives_elsewhere_is_planned_from_a_copy_and_never_applied() {
    let _lock = ClusterLock::take();
    let mut root = Root::new("e2e-elsewhere");
    let mut bridge = root.bridge();
    root.apply(&mut bridge);
    assert!(root.daemon.terminate().success());
    let copy = root.daemon.path("state/copy");
    root.daemon.state("export", &copy);
    root.configure(|config| {
        let mut state = Table::new();
        state.insert("snapshot".to_owned(), copy.clone().into());
        let demo = config["roots"]["demo"].as_table_mut().unwrap();
        demo.insert("state".to_owned(), state.into());
    });
    root.daemon.start();
    let backend = "terraform {\n  backend \"s3\" {\n    bucket = \"states\"\n  }\n}\n";
    root.write("backend.tf", backend);
    root.write("main.tf", &root.source("storefront", 0));
    let planned = Root::plan(&mut bridge);
    let summary = planned.field("summary");
    assert!(
        summary.starts_with("1 to replace (against a copy of the state"),
        "{}",
        planned.text()
    );
    let apply = bridge.call("terraform_apply", json!({ "working_dir": "demo" }));
    bridge
        .end_of(apply)
        .assert_refused("PLAN_REFUSED", "lives elsewhere");
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn a_label_edit_replaces_a_deployment_once_and_only_after_a_person_typed_its_name() {
    let _lock = ClusterLock::take();
    let root = Root::new("e2e-label");
    let (trail, mut bridge) = (root.trail(), root.bridge());
    let object = format!(
        "/apis/apps/v1/namespaces/demo-app/deployments/{}",
        root.name()
    );
    let created = root.apply(&mut bridge);
    let before = root.uid();
    assert!(!before.is_empty(), "{}", created.text());
    let events = trail.of_once(created.request_id(), "credential.proven_dead");
    assert_eq!(
        writes(&events),
        ["POST /apis/apps/v1/namespaces/demo-app/deployments"]
    );

    root.write("main.tf", &root.source("storefront", 1));
    let planned = Root::plan(&mut bridge);
    assert_eq!(planned.field("outcome"), "finished", "{}", planned.text());
    assert_eq!(planned.field("dangers"), "replaces", "{}", planned.text());
    let change = &planned.structured()["changes"][0];
    assert_eq!(change["address"], "kubernetes_deployment.shop");
    assert_eq!(change["action"], "replace");
    let why = change["reason"].as_str().unwrap();
    assert!(
        why.starts_with("forced by spec.selector.match_labels"),
        "{why}"
    );
    let events = trail.of_once(planned.request_id(), "tool.result");
    assert_eq!(writes(&events), Vec::<String>::new());
    assert!(
        names(&events).contains(&"api.call"),
        "it read nothing: {events:?}"
    );

    let approval = Root::ask(&mut bridge);
    Root::use_up(&mut bridge, &approval).assert_refused("APPROVAL_NOT_GRANTED", &approval);
    root.grant(&approval, &format!("Deployment/demo-app/{}", root.name()));
    assert_eq!(root.uid(), before, "a grant alone changed the cluster");
    let applied = Root::use_up(&mut bridge, &approval);
    assert_eq!(applied.field("outcome"), "finished", "{}", applied.text());
    let after = root.uid();
    assert!(
        !after.is_empty() && after != before,
        "{before} is now {after}"
    );
    let again = Root::use_up(&mut bridge, &approval);
    again.assert_refused("APPROVAL_USED", applied.request_id());
    assert_eq!(root.uid(), after);

    let events = trail.of_once(applied.request_id(), "credential.proven_dead");
    let mut story = names(&events);
    // The proof of the end comes when the API server gives it, before the last events or after them.
    story.retain(|name| *name != "credential.proven_dead");
    story.dedup();
    let expected = [
        "tool.request",
        "guardrail.decision",
        "approval.consumed",
        "credential.issued",
        "sandbox.started",
        "api.call",
        "sandbox.completed",
        "credential.revoked",
        "terraform.applied",
        "tool.result",
    ];
    assert_eq!(story, expected);
    let scope = only(&events, "credential.issued").text("scope");
    assert!(
        scope.starts_with("Role sandbox-apply-delete-demo in namespace demo-app"),
        "{scope}"
    );
    let in_order = [
        format!("DELETE {object}"),
        "POST /apis/apps/v1/namespaces/demo-app/deployments".to_owned(),
    ];
    assert_eq!(writes(&events), in_order);
    for call in events.iter().filter(|event| event.name == "api.call") {
        assert!(
            call.text("path") == object || call.text("method") == "POST",
            "{call:?}"
        );
        assert!(call.fields["refused"].is_null(), "{call:?}");
    }
    let opened = trail.of(only(&events, "approval.consumed").text("opened_by"));
    let mut story = names(&opened);
    story.dedup();
    let expected = [
        "tool.request",
        "guardrail.decision",
        "approval.opened",
        "tool.result",
        "approval.verdict",
        "approval.granted",
    ];
    assert_eq!(story, expected);
    assert_eq!(only(&opened, "approval.verdict").fields["counts"], true);
    trail.assert_whole();
    assert_nothing_left(&trail);
}
