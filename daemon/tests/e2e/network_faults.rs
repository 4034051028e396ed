//! The sandbox's network policies, taken away and changed.

use serde_json::json;

use crate::bridge::Bridge;
use crate::cluster::{Kept, get, kubectl};
use crate::cluster_lock::ClusterLock;
use crate::daemon::at_rest;
use crate::ground::assert_nothing_left;
use crate::trail::Trail;

const ALARM: &str = "alarm.network_policy_changed";
const POLICIES: &str = "/apis/networking.k8s.io/v1/namespaces/sandbox-jobs/networkpolicies";

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn with_egress_open_no_call_runs_until_it_is_closed_again() {
    let _lock = ClusterLock::take();
    let trail = Trail::of_the_installed();
    at_rest(&trail);
    let mark = trail.mark();
    let mut bridge = Bridge::start();
    let deny = Kept::new(&["-n", "sandbox-jobs", "networkpolicy", "default-deny"]);
    kubectl(&[
        "-n",
        "sandbox-jobs",
        "delete",
        "networkpolicy",
        "default-deny",
    ]);
    let alarm = trail.wait_for(mark, ALARM, |event| event.name == ALARM);
    let seen = "the NetworkPolicy default-deny is missing or was changed";
    assert!(alarm.text("seen").contains(seen), "{alarm:?}");

    // The spares were proven under a policy that is gone, so they do not serve either.
    let answer = bridge.pods("demo-app");
    answer.assert_refused("SANDBOX_UNAVAILABLE", seen);
    let events = trail.of_once(answer.request_id(), "tool.result");
    assert!(
        events.iter().all(|event| event.name != "api.call"),
        "{events:?}"
    );

    deny.put_back();
    let answer = bridge.pods("demo-app");
    assert!(!answer.is_error(), "{}", answer.text());
    assert_nothing_left(&trail);
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn a_widened_hole_to_the_api_server_is_put_right_and_told() {
    let _lock = ClusterLock::take();
    let trail = Trail::of_the_installed();
    at_rest(&trail);
    let mark = trail.mark();
    let path = format!("{POLICIES}/allow-api-server");
    let before = get(&path)["spec"].clone();
    let wide = json!([{ "op": "replace", "path": "/spec/egress", "value": [{}] }]).to_string();
    let args = [
        "-n",
        "sandbox-jobs",
        "patch",
        "networkpolicy",
        "allow-api-server",
        "--type=json",
    ];
    kubectl(&[&args[..], &["-p", &wide]].concat());
    let alarm = trail.wait_for(mark, ALARM, |event| event.name == ALARM);
    assert!(
        alarm
            .text("seen")
            .contains("allow-api-server was not what it should be"),
        "{alarm:?}"
    );
    assert!(alarm.text("seen").contains("put right"), "{alarm:?}");
    crate::wait::until(
        "a policy as before",
        std::time::Duration::from_secs(30),
        || (get(&path)["spec"] == before).then_some(()),
    );
    let answer = Bridge::start().pods("demo-app");
    assert!(!answer.is_error(), "{}", answer.text());
    assert_nothing_left(&trail);
}
