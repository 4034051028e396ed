//! The tests' scripted daemon as a program, for trying MCP clients without sandboxd.
//!
//! `cargo run -p mcp-bridge --example scripted_agent -- SOCKET` serves until its input ends.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    dead_code,
    reason = "a tool for tests, made of a part of their harness"
)]

use std::io::Read as _;
use std::path::PathBuf;

#[path = "../tests/bridge/agent.rs"]
mod agent;
#[path = "../tests/bridge/wait.rs"]
mod wait;

fn main() {
    let socket = PathBuf::from(
        std::env::args_os()
            .nth(1)
            .expect("usage: scripted_agent SOCKET"),
    );
    let _agent = agent::Agent::start(&socket);
    println!("listening at {}", socket.display());
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}
