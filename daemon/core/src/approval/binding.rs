//! What an approval is bound to: everything that decides what will be done, by name, and one digest over
//! all of it.
//!
//! # The digest
//! ```text
//! SHA-256( "agent-sandbox approval binding v1\n" ‖ part ‖ part ‖ … )
//! part = name length  4 bytes, big-endian ‖ name  ‖
//!        value length 8 bytes, big-endian ‖ value
//! ```
//! with every [`Part`] once, in the order of [`Part::ALL`], names and values in UTF-8. Digests among the
//! values are `sha256:` and 64 lower-case hex digits, numbers are decimal. The lengths keep any text from
//! being read as the end of one part and the beginning of the next.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use crate::names::{PrincipalName, RootName, RuleName};
use crate::parameters::ActionName;

/// Comes before the parts, so that no hash of anything else can pass for a binding's.
const DOMAIN: &[u8] = b"agent-sandbox approval binding v1\n";

macro_rules! parts {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// One thing that decides what will be done.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub enum Part {
            $($(#[$doc])* $variant,)*
        }

        impl Part {
            /// Every part, in the order in which they are hashed.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its name, for people and in the digest.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

parts! {
    /// Who asks.
    Principal = "principal",
    /// For which action.
    Action = "action",
    /// With which parameters.
    Parameters = "parameters",
    /// Of which root.
    Root = "root",
    /// How the operator set the root up.
    RootSettings = "root settings",
    /// The packed source.
    Bundle = "bundle",
    /// The providers and their hashes.
    LockFile = "lock file",
    /// Terraform's workspace.
    Workspace = "workspace",
    /// The values of variables that are not in the bundle.
    Variables = "variable values",
    /// The runner's image.
    Image = "runner image",
    /// The saved plan.
    Plan = "plan file",
    /// Which state it was made against,
    StateLineage = "state lineage",
    /// and in which version.
    StateSerial = "state serial",
    /// What the credential will be good for.
    Scope = "credential scope",
    /// The rule of the policy that asks for approval,
    Rule = "policy rule",
    /// and how many people it asks for.
    Quorum = "quorum",
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The values of every part, to make a [`Binding`] from. There is no default: whoever makes one says all.
#[derive(Clone, Debug)]
pub struct Bound<'a> {
    /// See [`Part::Principal`].
    pub principal: &'a PrincipalName,
    /// See [`Part::Action`].
    pub action: ActionName,
    /// Canonical JSON of what was asked, as it was understood: without `approval_id` and `reason`, which
    /// differ between the call that opens an approval and the one that uses it, and with the root's name
    /// for `working_dir`.
    pub parameters: &'a str,
    /// See [`Part::Root`].
    pub root: &'a RootName,
    /// SHA-256 over the root's whole configuration.
    pub root_settings: [u8; 32],
    /// SHA-256 of the packed source.
    pub bundle: [u8; 32],
    /// SHA-256 of `.terraform.lock.hcl`.
    pub lock_file: [u8; 32],
    /// See [`Part::Workspace`].
    pub workspace: &'a str,
    /// A keyed digest over names and values: this is shown and kept, and the plain hash of a weak secret
    /// tells it to whoever guesses.
    pub variables: [u8; 32],
    /// The runner's image, by digest.
    pub image: &'a str,
    /// SHA-256 of the plan file.
    pub plan: [u8; 32],
    /// The state's lineage; empty where there is no state yet.
    pub state_lineage: &'a str,
    /// The state's serial; 0 where there is no state yet.
    pub state_serial: u64,
    /// The credential's scope: roles and namespaces, in one spelling.
    pub scope: &'a str,
    /// The rule that decided, by the policy in force.
    pub rule: &'a RuleName,
    /// How many people that rule asks for.
    pub quorum: u32,
}

/// What an approval is bound to. Kept with it, so that a difference can be named.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Binding(BTreeMap<Part, String>);

/// The text is not a binding of this version.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the binding that was kept cannot be read: {0}")]
pub struct BadBinding(String);

impl Binding {
    /// Of these values.
    #[must_use]
    pub fn new(bound: &Bound<'_>) -> Self {
        let value = |part: Part| match part {
            Part::Principal => bound.principal.to_string(),
            Part::Action => bound.action.to_string(),
            Part::Parameters => bound.parameters.to_owned(),
            Part::Root => bound.root.to_string(),
            Part::RootSettings => sha256(bound.root_settings),
            Part::Bundle => sha256(bound.bundle),
            Part::LockFile => sha256(bound.lock_file),
            Part::Workspace => bound.workspace.to_owned(),
            Part::Variables => sha256(bound.variables),
            Part::Image => bound.image.to_owned(),
            Part::Plan => sha256(bound.plan),
            Part::StateLineage => bound.state_lineage.to_owned(),
            Part::StateSerial => bound.state_serial.to_string(),
            Part::Scope => bound.scope.to_owned(),
            Part::Rule => bound.rule.to_string(),
            Part::Quorum => bound.quorum.to_string(),
        };
        Self(Part::ALL.iter().map(|part| (*part, value(*part))).collect())
    }

    /// The digest over all of it.
    #[must_use]
    pub fn digest(&self) -> BindingDigest {
        let mut hash = Sha256::new().chain_update(DOMAIN);
        for (part, value) in self.parts() {
            let name = part.as_str();
            hash.update(u32::try_from(name.len()).unwrap_or(u32::MAX).to_be_bytes());
            hash.update(name);
            hash.update(u64::try_from(value.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(value);
        }
        BindingDigest(hash.finalize().into())
    }

    /// Each part with its value, in order.
    pub fn parts(&self) -> impl Iterator<Item = (Part, &str)> {
        Part::ALL
            .iter()
            .map(|part| (*part, self.0.get(part).map_or("", String::as_str)))
    }

    /// One part's value.
    #[must_use]
    pub fn value(&self, part: Part) -> &str {
        self.0.get(&part).map_or("", String::as_str)
    }

    /// The parts in which two bindings differ, in order. None: the digests are the same.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<Part> {
        let parts = Part::ALL.iter().copied();
        parts
            .filter(|part| self.value(*part) != other.value(*part))
            .collect()
    }

    /// As it is kept: a JSON object of texts.
    #[must_use]
    pub fn to_json(&self) -> String {
        let object: serde_json::Map<_, _> = self
            .parts()
            .map(|(part, value)| (part.as_str().to_owned(), value.into()))
            .collect();
        serde_json::Value::Object(object).to_string()
    }

    /// Reads what [`Binding::to_json`] wrote.
    ///
    /// # Errors
    /// [`BadBinding`], naming the first part that is missing or not known: it is of another version.
    pub fn from_json(json: &str) -> Result<Self, BadBinding> {
        let mut kept: BTreeMap<String, String> =
            serde_json::from_str(json).map_err(|e| BadBinding(e.to_string()))?;
        let mut parts = BTreeMap::new();
        for part in Part::ALL {
            let value = kept
                .remove(part.as_str())
                .ok_or_else(|| BadBinding(format!("it has no {part}")))?;
            parts.insert(*part, value);
        }
        match kept.keys().next() {
            None => Ok(Self(parts)),
            Some(other) => Err(BadBinding(format!("it has an unknown part {other:?}"))),
        }
    }
}

fn sha256(digest: [u8; 32]) -> String {
    format!("sha256:{}", hex::encode(digest))
}

/// The digest of a [`Binding`]. Written as 64 lower-case hex digits.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct BindingDigest([u8; 32]);

impl BindingDigest {
    /// From raw bytes, as a contract or the journal carries them.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The raw bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl FromStr for BindingDigest {
    type Err = hex::FromHexError;
    fn from_str(s: &str) -> Result<Self, hex::FromHexError> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(s, &mut bytes).map(|()| Self(bytes))
    }
}

impl fmt::Display for BindingDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for BindingDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn binding(edit: impl FnOnce(&mut BTreeMap<Part, String>)) -> Binding {
        let bound = Bound {
            principal: &"demo-agent".parse().unwrap(),
            action: ActionName::TerraformApply,
            parameters: "{\"working_dir\":\"demo\"}",
            root: &"demo".parse().unwrap(),
            root_settings: [1; 32],
            bundle: [2; 32],
            lock_file: [3; 32],
            workspace: "default",
            variables: [4; 32],
            image: "runner@sha256:00",
            plan: [5; 32],
            state_lineage: "6f1c",
            state_serial: 7,
            scope: "apply-demo.demo-app",
            rule: &"ask-for-applies".parse().unwrap(),
            quorum: 1,
        };
        let mut binding = Binding::new(&bound);
        edit(&mut binding.0);
        binding
    }

    /// Worked out by another program (Python's hashlib) from the layout above; a change of it voids every
    /// approval there is.
    #[test]
    fn the_digest_is_the_one_of_the_written_layout() {
        assert_eq!(
            binding(|_| ()).digest().to_string(),
            "a763a19ca97c4ec355868d415906c584253551c454f42f1f301d76f412d8a00b"
        );
    }

    #[test]
    fn a_change_of_any_part_is_named_and_changes_the_digest() {
        let before = binding(|_| ());
        assert_eq!(before.differences(&before.clone()), []);
        for part in Part::ALL {
            let after = binding(|parts| parts.get_mut(part).unwrap().push('x'));
            assert_eq!(before.differences(&after), [*part]);
            assert_ne!(before.digest(), after.digest(), "{part}");
        }
    }

    #[test]
    fn a_binding_of_another_version_is_not_read() {
        let json = binding(|_| ()).to_json();
        assert_eq!(Binding::from_json(&json).unwrap(), binding(|_| ()));
        for (bad, says) in [
            (
                json.replace("\"quorum\"", "\"quorums\""),
                "it has no quorum",
            ),
            (json.replacen('{', "{\"colour\":\"red\",", 1), "colour"),
            (json.replace("\"7\"", "7"), "expected a string"),
            (String::new(), "EOF"),
        ] {
            let error = Binding::from_json(&bad).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    proptest! {
        #[test]
        fn text_that_moves_from_one_part_to_the_next_is_another_binding(
            values in proptest::collection::vec("\\PC{1,6}", Part::ALL.len()),
            at in 0..Part::ALL.len() - 1,
        ) {
            let of = |values: Vec<String>| Binding(Part::ALL.iter().copied().zip(values).collect());
            let before = of(values.clone());
            let mut moved = values;
            let last = moved[at].pop().unwrap();
            moved[at + 1].insert(0, last);
            let after = of(moved);
            prop_assert_ne!(before.digest(), after.digest());
            prop_assert_eq!(before.differences(&after), [Part::ALL[at], Part::ALL[at + 1]]);
        }

        #[test]
        fn a_binding_reads_back(values in proptest::collection::vec("\\PC{0,9}", Part::ALL.len())) {
            let binding = Binding(Part::ALL.iter().copied().zip(values).collect());
            prop_assert_eq!(Binding::from_json(&binding.to_json()).unwrap(), binding);
        }
    }
}
