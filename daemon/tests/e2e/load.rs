//! Many calls at a time, and a daemon that is killed in the middle of them: every call is answered, and
//! nothing is left.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::bridge::{Answer, Bridge};
use crate::cluster_lock::ClusterLock;
use crate::daemon::{Stopped, at_rest, pid};
use crate::ground::{assert_nothing_left, connections, remove_what_was_cut_off};
use crate::trail::Trail;

const AT_A_TIME: usize = 8;

/// Keeps eight calls under way until `count` were begun; gives each answer with how long it took. `after`
/// hears how many were answered so far.
fn calls(
    bridge: &mut Bridge,
    count: usize,
    mut after: impl FnMut(usize),
) -> Vec<(Duration, Answer)> {
    let mut begun = BTreeMap::new();
    let mut answers = Vec::new();
    while answers.len() < count {
        while begun.len() < AT_A_TIME && begun.len() + answers.len() < count {
            let id = bridge.begin("k8s_get_pod_status", json!({ "namespace": "demo-app" }));
            begun.insert(id, Instant::now());
        }
        let (id, answer) = bridge.next_answer();
        answers.push((begun.remove(&id).unwrap().elapsed(), answer));
        after(answers.len());
    }
    answers
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn two_hundred_calls_eight_at_a_time_are_all_answered_and_leave_nothing() {
    let _lock = ClusterLock::take();
    let trail = Trail::of_the_installed();
    at_rest(&trail);
    let mut bridge = Bridge::start();
    let started = Instant::now();
    let answers = calls(&mut bridge, 200, |_| {});
    let elapsed = started.elapsed();
    for (_, answer) in &answers {
        assert!(!answer.is_error(), "{}", answer.text());
        assert_eq!(answer.pod_names().len(), 2);
    }
    let mut took: Vec<u128> = answers.iter().map(|(took, _)| took.as_millis()).collect();
    took.sort_unstable();
    println!(
        "200 calls, 8 at a time: {:.1} s; p50 {} ms, p99 {} ms, longest {} ms",
        elapsed.as_secs_f64(),
        took[100],
        took[198],
        took[199]
    );
    at_rest(&trail);
    assert_nothing_left(&trail);
    trail.assert_whole();
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn a_daemon_killed_in_the_middle_of_eight_calls_leaves_at_most_what_was_being_minted() {
    let _lock = ClusterLock::take();
    let trail = Trail::of_the_installed();
    at_rest(&trail);
    let mark = trail.mark();
    let mut bridge = Bridge::start();
    let mut killed = None;
    let answers = calls(&mut bridge, 24, |answered| {
        if answered == 6 {
            killed = Some(pid().as_raw_nonzero().to_string());
            Stopped::by(Signal::KILL).start();
        }
    });
    assert!(killed.is_some());
    let failed: Vec<&Answer> = answers
        .iter()
        .map(|(_, a)| a)
        .filter(|a| a.is_error())
        .collect();
    // Those that were under way; the bridge finds the new daemon by itself for those that came later.
    assert!(
        !failed.is_empty() && failed.len() <= 2 * AT_A_TIME,
        "{} failed",
        failed.len()
    );
    for answer in failed {
        assert!(!answer.code().is_empty(), "{}", answer.text());
        assert!(!answer.field("next").is_empty(), "{}", answer.text());
    }

    trail.wait_for(mark, "the end of reconciliation", |e| {
        e.name == "reconcile.completed"
    });
    let events = trail.since(mark);
    let closed: Vec<_> = events
        .iter()
        .filter(|event| event.name == "reconcile.request_closed")
        .collect();
    assert!(
        !closed.is_empty(),
        "no request was under way when it was killed"
    );
    for closed in closed {
        let result = events
            .iter()
            .find(|event| event.request == closed.request && event.name == "tool.result");
        assert_eq!(result.unwrap().text("outcome"), "unknown");
    }
    at_rest(&trail);
    let cut_off = remove_what_was_cut_off(&trail);
    assert!(
        cut_off <= AT_A_TIME,
        "{cut_off} credentials were being minted"
    );
    assert_nothing_left(&trail);
    trail.assert_whole();
    assert_eq!(
        connections(&killed.unwrap()),
        0,
        "a stream of the daemon that was killed"
    );
}
