//! How people name a request: by its id, or by the beginning of it.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::ids::RequestId;

/// The fewest digits that count as a name. Ids begin with the time they were made, in milliseconds:
/// six digits are what all ids of four and a half hours share, so more is usually needed.
pub const MIN_PREFIX_DIGITS: usize = 6;
const DIGITS: usize = 32;

/// The text cannot be the beginning of a request id.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "must be a request id or its beginning, at least {MIN_PREFIX_DIGITS} hexadecimal digits of it"
)]
pub struct PrefixError;

/// The beginning of a request id, or all of it: 6 to 32 hexadecimal digits, hyphens or not.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RequestPrefix(String);

impl FromStr for RequestPrefix {
    type Err = PrefixError;
    fn from_str(s: &str) -> Result<Self, PrefixError> {
        let digits: String = s.chars().filter(|c| *c != '-').collect();
        let known = digits.bytes().all(|b| b.is_ascii_hexdigit());
        if known && (MIN_PREFIX_DIGITS..=DIGITS).contains(&digits.len()) {
            Ok(Self(digits.to_ascii_lowercase()))
        } else {
            Err(PrefixError)
        }
    }
}

impl fmt::Display for RequestPrefix {
    /// The digits, in lower case without hyphens.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl RequestPrefix {
    /// Whether the id begins so.
    #[must_use]
    pub fn matches(&self, id: RequestId) -> bool {
        digits(id).starts_with(&self.0)
    }

    /// The keys that ids with this beginning have, see [`request_key`].
    #[must_use]
    pub fn keys(&self) -> RangeInclusive<u64> {
        let head = &self.0[..self.0.len().min(16)];
        key(&format!("{head:0<16}"))..=key(&format!("{head:f<16}"))
    }
}

/// The first 64 bits of an id: the time it was made and twelve random bits. What an index keeps.
#[must_use]
pub fn request_key(id: RequestId) -> u64 {
    key(&digits(id)[..16])
}

fn digits(id: RequestId) -> String {
    id.to_string().replace('-', "")
}

fn key(sixteen_digits: &str) -> u64 {
    u64::from_str_radix(sixteen_digits, 16).expect("sixteen hexadecimal digits fit 64 bits")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn too_little_too_much_and_other_characters_are_refused() {
        for bad in [
            "",
            "019ca",
            "019ca-",
            "019cag",
            "019ca ",
            &"0".repeat(33),
            "é19ca8",
        ] {
            assert_eq!(bad.parse::<RequestPrefix>(), Err(PrefixError), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn an_id_is_found_by_any_beginning_of_it(ms in 0..1_u64 << 48, random: [u8; 10], length in 6..=32_usize) {
            let id = RequestId::new(ms, random);
            let prefix: RequestPrefix = digits(id)[..length].to_uppercase().parse().unwrap();
            prop_assert!(prefix.matches(id));
            prop_assert!(prefix.keys().contains(&request_key(id)));
            let whole: RequestPrefix = id.to_string().parse().unwrap();
            prop_assert!(whole.matches(id));
        }

        #[test]
        fn another_id_is_not_found(ms in 0..1_u64 << 48, random: [u8; 10], other: [u8; 10]) {
            prop_assume!(random != other);
            let (id, other) = (RequestId::new(ms, random), RequestId::new(ms, other));
            prop_assume!(id != other);
            let whole: RequestPrefix = id.to_string().parse().unwrap();
            prop_assert!(!whole.matches(other));
        }
    }
}
