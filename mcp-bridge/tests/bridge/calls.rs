//! Tool calls: what goes to the daemon, what comes back, and when.

use serde_json::{Value, json};

use crate::agent::Agent;
use crate::client::{Bridge, Setting};
use crate::schema::assert_fits;
use crate::wait::wait_until;

const PROGRESS: &str = "notifications/progress";

fn output_schema(bridge: &mut Bridge, tool: &str) -> Value {
    let answer = bridge.request("tools/list", &json!({}));
    let tools = answer["result"]["tools"].as_array().unwrap();
    tools
        .iter()
        .find(|candidate| candidate["name"] == tool)
        .unwrap()["outputSchema"]
        .clone()
}

#[test]
fn a_result_has_structure_and_a_text_that_is_complete() {
    let setting = Setting::new();
    let _agent = Agent::start(&setting.socket());
    let mut bridge = setting.bridge();
    let result = bridge.call("echo", &json!({"namespace": "demo-app"}));
    assert_eq!(
        result["structuredContent"]["echo"],
        json!({"namespace": "demo-app"})
    );
    assert_eq!(result["content"].as_array().unwrap().len(), 1);
    assert_eq!(result["content"][0]["type"], "text");
    assert_eq!(
        result["content"][0]["text"],
        r#"echo was asked for {"namespace":"demo-app"}"#
    );
    assert_eq!(result.get("isError"), None);
}

#[test]
fn arguments_reach_the_daemon_as_the_model_wrote_them() {
    let setting = Setting::new();
    let agent = Agent::start(&setting.socket());
    let mut bridge = setting.bridge();
    for (number, arguments) in [
        r#"{"wait_seconds":"10"}"#,
        r#"{"wait_seconds":10.0}"#,
        r#"{"wait_seconds":1e1}"#,
        r#"{"page_token":null}"#,
        r#"{"page_token":"null"}"#,
        r#"{"extra":{"deep":[1,2,{"x":true}]}}"#,
        r#"{"n":123456789012345678901234567890,"m":0.1000000000000000055511151231257827}"#,
        r#"{"a":1,"a":2}"#,
        r#"{ "spaced" : [ 1 , 2 ] }"#,
        r#"{"text":"\u202e\ud83d\ude00 ü \\ \/"}"#,
        r"[]",
        r#""{\"namespace\":\"demo-app\"}""#,
        r"{}",
    ]
    .into_iter()
    .enumerate()
    {
        bridge.send(&format!(
            r#"{{"jsonrpc":"2.0","id":{number},"method":"tools/call","params":{{"arguments":{arguments},"name":"echo"}}}}"#
        ));
        bridge.answer(&json!(number));
        let heard = agent.script.invocations().pop().unwrap();
        assert_eq!(heard.parameters_json, arguments);
        assert_eq!(heard.protocol_version, sandbox_proto::PROTOCOL_VERSION);
        assert_eq!(heard.action, "echo");
    }
}

#[test]
fn absent_and_null_arguments_are_none() {
    let setting = Setting::new();
    let agent = Agent::start(&setting.socket());
    let mut bridge = setting.bridge();
    for params in [
        json!({"name": "echo"}),
        json!({"name": "echo", "arguments": null}),
    ] {
        assert_eq!(
            bridge.request("tools/call", &params)["result"]["structuredContent"]["echo"],
            json!({})
        );
        assert_eq!(
            agent.script.invocations().pop().unwrap().parameters_json,
            ""
        );
    }
}

#[test]
fn a_big_number_in_a_result_is_not_rounded() {
    let setting = Setting::new();
    let _agent = Agent::start(&setting.socket());
    let mut bridge = setting.bridge();
    bridge.send(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"n":123456789012345678901234567890}}}"#,
    );
    let line = bridge.next_line();
    assert!(
        line.contains(r#""echo":{"n":123456789012345678901234567890}"#),
        "{line}"
    );
}

