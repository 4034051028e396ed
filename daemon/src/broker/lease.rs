//! A lease: what was issued, for whom, and the promise that it ends.

use std::sync::Arc;

use sandbox_core::ids::RequestId;
use sandbox_core::names::MountName;
use secrecy::SecretString;

use super::session::Session;
use super::vault::Credential;
use super::{Broker, Scope};
use crate::store::LeaseKey;

/// A credential that is in effect. Dropping it revokes it in the background; [`Broker::revoke`] does
/// so and tells. Neither `Clone` nor printable.
#[must_use = "a lease that is dropped is revoked"]
pub struct Lease {
    broker: Broker,
    issued: Option<Issued>,
}

/// What there is to end.
pub(super) struct Issued {
    pub(super) key: LeaseKey,
    pub(super) request: RequestId,
    pub(super) scope: Scope,
    pub(super) mount: MountName,
    pub(super) accessor: String,
    /// Its child token dies with this login, so the login is kept as long.
    pub(super) session: Arc<Session>,
    /// `None` when Vault was asked and the answer was no, or was lost.
    pub(super) credential: Option<Credential>,
}

impl Issued {
    pub(super) fn lease_id(&self) -> &str {
        self.credential.as_ref().map_or("", |c| &c.lease_id)
    }
}

impl Lease {
    pub(super) fn new(broker: Broker, issued: Issued) -> Self {
        Self {
            broker,
            issued: Some(issued),
        }
    }

    #[expect(
        clippy::expect_used,
        reason = "only drop and into_inner take it, and both end the lease"
    )]
    pub(super) fn inner(&self) -> &Issued {
        self.issued
            .as_ref()
            .expect("a lease holds what was issued until it is consumed")
    }

    #[expect(clippy::expect_used, reason = "as above")]
    fn credential(&self) -> &Credential {
        self.inner()
            .credential
            .as_ref()
            .expect("a lease that is handed out has its credential")
    }

    #[expect(clippy::expect_used, reason = "as above")]
    pub(super) fn into_inner(mut self) -> Issued {
        self.issued
            .take()
            .expect("a lease holds what was issued until it is consumed")
    }

    /// The bearer token, for the sandbox's stream and the prober.
    pub(crate) fn token(&self) -> &SecretString {
        &self.credential().token
    }

    /// Vault's id of it.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.credential().lease_id
    }

    /// The `ServiceAccount` generated for it.
    #[must_use]
    pub fn service_account(&self) -> &str {
        &self.credential().service_account
    }

    /// How long it lives unless revoked.
    #[must_use]
    pub fn ttl_seconds(&self) -> u32 {
        self.credential().ttl_seconds
    }

    /// What it is good for, in words.
    #[must_use]
    pub fn scope(&self) -> String {
        let Issued { scope, mount, .. } = self.inner();
        format!(
            "Role sandbox-{} in namespace {} (by mount {mount})",
            scope.rung, scope.namespace
        )
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(issued) = self.issued.take() {
            self.broker.reap(issued);
        }
    }
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lease").finish_non_exhaustive()
    }
}

/// What became of a lease that was to be revoked.
#[must_use = "a revoked lease still has to be proven dead"]
pub struct Revoked {
    issued: Option<Issued>,
    refusal: Result<u16, String>,
}

impl Revoked {
    pub(super) fn new(issued: Issued, refusal: Result<u16, String>) -> Self {
        Self {
            issued: Some(issued),
            refusal,
        }
    }

    pub(super) fn lost(why: String) -> Self {
        Self {
            issued: None,
            refusal: Err(why),
        }
    }

    /// The status the API server refused it with, or why it is not known to refuse it.
    ///
    /// # Errors
    /// What was seen instead of a refusal.
    pub fn refusal(&self) -> Result<u16, &str> {
        self.refusal.as_ref().copied().map_err(String::as_str)
    }

    /// Vault's id of it.
    #[must_use]
    pub fn lease_id(&self) -> &str {
        self.issued.as_ref().map_or("", Issued::lease_id)
    }

    pub(super) fn into_parts(self) -> Option<(Issued, Result<u16, String>)> {
        Some((self.issued?, self.refusal))
    }
}
