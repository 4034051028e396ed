//! Where credentials come from and how they end.
//!
//! A credential is asked for under a child token of its own, whose accessor is journalled before it is
//! used: whatever happens to the answer, revoking that accessor ends what was issued. A credential is
//! over when the API server refuses it and the pod that held it is gone; until both were seen its row
//! stays open and is tried again, through restarts.
//!
//! A daemon that is killed while a credential is being minted cuts that request off: the engine may be left
//! with a `ServiceAccount` and its `RoleBinding`, and a token that nobody ever got. It rolls both back by
//! itself, after ten minutes; nothing else can, since no one but the issuer may touch them.

mod ending;
mod lease;
mod login;
mod mounts;
mod prover;
mod scope;
mod session;
mod trial;
mod vault;

use std::sync::Arc;
use std::time::Duration;

use sandbox_core::ids::RequestId;

use crate::audit::Audit;
use crate::clock::Clock;
use crate::config;
use crate::crash::{self, Step};
use crate::lifetime::Lifetime;
use crate::report::{Code, Failure, chain};
use crate::sandbox::Cluster;
use crate::store::{LeaseScope, Store, StoreError};

pub use lease::{Lease, Revoked};
pub use login::{Login, LoginError};
pub use prover::{Answer, Prover};
pub use scope::{Rung, Scope};
pub(crate) use trial::{Issued as TrialCredential, Trial};
pub use vault::{Health, VaultError};

use lease::Issued;
use mounts::Mounts;
use session::{SessionError, Sessions};
use vault::Vault;

/// How long a fresh credential may take until the API server takes it: RBAC caches lag a little.
const EFFECT_LIMIT: Duration = Duration::from_secs(5);

/// Hands out leases and ends them. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Broker(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    vault: Arc<Vault>,
    sessions: Arc<Sessions>,
    mounts: Mounts,
    prover: Prover,
    cluster: Cluster,
    store: Store,
    audit: Audit,
    clock: Clock,
    lifetime: Lifetime,
}

/// What the broker works with.
#[derive(Debug)]
pub struct BrokerParts {
    /// The login that it asks under.
    pub login: Login,
    /// To ask the API server about tokens.
    pub cluster: Cluster,
    /// The journal.
    pub store: Store,
    /// The trail.
    pub audit: Audit,
    /// What time it is.
    pub clock: Clock,
    /// How long all this goes on.
    pub lifetime: Lifetime,
}

/// Why there is no lease.
#[derive(Debug, thiserror::Error)]
enum IssueError {
    #[error("Vault did not issue a credential for {role}")]
    Vault { role: String, source: VaultError },
    #[error("the journal did not take the lease")]
    Store(#[from] StoreError),
    #[error("the API server did not take the fresh credential in time: {0}")]
    NoEffect(Answer),
}

impl Broker {
    /// Prepares a broker. Vault is not asked for anything yet.
    ///
    /// # Errors
    /// When the client to the API server cannot be made.
    pub fn new(config: &config::Vault, parts: BrokerParts) -> anyhow::Result<Self> {
        let BrokerParts {
            login,
            cluster,
            store,
            audit,
            clock,
            lifetime,
        } = parts;
        let prover = Prover::new(&cluster)?;
        Ok(Self(Arc::new(Inner {
            vault: login.vault,
            sessions: login.sessions,
            mounts: Mounts::new(config.mounts.clone()),
            prover,
            cluster,
            store,
            audit,
            clock,
            lifetime,
        })))
    }

    /// Issues a credential for `scope`, in effect when this returns. Dropping the future, or the lease
    /// unused, revokes it.
    ///
    /// # Errors
    /// [`Code::VaultUnavailable`], [`Code::VaultSealed`], [`Code::VaultRefused`] and what else kept it.
    pub async fn issue(&self, request: RequestId, scope: &Scope) -> Result<Lease, Failure> {
        let (this, scope) = (self.clone(), scope.clone());
        // In a task of its own: a caller that gives up in the middle must not leave half a lease.
        let issued = self
            .0
            .lifetime
            .spawn(async move { this.issue_now(request, &scope).await });
        match issued.await {
            Ok(Ok(lease)) => Ok(lease),
            Ok(Err(e)) => {
                tracing::warn!(%request, error = chain(&e), "no lease");
                Err(e.into())
            }
            Err(panic) => {
                tracing::error!(%request, %panic, "issuing panicked");
                Err(Failure::new(
                    Code::Internal,
                    "sandboxd failed inside while it asked for a credential.",
                ))
            }
        }
    }

