//! One call that works: each step in the trail, in order; a credential for that call and no other; a trail
//! that shows what was done to it.

use std::fs;
use std::process::Command;

use crate::bridge::Bridge;
use crate::cluster::{may, object_names};
use crate::cluster_lock::ClusterLock;
use crate::daemon::at_rest;
use crate::frozen::Frozen;
use crate::ground::assert_nothing_left;
use crate::places::installed;
use crate::trail::{Trail, names, only};

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn every_step_of_a_call_is_in_the_trail_in_order() {
    let _lock = ClusterLock::take();
    let trail = Trail::of_the_installed();
    at_rest(&trail);
    let answer = Bridge::start().pods("demo-app");
    assert!(answer.pod_names().iter().any(|pod| pod.starts_with("web-")));

    let request = answer.request_id();
    let events = trail.of_once(request, "credential.proven_dead");
    let expected = [
        "tool.request",
        "guardrail.decision",
        "credential.issued",
        "sandbox.started",
        "api.call",
        "sandbox.completed",
        "credential.revoked",
        "tool.result",
        "credential.proven_dead",
    ];
    assert_eq!(names(&events), expected);
    assert!(events.iter().all(|event| event.request == request));

    let of = |name| only(&events, name);
    assert_eq!(of("tool.request").text("action"), "k8s_get_pod_status");
    let parameters = &of("tool.request").fields["parameters"];
    assert_eq!(*parameters, serde_json::json!({ "namespace": "demo-app" }));
    assert_eq!(of("guardrail.decision").text("decision"), "allow");
    assert_eq!(
        of("guardrail.decision").text("rule"),
        "agents-read-demo-pods"
    );
    let lease = of("credential.issued").text("lease_id");
    assert!(lease.starts_with("sandbox-k8s-"), "{lease}");
    assert!(lease.contains("/creds/pod-reader.demo-app/"), "{lease}");
    let scope = of("credential.issued").text("scope");
    assert!(
        scope.starts_with("Role sandbox-pod-reader in namespace demo-app"),
        "{scope}"
    );
    assert_eq!(of("credential.issued").fields["ttl_seconds"], 600);
    let started = of("sandbox.started");
    assert!(
        started.text("kernel_reported").contains("gvisor"),
        "{started:?}"
    );
    assert_eq!(started.text("runtime_class"), "gvisor");
    assert!(
        started.text("image").contains("/runner@sha256:"),
        "{started:?}"
    );
    // With or without attempts that still got out before the policy bit: those held no credential.
    let egress = started.text("egress");
    assert!(
        egress.contains("blocked (") && egress.contains(" before and after the API server at "),
        "{egress}"
    );
    let api_call = of("api.call");
    assert_eq!(
        api_call.text("path"),
        "/api/v1/namespaces/demo-app/pods?limit=200"
    );
    assert_eq!(
        (&api_call.fields["method"], &api_call.fields["status"]),
        (&"GET".into(), &200.into())
    );
    assert_eq!(of("sandbox.completed").text("outcome"), "done");
    for end in ["credential.revoked", "credential.proven_dead"] {
        assert_eq!(of(end).text("lease_id"), lease);
        assert_eq!(of(end).fields["refused_with"], 403);
    }
    assert_eq!(of("credential.proven_dead").text("pod"), "gone");
    assert_eq!(of("tool.result").text("outcome"), "succeeded");
    trail.assert_whole();
    assert_nothing_left(&trail);
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn a_credential_lists_pods_of_its_namespace_while_its_call_runs_and_nothing_else_ever() {
    let _lock = ClusterLock::take();
    let trail = Trail::of_the_installed();
    let mut bridge = Bridge::start();
    let frozen = Frozen::call(&mut bridge, &trail);
    let account = frozen.issued.text("service_account").to_owned();
    assert!(account.starts_with("sbx-"), "{account}");
    assert!(may(&account, "list", "pods", "demo-app"));
    for (verb, resource, namespace) in [
        ("list", "pods", "kube-system"),
        ("list", "pods", "sandbox-jobs"),
        ("list", "secrets", "demo-app"),
        ("delete", "pods", "demo-app"),
        ("create", "pods/exec", "demo-app"),
        ("create", "serviceaccounts/token", "demo-app"),
    ] {
        assert!(
            !may(&account, verb, resource, namespace),
            "{verb} {resource} in {namespace}"
        );
    }
    let (call, request) = (frozen.call, frozen.request.clone());
    frozen.resume();
    assert!(!bridge.answer(call).is_error());

    trail.of_once(&request, "credential.proven_dead");
    assert!(!may(&account, "list", "pods", "demo-app"));
    let accounts = object_names("/api/v1/namespaces/demo-app/serviceaccounts");
    assert!(!accounts.contains(&account), "{accounts:?}");
    assert_nothing_left(&trail);
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn an_edited_a_cut_and_a_swapped_line_of_the_trail_are_named() {
    let _lock = ClusterLock::take();
    let trail = Trail::of_the_installed();
    let mut bridge = Bridge::start();
    for _ in 0..2 {
        let answer = bridge.pods("demo-app");
        assert!(!answer.is_error(), "{}", answer.text());
        trail.of_once(answer.request_id(), "credential.proven_dead");
    }
    let text = fs::read_to_string(&trail.file).unwrap();
    let whole = text.rfind('\n').unwrap();
    let lines: Vec<&str> = text[..whole].lines().collect();
    assert_eq!(verify(&lines), (0, String::new()));

    // The last decision: after it there are lines enough to cut and to swap.
    let at = lines
        .iter()
        .rposition(|line| line.contains("\"guardrail.decision\""))
        .unwrap();
    let number = at + 1;
    let mut edited = lines.clone();
    let line = lines[at].replace("agents-read-demo-pods", "agents-read-other-pods");
    assert_ne!(line, lines[at]);
    edited[at] = &line;
    let mut cut = lines.clone();
    cut.remove(at);
    let mut swapped = lines.clone();
    swapped.swap(at, at + 1);
    for (what, lines) in [("edited", edited), ("cut", cut), ("swapped", swapped)] {
        let (code, said) = verify(&lines);
        assert_eq!(code, 3, "{what}: {said}");
        assert!(
            said.contains(&format!("line {number}")),
            "{what}, not line {number}: {said}"
        );
    }
}

/// Exit code and, for a fault, the words of `sandboxd audit verify` on a file with these lines.
fn verify(lines: &[&str]) -> (i32, String) {
    let copy = tempfile::NamedTempFile::new().unwrap();
    fs::write(copy.path(), lines.join("\n") + "\n").unwrap();
    let mut command = Command::new(installed("sandboxd"));
    let out = command
        .args(["audit", "verify"])
        .arg(copy.path())
        .output()
        .unwrap();
    let code = out.status.code().unwrap();
    let said = [out.stdout, out.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    (code, if code == 0 { String::new() } else { said })
}
