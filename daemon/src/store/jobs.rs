//! Jobs: written down before they are created, so that none is forgotten.

use sandbox_core::ids::RequestId;

use super::{Store, StoreError, exactly_one, millis};

const OPEN: &str = "INSERT INTO job (name, state, created_ms) VALUES (?1, 'open', ?2)";
const CLAIM: &str =
    "UPDATE job SET request = ?2 WHERE name = ?1 AND state = 'open' AND request IS NULL";
const DELETE: &str =
    "UPDATE job SET state = 'deleted', deleted_ms = ?2 WHERE name = ?1 AND state = 'open'";
const ALL_OPEN: &str = "SELECT name, request FROM job WHERE state = 'open' ORDER BY created_ms";

/// A Job that is not known to be gone.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OpenJob {
    /// Its name in the cluster.
    pub name: String,
    /// The request it served, if it was claimed.
    pub request: Option<String>,
}

impl Store {
    /// Writes down that a Job will be created.
    ///
    /// # Errors
    /// When it could not be made durable; then it must not be created.
    pub async fn job_opened(&self, name: String, now_ms: u64) -> Result<(), StoreError> {
        self.write(move |tx| {
            tx.execute(OPEN, (name, millis(now_ms)))?;
            Ok(())
        })
        .await
    }

    /// Gives a Job to a request, for good: a Job serves one request.
    ///
    /// # Errors
    /// [`StoreError::State`] if it was claimed before or is gone.
    pub async fn job_claimed(&self, name: String, request: RequestId) -> Result<(), StoreError> {
        self.write(move |tx| {
            exactly_one(tx.execute(CLAIM, (&name, request.to_string()))?, || {
                format!("Job {name}")
            })
        })
        .await
    }

    /// Writes down that a Job and its pod are gone. Saying it twice is no error.
    ///
    /// # Errors
    /// When it could not be made durable.
    pub async fn job_deleted(&self, name: String, now_ms: u64) -> Result<(), StoreError> {
        self.write(move |tx| {
            tx.execute(DELETE, (name, millis(now_ms)))?;
            Ok(())
        })
        .await
    }

    /// Jobs not known to be gone.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn open_jobs(&self) -> Result<Vec<OpenJob>, StoreError> {
        self.run(|connection| {
            let mut query = connection.prepare(ALL_OPEN)?;
            let rows = query.query_map((), |row| {
                Ok(OpenJob {
                    name: row.get(0)?,
                    request: row.get(1)?,
                })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }
}
