//! The list of tools: what it says, how long it is, and when it changes.

use serde_json::json;

use crate::agent::{Agent, realistic_actions, scripted_action};
use crate::client::{Bridge, Setting};
use crate::wait::wait_until;

const LIST_CHANGED: &str = "notifications/tools/list_changed";

#[test]
fn a_tool_says_all_its_action_says() {
    let setting = Setting::new();
    let _agent = Agent::start(&setting.socket());
    let mut bridge = setting.bridge();
    bridge.initialize();
    let answer = bridge.request("tools/list", &json!({}));
    let tool = &answer["result"]["tools"][0];
    let action = &realistic_actions()[0];
    assert_eq!(tool["name"], action.name);
    assert_eq!(tool["title"], action.title);
    assert_eq!(tool["description"], action.description);
    let input: serde_json::Value = serde_json::from_str(&action.input_schema_json).unwrap();
    assert_eq!(tool["inputSchema"], input);
    assert_eq!(tool["outputSchema"]["properties"]["pods"]["type"], "array");
    assert_eq!(
        tool["annotations"],
        json!({"readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": true})
    );
}

#[test]
fn a_list_like_the_daemons_own_fits_6000_bytes() {
    let setting = Setting::new();
    let agent = Agent::start(&setting.socket());
    agent.script.offer(realistic_actions());
    let mut bridge = setting.bridge();
    bridge.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    let line = bridge.next_line();
    println!("tools/list of two tools: {} bytes", line.len());
    assert!(line.contains("k8s_get_pod_status") && line.contains("get_request"));
    assert!(line.len() <= 6000, "{} bytes", line.len());
}

#[test]
fn a_change_is_told_once_and_only_if_it_is_one() {
    let setting = Setting::new();
    let agent = Agent::start(&setting.socket());
    let script = agent.script.clone();
    script.offer(vec![scripted_action("echo")]);
    let mut bridge = setting.bridge();
    bridge.initialize();
    assert_eq!(bridge.tool_names(), ["echo"]);

    // A restart with the same list is no news.
    drop(agent);
    let agent = Agent::start_with(&setting.socket(), script.clone());
    assert_eq!(
        bridge.call("echo", &json!({}))["structuredContent"]["outcome"],
        "finished"
    );
    bridge.assert_silent();

    drop(agent);
    script.offer(vec![scripted_action("echo"), scripted_action("hold")]);
    let _agent = Agent::start_with(&setting.socket(), script.clone());
    assert_eq!(bridge.next()["method"], LIST_CHANGED);
    assert_eq!(bridge.tool_names(), ["echo", "hold"]);
    bridge.assert_silent();
}

#[test]
fn a_client_that_asks_gets_the_list_of_now_and_no_notice_of_it() {
    let setting = Setting::new();
    let agent = Agent::start(&setting.socket());
    agent.script.offer(vec![scripted_action("echo")]);
    let mut bridge = setting.bridge();
    bridge.initialize();
    assert_eq!(bridge.tool_names(), ["echo"]);
    agent.script.offer(vec![scripted_action("hold")]);
    assert_eq!(bridge.tool_names(), ["hold"]);
    bridge.assert_silent();
}

#[test]
fn the_last_known_list_is_shown_by_a_bridge_that_starts_before_the_daemon() {
    let setting = Setting::new();
    let agent = Agent::start(&setting.socket());
    agent
        .script
        .offer(vec![scripted_action("echo"), scripted_action("fail")]);
    let mut first = setting.bridge();
    assert_eq!(first.tool_names(), ["echo", "fail"]);
    assert!(first.end().success());
    drop(agent);

    let mut second = setting.bridge();
    second.initialize();
    assert_eq!(second.tool_names(), ["echo", "fail"]);
    let result = second.call("echo", &json!({}));
    assert_eq!(result["structuredContent"]["code"], "DAEMON_NOT_RUNNING");

    let _agent = Agent::start(&setting.socket());
    assert_eq!(
        second.next()["method"],
        LIST_CHANGED,
        "the new daemon offers more"
    );
    assert_eq!(
        second.call("echo", &json!({}))["structuredContent"]["outcome"],
        "finished"
    );
}

#[test]
fn without_a_cache_folder_all_else_works() {
    let setting = Setting::new();
    let _agent = Agent::start(&setting.socket());
    for folder in ["/proc/nowhere", "relative"] {
        let mut command = setting.command();
        let mut bridge = Bridge::start(command.env("XDG_CACHE_HOME", folder));
        assert!(bridge.tool_names().contains(&"echo".to_owned()), "{folder}");
        assert!(bridge.end().success());
    }
}

#[test]
fn a_bad_action_is_left_out_and_said_on_standard_error() {
    let setting = Setting::new();
    let agent = Agent::start(&setting.socket());
    let mut bad = scripted_action("bad");
    bad.input_schema_json = "[]".to_owned();
    agent.script.offer(vec![bad, scripted_action("echo")]);
    let mut bridge = setting.bridge();
    assert_eq!(bridge.tool_names(), ["echo"]);
    assert_eq!(bridge.tool_names(), ["echo"]);
    let stderr = bridge.end_and_read_stderr();
    assert_eq!(
        stderr.matches("tool \"bad\" is left out").count(),
        1,
        "{stderr}"
    );
}

#[test]
fn a_client_that_was_shown_no_list_is_not_told_of_a_change() {
    let setting = Setting::new();
    let mut bridge = setting.bridge();
    bridge.initialize();
    let _agent = Agent::start(&setting.socket());
    let cache = setting.folder.path().join("cache/agent-sandbox");
    wait_until("the list to be learnt and kept", || {
        cache.exists().then_some(())
    });
    bridge.assert_silent();
}
