//! Identifiers, one type per kind of thing.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use uuid::{Builder, Uuid, Version};

/// One principal's wish to run one action. A `UUIDv7`, so ids sort by the time they were made.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RequestId(Uuid);

impl RequestId {
    /// Makes an id from the wall clock, in milliseconds since the Unix epoch, and ten random bytes.
    #[must_use]
    pub fn new(now_ms: u64, random: [u8; 10]) -> Self {
        Self(Builder::from_unix_timestamp_millis(now_ms, &random).into_uuid())
    }
}

/// The text is not a request id.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("must be a whole request id, as it was given: a UUIDv7 in lower case with hyphens")]
pub struct RequestIdError;

impl FromStr for RequestId {
    type Err = RequestIdError;
    fn from_str(s: &str) -> Result<Self, RequestIdError> {
        let id = Uuid::try_parse(s).map_err(|_| RequestIdError)?;
        // One spelling only: an id is compared and searched for as text elsewhere.
        if id.get_version() == Some(Version::SortRand) && id.hyphenated().to_string() == s {
            Ok(Self(id))
        } else {
            Err(RequestIdError)
        }
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl Serialize for RequestId {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

/// Symbols of an [`ApprovalId`]: digits and lower-case letters without `i`, `l`, `o`, `u`, which people
/// mistake for others (Crockford's base 32).
const APPROVAL_SYMBOLS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The fewest characters of an approval's id that a human may type.
pub const MIN_APPROVAL_PREFIX: usize = 6;

/// One wish that waits for humans: 12 random characters, made to be typed. Not ordered by time, since ids
/// of one minute would then share their beginning.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ApprovalId([u8; 12]);

impl ApprovalId {
    /// Makes an id from random bytes; of each, five bits are used.
    #[must_use]
    pub fn new(random: [u8; 12]) -> Self {
        Self(random.map(|byte| APPROVAL_SYMBOLS[usize::from(byte & 31)]))
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default() // symbols are ASCII
    }
}

/// The text is not an approval's id.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("must be a whole approval id, as it was given: 12 digits and lower-case letters")]
pub struct ApprovalIdError;

impl FromStr for ApprovalId {
    type Err = ApprovalIdError;
    fn from_str(s: &str) -> Result<Self, ApprovalIdError> {
        let symbols: [u8; 12] = s.as_bytes().try_into().map_err(|_| ApprovalIdError)?;
        if symbols.iter().all(|b| APPROVAL_SYMBOLS.contains(b)) {
            Ok(Self(symbols))
        } else {
            Err(ApprovalIdError)
        }
    }
}

impl fmt::Display for ApprovalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for ApprovalId {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_round_trips_and_sorts_by_time() {
        let a = RequestId::new(1_700_000_000_000, [7; 10]);
        let b = RequestId::new(1_700_000_000_001, [0; 10]);
        assert_eq!(a.to_string().parse(), Ok(a));
        assert!(a < b && a.to_string() < b.to_string());
    }

    #[test]
    fn other_versions_and_spellings_are_refused() {
        let a = RequestId::new(1_700_000_000_000, [0xab; 10]).to_string();
        for bad in [
            a.to_uppercase(),
            a.replace('-', ""),
            format!("{{{a}}}"),
            a[..8].to_owned(),
            "6c84fb90-12c4-4e25-9f2c-1c6f5ec7a0d2".to_owned(), // version 4
            String::new(),
        ] {
            assert_eq!(bad.parse::<RequestId>(), Err(RequestIdError), "{bad}");
        }
    }

    #[test]
    fn an_approval_id_is_twelve_characters_that_nobody_mistakes() {
        let id = ApprovalId::new([0, 31, 32, 255, 10, 18, 20, 24, 27, 1, 2, 3]);
        assert_eq!(id.as_str(), "0z0zajmrv123");
        assert_eq!(id.to_string().parse(), Ok(id));
        for bad in [
            "",
            "0z0zajmrv12",
            "0z0zajmrv1234",
            "0Z0ZAJMRV123",
            "0z0zajmrvilo",
            "0z0zajmrv1\u{e9}",
        ] {
            assert_eq!(bad.parse::<ApprovalId>(), Err(ApprovalIdError), "{bad}");
        }
    }
}
