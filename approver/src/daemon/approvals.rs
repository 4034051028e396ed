//! What the daemon is asked about approvals.

use sandbox_proto::PROTOCOL_VERSION;
use sandbox_proto::approver::v1 as proto;
use tokio::time::timeout;
use tonic::{Code, Streaming};

use super::{ANSWER_LIMIT, Daemon, broke, said};
use crate::failure::Failure;

impl Daemon {
    /// The approvals that are open, the newest first; with `ended` also those of the last seven days.
    pub(crate) async fn approvals(&mut self, ended: bool) -> Result<Vec<proto::Approval>, Failure> {
        let ask = proto::ListApprovalsRequest {
            protocol_version: PROTOCOL_VERSION,
            ended,
        };
        let answer = timeout(ANSWER_LIMIT, self.client.list_approvals(ask)).await;
        Ok(self.unpack(answer, ANSWER_LIMIT)?.approvals)
    }

    /// All there is to know of one approval. `id` may be the beginning of its id.
    pub(crate) async fn approval(
        &mut self,
        id: &str,
    ) -> Result<proto::GetApprovalResponse, Failure> {
        let ask = proto::GetApprovalRequest {
            protocol_version: PROTOCOL_VERSION,
            approval_id: id.to_owned(),
        };
        let answer = timeout(ANSWER_LIMIT, self.client.get_approval(ask)).await;
        let shown = self.unpack(answer, ANSWER_LIMIT)?;
        match &shown.approval {
            Some(approval) if approval.id.starts_with(id) => Ok(shown),
            Some(_) | None => Err(Failure::Error(format!(
                "sandboxd answered with another approval than {id}. Look at its log."
            ))),
        }
    }

    /// Has a verdict recorded; answers with the approval as it then is.
    pub(crate) async fn record_verdict(
        &mut self,
        verdict: Verdict,
    ) -> Result<proto::Approval, Failure> {
        let id = verdict.id;
        let word = if verdict.grant { "yes" } else { "no" };
        let ask = proto::RecordVerdictRequest {
            protocol_version: PROTOCOL_VERSION,
            approval_id: id.clone(),
            digest: verdict.digest.into(),
            grant: verdict.grant,
            reason: verdict.reason,
            typed: verdict.typed,
        };
        let unknown = |failure: Failure| {
            let Failure::Error(why) = failure else {
                return failure;
            };
            Failure::Error(format!(
                "{why}\nWhether your verdict was recorded is not known. Look with: approver show {id}"
            ))
        };
        let answer = match timeout(ANSWER_LIMIT, self.client.record_verdict(ask)).await {
            Ok(Err(status))
                if [Code::Unauthenticated, Code::Unimplemented].contains(&status.code()) =>
            {
                return Err(self.refused(&status));
            }
            Ok(Err(status)) if !broke(&status) => {
                return Err(Failure::Refused(format!(
                    "Your {word} changes nothing. {}",
                    said(&status)
                )));
            }
            answer => self.unpack(answer, ANSWER_LIMIT).map_err(unknown)?,
        };
        answer.approval.ok_or_else(|| {
            unknown(Failure::Error(
                "sandboxd answered without saying what became of the approval.".to_owned(),
            ))
        })
    }

    /// The approvals that are open, then every change of one.
    pub(crate) async fn changes(&mut self) -> Result<Changes, Failure> {
        let ask = proto::WatchApprovalsRequest {
            protocol_version: PROTOCOL_VERSION,
        };
        let answer = timeout(ANSWER_LIMIT, self.client.watch_approvals(ask)).await;
        Ok(Changes(self.unpack(answer, ANSWER_LIMIT)?))
    }

    /// What the end of the stream of changes means.
    pub(crate) fn lost(&self, end: &ChangesEnd) -> Failure {
        match end {
            ChangesEnd::Closed => Failure::Error("sandboxd ended the connection.".to_owned()),
            ChangesEnd::Broke(status) => self.refused(status),
        }
    }
}

/// What a person says to one approval.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    /// The whole id.
    pub(crate) id: String,
    /// Of what was shown.
    pub(crate) digest: Vec<u8>,
    pub(crate) grant: bool,
    pub(crate) reason: String,
    /// The name of an object that is destroyed or replaced, as it was typed.
    pub(crate) typed: String,
}

/// Approvals as they change. Dropping a wait for the next one loses nothing.
#[derive(Debug)]
pub(crate) struct Changes(Streaming<proto::Approval>);

/// Why there are no more changes.
#[derive(Debug)]
pub(crate) enum ChangesEnd {
    Closed,
    Broke(tonic::Status),
}

impl Changes {
    pub(crate) async fn next(&mut self) -> Result<proto::Approval, ChangesEnd> {
        match self.0.message().await {
            Ok(Some(approval)) => Ok(approval),
            Ok(None) => Err(ChangesEnd::Closed),
            Err(status) => Err(ChangesEnd::Broke(status)),
        }
    }
}
