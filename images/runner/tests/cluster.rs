//! On a real Kubernetes API: what the runner says of a pod is what the API server's own printer says
//! of it, and two thousand pods come in pages. The pods have no kubelet (`schedulerName: nobody`);
//! their status is written for them.
#![cfg(test)]

mod sides;

use std::collections::BTreeMap;
use std::fs;
use std::thread;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use prost::Message as _;
use sandbox_proto::runner::v1::failure::Kind;
use sandbox_proto::runner::v1::{self as proto, PodStatus};
use sandbox_runner::ending::Ending;
use sandbox_runner::pods::summarise;
use serde_json::{Value, json};
use sides::PATIENCE;
use sides::daemon::{prove, start, with_process};
use sides::namespace::{Namespace, sandbox};
use tokio::time::timeout;

/// The columns of a summary, as [`Namespace::table`] has them.
fn row(pod: &proto::Pod) -> String {
    format!(
        "{}/{} {} {}",
        pod.ready, pod.containers, pod.status, pod.restarts
    )
}

/// A pod that can be created anywhere: no node, no scheduler, no owner to be collected with.
fn without_a_kubelet(mut pod: Value, namespace: &str) -> Value {
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["spec"]["schedulerName"] = "nobody".into();
    let spec = pod["spec"].as_object_mut().unwrap();
    for field in [
        "nodeName",
        "volumes",
        "ephemeralContainers",
        "priority",
        "preemptionPolicy",
    ] {
        spec.remove(field);
    }
    for containers in ["containers", "initContainers"] {
        let containers = pod["spec"][containers].as_array_mut();
        for container in containers.into_iter().flatten() {
            container.as_object_mut().unwrap().remove("volumeMounts");
        }
    }
    pod["metadata"] = json!({ "name": pod["metadata"]["name"], "namespace": namespace });
    // Kubernetes takes back a disruption that was announced minutes ago and did not happen.
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    for condition in pod["status"]["conditions"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        condition["lastTransitionTime"] = now.as_str().into();
    }
    pod
}

#[tokio::test]
#[ignore = "needs a cluster: scripts/up"]
async fn every_pod_state_reads_on_the_real_api_as_its_printer_shows_it() {
    let namespace = Namespace::create("states");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pods");
    let mut pods = Vec::new();
    let mut terminating = Vec::new();
    for file in fs::read_dir(folder).unwrap() {
        let pod = fs::read(file.unwrap().path()).unwrap();
        let pod: Value = serde_json::from_slice(&pod).unwrap();
        let deleted = !pod["metadata"]["deletionTimestamp"].is_null();
        let mut pod = without_a_kubelet(pod, &namespace.name);
        if deleted {
            pod["metadata"]["finalizers"] = json!(["example.com/held"]);
            pod["metadata"]["labels"] = json!({ "held": "" });
            terminating.push(pod["metadata"]["name"].as_str().unwrap().to_owned());
        }
        pods.push(pod);
    }
    namespace.create_pods(&pods);
    for name in &terminating {
        namespace.run(&["delete", "pod", name, "--wait=false"]);
    }

    let read = namespace.read(namespace.all_pods()).await.pods();
    assert_eq!(read.pods.len(), pods.len());
    let table = namespace.table();
    let read: BTreeMap<_, _> = read
        .pods
        .iter()
        .map(|pod| (pod.name.as_str(), pod))
        .collect();
    for pod in &pods {
        let name = pod["metadata"]["name"].as_str().unwrap();
        let summary = read[name];
        // kubectl shows a line break as an ellipsis; the summary leaves escaping to whoever shows it.
        if name != "shop-noisy-message" {
            assert_eq!(row(summary), table[name], "{name}");
        }
        let is_terminating = terminating.iter().any(|held| held == name);
        assert_eq!(
            summary.terminating_seconds.is_some(),
            is_terminating,
            "{name}"
        );

        // The API returns what was written: so the summary is the one the fixture's test checks.
        let mut written: Pod = serde_json::from_value(pod.clone()).unwrap();
        if is_terminating {
            written.metadata.deletion_timestamp = Some(Timestamp::now().into());
        }
        let expected = proto::Pod {
            age_seconds: summary.age_seconds,
            terminating_seconds: summary.terminating_seconds,
            ..summarise(&written, Timestamp::now())
        };
        assert_eq!(*summary, expected, "{name}");
    }
}

