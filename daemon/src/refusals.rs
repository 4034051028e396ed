//! Refusals that somebody can cause at will, told once and then once a minute with their count: a flood
//! must not fill the trail.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sandbox_core::audit::{Event, EventName};

use crate::audit::Audit;
use crate::lifetime::Lifetime;
use crate::report::{Code, chain};

const EVERY: Duration = Duration::from_mins(1);
/// The most different refusals that are counted apart; the rest is one more.
const MOST: usize = 256;

type Key = (String, &'static str);

/// Counts refusals. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Refusals {
    audit: Audit,
    lifetime: Lifetime,
    counts: Arc<Mutex<HashMap<Key, Counted>>>,
}

#[derive(Debug)]
struct Counted {
    code: Code,
    reason: String,
    /// Since it was last told.
    more: u64,
}

impl Refusals {
    /// Counts from nothing, and tells once a minute until `lifetime` stops.
    #[must_use]
    pub fn new(audit: Audit, lifetime: &Lifetime) -> Self {
        let this = Self {
            audit,
            lifetime: lifetime.clone(),
            counts: Arc::default(),
        };
        let teller = this.clone();
        lifetime.spawn(async move {
            let stop = teller.lifetime.stop.clone();
            loop {
                let stopped = tokio::select! {
                    () = stop.cancelled() => true,
                    () = tokio::time::sleep(EVERY) => false,
                };
                teller.tell().await;
                if stopped {
                    return;
                }
            }
        });
        this
    }

    /// Notes one refusal of `who`. The first of its kind is told at once.
    pub fn note(&self, who: &str, code: Code, reason: &str) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let who = if counts.len() < MOST {
            who
        } else {
            "many others"
        };
        let key = (who.to_owned(), code.as_str());
        if let Some(counted) = counts.get_mut(&key) {
            counted.more += 1;
            return;
        }
        let counted = Counted {
            code,
            reason: reason.to_owned(),
            more: 0,
        };
        let event = event(&key, &counted, 1);
        counts.insert(key, counted);
        drop(counts);
        let audit = self.audit.clone();
        self.lifetime
            .spawn(async move { write(&audit, event).await });
    }

    async fn tell(&self) {
        let counts = {
            let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *counts)
        };
        for (key, counted) in counts.iter().filter(|(_, counted)| counted.more > 0) {
            write(&self.audit, event(key, counted, counted.more)).await;
        }
    }
}

fn event((who, code): &Key, counted: &Counted, count: u64) -> Event {
    let name = if counted.code == Code::NotAdmitted {
        EventName::PeerRefused
    } else {
        EventName::RequestRefused
    };
    Event::new(name)
        .with("who", who.as_str())
        .with("code", *code)
        .with("reason", counted.reason.as_str())
        .with("count", count)
}

async fn write(audit: &Audit, event: Event) {
    if let Err(e) = audit.record(event).await {
        tracing::error!(error = chain(&e), "a refusal is not in the trail");
    }
}
