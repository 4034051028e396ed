//! Holds the daemon to checkpoints seen before.

use std::fmt;
use std::path::PathBuf;

use ring::signature::{ED25519, UnparsedPublicKey};
use sandbox_core::audit::{Checkpoint, Head, LineHash, PublicKey, Seq, Signature, UtcMillis};
use sandbox_proto::approver::v1 as proto;

use crate::failure::Failure;

/// A checkpoint the daemon showed us in this run, its signature checked.
pub(crate) type Newest = Checkpoint;

/// A checkpoint from before, its signature checked.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) checkpoint: Checkpoint,
    /// The file it comes from.
    pub(crate) origin: PathBuf,
}

impl Held {
    pub(crate) fn seq(&self) -> u64 {
        self.checkpoint.head.seq.0
    }
}

/// Whether `signature` is this key's Ed25519 signature of `message`.
pub(crate) fn check_signature(key: &PublicKey, message: &[u8], signature: &Signature) -> bool {
    UnparsedPublicKey::new(&ED25519, key.0)
        .verify(message, &signature.0)
        .is_ok()
}

/// The newest checkpoint the daemon shows; none from a trail that is empty.
pub(crate) fn newest(status: &proto::GetStatusResponse) -> Result<Option<Newest>, Failure> {
    let Some(shown) = &status.checkpoint else {
        return Ok(None);
    };
    let checkpoint = from_proto(shown).filter(|checkpoint| checkpoint.is_signed(check_signature));
    checkpoint.map(Some).ok_or_else(|| {
        Failure::Alarm(format!(
            "the checkpoint that sandboxd shows for event {} is not signed by the key it names.\n{ADVICE}",
            shown.seq
        ))
    })
}

/// Holds what the daemon shows against one checkpoint. `at_seq_hash` is what it says that event's hash is.
pub(crate) fn check(
    held: &Held,
    newest: Option<&Newest>,
    at_seq_hash: &[u8],
) -> Result<(), Failure> {
    let alarm = |what| Err(Failure::Alarm(Alarm { what, held, newest }.to_string()));
    let kept = &held.checkpoint;
    match newest {
        Some(newest) if newest.key != kept.key => return alarm(What::OtherKey),
        None => return alarm(What::RolledBack),
        Some(newest) if newest.head.seq < kept.head.seq => return alarm(What::RolledBack),
        Some(_) => {}
    }
    match at_seq_hash {
        [] => alarm(What::RolledBack),
        hash if hash != kept.head.hash.as_bytes() => alarm(What::Forked),
        _ => Ok(()),
    }
}

#[derive(Clone, Copy)]
enum What {
    RolledBack,
    Forked,
    OtherKey,
}

struct Alarm<'a> {
    what: What,
    held: &'a Held,
    newest: Option<&'a Newest>,
}

const ADVICE: &str = "Believe nothing this daemon shows until that is explained.";

impl fmt::Display for Alarm<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = &self.held.checkpoint;
        let origin = self.held.origin.display();
        f.write_str(match self.what {
            What::RolledBack => "the audit trail was ROLLED BACK. Events that were there are gone.",
            What::Forked => "the audit trail was FORKED. An event that was there has become another one.",
            What::OtherKey => {
                "the audit trail is signed with ANOTHER KEY. It is another trail, or somebody replaced its key."
            }
        })?;
        write!(f, "\n  kept:  {}\n         in {origin}", Line(kept))?;
        match self.newest {
            Some(newest) => write!(f, "\n  shown: {}", Line(newest))?,
            None => f.write_str("\n  shown: no checkpoint at all")?,
        }
        write!(
            f,
            "\n{ADVICE} The kept checkpoint stays as it is. To see what the file itself says, as the daemon's user:\n  \
             sandboxd audit verify /var/lib/sandboxd/audit.jsonl --checkpoint COPY-OF-THE-KEPT-FILE\n\
             If the trail was begun anew on purpose, move {origin} away."
        )
    }
}

struct Line<'a>(&'a Checkpoint);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Checkpoint {
            head, time, key, ..
        } = self.0;
        write!(
            f,
            "event {}, signed {time}\n         hash {}\n         key  {key}",
            head.seq, head.hash
        )
    }
}

fn from_proto(shown: &proto::Checkpoint) -> Option<Checkpoint> {
    Some(Checkpoint {
        head: Head {
            seq: Seq(shown.seq),
            hash: LineHash::from_bytes(shown.hash.as_ref().try_into().ok()?),
        },
        time: UtcMillis::from_unix_ms(shown.time_ms),
        key: PublicKey(shown.public_key.as_ref().try_into().ok()?),
        signature: Signature(shown.signature.as_ref().try_into().ok()?),
    })
}
