//! The real bridge on real pipes, as MCP clients behave and not only as MCP describes them, against a
//! scripted daemon.
#![cfg(test)]

mod agent;
mod client;
mod schema;
mod wait;

mod opening;
mod per_request;
mod messages;
mod lines;
mod tools;
mod calls;
mod cancelling;
mod refusals;
mod daemon_away;
mod ends;