#[tokio::test]
#[ignore = "needs a cluster: scripts/up"]
async fn two_thousand_pods_come_in_pages_that_fit() {
    let namespace = Namespace::create("pages");
    let pod = |index: usize| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": format!("pod-{index:04}"), "labels": { "parity": (index % 2).to_string() } },
            "spec": {
                "schedulerName": "nobody",
                "automountServiceAccountToken": false,
                "containers": [{ "name": "app", "image": "registry.example/app:1" }],
            },
        })
    };
    // kubectl sends 50 requests a second; so several of them.
    thread::scope(|scope| {
        for part in 0..8 {
            let pods: Vec<_> = (part * 250..(part + 1) * 250).map(pod).collect();
            let namespace = &namespace;
            scope.spawn(move || namespace.create_pods(&pods));
        }
    });
    let mut names = Vec::new();
    let mut continue_token = String::new();
    let mut pages = 0;
    loop {
        let work = PodStatus {
            max_bytes: 16 * 1024,
            continue_token,
            ..namespace.all_pods()
        };
        let run = namespace.read(work).await;
        assert!(run.calls.len() <= 3, "{:?}", run.calls);
        let pods = run.pods();
        assert!(pods.encoded_len() <= 16 * 1024);
        names.extend(pods.pods.into_iter().map(|pod| pod.name));
        pages += 1;
        continue_token = pods.continue_token;
        if continue_token.is_empty() {
            break;
        }
        assert_eq!(pods.remaining, Some((2_000 - names.len()) as u64));
    }
    let all: Vec<_> = (0..2_000).map(|index| format!("pod-{index:04}")).collect();
    assert_eq!(names, all, "each pod once, in order");
    assert!(pages >= 4, "{pages} pages");

    let odd = PodStatus {
        label_selector: "parity in (1), parity!=0".to_owned(),
        limit: 600,
        ..namespace.all_pods()
    };
    let pods = namespace.read(odd).await.pods();
    assert_eq!(pods.pods.len(), 600);
    assert!(
        pods.pods
            .iter()
            .all(|pod| pod.name.ends_with(['1', '3', '5', '7', '9']))
    );
    assert_eq!(
        pods.remaining, None,
        "Kubernetes does not count behind a selector"
    );
}

#[tokio::test]
#[ignore = "needs a cluster: scripts/up"]
async fn the_real_api_refuses_with_its_own_words() {
    let namespace = Namespace::create("refusals");
    let elsewhere = PodStatus {
        namespace: "kube-system".to_owned(),
        ..namespace.all_pods()
    };
    let (kind, detail) = namespace.read(elsewhere).await.failure();
    assert_eq!(kind, Kind::Forbidden);
    assert!(detail.contains("403: pods is forbidden: User"), "{detail}");

    let garbage = PodStatus {
        continue_token: "garbage".to_owned(),
        ..namespace.all_pods()
    };
    let (kind, detail) = namespace.read(garbage).await.failure();
    assert_eq!(kind, Kind::BadRequest);
    assert!(detail.contains("continue key is not valid"), "{detail}");

    let selector = PodStatus {
        label_selector: "a in".to_owned(),
        ..namespace.all_pods()
    };
    let (kind, detail) = namespace.read(selector).await.failure();
    assert_eq!(kind, Kind::BadRequest);
    assert!(detail.contains("unable to parse requirement"), "{detail}");
}

/// Statuses as no kubelet would write them, but the API takes them: each rule of the printer meets
/// each other one.
fn any_status() -> impl Strategy<Value = Value> {
    let word = |words: &[&'static str]| prop::sample::select(words.to_vec()).prop_map(Value::from);
    let reason = || {
        word(&[
            "",
            "PodInitializing",
            "CrashLoopBackOff",
            "Completed",
            "Error",
        ])
    };
    let ended = (0..3_i32, 0..2_i32, reason()).prop_map(|(code, signal, reason)| {
        json!({ "terminated": { "exitCode": code, "signal": signal * 9, "reason": reason } })
    });
    let state = prop_oneof![
        Just(json!({})),
        Just(json!({ "running": {} })),
        reason().prop_map(|reason| json!({ "waiting": { "reason": reason } })),
        ended.clone(),
    ];
    let last = prop_oneof![Just(json!({})), ended];
    let container = move |name: &'static str| {
        let parts = (
            state.clone(),
            last.clone(),
            0..4_u32,
            any::<bool>(),
            any::<Option<bool>>(),
        );
        parts.prop_map(move |(state, last, restarts, ready, started)| {
            json!({
                "name": name, "image": "", "imageID": "", "state": state, "lastState": last,
                "restartCount": restarts, "ready": ready, "started": started,
            })
        })
    };
    let some_of = |all: Vec<BoxedStrategy<Value>>| {
        let maybe = all
            .into_iter()
            .map(|one| prop::option::weighted(0.9, one))
            .collect::<Vec<_>>();
        maybe.prop_map(|all| all.into_iter().flatten().collect::<Vec<_>>())
    };
    let inits = some_of(vec![
        container("first").boxed(),
        container("mesh").boxed(),
        container("last").boxed(),
    ]);
    let containers = some_of(vec![container("app").boxed(), container("log").boxed()]);
    let condition = |kind: &'static str| {
        let reason = if kind == "PodScheduled" {
            "SchedulingGated"
        } else {
            ""
        };
        let parts = (any::<bool>(), prop::sample::select(vec!["", reason]));
        parts.prop_map(move |(status, reason)| {
            let status = if status { "True" } else { "False" };
            json!({ "type": kind, "status": status, "reason": reason })
        })
    };
    let conditions = some_of(vec![
        condition("Initialized").boxed(),
        condition("Ready").boxed(),
        condition("PodScheduled").boxed(),
    ]);
    let phase = word(&["Pending", "Running", "Succeeded", "Failed", "Unknown"]);
    let pod_reason = prop_oneof![4 => Just(json!("")), 1 => word(&["Evicted", "NodeLost"])];
    (phase, pod_reason, inits, containers, conditions).prop_map(
        |(phase, reason, inits, containers, conditions)| {
            json!({
                "phase": phase, "reason": reason, "conditions": conditions,
                "initContainerStatuses": inits, "containerStatuses": containers,
            })
        },
    )
}

