//! Names that reach a URL, a label or a path, each checked for that use when it is made.
//!
//! A newtype here has one door, `FromStr`, and past it there is no doubt left what it may contain.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Why a text is not a name of the kind asked for. Lower-case clause, never repeats hostile input
/// beyond what was checked.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NameError {
    /// Nothing was given.
    #[error("must not be empty")]
    Empty,
    /// Longer than its use allows.
    #[error("is {length} characters long, at most {limit} are allowed")]
    TooLong {
        /// Characters given.
        length: usize,
        /// Characters allowed.
        limit: usize,
    },
    /// A character outside the allowed set.
    #[error("has the character {character} at position {position}; allowed are {allowed}")]
    Character {
        /// The character, escaped.
        character: String,
        /// Counted from 1.
        position: usize,
        /// The allowed set, for people.
        allowed: &'static str,
    },
    /// Starts or ends with a character that is allowed only inside.
    #[error("must start and end with {0}")]
    Edge(&'static str),
    /// Everything else about the grammar.
    #[error("{0}")]
    Grammar(String),
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $check:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub struct $name(String);

        impl $name {
            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NameError;
            fn from_str(s: &str) -> Result<Self, NameError> {
                $check(s)?;
                Ok(Self(s.to_owned()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let text = String::deserialize(d)?;
                text.parse().map_err(|e| {
                    serde::de::Error::custom(format!("{:?} {e}", text.escape_debug().to_string()))
                })
            }
        }
    };
}

name!(
    /// A Kubernetes namespace: 1 to 63 of `a-z`, `0-9` and `-`, no `-` at either end, e.g. `demo-app`.
    NamespaceName,
    check_dns_label
);
name!(
    /// Who a caller is held to be, as the configuration names it: a DNS label, e.g. `demo-agent`.
    PrincipalName,
    check_dns_label
);
name!(
    /// A rule of the policy: a DNS label, e.g. `agents-read-pods`.
    RuleName,
    check_dns_label
);
name!(
    /// Where an engine is mounted in Vault: one path segment that is a DNS label, e.g. `sandbox-k8s-0`.
    /// Vault paths are not escaped for us, so no `/` gets this far.
    MountName,
    check_dns_label
);
name!(
    /// A key of Vault's transit engine: one path segment that is a DNS label, e.g. `agent-sandbox`.
    KeyName,
    check_dns_label
);
name!(
    /// A Terraform root, as the configuration names it: a DNS label, e.g. `demo`.
    RootName,
    check_dns_label
);

impl NamespaceName {
    /// Whether Kubernetes itself lives there: `kube-` and what follows. Never a target.
    #[must_use]
    pub fn is_system(&self) -> bool {
        self.0.starts_with("kube-")
    }
}

fn check_dns_label(s: &str) -> Result<(), NameError> {
    const ALLOWED: &str = "a-z, 0-9 and '-'";
    check_length(s, 63)?;
    for (index, c) in s.chars().enumerate() {
        if !matches!(c, 'a'..='z' | '0'..='9' | '-') {
            return Err(NameError::Character {
                character: c.escape_debug().to_string(),
                position: index + 1,
                allowed: ALLOWED,
            });
        }
    }
    if s.starts_with('-') || s.ends_with('-') {
        return Err(NameError::Edge("a letter or a digit"));
    }
    Ok(())
}

pub(crate) fn check_length(s: &str, limit: usize) -> Result<(), NameError> {
    let length = s.chars().count();
    match length {
        0 => Err(NameError::Empty),
        _ if length > limit => Err(NameError::TooLong { length, limit }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn namespace(s: &str) -> Result<NamespaceName, NameError> {
        s.parse()
    }

    #[test]
    fn a_namespace_of_63_characters_passes_and_of_64_does_not() {
        assert!(namespace(&"a".repeat(63)).is_ok());
        assert_eq!(
            namespace(&"a".repeat(64)),
            Err(NameError::TooLong {
                length: 64,
                limit: 63
            })
        );
    }

    #[test]
    fn capitals_paths_and_shell_characters_are_named_with_their_place() {
        for (text, character, position) in [
            ("Demo", "D", 1),
            ("a/../b", "/", 2),
            ("a;rm", ";", 2),
            ("a$(id)", "$", 2),
            ("a b", " ", 2),
            ("a\nb", "\\n", 2),
            ("dеmo", "е", 2), // Cyrillic
        ] {
            let Err(NameError::Character {
                character: c,
                position: p,
                ..
            }) = namespace(text)
            else {
                panic!("{text:?} passed");
            };
            assert_eq!((c.as_str(), p), (character, position), "{text:?}");
        }
    }

    #[test]
    fn empty_and_edge_hyphens_are_refused() {
        assert_eq!(namespace(""), Err(NameError::Empty));
        assert!(matches!(namespace("-a"), Err(NameError::Edge(_))));
        assert!(matches!(namespace("a-"), Err(NameError::Edge(_))));
    }

    #[test]
    fn kube_namespaces_are_the_systems() {
        assert!(namespace("kube-system").unwrap().is_system());
        assert!(namespace("kube-anything").unwrap().is_system());
        assert!(!namespace("kubernetes").unwrap().is_system());
    }

    proptest! {
        #[test]
        fn whatever_passes_is_safe_in_a_path(s in "\\PC{0,70}") {
            if let Ok(name) = namespace(&s) {
                prop_assert!(name.as_str().bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'));
                prop_assert!(name.as_str().len() <= 63 && !name.as_str().is_empty());
            }
        }
    }
}
