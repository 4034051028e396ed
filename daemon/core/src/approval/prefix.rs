//! The beginning of an approval's id, as a human types it.

use std::fmt;
use std::str::FromStr;

use crate::ids::{ApprovalId, MIN_APPROVAL_PREFIX};

const WHOLE: usize = 12;

/// The first characters of an approval's id, [`MIN_APPROVAL_PREFIX`] at least, or all of them.
///
/// Read as its alphabet (Crockford's base 32) is meant to be: capitals count as small letters, `o` as `0`,
/// `i` and `l` as `1`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ApprovalPrefix(String);

/// The text is not the beginning of an approval's id.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("must be an approval's id, or its first {MIN_APPROVAL_PREFIX} characters and more")]
pub struct ApprovalPrefixError;

impl ApprovalPrefix {
    /// As it is looked for.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ApprovalPrefix {
    type Err = ApprovalPrefixError;
    fn from_str(s: &str) -> Result<Self, ApprovalPrefixError> {
        if !(MIN_APPROVAL_PREFIX..=WHOLE).contains(&s.len()) {
            return Err(ApprovalPrefixError);
        }
        let text: String = s
            .chars()
            .map(|c| match c.to_ascii_lowercase() {
                'o' => '0',
                'i' | 'l' => '1',
                other => other,
            })
            .collect();
        // Filled up to a whole id, it has to be one.
        format!("{text:0<WHOLE$}")
            .parse::<ApprovalId>()
            .map_err(|_| ApprovalPrefixError)?;
        Ok(Self(text))
    }
}

impl From<ApprovalId> for ApprovalPrefix {
    fn from(id: ApprovalId) -> Self {
        Self(id.to_string())
    }
}

impl fmt::Display for ApprovalPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_has_six_characters_and_is_read_as_it_looks() {
        for (typed, meant) in [
            ("0z0zaj", "0z0zaj"),
            ("0Z0ZAJMRV123", "0z0zajmrv123"),
            ("OZoZAJMRVI2l", "0z0zajmrv121"),
        ] {
            assert_eq!(typed.parse::<ApprovalPrefix>().unwrap().as_str(), meant);
        }
        for bad in [
            "",
            "0z0za",
            "0z0zajmrv1234",
            "0z0zau",
            "0z0z%_",
            "0z0za\u{e9}",
        ] {
            assert_eq!(
                bad.parse::<ApprovalPrefix>(),
                Err(ApprovalPrefixError),
                "{bad}"
            );
        }
    }
}
