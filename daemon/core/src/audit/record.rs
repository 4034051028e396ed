//! An event becoming a line, and a line becoming an event again.

use std::fmt::Write as _;

use serde::Deserialize;

use super::encode;
use super::event::{Event, EventName};
use super::hash::{Head, LineHash, Seq};
use super::scrub;
use super::time::UtcMillis;
use super::value::{Fields, Value};
use crate::ids::RequestId;
use crate::names::PrincipalName;

/// The schema version in `v`.
const VERSION: u32 = 1;
/// The longest line, its LF not counted. Parameters and reasons are bounded far below this where they
/// come in; a line of this size still fits one message of the approver's service.
pub const MAX_LINE_BYTES: usize = 256 * 1024;
/// What a draft may take of that; the rest is for the members that sealing adds.
const MAX_DRAFT_BYTES: usize = MAX_LINE_BYTES - 512;
const HASH_MEMBER: &str = ",\"hash\":\"";
const PREV_MEMBER: &str = ",\"prev\":\"";
/// `,"hash":"` and 64 hex digits and `"}`.
const TAIL_BYTES: usize = HASH_MEMBER.len() + 64 + 2;

/// The event does not fit a line.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the event takes {bytes} bytes, more than {MAX_DRAFT_BYTES}")]
pub struct TooLarge {
    /// What it would take.
    pub bytes: usize,
}

/// An event, scrubbed and written out: all of its line but time, place and chain.
#[derive(Clone, Debug)]
pub struct Draft {
    name: EventName,
    request_id: Option<RequestId>,
    members: String,
}

impl Draft {
    /// Scrubs the event and writes it out.
    ///
    /// # Errors
    /// [`TooLarge`] when it would make a line longer than any reader takes. An event that tells of an
    /// end is never refused: its fields give way to their size, because that it ended must be told.
    pub fn new(event: Event) -> Result<Self, TooLarge> {
        let Event {
            name,
            request_id,
            principal,
            fields,
        } = event;
        let draft = Self::write(name, request_id, principal.as_ref(), &scrub::fields(fields));
        let bytes = draft.members.len();
        match (bytes > MAX_DRAFT_BYTES, name.may_use_reserve()) {
            (false, _) => Ok(draft),
            (true, false) => Err(TooLarge { bytes }),
            (true, true) => {
                let left_out = format!("fields that would have taken {bytes} bytes");
                let fields = Fields::from([("left_out".to_owned(), Value::from(left_out))]);
                Ok(Self::write(name, request_id, principal.as_ref(), &fields))
            }
        }
    }

    fn write(
        name: EventName,
        request_id: Option<RequestId>,
        principal: Option<&PrincipalName>,
        fields: &Fields,
    ) -> Self {
        let mut members = String::with_capacity(512);
        if let Some(id) = request_id {
            write!(members, ",\"request_id\":\"{id}\"").expect("writing to a String does not fail");
        }
        if let Some(principal) = principal {
            members.push_str(",\"principal\":");
            encode::string(&mut members, principal.as_str());
        }
        write!(members, ",\"event\":\"{name}\",\"fields\":")
            .expect("writing to a String does not fail");
        encode::object(&mut members, fields);
        Self {
            name,
            request_id,
            members,
        }
    }

    /// What it is.
    #[must_use]
    pub fn name(&self) -> EventName {
        self.name
    }

    /// The request it is of.
    #[must_use]
    pub fn request_id(&self) -> Option<RequestId> {
        self.request_id
    }

    /// No more bytes than its line will take, its LF included.
    #[must_use]
    pub fn max_line_bytes(&self) -> usize {
        self.members.len() + 512
    }

    /// Appends the line that comes after `head`, with its LF, and says where the trail stands then.
    #[must_use = "without the new head the next line would not continue this one"]
    pub fn seal(&self, head: Head, time: UtcMillis, out: &mut Vec<u8>) -> Head {
        let (seq, prev, members) = (head.seq.next(), head.hash, &self.members);
        let body = format!(
            "{{\"v\":{VERSION},\"seq\":{seq},\"time\":\"{time}\"{members}{PREV_MEMBER}{prev}\""
        );
        let hash = LineHash::of(body.as_bytes());
        out.extend_from_slice(body.as_bytes());
        out.extend_from_slice(format!("{HASH_MEMBER}{hash}\"}}\n").as_bytes());
        Head { seq, hash }
    }
}

/// The line is not one that this version would have written.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Malformed {
    /// Longer than any line may be.
    #[error("is longer than {MAX_LINE_BYTES} bytes")]
    TooLong,
    /// Not the frame of a line, or not JSON with the members of one.
    #[error("is not an audit line: {0}")]
    NotALine(String),
    /// The bytes are not those its own hash was worked out over.
    #[error("does not fit its own hash: it was edited")]
    Edited,
    /// It says what a line may say, in other words than a writer uses.
    #[error("fits its hash but is not written as the trail writes: no writer of ours made it")]
    NotCanonical,
}

