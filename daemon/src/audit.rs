//! The audit trail on disk: every event durable before its effect, one line each.
//!
//! One thread owns the file. Events from many tasks that arrive while it waits for the disk share the
//! next `fdatasync`; [`Audit::record`] resolves after it. The bytes and the chain are
//! [`sandbox_core::audit`]'s; this module adds the disk, the signing key and the questions.
//!
//! # In the state folder
//! | file | |
//! |---|---|
//! | `audit.jsonl` | the trail; only ever appended to |
//! | `audit.key` | the Ed25519 key (PKCS#8) that signs checkpoints, 0600, made at first start |
//! | `audit.lock` | held while a daemon uses the folder, with its pid |
//! | `audit.torn-SEQ-HASH` | half a last line that a crash left, set aside at start |
//!
//! # When the disk is full
//! Blocks for [`Settings::reserve_bytes`] are kept allocated behind the end of the trail. Events that
//! open work never touch them: they are refused with [`AuditError::LowSpace`], as they are when the disk
//! has less than [`Settings::low_water_bytes`] left. Events that end work or tell of what has happened
//! ([`EventName::may_use_reserve`]) are written into them. A write that does not fit after all is
//! taken back, so no line is ever half there for a later one to follow.
//!
//! # When the trail is not as it was written
//! [`Audit::open`] verifies all of it and refuses to go on from damage; half a last line, what a crash
//! leaves, is set aside and told of. While running, every write first checks that the file is still the
//! one opened, as long as it was left. After a failed `fdatasync` nobody knows what the disk holds, so
//! nothing more is written until a restart has read it again.
//!
//! # A secret is not a field
//! Text is:
//! ```
//! use sandbox_core::audit::{Event, EventName};
//! let detail = String::from("it answered");
//! let event = Event::new(EventName::ToolResult).with("detail", detail);
//! ```
//! A secret does not compile:
//! ```compile_fail
//! use sandbox_core::audit::{Event, EventName};
//! let detail = secrecy::SecretString::from("it answered");
//! let event = Event::new(EventName::ToolResult).with("detail", detail);
//! ```

mod error;
mod folder;
mod key;
mod file;
mod lines;
mod index;
mod view;
mod writer;
mod start;
mod query;
mod verify;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sandbox_core::audit::{Checkpoint, Draft, Event, LineHash, Seq, Verified};
use tokio::sync::{mpsc, oneshot};

pub use error::{AuditError, QueryError};
pub use key::check_signature;
pub use query::{Filter, LineStream, StoredLine};
pub use start::{OpenReport, TornLine};
pub use verify::{AuditCommand, VerifyError, verify_file};
pub use view::Status;

use crate::clock::Clock;
use view::View;
use writer::Message;

/// Drafts that may wait for the writer before [`Audit::record`] waits to hand over its own.
const QUEUE: usize = 1024;

/// What an operator may set.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Free space on the disk, in bytes, under which events that open work are refused.
    pub low_water_bytes: u64,
    /// Space kept allocated for events that end work, in bytes. One call ends in some 3 KiB of them.
    pub reserve_bytes: u64,
    /// A checkpoint is signed after this many events,
    pub checkpoint_every: u64,
    /// or when this long nothing was recorded and the last event is not covered yet.
    pub checkpoint_idle: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            low_water_bytes: 64 * 1024 * 1024,
            reserve_bytes: 1024 * 1024,
            checkpoint_every: 1_000,
            checkpoint_idle: Duration::from_secs(5),
        }
    }
}

/// The handle to the trail. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Audit {
    queue: mpsc::Sender<Message>,
    view: Arc<View>,
}

