//! What was refused, as whoever asked is told.

use sandbox_core::approval::{Binding, CancelError, ConsumeError, State, VerdictError};

use crate::audit::AuditError;
use crate::report::{Code, Failure, chain};
use crate::store::{StoreError, StoredApproval};

pub(crate) fn no_such_approval() -> Failure {
    Failure::new(
        Code::NoSuchApproval,
        "There is no such approval, or it is somebody else's.",
    )
}

pub(crate) fn store_failed(error: &StoreError) -> Failure {
    tracing::error!(error = chain(error), "the database refused");
    Failure::new(
        Code::StoreUnavailable,
        "sandboxd's database could not be read or written.",
    )
}

pub(super) fn audit_failed(error: &AuditError) -> Failure {
    tracing::error!(error = chain(error), "the audit trail takes no events");
    Failure::new(
        Code::AuditUnavailable,
        format!("The audit trail cannot take this, so it does not happen: {error}."),
    )
}

/// A verdict that is not kept.
pub(super) fn not_taken(stored: &StoredApproval, error: VerdictError) -> Failure {
    let id = stored.id();
    let field = |name: &str, failure: Failure| Failure {
        field: Some(name.to_owned()),
        ..failure
    };
    match error {
        VerdictError::AnotherPlan => Failure::new(
            Code::ApprovalChanged,
            format!(
                "What was shown is not what approval {id} is for. Look at it again (approver show {id}) and \
                 decide on what it says."
            ),
        ),
        VerdictError::NoReason | VerdictError::LongReason => field(
            "reason",
            Failure::new(
                Code::InvalidArgument,
                format!("This cannot be taken: {error}."),
            ),
        ),
        VerdictError::OwnRequest
        | VerdictError::RequestersUid { .. }
        | VerdictError::NoApprover => Failure::new(
            Code::VerdictRefused,
            format!("This does not count: {error}."),
        ),
    }
}

/// An approval that is over, to a human.
pub(super) fn ended(stored: &StoredApproval) -> Failure {
    let id = stored.id();
    let (code, how) = match stored.approval.state() {
        State::Consumed { by, .. } => {
            return Failure::new(
                Code::ApprovalUsed,
                format!("Approval {id} was used, by request {by}. What you said is kept and changes nothing."),
            )
            .of(*by);
        }
        State::Denied { .. } => (Code::ApprovalDenied, "was denied"),
        State::Expired { .. } => (Code::ApprovalExpired, "has expired"),
        State::Cancelled { .. } => (Code::ApprovalCancelled, "was cancelled by its owner"),
        State::Pending | State::Granted => (Code::Internal, "is open"),
    };
    Failure::new(
        code,
        format!("Approval {id} {how}. What you said is kept and changes nothing."),
    )
}

/// An approval that cannot be used, to the agent that wanted to.
pub(super) fn cannot_use(stored: &StoredApproval, bound: &Binding, error: ConsumeError) -> Failure {
    let id = stored.id();
    match error {
        ConsumeError::Anothers => no_such_approval(),
        ConsumeError::NotGranted { missing } => {
            let people = if missing == 1 {
                "1 person".to_owned()
            } else {
                format!("{missing} people")
            };
            Failure::new(
                Code::ApprovalNotGranted,
                format!(
                    "Approval {id} still waits for {people} to say yes. They decide with: approver show {id}"
                ),
            )
        }
        ConsumeError::Used { by } => Failure::new(
            Code::ApprovalUsed,
            format!("Approval {id} was used by request {by}. It is good for one apply."),
        )
        .of(by),
        ConsumeError::Denied => {
            let why = stored.denial().map_or("", |verdict| verdict.reason.trim());
            Failure::new(
                Code::ApprovalDenied,
                format!("Approval {id} was denied. The approver's reason: {why}"),
            )
        }
        ConsumeError::Expired { cause } => Failure::new(
            Code::ApprovalExpired,
            format!("Approval {id} has expired: {}.", cause.why()),
        ),
        ConsumeError::Cancelled => Failure::new(
            Code::ApprovalCancelled,
            format!("Approval {id} was cancelled."),
        ),
        ConsumeError::Changed => {
            let names: Vec<&str> = stored
                .binding
                .differences(bound)
                .into_iter()
                .map(sandbox_core::approval::Part::as_str)
                .collect();
            Failure::new(
                Code::ApprovalChanged,
                format!(
                    "What would be applied is not what approval {id} is for. Changed since: {}.",
                    names.join(", ")
                ),
            )
        }
    }
}

/// An approval that cannot be taken back.
pub(super) fn cannot_cancel(stored: &StoredApproval, error: CancelError) -> Failure {
    match error {
        CancelError::Anothers => no_such_approval(),
        CancelError::Over => {
            let failure = ended(stored);
            let (id, state) = (stored.id(), stored.approval.state().as_str());
            Failure {
                message: format!("Approval {id} is over: it is {state}."),
                ..failure
            }
        }
    }
}
