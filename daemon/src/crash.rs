//! Steps at which a test has the daemon end as by a power cut, to see what its next start makes of what is
//! left. The feature `crash-points`, which only tests turn on, brings the option; without it nothing happens.

#[cfg(feature = "crash-points")]
use std::sync::OnceLock;

/// Something has just been done, or written down, that was not so before.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "crash-points", derive(clap::ValueEnum))]
pub(crate) enum Step {
    /// The journal says that a credential will be asked for.
    LeaseAsked,
    /// Vault has made a child token, and the journal does not know it.
    ChildMade,
    /// The journal has the accessor of the child token.
    ChildJournalled,
    /// Vault has issued a credential, and the journal does not know it.
    CredentialMinted,
    /// The journal has the lease.
    LeaseJournalled,
    /// The journal says that a Job will be created.
    JobJournalled,
    /// The Job is in the cluster.
    JobCreated,
    /// The journal says whose the Job is.
    JobClaimed,
    /// Lease and sandbox are in the trail.
    SandboxStarted,
    /// Vault has revoked the lease, and the journal does not know it.
    LeaseRevoked,
    /// Job and pod are gone, and the journal does not know it.
    JobDeleted,
}

#[cfg(feature = "crash-points")]
static ARMED: OnceLock<Step> = OnceLock::new();

/// Has [`after`] end the process at this step.
#[cfg(feature = "crash-points")]
pub(crate) fn arm(step: Option<Step>) {
    if let Some(step) = step {
        ARMED.get_or_init(|| step);
    }
}

/// Ends the process if a test asked for it at this step: nothing is finished, closed or told.
#[cfg(feature = "crash-points")]
pub(crate) fn after(step: Step) {
    if ARMED.get() == Some(&step) {
        std::process::abort();
    }
}

/// Nothing.
#[cfg(not(feature = "crash-points"))]
pub(crate) const fn after(_: Step) {}
