//! Cancellation: what the daemon hears of it, and what the client does not.

use serde_json::json;

use crate::agent::Agent;
use crate::client::{Bridge, Setting};
use crate::wait::wait_until;

const FIRST_REQUEST: &str = "01900000-0000-7000-8000-000000000001";

fn cancel(bridge: &mut Bridge, id: &serde_json::Value) {
    bridge.notify(
        "notifications/cancelled",
        &json!({"requestId": id, "reason": "Changed my mind"}),
    );
}

#[test]
fn a_cancelled_call_is_cancelled_at_the_daemon_and_not_answered() {
    let setting = Setting::new();
    let agent = Agent::start(&setting.socket());
    let mut bridge = setting.bridge();
    let params = json!({"name": "hold", "_meta": {"progressToken": 1}});
    let id = bridge.begin("tools/call", &params);
    agent.script.wait_for_held(1);
    cancel(&mut bridge, &id);
    wait_until("the cancellation", || {
        (agent.script.cancellations() == [FIRST_REQUEST]).then_some(())
    });
    bridge.assert_silent();
}

#[test]
fn cancelling_twice_is_cancelling_once() {
    let setting = Setting::new();
    let agent = Agent::start(&setting.socket());
    let mut bridge = setting.bridge();
    let id = bridge.begin("tools/call", &json!({"name": "hold"}));
    agent.script.wait_for_held(1);
    cancel(&mut bridge, &id);
    cancel(&mut bridge, &id);
    wait_until("the cancellation", || {
        (!agent.script.cancellations().is_empty()).then_some(())
    });
    cancel(&mut bridge, &id);
    bridge.assert_silent();
    assert_eq!(agent.script.cancellations(), [FIRST_REQUEST]);
}

#[test]
fn cancelling_in_the_next_line_still_reaches_the_daemon() {
    let setting = Setting::new();
    let agent = Agent::start(&setting.socket());
    let mut bridge = setting.bridge();
    bridge.send(concat!(
        r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"hold"}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}"#
    ));
    wait_until("the cancellation", || {
        (agent.script.cancellations() == [FIRST_REQUEST]).then_some(())
    });
    bridge.assert_silent();
}

#[test]
fn a_cancellation_after_the_answer_or_of_nothing_changes_nothing() {
    let setting = Setting::new();
    let agent = Agent::start(&setting.socket());
    let mut bridge = setting.bridge();
    let id = bridge.begin("tools/call", &json!({"name": "echo"}));
    bridge.answer(&id);
    cancel(&mut bridge, &id);
    cancel(&mut bridge, &json!("never seen"));
    cancel(&mut bridge, &json!(null));
    for params in [json!({}), json!({"requestId": {}}), json!([]), json!(null)] {
        bridge.notify("notifications/cancelled", &params);
    }
    bridge.assert_silent();
    assert!(agent.script.cancellations().is_empty());
    assert_eq!(
        bridge.call("echo", &json!({}))["structuredContent"]["outcome"],
        "finished"
    );
}

#[test]
fn cancelling_one_call_leaves_the_others_alone() {
    let setting = Setting::new();
    let agent = Agent::start(&setting.socket());
    let mut bridge = setting.bridge();
    let number = bridge.begin("tools/call", &json!({"name": "hold"}));
    agent.script.wait_for_held(1);
    bridge.send(&format!(
        r#"{{"jsonrpc":"2.0","id":"{number}","method":"tools/call","params":{{"name":"hold"}}}}"#
    ));
    agent.script.wait_for_held(2);
    cancel(&mut bridge, &number);
    wait_until("the cancellation", || {
        (agent.script.cancellations() == [FIRST_REQUEST]).then_some(())
    });
    agent.script.release();
    let answer = bridge.next();
    assert_eq!(
        answer["id"],
        json!(number.to_string()),
        "the id that is a string is another"
    );
    bridge.assert_silent();
}

#[test]
fn a_call_answered_with_running_cannot_be_cancelled_by_the_client_any_more() {
    let setting = Setting::new();
    let agent = Agent::start(&setting.socket());
    let mut bridge = setting.bridge_with(&["--answer-within-ms", "200"]);
    let id = bridge.begin("tools/call", &json!({"name": "hold"}));
    let answer = bridge.answer(&id);
    assert_eq!(answer["result"]["structuredContent"]["outcome"], "running");
    // Clients cancel what they have timed out on; that must not end an apply.
    cancel(&mut bridge, &id);
    bridge.assert_silent();
    assert!(agent.script.cancellations().is_empty());
}

#[test]
fn nothing_is_said_of_a_call_cancelled_before_it_was_accepted() {
    let setting = Setting::new();
    let agent = Agent::start(&setting.socket());
    let mut bridge = setting.bridge();
    for token in 0..10 {
        let params = json!({"name": "late", "_meta": {"progressToken": token}});
        let id = bridge.begin("tools/call", &params);
        cancel(&mut bridge, &id);
    }
    agent.script.wait_for_held(10);
    bridge.request("ping", &json!({}));
    // Acceptance and progress come together now, and only then is there an id to cancel.
    agent.script.release();
    bridge.assert_silent();
}
