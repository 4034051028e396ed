//! An approval: one wish of an agent that waits for humans, and what they said.
//!
//! ```text
//! pending ──► granted ──► consumed
//!    │  ◄────    │
//!    └────┬──────┘
//!         ├──► denied      an approver said no
//!         ├──► expired     its time was up, or the clock was set back
//!         └──► cancelled   its owner took it back
//! ```
//!
//! The machine does no I/O and asks for no time: who uses it passes in what time it is and who the
//! approvers are *now*. Every step looks at both first, so nothing is decided by what was true before.
//! `granted` goes back to `pending` when somebody whose yes had counted is no approver any more. The four
//! states below the line are ends, and an end stays.
//!
//! # Time
//! An approval keeps the latest time any step saw. A clock that is a little behind that is taken to stand
//! still; one that was set back by more than [`CLOCK_SLACK_MS`] ends the approval: how long it has been
//! waiting is not known any more.

mod binding;
mod confirm;
mod error;
mod grant;
mod prefix;
mod state;
mod verdict;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use crate::audit::UtcMillis;
use crate::ids::{ApprovalId, RequestId};
use crate::names::PrincipalName;

pub use binding::{BadBinding, Binding, BindingDigest, Bound, Part};
pub use confirm::{is_confirmed, must_type, summary};
pub use error::{CancelError, ConsumeError, VerdictError};
pub use grant::Grant;
pub use prefix::{ApprovalPrefix, ApprovalPrefixError};
pub use state::{ExpiryCause, State};
pub use verdict::{Said, Verdict, Void};

/// How far behind the latest time it saw an approval takes the clock to be merely inexact, in milliseconds.
pub const CLOCK_SLACK_MS: i64 = 2_000;

/// The longest reason an approver may give, in characters.
pub const MAX_VERDICT_REASON: usize = 1_000;

/// What an approval is for, and until when. Never changes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Terms {
    /// Its id.
    pub id: ApprovalId,
    /// Who asks, and alone may use it.
    pub requester: PrincipalName,
    /// The uid the wish came from, where the kernel told it.
    pub requester_uid: Option<u32>,
    /// Of everything it is bound to.
    pub digest: BindingDigest,
    /// How many different people must say yes; at least 1.
    pub quorum: u32,
    /// When it was opened.
    pub opened: UtcMillis,
    /// The first instant at which it is no good any more.
    pub expires: UtcMillis,
}

/// One approval and where it stands.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Approval {
    terms: Terms,
    state: State,
    /// In the order in which they came.
    verdicts: Vec<Verdict>,
    /// The latest time any step saw.
    seen: UtcMillis,
}

/// What a look found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Change {
    /// It has just ended by itself.
    Expired(ExpiryCause),
    /// It was granted and waits again: somebody whose yes had counted is no approver any more.
    Reopened,
}

/// Who is an approver now.
pub type Approvers = BTreeSet<PrincipalName>;

/// Somebody's verdict, on its way into an approval.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NewVerdict {
    /// Who.
    pub approver: PrincipalName,
    /// From which uid.
    pub uid: u32,
    /// What.
    pub said: Said,
    /// Why. Required with a no.
    pub reason: String,
    /// The digest of what they were shown.
    pub seen: BindingDigest,
}

/// What a verdict did.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Recorded {
    /// It counts, and more are needed.
    Counted,
    /// It counts, and was the last one needed.
    Granted,
    /// It counts, and ended the approval.
    Denied,
    /// It is kept, and does not count.
    Void(Void),
}

impl Approval {
    /// A new one, pending.
    #[must_use]
    pub fn open(terms: Terms) -> Self {
        Self {
            seen: terms.opened,
            terms,
            state: State::Pending,
            verdicts: Vec::new(),
        }
    }

