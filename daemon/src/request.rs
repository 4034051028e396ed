//! Requests: parsed, counted, written down, decided, and followed to their end.
//!
//! A request outlives the call that opened it. Losing the stream changes nothing; asking for it by id
//! finds it, and only its owner can.

mod admit;
mod limits;
mod live;
mod perform;
mod stay;

use std::sync::Arc;

use sandbox_core::audit::{Event, EventName};
use sandbox_core::ids::RequestId;
use sandbox_core::names::PrincipalName;
use sandbox_core::parameters::Parameters;
use sandbox_core::policy::Decision;
use tokio_util::sync::CancellationToken;

use crate::actions::PageKey;
use crate::approve::Approvals;
use crate::audit::Audit;
use crate::broker::{Broker, Login};
use crate::clock::Clock;
use crate::config::Limits;
use crate::decide::PolicyInForce;
use crate::lifetime::Lifetime;
use crate::refusals::Refusals;
use crate::report::{Code, Failure};
use crate::sandbox::Sandboxes;
use crate::store::Store;
use crate::terraform::{Keyed, Root, Roots};

pub use admit::{Admitted, Call};
pub use limits::Limiter;
pub use live::{Ended, Live, Phase, Registry, Report, State};
pub(crate) use stay::{Keep, Stay, Work, lost_trail};

/// Everything a request needs on its way. Made once, shared by all.
#[derive(Debug)]
pub struct Parts {
    /// The trail.
    pub audit: Audit,
    /// Refusals that are told once a minute.
    pub refusals: Refusals,
    /// The journal.
    pub store: Store,
    /// The policy in force.
    pub policy: PolicyInForce,
    /// What waits for humans.
    pub approvals: Approvals,
    /// Where credentials come from.
    pub broker: Broker,
    /// Where keys for what is kept come from, and values of variables.
    pub login: Login,
    /// Where work runs.
    pub sandboxes: Sandboxes,
    /// Terraform's roots.
    pub roots: Roots,
    /// Keys the digests of secret values.
    pub keyed: Keyed,
    /// Seals page tokens.
    pub page_key: PageKey,
    /// How much at once.
    pub limits: Limits,
    /// What time it is.
    pub clock: Clock,
    /// How long all this goes on.
    pub lifetime: Lifetime,
}

/// The requests of this run of the daemon. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Requests {
    parts: Arc<Parts>,
    registry: Registry,
    limiter: Arc<Limiter>,
}

/// A request that was opened and allowed, on its way to run.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) id: RequestId,
    pub(crate) principal: PrincipalName,
    pub(crate) parameters: Parameters,
    /// The root it is about, if it is about one.
    pub(crate) root: Option<Root>,
    /// The uid it came from, where the kernel told it.
    pub(crate) uid: Option<u32>,
    /// The agent's client, by its own word.
    pub(crate) client: String,
    pub(crate) cancel: CancellationToken,
}

impl Request {
    /// An event of this request.
    pub(crate) fn event(&self, name: EventName) -> Event {
        Event::new(name).request(self.id).principal(&self.principal)
    }

    /// `guardrail.decision`: what the policy answered.
    pub(crate) fn decided(&self, decision: &Decision) -> Event {
        let event = self.event(EventName::GuardrailDecision);
        match decision {
            Decision::Allow { rule } => event.with("decision", "allow").with("rule", rule.as_str()),
            Decision::RequireApproval { rule, quorum, .. } => event
                .with("decision", "require_approval")
                .with("rule", rule.as_str())
                .with("quorum", i64::from(*quorum)),
            Decision::Deny { rule, reason } => event
                .with("decision", "deny")
                .with("rule", rule.as_ref().map_or("default", |r| r.as_str()))
                .with("reason", reason.as_str()),
        }
    }
}

impl Requests {
    /// Starts with none.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let limiter = Arc::new(Limiter::new(&parts.limits));
        Self {
            parts: Arc::new(parts),
            registry: Registry::default(),
            limiter,
        }
    }

    /// What requests are served with.
    #[must_use]
    pub fn parts(&self) -> &Arc<Parts> {
        &self.parts
    }

    /// How many are running.
    #[must_use]
    pub fn running(&self) -> usize {
        self.registry.running()
    }

    /// Where one of `principal`'s own requests stands, waiting up to `wait` for its end.
    ///
    /// # Errors
    /// [`Code::NoSuchRequest`], the same for one that does not exist and one that is another's.
    pub async fn find(
        &self,
        principal: &PrincipalName,
        id: RequestId,
        wait: std::time::Duration,
    ) -> Result<(String, State), Failure> {
        if let Some(live) = self.registry.find(principal, id) {
            let action = live.action.to_string();
            return Ok((action, live.wait(wait).await));
        }
        // Not of this run: the journal still knows how it ended, if not with what.
        let found = self
            .parts
            .store
            .find_request(id, principal.clone())
            .await
            .map_err(|e| {
                tracing::error!(
                    error = crate::report::chain(&e),
                    "could not look up a request"
                );
                Failure::new(
                    Code::StoreUnavailable,
                    "sandboxd's database could not be read.",
                )
            })?;
        match found {
            None => Err(no_such_request()),
            Some((action, outcome)) => Ok((
                action,
                State::Ended(Arc::new(Ended::forgotten(id, outcome.as_deref()))),
            )),
        }
    }

    /// Ends one of `principal`'s own requests early; of one that has ended, the approval it opened. False
    /// when there was nothing left to end.
    ///
    /// # Errors
    /// [`Code::NoSuchRequest`]
    pub async fn cancel(&self, principal: &PrincipalName, id: RequestId) -> Result<bool, Failure> {
        let live = self
            .registry
            .find(principal, id)
            .ok_or_else(no_such_request)?;
        if let State::Ended(ended) = live.wait(std::time::Duration::ZERO).await {
            return Ok(match ended.opened() {
                Some(approval) => self
                    .parts
                    .approvals
                    .cancel(principal, approval)
                    .await
                    .is_ok(),
                None => false,
            });
        }
        let running = !live.cancel.is_cancelled();
        live.cancel.cancel();
        Ok(running)
    }
}

fn no_such_request() -> Failure {
    Failure::new(
        Code::NoSuchRequest,
        "There is no request of yours with that id.",
    )
}
