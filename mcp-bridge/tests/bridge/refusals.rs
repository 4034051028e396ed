//! What a model reads when something is refused: a code, the reason, what to do; never internals.

use serde_json::{Value, json};
use tonic::{Code, Status};

use crate::agent::{Agent, DEBUG_TEXT, refusal};
use crate::client::Setting;

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

#[test]
fn a_refusal_names_code_reason_field_and_next_step() {
    let setting = Setting::new();
    let _agent = Agent::start(&setting.socket());
    let mut bridge = setting.bridge();
    let result = bridge.call("refuse", &json!({"namespace": "Demo"}));
    assert_eq!(result["isError"], true);
    assert_eq!(
        result["structuredContent"],
        json!({
            "outcome": "refused",
            "code": "INVALID_PARAMETER",
            "message": "The value of namespace is not allowed here.",
            "field": "namespace",
            "next": "Use another value.",
        })
    );
    assert_eq!(
        text(&result),
        "INVALID_PARAMETER: The value of namespace is not allowed here.\nNext: Use another value.\nField: namespace"
    );
}

#[test]
fn a_failed_or_denied_request_is_an_error_with_its_id() {
    let setting = Setting::new();
    let _agent = Agent::start(&setting.socket());
    let mut bridge = setting.bridge();
    for (tool, outcome, code) in [
        ("fail", "failed", "SANDBOX_UNAVAILABLE"),
        ("deny", "denied", "POLICY_DENIED"),
    ] {
        let result = bridge.call(tool, &json!({}));
        assert_eq!(result["isError"], true);
        let structured = &result["structuredContent"];
        assert_eq!(structured["outcome"], outcome);
        assert_eq!(structured["code"], code);
        assert_eq!(structured["next"], "Try something else.");
        let request_id = structured["request_id"].as_str().unwrap();
        assert!(
            text(&result).contains(request_id)
                && text(&result).contains("Next: Try something else.")
        );
    }
}

#[test]
fn what_the_transport_says_stays_inside() {
    let setting = Setting::new();
    let agent = Agent::start(&setting.socket());
    let mut bridge = setting.bridge();
    for tool in ["refuse_unexplained", "break", "drop", "large"] {
        let result = bridge.call(tool, &json!({}));
        assert_eq!(result["isError"], true, "{tool}");
        let all = result.to_string();
        for internal in [
            DEBUG_TEXT,
            "h2",
            "hyper",
            "tonic",
            "Status",
            "stream",
            "os error",
            "transport",
        ] {
            assert!(!all.contains(internal), "{tool}: {internal} in {all}");
        }
    }
    drop(agent);
    let all = bridge.call("echo", &json!({})).to_string();
    assert!(
        !all.contains("os error") && !all.contains("transport error"),
        "{all}"
    );
}

#[test]
fn a_uid_that_is_refused_is_told_its_uid_and_the_socket() {
    let setting = Setting::new();
    let uid = rustix::process::geteuid().as_raw();
    for status in [
        Status::unauthenticated("nobody knows you"),
        refusal(Code::Unauthenticated, "PEER_REFUSED", ""),
    ] {
        let agent = Agent::start(&setting.socket());
        agent.script.refuse_peer(status);
        let mut bridge = setting.bridge();
        let result = bridge.call("echo", &json!({}));
        assert_eq!(result["structuredContent"]["code"], "PEER_REFUSED");
        let message = result["structuredContent"]["message"].as_str().unwrap();
        assert!(message.contains(&format!("uid {uid}")), "{message}");
        assert!(
            message.contains(setting.socket().to_str().unwrap()),
            "{message}"
        );
        assert!(bridge.tool_names().is_empty());
        let stderr = bridge.end_and_read_stderr();
        assert!(
            stderr.contains("PEER_REFUSED") && stderr.contains(&format!("uid {uid}")),
            "{stderr}"
        );
    }
}

#[test]
fn a_policy_denial_is_not_taken_for_a_refused_peer() {
    let setting = Setting::new();
    let agent = Agent::start(&setting.socket());
    agent.script.refuse_peer(refusal(
        Code::PermissionDenied,
        "POLICY_DENIED",
        "namespace",
    ));
    let mut bridge = setting.bridge();
    let structured = bridge.call("echo", &json!({}))["structuredContent"].clone();
    assert_eq!(structured["code"], "POLICY_DENIED");
    assert!(!structured["message"].as_str().unwrap().contains("uid"));
}

#[test]
fn a_daemon_of_another_version_is_named_and_not_called() {
    let setting = Setting::new();
    let agent = Agent::start(&setting.socket());
    agent.script.speak(77);
    let mut bridge = setting.bridge();
    assert!(bridge.tool_names().is_empty());
    let result = bridge.call("echo", &json!({}));
    assert_eq!(result["structuredContent"]["code"], "PROTOCOL_MISMATCH");
    let message = result["structuredContent"]["message"].as_str().unwrap();
    assert!(
        message.contains("speaks version 1") && message.contains("77"),
        "{message}"
    );
    assert!(agent.script.invocations().is_empty());

    // The operator installs the right one: no restart of the bridge is needed.
    drop(agent);
    let _agent = Agent::start(&setting.socket());
    crate::wait::wait_until("the new daemon", || {
        (bridge.call("echo", &json!({}))["structuredContent"]["outcome"] == "finished")
            .then_some(())
    });
}