/// One line, read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Record {
    /// Its place.
    pub seq: Seq,
    /// When it was written.
    pub time: UtcMillis,
    /// The request it is of, if it is of one.
    pub request_id: Option<RequestId>,
    /// Who caused it, if someone did.
    pub principal: Option<PrincipalName>,
    /// What happened.
    pub event: EventName,
    /// What there is to tell of it.
    pub fields: Fields,
    /// The hash of the line before.
    pub prev: LineHash,
    /// This line's hash.
    pub hash: LineHash,
}

/// As JSON gives the members; each that has a grammar is parsed after.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    v: u32,
    seq: u64,
    time: String,
    request_id: Option<String>,
    principal: Option<String>,
    event: String,
    // By way of serde_json's own type: it reads numbers rightly whatever features another crate of the
    // build switches on.
    fields: serde_json::Map<String, serde_json::Value>,
    prev: String,
    hash: String,
}

impl Record {
    /// Reads a line, without its LF. Its hash is checked first, then its form, byte for byte; its place
    /// in the chain is the verifier's matter.
    ///
    /// # Errors
    /// [`Malformed`], with what is wrong.
    pub fn read(line: &[u8]) -> Result<Self, Malformed> {
        if line.len() > MAX_LINE_BYTES {
            return Err(Malformed::TooLong);
        }
        let (body, hash) =
            split_hash(line).ok_or_else(|| not_a_line("it does not end in a hash"))?;
        if LineHash::of(body) != hash {
            return Err(Malformed::Edited);
        }
        let wire: Wire = serde_json::from_slice(line).map_err(|e| not_a_line(e.to_string()))?;
        if wire.v != VERSION {
            return Err(not_a_line(format!("it is of schema version {}", wire.v)));
        }
        if wire.seq == 0 {
            return Err(not_a_line("seq counts from 1"));
        }
        let record = Self::parse(wire)?;
        if record.to_line() == line {
            Ok(record)
        } else {
            Err(Malformed::NotCanonical)
        }
    }

    fn parse(wire: Wire) -> Result<Self, Malformed> {
        Ok(Self {
            seq: Seq(wire.seq),
            time: wire.time.parse().map_err(|e| named("time", e))?,
            request_id: wire
                .request_id
                .map(|id| id.parse())
                .transpose()
                .map_err(|e| named("request_id", e))?,
            principal: wire
                .principal
                .map(|p| p.parse())
                .transpose()
                .map_err(|e| named("principal", e))?,
            event: wire
                .event
                .parse()
                .map_err(|e| named(&wire.event.escape_debug().to_string(), e))?,
            fields: wire
                .fields
                .into_iter()
                .map(|(key, value)| (key, value.into()))
                .collect(),
            prev: wire.prev.parse().map_err(|e| named("prev", e))?,
            hash: wire.hash.parse().map_err(|e| named("hash", e))?,
        })
    }

    /// The line, without its LF.
    fn to_line(&self) -> Vec<u8> {
        let Self {
            seq,
            time,
            request_id,
            principal,
            event,
            fields,
            prev,
            hash: _,
        } = self;
        let mut line = Vec::with_capacity(1024);
        let before = Head {
            seq: Seq(seq.0.saturating_sub(1)),
            hash: *prev,
        };
        let _head: Head = Draft::write(*event, *request_id, principal.as_ref(), fields)
            .seal(before, *time, &mut line);
        line.truncate(line.len() - 1);
        line
    }
}

/// What a line says of its place, taken from where it stands without checking anything.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Glance {
    /// Its place.
    pub seq: Seq,
    /// The request it is of, if it is of one.
    pub request_id: Option<RequestId>,
}

impl Glance {
    /// Looks at a line of a trail that has been verified. `None` for what is not one.
    #[must_use]
    pub fn at(line: &[u8]) -> Option<Self> {
        const SEQ_AT: usize = "{\"v\":1,\"seq\":".len();
        const TIME_BYTES: usize = ",\"time\":\"2026-03-01T09:30:00.125Z\"".len();
        const ID_BYTES: usize = 36;
        let from_seq = line.get(SEQ_AT..)?;
        let seq = from_seq.split(|b| *b == b',').next()?;
        let after_time = from_seq.get(seq.len() + TIME_BYTES..)?;
        let id = after_time
            .strip_prefix(b",\"request_id\":\"")
            .and_then(|id| id.get(..ID_BYTES));
        let text = |bytes| std::str::from_utf8(bytes).ok();
        Some(Self {
            seq: Seq(text(seq)?.parse().ok()?),
            request_id: id.and_then(text).and_then(|id| id.parse().ok()),
        })
    }
}

/// What stands before `,"hash":"`, and the hash.
fn split_hash(line: &[u8]) -> Option<(&[u8], LineHash)> {
    let (body, tail) = line.split_at_checked(line.len().checked_sub(TAIL_BYTES)?)?;
    let hash = tail
        .strip_prefix(HASH_MEMBER.as_bytes())?
        .strip_suffix(b"\"}")?;
    Some((body, std::str::from_utf8(hash).ok()?.parse().ok()?))
}

fn not_a_line(why: impl Into<String>) -> Malformed {
    Malformed::NotALine(why.into())
}

fn named(member: &str, why: impl std::fmt::Display) -> Malformed {
    Malformed::NotALine(format!("{member} {why}"))
}