impl Audit {
    /// Opens the trail in `directory`, or begins one. Reads all of it, so it blocks: a release
    /// build reads some 200,000 events a second.
    ///
    /// # Errors
    /// [`AuditError::Locked`] when another daemon has the folder; [`AuditError::Damaged`] with the
    /// first bad line; [`AuditError::Folder`] and [`AuditError::Key`] when others could have written
    /// here or the signing key is not the one the trail knows.
    pub fn open(
        directory: &Path,
        settings: Settings,
        clock: Clock,
    ) -> Result<(Self, OpenReport), AuditError> {
        let (writer, report) = start::open(directory, settings, clock)?;
        let view = writer.view();
        let (queue, messages) = mpsc::channel(QUEUE);
        writer.start(messages)?;
        Ok((Self { queue, view }, report))
    }

    /// Writes an event down and resolves once it is durable. Dropping the future does not take the
    /// event back.
    ///
    /// # Errors
    /// With any error the event is not in the trail and what it announces must not happen.
    /// [`AuditError::LowSpace`] comes only for events that open work.
    pub async fn record(&self, event: Event) -> Result<Seq, AuditError> {
        let draft = Draft::new(event)?;
        self.ask(|reply| Message::Append { draft, reply }).await
    }

    /// As [`Audit::record`], and says where it is called that this event has to get through when the
    /// disk is full. Which events do is decided by their names alone.
    ///
    /// # Errors
    /// As [`Audit::record`].
    pub async fn record_closing(&self, event: Event) -> Result<Seq, AuditError> {
        debug_assert!(
            event.name().may_use_reserve(),
            "{} ends nothing",
            event.name()
        );
        self.record(event).await
    }

    /// Signs how far the trail has come, if that is not signed yet, and returns the newest checkpoint;
    /// `None` while the trail is empty.
    ///
    /// # Errors
    /// As [`Audit::record`] of an event that opens work.
    pub async fn checkpoint(&self) -> Result<Option<Checkpoint>, AuditError> {
        self.ask(|reply| Message::Checkpoint { reply }).await
    }

    /// Signs the end of the trail and gives the folder back. Every handle is closed then.
    ///
    /// # Errors
    /// As [`Audit::record`] of an event that ends work. The folder is given back all the same.
    pub async fn close(&self) -> Result<Option<Checkpoint>, AuditError> {
        self.ask(|reply| Message::Close { reply }).await
    }

    /// The lines that the filter asks for, in order, byte for byte, up to the newest durable one.
    ///
    /// For one request it reads the blocks of 256 lines that have events of it: one or two for most.
    /// The index behind that takes about one byte of memory an event.
    ///
    /// # Errors
    /// [`QueryError`], when the request is unknown or the beginning of its id means several.
    pub async fn query(&self, filter: Filter) -> Result<LineStream, QueryError> {
        query::start(Arc::clone(&self.view), filter).await
    }

    /// Reads the whole trail and checks everything that can be checked about it, also against what this
    /// daemon knows it wrote. Damage found stops new calls until it is looked into.
    ///
    /// # Errors
    /// [`VerifyError::Fault`] with the first bad line; [`VerifyError::Read`] when the disk fails.
    pub async fn verify(&self) -> Result<Verified, VerifyError> {
        verify::running(Arc::clone(&self.view)).await
    }

    /// The hash of an event; `None` when there is no such event. Reads one block of 256 lines.
    ///
    /// # Errors
    /// [`AuditError::Io`], when the disk fails.
    pub async fn hash_at(&self, seq: Seq) -> Result<Option<LineHash>, AuditError> {
        query::hash_at(Arc::clone(&self.view), seq).await
    }

    /// How the trail is doing. Asks the disk for its free space, nothing else.
    #[must_use]
    pub fn status(&self) -> Status {
        self.view.status()
    }

    async fn ask<T>(
        &self,
        message: impl FnOnce(oneshot::Sender<Result<T, AuditError>>) -> Message,
    ) -> Result<T, AuditError> {
        let (reply, answer) = oneshot::channel();
        self.queue
            .send(message(reply))
            .await
            .map_err(|_| AuditError::Closed)?;
        answer.await.map_err(|_| AuditError::Closed)?
    }
}
