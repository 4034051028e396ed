//! What the bridge costs whoever starts it: time to the answer of `initialize`, resident memory when
//! idle, time of a call that does nothing. Fails if a target is missed.
//!
//! `cargo bench -p mcp-bridge`: a release build, the real binary, a scripted daemon.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    dead_code,
    reason = "a measurement that fails is a failed run, and its output is its result; it uses a part of the tests' harness"
)]

use std::time::{Duration, Instant};

use serde_json::json;

#[path = "../tests/bridge/agent.rs"]
mod agent;
#[path = "../tests/bridge/client.rs"]
mod client;
#[path = "../tests/bridge/wait.rs"]
mod wait;

use agent::Agent;
use client::{Setting, resident_kib};

const MAX_START: Duration = Duration::from_millis(10);
const MAX_RESIDENT_KIB: u64 = 8 * 1024;

fn main() {
    let setting = Setting::new();
    let _agent = Agent::start(&setting.socket());

    let start = percentiles(100, || {
        let begin = Instant::now();
        let mut bridge = setting.bridge();
        bridge.send(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#);
        bridge.next_line();
        begin.elapsed()
    });
    println!("start to initialize answer: {start}, target p50 {MAX_START:?}");

    let mut bridge = setting.bridge();
    bridge.initialize();
    println!("tools/list: {} tools", bridge.tool_names().len());
    bridge.call("echo", &json!({}));
    let idle = resident_kib(bridge.pid());
    println!("resident, idle after one call: {idle} KiB, target {MAX_RESIDENT_KIB} KiB");

    let call = percentiles(2000, || {
        let begin = Instant::now();
        bridge.call("echo", &json!({"namespace": "demo-app"}));
        begin.elapsed()
    });
    println!("call of an action that does nothing: {call}");
    println!(
        "resident after 2000 calls: {} KiB",
        resident_kib(bridge.pid())
    );

    assert!(start.p50 <= MAX_START, "the start takes too long");
    assert!(idle <= MAX_RESIDENT_KIB, "the bridge is too large");
}

struct Percentiles {
    p50: Duration,
    p99: Duration,
}

impl std::fmt::Display for Percentiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "p50 {:.2?}, p99 {:.2?}", self.p50, self.p99)
    }
}

fn percentiles(times: usize, mut measure: impl FnMut() -> Duration) -> Percentiles {
    let mut taken: Vec<_> = (0..times).map(|_| measure()).collect();
    taken.sort_unstable();
    Percentiles {
        p50: taken[times / 2],
        p99: taken[times * 99 / 100],
    }
}