    /// One as it was kept: what [`Approval::terms`], [`Approval::state`], [`Approval::verdicts`] and
    /// [`Approval::seen`] gave.
    #[must_use]
    pub fn restore(terms: Terms, state: State, verdicts: Vec<Verdict>, seen: UtcMillis) -> Self {
        Self {
            terms,
            state,
            verdicts,
            seen,
        }
    }

    /// What it is for.
    #[must_use]
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Where it stands, as of the last step.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// What was said so far, in order.
    #[must_use]
    pub fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }

    /// The latest time any step saw.
    #[must_use]
    pub fn seen(&self) -> UtcMillis {
        self.seen
    }

    /// Those whose yes counts now.
    #[must_use]
    pub fn in_favour(&self, approvers: &Approvers) -> BTreeSet<&PrincipalName> {
        self.verdicts
            .iter()
            .filter(|v| v.void.is_none() && v.said == Said::Yes)
            .map(|v| &v.approver)
            .filter(|who| approvers.contains(*who) && **who != self.terms.requester)
            .collect()
    }

    /// How many more people must say yes.
    #[must_use]
    pub fn missing(&self, approvers: &Approvers) -> u32 {
        let have = u32::try_from(self.in_favour(approvers).len()).unwrap_or(u32::MAX);
        self.terms.quorum.max(1).saturating_sub(have)
    }

    /// Brings it up to date with the clock and with who is an approver. Every other step does this first.
    pub fn look(&mut self, now: UtcMillis, approvers: &Approvers) -> Option<Change> {
        if self.state.is_end() {
            return None;
        }
        if let Some(cause) = self.overdue(now) {
            self.seen = self.seen.max(now);
            self.state = State::Expired {
                at: self.seen,
                cause,
            };
            return Some(Change::Expired(cause));
        }
        self.seen = self.seen.max(now);
        if self.state == State::Granted && self.missing(approvers) > 0 {
            self.state = State::Pending;
            return Some(Change::Reopened);
        }
        None
    }

    fn overdue(&self, now: UtcMillis) -> Option<ExpiryCause> {
        if now >= self.terms.expires || self.seen >= self.terms.expires {
            Some(ExpiryCause::TimeUp)
        } else if now.as_unix_ms() < self.seen.as_unix_ms() - CLOCK_SLACK_MS {
            Some(ExpiryCause::ClockSetBack)
        } else {
            None
        }
    }

    /// Takes somebody's verdict. One that comes too late, and a second yes of one person, is kept as what
    /// it was and counts for nothing. A no ends the approval, even one that is granted and not used yet.
    ///
    /// # Errors
    /// [`VerdictError`]; nothing is kept then. Who may speak at all is also the daemon's to say, by the
    /// socket; here the requester is refused by name and by uid.
    pub fn record_verdict(
        &mut self,
        new: NewVerdict,
        now: UtcMillis,
        approvers: &Approvers,
    ) -> Result<Recorded, VerdictError> {
        self.look(now, approvers);
        self.check(&new, approvers)?;
        let void = self.void(&new, approvers);
        self.verdicts.push(Verdict {
            approver: new.approver,
            uid: new.uid,
            said: new.said,
            reason: new.reason,
            time: now,
            void,
        });
        if self.state.is_end() {
            return Ok(void.map_or(Recorded::Counted, Recorded::Void));
        }
        if new.said == Said::No {
            self.state = State::Denied { at: self.seen };
            return Ok(Recorded::Denied);
        }
        // Also after a yes that was there already: it may count again, of an approver who came back.
        if self.state == State::Pending && self.missing(approvers) == 0 {
            self.state = State::Granted;
            return Ok(Recorded::Granted);
        }
        Ok(void.map_or(Recorded::Counted, Recorded::Void))
    }

    fn check(&self, new: &NewVerdict, approvers: &Approvers) -> Result<(), VerdictError> {
        if new.approver == self.terms.requester {
            return Err(VerdictError::OwnRequest);
        }
        if self.terms.requester_uid == Some(new.uid) {
            return Err(VerdictError::RequestersUid { uid: new.uid });
        }
        if !approvers.contains(&new.approver) {
            return Err(VerdictError::NoApprover);
        }
        if new.seen != self.terms.digest {
            return Err(VerdictError::AnotherPlan);
        }
        if new.said == Said::No && new.reason.trim().is_empty() {
            return Err(VerdictError::NoReason);
        }
        if new.reason.chars().count() > MAX_VERDICT_REASON {
            return Err(VerdictError::LongReason);
        }
        Ok(())
    }

    /// Why a verdict would count for nothing.
    fn void(&self, new: &NewVerdict, approvers: &Approvers) -> Option<Void> {
        match self.state {
            State::Consumed { .. } => Some(Void::AfterUse),
            State::Denied { .. } => Some(Void::AfterDenial),
            State::Expired { .. } => Some(Void::AfterExpiry),
            State::Cancelled { .. } => Some(Void::AfterCancel),
            State::Pending | State::Granted => (new.said == Said::Yes
                && self.in_favour(approvers).contains(&new.approver))
            .then_some(Void::CountsAlready),
        }
    }

    /// Uses it up, for request `by` of `principal`, which is about to do what `bound` says. The grant is
    /// worth something only once this step is durable.
    ///
    /// # Errors
    /// As [`Approval::ready`].
    pub fn consume(
        &mut self,
        principal: &PrincipalName,
        by: RequestId,
        bound: BindingDigest,
        (now, approvers): (UtcMillis, &Approvers),
    ) -> Result<Grant, ConsumeError> {
        self.ready(principal, bound, now, approvers)?;
        self.state = State::Consumed { at: self.seen, by };
        Ok(Grant::new(&self.terms, by))
    }

    /// Whether `principal` could use it now for what `bound` says.
    ///
    /// # Errors
    /// [`ConsumeError`], first what concerns the asker, then the state, then the binding. A binding that
    /// differs leaves the approval as it is: put back what was changed, and it still holds.
    pub fn ready(
        &mut self,
        principal: &PrincipalName,
        bound: BindingDigest,
        now: UtcMillis,
        approvers: &Approvers,
    ) -> Result<(), ConsumeError> {
        if *principal != self.terms.requester {
            return Err(ConsumeError::Anothers);
        }
        self.look(now, approvers);
        match self.state {
            State::Granted if bound == self.terms.digest => Ok(()),
            State::Granted => Err(ConsumeError::Changed),
            State::Pending => Err(ConsumeError::NotGranted {
                missing: self.missing(approvers),
            }),
            State::Consumed { by, .. } => Err(ConsumeError::Used { by }),
            State::Denied { .. } => Err(ConsumeError::Denied),
            State::Expired { cause, .. } => Err(ConsumeError::Expired { cause }),
            State::Cancelled { .. } => Err(ConsumeError::Cancelled),
        }
    }

    /// Takes it back, for its owner.
    ///
    /// # Errors
    /// [`CancelError`], when it is somebody else's or over.
    pub fn cancel(
        &mut self,
        principal: &PrincipalName,
        now: UtcMillis,
        approvers: &Approvers,
    ) -> Result<(), CancelError> {
        if *principal != self.terms.requester {
            return Err(CancelError::Anothers);
        }
        self.look(now, approvers);
        if self.state.is_end() {
            return Err(CancelError::Over);
        }
        self.state = State::Cancelled { at: self.seen };
        Ok(())
    }

    /// Why a verdict does not count now; `None` when it does.
    #[must_use]
    pub fn why_void(&self, verdict: &Verdict, approvers: &Approvers) -> Option<String> {
        if let Some(void) = verdict.void {
            return Some(void.to_string());
        }
        // What an end rested on is history; who left later changes nothing about it.
        (!self.state.is_end() && !approvers.contains(&verdict.approver))
            .then(|| "is of somebody who is no approver any more".to_owned())
    }
}
