//! What the writer lets everyone else see: only what is durable.

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use sandbox_core::audit::{Checkpoint, Head};

use super::error::AuditError;
use super::file::free_bytes;
use super::index::Index;

/// The durable part of the trail. Locks are held for look-ups, never while the disk is waited for.
#[derive(Debug)]
pub(super) struct View {
    pub(super) path: PathBuf,
    pub(super) file: Arc<File>,
    low_water: u64,
    seen: RwLock<Seen>,
}

/// What is behind the lock.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) index: Index,
    pub(super) head: Head,
    pub(super) newest: Option<Checkpoint>,
    /// Writes that were made durable, each with any number of events.
    pub(super) commits: u64,
    /// Why no event that opens work is taken, until a restart.
    pub(super) stopped: Option<AuditError>,
}

/// How the trail is doing.
#[derive(Clone, Debug)]
pub struct Status {
    /// Where it ends.
    pub head: Head,
    /// Its length in bytes.
    pub bytes: u64,
    /// The newest signed checkpoint.
    pub newest: Option<Checkpoint>,
    /// Writes made durable since the daemon started; events that came together share one.
    pub commits: u64,
    /// Why new calls are refused, if they are.
    pub refusing: Option<AuditError>,
}

impl View {
    pub(super) fn new(path: PathBuf, file: Arc<File>, low_water: u64, seen: Seen) -> Self {
        Self {
            path,
            file,
            low_water,
            seen: RwLock::new(seen),
        }
    }

    // Nothing that runs under the lock can panic half-way, so what a poisoned lock guards is whole.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Seen> {
        self.seen.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn change(&self) -> RwLockWriteGuard<'_, Seen> {
        self.seen.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops new calls until a restart, unless something already did.
    pub(super) fn stop(&self, why: AuditError) {
        self.change().stopped.get_or_insert(why);
    }

    pub(super) fn status(&self) -> Status {
        let low = match free_bytes(&self.file) {
            Ok(free) if free < self.low_water => Some(AuditError::LowSpace {
                free,
                needed: self.low_water,
            }),
            Ok(_) => None,
            Err(e) => Some(AuditError::io("ask for space for", &self.path)(e)),
        };
        let seen = self.read();
        Status {
            head: seen.head,
            bytes: seen.index.size(),
            newest: seen.newest,
            commits: seen.commits,
            refusing: seen.stopped.clone().or(low),
        }
    }
}
