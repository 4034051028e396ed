//! A cluster that is away, or gives no sandbox: the answer names the cause, and nothing is left behind.

use serde_json::json;
use toml::Table;

use crate::bridge::Answer;
use crate::cluster::{Kept, kubectl, object_names};
use crate::cluster_lock::ClusterLock;
use crate::ground::{assert_nothing_left, of_leases};
use crate::openbao;
use crate::own_daemon::{OwnDaemon, set, without_spares};
use crate::trail::names;
use crate::wait::until;

const JOBS: &str = "/apis/batch/v1/namespaces/sandbox-jobs/jobs";

/// A daemon without spares, so that each call needs a sandbox of its own.
fn daemon(edit: impl FnOnce(&mut Table)) -> OwnDaemon {
    let mut daemon = OwnDaemon::new(|config| {
        without_spares(config);
        edit(config);
    });
    daemon.start();
    daemon
}

/// The call failed for want of a sandbox, told which cause, and its credential is gone again.
fn assert_no_sandbox(daemon: &OwnDaemon, answer: &Answer, words: &str) {
    answer.assert_refused("SANDBOX_UNAVAILABLE", words);
    let trail = daemon.trail();
    let events = trail.of_once(answer.request_id(), "tool.result");
    let result = events
        .iter()
        .find(|event| event.name == "tool.result")
        .unwrap();
    assert_eq!(
        (result.text("outcome"), result.text("code")),
        ("failed", "SANDBOX_UNAVAILABLE")
    );
    assert!(!names(&events).contains(&"sandbox.started"), "{events:?}");
    assert_nothing_left(&trail);
    trail.assert_whole();
}

fn other_image(config: &Table) -> String {
    let image = config["sandbox"]["image"].as_str().unwrap();
    let (name, _) = image.split_once('@').unwrap();
    format!("{name}@sha256:{}", "1".repeat(64))
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn without_a_cluster_the_answer_says_so_and_the_next_start_ends_the_lease() {
    let _lock = ClusterLock::take();
    let mut daemon = daemon(|_| {});
    daemon.terminate();
    let kubeconfig = std::fs::read_to_string("/etc/sandboxd/kubeconfig").unwrap();
    let server = kubeconfig
        .lines()
        .find(|line| line.trim().starts_with("server:"));
    let closed = kubeconfig.replace(server.unwrap().trim(), "server: https://127.0.0.1:9");
    let kubeconfig = daemon.write("kubeconfig", &closed);
    daemon.configure(|config| {
        without_spares(config);
        set(config, "kubernetes", "kubeconfig", kubeconfig);
    });
    daemon.start();
    let answer = daemon.bridge().pods("demo-app");
    answer.assert_refused("CLUSTER_UNAVAILABLE", "Connection refused");
    let trail = daemon.trail();
    trail.of_once(answer.request_id(), "tool.result");
    assert_eq!(trail.status()["parts"][0]["ok"], false);
    // OpenBao reached the cluster, so there was a credential; it is gone, if nobody could prove it here.
    until(
        "no lease in OpenBao",
        std::time::Duration::from_secs(30),
        || openbao::leases().is_empty().then_some(()),
    );

    daemon.kill();
    daemon.configure(without_spares);
    daemon.start();
    until(
        "a closed journal",
        std::time::Duration::from_mins(1),
        || of_leases(&trail).is_empty().then_some(()),
    );
    let answer = daemon.bridge().pods("demo-app");
    assert!(!answer.is_error(), "{}", answer.text());
    assert_nothing_left(&trail);
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn an_image_that_the_node_does_not_have_is_named() {
    let _lock = ClusterLock::take();
    let daemon = daemon(|config| set(config, "sandbox", "image", other_image(config)));
    let _images = Kept::new(&["-n", "sandbox-jobs", "configmap", "sandbox-images"]);
    let text = std::fs::read_to_string("/etc/sandboxd/sandboxd.toml").unwrap();
    let image = other_image(&text.parse().unwrap());
    let patch = json!({ "data": { "e2e": image } }).to_string();
    kubectl(&[
        "-n",
        "sandbox-jobs",
        "patch",
        "configmap",
        "sandbox-images",
        "-p",
        &patch,
    ]);
    let mut bridge = daemon.bridge();
    // The API server takes the changed list into force a moment later.
    let answer = until(
        "an image that is admitted",
        std::time::Duration::from_secs(30),
        || {
            let answer = bridge.pods("demo-app");
            (!answer.message().contains("is not one of those")).then_some(answer)
        },
    );
    assert_no_sandbox(&daemon, &answer, "ImagePull");
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn an_image_that_admission_refuses_is_named() {
    let _lock = ClusterLock::take();
    let daemon = daemon(|config| set(config, "sandbox", "image", other_image(config)));
    let answer = daemon.bridge().pods("demo-app");
    assert_no_sandbox(
        &daemon,
        &answer,
        "is not one of those in the ConfigMap sandbox-images",
    );
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn a_full_quota_is_named() {
    let _lock = ClusterLock::take();
    let daemon = daemon(|_| {});
    let _quota = Kept::new(&["-n", "sandbox-jobs", "resourcequota", "sandbox-jobs"]);
    let none = json!({ "spec": { "hard": { "pods": "0" } } }).to_string();
    kubectl(&[
        "-n",
        "sandbox-jobs",
        "patch",
        "resourcequota",
        "sandbox-jobs",
        "-p",
        &none,
    ]);
    let path = "/api/v1/namespaces/sandbox-jobs/resourcequotas/sandbox-jobs";
    until(
        "a quota in force",
        std::time::Duration::from_secs(30),
        || (crate::cluster::get(path)["status"]["hard"]["pods"] == "0").then_some(()),
    );
    let answer = daemon.bridge().pods("demo-app");
    assert_no_sandbox(&daemon, &answer, "exceeded quota: sandbox-jobs");
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn a_missing_runtime_class_is_named() {
    let _lock = ClusterLock::take();
    let daemon = daemon(|_| {});
    let _class = Kept::new(&["runtimeclass", "gvisor"]);
    kubectl(&["delete", "runtimeclass", "gvisor"]);
    let answer = daemon.bridge().pods("demo-app");
    assert_no_sandbox(&daemon, &answer, "RuntimeClass \"gvisor\" not found");
    assert_eq!(object_names(JOBS), Vec::<String>::new());
}
