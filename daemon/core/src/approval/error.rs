//! What an approval refuses.

use super::ExpiryCause;
use super::verdict::Void;
use crate::ids::RequestId;

/// Why a verdict is not taken at all.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum VerdictError {
    /// Whoever asks does not judge.
    #[error("nobody decides on what they asked for themselves")]
    OwnRequest,
    /// The same, from another name.
    #[error("uid {uid} asked for this, so it cannot decide on it")]
    RequestersUid {
        /// The uid.
        uid: u32,
    },
    /// Not one of the approvers.
    #[error("only a listed approver can decide")]
    NoApprover,
    /// What was shown is not what this approval is for.
    #[error("what was shown is not what this approval is for")]
    AnotherPlan,
    /// A no without a reason.
    #[error("a no needs a reason")]
    NoReason,
    /// A reason beyond the limit.
    #[error("a reason has at most {} characters", super::MAX_VERDICT_REASON)]
    LongReason,
}

/// Why an approval cannot be used.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ConsumeError {
    /// It belongs to another principal, who alone may know of it.
    #[error("there is no such approval of this principal's")]
    Anothers,
    /// Not enough people said yes.
    #[error("it waits for {missing} more to say yes")]
    NotGranted {
        /// How many.
        missing: u32,
    },
    /// It was used.
    #[error("it was used by request {by}")]
    Used {
        /// By which request.
        by: RequestId,
    },
    /// An approver said no.
    #[error("it was denied")]
    Denied,
    /// Too late.
    #[error("it expired: {}", cause.why())]
    Expired {
        /// How it came.
        cause: ExpiryCause,
    },
    /// Its owner took it back.
    #[error("it was cancelled")]
    Cancelled,
    /// What would be done is not what was approved.
    #[error("what would be done is not what was approved")]
    Changed,
}

/// Why an approval cannot be taken back.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum CancelError {
    /// It belongs to another principal.
    #[error("there is no such approval of this principal's")]
    Anothers,
    /// It has ended already.
    #[error("it has ended already")]
    Over,
}

impl Void {
    /// Whether the verdict came after an end.
    #[must_use]
    pub const fn is_late(self) -> bool {
        match self {
            Self::AfterExpiry | Self::AfterDenial | Self::AfterCancel | Self::AfterUse => true,
            Self::CountsAlready => false,
        }
    }
}