#[tokio::test]
#[ignore = "needs a cluster: scripts/up"]
async fn any_status_the_api_takes_has_the_columns_of_its_printer() {
    let namespace = Namespace::create("columns");
    let mut runner = TestRunner::deterministic();
    let container = |name: &str| json!({ "name": name, "image": "registry.example/app:1" });
    let mut mesh = container("mesh");
    mesh["restartPolicy"] = "Always".into();
    let pods: Vec<_> = (0..300)
        .map(|index| {
            let status = any_status().new_tree(&mut runner).unwrap().current();
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": { "name": format!("pod-{index:03}"), "namespace": namespace.name },
                "spec": {
                    "schedulerName": "nobody",
                    "initContainers": [container("first"), mesh, container("last")],
                    "containers": [container("app"), container("log")],
                },
                "status": status,
            })
        })
        .collect();
    thread::scope(|scope| {
        for part in pods.chunks(75) {
            scope.spawn(|| namespace.create_pods(part));
        }
    });
    let read = namespace.read(namespace.all_pods()).await.pods();
    let table = namespace.table();
    assert_eq!(read.pods.len(), 300);
    let mut seen = BTreeMap::<_, usize>::new();
    for pod in &read.pods {
        assert_eq!(row(pod), table[&pod.name], "{}", pod.name);
        *seen.entry(pod.status.clone()).or_default() += 1;
    }
    assert!(seen.len() > 15, "too few different ones: {seen:?}");
}

#[tokio::test]
#[ignore = "needs a cluster: scripts/up"]
async fn a_request_is_served_once_in_a_gvisor_pod_and_leaves_no_trace_in_its_log() {
    let namespace = Namespace::create("sandbox");
    namespace.start_sandbox(&sandbox(&namespace, &namespace.image()));
    let (first, mut daemon) = with_process(&mut namespace.attach());
    let forbidden = namespace.probe();
    let hello = daemon
        .prove(prove(namespace.api_server.clone(), forbidden))
        .await;
    println!("{hello:#?}");
    let egress = hello.egress.unwrap();
    assert!(egress.closed, "{egress:?}");
    assert!(hello.kernel.contains("gvisor"), "{}", hello.kernel);
    assert_eq!((hello.uid, hello.gid), (65_532, 65_532));

    let (second, _) = with_process(&mut namespace.attach());
    let refused = timeout(PATIENCE, second.wait_with_output())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(refused.status.code(), Some(Ending::Refused.code().into()));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("has been attached to before"), "{said}");

    let mut start = start(namespace.api_server.clone(), namespace.all_pods());
    start.credential = namespace.token.clone().into();
    let run = daemon.run(start).await;
    println!("{run:#?}");
    let pods = run.pods().pods;
    assert_eq!(
        (pods[0].name.as_str(), pods[0].status.as_str()),
        ("sandbox", "Running")
    );
    daemon.close().await;
    let attached = timeout(PATIENCE, first.wait_with_output())
        .await
        .unwrap()
        .unwrap();
    assert!(attached.status.success(), "{attached:?}");

    namespace.run(&[
        "wait",
        "pod/sandbox",
        "--for=jsonpath={.status.phase}=Succeeded",
        "--timeout=60s",
    ]);
    let log = namespace.run(&["logs", "sandbox"]);
    assert_eq!(
        log,
        "runner: waiting for one attach\nrunner: ended with code 0\n"
    );
}
