//! The approvals of the scripted service: what is asked about, decided and watched.

use std::pin::Pin;
use std::sync::{Arc, Mutex};

use sandbox_proto::PROTOCOL_VERSION;
use sandbox_proto::approver::v1 as proto;
use sandbox_proto::approver::v1::approval::State;
use tokio::sync::broadcast;
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::Status;
use tonic_types::{ErrorDetails, StatusExt as _};

/// What the service shows, and what it was told. Clones are the same desk.
#[derive(Clone)]
pub struct Desk(Arc<Mutex<Papers>>, broadcast::Sender<proto::Approval>);

#[derive(Default)]
struct Papers {
    approvals: Vec<proto::GetApprovalResponse>,
    recorded: Vec<proto::RecordVerdictRequest>,
    refusal: Option<Status>,
    void: String,
}

pub type Changes = Pin<Box<dyn Stream<Item = Result<proto::Approval, Status>> + Send>>;

impl Default for Desk {
    fn default() -> Self {
        Self(Arc::default(), broadcast::channel(64).0)
    }
}

impl Desk {
    /// Shows it from now on, in the place of one of the same id; whoever watches is told.
    pub fn put(&self, shown: proto::GetApprovalResponse) {
        let approval = shown.approval.clone().unwrap();
        let mut papers = self.0.lock().unwrap();
        papers
            .approvals
            .retain(|known| known.approval.as_ref().unwrap().id != approval.id);
        papers.approvals.insert(0, shown);
        // Nobody has to be watching.
        drop(self.1.send(approval));
    }

    /// Changes one in place.
    pub fn change(&self, id: &str, change: impl FnOnce(&mut proto::Approval)) {
        let mut papers = self.0.lock().unwrap();
        let known = papers
            .approvals
            .iter_mut()
            .map(|a| a.approval.as_mut().unwrap());
        let approval = known.into_iter().find(|a| a.id == id).unwrap();
        change(approval);
        drop(self.1.send(approval.clone()));
    }

    /// Every verdict is refused with this.
    pub fn refuse(&self, status: Status) {
        self.0.lock().unwrap().refusal = Some(status);
    }

    /// Every verdict is recorded, and void for this reason.
    pub fn void(&self, why: &str) {
        why.clone_into(&mut self.0.lock().unwrap().void);
    }

    /// The verdicts that came in, in order, refused ones too.
    pub fn recorded(&self) -> Vec<proto::RecordVerdictRequest> {
        self.0.lock().unwrap().recorded.clone()
    }

    pub fn watchers(&self) -> usize {
        self.1.receiver_count()
    }

    pub fn list(&self, ask: proto::ListApprovalsRequest) -> proto::ListApprovalsResponse {
        assert_eq!(ask.protocol_version, PROTOCOL_VERSION);
        let papers = self.0.lock().unwrap();
        let all = papers.approvals.iter().map(|a| a.approval.clone().unwrap());
        proto::ListApprovalsResponse {
            approvals: all.filter(|a| ask.ended || is_open(a)).collect(),
        }
    }

    pub fn get(&self, prefix: &str) -> Result<proto::GetApprovalResponse, Status> {
        let papers = self.0.lock().unwrap();
        let mut found = papers
            .approvals
            .iter()
            .filter(|a| a.approval.as_ref().unwrap().id.starts_with(prefix));
        match (found.next(), found.next()) {
            (Some(one), None) => Ok(one.clone()),
            (None, _) => Err(Status::not_found(format!("There is no approval {prefix}."))),
            (Some(_), Some(_)) => Err(Status::invalid_argument(format!("{prefix} means several."))),
        }
    }

    /// As sandboxd does it, and no further: a digest that was not shown is refused, a yes grants, a no denies.
    pub fn record(
        &self,
        ask: proto::RecordVerdictRequest,
    ) -> Result<proto::RecordVerdictResponse, Status> {
        let mut papers = self.0.lock().unwrap();
        papers.recorded.push(ask.clone());
        if let Some(refusal) = &papers.refusal {
            return Err(refusal.clone());
        }
        let void = papers.void.clone();
        let known = papers
            .approvals
            .iter_mut()
            .map(|a| a.approval.as_mut().unwrap());
        let approval = known.into_iter().find(|a| a.id == ask.approval_id).unwrap();
        if approval.digest != ask.digest {
            return Err(explained(
                &Status::failed_precondition("The plan is not the one that was shown."),
                "Look at it again: approver show.",
            ));
        }
        let counts = void.is_empty();
        approval.verdicts.push(proto::Verdict {
            approver: "alice".to_owned(),
            grant: ask.grant,
            reason: ask.reason,
            time_ms: approval.opened_ms + 1,
            void,
        });
        let yes = approval
            .verdicts
            .iter()
            .filter(|v| v.grant && v.void.is_empty())
            .count();
        let state = match (counts, ask.grant) {
            (false, _) => State::Expired,
            (true, false) => State::Denied,
            (true, true) if yes >= usize::try_from(approval.quorum).unwrap() => State::Granted,
            (true, true) => State::Pending,
        };
        approval.state = state.into();
        drop(self.1.send(approval.clone()));
        Ok(proto::RecordVerdictResponse {
            approval: Some(approval.clone()),
        })
    }

    pub fn watch(&self) -> Changes {
        let changes = BroadcastStream::new(self.1.subscribe());
        let open = self.list(proto::ListApprovalsRequest {
            protocol_version: PROTOCOL_VERSION,
            ended: false,
        });
        let now = tokio_stream::iter(open.approvals.into_iter().map(Ok));
        Box::pin(now.chain(changes.map(|change| Ok(change.unwrap()))))
    }
}

fn is_open(approval: &proto::Approval) -> bool {
    [i32::from(State::Pending), State::Granted.into()].contains(&approval.state)
}

/// A refusal as sandboxd's are: with what to do next.
pub fn explained(status: &Status, next: &str) -> Status {
    let about = std::collections::HashMap::from([("next".to_owned(), next.to_owned())]);
    let details = ErrorDetails::with_error_info("CODE", "agent-sandbox", about);
    Status::with_error_details(status.code(), status.message(), details)
}
