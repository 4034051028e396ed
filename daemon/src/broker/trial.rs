//! Credentials for `verify`: asked for as the broker asks, under a login of their own.
//!
//! Nothing is journalled, because everything here hangs from that login: it ends with it, and with the
//! lease's ten minutes where the process was killed.

use sandbox_core::names::{MountName, NamespaceName};

use super::ending::REFUSAL_LIMIT;
use super::prover::{Answer, Prover};
use super::session::Session;
use super::vault::{self, Credential, Vault, VaultError};
use super::{EFFECT_LIMIT, Scope};
use crate::config;
use crate::sandbox::Cluster;

/// A login, and a way to ask the API server with what is issued under it.
pub(crate) struct Trial {
    vault: Vault,
    prover: Prover,
    session: Session,
}

/// A token that can do one thing: ask for the credential of one role of one mount.
pub(crate) struct Child {
    token: vault::Child,
    mount: MountName,
    role: String,
}

/// What was issued. Not printable.
pub(crate) struct Issued {
    credential: Credential,
    scope: Scope,
}

impl Trial {
    /// Logs in as the daemon does.
    pub(crate) async fn log_in(config: &config::Vault, cluster: &Cluster) -> anyhow::Result<Self> {
        let vault = Vault::new(config)?;
        let prover = Prover::new(cluster)?;
        let session = vault.log_in(config).await?;
        Ok(Self {
            vault,
            prover,
            session,
        })
    }

    /// A child token for reading pods in `namespace`.
    pub(crate) async fn child(
        &self,
        mount: &MountName,
        namespace: &NamespaceName,
    ) -> Result<Child, VaultError> {
        let role = Scope::pod_reader(namespace.clone()).role();
        let token = self
            .vault
            .create_child(&self.session, &format!("{mount}.{role}"))
            .await?;
        Ok(Child {
            token,
            mount: mount.clone(),
            role,
        })
    }

    /// Asks the child's own role for a credential in `namespace`.
    pub(crate) async fn issue(
        &self,
        child: &Child,
        namespace: &NamespaceName,
    ) -> Result<Issued, VaultError> {
        self.issue_by(child, &child.role, namespace).await
    }

    /// Asks the role of `namespace` for a credential there, whatever the child's own role is.
    pub(crate) async fn issue_elsewhere(
        &self,
        child: &Child,
        namespace: &NamespaceName,
    ) -> Result<Issued, VaultError> {
        let role = Scope::pod_reader(namespace.clone()).role();
        self.issue_by(child, &role, namespace).await
    }

    async fn issue_by(
        &self,
        child: &Child,
        role: &str,
        namespace: &NamespaceName,
    ) -> Result<Issued, VaultError> {
        let credential = self
            .vault
            .issue(&child.token, child.mount.as_str(), role, namespace)
            .await?;
        Ok(Issued {
            credential,
            scope: Scope::pod_reader(namespace.clone()),
        })
    }

    /// What the API server says when `path` is read with the credential.
    pub(crate) async fn read(&self, issued: &Issued, path: &str) -> Answer {
        self.prover.get(&issued.credential.token, path).await
    }

    /// Waits until the credential works: RBAC caches lag a little.
    pub(crate) async fn wait_until_accepted(&self, issued: &Issued) -> Answer {
        let Issued { credential, scope } = issued;
        self.prover
            .wait_until_accepted(&credential.token, scope, EFFECT_LIMIT)
            .await
    }

    /// Waits until the API server refuses the credential, and gives the status.
    pub(crate) async fn wait_until_refused(&self, issued: &Issued) -> Result<u16, String> {
        let Issued { credential, scope } = issued;
        self.prover
            .wait_for_refusal(&credential.token, scope, REFUSAL_LIMIT)
            .await
    }

    /// Revokes the lease; its `ServiceAccount` is deleted when this returns.
    pub(crate) async fn revoke(&self, issued: &Issued) -> Result<(), VaultError> {
        self.vault
            .revoke_lease(&self.session, issued.lease_id())
            .await
    }

    /// Gives the login back, and ends whatever still hangs from it.
    pub(crate) async fn log_out(&self) -> Result<(), VaultError> {
        self.vault.revoke_self(&self.session).await
    }
}

impl Issued {
    /// Vault's id of the lease.
    pub(crate) fn lease_id(&self) -> &str {
        &self.credential.lease_id
    }

    /// The `ServiceAccount` that was made for it; its `RoleBinding` has the same name.
    pub(crate) fn service_account(&self) -> &str {
        &self.credential.service_account
    }

    /// How long it would live.
    pub(crate) fn ttl_seconds(&self) -> u32 {
        self.credential.ttl_seconds
    }
}
