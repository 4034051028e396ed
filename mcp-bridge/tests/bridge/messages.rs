//! JSON-RPC at its edges: ids, batches, and messages nobody knows.

use serde_json::{Value, json};

use crate::agent::Agent;
use crate::client::Setting;

#[test]
fn every_id_comes_back_exactly_as_it_was_written() {
    let setting = Setting::new();
    let mut bridge = setting.bridge();
    for id in [
        "0",
        "-1",
        "-9223372036854775808",
        "9007199254740993",
        "18446744073709551616",
        "123456789012345678901234567890",
        "1.5",
        "1e3",
        r#""""#,
        r#""1""#,
        r#""\u0061\n""#,
        r#""ü 👩‍🚒""#,
    ] {
        bridge.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#));
        assert_eq!(
            bridge.next_line(),
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)
        );
    }
}

#[test]
fn ids_of_calls_come_back_exactly_too() {
    let setting = Setting::new();
    let _agent = Agent::start(&setting.socket());
    let mut bridge = setting.bridge();
    for id in ["0", "9007199254740993", "\"a\""] {
        bridge.send(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo"}}}}"#
        ));
        let line = bridge.next_line();
        assert!(
            line.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"#)),
            "{line}"
        );
    }
}

#[test]
fn what_is_no_id_is_refused_without_one() {
    let setting = Setting::new();
    let mut bridge = setting.bridge();
    for id in ["null", "true", "{}", "[1]"] {
        bridge.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#));
        let answer = bridge.next();
        assert_eq!(answer["error"]["code"], -32600, "{id}");
        assert_eq!(answer["id"], Value::Null);
    }
}

#[test]
fn unknown_methods_are_refused_by_name_and_unknown_notifications_ignored() {
    let setting = Setting::new();
    let mut bridge = setting.bridge();
    bridge.initialize();
    for method in [
        "prompts/list",
        "resources/list",
        "completion/complete",
        "tools/approve",
        "",
        "x\u{202e}",
    ] {
        let answer = bridge.request(method, &json!({}));
        assert_eq!(answer["error"]["code"], -32601, "{method}");
    }
    for method in [
        "notifications/roots/list_changed",
        "notifications/nothing",
        "tools/call",
        "ping",
    ] {
        bridge.notify(method, &json!({}));
    }
    bridge.send(r#"{"jsonrpc":"2.0","id":77,"result":{}}"#);
    bridge
        .send(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"an echo of ours"}}"#);
    bridge.assert_silent();
}

#[test]
fn a_message_that_is_none_is_refused_by_its_id() {
    let setting = Setting::new();
    let mut bridge = setting.bridge();
    for (line, id) in [
        (r#"{"id":1,"method":"ping"}"#, json!(1)),
        (r#"{"jsonrpc":"1.0","id":2,"method":"ping"}"#, json!(2)),
        (r#"{"jsonrpc":"2.0","id":3}"#, json!(3)),
        (r#"{"jsonrpc":"2.0","id":4,"method":["ping"]}"#, json!(4)),
        (
            r#"{"jsonrpc":"2.0","id":5,"id":6,"method":"ping"}"#,
            Value::Null,
        ),
        ("\"hello\"", Value::Null),
        ("null", Value::Null),
    ] {
        bridge.send(line);
        let answer = bridge.next();
        assert_eq!(answer["error"]["code"], -32600, "{line}");
        assert_eq!(answer["id"], id, "{line}");
    }
}

#[test]
fn a_call_without_a_usable_name_is_a_protocol_error() {
    let setting = Setting::new();
    let mut bridge = setting.bridge();
    for params in [
        json!({}),
        json!({"name": 5}),
        json!({"name": null}),
        json!([]),
        json!("echo"),
    ] {
        let answer = bridge.request("tools/call", &params);
        assert_eq!(answer["error"]["code"], -32602, "{params}");
    }
}

#[test]
fn a_batch_is_answered_as_one_array() {
    let setting = Setting::new();
    let agent = Agent::start(&setting.socket());
    let mut bridge = setting.bridge();
    bridge.send(
        &json!([
            {"jsonrpc": "2.0", "id": 1, "method": "ping"},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": "c", "method": "tools/call", "params": {"name": "hold"}},
            {"jsonrpc": "2.0", "id": 3, "method": "initialize"},
            7,
            {"jsonrpc": "2.0", "id": 4, "method": "nothing"},
        ])
        .to_string(),
    );
    bridge.send(r#"{"jsonrpc":"2.0","id":9,"method":"ping"}"#);
    assert_eq!(bridge.next()["id"], 9, "a batch holds up nobody else");
    agent.script.wait_for_held(1);
    agent.script.release();
    let batch = bridge.next();
    let find = |id: Value| {
        batch
            .as_array()
            .unwrap()
            .iter()
            .find(|answer| answer["id"] == id)
            .unwrap()
    };
    assert_eq!(batch.as_array().unwrap().len(), 5);
    assert_eq!(find(json!(1))["result"], json!({}));
    assert_eq!(
        find(json!("c"))["result"]["structuredContent"]["outcome"],
        "finished"
    );
    assert_eq!(find(json!(3))["error"]["code"], -32600);
    assert_eq!(find(Value::Null)["error"]["code"], -32600);
    assert_eq!(find(json!(4))["error"]["code"], -32601);
}

#[test]
fn an_empty_batch_is_refused_and_one_of_notifications_gets_nothing() {
    let setting = Setting::new();
    let mut bridge = setting.bridge();
    bridge.send("[]");
    assert_eq!(bridge.next()["error"]["code"], -32600);
    let long: Vec<_> = (0..65)
        .map(|id| json!({"jsonrpc": "2.0", "id": id, "method": "ping"}))
        .collect();
    bridge.send(&json!(long).to_string());
    assert_eq!(bridge.next()["error"]["code"], -32600);
    bridge.send(r#"[{"jsonrpc":"2.0","method":"notifications/initialized"}]"#);
    bridge.assert_silent();
}

#[test]
fn batches_beyond_the_limit_are_refused_until_one_is_answered() {
    let setting = Setting::new();
    let agent = Agent::start(&setting.socket());
    let mut bridge = setting.bridge();
    for id in 0..8 {
        let call =
            json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "hold"}});
        bridge.send(&json!([call]).to_string());
    }
    agent.script.wait_for_held(8);
    let ping = r#"[{"jsonrpc":"2.0","id":"p","method":"ping"}]"#;
    bridge.send(ping);
    let refused = bridge.next();
    assert!(
        refused["error"]["message"]
            .as_str()
            .unwrap()
            .contains("8 batches"),
        "{refused}"
    );
    agent.script.release();
    for _ in 0..8 {
        assert_eq!(
            bridge.next()[0]["result"]["structuredContent"]["outcome"],
            "finished"
        );
    }
    bridge.send(ping);
    assert_eq!(bridge.next()[0]["id"], "p");
}
