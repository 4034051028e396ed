//! Approvals: each step is one transaction that reads the row, has the machine of
//! [`sandbox_core::approval`] take the step, and writes back what it made of it, guarded by where it stood.

mod row;

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;

use std::fmt;

use rusqlite::{OptionalExtension as _, Transaction};
use sandbox_core::approval::{
    Approval, ApprovalPrefix, Approvers, Binding, BindingDigest, CancelError, Change, ConsumeError,
    Grant, NewVerdict, Recorded, Said, State, Verdict, VerdictError, Void,
};
use sandbox_core::audit::UtcMillis;
use sandbox_core::ids::{ApprovalId, RequestId};
use sandbox_core::names::{PrincipalName, RootName};
use sandbox_core::parameters::ActionName;

use super::plans::PlanKey;
use super::{Store, StoreError, exactly_one};

const OPEN: &str = "INSERT INTO approval (id, root, plan, request, principal, principal_uid, action, \
     reason, client, binding, digest, quorum, summary, dangers, confirm, shown, state, opened_ms, \
     expires_ms, seen_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, \
     'pending', ?17, ?18, ?17)";
const STEP: &str = "UPDATE approval SET state = ?3, seen_ms = ?4, ended_ms = ?5, cause = ?6 \
     WHERE id = ?1 AND state = ?2 AND state IN ('pending', 'granted')";
/// The one way to `consumed`. What the machine has checked is asked of the row once more.
const CONSUME: &str = "UPDATE approval SET state = 'consumed', seen_ms = ?2, ended_ms = ?2, used_by = ?3 \
     WHERE id = ?1 AND state = 'granted' AND digest = ?4 AND expires_ms > ?2";
const VERDICT: &str = "INSERT INTO verdict (approval, approver, uid, said, reason, void, time_ms) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
const WITH_PREFIX: &str =
    "SELECT id FROM approval WHERE id >= ?1 AND id < ?1 || '~' ORDER BY opened_ms DESC LIMIT 20";
const SHOWN: &str = "SELECT shown FROM approval WHERE id = ?1";
/// In the order in which approvals were opened: a root has one at a time. Of applies that were done the newest
/// is kept.
const LAST_APPLY: &str = "SELECT r.id, r.outcome, r.id IN (SELECT request FROM applied_bundle) \
     FROM approval a JOIN request r ON r.id = a.used_by \
     WHERE a.root = ?1 AND r.state = 'ended' ORDER BY a.rowid DESC LIMIT 1";
const LAST_REFUSED: &str = "SELECT max(ended_ms) FROM approval \
     WHERE root = ?1 AND state IN ('denied', 'cancelled')";

/// An approval that is to be opened.
#[derive(Clone, Debug)]
pub struct NewApproval {
    /// As it begins.
    pub approval: Approval,
    /// The root.
    pub root: RootName,
    /// What would be applied.
    pub plan: PlanKey,
    /// The request that opens it.
    pub request: RequestId,
    /// What it would allow.
    pub action: ActionName,
    /// The agent's own words. Unverified.
    pub reason: String,
    /// What the client calls itself. Unverified.
    pub client: String,
    /// What it is bound to.
    pub binding: Binding,
    /// The plan in one line.
    pub summary: String,
    /// How many dangers it has.
    pub dangers: u32,
    /// What must be typed to grant it, one of them.
    pub confirm: Vec<String>,
    /// What else people are shown, JSON. Only ever read whole.
    pub shown: String,
}

/// An approval as it is kept, without what [`Store::approval_shown`] has.
#[derive(Clone, Debug)]
pub struct StoredApproval {
    /// Where it stands.
    pub approval: Approval,
    /// The root.
    pub root: RootName,
    /// What would be applied.
    pub plan: PlanKey,
    /// The request that opened it.
    pub request: RequestId,
    /// What it allows; as it was called then.
    pub action: String,
    /// The agent's own words. Unverified.
    pub reason: String,
    /// What the client called itself. Unverified.
    pub client: String,
    /// What it is bound to.
    pub binding: Binding,
    /// The plan in one line.
    pub summary: String,
    /// How many dangers it has.
    pub dangers: u32,
    /// What must be typed to grant it, one of them.
    pub confirm: Vec<String>,
    /// How the request that used it ended, if it did.
    pub outcome: Option<String>,
}

