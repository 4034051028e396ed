//! How sessions end, and clients that do not read.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::agent::Agent;
use crate::client::{Bridge, Setting, resident_kib};
use crate::wait::wait_until;

#[test]
fn input_that_ends_at_once_is_a_normal_end() {
    let setting = Setting::new();
    let mut bridge = setting.bridge();
    assert!(bridge.end().success());
    assert!(bridge.rest().is_empty());
}

#[test]
fn calls_under_way_are_answered_before_the_exit() {
    let setting = Setting::new();
    let agent = Agent::start(&setting.socket());
    let mut bridge = setting.bridge();
    let ids: Vec<_> = (0..5)
        .map(|_| bridge.begin("tools/call", &json!({"name": "hold"})))
        .collect();
    agent.script.wait_for_held(5);
    bridge.close_stdin();
    agent.script.release();
    let status = bridge.end();
    assert_eq!(status.code(), Some(0));
    let answers = bridge.rest();
    assert_eq!(answers.len(), 5);
    for id in ids {
        let answer = answers.iter().find(|answer| answer["id"] == id).unwrap();
        assert_eq!(answer["result"]["structuredContent"]["outcome"], "finished");
    }
}

#[test]
fn a_call_that_outlasts_the_input_is_answered_with_running_and_goes_on() {
    let setting = Setting::new();
    let agent = Agent::start(&setting.socket());
    // Longer than an unread answer is waited for: it is the call that is waited for.
    let mut bridge = setting.bridge_with(&["--answer-within-ms", "11000"]);
    bridge.begin("tools/call", &json!({"name": "hold"}));
    agent.script.wait_for_held(1);
    assert_eq!(bridge.end().code(), Some(0));
    let answers = bridge.rest();
    assert_eq!(
        answers[0]["result"]["structuredContent"]["outcome"],
        "running"
    );
    assert!(agent.script.cancellations().is_empty());
}

#[test]
fn everything_asked_before_the_end_of_input_is_answered() {
    let setting = Setting::new();
    let _agent = Agent::start(&setting.socket());
    let mut child = setting
        .command()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    for id in 0..20 {
        let method = ["ping", "tools/list"][id % 2];
        writeln!(
            stdin,
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#
        )
        .unwrap();
    }
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(
        String::from_utf8(output.stdout).unwrap().lines().count(),
        20
    );
}

#[test]
fn a_client_that_never_reads_standard_error_is_served() {
    let setting = Setting::new();
    let mut bridge = setting.bridge_with(&["--verbose"]);
    let garbage = "x".repeat(2000);
    // Each gets a line of some 60 bytes; a pipe holds 64 KiB.
    for _ in 0..4000 {
        bridge.send(&garbage);
        assert_eq!(bridge.next()["error"]["code"], -32700);
    }
    bridge.request("ping", &json!({}));
    assert!(bridge.end().success());
}

#[test]
fn a_client_that_does_not_read_makes_us_wait_and_not_grow() {
    let setting = Setting::new();
    let _agent = Agent::start(&setting.socket());
    let (mut bridge, stdout) = Bridge::start_unread(&mut setting.command());
    let mut stdin = bridge.take_stdin();
    let count = 3000;
    let written = Arc::new(AtomicU64::new(0));
    let progress = Arc::clone(&written);
    let writer = thread::spawn(move || {
        for id in 0..count {
            writeln!(
                stdin,
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#
            )
            .unwrap();
            progress.store(id, Ordering::Relaxed);
        }
        stdin
    });
    // Once the bridge takes no more, its memory is what it will be.
    let mut seen = (0, Instant::now());
    wait_until("the bridge to stop reading", || {
        let now = written.load(Ordering::Relaxed);
        if now != seen.0 {
            seen = (now, Instant::now());
        }
        (now > 100 && seen.1.elapsed() > Duration::from_millis(700)).then_some(())
    });
    let held = resident_kib(bridge.pid());
    println!("resident while the client does not read: {held} KiB");
    assert!(held < 24_000, "{held} KiB");
    assert!(
        !writer.is_finished(),
        "the client is held up, not the memory filled"
    );

    bridge.listen(stdout);
    let mut ids: Vec<_> = (0..count)
        .map(|_| bridge.next()["id"].as_u64().unwrap())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..count).collect::<Vec<_>>());
    drop(writer.join().unwrap());
    assert!(bridge.end().success());
}

#[test]
fn a_client_that_closes_its_end_ends_the_bridge() {
    let setting = Setting::new();
    let agent = Agent::start(&setting.socket());
    let (mut bridge, stdout) = Bridge::start_unread(&mut setting.command());
    bridge.begin("tools/call", &json!({"name": "hold"}));
    agent.script.wait_for_held(1);
    drop(stdout);
    bridge.begin("ping", &json!({}));
    let mut stdin = bridge.take_stdin();
    // Even though the input is still open and a call under way.
    assert!(bridge.end().success());
    assert!(stdin.write_all(b"\n").is_err());
    assert!(
        agent.script.cancellations().is_empty(),
        "the daemon goes on"
    );
}

#[test]
fn a_wrong_command_line_is_explained_on_standard_error_alone() {
    let output = Command::new(env!("CARGO_BIN_EXE_mcp-bridge"))
        .arg("--sock")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("--socket")
    );
}

#[test]
fn version_and_help_are_printed() {
    let run = |arg| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_mcp-bridge"))
            .arg(arg)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut text = String::new();
        child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        assert!(child.wait().unwrap().success());
        text
    };
    assert_eq!(
        run("--version"),
        concat!("mcp-bridge ", env!("CARGO_PKG_VERSION"), "\n")
    );
    assert!(run("--help").contains("/run/sandboxd/agent/agent.sock"));
}
