//! What a caller is told when something does not work: a stable code, what happened, what to do next.

use std::fmt;

use sandbox_core::ids::RequestId;
use sandbox_core::parameters::FieldError;

/// Stable codes, for programs. What each means to a caller stands at its variant.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Code {
    /// The client speaks another version of the protocol.
    ProtocolMismatch,
    /// There is no such action.
    UnknownAction,
    /// A parameter is missing, unknown or malformed; `field` names it.
    InvalidArgument,
    /// The idempotency key was used with other parameters.
    KeyReused,
    /// The uid is not a principal of this socket.
    NotAdmitted,
    /// Policy says no.
    PolicyDenied,
    /// There is no such request, or it is somebody else's.
    NoSuchRequest,
    /// Too many calls in the last minute.
    RateLimited,
    /// Too many calls at the same time.
    TooManyInFlight,
    /// The daemon is stopping.
    Stopping,
    /// The audit trail cannot take more events, so nothing may happen.
    AuditUnavailable,
    /// The daemon's own database refused.
    StoreUnavailable,
    /// Vault did not answer.
    VaultUnavailable,
    /// Vault is sealed.
    VaultSealed,
    /// Vault answered, and refused to issue.
    VaultRefused,
    /// The Kubernetes API did not answer, or refused the daemon.
    ClusterUnavailable,
    /// No sandbox came up; the message says why: image, quota, `RuntimeClass`, admission.
    SandboxUnavailable,
    /// The sandbox could reach what it must not, so it got nothing.
    EgressOpen,
    /// The pod was not what was started, so it got nothing.
    SandboxChanged,
    /// The Job ended before the work was done.
    SandboxLost,
    /// The work took longer than it may.
    DeadlineExceeded,
    /// The API server refused the leased credential.
    ApiForbidden,
    /// The API server said something else that is not a result.
    ApiError,
    /// The page token is too old or is not ours.
    PageExpired,
    /// Not even one item fits the result's limit.
    ResultTooLarge,
    /// The credential could not be shown to be dead, so the result is withheld.
    RevocationUnproven,
    /// The source of a root has something that may not run, or cannot be packed.
    SourceRefused,
    /// Terraform said no.
    TerraformFailed,
    /// The plan does something that is not let through, or cannot be shown whole.
    PlanRefused,
    /// Another plan or apply of the root is under way.
    RootBusy,
    /// An apply was launched and its end was not seen.
    ApplyUnknown,
    /// There is no such approval, or it is somebody else's.
    NoSuchApproval,
    /// The root has an open approval that is for something else.
    ApprovalOpen,
    /// The root's last approval was denied or cancelled a moment ago.
    ApprovalCooling,
    /// The approval still waits for humans.
    ApprovalNotGranted,
    /// An approver said no.
    ApprovalDenied,
    /// The approval's time is up.
    ApprovalExpired,
    /// Its owner took the approval back.
    ApprovalCancelled,
    /// What would be done, or what was shown, is not what the approval is for; the message names it.
    ApprovalChanged,
    /// The approval was used, once and for ever.
    ApprovalUsed,
    /// The verdict does not count: of the requester, or of somebody tied to an agent.
    VerdictRefused,
    /// The caller ended it.
    Cancelled,
    /// A fault of the daemon; its log has the request id.
    Internal,
}

