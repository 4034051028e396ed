//! What must survive a crash: requests, leases and Jobs, each written down before and after its effect.
//!
//! One thread owns the connection; everyone else sends it a closure and waits. A method here is one
//! transaction and one sentence. No credential is ever stored. Saved plans and Terraform states are, with the
//! secrets in them: encrypted where a key of Vault's is configured, else as they are. The folder is closed to
//! everybody else, and what is deleted is overwritten.

mod approvals;
mod envelope;
mod jobs;
mod leases;
mod logins;
mod plans;
mod requests;
mod states;

use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};

#[cfg(test)]
pub(crate) use approvals::fixture;
pub use approvals::{NewApproval, StoredApproval, UnfinishedApply};
pub use envelope::{DataKey, Envelope, EnvelopeError, Of};
pub use jobs::OpenJob;
pub use leases::{LeaseKey, LeaseScope, OpenLease};
pub use plans::{AppliedBundle, MadeFrom, NewPlan, PlanKey, StoredPlan};
pub use requests::{OpenRequest, Opened};
pub use states::{KEPT_STATES, NewState, StoredState};

const MIGRATIONS: &[&str] = &[
    include_str!("store/0001_first.sql"),
    include_str!("store/0002_login.sql"),
    include_str!("store/0003_approval.sql"),
    include_str!("store/0004_unproven.sql"),
];

/// Why something could not be written down or read back.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// SQLite said no.
    #[error("the database refused")]
    Sqlite(#[from] rusqlite::Error),
    /// The database was written by a newer sandboxd.
    #[error("the database has version {found}, this sandboxd knows up to {known}")]
    Newer {
        /// What the file says.
        found: u32,
        /// What we can read.
        known: u32,
    },
    /// A row that must be there in that state was not.
    #[error("{0} is not in the state this step needs")]
    State(String),
    /// A row does not read back as it was written.
    #[error("{0} cannot be read back as it was written")]
    Unreadable(String),
    /// A Terraform state that is not the next one of what is kept.
    #[error(
        "a state of lineage {lineage:?} and serial {serial} does not follow the one that is kept, of \
         lineage {kept_lineage:?} and serial {kept_serial}"
    )]
    StateDoesNotFollow {
        /// Of the one that came.
        lineage: String,
        /// Likewise.
        serial: u64,
        /// Of the one that is there.
        kept_lineage: String,
        /// Likewise.
        kept_serial: u64,
    },
    /// The store's thread has ended.
    #[error("the store is closed")]
    Closed,
}

type Work = Box<dyn FnOnce(&mut Connection) + Send>;

/// The handle to the store's thread. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    work: mpsc::Sender<Work>,
}

impl Store {
    /// Opens or creates the database `sandboxd.db` in `directory` and brings it up to date.
    ///
    /// # Errors
    /// [`StoreError::Newer`] for a database of a later version; else what SQLite said.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        let path = directory.join("sandboxd.db");
        // SQLite gives its other files the rights of this one.
        std::fs::File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)
            .map_err(|e| rusqlite::Error::ToSqlConversionFailure(Box::new(e)))?;
        let mut connection = Connection::open(path)?;
        prepare(&mut connection)?;
        let (work, mut queue) = mpsc::channel::<Work>(64);
        std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || {
                while let Some(work) = queue.blocking_recv() {
                    work(&mut connection);
                }
            })
            .map_err(|e| rusqlite::Error::ToSqlConversionFailure(Box::new(e)))?;
        Ok(Self { work })
    }

    /// Runs `change` in one IMMEDIATE transaction; an error rolls it back.
    async fn write<T: Send + 'static>(
        &self,
        change: impl FnOnce(&rusqlite::Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.run(move |connection| {
            let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let answer = change(&tx)?;
            tx.commit()?;
            Ok(answer)
        })
        .await
    }

    async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        let work: Work = Box::new(move |connection| {
            // The asker may have gone; the change stands all the same.
            drop(answer.send(job(connection)));
        });
        self.work.send(work).await.map_err(|_| StoreError::Closed)?;
        answered.await.map_err(|_| StoreError::Closed)?
    }
}

fn prepare(connection: &mut Connection) -> Result<(), StoreError> {
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // In WAL mode NORMAL may lose the last commits when power fails.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // A plan file that was let go of must not be found in the free pages.
    connection.pragma_update(None, "secure_delete", true)?;
    let found: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let known = u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX);
    if found > known {
        return Err(StoreError::Newer { found, known });
    }
    for (number, migration) in (1_u32..)
        .zip(MIGRATIONS)
        .filter(|(number, _)| *number > found)
    {
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        tx.execute_batch(migration)?;
        tx.pragma_update(None, "user_version", number)?;
        tx.commit()?;
    }
    Ok(())
}

/// Succeeds when exactly one row changed: a guarded update that found its row in the expected state.
fn exactly_one(changed: usize, what: impl FnOnce() -> String) -> Result<(), StoreError> {
    if changed == 1 {
        Ok(())
    } else {
        Err(StoreError::State(what()))
    }
}

/// A time as SQLite keeps it.
fn millis(now_ms: u64) -> i64 {
    i64::try_from(now_ms).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
