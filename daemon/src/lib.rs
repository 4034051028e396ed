//! sandboxd: decides, mints a credential for one action, runs it in a gVisor Job, revokes, proves.
//!
//! The modules stand in the order a request meets them; what serves them all comes last.

pub mod audit;
pub mod store;
pub mod config;
pub mod clock;
pub mod lifetime;
