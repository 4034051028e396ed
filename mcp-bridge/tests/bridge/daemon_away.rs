//! The daemon is not there, not yet, not any more, or not for us.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::agent::Agent;
use crate::client::{Bridge, Setting};
use crate::wait::wait_until;

/// A user without rights.
const NOBODY: u32 = 65_534;

#[test]
fn without_a_daemon_a_call_says_how_to_start_it() {
    let setting = Setting::new();
    let mut bridge = setting.bridge();
    bridge.initialize();
    assert!(bridge.tool_names().is_empty());
    let result = bridge.call("k8s_get_pod_status", &json!({"namespace": "demo-app"}));
    assert_eq!(result["isError"], true);
    let structured = &result["structuredContent"];
    assert_eq!(structured["code"], "DAEMON_NOT_RUNNING");
    assert!(
        structured["message"]
            .as_str()
            .unwrap()
            .contains(setting.socket().to_str().unwrap())
    );
    let uid = rustix::process::geteuid().as_raw();
    assert!(
        structured["message"]
            .as_str()
            .unwrap()
            .contains(&format!("uid {uid}"))
    );
    assert!(structured["next"].as_str().unwrap().contains("scripts/up"));
    assert_eq!(
        bridge.end_and_read_stderr(),
        "",
        "a daemon that is not up yet is no news"
    );
}

#[test]
fn a_socket_nobody_listens_at_is_a_daemon_that_is_not_running() {
    let setting = Setting::new();
    drop(UnixListener::bind(setting.socket()).unwrap());
    let mut bridge = setting.bridge();
    let result = bridge.call("echo", &json!({}));
    assert_eq!(result["structuredContent"]["code"], "DAEMON_NOT_RUNNING");
}

#[test]
fn a_daemon_that_comes_is_found_by_itself_and_its_tools_are_announced() {
    let setting = Setting::new();
    let mut bridge = setting.bridge_with(&["--verbose"]);
    bridge.initialize();
    assert!(bridge.tool_names().is_empty());
    let agent = Agent::start(&setting.socket());
    assert_eq!(bridge.next()["method"], "notifications/tools/list_changed");
    assert!(bridge.tool_names().contains(&"echo".to_owned()));

    for _ in 0..3 {
        assert_eq!(
            bridge.call("echo", &json!({}))["structuredContent"]["outcome"],
            "finished"
        );
    }
    drop(agent);
    assert_eq!(
        bridge.call("echo", &json!({}))["structuredContent"]["code"],
        "DAEMON_NOT_RUNNING"
    );
    assert!(
        bridge.tool_names().contains(&"echo".to_owned()),
        "the last known list stands"
    );
    let _agent = Agent::start(&setting.socket());
    assert_eq!(
        bridge.call("echo", &json!({}))["structuredContent"]["outcome"],
        "finished"
    );
    let stderr = bridge.end_and_read_stderr();
    assert!(stderr.contains("connected to sandboxd 9.9.9"), "{stderr}");
}

#[test]
fn a_folder_that_is_closed_to_us_is_named_with_our_uid() {
    let setting = Setting::new();
    let _agent = Agent::start(&setting.socket());
    let elsewhere = tempfile::tempdir().unwrap();
    fs::set_permissions(elsewhere.path(), Permissions::from_mode(0o755)).unwrap();
    let binary = elsewhere.path().join("mcp-bridge");
    fs::copy(env!("CARGO_BIN_EXE_mcp-bridge"), &binary).unwrap();
    let mut command = setting.command_for(&binary);
    let is_root = rustix::process::geteuid().is_root();
    let uid = if is_root {
        command.uid(NOBODY).gid(NOBODY);
        NOBODY
    } else {
        rustix::process::geteuid().as_raw()
    };
    // Root gets in anyway, so root's bridge runs as nobody and finds a folder of root's.
    let mode = if is_root { 0o700 } else { 0 };
    fs::set_permissions(setting.folder.path(), Permissions::from_mode(mode)).unwrap();
    let mut bridge = Bridge::start(&mut command);
    assert!(bridge.tool_names().is_empty());
    let result = bridge.call("echo", &json!({}));
    let stderr = bridge.end_and_read_stderr();
    fs::set_permissions(setting.folder.path(), Permissions::from_mode(0o700)).unwrap();

    let structured = &result["structuredContent"];
    assert_eq!(structured["code"], "SOCKET_FORBIDDEN", "{result}");
    let message = structured["message"].as_str().unwrap();
    assert!(message.contains(&format!("uid {uid}")), "{message}");
    assert!(
        message.contains(setting.socket().to_str().unwrap()),
        "{message}"
    );
    assert!(
        stderr.contains("SOCKET_FORBIDDEN"),
        "a person has to act: {stderr}"
    );
}

#[test]
fn a_daemon_that_hangs_up_at_once_is_not_called_missing() {
    let setting = Setting::new();
    let listener = UnixListener::bind(setting.socket()).unwrap();
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let mut bridge = setting.bridge();
    let result = bridge.call("echo", &json!({}));
    assert_eq!(
        result["structuredContent"]["code"], "DAEMON_UNREACHABLE",
        "{result}"
    );
    let message = result["structuredContent"]["message"].as_str().unwrap();
    assert!(message.contains("uid"), "{message}");
}

#[test]
fn a_daemon_that_says_nothing_holds_up_neither_ping_nor_the_list_for_long() {
    let setting = Setting::new();
    let _listener = UnixListener::bind(setting.socket()).unwrap();
    let mut bridge = setting.bridge_with(&["--answer-within-ms", "500"]);
    bridge.initialize();
    let list = bridge.begin("tools/list", &json!({}));
    let start = Instant::now();
    let took = bridge.ping_time();
    assert!(took < Duration::from_millis(100), "{took:?}");
    let result = bridge.call("echo", &json!({}));
    assert_eq!(result["structuredContent"]["code"], "DAEMON_SILENT");
    assert_eq!(bridge.answer(&list)["result"]["tools"], json!([]));
    assert!(
        start.elapsed() < Duration::from_secs(4),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn two_bridges_at_once_share_nothing_but_the_daemon() {
    let setting = Setting::new();
    let agent = Agent::start(&setting.socket());
    let (mut one, mut two) = (setting.bridge(), setting.bridge());
    one.initialize();
    two.initialize();
    let held = one.begin("tools/call", &json!({"name": "hold"}));
    agent.script.wait_for_held(1);
    // The same id in another session is another call.
    two.notify("notifications/cancelled", &json!({"requestId": held}));
    assert_eq!(
        two.call("echo", &json!({}))["structuredContent"]["outcome"],
        "finished"
    );
    assert!(two.end().success());
    agent.script.release();
    assert_eq!(
        one.answer(&held)["result"]["structuredContent"]["outcome"],
        "finished"
    );
    assert!(agent.script.cancellations().is_empty());
    wait_until("both lists stored in one file", || {
        let cache = setting.folder.path().join("cache/agent-sandbox");
        let files = fs::read_dir(cache).ok()?.count();
        (files == 1).then_some(())
    });
}
