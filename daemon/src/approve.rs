//! Approvals: opened for an agent, decided by humans, used up once.
//!
//! One task takes every step, one after the other: it looks at the clock and at who is an approver, has the
//! machine of [`sandbox_core::approval`] say what would come of the step, writes that into the trail, and
//! only then into the journal, where the machine takes the step for good. A caller that goes away in the
//! middle changes nothing about a step that was begun.
//!
//! # For whoever applies
//! [`Approvals::open`] without an id; [`Approvals::consume`] with one, which gives the [`Grant`] that an
//! apply takes by value; [`Approvals::find_open`] for what waits for a root. When the request that used an
//! approval is over and in the journal, [`Approvals::tell_outcome`] tells those who watch.

mod desk;
mod four_eyes;
mod notify;
mod refused;
mod told;
mod wish;

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) mod trial;

use std::sync::Arc;
use std::time::Duration;

use sandbox_core::approval::{ApprovalPrefix, Approvers, Binding, BindingDigest, Grant, Said};
use sandbox_core::audit::UtcMillis;
use sandbox_core::ids::{ApprovalId, RequestId};
use sandbox_core::names::{PrincipalName, RootName};
use sandbox_core::parameters::ActionName;
use sandbox_core::plan::PlanFacts;
use serde::{Deserialize, Serialize};
use tokio::sync::{broadcast, mpsc, oneshot};

use crate::audit::Audit;
use crate::clock::Clock;
use crate::config::{Notify, Principals, Role};
use crate::lifetime::Lifetime;
use crate::report::{Code, Failure};
use crate::store::{PlanKey, Store, StoredApproval};

pub use four_eyes::Judge;
pub(crate) use refused::{no_such_approval, store_failed};

use desk::{Ask, Desk};

/// After a denial or a cancellation, how long a root takes no new approval: nobody is to be worn down, and
/// what a human reads is not to be swapped by taking it back.
pub const COOL_DOWN: Duration = Duration::from_mins(1);

/// For how long an ended approval is listed.
pub const LISTED: Duration = Duration::from_hours(7 * 24);

/// Steps that may wait for the one before to end.
const QUEUE: usize = 64;
/// Changes a watcher may be behind before it has to begin anew.
const BEHIND: usize = 256;

/// What approvals are served with.
#[derive(Debug)]
pub struct ApprovalParts {
    /// The journal.
    pub store: Store,
    /// The trail.
    pub audit: Audit,
    /// What time it is.
    pub clock: Clock,
    /// Who is an agent and who an approver.
    pub principals: Principals,
    /// Whom to tell that something waits.
    pub notify: Notify,
    /// How long all this goes on.
    pub lifetime: Lifetime,
}

/// The approvals of this daemon. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Approvals {
    desk: mpsc::Sender<Ask>,
    store: Store,
    clock: Clock,
    approvers: Arc<Approvers>,
    changes: broadcast::Sender<Arc<StoredApproval>>,
}

/// A wish that is to wait for humans.
#[derive(Clone, Debug)]
pub struct OpenApproval<'a> {
    /// The root.
    pub root: RootName,
    /// The kept plan that would be applied.
    pub plan: PlanKey,
    /// What that plan does.
    pub facts: &'a PlanFacts,
    /// The request that opens it, which is in the journal.
    pub request: RequestId,
    /// Who asks, and alone may use it.
    pub principal: PrincipalName,
    /// The uid the request came from, where the kernel told it.
    pub uid: Option<u32>,
    /// What it would allow.
    pub action: ActionName,
    /// The agent's own words. Unverified.
    pub reason: String,
    /// What the client calls itself. Unverified.
    pub client: String,
    /// What it is bound to.
    pub binding: Binding,
    /// How many different people must say yes.
    pub quorum: u32,
    /// How long it may wait and be used, by the policy.
    pub expires_after: Duration,
    /// What else people are shown.
    pub shown: Shown,
}

/// What people are shown of an approval beside its plan; kept as it was when the approval was opened.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Shown {
    /// The source against the one that was applied last.
    pub source: Vec<SourceDiff>,
    /// When that was, in milliseconds since the Unix epoch; `None` when nothing was applied before.
    pub source_since_ms: Option<i64>,
    /// What the credential would be good for, a sentence each.
    pub scope: Vec<String>,
    /// Of the root's last apply, when that did not succeed.
    #[serde(default)]
    pub last_apply: Option<String>,
}

/// How one file of the source differs.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SourceDiff {
    /// Within the source.
    pub path: String,
    /// added, removed, changed.
    pub action: String,
    /// Unified, three lines around; empty for what is no text.
    pub diff: String,
}

