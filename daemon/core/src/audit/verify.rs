//! Checks a trail line by line, keeping nothing but where it stands.

use super::checkpoint::{CheckSignature, Checkpoint, PublicKey};
use super::event::EventName;
use super::fault::{CheckpointFault, Fault, FaultKind};
use super::hash::{Head, Seq};
use super::record::Record;

/// A fold over the lines of a trail. After its first fault it has nothing more to say.
#[derive(Clone, Debug)]
pub struct Verifier {
    check: CheckSignature,
    start: Head,
    head: Head,
    key: Option<PublicKey>,
    kept: Vec<Checkpoint>,
    newest: Option<Checkpoint>,
    checkpoints: u64,
}

/// What holds of a trail that was read to its end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Verified {
    /// How many lines were read.
    pub events: u64,
    /// Where it ends.
    pub head: Head,
    /// How many signed checkpoints stand in it, all good.
    pub checkpoints: u64,
    /// The newest of them.
    pub newest: Option<Checkpoint>,
}

impl Verified {
    /// Events that no checkpoint covers: chained, but anybody who can write the file could have.
    #[must_use]
    pub fn unsigned(&self) -> u64 {
        // A checkpoint covers the line before its own; its own line it signs for by being there.
        self.newest.map_or(self.events, |newest| {
            self.head.seq.0 - newest.head.seq.next().0
        })
    }
}

impl Verifier {
    /// For a whole trail, from its first line.
    #[must_use]
    pub fn from_start(check: CheckSignature) -> Self {
        Self::after(Head::START, check)
    }

    /// For the rest of a trail whose beginning is known to be good.
    #[must_use]
    pub fn after(start: Head, check: CheckSignature) -> Self {
        Self {
            check,
            start,
            head: start,
            key: None,
            kept: Vec::new(),
            newest: None,
            checkpoints: 0,
        }
    }

    /// Also holds the trail against a checkpoint that was kept elsewhere: its line must be there with
    /// its hash, and no other key may have signed. Can be called for several.
    ///
    /// The checkpoint's own signature is the caller's to check, see [`Checkpoint::is_signed`].
    #[must_use]
    pub fn against(mut self, kept: Checkpoint) -> Self {
        self.key.get_or_insert(kept.key);
        self.kept.push(kept);
        self
    }

    /// Where the trail stands after the lines so far.
    #[must_use]
    pub fn head(&self) -> Head {
        self.head
    }

    /// The newest checkpoint so far.
    #[must_use]
    pub fn newest(&self) -> Option<Checkpoint> {
        self.newest
    }

    /// Takes the next line, without its LF.
    ///
    /// # Errors
    /// [`Fault`], when the line is not what must come next.
    pub fn push(&mut self, line: &[u8]) -> Result<Record, Fault> {
        let record = Record::read(line).map_err(|e| self.fault(FaultKind::Malformed(e)))?;
        self.check_place(&record).map_err(|kind| self.fault(kind))?;
        if record.event == EventName::AuditCheckpoint {
            let checkpoint = self
                .check_checkpoint(&record)
                .map_err(|kind| self.fault(FaultKind::Checkpoint(kind)))?;
            self.key = Some(checkpoint.key);
            self.newest = Some(checkpoint);
            self.checkpoints += 1;
        }
        let head = Head {
            seq: record.seq,
            hash: record.hash,
        };
        let forked = |kept: &&Checkpoint| kept.head.seq == head.seq && kept.head.hash != head.hash;
        if let Some(kept) = self.kept.iter().find(forked) {
            return Err(self.fault(FaultKind::Forked {
                kept: Box::new(*kept),
            }));
        }
        self.head = head;
        Ok(record)
    }

    /// Ends the trail. `torn_bytes` is what stands after the last LF, if anything does.
    ///
    /// # Errors
    /// [`Fault`], when the end is not one.
    pub fn finish(self, torn_bytes: u64) -> Result<Verified, Fault> {
        if torn_bytes > 0 {
            return Err(self.fault(FaultKind::Torn { bytes: torn_bytes }));
        }
        let beyond = |kept: &&Checkpoint| kept.head.seq > self.head.seq;
        if let Some(kept) = self.kept.iter().find(beyond) {
            return Err(self.fault(FaultKind::RolledBack {
                kept: Box::new(*kept),
            }));
        }
        Ok(Verified {
            events: self.head.seq.0 - self.start.seq.0,
            head: self.head,
            checkpoints: self.checkpoints,
            newest: self.newest,
        })
    }

    fn check_place(&self, record: &Record) -> Result<(), FaultKind> {
        let expected = self.head.seq.next();
        if record.seq < expected {
            return Err(FaultKind::Repeated { seq: record.seq });
        }
        if record.seq > expected {
            return Err(FaultKind::Missing {
                first: expected,
                last: Seq(record.seq.0 - 1),
            });
        }
        if record.prev == self.head.hash {
            Ok(())
        } else {
            Err(FaultKind::Unchained)
        }
    }

    /// A checkpoint's place has been checked, so `prev` is the hash of the line before it.
    fn check_checkpoint(&self, record: &Record) -> Result<Checkpoint, CheckpointFault> {
        let checkpoint =
            Checkpoint::from_fields(&record.fields).map_err(CheckpointFault::Unreadable)?;
        if checkpoint.head != self.head {
            return Err(CheckpointFault::NotTheLineBefore);
        }
        if !checkpoint.is_signed(self.check) {
            return Err(CheckpointFault::BadSignature);
        }
        match self.key {
            Some(known) if known != checkpoint.key => Err(CheckpointFault::OtherKey {
                known,
                found: checkpoint.key,
            }),
            Some(_) | None => Ok(checkpoint),
        }
    }

    fn fault(&self, kind: FaultKind) -> Fault {
        Fault {
            line: self.head.seq.0 + 1,
            kind,
        }
    }
}