#[test]
fn an_unknown_tool_is_for_the_daemon_to_refuse() {
    let setting = Setting::new();
    let agent = Agent::start(&setting.socket());
    let mut bridge = setting.bridge();
    bridge.call("no_such_tool", &json!({}));
    assert_eq!(agent.script.invocations()[0].action, "no_such_tool");
}

#[test]
fn every_outcome_fits_the_output_schema_the_client_was_shown() {
    let setting = Setting::new();
    let agent = Agent::start(&setting.socket());
    let mut bridge = setting.bridge_with(&["--answer-within-ms", "1500"]);
    let mut outcomes = Vec::new();
    for tool in [
        "echo",
        "fail",
        "deny",
        "refuse",
        "refuse_unexplained",
        "drop",
        "break",
        "hold",
        "never",
    ] {
        let schema = output_schema(&mut bridge, tool);
        let result = bridge.call(tool, &json!({}));
        assert_fits(&result["structuredContent"], &schema);
        outcomes.push(
            result["structuredContent"]["outcome"]
                .as_str()
                .unwrap()
                .to_owned(),
        );
    }
    assert_eq!(
        outcomes,
        [
            "finished", "failed", "denied", "refused", "refused", "unknown", "unknown", "running",
            "refused"
        ]
    );
    let schema = output_schema(&mut bridge, "echo");
    drop(agent);
    assert_fits(
        &bridge.call("echo", &json!({}))["structuredContent"],
        &schema,
    );
}

