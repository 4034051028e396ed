//! sandboxd: decides, mints a credential for one action, runs it in a gVisor Job, revokes, proves.
//!
//! The modules stand in the order a request meets them; what serves them all comes last.

pub mod cli;
pub mod run;
pub mod listen;
pub mod peer;
pub mod grpc;
pub mod request;
pub mod decide;
pub mod approve;
pub mod broker;
pub mod sandbox;
pub mod actions;
pub mod report;
pub mod reconcile;
pub mod refusals;
pub mod verify;
pub mod audit;
pub mod store;
pub mod terraform;
pub mod config;
pub mod clock;
pub mod lifetime;
mod crash;
mod random;