impl Code {
    /// As it goes over the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ProtocolMismatch => "PROTOCOL_MISMATCH",
            Self::UnknownAction => "UNKNOWN_ACTION",
            Self::InvalidArgument => "INVALID_ARGUMENT",
            Self::KeyReused => "IDEMPOTENCY_KEY_REUSED",
            Self::NotAdmitted => "NOT_ADMITTED",
            Self::PolicyDenied => "POLICY_DENIED",
            Self::NoSuchRequest => "NO_SUCH_REQUEST",
            Self::RateLimited => "RATE_LIMITED",
            Self::TooManyInFlight => "TOO_MANY_IN_FLIGHT",
            Self::Stopping => "STOPPING",
            Self::AuditUnavailable => "AUDIT_UNAVAILABLE",
            Self::StoreUnavailable => "STORE_UNAVAILABLE",
            Self::VaultUnavailable => "VAULT_UNAVAILABLE",
            Self::VaultSealed => "VAULT_SEALED",
            Self::VaultRefused => "VAULT_REFUSED",
            Self::ClusterUnavailable => "CLUSTER_UNAVAILABLE",
            Self::SandboxUnavailable => "SANDBOX_UNAVAILABLE",
            Self::EgressOpen => "EGRESS_OPEN",
            Self::SandboxChanged => "SANDBOX_CHANGED",
            Self::SandboxLost => "SANDBOX_LOST",
            Self::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Self::ApiForbidden => "API_FORBIDDEN",
            Self::ApiError => "API_ERROR",
            Self::PageExpired => "PAGE_EXPIRED",
            Self::ResultTooLarge => "RESULT_TOO_LARGE",
            Self::RevocationUnproven => "REVOCATION_UNPROVEN",
            Self::SourceRefused => "SOURCE_REFUSED",
            Self::TerraformFailed => "TERRAFORM_FAILED",
            Self::PlanRefused => "PLAN_REFUSED",
            Self::RootBusy => "ROOT_BUSY",
            Self::ApplyUnknown => "APPLY_UNKNOWN",
            Self::NoSuchApproval => "NO_SUCH_APPROVAL",
            Self::ApprovalOpen => "APPROVAL_OPEN",
            Self::ApprovalCooling => "APPROVAL_COOLING",
            Self::ApprovalNotGranted => "APPROVAL_NOT_GRANTED",
            Self::ApprovalDenied => "APPROVAL_DENIED",
            Self::ApprovalExpired => "APPROVAL_EXPIRED",
            Self::ApprovalCancelled => "APPROVAL_CANCELLED",
            Self::ApprovalChanged => "APPROVAL_CHANGED",
            Self::ApprovalUsed => "APPROVAL_USED",
            Self::VerdictRefused => "VERDICT_REFUSED",
            Self::Cancelled => "CANCELLED",
            Self::Internal => "INTERNAL",
        }
    }

    /// What to do next, in one sentence.
    #[must_use]
    pub const fn next(self) -> &'static str {
        match self {
            Self::ProtocolMismatch => "Install mcp-bridge, approver and sandboxd of one release.",
            Self::UnknownAction => "Use one of the tools that tools/list shows.",
            Self::InvalidArgument => "Correct the parameter and call again.",
            Self::KeyReused => "Use a new idempotency key for other parameters.",
            Self::NotAdmitted => {
                "Ask the operator to list the uid in sandboxd.toml, or connect as a listed user."
            }
            Self::PolicyDenied => {
                "Ask for something the policy allows, or ask the operator to change the policy; do not retry."
            }
            Self::NoSuchRequest => "Use a request id from one of your own calls.",
            Self::RateLimited => "Wait a minute, then call again.",
            Self::TooManyInFlight => "Wait until one of your calls has ended, then call again.",
            Self::Stopping => "Call again when the daemon is back.",
            Self::AuditUnavailable => {
                "Tell the operator: the disk that holds the audit trail needs space or attention."
            }
            Self::StoreUnavailable => {
                "Tell the operator: sandboxd's database refuses; its log says why."
            }
            Self::VaultUnavailable => {
                "Tell the operator: Vault does not answer. Calling again later is safe."
            }
            Self::VaultSealed => "Tell the operator: Vault is sealed and must be unsealed.",
            Self::VaultRefused => {
                "Tell the operator: Vault's roles or policies do not match sandboxd's; run scripts/verify."
            }
            Self::ClusterUnavailable => {
                "Tell the operator: the Kubernetes API does not answer sandboxd. Calling again later is safe."
            }
            Self::SandboxUnavailable => {
                "Tell the operator the reason given; run scripts/verify. Calling again later is safe."
            }
            Self::EgressOpen => {
                "Tell the operator: NetworkPolicy is not enforced in the sandbox namespace; run scripts/verify."
            }
            Self::SandboxChanged => {
                "Tell the operator at once: something in the cluster changed the sandbox's pod."
            }
            Self::SandboxLost => "Call again; reading twice is safe.",
            Self::DeadlineExceeded => "Call again with a narrower selector, or later.",
            Self::ApiForbidden => {
                "Tell the operator: the reviewed Role lacks what this action needs; run scripts/verify."
            }
            Self::ApiError => "Call again later; if it stays, tell the operator.",
            Self::PageExpired => "Start again without page_token.",
            Self::ResultTooLarge => "Narrow the request with label_selector.",
            Self::RevocationUnproven => {
                "Tell the operator at once; the credential lives at most twenty minutes. Calling again is possible."
            }
            Self::SourceRefused => "Change what is named, file and line, and call again.",
            Self::TerraformFailed => {
                "Correct what is named and call again; approvers see Terraform's own words: approver audit --request-id REQUEST."
            }
            Self::PlanRefused => "Change what is named and plan again.",
            Self::ApplyUnknown => {
                "Do not apply again blindly: plan the root, and read the plan with what the message says of creations."
            }
            Self::RootBusy => "Wait for it to end (get_request), then call again.",
            Self::NoSuchApproval => {
                "Use an approval id that one of your own calls gave; approvers see them with approver list."
            }
            Self::ApprovalOpen => {
                "Wait until it is used, denied or expired; or, if it is yours, take it back: its approval_id and withdraw true."
            }
            Self::ApprovalCooling => {
                "Wait as long as it says, and ask for something that was not refused."
            }
            Self::ApprovalNotGranted => {
                "Tell the people who approve, wait, and call again with the same approval_id."
            }
            Self::ApprovalDenied => {
                "Read the reason, change what it says, and ask for a new approval; do not repeat this one."
            }
            Self::ApprovalExpired => "Ask for a new approval: call again without approval_id.",
            Self::ApprovalCancelled => {
                "Ask for a new approval if it is still wanted: call again without approval_id."
            }
            Self::ApprovalChanged => {
                "Put back what is named, or call again without approval_id once this approval is over."
            }
            Self::ApprovalUsed => {
                "Ask get_request for the request that used it. For another apply, call without approval_id."
            }
            Self::VerdictRefused => {
                "Have somebody decide who is no agent, from a login of their own."
            }
            Self::Cancelled => "Call again if it is still wanted.",
            Self::Internal => "Tell the operator the request id; sandboxd's log has the cause.",
        }
    }

    /// The gRPC status a call ends with when it is refused before it was accepted.
    #[must_use]
    pub const fn status(self) -> tonic::Code {
        match self {
            Self::InvalidArgument | Self::UnknownAction | Self::KeyReused | Self::PageExpired => {
                tonic::Code::InvalidArgument
            }
            Self::NotAdmitted => tonic::Code::Unauthenticated,
            Self::PolicyDenied | Self::VerdictRefused => tonic::Code::PermissionDenied,
            Self::NoSuchRequest | Self::NoSuchApproval => tonic::Code::NotFound,
            Self::RateLimited
            | Self::TooManyInFlight
            | Self::ResultTooLarge
            | Self::ApprovalCooling => tonic::Code::ResourceExhausted,
            Self::ProtocolMismatch
            | Self::ApprovalOpen
            | Self::ApprovalNotGranted
            | Self::ApprovalDenied
            | Self::ApprovalExpired
            | Self::ApprovalCancelled
            | Self::ApprovalChanged
            | Self::ApprovalUsed
            | Self::SourceRefused
            | Self::TerraformFailed
            | Self::PlanRefused
            | Self::RootBusy => tonic::Code::FailedPrecondition,
            Self::DeadlineExceeded => tonic::Code::DeadlineExceeded,
            Self::Cancelled => tonic::Code::Cancelled,
            Self::Stopping
            | Self::AuditUnavailable
            | Self::StoreUnavailable
            | Self::VaultUnavailable
            | Self::VaultSealed
            | Self::ClusterUnavailable
            | Self::SandboxUnavailable
            | Self::SandboxLost => tonic::Code::Unavailable,
            Self::VaultRefused
            | Self::EgressOpen
            | Self::SandboxChanged
            | Self::ApiForbidden
            | Self::ApiError
            | Self::RevocationUnproven
            | Self::ApplyUnknown
            | Self::Internal => tonic::Code::Internal,
        }
    }
}

/// Why a request did not do what was asked, as its caller is told. Holds nothing secret.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Failure {
    /// For programs.
    pub code: Code,
    /// Whole sentences: what happened and why.
    pub message: String,
    /// The parameter at fault.
    pub field: Option<String>,
    /// The request, if it got that far.
    pub request: Option<RequestId>,
}

impl Failure {
    /// A failure with its sentences.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            field: None,
            request: None,
        }
    }

    /// Of this request.
    #[must_use]
    pub fn of(self, request: RequestId) -> Self {
        Self {
            request: Some(request),
            ..self
        }
    }
}

impl From<FieldError> for Failure {
    fn from(e: FieldError) -> Self {
        Self {
            message: format!("The parameter {e}."),
            field: Some(e.field),
            ..Self::new(Code::InvalidArgument, "")
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.as_str(), self.message)
    }
}

/// Joins an error and its sources into one clause for the log.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
