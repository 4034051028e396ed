//! Approvals as the contract has them.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::Stream;
use sandbox_core::approval::{
    ApprovalPrefix, ApprovalPrefixError, Approvers, BindingDigest, MAX_VERDICT_REASON, Said, State,
};
use sandbox_core::audit::UtcMillis;
use sandbox_proto::approver::v1 as proto;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc::Sender;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Response, Status};

use super::super::refuse::status;
use super::plan;
use crate::approve::{Approvals, Judge, Shown, Spoken};
use crate::lifetime::Lifetime;
use crate::report::{Code, Failure};
use crate::store::StoredApproval;

/// What `WatchApprovals` gives.
pub(super) type ApprovalStream =
    Pin<Box<dyn Stream<Item = Result<proto::Approval, Status>> + Send>>;

/// Approvals that wait to be sent to one watcher.
const WAITING: usize = 16;

pub(super) async fn list(
    approvals: &Approvals,
    ended: bool,
) -> Result<Response<proto::ListApprovalsResponse>, Status> {
    let list = approvals.list(ended).await.map_err(|f| status(&f))?;
    let approvers = approvals.approvers();
    Ok(Response::new(proto::ListApprovalsResponse {
        approvals: list.iter().map(|a| approval(a, approvers)).collect(),
    }))
}

pub(super) async fn get(
    approvals: &Approvals,
    id: &str,
) -> Result<Response<proto::GetApprovalResponse>, Status> {
    let found = approvals.find(&prefix(id)?).await;
    let stored = found.map_err(|f| status(&f))?;
    let (facts, shown) = tokio::join!(approvals.facts(stored.plan), approvals.shown(stored.id()));
    Ok(Response::new(details(
        &stored,
        plan::plan(&facts.map_err(|f| status(&f))?),
        shown.map_err(|f| status(&f))?,
        approvals.approvers(),
    )))
}

pub(super) async fn record_verdict(
    approvals: &Approvals,
    judge: Judge,
    ask: proto::RecordVerdictRequest,
) -> Result<Response<proto::RecordVerdictResponse>, Status> {
    let approval_prefix = prefix(&ask.approval_id)?;
    let digest = <[u8; 32]>::try_from(ask.digest.as_ref())
        .map_err(|_| bad("digest", "must be the 32 bytes of Approval.digest"))?;
    // Told here as well, so that a longer one is not even written into the trail.
    if ask.reason.chars().count() > MAX_VERDICT_REASON {
        let limit = format!("has more than {MAX_VERDICT_REASON} characters");
        return Err(bad("reason", &limit));
    }
    let spoken = Spoken {
        approval: approval_prefix,
        seen: BindingDigest::from_bytes(digest),
        said: if ask.grant { Said::Yes } else { Said::No },
        reason: ask.reason,
        typed: ask.typed,
    };
    let stored = approvals.record_verdict(judge, spoken).await;
    let stored = stored.map_err(|f| status(&f))?;
    Ok(Response::new(proto::RecordVerdictResponse {
        approval: Some(approval(&stored, approvals.approvers())),
    }))
}

