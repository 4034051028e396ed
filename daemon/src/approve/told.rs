//! What the trail is told of approvals. Events bear the request that opened the approval, so that one query
//! tells its story; the use bears the request that uses it, and names the other.

use sandbox_core::approval::{Approval, Approvers, Change, Recorded, Said, Verdict};
use sandbox_core::audit::{Event, EventName, UtcMillis};
use sandbox_core::ids::{ApprovalId, RequestId};

use super::{Judge, Spoken};
use crate::report::Failure;
use crate::store::{NewApproval, StoredApproval};

fn of(name: EventName, stored: &StoredApproval) -> Event {
    Event::new(name)
        .request(stored.request)
        .with("approval", stored.id().to_string())
}

/// Everything it is bound to goes in, so that the trail alone can say later what was approved.
pub(super) fn opened(new: &NewApproval) -> Event {
    let terms = new.approval.terms();
    let bound: sandbox_core::audit::Fields = new
        .binding
        .parts()
        .map(|(part, value)| (part.as_str().to_owned(), value.into()))
        .collect();
    Event::new(EventName::ApprovalOpened)
        .request(new.request)
        .principal(&terms.requester)
        .with("approval", terms.id.to_string())
        .with("root", new.root.as_str())
        .with("summary", new.summary.as_str())
        .with("dangers", new.dangers)
        .with("must_type", new.confirm.clone())
        .with("bound", bound)
        .with("digest", terms.digest.to_string())
        .with("quorum", terms.quorum)
        .with("expires", terms.expires.to_string())
        .with("uid", terms.requester_uid.map_or(-1, i64::from))
        .with("reason_unverified", new.reason.as_str())
        .with("client_unverified", new.client.as_str())
}

pub(super) fn notified(id: ApprovalId, request: RequestId, program: &str) -> Event {
    Event::new(EventName::ApprovalNotified)
        .request(request)
        .with("approval", id.to_string())
        .with("command", program)
}

/// What was said, by whom, from where. Whether it counts is added.
pub(super) fn verdict(stored: &StoredApproval, judge: &Judge, spoken: &Spoken) -> Event {
    let said = match spoken.said {
        Said::Yes => "yes",
        Said::No => "no",
    };
    of(EventName::ApprovalVerdict, stored)
        .principal(&judge.principal)
        .with("said", said)
        .with("why", spoken.reason.as_str())
        .with("digest_seen", spoken.seen.to_string())
        .with("uid", judge.uid())
        .with("pid", judge.pid().map_or(-1, i64::from))
        .with("login_uid", judge.login())
}

pub(super) fn refused(heard: Event, failure: &Failure) -> Event {
    heard
        .with("counts", false)
        .with("code", failure.code.as_str())
        .with("reason", failure.message.as_str())
}

pub(super) fn recorded(heard: Event, recorded: Recorded) -> Event {
    match recorded {
        Recorded::Counted | Recorded::Granted | Recorded::Denied => heard.with("counts", true),
        Recorded::Void(void) => heard
            .with("counts", false)
            .with("reason", format!("it {void}")),
    }
}

pub(super) fn granted(before: &StoredApproval, after: &Approval, approvers: &Approvers) -> Event {
    let who: Vec<String> = after
        .in_favour(approvers)
        .into_iter()
        .map(ToString::to_string)
        .collect();
    of(EventName::ApprovalGranted, before)
        .with("approvers", who)
        .with("digest", after.terms().digest.to_string())
        .with("expires", after.terms().expires.to_string())
}

pub(super) fn denied(before: &StoredApproval, after: &Approval) -> Event {
    let last: Option<&Verdict> = after.verdicts().last();
    of(EventName::ApprovalDenied, before)
        .with("approver", last.map(|v| v.approver.to_string()))
        .with("why", last.map(|v| v.reason.clone()))
}

pub(super) fn looked(before: &StoredApproval, change: Change, missing: u32) -> Event {
    match change {
        Change::Expired(cause) => of(EventName::ApprovalExpired, before)
            .with("reason", cause.why())
            .with("expires", expires(before).to_string()),
        Change::Reopened => of(EventName::ApprovalReopened, before).with("missing", missing),
    }
}

pub(super) fn cancelled(before: &StoredApproval) -> Event {
    of(EventName::ApprovalCancelled, before).principal(before.principal())
}

pub(super) fn consumed(before: &StoredApproval, by: RequestId) -> Event {
    Event::new(EventName::ApprovalConsumed)
        .request(by)
        .principal(before.principal())
        .with("approval", before.id().to_string())
        .with("opened_by", before.request.to_string())
        .with("digest", before.approval.terms().digest.to_string())
}

fn expires(stored: &StoredApproval) -> UtcMillis {
    stored.approval.terms().expires
}
