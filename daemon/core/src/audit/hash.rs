//! What chains one line to the next.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

/// Comes before the hashed bytes, so that no hash of anything else can pass for a line's.
const LINE_DOMAIN: &[u8] = b"agent-sandbox audit line v1\n";

/// A line's place in the trail, from 1 without gaps.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Seq(pub u64);

impl Seq {
    /// The place after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The hash of one line; the layout is in the module above. Written as 64 lower-case hex digits.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct LineHash([u8; 32]);

impl LineHash {
    /// `prev` of the first line.
    pub const BEFORE_ALL: Self = Self([0; 32]);

    /// Hashes the part of a line that stands before `,"hash":"`.
    #[must_use]
    pub(super) fn of(body: &[u8]) -> Self {
        Self(
            Sha256::new()
                .chain_update(LINE_DOMAIN)
                .chain_update(body)
                .finalize()
                .into(),
        )
    }

    /// From raw bytes, as a contract carries them.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The raw bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for LineHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for LineHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for LineHash {
    type Err = hex::FromHexError;
    fn from_str(s: &str) -> Result<Self, hex::FromHexError> {
        parse_hex(s).map(Self)
    }
}

/// Reads exactly `N` bytes in lower-case hex: one spelling only, as everywhere in the trail.
pub(super) fn parse_hex<const N: usize>(s: &str) -> Result<[u8; N], hex::FromHexError> {
    if let Some((index, upper)) = s.char_indices().find(|(_, c)| c.is_ascii_uppercase()) {
        return Err(hex::FromHexError::InvalidHexCharacter { c: upper, index });
    }
    let mut bytes = [0; N];
    hex::decode_to_slice(s, &mut bytes).map(|()| bytes)
}

/// Where a trail stands: its last line's place and hash.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Head {
    /// The last line's place; 0 when there is no line yet.
    pub seq: Seq,
    /// The last line's hash.
    pub hash: LineHash,
}

impl Head {
    /// Before the first line.
    pub const START: Self = Self {
        seq: Seq(0),
        hash: LineHash::BEFORE_ALL,
    };
}