/// A root's last apply, when it did not succeed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UnfinishedApply {
    /// The request that used an approval for it.
    pub request: RequestId,
    /// Whether its end was seen.
    pub seen: bool,
}

impl Store {
    /// Opens an approval, the only open one of its root.
    ///
    /// # Errors
    /// When it could not be made durable, also because the root has an open one.
    pub async fn open_approval(&self, new: NewApproval) -> Result<(), StoreError> {
        self.write(move |tx| row::insert(tx, OPEN, &new)).await
    }

    /// The approval of that id.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn approval(&self, id: ApprovalId) -> Result<Option<StoredApproval>, StoreError> {
        self.run(move |connection| row::one(connection, id)).await
    }

    /// Up to 20 approvals whose ids begin so, the newest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn approvals_with_prefix(
        &self,
        prefix: ApprovalPrefix,
    ) -> Result<Vec<ApprovalId>, StoreError> {
        self.run(move |connection| {
            let mut query = connection.prepare(WITH_PREFIX)?;
            let rows = query.query_map((prefix.as_str(),), |row| row.get::<_, String>(0))?;
            rows.map(|id| row::id(&id?)).collect()
        })
        .await
    }

    /// The open approvals, the newest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn open_approvals(&self) -> Result<Vec<StoredApproval>, StoreError> {
        self.run(|connection| row::open(connection)).await
    }

    /// The open approval of a root.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn open_approval_of(
        &self,
        root: RootName,
    ) -> Result<Option<StoredApproval>, StoreError> {
        let open = self.open_approvals().await?;
        Ok(open.into_iter().find(|stored| stored.root == root))
    }

    /// The open approvals and those that ended since a time, the newest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn approvals_since(
        &self,
        since: UtcMillis,
    ) -> Result<Vec<StoredApproval>, StoreError> {
        self.run(move |connection| row::since(connection, since))
            .await
    }

    /// What else people are shown of an approval, as it was given when it was opened.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn approval_shown(&self, id: ApprovalId) -> Result<Option<String>, StoreError> {
        self.run(move |connection| {
            let shown = connection.query_row(SHOWN, (id.as_str(),), |row| row.get(0));
            Ok(shown.optional()?)
        })
        .await
    }

    /// When a root's last approval that was denied or cancelled ended.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn last_refusal(&self, root: RootName) -> Result<Option<UtcMillis>, StoreError> {
        self.run(move |connection| {
            let ended: Option<i64> =
                connection.query_row(LAST_REFUSED, (root.as_str(),), |row| row.get(0))?;
            Ok(ended.map(UtcMillis::from_unix_ms))
        })
        .await
    }

    /// A root's last apply, unless it succeeded.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn unfinished_apply(
        &self,
        root: RootName,
    ) -> Result<Option<UnfinishedApply>, StoreError> {
        self.run(move |connection| {
            let last = connection.query_row(LAST_APPLY, (root.as_str(),), |row| {
                let (id, outcome): (String, String) = (row.get(0)?, row.get(1)?);
                Ok((id, outcome != "unknown", row.get::<_, bool>(2)?))
            });
            let Some((id, seen, false)) = last.optional()? else {
                return Ok(None);
            };
            let bad = |_| StoreError::Unreadable(format!("the request {id} of an approval"));
            let request = id.parse().map_err(bad)?;
            Ok(Some(UnfinishedApply { request, seen }))
        })
        .await
    }

    /// Brings an approval up to date with the clock and with who is an approver.
    ///
    /// # Errors
    /// When it could not be made durable.
    pub async fn look_at_approval(
        &self,
        id: ApprovalId,
        now: UtcMillis,
        approvers: Approvers,
    ) -> Result<Option<Change>, StoreError> {
        let step = move |a: &mut Approval| Ok::<_, VerdictError>(a.look(now, &approvers));
        let looked = self.step(id, step).await?;
        Ok(looked.unwrap_or_default())
    }

    /// Keeps a verdict, and what it does to its approval.
    ///
    /// # Errors
    /// [`StoreError`] when it could not be made durable; inside, when the verdict is not taken.
    pub async fn record_verdict(
        &self,
        id: ApprovalId,
        verdict: NewVerdict,
        now: UtcMillis,
        approvers: Approvers,
    ) -> Result<Result<Recorded, VerdictError>, StoreError> {
        self.step(id, move |a| a.record_verdict(verdict, now, &approvers))
            .await
    }

    /// Uses an approval up for a request. The grant is handed out after the commit, once in the life of
    /// the approval, restarts included.
    ///
    /// # Errors
    /// [`StoreError`] when it could not be made durable; inside, when it cannot be used.
    pub async fn consume_approval(
        &self,
        id: ApprovalId,
        principal: PrincipalName,
        by: RequestId,
        bound: BindingDigest,
        (now, approvers): (UtcMillis, Approvers),
    ) -> Result<Result<Grant, ConsumeError>, StoreError> {
        self.step(id, move |a| {
            a.consume(&principal, by, bound, (now, &approvers))
        })
        .await
    }

    /// Takes an approval back for its owner.
    ///
    /// # Errors
    /// [`StoreError`] when it could not be made durable; inside, when it cannot be taken back.
    pub async fn cancel_approval(
        &self,
        id: ApprovalId,
        principal: PrincipalName,
        now: UtcMillis,
        approvers: Approvers,
    ) -> Result<Result<(), CancelError>, StoreError> {
        self.step(id, move |a| a.cancel(&principal, now, &approvers))
            .await
    }

    /// One step of the machine in one transaction. A step that is refused changes nothing.
    async fn step<T: Send + 'static, E: Send + 'static>(
        &self,
        id: ApprovalId,
        step: impl FnOnce(&mut Approval) -> Result<T, E> + Send + 'static,
    ) -> Result<Result<T, E>, StoreError> {
        self.write(move |tx| {
            let missing = || StoreError::State(format!("approval {id}"));
            let before = row::one(tx, id)?.ok_or_else(missing)?.approval;
            let mut after = before.clone();
            let answer = step(&mut after);
            if answer.is_ok() {
                save(tx, &before, &after)?;
            }
            Ok(answer)
        })
        .await
    }
}