/// What became of a wish to open an approval.
#[derive(Debug)]
pub enum Opened {
    /// It is new, and waits for humans.
    New(StoredApproval),
    /// The same principal has asked for the same source and state before: that approval, pending or
    /// granted.
    Same(StoredApproval),
}

/// An apply that is about to be launched.
#[derive(Clone, Debug)]
pub struct Use {
    /// The approval's id, as the agent gave it.
    pub approval: ApprovalId,
    /// Who asks.
    pub principal: PrincipalName,
    /// The request that applies.
    pub request: RequestId,
    /// What it is about to do, worked out anew, with rule and quorum as the policy says them now.
    pub binding: Binding,
}

/// A human's yes or no, as it came.
#[derive(Clone, Debug)]
pub struct Spoken {
    /// On which approval.
    pub approval: ApprovalPrefix,
    /// The digest of what was shown.
    pub seen: BindingDigest,
    /// Yes or no.
    pub said: Said,
    /// Why.
    pub reason: String,
    /// What was typed, where something must be.
    pub typed: String,
}

impl Approvals {
    /// Starts the task that takes the steps. Its first looks at everything that was left open.
    #[must_use]
    pub fn start(parts: ApprovalParts) -> Self {
        let approvers: Approvers = parts
            .principals
            .of(Role::Approver)
            .map(|(_, name)| name.clone())
            .collect();
        let approvers = Arc::new(approvers);
        let (desk, asks) = mpsc::channel(QUEUE);
        let (changes, _) = broadcast::channel(BEHIND);
        let this = Self {
            desk,
            store: parts.store.clone(),
            clock: parts.clock.clone(),
            approvers: Arc::clone(&approvers),
            changes: changes.clone(),
        };
        let lifetime = parts.lifetime.clone();
        lifetime.spawn(Desk::new(parts, approvers, changes).serve(asks));
        this
    }

    /// Opens an approval, or finds the one that the same wish has opened before.
    ///
    /// # Errors
    /// [`Code::ApprovalOpen`] while another one of the root is open, [`Code::ApprovalCooling`] shortly
    /// after one was denied or cancelled; else what the trail or the journal refused.
    pub async fn open(&self, wish: OpenApproval<'_>) -> Result<Opened, Failure> {
        let wish = Box::new(wish::Wish::of(wish));
        self.ask(|reply| Ask::Open(wish, reply)).await
    }

    /// The open approval of a root, pending or granted, as of now.
    ///
    /// # Errors
    /// When trail or journal refuse.
    pub async fn find_open(&self, root: &RootName) -> Result<Option<StoredApproval>, Failure> {
        let open = self.store.open_approval_of(root.clone()).await;
        match open.map_err(|e| store_failed(&e))? {
            None => Ok(None),
            Some(stored) => {
                let looked = self.look(stored.id()).await?;
                Ok(looked.filter(|stored| !stored.approval.state().is_end()))
            }
        }
    }

    /// An approval of `principal`'s own, as of now.
    ///
    /// # Errors
    /// [`Code::NoSuchApproval`], the same for one that does not exist and one that is another's.
    pub async fn find_own(
        &self,
        principal: &PrincipalName,
        id: ApprovalId,
    ) -> Result<StoredApproval, Failure> {
        let looked = self.look(id).await?;
        looked
            .filter(|stored| stored.principal() == principal)
            .ok_or_else(no_such_approval)
    }

    /// The approval that a human means, as of now.
    ///
    /// # Errors
    /// [`Code::NoSuchApproval`]; [`Code::InvalidArgument`] with the list when it could be several.
    pub async fn find(&self, prefix: &ApprovalPrefix) -> Result<StoredApproval, Failure> {
        let id = self.resolve(prefix).await?;
        self.look(id).await?.ok_or_else(no_such_approval)
    }

