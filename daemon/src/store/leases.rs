//! Leases: written down before Vault is asked, so that a lost answer can still be revoked.

use rusqlite::OptionalExtension as _;
use sandbox_core::ids::RequestId;
use sandbox_core::names::{MountName, NamespaceName};

use super::{Store, StoreError, exactly_one, millis};

const ASK: &str = "INSERT INTO lease (request, mount, role, namespace, state, asked_ms) VALUES (?1, ?2, ?3, ?4, 'asked', ?5)";
const CHILD: &str =
    "UPDATE lease SET state = 'child', accessor = ?2 WHERE id = ?1 AND state = 'asked'";
const ISSUED: &str = "UPDATE lease SET state = 'issued', lease_id = ?2, service_account = ?3 WHERE id = ?1 AND state = 'child'";
const REVOKED: &str = "UPDATE lease SET state = 'revoked' WHERE id = ?1 AND state <> 'closed'";
const CLOSED: &str =
    "UPDATE lease SET state = 'closed', closed_ms = ?2 WHERE id = ?1 AND state <> 'closed'";
const UNPROVEN: &str =
    "UPDATE lease SET unproven_ms = ifnull(unproven_ms, ?2) WHERE id = ?1 AND state <> 'closed'";
const FIND_UNPROVEN: &str = "SELECT request FROM lease WHERE state <> 'closed' AND unproven_ms IS NOT NULL \
     AND role IN (?1, ?2, ?3) ORDER BY id LIMIT 1";
const OPEN: &str = "SELECT id, request, namespace, accessor, lease_id, service_account \
     FROM lease WHERE state <> 'closed' ORDER BY id";

/// The row of one lease.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LeaseKey(i64);

/// What a credential is asked for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LeaseScope {
    /// The engine that is asked.
    pub mount: MountName,
    /// The engine's role: the reviewed Role it binds.
    pub role: String,
    /// Where the credential is good.
    pub namespace: NamespaceName,
}

/// A lease whose end is not proven.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OpenLease {
    /// Its row.
    pub key: LeaseKey,
    /// For which request.
    pub request: RequestId,
    /// Where it is good.
    pub namespace: String,
    /// Of the child token it hangs from, once that was made.
    pub accessor: Option<String>,
    /// Vault's id, once it was issued and the answer arrived.
    pub lease_id: Option<String>,
    /// The generated `ServiceAccount`, likewise.
    pub service_account: Option<String>,
}

impl Store {
    /// Writes down that a credential will be asked for.
    ///
    /// # Errors
    /// When it could not be made durable; then it must not be asked for.
    pub async fn lease_asked(
        &self,
        request: RequestId,
        scope: LeaseScope,
        now_ms: u64,
    ) -> Result<LeaseKey, StoreError> {
        self.write(move |tx| {
            let LeaseScope {
                mount,
                role,
                namespace,
            } = &scope;
            let row = (
                request.to_string(),
                mount.as_str(),
                role,
                namespace.as_str(),
                millis(now_ms),
            );
            tx.execute(ASK, row)?;
            Ok(LeaseKey(tx.last_insert_rowid()))
        })
        .await
    }

    /// Writes down the child token's accessor, before the credential is asked for.
    ///
    /// # Errors
    /// When it could not be made durable; then the credential must not be asked for.
    pub async fn lease_child(&self, key: LeaseKey, accessor: String) -> Result<(), StoreError> {
        self.lease_step(key, move |tx| tx.execute(CHILD, (key.0, accessor)))
            .await
    }

    /// Writes down what was issued.
    ///
    /// # Errors
    /// When it could not be made durable.
    pub async fn lease_issued(
        &self,
        key: LeaseKey,
        lease_id: String,
        service_account: String,
    ) -> Result<(), StoreError> {
        self.lease_step(key, move |tx| {
            tx.execute(ISSUED, (key.0, lease_id, service_account))
        })
        .await
    }

    /// Writes down that Vault revoked it; its end is still to be proven.
    ///
    /// # Errors
    /// When it could not be made durable.
    pub async fn lease_revoked(&self, key: LeaseKey) -> Result<(), StoreError> {
        self.lease_step(key, move |tx| tx.execute(REVOKED, (key.0,)))
            .await
    }

    /// Writes down that it is over: proven dead, or never issued.
    ///
    /// # Errors
    /// When it could not be made durable.
    pub async fn lease_closed(&self, key: LeaseKey, now_ms: u64) -> Result<(), StoreError> {
        self.lease_step(key, move |tx| tx.execute(CLOSED, (key.0, millis(now_ms))))
            .await
    }

    /// Writes down that the end of its credential is overdue.
    ///
    /// # Errors
    /// When it could not be made durable.
    pub async fn lease_unproven(&self, key: LeaseKey, now_ms: u64) -> Result<(), StoreError> {
        self.lease_step(key, move |tx| tx.execute(UNPROVEN, (key.0, millis(now_ms))))
            .await
    }

    /// The first request with a credential of one of these roles whose end is overdue.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn unproven_of(&self, roles: [String; 3]) -> Result<Option<RequestId>, StoreError> {
        self.run(move |connection| {
            let request = connection.query_row(FIND_UNPROVEN, roles, |row| row.get::<_, String>(0));
            request.optional()?.map(|id| request_id(&id)).transpose()
        })
        .await
    }

    async fn lease_step(
        &self,
        key: LeaseKey,
        step: impl FnOnce(&rusqlite::Transaction<'_>) -> rusqlite::Result<usize> + Send + 'static,
    ) -> Result<(), StoreError> {
        self.write(move |tx| exactly_one(step(tx)?, || format!("lease {}", key.0)))
            .await
    }

    /// Leases that are not over.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn open_leases(&self) -> Result<Vec<OpenLease>, StoreError> {
        self.run(|connection| {
            let mut query = connection.prepare(OPEN)?;
            let mut rows = query.query(())?;
            let mut open = Vec::new();
            while let Some(row) = rows.next()? {
                let request: String = row.get(1)?;
                open.push(OpenLease {
                    key: LeaseKey(row.get(0)?),
                    request: request_id(&request)?,
                    namespace: row.get(2)?,
                    accessor: row.get(3)?,
                    lease_id: row.get(4)?,
                    service_account: row.get(5)?,
                });
            }
            Ok(open)
        })
        .await
    }
}

fn request_id(text: &str) -> Result<RequestId, StoreError> {
    let bad = |_| StoreError::Unreadable(format!("the request {text} of a lease"));
    text.parse().map_err(bad)
}