    async fn issue_now(&self, request: RequestId, scope: &Scope) -> Result<Lease, IssueError> {
        let inner = &self.0;
        let role = scope.role();
        let vault_error = |source| IssueError::Vault {
            role: role.clone(),
            source,
        };
        let mut session = match inner.sessions.current(&inner.vault).await {
            Ok(session) => session,
            Err(SessionError::Vault(e)) => return Err(vault_error(e)),
            Err(SessionError::Store(e)) => return Err(e.into()),
        };
        let mount = inner.mounts.choose();
        let asked = LeaseScope {
            mount: mount.clone(),
            role: role.clone(),
            namespace: scope.namespace.clone(),
        };
        let key = inner
            .store
            .lease_asked(request, asked, inner.clock.now_ms())
            .await?;
        crash::after(Step::LeaseAsked);
        let child_role = format!("{mount}.{role}");
        let mut made = inner.vault.create_child(&session, &child_role).await;
        if matches!(made, Err(VaultError::Refused { status: 403, .. })) {
            // Vault may have lost the login: restored from a snapshot, or revoked by an operator.
            inner.sessions.forget(&session).await;
            made = match inner.sessions.current(&inner.vault).await {
                Ok(fresh) => {
                    session = fresh;
                    inner.vault.create_child(&session, &child_role).await
                }
                Err(SessionError::Vault(e)) => Err(e),
                Err(SessionError::Store(e)) => {
                    inner.store.lease_closed(key, inner.clock.now_ms()).await?;
                    return Err(e.into());
                }
            };
        }
        let child = match made {
            Ok(child) => child,
            Err(e) => {
                // A child nobody knows holds nothing, and ends with the login or its own lifetime.
                inner.store.lease_closed(key, inner.clock.now_ms()).await?;
                return Err(vault_error(e));
            }
        };
        crash::after(Step::ChildMade);
        inner.store.lease_child(key, child.accessor.clone()).await?;
        crash::after(Step::ChildJournalled);
        let mut issued = Issued {
            key,
            request,
            scope: scope.clone(),
            mount: mount.clone(),
            accessor: child.accessor.clone(),
            session,
            credential: None,
        };
        match inner
            .vault
            .issue(&child, mount.as_str(), &role, &scope.namespace)
            .await
        {
            Ok(credential) => {
                let (id, account) = (
                    credential.lease_id.clone(),
                    credential.service_account.clone(),
                );
                issued.credential = Some(credential);
                // From here on dropping it revokes it.
                let lease = Lease::new(self.clone(), issued);
                crash::after(Step::CredentialMinted);
                inner.store.lease_issued(key, id, account).await?;
                crash::after(Step::LeaseJournalled);
                self.wait_until_in_effect(&lease).await?;
                Ok(lease)
            }
            Err(e) => {
                drop(Lease::new(self.clone(), issued));
                Err(vault_error(e))
            }
        }
    }

    /// A refusal later on proves something only of a token that was accepted before.
    async fn wait_until_in_effect(&self, lease: &Lease) -> Result<(), IssueError> {
        let scope = &lease.inner().scope;
        match self
            .0
            .prover
            .wait_until_accepted(lease.token(), scope, EFFECT_LIMIT)
            .await
        {
            Answer::Accepted => Ok(()),
            last @ (Answer::Refused(_) | Answer::Nothing(_)) => Err(IssueError::NoEffect(last)),
        }
    }

    /// Whether Vault is open or sealed.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn health(&self) -> Result<Health, VaultError> {
        self.0.vault.health().await
    }

    /// Gives the login back. What still hangs from it ends with it.
    pub async fn log_out(&self) {
        self.0.sessions.end(&self.0.vault).await;
    }
}

impl From<IssueError> for Failure {
    fn from(e: IssueError) -> Self {
        let message = match &e {
            IssueError::Vault { source, .. } => {
                format!("No credential was issued: {}.", source.for_callers())
            }
            IssueError::Store(_) => {
                "sandboxd could not write the lease down, so it asked for none.".to_owned()
            }
            IssueError::NoEffect(_) => format!("The issued credential did not work: {e}."),
        };
        let code = match &e {
            IssueError::Vault { source, .. } => source.code(),
            IssueError::Store(_) => Code::StoreUnavailable,
            IssueError::NoEffect(Answer::Nothing(_)) => Code::ClusterUnavailable,
            IssueError::NoEffect(Answer::Accepted | Answer::Refused(_)) => Code::ApiForbidden,
        };
        Self::new(code, message)
    }
}
