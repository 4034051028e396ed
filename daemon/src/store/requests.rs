//! Requests: opened before anything happens for them, ended once.

use rusqlite::OptionalExtension as _;
use sandbox_core::ids::RequestId;
use sandbox_core::names::PrincipalName;
use sandbox_core::parameters::ActionName;

use super::{Store, StoreError, exactly_one, millis};

const FIND_KEY: &str =
    "SELECT id, action, parameters FROM request WHERE principal = ?1 AND idempotency_key = ?2";
const OPEN: &str = "INSERT INTO request (id, principal, action, parameters, idempotency_key, state, opened_ms) \
     VALUES (?1, ?2, ?3, ?4, ?5, 'running', ?6)";
const END: &str = "UPDATE request SET state = 'ended', outcome = ?2, ended_ms = ?3 WHERE id = ?1 AND state = 'running'";
const FIND: &str = "SELECT action, outcome FROM request WHERE id = ?1 AND principal = ?2";
const RUNNING: &str =
    "SELECT id, principal, action FROM request WHERE state = 'running' ORDER BY id";

/// What became of a wish to open a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Opened {
    /// It is new and now stored.
    New,
    /// The same principal asked the same with the same key before: that request.
    Repeated(RequestId),
    /// The key was used for something else.
    KeyTaken,
}

/// A request that was running when the daemon last looked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OpenRequest {
    /// Its id.
    pub id: RequestId,
    /// Whose it is.
    pub principal: String,
    /// What it was to run.
    pub action: String,
}

impl Store {
    /// Opens a request, unless its idempotency key was used before.
    ///
    /// # Errors
    /// When it could not be made durable; then nothing may be done for it.
    pub async fn open_request(
        &self,
        id: RequestId,
        principal: PrincipalName,
        (action, parameters): (ActionName, String),
        key: Option<String>,
        now_ms: u64,
    ) -> Result<Opened, StoreError> {
        self.write(move |tx| {
            if let Some(key) = &key {
                let before = tx
                    .query_row(FIND_KEY, (principal.as_str(), key), |row| {
                        Ok((
                            row.get::<_, String>(0)?,
                            row.get::<_, String>(1)?,
                            row.get::<_, String>(2)?,
                        ))
                    })
                    .optional()?;
                if let Some((before, a, p)) = before {
                    let same = a == action.as_str() && p == parameters;
                    return Ok(match before.parse() {
                        Ok(before) if same => Opened::Repeated(before),
                        _ => Opened::KeyTaken,
                    });
                }
            }
            let row = (
                id.to_string(),
                principal.as_str(),
                action.as_str(),
                parameters,
                key,
                millis(now_ms),
            );
            tx.execute(OPEN, row)?;
            Ok(Opened::New)
        })
        .await
    }

    /// Ends a running request.
    ///
    /// # Errors
    /// [`StoreError::State`] if it is not running.
    pub async fn end_request(
        &self,
        id: RequestId,
        outcome: &'static str,
        now_ms: u64,
    ) -> Result<(), StoreError> {
        self.write(move |tx| {
            let changed = tx.execute(END, (id.to_string(), outcome, millis(now_ms)))?;
            exactly_one(changed, || format!("request {id}"))
        })
        .await
    }

    /// The action and, if it has ended, the outcome of a principal's own request.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn find_request(
        &self,
        id: RequestId,
        principal: PrincipalName,
    ) -> Result<Option<(String, Option<String>)>, StoreError> {
        self.run(move |connection| {
            let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
            Ok(connection
                .query_row(FIND, (id.to_string(), principal.as_str()), row)
                .optional()?)
        })
        .await
    }

    /// Requests without an end: at start, those a crash left behind.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn running_requests(&self) -> Result<Vec<OpenRequest>, StoreError> {
        self.run(|connection| {
            let mut query = connection.prepare(RUNNING)?;
            let rows = query.query_map((), |row| {
                Ok((
                    row.get::<_, String>(0)?,
                    row.get::<_, String>(1)?,
                    row.get::<_, String>(2)?,
                ))
            })?;
            let mut open = Vec::new();
            for row in rows {
                let (id, principal, action) = row?;
                let id = id
                    .parse()
                    .map_err(|_| StoreError::State(format!("request {id}")))?;
                open.push(OpenRequest {
                    id,
                    principal,
                    action,
                });
            }
            Ok(open)
        })
        .await
    }
}
