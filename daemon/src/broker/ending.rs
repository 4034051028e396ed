//! How a credential ends, and how that is known: revoked, refused, its pod gone. Also those of an earlier run.

use std::time::Duration;

use sandbox_core::audit::{Event, EventName};
use sandbox_core::resource::Resource;

use super::lease::Issued;
use super::{Broker, Lease, Revoked};
use crate::crash::{self, Step};
use crate::report::chain;
use crate::sandbox::ClusterError;
use crate::store::{LeaseKey, OpenLease};

/// How long a caller waits for a revoked credential to be refused. Seen: 6 to 14 ms.
pub(super) const REFUSAL_LIMIT: Duration = Duration::from_secs(5);
/// After this long without proof somebody is told; trying goes on.
const PROOF_LIMIT: Duration = Duration::from_mins(1);
/// Between two tries to end something that would not end.
const RETRY_EVERY: Duration = Duration::from_secs(10);
/// No token of the engine lives longer: Terraform's twenty minutes, and one. What is not proven by then has
/// ended by itself.
const TOKEN_LIFE: Duration = Duration::from_mins(21);

impl Broker {
    /// Revokes a lease and waits until the API server refuses its token, or for too long.
    pub async fn revoke(&self, lease: Lease) -> Revoked {
        let issued = lease.into_inner();
        let (this, key) = (self.clone(), issued.key);
        let task = self
            .0
            .lifetime
            .spawn(async move { this.revoke_now(issued).await });
        match task.await {
            Ok(revoked) => revoked,
            // The row is still open, so the next start finds it; nothing else can be said here.
            Err(panic) => {
                self.overdue(key).await;
                Revoked::lost(panic.to_string())
            }
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
            self.overdue(issued.key).await;
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
            self.overdue(issued.key).await;
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
    pub(super) fn reap(&self, issued: Issued) {
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
                self.overdue(issued.key).await;
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

    async fn overdue(&self, key: LeaseKey) {
        let inner = &self.0;
        let written = inner.store.lease_unproven(key, inner.clock.now_ms());
        if let Err(e) = written.await {
            tracing::error!(
                error = chain(&e),
                "the journal does not say that a credential's end is overdue"
            );
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
}
