//! Saved plans and packed sources. A plan file holds secrets: it is kept for as long as it may be applied, and
//! overwritten when it may not.

use rusqlite::{Connection, OptionalExtension as _, Row, Transaction};
use sandbox_core::ids::RequestId;
use sandbox_core::names::RootName;
use sandbox_core::plan::PlanFacts;

use super::{Envelope, Of, Store, StoreError, millis};

const BUNDLE: &str =
    "INSERT INTO bundle (digest, tar) VALUES (?1, ?2) ON CONFLICT (digest) DO NOTHING";
const PLAN: &str = "INSERT INTO plan (root, request, bundle, inputs, lineage, serial, digest, bytes, \
     facts, diagnostics, made_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
/// The newest plan of a root may become an approval, and one with an open approval may be applied. With the
/// database's `secure_delete` what goes is overwritten.
const FORGET_BYTES: &str = "UPDATE plan SET bytes = NULL WHERE bytes IS NOT NULL \
     AND id NOT IN (SELECT max(id) FROM plan GROUP BY root) \
     AND id NOT IN (SELECT plan FROM approval WHERE state IN ('pending', 'granted'))";
const FORGET_BUNDLES: &str = "DELETE FROM bundle \
     WHERE digest NOT IN (SELECT bundle FROM plan WHERE bytes IS NOT NULL OR made_ms >= ?1) \
     AND digest NOT IN (SELECT bundle FROM applied_bundle)";
const FORGET_APPLIED: &str = "DELETE FROM applied_bundle \
     WHERE id NOT IN (SELECT max(id) FROM applied_bundle GROUP BY root)";
const COLUMNS: &str = "SELECT id, request, bundle, inputs, lineage, serial, digest, bytes, facts, \
     diagnostics, made_ms, root FROM plan";
const FACTS: &str = "SELECT facts FROM plan WHERE id = ?1";
const TAR: &str = "SELECT tar FROM bundle WHERE digest = ?1";
const DROP_BYTES: &str = "UPDATE plan SET bytes = NULL WHERE id = ?1";
const APPLIED: &str =
    "INSERT INTO applied_bundle (root, bundle, request, applied_ms) VALUES (?1, ?2, ?3, ?4)";
const LAST_APPLIED: &str = "SELECT b.digest, b.tar, a.applied_ms FROM applied_bundle a \
     JOIN bundle b ON b.digest = a.bundle WHERE a.root = ?1 ORDER BY a.id DESC LIMIT 1";

/// How long a bundle is kept that nobody can apply any more: as long as people can look at its approval.
const KEEP_BUNDLE_MS: u64 = 8 * 24 * 60 * 60 * 1000;

/// The row of one plan.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PlanKey(pub(super) i64);

/// What a plan was made from. A kept plan is good for what is asked now when all of it is the same.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MadeFrom {
    /// SHA-256 of the packed source.
    pub bundle: [u8; 32],
    /// SHA-256 over everything else that went in: root settings, variable values, workspace, image.
    pub inputs: [u8; 32],
    /// Of the state; empty where there was none.
    pub lineage: String,
    /// Of the state; 0 where there was none.
    pub serial: u64,
}

/// A plan that was just made. Not printable.
pub struct NewPlan {
    /// Of which root.
    pub root: RootName,
    /// By which request.
    pub request: RequestId,
    /// From what.
    pub from: MadeFrom,
    /// The packed source it was made from.
    pub tar: Vec<u8>,
    /// SHA-256 of the plan file.
    pub digest: [u8; 32],
    /// The plan file, as it is kept.
    pub bytes: Envelope,
    /// What it does.
    pub facts: PlanFacts,
    /// Terraform's own words, JSON; for approvers alone.
    pub diagnostics: String,
}

/// A plan as it was kept. Not printable.
pub struct StoredPlan {
    /// Its row.
    pub key: PlanKey,
    /// Of which root.
    pub root: RootName,
    /// By which request.
    pub request: RequestId,
    /// From what.
    pub from: MadeFrom,
    /// SHA-256 of the plan file.
    pub digest: [u8; 32],
    /// The plan file as it is kept, for as long as it may be applied.
    pub bytes: Option<Envelope>,
    /// What it does.
    pub facts: PlanFacts,
    /// Terraform's own words, JSON; for approvers alone.
    pub diagnostics: String,
    /// When it was made, in milliseconds since the Unix epoch.
    pub made_ms: i64,
}

/// What was applied to a root last.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AppliedBundle {
    /// SHA-256 of the packed source.
    pub digest: [u8; 32],
    /// The packed source.
    pub tar: Vec<u8>,
    /// When, in milliseconds since the Unix epoch.
    pub applied_ms: i64,
}

impl StoredPlan {
    /// What its row is of.
    #[must_use]
    pub fn of(&self) -> Of<'_> {
        Of::Plan {
            root: &self.root,
            digest: &self.digest,
        }
    }
}

impl Store {
    /// Keeps a plan, its source and what it says, and lets go of what cannot be applied any more.
    ///
    /// # Errors
    /// When it could not be made durable.
    pub async fn keep_plan(&self, new: NewPlan, now_ms: u64) -> Result<PlanKey, StoreError> {
        let facts = serde_json::to_string(&new.facts)
            .map_err(|e| StoreError::Unreadable(format!("what the plan says ({e})")))?;
        self.write(move |tx| {
            tx.execute(BUNDLE, (new.from.bundle, &new.tar))?;
            tx.execute(
                PLAN,
                rusqlite::params![
                    new.root.as_str(),
                    new.request.to_string(),
                    new.from.bundle,
                    new.from.inputs,
                    new.from.lineage,
                    number(new.from.serial),
                    new.digest,
                    new.bytes.as_row(),
                    facts,
                    new.diagnostics,
                    millis(now_ms),
                ],
            )?;
            let key = PlanKey(tx.last_insert_rowid());
            forget(tx, now_ms)?;
            Ok(key)
        })
        .await
    }

