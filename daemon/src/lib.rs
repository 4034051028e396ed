//! sandboxd: decides, mints a credential for one action, runs it in a gVisor Job, revokes, proves.

pub mod audit;
