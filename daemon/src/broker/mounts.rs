//! Which engine to ask next.
//!
//! The engine's Kubernetes client takes 5 calls a second with bursts of 10, per API group and mount,
//! and none of it is configurable. A lease costs three calls of the core group in its life (create the
//! `ServiceAccount`, its token, delete it), and two of the RBAC group, so the core group runs out first.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sandbox_core::names::MountName;
use tokio::time::Instant;

const CALLS_A_SECOND: f64 = 5.0;
const BURST: f64 = 10.0;
const CALLS_A_LEASE: f64 = 3.0;

/// The mounts, each with what its client has left by our reckoning.
#[derive(Debug)]
pub(super) struct Mounts(Mutex<Vec<Mount>>);

#[derive(Debug)]
struct Mount {
    name: MountName,
    budget: f64,
    at: Instant,
}

impl Mounts {
    pub(super) fn new(names: Vec<MountName>) -> Self {
        let at = Instant::now();
        Self(Mutex::new(
            names
                .into_iter()
                .map(|name| Mount {
                    name,
                    budget: BURST,
                    at,
                })
                .collect(),
        ))
    }

    /// The mount with the most left, charged for one lease. Says so when the lease will have to wait.
    #[expect(
        clippy::expect_used,
        reason = "the configuration refuses an empty list"
    )]
    pub(super) fn choose(&self) -> MountName {
        let now = Instant::now();
        let mut mounts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for mount in mounts.iter_mut() {
            let gained = (now - mount.at).as_secs_f64() * CALLS_A_SECOND;
            mount.budget = (mount.budget + gained).min(BURST);
            mount.at = now;
        }
        let best = mounts
            .iter_mut()
            .max_by(|a, b| a.budget.total_cmp(&b.budget));
        let best = best.expect("there is at least one mount");
        best.budget -= CALLS_A_LEASE;
        if best.budget < 0.0 {
            let wait = Duration::from_secs_f64(-best.budget / CALLS_A_SECOND);
            tracing::info!(
                mount = %best.name,
                wait_ms = wait.as_millis(),
                "every mount's client is at its limit of 5 calls a second; more mounts would help"
            );
        }
        best.name.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[tokio::test(start_paused = true)]
    async fn leases_are_spread_evenly_and_a_mount_recovers() {
        let mounts = Mounts::new(["a", "b", "c", "d"].map(|n| n.parse().unwrap()).to_vec());
        let mut counts = BTreeMap::new();
        for _ in 0..16 {
            *counts.entry(mounts.choose().to_string()).or_insert(0) += 1;
        }
        assert_eq!(counts.values().copied().collect::<Vec<_>>(), [4, 4, 4, 4]);
        assert!(mounts.0.lock().unwrap().iter().all(|m| m.budget < 0.0));
        tokio::time::advance(Duration::from_secs(10)).await;
        mounts.choose();
        let budgets: Vec<_> = mounts.0.lock().unwrap().iter().map(|m| m.budget).collect();
        assert!(
            budgets.iter().filter(|b| **b >= BURST).count() == 3,
            "{budgets:?}"
        );
    }
}
