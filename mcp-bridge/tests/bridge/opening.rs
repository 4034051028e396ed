//! How clients open a session: in order, out of order, with too little.

use serde_json::{Value, json};

use crate::agent::Agent;
use crate::client::Setting;

#[test]
fn ping_before_initialize_is_answered() {
    let setting = Setting::new();
    let mut bridge = setting.bridge();
    assert_eq!(bridge.request("ping", &json!({}))["result"], json!({}));
    assert_eq!(
        bridge.initialize()["result"]["serverInfo"]["name"],
        "agent-sandbox"
    );
}

#[test]
fn initialize_is_answered_with_empty_null_and_no_parameters() {
    let setting = Setting::new();
    for params in [
        r#","params":{}"#,
        r#","params":null"#,
        "",
        r#","params":[]"#,
        r#","params":7"#,
    ] {
        let mut bridge = setting.bridge();
        bridge.send(&format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"initialize"{params}}}"#
        ));
        let answer = bridge.answer(&json!(1));
        let result = &answer["result"];
        assert_eq!(
            result["protocolVersion"], "2025-11-25",
            "{params}: {answer}"
        );
        assert_eq!(
            result["capabilities"],
            json!({"tools": {"listChanged": true}})
        );
        assert_eq!(result["serverInfo"]["version"], env!("CARGO_PKG_VERSION"));
        assert!(
            result["instructions"]
                .as_str()
                .unwrap()
                .contains("get_request")
        );
    }
}

#[test]
fn every_version_gets_itself_or_the_newest_one_with_an_initialize() {
    let setting = Setting::new();
    let newest = "2025-11-25";
    for (asked, answered) in [
        (json!("2024-11-05"), "2024-11-05"),
        (json!("2025-03-26"), "2025-03-26"),
        (json!("2025-06-18"), "2025-06-18"),
        (json!("2025-11-25"), newest),
        (json!("2026-07-28"), newest),
        (json!("2099-01-01"), newest),
        (json!("2024-10-07"), newest),
        (json!("DRAFT"), newest),
        (json!(""), newest),
        (Value::Null, newest),
        (json!(20_251_125), newest),
    ] {
        let mut bridge = setting.bridge();
        let params = json!({"protocolVersion": asked, "capabilities": {}, "clientInfo": {}});
        let answer = bridge.request("initialize", &params);
        assert_eq!(answer["result"]["protocolVersion"], answered, "{asked}");
    }
}

#[test]
fn tools_are_listed_and_a_log_level_is_set_before_initialized() {
    let setting = Setting::new();
    let _agent = Agent::start(&setting.socket());
    let mut bridge = setting.bridge();
    bridge.request("initialize", &json!({"protocolVersion": "2025-06-18"}));
    assert!(
        bridge
            .tool_names()
            .contains(&"k8s_get_pod_status".to_owned())
    );
    for level in [
        "debug",
        "info",
        "notice",
        "warning",
        "error",
        "critical",
        "alert",
        "emergency",
    ] {
        let answer = bridge.request("logging/setLevel", &json!({"level": level}));
        assert_eq!(answer["result"], json!({}), "{level}");
    }
    for params in [json!({"level": "loud"}), json!({"level": 3}), json!({})] {
        let answer = bridge.request("logging/setLevel", &params);
        assert_eq!(answer["error"]["code"], -32602, "{params}");
    }
}

#[test]
fn a_client_that_never_initializes_can_list_and_call() {
    let setting = Setting::new();
    let _agent = Agent::start(&setting.socket());
    let mut bridge = setting.bridge();
    assert!(!bridge.tool_names().is_empty());
    assert_eq!(
        bridge.call("echo", &json!({}))["structuredContent"]["outcome"],
        "finished"
    );
}

#[test]
fn a_second_initialize_is_answered_anew() {
    let setting = Setting::new();
    let mut bridge = setting.bridge();
    bridge.initialize();
    let answer = bridge.request("initialize", &json!({"protocolVersion": "2024-11-05"}));
    assert_eq!(answer["result"]["protocolVersion"], "2024-11-05");
}

#[test]
fn the_daemon_hears_what_the_client_calls_itself_escaped_and_cut() {
    let setting = Setting::new();
    let agent = Agent::start(&setting.socket());
    for (info, heard) in [
        (
            json!({"name": "claude-code", "version": "2.1"}),
            "claude-code 2.1".to_owned(),
        ),
        (
            json!({"name": "x\u{202e}\n", "version": ""}),
            "x\\u{202e}".to_owned(),
        ),
        (
            json!({"name": "n".repeat(5000), "version": "1"}),
            "n".repeat(100),
        ),
        (json!({"name": 5}), String::new()),
        (Value::Null, String::new()),
    ] {
        let mut bridge = setting.bridge();
        bridge.request("initialize", &json!({"clientInfo": info}));
        bridge.call("echo", &json!({}));
        assert_eq!(
            agent.script.invocations().last().unwrap().client,
            heard,
            "{info}"
        );
    }
}
