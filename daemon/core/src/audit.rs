//! The audit trail as bytes: one event a line, each line bound to the one before it.
//!
//! Writer, start-up and every verifier use this module, so they agree byte for byte. It does no I/O:
//! who writes passes in the time, who signs and who checks signatures pass in how.
//!
//! # A line
//!
//! ```text
//! {"v":1,"seq":7,"time":"2026-03-01T09:30:00.125Z","request_id":"0195…","principal":"claude",
//!  "event":"tool.request","fields":{…},"prev":"<64 hex>","hash":"<64 hex>"}
//! ```
//!
//! - One line, no space outside strings, ended by one LF. The members stand in this order;
//!   `request_id` and `principal` are left out when there is none. `seq` counts from 1 without gaps.
//! - `fields` is an object with its keys sorted by code point, at every depth. Numbers are integers
//!   that fit 64 bits with a sign. No key stands twice.
//! - The line is ASCII without controls: in strings `"` and `\` are escaped with `\`; LF, CR, TAB,
//!   backspace and form feed are `\n \r \t \b \f`; every other control, DEL and every character
//!   outside ASCII is `\uXXXX` in lower-case hex, beyond U+FFFF as a surrogate pair. So no reader can
//!   take a line for two, or be shown text in another order than it stands.
//! - A line is at most [`MAX_LINE_BYTES`] long, its LF not counted.
//!
//! # The chain
//!
//! ```text
//! hash = SHA-256( "agent-sandbox audit line v1\n" ‖ every byte of the line before `,"hash":"` )
//! prev = hash of the line before; 64 zeros in the first line
//! ```
//!
//! # A checkpoint
//!
//! An `audit.checkpoint` event states how far the trail had come: `fields` hold `seq` and `hash` of
//! the line right before it, `time`, `public_key` and `signature` (hex). Ed25519 signs these 82 bytes:
//!
//! ```text
//! "agent-sandbox audit checkpoint v1\n"   34 bytes
//! seq                                      8 bytes, big-endian
//! hash                                    32 bytes
//! time, milliseconds since the epoch       8 bytes, big-endian, two's complement
//! ```
//!
//! Hashes alone show that a line was touched by someone who did not work out the rest anew; the
//! signature shows it when they did; a checkpoint kept elsewhere shows that the end is missing.

mod time;
mod hash;
mod value;
mod encode;
mod event;
mod scrub;
mod record;
mod prefix;
mod checkpoint;
mod fault;
mod verify;

pub use checkpoint::{CheckSignature, Checkpoint, CheckpointError, PublicKey, Signature};
pub use event::{Event, EventName};
pub use fault::{CheckpointFault, Fault, FaultKind};
pub use hash::{Head, LineHash, Seq};
pub use prefix::{MIN_PREFIX_DIGITS, PrefixError, RequestPrefix, request_key};
pub use record::{Draft, Glance, MAX_LINE_BYTES, Malformed, Record, TooLarge};
pub use time::{TimeError, UtcMillis};
pub use value::{Fields, Value};
pub use verify::{Verified, Verifier};
