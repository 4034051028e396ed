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

mod lease;
mod login;
mod mounts;
mod prover;
mod session;
mod trial;
mod vault;

use std::sync::Arc;
use std::time::Duration;

use sandbox_core::audit::{Event, EventName};
use sandbox_core::ids::RequestId;
use sandbox_core::names::{NamespaceName, RootName};
use sandbox_core::resource::Resource;

use crate::audit::Audit;
use crate::clock::Clock;
use crate::config;
use crate::crash::{self, Step};
use crate::lifetime::Lifetime;
use crate::report::{Code, Failure, chain};
use crate::sandbox::{Cluster, ClusterError};
use crate::store::{LeaseScope, OpenLease, Store, StoreError};

pub use lease::{Lease, Revoked};
pub use login::{Login, LoginError};
pub use prover::{Answer, Prover};
pub(crate) use trial::{Issued as TrialCredential, Trial};
pub use vault::{Health, VaultError};

use lease::Issued;
use mounts::Mounts;
use session::{SessionError, Sessions};
use vault::Vault;

/// How long a fresh credential may take until the API server takes it: RBAC caches lag a little.
const EFFECT_LIMIT: Duration = Duration::from_secs(5);
/// How long a caller waits for a revoked credential to be refused. Seen: 6 to 14 ms.
const REFUSAL_LIMIT: Duration = Duration::from_secs(5);
/// After this long without proof somebody is told; trying goes on.
const PROOF_LIMIT: Duration = Duration::from_mins(1);
/// Between two tries to end something that would not end.
const RETRY_EVERY: Duration = Duration::from_secs(10);
/// No token of the engine lives longer: Terraform's twenty minutes, and one. What is not proven by then has
/// ended by itself.
const TOKEN_LIFE: Duration = Duration::from_mins(21);

/// What a credential is good for: one rung in one namespace.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Scope {
    namespace: NamespaceName,
    rung: String,
    /// What it may list there: how its token is tried.
    listed: Resource,
}

impl Scope {
    /// To get and list pods.
    pub(crate) fn pod_reader(namespace: NamespaceName) -> Self {
        Self {
            namespace,
            rung: "pod-reader".to_owned(),
            listed: Resource::PODS,
        }
    }

    /// A rung of a Terraform root. `listed` is one of the root's kinds.
    pub(crate) fn of_root(
        rung: Rung,
        root: &RootName,
        namespace: NamespaceName,
        listed: Resource,
    ) -> Self {
        Self {
            namespace,
            rung: format!("{}-{root}", rung.as_str()),
            listed,
        }
    }

    /// The engine's role: `RUNG.NAMESPACE`.
    pub(crate) fn role(&self) -> String {
        format!("{}.{}", self.rung, self.namespace)
    }
}

/// How much a Terraform credential may do with the root's kinds in its namespace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rung {
    /// Read them.
    Plan,
    /// Also make and change them.
    Apply,
    /// Also delete them.
    ApplyDelete,
}

impl Rung {
    /// From the least to the most.
    pub const ALL: [Self; 3] = [Self::Plan, Self::Apply, Self::ApplyDelete];