#[test]
fn hidden_characters_leave_as_escapes_and_the_text_shows_them() {
    let setting = Setting::new();
    let _agent = Agent::start(&setting.socket());
    let mut bridge = setting.bridge();
    // `next_line` fails on a hidden character in the line itself.
    let result = bridge.call("nasty", &json!({}));
    assert_eq!(
        result["content"][0]["text"],
        r"one
line \u{2028} two \u{202e}evil\u{1b}[2J \u{85}\u{7f}\u{feff}"
    );
    let value = result["structuredContent"]["echo"]["text"]
        .as_str()
        .unwrap();
    assert!(
        value.contains('\u{202e}') && value.contains('\u{2028}'),
        "the value itself is unchanged"
    );
}

#[test]
fn progress_is_told_with_the_clients_token_in_rising_numbers() {
    let setting = Setting::new();
    let _agent = Agent::start(&setting.socket());
    let mut bridge = setting.bridge();
    for token in [
        json!(0),
        json!("0"),
        json!("\u{fc}-1"),
        json!(-5),
        json!(9_007_199_254_740_993_u64),
    ] {
        let params = json!({"name": "echo", "arguments": {}, "_meta": {"progressToken": token}});
        let id = bridge.begin("tools/call", &params);
        let phases = [(0, "policy"), (1, "credential"), (2, "run")];
        for (done, phase) in phases {
            assert_eq!(
                bridge.next(),
                json!({"jsonrpc": "2.0", "method": PROGRESS, "params":
                    {"progressToken": token, "progress": done, "total": 3, "message": phase}})
            );
        }
        assert_eq!(bridge.next()["id"], id);
    }
}

#[test]
fn without_a_usable_token_no_progress_is_told() {
    let setting = Setting::new();
    let _agent = Agent::start(&setting.socket());
    let mut bridge = setting.bridge();
    for meta in [
        json!({}),
        json!({"progressToken": null}),
        json!({"progressToken": {}}),
        json!(7),
    ] {
        let id = bridge.begin("tools/call", &json!({"name": "echo", "_meta": meta}));
        assert_eq!(bridge.next()["id"], id, "{meta}");
    }
}

#[test]
fn a_call_that_takes_long_is_answered_with_its_id_and_the_daemon_goes_on() {
    let setting = Setting::new();
    let agent = Agent::start(&setting.socket());
    let mut bridge = setting.bridge_with(&["--answer-within-ms", "300"]);
    let result = bridge.call("hold", &json!({}));
    let request_id = "01900000-0000-7000-8000-000000000001";
    assert_eq!(
        result["structuredContent"],
        json!({"outcome": "running", "request_id": request_id})
    );
    assert_eq!(result.get("isError"), None);
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(
        text.contains("get_request") && text.contains(request_id),
        "{text}"
    );

    let answer = bridge.call("get_request", &json!({"request_id": request_id}));
    assert_eq!(
        answer["structuredContent"]["echo"]["request_id"],
        request_id
    );
    agent.script.wait_for_held(1);
    assert!(
        agent.script.cancellations().is_empty(),
        "a late answer cancels nothing"
    );
}

#[test]
fn a_stream_lost_after_the_request_was_taken_names_the_request() {
    let setting = Setting::new();
    let agent = Agent::start(&setting.socket());
    let script = agent.script.clone();
    let mut bridge = setting.bridge();
    let id = bridge.begin("tools/call", &json!({"name": "hold"}));
    script.wait_for_held(1);
    // What the daemon sends on one connection comes in order, so Accepted has arrived.
    bridge.call("echo", &json!({}));
    drop(agent);
    let result = &bridge.answer(&id)["result"];
    assert_eq!(result["isError"], true);
    assert_eq!(result["structuredContent"]["code"], "CONNECTION_LOST");
    assert_eq!(result["structuredContent"]["outcome"], "unknown");
    assert_eq!(
        result["structuredContent"]["request_id"],
        "01900000-0000-7000-8000-000000000001"
    );
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(
        text.contains("get_request") && text.contains("request_id: 0190"),
        "{text}"
    );

    let _agent = Agent::start_with(&setting.socket(), script);
    assert_eq!(
        bridge.call("echo", &json!({}))["structuredContent"]["outcome"],
        "finished"
    );
}

#[test]
fn ping_is_answered_within_100_ms_while_calls_are_under_way() {
    let setting = Setting::new();
    let agent = Agent::start(&setting.socket());
    let mut bridge = setting.bridge();
    for _ in 0..10 {
        bridge.begin("tools/call", &json!({"name": "hold"}));
    }
    agent.script.wait_for_held(10);
    let took = bridge.ping_time();
    println!("ping during ten calls: {took:?}");
    assert!(took.as_millis() < 100, "{took:?}");
    agent.script.release();
}

#[test]
fn calls_beyond_the_limit_are_refused_and_there_is_room_again_afterwards() {
    let setting = Setting::new();
    let agent = Agent::start(&setting.socket());
    let mut bridge = setting.bridge();
    let ids: Vec<_> = (0..32)
        .map(|_| bridge.begin("tools/call", &json!({"name": "hold"})))
        .collect();
    agent.script.wait_for_held(32);
    let result = bridge.call("echo", &json!({}));
    assert_eq!(result["structuredContent"]["code"], "TOO_MANY_CALLS");
    agent.script.release();
    for id in ids {
        assert_eq!(
            bridge.answer(&id)["result"]["structuredContent"]["outcome"],
            "finished"
        );
    }
    wait_until("room", || {
        (bridge.call("echo", &json!({}))["structuredContent"]["outcome"] == "finished")
            .then_some(())
    });
}

#[test]
fn a_result_that_is_too_long_is_said_to_be() {
    let setting = Setting::new();
    let _agent = Agent::start(&setting.socket());
    let mut bridge = setting.bridge();
    let result = bridge.call("large", &json!({}));
    assert_eq!(result["structuredContent"]["code"], "RESULT_TOO_LARGE");
    assert!(result["structuredContent"]["request_id"].is_string());
    assert_eq!(
        bridge.call("echo", &json!({}))["structuredContent"]["outcome"],
        "finished"
    );
}

#[test]
fn arguments_that_are_too_long_for_the_daemon_are_said_to_be() {
    let setting = Setting::new();
    let agent = Agent::start(&setting.socket());
    let mut bridge = setting.bridge();
    let result = bridge.call("echo", &json!({"x": "x".repeat(100_000)}));
    assert_eq!(result["structuredContent"]["code"], "ARGUMENTS_TOO_LARGE");
    assert!(agent.script.invocations().is_empty());
}