/// Writes what a step changed.
fn save(tx: &Transaction<'_>, before: &Approval, after: &Approval) -> Result<(), StoreError> {
    let id = after.terms().id;
    for verdict in &after.verdicts()[before.verdicts().len()..] {
        let Verdict {
            approver,
            uid,
            said,
            reason,
            time,
            void,
        } = verdict;
        let row = (
            id.as_str(),
            approver.as_str(),
            uid,
            row::said(*said),
            reason,
            void.map(Void::as_str),
            time.as_unix_ms(),
        );
        tx.execute(VERDICT, row)?;
    }
    if before.state() == after.state() && before.seen() == after.seen() {
        return Ok(());
    }
    let seen = after.seen().as_unix_ms();
    let changed = if let State::Consumed { by, .. } = after.state() {
        let digest = after.terms().digest;
        let row = (id.as_str(), seen, by.to_string(), digest.as_bytes());
        tx.execute(CONSUME, row)?
    } else {
        let cause = match after.state() {
            State::Expired { cause, .. } => Some(cause.as_str()),
            State::Pending
            | State::Granted
            | State::Consumed { .. }
            | State::Denied { .. }
            | State::Cancelled { .. } => None,
        };
        let row = (
            id.as_str(),
            before.state().as_str(),
            after.state().as_str(),
            seen,
            after.state().ended().map(UtcMillis::as_unix_ms),
            cause,
        );
        tx.execute(STEP, row)?
    };
    exactly_one(changed, || format!("approval {id}"))
}

/// For agents and people alike.
impl fmt::Display for UnfinishedApply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { request, seen } = self;
        let how = if *seen {
            "did not succeed"
        } else {
            "was cut off, its end unseen"
        };
        write!(
            f,
            "The last apply of this root {how} (request {request}), and none has succeeded since: what a plan calls \
             unchanged may not work yet."
        )
    }
}

impl StoredApproval {
    /// Whose it is.
    #[must_use]
    pub fn principal(&self) -> &PrincipalName {
        &self.approval.terms().requester
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> ApprovalId {
        self.approval.terms().id
    }

    /// The reason of the no that ended it.
    #[must_use]
    pub fn denial(&self) -> Option<&Verdict> {
        let denied = matches!(self.approval.state(), State::Denied { .. });
        let no = |v: &&Verdict| v.said == Said::No && v.void.is_none();
        self.approval.verdicts().iter().find(no).filter(|_| denied)
    }
}