    /// As it begins the names of engine roles and reviewed Roles.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Apply => "apply",
            Self::ApplyDelete => "apply-delete",
        }
    }
}

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

    /// Revokes a lease and waits until the API server refuses its token, or for too long.
    pub async fn revoke(&self, lease: Lease) -> Revoked {
        let issued = lease.into_inner();
        let this = self.clone();
        let task = self
            .0
            .lifetime
            .spawn(async move { this.revoke_now(issued).await });
        match task.await {
            Ok(revoked) => revoked,
            // The row is still open, so the next start finds it; nothing else can be said here.
            Err(panic) => Revoked::lost(panic.to_string()),
        }
    }

    async fn revoke_now(&self, issued: Issued) -> Revoked {
        let inner = &self.0;
        let Some(credential) = &issued.credential else {
            return Revoked::new(issued, Err("it was never issued".to_owned()));
        };
        if let Err(e) = inner
            .vault
            .revoke_lease(&issued.session, &credential.lease_id)
            .await
        {
            let why = format!("Vault did not revoke the lease: {}", chain(&e));
            tracing::error!(request = %issued.request, lease = credential.lease_id, "{why}");
            self.overdue(&issued).await;
            return Revoked::new(issued, Err(why));
        }
        crash::after(Step::LeaseRevoked);
        if let Err(e) = inner.store.lease_revoked(issued.key).await {
            tracing::error!(request = %issued.request, error = chain(&e), "the journal did not take the revocation");
        }
        let refusal = inner
            .prover
            .wait_for_refusal(&credential.token, &issued.scope, REFUSAL_LIMIT)
            .await;
        if refusal.is_err() {
            self.overdue(&issued).await;
        }
        Revoked::new(issued, refusal)
    }

    /// In the background: ends what hangs from the child token, waits for the pod to be gone, and
    /// closes the row once both were seen. Raises an alarm after a while, and goes on trying.
    pub(crate) fn prove_dead(
        &self,
        revoked: Revoked,
        pod_gone: Option<tokio::task::JoinHandle<Result<(), String>>>,
        request: crate::request::Request,
    ) {
        let this = self.clone();
        self.0.lifetime.spawn(async move {
            let event = |name| request.event(name);
            this.finish(revoked, pod_gone, event).await;
        });
    }

    /// Revokes a lease that its holder dropped: a deadline, a cancel, a panic.
    fn reap(&self, issued: Issued) {
        let this = self.clone();
        self.0.lifetime.spawn(async move {
            let request = issued.request;
            let revoked = this.revoke_now(issued).await;
            let event = move |name| Event::new(name).request(request);
            let refusal = revoked.refusal().map_or_else(str::to_owned, |status| status.to_string());
            let told = event(EventName::CredentialRevoked)
                .with("lease_id", revoked.lease_id())
                .with("reason", "its request ended before it was used up")
                .with("refused_with", refusal);
            if let Err(e) = this.0.audit.record_closing(told).await {
                tracing::error!(%request, error = chain(&e), "credential.revoked is not in the trail");
            }
            this.finish(revoked, None, event).await;
        });
    }

    async fn finish(
        &self,
        revoked: Revoked,
        pod_gone: Option<tokio::task::JoinHandle<Result<(), String>>>,
        event: impl Fn(EventName) -> Event,
    ) {
        let inner = &self.0;
        let Some((issued, mut refusal)) = revoked.into_parts() else {
            return;
        };
        let started = tokio::time::Instant::now();
        let pod = match pod_gone {
            Some(task) => task.await.unwrap_or_else(|e| Err(e.to_string())),
            None => Ok(()),
        };
        let mut alarmed = false;
        let mut child_ended = false;
        loop {
            // Ends the lease too if its own revocation failed.
            if !child_ended {
                child_ended = match inner
                    .vault
                    .revoke_accessor(&issued.session, &issued.accessor)
                    .await
                {
                    Ok(()) => true,
                    Err(e) => {
                        tracing::warn!(request = %issued.request, error = chain(&e), "the child token is not revoked yet");
                        false
                    }
                };
            }
            if let (Err(_), Some(credential)) = (&refusal, &issued.credential) {
                refusal = inner
                    .prover
                    .wait_for_refusal(&credential.token, &issued.scope, REFUSAL_LIMIT)
                    .await;
            }
            let refused = issued.credential.is_none() || refusal.is_ok();
            if refused && child_ended {
                break;
            }
            if started.elapsed() > TOKEN_LIFE {
                refusal = refusal.map_err(|_| "its own lifetime ended first".to_owned());
                break;
            }
            if started.elapsed() > PROOF_LIMIT && !alarmed {
                alarmed = true;
                self.overdue(&issued).await;
                let why = refusal
                    .as_ref()
                    .err()
                    .map_or("the child token is not revoked", String::as_str);
                let alarm = event(EventName::AlarmCredentialUnproven)
                    .with("lease_id", issued.lease_id())
                    .with("reason", why);
                if let Err(e) = inner.audit.record_closing(alarm).await {
                    tracing::error!(error = chain(&e), "an alarm is not in the trail");
                }
            }
            tokio::select! {
                () = tokio::time::sleep(RETRY_EVERY) => {}
                // The row stays open, and the next start goes on.
                () = inner.lifetime.stop.cancelled() => return,
            }
        }
        self.close(&issued, &refusal, &pod, event).await;
    }

    async fn overdue(&self, issued: &Issued) {
        let inner = &self.0;
        let written = inner.store.lease_unproven(issued.key, inner.clock.now_ms());
        if let Err(e) = written.await {
            tracing::error!(request = %issued.request, error = chain(&e), "the journal does not say that a credential's end is overdue");
        }
    }

    async fn close(
        &self,
        issued: &Issued,
        refusal: &Result<u16, String>,
        pod: &Result<(), String>,
        event: impl Fn(EventName) -> Event,
    ) {
        let inner = &self.0;
        if issued.credential.is_some() {
            let told = match (refusal, pod) {
                (Ok(status), Ok(())) => event(EventName::CredentialProvenDead)
                    .with("lease_id", issued.lease_id())
                    .with("refused_with", i64::from(*status))
                    .with("pod", "gone"),
                (refusal, pod) => event(EventName::AlarmCredentialUnproven)
                    .with("lease_id", issued.lease_id())
                    .with(
                        "refusal",
                        refusal
                            .as_ref()
                            .map_or_else(Clone::clone, ToString::to_string),
                    )
                    .with(
                        "pod",
                        pod.as_ref()
                            .map_or_else(Clone::clone, |()| "gone".to_owned()),
                    ),
            };
            if let Err(e) = inner.audit.record_closing(told).await {
                tracing::error!(request = %issued.request, error = chain(&e), "the proof is not in the trail");
            }
        }
        if let Err(e) = inner
            .store
            .lease_closed(issued.key, inner.clock.now_ms())
            .await
        {
            tracing::error!(request = %issued.request, error = chain(&e), "the journal did not close the lease");
        }
    }

    /// Ends a lease of an earlier run. Its token is gone, so the proof is the authorizer's word: what
    /// its `ServiceAccount` may still do is nothing.
    ///
    /// # Errors
    /// What keeps it from being ended; it stays open and is to be tried again.
    pub async fn end_leftover(&self, lease: &OpenLease) -> Result<String, String> {
        let inner = &self.0;
        let session = inner
            .sessions
            .current(&inner.vault)
            .await
            .map_err(|e| chain(&e))?;
        if let Some(accessor) = &lease.accessor {
            if let Some(id) = &lease.lease_id {
                // Synchronous, unlike the accessor's; a lease that is already gone is no error.
                inner
                    .vault
                    .revoke_lease(&session, id)
                    .await
                    .map_err(|e| chain(&e))?;
            }
            inner
                .vault
                .revoke_accessor(&session, accessor)
                .await
                .map_err(|e| chain(&e))?;
        }
        let seen = match &lease.service_account {
            None => {
                "no credential was seen; what was known of its child token is revoked".to_owned()
            }
            Some(account) => {
                let until = tokio::time::Instant::now() + REFUSAL_LIMIT;
                loop {
                    let may = self.may_still(&lease.namespace, account).await;
                    match may.map_err(|e| chain(&e))? {
                        None => break format!("revoked; {account} may list nothing any more"),
                        Some(resource) if tokio::time::Instant::now() > until => {
                            return Err(format!(
                                "{account} may still list {resource} in {}",
                                lease.namespace
                            ));
                        }
                        Some(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                    }
                }
            }
        };
        inner
            .store
            .lease_closed(lease.key, inner.clock.now_ms())
            .await
            .map_err(|e| chain(&e))?;
        Ok(seen)
    }

    /// What an account may still list, if anything: of whatever rung it was, and of a root that may be gone.
    async fn may_still(
        &self,
        namespace: &str,
        account: &str,
    ) -> Result<Option<Resource>, ClusterError> {
        for resource in Resource::all() {
            if self
                .0
                .cluster
                .may_still_list(resource, namespace, account)
                .await?
            {
                return Ok(Some(resource));
            }
        }
        Ok(None)
    }

    /// Ends a login of an earlier run, and with it every child token that hangs from it, journalled or not.
    ///
    /// # Errors
    /// What keeps it from being ended; it is to be tried again.
    pub async fn end_login(&self, accessor: &str) -> Result<(), String> {
        let inner = &self.0;
        let session = inner.sessions.current(&inner.vault).await;
        let session = session.map_err(|e| chain(&e))?;
        let revoked = inner.vault.revoke_accessor(&session, accessor).await;
        revoked.map_err(|e| chain(&e))?;
        let closed = inner.store.login_closed(accessor.to_owned()).await;
        closed.map_err(|e| chain(&e))
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
