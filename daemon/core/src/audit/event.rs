//! What can be told: the closed list of event names, and an event on its way into the trail.

use std::fmt;
use std::str::FromStr;

use super::value::{Fields, Value};
use crate::ids::RequestId;
use crate::names::PrincipalName;

/// The name is not one that this version writes or reads.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("is not an event this version knows")]
pub struct UnknownEvent;

macro_rules! event_names {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// What happened. The list is closed: a trail with another name in it is of another version.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub enum EventName {
            $($(#[$doc])* $variant,)*
        }

        impl EventName {
            /// Every event there is.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// As it stands in the trail.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }

        impl FromStr for EventName {
            type Err = UnknownEvent;
            fn from_str(s: &str) -> Result<Self, UnknownEvent> {
                match s {
                    $($name => Ok(Self::$variant),)*
                    _ => Err(UnknownEvent),
                }
            }
        }
    };
}

event_names! {
    /// A principal asked for something. Durable before anything else happens.
    ToolRequest = "tool.request",
    /// What the policy answered, with its rule.
    GuardrailDecision = "guardrail.decision",
    /// A lease exists: scope, lease id, lifetime.
    CredentialIssued = "credential.issued",
    /// A Job is bound to the request, and the checks on it held.
    SandboxStarted = "sandbox.started",
    /// One call the runner made to the API server.
    ApiCall = "api.call",
    /// The work in the Job ended, well or not.
    SandboxCompleted = "sandbox.completed",
    /// The lease was revoked.
    CredentialRevoked = "credential.revoked",
    /// The API server refused the credential, and the pod that held it is gone.
    CredentialProvenDead = "credential.proven_dead",
    /// Something waits for humans: what it is and what it is bound to.
    ApprovalOpened = "approval.opened",
    /// The operator's command is told of it.
    ApprovalNotified = "approval.notified",
    /// A human's yes or no, and whether it counts.
    ApprovalVerdict = "approval.verdict",
    /// Everybody who was asked for has said yes.
    ApprovalGranted = "approval.granted",
    /// Somebody whose yes had counted is no approver any more, so it waits again.
    ApprovalReopened = "approval.reopened",
    /// An approver said no, which ended it.
    ApprovalDenied = "approval.denied",
    /// It ended by itself.
    ApprovalExpired = "approval.expired",
    /// Its owner took it back.
    ApprovalCancelled = "approval.cancelled",
    /// It is used up, for the one request that is about to be run.
    ApprovalConsumed = "approval.consumed",
    /// Terraform said no, while planning or applying. Its own words are for approvers.
    TerraformFailed = "terraform.failed",
    /// How an apply went, operation by operation.
    TerraformApplied = "terraform.applied",
    /// An operator put a root's state in the place of the one that was kept.
    StateImported = "state.imported",
    /// An operator took a root's state out. It holds secrets in plain text.
    StateExported = "state.exported",
    /// The request is over.
    ToolResult = "tool.result",
    /// Somebody connected who may not. Aggregated.
    PeerRefused = "peer.refused",
    /// Calls refused before they became a request: floods, limits, bad input. Aggregated.
    RequestRefused = "request.refused",
    /// A policy is in force.
    PolicyLoaded = "policy.loaded",
    /// A policy file was not taken; the one before stays in force.
    PolicyRefused = "policy.refused",
    /// The daemon is up and looks at what an earlier run left.
    DaemonStarted = "daemon.started",
    /// The daemon ends in order.
    DaemonStopped = "daemon.stopped",
    /// A request that was open when the daemon ended, closed with what was seen of it.
    ReconcileRequestClosed = "reconcile.request_closed",
    /// A lease that was left over, revoked.
    ReconcileLeaseRevoked = "reconcile.lease_revoked",
    /// A Job that was left over, deleted.
    ReconcileJobDeleted = "reconcile.job_deleted",
    /// Something left over could not be ended yet.
    ReconcileFailed = "reconcile.failed",
    /// Nothing is left over any more.
    ReconcileCompleted = "reconcile.completed",
    /// Half a last line was found at start and set aside.
    AuditTornLine = "audit.torn_line",
    /// A signed statement of how far the trail had come.
    AuditCheckpoint = "audit.checkpoint",
    /// A credential's end could not be proven in time.
    AlarmCredentialUnproven = "alarm.credential_unproven",
    /// A pod is not what was started: another image, container, runtime class, a restart.
    AlarmSandboxChanged = "alarm.sandbox_changed",
    /// A sandbox could reach what it must not.
    AlarmEgressOpen = "alarm.egress_open",
    /// Someone changed a `NetworkPolicy` of ours; it was put right.
    AlarmNetworkPolicyChanged = "alarm.network_policy_changed",
    /// A fault of the daemon itself.
    AlarmInternal = "alarm.internal",
}

impl EventName {
    /// Whether the event may be written into the space held back for when the disk is full.
    ///
    /// What opens work, or an outsider can cause at will, may not. What ends work or tells of
    /// something that has already happened may: an end must not go unrecorded for want of space.
    #[must_use]
    pub fn may_use_reserve(self) -> bool {
        match self {
            Self::ToolRequest
            | Self::GuardrailDecision
            | Self::CredentialIssued
            | Self::SandboxStarted
            | Self::ApprovalOpened
            | Self::ApprovalNotified
            | Self::ApprovalGranted
            | Self::ApprovalConsumed
            | Self::PeerRefused
            | Self::RequestRefused
            | Self::AuditCheckpoint => false,
            Self::ApiCall
            | Self::SandboxCompleted
            | Self::CredentialRevoked
            | Self::CredentialProvenDead
            // A no must get through, and a yes is refused by what follows it.
            | Self::ApprovalVerdict
            | Self::ApprovalReopened
            | Self::ApprovalDenied
            | Self::ApprovalExpired
            | Self::ApprovalCancelled
            | Self::TerraformFailed
            | Self::TerraformApplied
            | Self::StateImported
            | Self::StateExported
            | Self::ToolResult
            | Self::PolicyLoaded
            | Self::PolicyRefused
            | Self::DaemonStarted
            | Self::DaemonStopped
            | Self::ReconcileRequestClosed
            | Self::ReconcileLeaseRevoked
            | Self::ReconcileJobDeleted
            | Self::ReconcileFailed
            | Self::ReconcileCompleted
            | Self::AuditTornLine
            | Self::AlarmCredentialUnproven
            | Self::AlarmSandboxChanged
            | Self::AlarmEgressOpen
            | Self::AlarmNetworkPolicyChanged
            | Self::AlarmInternal => true,
        }
    }
}

impl fmt::Display for EventName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Something that happened or is about to, before it has a place in the trail.
///
/// Written for a reader months later: names as well as ids, reasons as sentences, nothing cut off.
/// What it holds is scrubbed on its way into the trail.
#[derive(Clone, Debug)]
#[must_use = "an event that is not recorded never happened"]
pub struct Event {
    pub(super) name: EventName,
    pub(super) request_id: Option<RequestId>,
    pub(super) principal: Option<PrincipalName>,
    pub(super) fields: Fields,
}

impl Event {
    /// An event without anything to tell but its name.
    pub fn new(name: EventName) -> Self {
        Self {
            name,
            request_id: None,
            principal: None,
            fields: Fields::new(),
        }
    }

    /// Of this request.
    pub fn request(self, id: RequestId) -> Self {
        Self {
            request_id: Some(id),
            ..self
        }
    }

    /// Caused by this principal.
    pub fn principal(self, name: &PrincipalName) -> Self {
        Self {
            principal: Some(name.clone()),
            ..self
        }
    }

    /// Adds a field; one of that name that is already there gives way.
    pub fn with(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.fields.insert(key.into(), value.into());
        self
    }

    /// What it is.
    #[must_use]
    pub fn name(&self) -> EventName {
        self.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back_and_no_other_does() {
        for name in EventName::ALL {
            assert_eq!(name.as_str().parse(), Ok(*name));
        }
        for other in ["", "tool", "tool.request ", "Tool.Request", "alarm."] {
            assert_eq!(other.parse::<EventName>(), Err(UnknownEvent), "{other}");
        }
    }

    #[test]
    fn names_are_different() {
        let names: std::collections::BTreeSet<_> =
            EventName::ALL.iter().map(|n| n.as_str()).collect();
        assert_eq!(names.len(), EventName::ALL.len());
    }
}
