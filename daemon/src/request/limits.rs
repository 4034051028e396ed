//! How much at once, and how much a minute.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use sandbox_core::names::PrincipalName;

use crate::config::Limits;
use crate::report::{Code, Failure};

const MINUTE_MS: u64 = 60_000;

/// Counts calls, per principal and in all.
#[derive(Debug)]
pub struct Limiter {
    limits: Limits,
    counts: Mutex<HashMap<PrincipalName, Count>>,
}

#[derive(Debug, Default)]
struct Count {
    running: usize,
    /// When the calls of the last minute came, oldest first.
    recent: VecDeque<u64>,
}

/// A call that runs, counted until this is dropped.
#[derive(Debug)]
#[must_use = "a slot that is dropped is free again"]
pub struct Slot {
    limiter: Arc<Limiter>,
    principal: PrincipalName,
}

impl Limiter {
    /// Starts with no calls.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        Self {
            limits: limits.clone(),
            counts: Mutex::default(),
        }
    }

    /// Counts a call against the minute. A refused call does not count: a client that waits a minute
    /// is served.
    ///
    /// # Errors
    /// [`Code::RateLimited`], naming the limit.
    pub fn arrive(&self, principal: &PrincipalName, now_ms: u64) -> Result<(), Failure> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        for count in counts.values_mut() {
            while count
                .recent
                .front()
                .is_some_and(|t| t + MINUTE_MS <= now_ms)
            {
                count.recent.pop_front();
            }
        }
        let all: usize = counts.values().map(|c| c.recent.len()).sum();
        let own = counts.entry(principal.clone()).or_default();
        let limited = |limit: usize, whose: &str| {
            Failure::new(
                Code::RateLimited,
                format!("{whose} {limit} calls in the last minute, the limit."),
            )
        };
        if own.recent.len() >= self.limits.per_minute_per_principal {
            return Err(limited(
                self.limits.per_minute_per_principal,
                &format!("{principal} made"),
            ));
        }
        if all >= self.limits.per_minute {
            return Err(limited(self.limits.per_minute, "All agents together made"));
        }
        own.recent.push_back(now_ms);
        Ok(())
    }

    /// Counts a call as running.
    ///
    /// # Errors
    /// [`Code::TooManyInFlight`], naming the limit.
    pub fn start(self: &Arc<Self>, principal: &PrincipalName) -> Result<Slot, Failure> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = counts.values().map(|c| c.running).sum();
        let own = counts.entry(principal.clone()).or_default();
        let full = |limit: usize, whose: &str| {
            Failure::new(
                Code::TooManyInFlight,
                format!("{limit} calls of {whose} are running, the limit."),
            )
        };
        if own.running >= self.limits.in_flight_per_principal {
            return Err(full(
                self.limits.in_flight_per_principal,
                principal.as_str(),
            ));
        }
        if all >= self.limits.in_flight {
            return Err(full(self.limits.in_flight, "all agents together"));
        }
        own.running += 1;
        Ok(Slot {
            limiter: Arc::clone(self),
            principal: principal.clone(),
        })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut counts = self
            .limiter
            .counts
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.principal) {
            count.running = count.running.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter() -> Arc<Limiter> {
        Arc::new(Limiter::new(&Limits {
            in_flight_per_principal: 2,
            in_flight: 3,
            per_minute_per_principal: 2,
            per_minute: 3,
            ..Limits::default()
        }))
    }

    fn name(s: &str) -> PrincipalName {
        s.parse().unwrap()
    }

    #[test]
    fn a_principal_is_held_to_its_own_limit_and_all_to_theirs() {
        let limiter = limiter();
        let one = limiter.start(&name("a")).unwrap();
        let _two = limiter.start(&name("a")).unwrap();
        let e = limiter.start(&name("a")).unwrap_err();
        assert_eq!(
            (e.code, e.message.as_str()),
            (
                Code::TooManyInFlight,
                "2 calls of a are running, the limit."
            )
        );
        let _three = limiter.start(&name("b")).unwrap();
        assert!(
            limiter
                .start(&name("c"))
                .unwrap_err()
                .message
                .contains("all agents")
        );
        drop(one);
        assert!(limiter.start(&name("c")).is_ok());
    }

    #[test]
    fn the_minute_slides_and_refused_calls_do_not_count() {
        let limiter = limiter();
        assert!(limiter.arrive(&name("a"), 0).is_ok());
        assert!(limiter.arrive(&name("a"), 59_999).is_ok());
        assert_eq!(
            limiter.arrive(&name("a"), 59_999).unwrap_err().code,
            Code::RateLimited
        );
        assert!(
            limiter.arrive(&name("a"), 60_000).is_ok(),
            "the first call is a minute old"
        );
        assert!(limiter.arrive(&name("b"), 60_000).is_ok());
        assert!(
            limiter
                .arrive(&name("c"), 60_000)
                .unwrap_err()
                .message
                .contains("All agents")
        );
    }
}
