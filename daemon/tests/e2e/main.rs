//! The real thing from end to end: `mcp-bridge` as the agent's user, the installed `sandboxd`, OpenBao, a
//! Kubernetes node and gVisor, with one part broken at a time.
//!
//! Root runs these and is no principal, so calls go through the bridge and what happened is read through
//! `approver`. Each test waits for its turn, and puts back what it broke even when it fails.
#![cfg(test)]

#[path = "../support/cluster_lock.rs"]
mod cluster_lock;
#[path = "../support/sixty.rs"]
mod sixty;

mod places;
mod wait;
mod bridge;
mod trail;
mod daemon;
mod held_clock;
mod own_daemon;
mod cluster;
mod openbao;
mod frozen;
mod ground;
mod human;
mod root;

mod call;
mod bad_input;
mod peers;
mod openbao_faults;
mod cluster_faults;
mod network_faults;
mod interrupted;
mod crash_points;
mod full_disk;
mod canary;
mod terraform;
mod approval_binding;
mod approval_clock;
mod approval_people;
mod approval_plan_file;
mod terraform_source;
mod terraform_canary;
mod terraform_secrets;
mod terraform_interrupted;
mod terraform_stops;
mod terraform_sixty;
mod many_pods;
mod load;