    /// The open approvals, and with `ended` those of the last seven days, the newest first.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn list(&self, ended: bool) -> Result<Vec<StoredApproval>, Failure> {
        let list = if ended {
            let now = i64::try_from(self.clock.now_ms()).unwrap_or(i64::MAX);
            let listed = i64::try_from(LISTED.as_millis()).unwrap_or(i64::MAX);
            let since = UtcMillis::from_unix_ms(now.saturating_sub(listed));
            self.store.approvals_since(since).await
        } else {
            self.store.open_approvals().await
        };
        list.map_err(|e| store_failed(&e))
    }

    /// What people are shown of an approval beside its plan.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn shown(&self, id: ApprovalId) -> Result<Shown, Failure> {
        let kept = self.store.approval_shown(id).await;
        let text = kept
            .map_err(|e| store_failed(&e))?
            .ok_or_else(no_such_approval)?;
        serde_json::from_str(&text).map_err(|e| {
            tracing::error!(approval = %id, error = %e, "what people are shown cannot be read back");
            Failure::new(
                Code::StoreUnavailable,
                "What people are shown of this approval cannot be read back.",
            )
        })
    }

    /// What a kept plan does.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn facts(&self, plan: PlanKey) -> Result<PlanFacts, Failure> {
        let facts = self.store.plan_facts(plan).await;
        facts.map_err(|e| store_failed(&e))?.ok_or_else(|| {
            Failure::new(
                Code::StoreUnavailable,
                "What the plan does is not kept any more.",
            )
        })
    }

    /// Takes a human's yes or no. What comes too late is kept, and is an error all the same.
    ///
    /// # Errors
    /// [`Code::VerdictRefused`] from whom it does not count, [`Code::InvalidArgument`] without the reason
    /// or typing it needs, [`Code::ApprovalChanged`] when it was about something else, and the code of
    /// the end when it came too late.
    pub async fn record_verdict(
        &self,
        judge: Judge,
        spoken: Spoken,
    ) -> Result<StoredApproval, Failure> {
        let id = self.resolve(&spoken.approval).await?;
        self.ask(|reply| Ask::Verdict(id, Box::new((judge, spoken)), reply))
            .await
    }

    /// Uses an approval up, once in its life, for what it was given for and nothing else.
    ///
    /// # Errors
    /// [`Code::NoSuchApproval`], [`Code::ApprovalNotGranted`], [`Code::ApprovalDenied`],
    /// [`Code::ApprovalExpired`], [`Code::ApprovalCancelled`]; [`Code::ApprovalUsed`], with the request
    /// that used it in [`Failure::request`]; [`Code::ApprovalChanged`], naming each difference.
    pub async fn consume(&self, wanted: Use) -> Result<Grant, Failure> {
        self.ask(|reply| Ask::Consume(Box::new(wanted), reply))
            .await
    }

    /// Takes an approval of `principal`'s own back.
    ///
    /// # Errors
    /// [`Code::NoSuchApproval`], and the code of its end when it is over.
    pub async fn cancel(
        &self,
        principal: &PrincipalName,
        id: ApprovalId,
    ) -> Result<StoredApproval, Failure> {
        let principal = principal.clone();
        self.ask(|reply| Ask::Cancel(principal, id, reply)).await
    }

    /// Tells those who watch how the request that used an approval ended, once the journal knows.
    pub async fn tell_outcome(&self, id: ApprovalId) {
        match self.store.approval(id).await {
            // Nobody may be watching.
            Ok(Some(stored)) => drop(self.changes.send(Arc::new(stored))),
            Ok(None) => {}
            Err(e) => drop(store_failed(&e)),
        }
    }

    /// Every change of an approval from now on, as it happens.
    #[must_use]
    pub fn watch(&self) -> broadcast::Receiver<Arc<StoredApproval>> {
        self.changes.subscribe()
    }

    /// Who is an approver.
    #[must_use]
    pub fn approvers(&self) -> &Approvers {
        &self.approvers
    }

    async fn look(&self, id: ApprovalId) -> Result<Option<StoredApproval>, Failure> {
        self.ask(|reply| Ask::Look(id, reply)).await
    }

    async fn resolve(&self, prefix: &ApprovalPrefix) -> Result<ApprovalId, Failure> {
        let found = self.store.approvals_with_prefix(prefix.clone()).await;
        let found = found.map_err(|e| store_failed(&e))?;
        match found.as_slice() {
            [] => Err(no_such_approval()),
            [id] => Ok(*id),
            several => {
                let list: Vec<String> = several.iter().map(ToString::to_string).collect();
                let list = list.join(", ");
                Err(Failure {
                    field: Some("approval_id".to_owned()),
                    ..Failure::new(
                        Code::InvalidArgument,
                        format!("Several approvals begin with {prefix}: {list}."),
                    )
                })
            }
        }
    }

    async fn ask<T>(
        &self,
        ask: impl FnOnce(oneshot::Sender<Result<T, Failure>>) -> Ask,
    ) -> Result<T, Failure> {
        let stopping = || Failure::new(Code::Stopping, "sandboxd is stopping.");
        let (reply, answer) = oneshot::channel();
        let sent = self.desk.send(ask(reply)).await;
        sent.map_err(|_| stopping())?;
        answer.await.map_err(|_| stopping())?
    }
}