    /// The newest plan of a root that was made from just this and can still be applied.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn find_plan(
        &self,
        root: RootName,
        from: MadeFrom,
    ) -> Result<Option<StoredPlan>, StoreError> {
        self.run(move |connection| {
            let which = "WHERE root = ?1 AND bundle = ?2 AND inputs = ?3 AND lineage = ?4 AND serial = ?5 \
                 AND bytes IS NOT NULL ORDER BY id DESC LIMIT 1";
            let serial = number(from.serial);
            let values = (root.as_str(), from.bundle, from.inputs, from.lineage, serial);
            plan(connection, which, values)
        })
        .await
    }

    /// The plan of that row.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn plan(&self, key: PlanKey) -> Result<Option<StoredPlan>, StoreError> {
        self.run(move |connection| plan(connection, "WHERE id = ?1", (key.0,)))
            .await
    }

    /// What the plan of that row does, without the plan file.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn plan_facts(&self, key: PlanKey) -> Result<Option<PlanFacts>, StoreError> {
        self.run(move |connection| {
            let facts = connection.query_row(FACTS, (key.0,), |row| row.get::<_, String>(0));
            let read = |text: String| {
                serde_json::from_str(&text)
                    .map_err(|_| StoreError::Unreadable(format!("the facts of plan {}", key.0)))
            };
            facts.optional()?.map(read).transpose()
        })
        .await
    }

    /// Lets go of a plan file, which is not to be applied (again).
    ///
    /// # Errors
    /// When it could not be made durable.
    pub async fn drop_plan_bytes(&self, key: PlanKey) -> Result<(), StoreError> {
        self.write(move |tx| {
            tx.execute(DROP_BYTES, (key.0,))?;
            Ok(())
        })
        .await
    }

    /// The packed source of that digest, while it is kept.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn bundle(&self, digest: [u8; 32]) -> Result<Option<Vec<u8>>, StoreError> {
        self.run(move |connection| {
            let tar = connection.query_row(TAR, (digest,), |row| row.get(0));
            Ok(tar.optional()?)
        })
        .await
    }

    /// Writes down that a source was applied to a root; it stays until another one is.
    ///
    /// # Errors
    /// When it could not be made durable, also because the source is not kept.
    pub async fn bundle_applied(
        &self,
        root: RootName,
        digest: [u8; 32],
        request: RequestId,
        now_ms: u64,
    ) -> Result<(), StoreError> {
        self.write(move |tx| {
            let row = (root.as_str(), digest, request.to_string(), millis(now_ms));
            tx.execute(APPLIED, row)?;
            forget(tx, now_ms)
        })
        .await
    }

    /// The source that was applied to a root last.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn applied_bundle(
        &self,
        root: RootName,
    ) -> Result<Option<AppliedBundle>, StoreError> {
        self.run(move |connection| {
            let last = connection.query_row(LAST_APPLIED, (root.as_str(),), |row| {
                Ok(AppliedBundle {
                    digest: row.get(0)?,
                    tar: row.get(1)?,
                    applied_ms: row.get(2)?,
                })
            });
            Ok(last.optional()?)
        })
        .await
    }
}

fn forget(tx: &Transaction<'_>, now_ms: u64) -> Result<(), StoreError> {
    tx.execute(FORGET_BYTES, ())?;
    tx.execute(FORGET_APPLIED, ())?;
    tx.execute(
        FORGET_BUNDLES,
        (millis(now_ms.saturating_sub(KEEP_BUNDLE_MS)),),
    )?;
    Ok(())
}

fn plan(
    connection: &Connection,
    which: &str,
    values: impl rusqlite::Params,
) -> Result<Option<StoredPlan>, StoreError> {
    let mut query = connection.prepare_cached(&format!("{COLUMNS} {which}"))?;
    let mut rows = query.query(values)?;
    rows.next()?.map(read).transpose()
}

fn read(row: &Row<'_>) -> Result<StoredPlan, StoreError> {
    let key = PlanKey(row.get(0)?);
    let bad = |what: &str| StoreError::Unreadable(format!("the {what} of plan {}", key.0));
    let request: String = row.get(1)?;
    let facts: String = row.get(8)?;
    let root: String = row.get(11)?;
    Ok(StoredPlan {
        key,
        root: root.parse().map_err(|_| bad("root"))?,
        request: request.parse().map_err(|_| bad("request"))?,
        from: MadeFrom {
            bundle: row.get(2)?,
            inputs: row.get(3)?,
            lineage: row.get(4)?,
            serial: row.get::<_, i64>(5)?.unsigned_abs(),
        },
        digest: row.get(6)?,
        bytes: row.get::<_, Option<Vec<u8>>>(7)?.map(Envelope::of_row),
        facts: serde_json::from_str(&facts).map_err(|_| bad("facts"))?,
        diagnostics: row.get(9)?,
        made_ms: row.get(10)?,
    })
}

/// A serial as SQLite keeps it.
pub(super) fn number(serial: u64) -> i64 {
    i64::try_from(serial).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
