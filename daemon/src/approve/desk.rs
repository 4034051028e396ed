//! The task that takes every step of every approval, one after the other.

use std::sync::Arc;
use std::time::Duration;

use sandbox_core::approval::{
    Approval, Approvers, Grant, NewVerdict, Recorded, Said, State, is_confirmed,
};
use sandbox_core::audit::{Event, UtcMillis};
use sandbox_core::ids::ApprovalId;
use sandbox_core::names::PrincipalName;
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::time::MissedTickBehavior;

use super::refused::{
    audit_failed, cannot_cancel, cannot_use, ended, no_such_approval, not_taken, store_failed,
};
use super::wish::Wish;
use super::{ApprovalParts, COOL_DOWN, Judge, Opened, Spoken, Use, notify, told};
use crate::config::Role;
use crate::report::{Code, Failure};
use crate::store::StoredApproval;

/// How often everything open is looked at: an approval is told to have expired this late at most.
const TICK: Duration = Duration::from_secs(1);
/// How far the latest time an approval saw may lag behind, so that not every look is a write.
const SEEN_LAG_MS: i64 = 5_000;

type Reply<T> = oneshot::Sender<Result<T, Failure>>;

/// What the desk is asked for.
pub(super) enum Ask {
    Open(Box<Wish>, Reply<Opened>),
    Look(ApprovalId, Reply<Option<StoredApproval>>),
    Verdict(ApprovalId, Box<(Judge, Spoken)>, Reply<StoredApproval>),
    Consume(Box<Use>, Reply<Grant>),
    Cancel(PrincipalName, ApprovalId, Reply<StoredApproval>),
}

pub(super) struct Desk {
    parts: ApprovalParts,
    approvers: Arc<Approvers>,
    changes: broadcast::Sender<Arc<StoredApproval>>,
}

impl Desk {
    pub(super) fn new(
        parts: ApprovalParts,
        approvers: Arc<Approvers>,
        changes: broadcast::Sender<Arc<StoredApproval>>,
    ) -> Self {
        Self {
            parts,
            approvers,
            changes,
        }
    }

