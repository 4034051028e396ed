//! Logins to Vault: whatever a killed daemon had asked for under its own is ended with it.

use super::{Store, StoreError, millis};

const OPEN: &str = "INSERT INTO login (accessor, opened_ms) VALUES (?1, ?2)";
const CLOSE: &str = "DELETE FROM login WHERE accessor = ?1";
const ALL: &str = "SELECT accessor FROM login ORDER BY opened_ms";

impl Store {
    /// Writes a login down, before anything is asked for under it.
    ///
    /// # Errors
    /// When it could not be made durable; then nothing must be asked for under it.
    pub async fn login_opened(&self, accessor: String, now_ms: u64) -> Result<(), StoreError> {
        self.write(move |tx| {
            tx.execute(OPEN, (accessor, millis(now_ms)))?;
            Ok(())
        })
        .await
    }

    /// Writes down that a login is over. One that is not known is no error.
    ///
    /// # Errors
    /// When it could not be made durable.
    pub async fn login_closed(&self, accessor: String) -> Result<(), StoreError> {
        self.write(move |tx| {
            tx.execute(CLOSE, (accessor,))?;
            Ok(())
        })
        .await
    }

    /// The accessors of logins that are not over.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn open_logins(&self) -> Result<Vec<String>, StoreError> {
        self.run(|connection| {
            let mut query = connection.prepare(ALL)?;
            let rows = query.query_map((), |row| row.get(0))?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }
}
