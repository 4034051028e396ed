//! What can be wrong with a trail, said so that a person knows where to look.

use std::fmt;

use super::checkpoint::{Checkpoint, CheckpointError, PublicKey};
use super::hash::{Head, Seq};
use super::record::{Malformed, Record};

/// The first line that is not as it was written, and what is wrong with it.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("line {line}: {kind}")]
pub struct Fault {
    /// Counted from 1. In a whole trail, also the `seq` that belongs there.
    pub line: u64,
    /// What is wrong.
    pub kind: FaultKind,
}

/// What is wrong with a line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum FaultKind {
    /// The last line has no LF: a write was cut short, or the file was.
    Torn {
        /// How much of it there is.
        bytes: u64,
    },
    /// It cannot be what a writer wrote.
    Malformed(Malformed),
    /// Lines that belong before it are gone.
    Missing {
        /// The first that is gone.
        first: Seq,
        /// The last that is gone.
        last: Seq,
    },
    /// The line that belongs here stands further down.
    Moved {
        /// The line that belongs here.
        seq: Seq,
        /// Where it stands.
        found: u64,
    },
    /// A line of this place was there before.
    Repeated {
        /// Its place.
        seq: Seq,
    },
    /// It is whole and in its place, but continues another line than the one before it.
    Unchained,
    /// It is a checkpoint that does not hold.
    Checkpoint(CheckpointFault),
    /// A checkpoint kept elsewhere says that this line had another hash.
    Forked {
        /// The checkpoint kept.
        kept: Box<Checkpoint>,
    },
    /// A checkpoint kept elsewhere covers lines that are not there.
    RolledBack {
        /// The checkpoint kept.
        kept: Box<Checkpoint>,
    },
    /// Whoever writes the trail knows it to end elsewhere.
    OtherEnd {
        /// The end it knows.
        known: Head,
    },
}

/// What is wrong with a checkpoint.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CheckpointFault {
    /// It cannot be read.
    Unreadable(CheckpointError),
    /// It states something else than the line before it.
    NotTheLineBefore,
    /// The signature is not its key's.
    BadSignature,
    /// Its key is not the one known until here.
    OtherKey {
        /// The key known.
        known: PublicKey,
        /// The key it names.
        found: PublicKey,
    },
}

impl Fault {
    /// Shows the fault another line of the trail, in order from the one after the first bad one. A gap
    /// turns out to be a move when the line that belongs there comes later.
    ///
    /// Returns whether nothing more can be learnt.
    pub fn consider(&mut self, line: u64, raw: &[u8]) -> bool {
        let FaultKind::Missing { first, .. } = self.kind else {
            return true;
        };
        let here = Record::read(raw).is_ok_and(|record| record.seq == first);
        if here {
            self.kind = FaultKind::Moved {
                seq: first,
                found: line,
            };
        }
        here
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Torn { bytes } => write!(f, "it is torn: {bytes} bytes and no end of line"),
            Self::Malformed(malformed) => write!(f, "it {malformed}"),
            Self::Missing { first, last } if first == last => {
                write!(f, "event {first} is missing before it: a line was cut")
            }
            Self::Missing { first, last } => {
                write!(
                    f,
                    "events {first} to {last} are missing before it: lines were cut"
                )
            }
            Self::Moved { seq, found } => {
                write!(
                    f,
                    "event {seq} belongs here and stands in line {found}: lines were swapped or moved"
                )
            }
            Self::Repeated { seq } => write!(
                f,
                "event {seq} was there before: a line was repeated or moved"
            ),
            Self::Unchained => f.write_str(
                "it does not continue the line before it: that line was replaced, or this one",
            ),
            Self::Checkpoint(fault) => write!(f, "it is a checkpoint that does not hold: {fault}"),
            Self::Forked { kept } => write!(
                f,
                "it is not the event {} that the checkpoint of {} covers: the trail was forked or rewritten",
                kept.head.seq, kept.time
            ),
            Self::RolledBack { kept } => write!(
                f,
                "the trail ends before event {}, which the checkpoint of {} covers: it was rolled back",
                kept.head.seq, kept.time
            ),
            Self::OtherEnd { known } => write!(
                f,
                "the trail was written up to event {} with the hash {}, and is not that any more",
                known.seq, known.hash
            ),
        }
    }
}

impl fmt::Display for CheckpointFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => error.fmt(f),
            Self::NotTheLineBefore => f.write_str(
                "it states another place or hash than the line before it has; lines up to here were rewritten",
            ),
            Self::BadSignature => {
                f.write_str("its signature is not its key's; lines up to here were rewritten by somebody else")
            }
            Self::OtherKey { known, found } => {
                write!(f, "the signing key changed from {known} to {found}")
            }
        }
    }
}
