//! The rules of agent-sandbox: names, parameters, policy and the audit record.
//!
//! Pure: no I/O, no clock, no randomness. What time it is and what is random comes in as arguments, so
//! the tests need no stand-ins.

pub mod names;
pub mod ids;
pub mod selector;
pub mod parameters;
pub mod plan;
pub mod policy;
pub mod approval;
pub mod resource;
pub mod audit;
