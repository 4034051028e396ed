//! What an earlier run left behind, ended before the first call is served.
//!
//! Requests are closed as unknown first, with what the journal knew; success is never guessed. Then Jobs
//! and leases go, each tried again in the background when the cluster or Vault is away.

use std::collections::BTreeSet;
use std::time::Duration;

use sandbox_core::audit::{Event, EventName};

use crate::audit::{Audit, AuditError};
use crate::report::chain;
use crate::request::Parts;
use crate::store::{OpenLease, OpenRequest, Store, StoreError};

const RETRY_EVERY: Duration = Duration::from_secs(10);

/// Why the daemon cannot start to serve.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// The journal cannot be read or written.
    #[error("the journal of the earlier run cannot be closed")]
    Store(#[from] StoreError),
    /// The trail takes no events.
    #[error("what was left behind cannot be written down")]
    Audit(#[from] AuditError),
}

/// What the journal had open when the daemon started; everything later is of this run.
#[derive(Debug)]
pub struct Leftovers {
    requests: Vec<OpenRequest>,
    jobs: BTreeSet<String>,
    leases: Vec<OpenLease>,
    /// Accessors.
    logins: Vec<String>,
}

impl Leftovers {
    /// Reads the journal, before anything of this run is in it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn read(store: &Store) -> Result<Self, StoreError> {
        Ok(Self {
            requests: store.running_requests().await?,
            jobs: store
                .open_jobs()
                .await?
                .into_iter()
                .map(|job| job.name)
                .collect(),
            leases: store.open_leases().await?,
            logins: store.open_logins().await?,
        })
    }

    /// Closes the requests, and tries to end the rest. Returns whether everything is gone.
    ///
    /// # Errors
    /// [`ReconcileError`]; serving on top of it would mix two runs.
    pub async fn end(&self, parts: &Parts) -> Result<bool, ReconcileError> {
        for open in &self.requests {
            let event = Event::new(EventName::ReconcileRequestClosed)
                .request(open.id)
                .with("action", open.action.as_str())
                .with("principal_then", open.principal.as_str())
                .with(
                    "reason",
                    "sandboxd ended while it ran; what it did is not known",
                );
            parts.audit.record_closing(event).await?;
            let result = Event::new(EventName::ToolResult)
                .request(open.id)
                .with("outcome", "unknown");
            parts.audit.record_closing(result).await?;
            parts
                .store
                .end_request(open.id, "unknown", parts.clock.now_ms())
                .await?;
        }
        self.sweep(parts).await
    }

    /// Goes on until nothing is left.
    pub async fn keep_on(&self, parts: &Parts) {
        loop {
            tokio::select! {
                () = parts.lifetime.stop.cancelled() => return,
                () = tokio::time::sleep(RETRY_EVERY) => {}
            }
            match self.sweep(parts).await {
                Ok(true) => return,
                Ok(false) => {}
                Err(e) => {
                    tracing::error!(error = chain(&e), "what was left behind is not closed yet");
                }
            }
        }
    }

    /// One pass over the Jobs and leases that nothing of this run holds.
    async fn sweep(&self, parts: &Parts) -> Result<bool, ReconcileError> {
        let jobs = self.end_jobs(parts).await?;
        let leases = self.end_leases(parts).await?;
        let logins = self.end_logins(parts).await?;
        let done = jobs && leases && logins;
        if done {
            parts
                .audit
                .record_closing(Event::new(EventName::ReconcileCompleted))
                .await?;
        }
        Ok(done)
    }

    async fn end_jobs(&self, parts: &Parts) -> Result<bool, ReconcileError> {
        let mut done = true;
        let found = match parts.sandboxes.jobs_in_cluster().await {
            Ok(found) => found,
            Err(e) => {
                done = false;
                failed(&parts.audit, "the Jobs of an earlier run", &chain(&e)).await?;
                Vec::new()
            }
        };
        // A Job is journalled before it is created, so one that is not open here is nobody's.
        let open: BTreeSet<String> = parts
            .store
            .open_jobs()
            .await?
            .into_iter()
            .map(|job| job.name)
            .collect();
        let nobodys = found.iter().filter(|job| !open.contains(*job));
        let jobs: BTreeSet<&String> = self.jobs.intersection(&open).chain(nobodys).collect();
        for job in jobs {
            match parts.sandboxes.delete_leftover(job).await {
                Ok(()) => {
                    let event =
                        Event::new(EventName::ReconcileJobDeleted).with("job", job.as_str());
                    parts.audit.record_closing(event).await?;
                }
                Err(e) => {
                    done = false;
                    failed(&parts.audit, &format!("the Job {job}"), &chain(&e)).await?;
                }
            }
        }
        Ok(done)
    }

    async fn end_leases(&self, parts: &Parts) -> Result<bool, ReconcileError> {
        let mut done = true;
        let still_open: BTreeSet<_> = parts
            .store
            .open_leases()
            .await?
            .into_iter()
            .map(|lease| lease.key)
            .collect();
        for lease in self
            .leases
            .iter()
            .filter(|lease| still_open.contains(&lease.key))
        {
            match parts.broker.end_leftover(lease).await {
                Ok(seen) => {
                    let event = Event::new(EventName::ReconcileLeaseRevoked)
                        .request(lease.request)
                        .with("lease_id", lease.lease_id.as_deref().unwrap_or("not known"))
                        .with("seen", seen);
                    parts.audit.record_closing(event).await?;
                }
                Err(why) => {
                    done = false;
                    parts
                        .store
                        .lease_unproven(lease.key, parts.clock.now_ms())
                        .await?;
                    failed(&parts.audit, "a lease", &why).await?;
                }
            }
        }
        Ok(done)
    }

    /// After the leases, each of which was ended and looked at by itself: what is left under a login is a
    /// child token that was made and not journalled.
    async fn end_logins(&self, parts: &Parts) -> Result<bool, ReconcileError> {
        let mut done = true;
        let still_open: BTreeSet<_> = parts.store.open_logins().await?.into_iter().collect();
        for login in self
            .logins
            .iter()
            .filter(|login| still_open.contains(*login))
        {
            if let Err(why) = parts.broker.end_login(login).await {
                done = false;
                failed(&parts.audit, "a login to Vault", &why).await?;
            }
        }
        Ok(done)
    }
}

async fn failed(audit: &Audit, what: &str, why: &str) -> Result<(), AuditError> {
    tracing::warn!(why, "{what} could not be ended yet");
    let event = Event::new(EventName::ReconcileFailed)
        .with("what", what)
        .with("why", why);
    audit.record_closing(event).await.map(drop)
}
