//! Terraform states: every version that Terraform wrote, as soon as it did. They hold secrets.

use rusqlite::{Connection, OptionalExtension as _, Transaction};
use sandbox_core::ids::RequestId;
use sandbox_core::names::RootName;

use super::plans::number;
use super::{Envelope, Of, Store, StoreError, millis};

const ADD: &str = "INSERT INTO state_version (root, lineage, serial, bytes, request, made_ms) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
const NEWEST: &str = "SELECT lineage, serial, bytes, made_ms FROM state_version \
     WHERE root = ?1 ORDER BY id DESC LIMIT 1";
const STANDS: &str = "SELECT lineage, serial FROM state_version \
     WHERE root = ?1 ORDER BY id DESC LIMIT 1";
const FORGET: &str = "DELETE FROM state_version WHERE root = ?1 AND id NOT IN \
     (SELECT id FROM state_version WHERE root = ?1 ORDER BY id DESC LIMIT ?2)";

/// How many versions of a root's state are kept.
pub const KEPT_STATES: u32 = 50;

/// A state to keep. Not printable.
pub struct NewState {
    /// Of which root.
    pub root: RootName,
    /// Terraform's mark of where it began.
    pub lineage: String,
    /// Terraform's count of its versions.
    pub serial: u64,
    /// The state file, as it is kept.
    pub bytes: Envelope,
    /// The apply that made it; `None` when an operator brought it.
    pub request: Option<RequestId>,
}

/// A root's state. Not printable.
pub struct StoredState {
    /// Terraform's mark of where it began.
    pub lineage: String,
    /// Terraform's count of its versions.
    pub serial: u64,
    /// The state file, as it is kept.
    pub bytes: Envelope,
    /// When it was kept, in milliseconds since the Unix epoch.
    pub made_ms: i64,
}

impl StoredState {
    /// What its row is of.
    #[must_use]
    pub fn of<'a>(&'a self, root: &'a RootName) -> Of<'a> {
        Of::State {
            root,
            lineage: &self.lineage,
            serial: self.serial,
        }
    }
}

impl Store {
    /// Adds the next version of a root's state: of the same lineage and with a higher serial, or the
    /// first one there is.
    ///
    /// # Errors
    /// [`StoreError::StateDoesNotFollow`]; else when it could not be made durable.
    pub async fn add_state(&self, new: NewState, now_ms: u64) -> Result<(), StoreError> {
        self.write(move |tx| {
            if let Some((kept_lineage, kept_serial)) = stands(tx, &new.root)?
                && (kept_lineage != new.lineage || kept_serial >= new.serial)
            {
                return Err(StoreError::StateDoesNotFollow {
                    lineage: new.lineage,
                    serial: new.serial,
                    kept_lineage,
                    kept_serial,
                });
            }
            add(tx, &new, now_ms)
        })
        .await
    }

    /// Puts an operator's state in the place of whatever a root has.
    ///
    /// # Errors
    /// When it could not be made durable.
    pub async fn replace_state(&self, new: NewState, now_ms: u64) -> Result<(), StoreError> {
        self.write(move |tx| add(tx, &new, now_ms)).await
    }

    /// A root's state, if it has one.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn newest_state(&self, root: RootName) -> Result<Option<StoredState>, StoreError> {
        self.run(move |connection| {
            let newest = connection.query_row(NEWEST, (root.as_str(),), |row| {
                Ok(StoredState {
                    lineage: row.get(0)?,
                    serial: row.get::<_, i64>(1)?.unsigned_abs(),
                    bytes: Envelope::of_row(row.get(2)?),
                    made_ms: row.get(3)?,
                })
            });
            Ok(newest.optional()?)
        })
        .await
    }
}

fn stands(connection: &Connection, root: &RootName) -> Result<Option<(String, u64)>, StoreError> {
    let row = connection.query_row(STANDS, (root.as_str(),), |row| {
        Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs()))
    });
    Ok(row.optional()?)
}

fn add(tx: &Transaction<'_>, new: &NewState, now_ms: u64) -> Result<(), StoreError> {
    let row = (
        new.root.as_str(),
        &new.lineage,
        number(new.serial),
        new.bytes.as_row(),
        new.request.map(|id| id.to_string()),
        millis(now_ms),
    );
    tx.execute(ADD, row)?;
    tx.execute(FORGET, (new.root.as_str(), KEPT_STATES))?;
    Ok(())
}
