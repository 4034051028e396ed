//! Two thousand pods in one namespace come in pages that fit, and every one of them is told once.

use std::collections::BTreeSet;
use std::thread;

use serde_json::{Value, json};

use crate::bridge::Bridge;
use crate::cluster::{kubectl, object_names, try_kubectl};
use crate::cluster_lock::ClusterLock;
use crate::ground::assert_nothing_left;
use crate::trail::Trail;

const PODS: usize = 2_000;
/// Every so many is not well.
const STEP: usize = 400;
/// `limits.result_bytes`, when nothing else is configured.
const RESULT_BYTES: usize = 48 * 1024;
const LABEL: &str = "e2e=many-pods";

/// Pods without a kubelet in demo-app; dropping it removes them.
struct ManyPods(());

impl ManyPods {
    fn create() -> Self {
        let many = Self(());
        // kubectl sends 50 requests a second; so several of them.
        thread::scope(|scope| {
            for part in 0..8 {
                scope.spawn(move || {
                    let each = PODS / 8;
                    let pods: Vec<_> = (part * each..(part + 1) * each).map(pod).collect();
                    send(&["create", "-f", "-"], &pods);
                });
            }
        });
        let unwell: Vec<_> = (0..PODS).step_by(STEP).map(unwell).collect();
        send(&["replace", "--subresource=status", "-f", "-"], &unwell);
        many
    }
}

impl Drop for ManyPods {
    fn drop(&mut self) {
        // One request for all of them.
        let path = format!("/api/v1/namespaces/demo-app/pods?labelSelector={LABEL}");
        kubectl(&["delete", "--raw", &path]);
    }
}

fn send(args: &[&str], pods: &[Value]) {
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": pods });
    try_kubectl(args, &list.to_string()).unwrap();
}

fn name(index: usize) -> String {
    format!("many-{index:04}")
}

fn pod(index: usize) -> Value {
    let (key, value) = LABEL.split_once('=').unwrap();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name(index), "namespace": "demo-app", "labels": { key: value } },
        "spec": {
            "schedulerName": "nobody",
            "automountServiceAccountToken": false,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 65532,
                "seccompProfile": { "type": "RuntimeDefault" },
            },
            "containers": [{
                "name": "app", "image": "registry.example/app:1",
                "securityContext": {
                    "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] },
                },
            }],
        },
    })
}

fn unwell(index: usize) -> Value {
    let mut pod = pod(index);
    pod["status"] = json!({
        "phase": "Running",
        "containerStatuses": [{
            "name": "app", "image": "registry.example/app:1", "imageID": "",
            "ready": false, "started": false, "restartCount": 7,
            "state": { "waiting": { "reason": "CrashLoopBackOff", "message": "back-off 5m0s" } },
            "lastState": { "terminated": { "exitCode": 137, "reason": "OOMKilled" } },
        }],
    });
    pod
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn two_thousand_pods_come_in_pages_within_the_limit_each_once_with_what_is_wrong_at_a_glance() {
    let _lock = ClusterLock::take();
    let trail = Trail::of_the_installed();
    let many = ManyPods::create();
    let mut bridge = Bridge::start();
    let mut seen = Vec::new();
    let mut reasons = Vec::new();
    let mut token = Value::Null;
    let mut pages = 0;
    loop {
        let arguments = json!({ "namespace": "demo-app", "page_token": token });
        let page = bridge.call("k8s_get_pod_status", arguments);
        let names = page.pod_names();
        assert!(
            page.text().len() <= RESULT_BYTES,
            "{} bytes",
            page.text().len()
        );
        let structured = page.structured().to_string().len();
        assert!(structured <= RESULT_BYTES, "{structured} bytes");
        for pod in page.structured()["pods"].as_array().unwrap() {
            if pod["reason"] == "CrashLoopBackOff" && pod["restarts"] == 7 {
                reasons.push(pod["name"].as_str().unwrap().to_owned());
                let last = pod["last_termination"].as_str().unwrap();
                assert!(last.starts_with("OOMKilled, exit code 137"), "{last}");
            }
        }
        // Pages are in the order of names; on a page what is not well comes first.
        let healthy: Vec<bool> = page.structured()["pods"]
            .as_array()
            .unwrap()
            .iter()
            .map(|pod| pod["healthy"].as_bool().unwrap())
            .collect();
        assert!(healthy.is_sorted(), "{}", page.text());
        seen.extend(names);
        pages += 1;
        assert!(pages <= 100, "the pages do not end");
        token = page.structured()["next_page_token"].clone();
        if token.is_null() {
            assert_eq!(page.field("left_out"), "");
            break;
        }
        let left = PODS + 2 - seen.len();
        assert_eq!(
            page.field("left_out"),
            format!("{left} pods more are not on this page.")
        );
        assert!(
            page.text().contains(page.field("left_out")),
            "{}",
            page.text()
        );
        assert!(
            page.text().contains(token.as_str().unwrap()),
            "{}",
            page.text()
        );
    }
    println!("{} pods came in {pages} pages", seen.len());
    assert!(pages >= PODS / 200, "{pages} pages");
    let once: BTreeSet<_> = seen.iter().cloned().collect();
    assert_eq!(once.len(), seen.len(), "a pod came twice");
    let there = object_names("/api/v1/namespaces/demo-app/pods");
    assert_eq!(once, there.into_iter().collect());
    let unwell: Vec<_> = (0..PODS).step_by(STEP).map(name).collect();
    reasons.sort();
    assert_eq!(reasons, unwell);
    drop(many);

    // A token is good for its own question, and for as long as the list it belongs to.
    let first = bridge.pods("demo-app");
    assert_eq!(first.pod_names().len(), 2);
    assert_nothing_left(&trail);
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn a_page_token_of_another_question_or_of_before_a_restart_is_stale() {
    let _lock = ClusterLock::take();
    let trail = Trail::of_the_installed();
    let (key, value) = LABEL.split_once('=').unwrap();
    let pods: Vec<_> = (0..201).map(pod).collect();
    let many = ManyPods(());
    send(&["create", "-f", "-"], &pods);
    let mut bridge = Bridge::start();
    let page = bridge.pods("demo-app");
    let token = page.field("next_page_token").to_owned();
    assert!(!token.is_empty(), "{}", page.text());

    let other = json!({
        "namespace": "demo-app", "label_selector": format!("{key}={value}"), "page_token": token,
    });
    let answer = bridge.call("k8s_get_pod_status", other);
    answer.assert_refused("PAGE_EXPIRED", "page_token");
    assert_eq!(answer.field("field"), "page_token");
    assert!(
        answer.field("next").contains("Start again"),
        "{}",
        answer.text()
    );

    crate::daemon::Stopped::now().start();
    let mark = trail.mark();
    let same = json!({ "namespace": "demo-app", "page_token": token });
    bridge
        .call("k8s_get_pod_status", same)
        .assert_refused("PAGE_EXPIRED", "page_token");
    let refused = trail.wait_for(mark, "a refusal", |event| event.name == "request.refused");
    assert_eq!(refused.text("code"), "PAGE_EXPIRED");
    drop(many);
    assert_nothing_left(&trail);
}