    /// Until the daemon stops. A step that was begun is ended.
    pub(super) async fn serve(self, mut asks: mpsc::Receiver<Ask>) {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let stop = self.parts.lifetime.stop.clone();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = tick.tick() => self.look_at_all().await,
                ask = asks.recv() => match ask {
                    Some(ask) => self.answer(ask).await,
                    None => return,
                },
            }
        }
    }

    /// Whoever asked may have gone; the step stands all the same.
    async fn answer(&self, ask: Ask) {
        match ask {
            Ask::Open(wish, reply) => drop(reply.send(self.open(*wish).await)),
            Ask::Look(id, reply) => drop(reply.send(self.look(id).await)),
            Ask::Verdict(id, spoken, reply) => {
                let (judge, spoken) = *spoken;
                drop(reply.send(self.verdict(id, judge, spoken).await));
            }
            // Nobody would launch what it is for.
            Ask::Consume(_, reply) if reply.is_closed() => {}
            Ask::Consume(wanted, reply) => drop(reply.send(self.consume(*wanted).await)),
            Ask::Cancel(principal, id, reply) => {
                drop(reply.send(self.cancel(&principal, id).await));
            }
        }
    }

    fn now(&self) -> UtcMillis {
        let now_ms = self.parts.clock.now_ms();
        UtcMillis::from_unix_ms(i64::try_from(now_ms).unwrap_or(i64::MAX))
    }

    async fn look_at_all(&self) {
        let open = match self.parts.store.open_approvals().await {
            Ok(open) => open,
            Err(e) => return drop(store_failed(&e)),
        };
        for stored in open {
            // Told in the log already; whoever needs this approval looks again, and is refused.
            drop(self.look(stored.id()).await);
        }
    }

    /// The approval, brought up to date.
    async fn look(&self, id: ApprovalId) -> Result<Option<StoredApproval>, Failure> {
        let Some(stored) = self.read(id).await? else {
            return Ok(None);
        };
        let now = self.now();
        let mut ahead = stored.approval.clone();
        let lag = now.as_unix_ms() - ahead.seen().as_unix_ms();
        match ahead.look(now, &self.approvers) {
            None if ahead.state().is_end() || lag < SEEN_LAG_MS => return Ok(Some(stored)),
            None => {}
            Some(change) => {
                let missing = ahead.missing(&self.approvers);
                self.tell(told::looked(&stored, change, missing)).await?;
            }
        }
        let approvers = (*self.approvers).clone();
        let looked = self.parts.store.look_at_approval(id, now, approvers).await;
        let changed = looked.map_err(|e| store_failed(&e))?.is_some();
        let after = self.read(id).await?;
        if let Some(after) = after.as_ref().filter(|_| changed) {
            self.show(after);
        }
        Ok(after)
    }

    async fn open(&self, wish: Wish) -> Result<Opened, Failure> {
        let root = wish.new.root.clone();
        let open = self.parts.store.open_approval_of(root.clone()).await;
        if let Some(open) = open.map_err(|e| store_failed(&e))?
            && let Some(open) = self.look(open.id()).await?
            && !open.approval.state().is_end()
        {
            return if wish.is_of(&open) {
                Ok(Opened::Same(open))
            } else {
                Err(Failure::new(
                    Code::ApprovalOpen,
                    if open.principal() == &wish.new.approval.terms().requester {
                        format!(
                            "Root {root} has an open approval of yours already, {}, for other source or another \
                             state.",
                            open.id()
                        )
                    } else {
                        format!("Root {root} has an open approval of another principal already.")
                    },
                ))
            };
        }
        let now = self.now();
        self.cooled_down(&wish, now).await?;
        let random = crate::random::bytes().map_err(|e| {
            tracing::error!(error = %e, "no random bytes");
            Failure::new(Code::Internal, "The system gave no random bytes.")
        })?;
        let new = wish.at(ApprovalId::new(random), now);
        let (id, request) = (new.approval.terms().id, new.request);
        self.tell(told::opened(&new)).await?;
        let kept = self.parts.store.open_approval(new).await;
        kept.map_err(|e| store_failed(&e))?;
        let stored = self.changed(id).await?;
        notify::send(&self.parts, id, request);
        Ok(Opened::New(stored))
    }

    async fn cooled_down(&self, wish: &Wish, now: UtcMillis) -> Result<(), Failure> {
        let root = &wish.new.root;
        let refused = self.parts.store.last_refusal(root.clone()).await;
        let Some(refused) = refused.map_err(|e| store_failed(&e))? else {
            return Ok(());
        };
        // A refusal in the future is a clock that was set back; it must not close the root for that long.
        let since = now.as_unix_ms() - refused.as_unix_ms();
        let left = i64::try_from(COOL_DOWN.as_millis()).unwrap_or(i64::MAX) - since;
        if since < 0 || left <= 0 {
            return Ok(());
        }
        Err(Failure::new(
            Code::ApprovalCooling,
            format!(
                "The last approval of root {root} was denied or cancelled; another one can be asked for in \
                 {} s.",
                (left + 999) / 1_000
            ),
        ))
    }

    async fn verdict(
        &self,
        id: ApprovalId,
        judge: Judge,
        spoken: Spoken,
    ) -> Result<StoredApproval, Failure> {
        let before = self.look(id).await?.ok_or_else(no_such_approval)?;
        let agents: Vec<u32> = (self.parts.principals.of(Role::Agent))
            .map(|(uid, _)| uid)
            .collect();
        let now = self.now();
        let new = NewVerdict {
            approver: judge.principal.clone(),
            uid: judge.uid(),
            said: spoken.said,
            reason: spoken.reason.clone(),
            seen: spoken.seen,
        };
        let mut ahead = before.approval.clone();
        let recorded = judge
            .admit(&before, &agents)
            .and_then(|()| confirmed(&before, &spoken))
            .and_then(|()| {
                let taken = ahead.record_verdict(new.clone(), now, &self.approvers);
                taken.map_err(|e| not_taken(&before, e))
            });
        let heard = told::verdict(&before, &judge, &spoken);
        let recorded = match recorded {
            Ok(recorded) => recorded,
            Err(failure) => {
                self.tell(told::refused(heard, &failure)).await?;
                return Err(failure);
            }
        };
        self.tell_verdict(heard, &before, &ahead, recorded).await?;
        let approvers = (*self.approvers).clone();
        let kept = self
            .parts
            .store
            .record_verdict(id, new, now, approvers)
            .await;
        kept.map_err(|e| store_failed(&e))?
            .map_err(|e| not_taken(&before, e))?;
        let after = self.changed(id).await?;
        match recorded {
            Recorded::Void(void) if void.is_late() => Err(ended(&after)),
            Recorded::Void(_) | Recorded::Counted | Recorded::Granted | Recorded::Denied => {
                Ok(after)
            }
        }
    }

    /// The verdict and what it does, one fsync for both.
    async fn tell_verdict(
        &self,
        heard: Event,
        before: &StoredApproval,
        after: &Approval,
        recorded: Recorded,
    ) -> Result<(), Failure> {
        let heard = told::recorded(heard, recorded);
        let follows = match recorded {
            Recorded::Granted => Some(told::granted(before, after, &self.approvers)),
            Recorded::Denied => Some(told::denied(before, after)),
            Recorded::Counted | Recorded::Void(_) => None,
        };
        match follows {
            None => self.tell(heard).await,
            Some(follows) => {
                let (first, second) = tokio::join!(biased; self.tell(heard), self.tell(follows));
                first.and(second)
            }
        }
    }

    async fn consume(&self, wanted: Use) -> Result<Grant, Failure> {
        let Use {
            approval: id,
            principal,
            request,
            binding,
        } = wanted;
        let before = self.look(id).await?.ok_or_else(no_such_approval)?;
        let (now, digest) = (self.now(), binding.digest());
        let refused = |e| cannot_use(&before, &binding, e);
        let mut ahead = before.approval.clone();
        ahead
            .ready(&principal, digest, now, &self.approvers)
            .map_err(refused)?;
        self.tell(told::consumed(&before, request)).await?;
        let at = (now, (*self.approvers).clone());
        let store = &self.parts.store;
        let used = store.consume_approval(id, principal, request, digest, at);
        let grant = used.await.map_err(|e| store_failed(&e))?.map_err(refused)?;
        // The grant stands, whether those who watch can be told or not.
        drop(self.changed(id).await);
        Ok(grant)
    }

    async fn cancel(
        &self,
        principal: &PrincipalName,
        id: ApprovalId,
    ) -> Result<StoredApproval, Failure> {
        let before = self.look(id).await?.ok_or_else(no_such_approval)?;
        let (now, approvers) = (self.now(), (*self.approvers).clone());
        let refused = |e| cannot_cancel(&before, e);
        let mut ahead = before.approval.clone();
        ahead.cancel(principal, now, &approvers).map_err(refused)?;
        self.tell(told::cancelled(&before)).await?;
        let store = &self.parts.store;
        let taken_back = store.cancel_approval(id, principal.clone(), now, approvers);
        taken_back
            .await
            .map_err(|e| store_failed(&e))?
            .map_err(refused)?;
        self.changed(id).await
    }

    async fn read(&self, id: ApprovalId) -> Result<Option<StoredApproval>, Failure> {
        let stored = self.parts.store.approval(id).await;
        stored.map_err(|e| store_failed(&e))
    }

    /// Shows an approval that was just written to those who watch.
    async fn changed(&self, id: ApprovalId) -> Result<StoredApproval, Failure> {
        let after = self.read(id).await?.ok_or_else(no_such_approval)?;
        self.show(&after);
        Ok(after)
    }

    fn show(&self, stored: &StoredApproval) {
        // Nobody may be watching.
        drop(self.changes.send(Arc::new(stored.clone())));
    }

    async fn tell(&self, event: Event) -> Result<(), Failure> {
        let written = self.parts.audit.record(event).await;
        written.map(drop).map_err(|e| audit_failed(&e))
    }
}

/// Whether what must be typed for a yes was typed. Of what is over nobody asks.
fn confirmed(stored: &StoredApproval, spoken: &Spoken) -> Result<(), Failure> {
    let open = matches!(stored.approval.state(), State::Pending | State::Granted);
    if spoken.said == Said::No || !open || is_confirmed(&stored.confirm, &spoken.typed) {
        return Ok(());
    }
    Err(Failure {
        field: Some("typed".to_owned()),
        ..Failure::new(
            Code::InvalidArgument,
            format!(
                "This destroys or replaces what lives in the cluster. To grant it, type one of: {}.",
                stored.confirm.join(", ")
            ),
        )
    })
}
