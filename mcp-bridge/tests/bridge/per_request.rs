//! Clients of MCP 2026-07-28, which have no opening: they probe, and every request speaks for itself.

use serde_json::{Value, json};

use crate::agent::{Agent, scripted_action};
use crate::client::{Bridge, Setting};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const LIST_CHANGED: &str = "notifications/tools/list_changed";

/// Parameters with the `_meta` of a request that speaks for itself.
fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({
        VERSION: "2026-07-28",
        CAPABILITIES: {},
        "io.modelcontextprotocol/clientInfo": {"name": "modern", "version": "3"},
        "progressToken": "p",
    });
    params
}

fn next_list_change(bridge: &mut Bridge) -> Value {
    bridge.next_where(|message| message["method"] == LIST_CHANGED)
}

#[test]
fn a_probe_is_answered_and_either_way_of_going_on_works() {
    let setting = Setting::new();
    let _agent = Agent::start(&setting.socket());
    let mut bridge = setting.bridge();
    let result = &bridge.request("server/discover", &modern(json!({})))["result"];
    assert_eq!(result["resultType"], "complete");
    let versions = result["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!("2026-07-28")) && versions.contains(&json!("2024-11-05")));
    assert_eq!(
        result["capabilities"],
        json!({"tools": {"listChanged": true}})
    );
    assert_eq!(
        result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"],
        "agent-sandbox"
    );
    assert_eq!(
        bridge.initialize()["result"]["protocolVersion"],
        "2025-11-25"
    );
    assert_eq!(
        bridge.request("tools/list", &modern(json!({})))["result"]["resultType"],
        "complete"
    );
}

#[test]
fn a_probe_of_a_kind_we_do_not_know_gets_an_error_and_the_session_goes_on() {
    let setting = Setting::new();
    let mut bridge = setting.bridge();
    for params in [
        json!({}),
        json!({"_meta": {}}),
        json!({"_meta": 1}),
        json!({"_meta": {VERSION: 5}}),
    ] {
        let answer = bridge.request("server/discover", &params);
        assert_eq!(answer["error"]["code"], -32602, "{params}: {answer}");
    }
    let answer = bridge.request(
        "server/discover",
        &json!({"_meta": {VERSION: "2026-07-28"}}),
    );
    assert!(
        answer["error"]["message"]
            .as_str()
            .unwrap()
            .contains(CAPABILITIES),
        "{answer}"
    );

    let answer = bridge.request(
        "server/discover",
        &json!({"_meta": {VERSION: "2099-01-01"}}),
    );
    assert_eq!(answer["error"]["code"], -32022);
    assert_eq!(answer["error"]["data"]["requested"], "2099-01-01");
    assert!(
        answer["error"]["data"]["supported"]
            .as_array()
            .unwrap()
            .contains(&json!("2025-11-25"))
    );
    bridge.send(r#"{"jsonrpc":"2.0","id":"d","method":"server/discover"}"#);
    assert_eq!(bridge.answer(&json!("d"))["error"]["code"], -32602);
    assert_eq!(
        bridge.initialize()["result"]["protocolVersion"],
        "2025-11-25"
    );
}

#[test]
fn results_have_the_shape_of_the_version_the_request_names() {
    let setting = Setting::new();
    let agent = Agent::start(&setting.socket());
    let mut bridge = setting.bridge();
    let list = &bridge.request("tools/list", &modern(json!({})))["result"];
    assert_eq!(list["ttlMs"], 0);
    assert_eq!(list["cacheScope"], "private");
    let call = bridge.request(
        "tools/call",
        &modern(json!({"name": "echo", "arguments": {}})),
    );
    assert_eq!(call["result"]["resultType"], "complete");
    assert_eq!(call["result"]["structuredContent"]["outcome"], "finished");
    assert_eq!(agent.script.invocations()[0].client, "modern 3");

    let plain = &bridge.request("tools/list", &json!({}))["result"];
    assert_eq!(
        plain.as_object().unwrap().keys().collect::<Vec<_>>(),
        ["tools"]
    );
    let call = bridge.request("tools/call", &json!({"name": "echo"}));
    assert_eq!(
        call["result"]
            .as_object()
            .unwrap()
            .keys()
            .collect::<Vec<_>>(),
        ["content", "structuredContent"]
    );
}

#[test]
fn a_subscription_hears_of_new_tools_until_it_is_cancelled_or_the_session_ends() {
    let setting = Setting::new();
    let agent = Agent::start(&setting.socket());
    let mut bridge = setting.bridge();
    let listen =
        modern(json!({"notifications": {"toolsListChanged": true, "promptsListChanged": true}}));
    let first = bridge.begin("subscriptions/listen", &listen);
    let acknowledged = bridge.next();
    assert_eq!(
        acknowledged["method"],
        "notifications/subscriptions/acknowledged"
    );
    assert_eq!(acknowledged["params"]["_meta"][SUBSCRIPTION], first);
    assert_eq!(
        acknowledged["params"]["notifications"],
        json!({"toolsListChanged": true})
    );
    let second = bridge.begin(
        "subscriptions/listen",
        &modern(json!({"notifications": {}})),
    );
    assert_eq!(bridge.next()["params"]["notifications"], json!({}));

    agent.script.offer(vec![scripted_action("echo")]);
    bridge.request("tools/list", &modern(json!({})));
    drop(agent);
    let agent = Agent::start(&setting.socket()); // It offers everything.
    assert_eq!(
        next_list_change(&mut bridge)["params"]["_meta"][SUBSCRIPTION],
        first
    );

    bridge.notify("notifications/cancelled", &json!({"requestId": first}));
    agent.script.offer(vec![scripted_action("fail")]);
    assert_eq!(bridge.tool_names(), ["fail"]);
    bridge.end();
    let ids: Vec<_> = bridge
        .rest()
        .into_iter()
        .map(|message| message["id"].clone())
        .collect();
    assert_eq!(
        ids,
        [second],
        "only the open subscription is ended with an answer"
    );
}

#[test]
fn listening_is_not_for_sessions_opened_by_initialize() {
    let setting = Setting::new();
    let mut bridge = setting.bridge();
    bridge.initialize();
    let answer = bridge.request("subscriptions/listen", &json!({"notifications": {}}));
    assert_eq!(answer["error"]["code"], -32601);
    for params in [
        json!({}),
        json!({"notifications": []}),
        json!({"notifications": 1}),
    ] {
        let answer = bridge.request("subscriptions/listen", &modern(params.clone()));
        assert_eq!(answer["error"]["code"], -32602, "{params}");
    }
}