/// Ends by itself when nobody listens, and when the daemon stops.
pub(super) async fn watch(
    approvals: &Approvals,
    lifetime: &Lifetime,
) -> Result<Response<ApprovalStream>, Status> {
    let (approvals, stop) = (approvals.clone(), lifetime.stop.clone());
    let mut changes = approvals.watch();
    let open = approvals.list(false).await.map_err(|f| status(&f))?;
    let (to_watcher, stream) = tokio::sync::mpsc::channel(WAITING);
    lifetime.spawn(async move {
        let follow = async {
            send_all(&to_watcher, &open, &approvals).await?;
            loop {
                match changes.recv().await {
                    Ok(stored) => {
                        let one = [Arc::unwrap_or_clone(stored)];
                        send_all(&to_watcher, &one, &approvals).await?;
                    }
                    // Some changes are lost to this watcher: it gets everything as it stands.
                    Err(RecvError::Lagged(_)) => match approvals.list(true).await {
                        Ok(list) => send_all(&to_watcher, &list, &approvals).await?,
                        Err(failure) => {
                            drop(to_watcher.send(Err(status(&failure))).await);
                            return None;
                        }
                    },
                    Err(RecvError::Closed) => return None::<()>,
                }
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = to_watcher.closed() => {}
            _ = follow => {}
        }
    });
    Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
}

/// `None` when nobody listens any more.
async fn send_all(
    to_watcher: &Sender<Result<proto::Approval, Status>>,
    list: &[StoredApproval],
    approvals: &Approvals,
) -> Option<()> {
    for stored in list {
        let told = approval(stored, approvals.approvers());
        to_watcher.send(Ok(told)).await.ok()?;
    }
    Some(())
}

fn approval(stored: &StoredApproval, approvers: &Approvers) -> proto::Approval {
    let (terms, state) = (stored.approval.terms(), stored.approval.state());
    proto::Approval {
        id: terms.id.to_string(),
        state: proto_state(state).into(),
        principal: terms.requester.to_string(),
        action: stored.action.clone(),
        root: stored.root.to_string(),
        request_id: stored.request.to_string(),
        reason: stored.reason.clone(),
        client: stored.client.clone(),
        opened_ms: terms.opened.as_unix_ms(),
        expires_ms: terms.expires.as_unix_ms(),
        ended_ms: state.ended().map_or(0, UtcMillis::as_unix_ms),
        quorum: terms.quorum,
        verdicts: verdicts(stored, approvers),
        digest: terms.digest.as_bytes().to_vec().into(),
        summary: stored.summary.clone(),
        dangers: stored.dangers,
        rule: (stored.binding)
            .value(sandbox_core::approval::Part::Rule)
            .to_owned(),
        outcome: stored.outcome.clone().unwrap_or_default(),
        used_by: state.used_by().map(|id| id.to_string()).unwrap_or_default(),
    }
}

fn verdicts(stored: &StoredApproval, approvers: &Approvers) -> Vec<proto::Verdict> {
    let verdicts = stored.approval.verdicts().iter();
    verdicts
        .map(|verdict| proto::Verdict {
            approver: verdict.approver.to_string(),
            grant: verdict.said == Said::Yes,
            reason: verdict.reason.clone(),
            time_ms: verdict.time.as_unix_ms(),
            void: (stored.approval)
                .why_void(verdict, approvers)
                .unwrap_or_default(),
        })
        .collect()
}

fn proto_state(state: &State) -> proto::approval::State {
    match state {
        State::Pending => proto::approval::State::Pending,
        State::Granted => proto::approval::State::Granted,
        State::Consumed { .. } => proto::approval::State::Consumed,
        State::Denied { .. } => proto::approval::State::Denied,
        State::Expired { .. } => proto::approval::State::Expired,
        State::Cancelled { .. } => proto::approval::State::Cancelled,
    }
}

fn details(
    stored: &StoredApproval,
    plan: proto::Plan,
    shown: Shown,
    approvers: &Approvers,
) -> proto::GetApprovalResponse {
    let bound = stored.binding.parts().map(|(part, value)| proto::Binding {
        name: part.to_string(),
        value: value.to_owned(),
    });
    let source = shown.source.into_iter().map(|file| proto::FileDiff {
        path: file.path,
        action: file.action,
        diff: file.diff,
    });
    proto::GetApprovalResponse {
        approval: Some(approval(stored, approvers)),
        plan: Some(plan),
        source: source.collect(),
        source_since: shown
            .source_since_ms
            .map(|ms| UtcMillis::from_unix_ms(ms).to_string())
            .unwrap_or_default(),
        scope: shown.scope,
        bound: bound.collect(),
        confirm: stored.confirm.clone(),
        last_apply: shown.last_apply.unwrap_or_default(),
    }
}

fn prefix(text: &str) -> Result<ApprovalPrefix, Status> {
    text.parse()
        .map_err(|e: ApprovalPrefixError| bad("approval_id", &e.to_string()))
}

fn bad(field: &str, problem: &str) -> Status {
    status(&Failure {
        field: Some(field.to_owned()),
        ..Failure::new(
            Code::InvalidArgument,
            format!("The parameter {field} {problem}."),
        )
    })
}

#[cfg(test)]
mod tests;
