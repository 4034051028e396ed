//! Input that is not right: each is refused by name, is in the trail, and leaves nothing behind.

use serde_json::{Value, json};

use crate::bridge::{Answer, Bridge};
use crate::cluster_lock::ClusterLock;
use crate::ground::assert_nothing_left;
use crate::trail::{Trail, names};

const TOOL: &str = "k8s_get_pod_status";

/// A call that the daemon does not take for a request at all.
fn assert_not_taken(tool: &str, arguments: Value, code: &str, field: &str, words: &str) {
    let _lock = ClusterLock::take();
    let trail = Trail::of_the_installed();
    let mark = trail.mark();
    let answer = Bridge::start().call(tool, arguments);
    answer.assert_refused(code, words);
    assert_eq!(answer.field("field"), field, "{}", answer.text());
    if !field.is_empty() {
        assert!(
            answer.text().contains(&format!("Field: {field}")),
            "{}",
            answer.text()
        );
        assert!(answer.message().contains(field), "{}", answer.text());
    }

    let refused = trail.wait_for(mark, "request.refused", |e| e.name == "request.refused");
    assert_eq!(refused.text("code"), code);
    assert_eq!(refused.text("reason"), answer.message());
    assert_eq!(refused.text("action"), tool);
    let all = trail.since(mark);
    assert!(!names(&all).contains(&"tool.request"), "{all:?}");
    assert!(!names(&all).contains(&"credential.issued"), "{all:?}");
    assert_nothing_left(&trail);
}

/// A request that the policy denies.
fn assert_denied(namespace: &str) {
    let _lock = ClusterLock::take();
    let trail = Trail::of_the_installed();
    let mark = trail.mark();
    let answer: Answer = Bridge::start().pods(namespace);
    let reason =
        format!("no rule of the policy lets demo-agent use {TOOL} in namespace {namespace}");
    answer.assert_refused("POLICY_DENIED", &reason);

    let decided = trail.wait_for(mark, "a decision", |e| e.name == "guardrail.decision");
    assert_eq!(
        (decided.text("decision"), decided.text("rule")),
        ("deny", "default")
    );
    assert_eq!(decided.text("reason"), reason);
    let events = trail.of_once(&decided.request, "tool.result");
    assert_eq!(
        names(&events),
        ["tool.request", "guardrail.decision", "tool.result"]
    );
    assert_eq!(events[2].text("outcome"), "denied");
    assert_nothing_left(&trail);
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn an_unknown_tool_is_refused_by_name() {
    assert_not_taken(
        "k8s_delete_pod",
        json!({}),
        "UNKNOWN_ACTION",
        "",
        "no action k8s_delete_pod",
    );
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn an_unknown_field_is_named() {
    let arguments = json!({ "namespace": "demo-app", "all_namespaces": true });
    assert_not_taken(
        TOOL,
        arguments,
        "INVALID_ARGUMENT",
        "all_namespaces",
        "not a parameter",
    );
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn a_namespace_with_capitals_is_refused() {
    let arguments = json!({ "namespace": "Demo-App" });
    assert_not_taken(
        TOOL,
        arguments,
        "INVALID_ARGUMENT",
        "namespace",
        "the character D at position 1",
    );
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn a_namespace_of_64_characters_is_refused() {
    let arguments = json!({ "namespace": "a".repeat(64) });
    assert_not_taken(TOOL, arguments, "INVALID_ARGUMENT", "namespace", "63");
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn a_namespace_with_path_characters_is_refused() {
    let arguments = json!({ "namespace": "demo-app/../kube-system" });
    assert_not_taken(
        TOOL,
        arguments,
        "INVALID_ARGUMENT",
        "namespace",
        "the character /",
    );
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn a_namespace_with_shell_characters_is_refused() {
    let arguments = json!({ "namespace": "demo-app;id" });
    assert_not_taken(
        TOOL,
        arguments,
        "INVALID_ARGUMENT",
        "namespace",
        "the character ;",
    );
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn a_bad_selector_is_refused() {
    let arguments = json!({ "namespace": "demo-app", "label_selector": "app in (web" });
    assert_not_taken(
        TOOL,
        arguments,
        "INVALID_ARGUMENT",
        "label_selector",
        "label_selector",
    );
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn a_page_token_that_was_never_given_is_refused() {
    let arguments = json!({ "namespace": "demo-app", "page_token": "bm90IG9uZSBvZiBvdXJz" });
    assert_not_taken(
        TOOL,
        arguments,
        "PAGE_EXPIRED",
        "page_token",
        "since sandboxd started",
    );
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn a_namespace_that_the_policy_lacks_is_denied() {
    assert_denied("default");
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn kube_system_is_denied() {
    assert_denied("kube-system");
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn the_namespace_of_the_sandboxes_is_denied() {
    assert_denied("sandbox-jobs");
}
