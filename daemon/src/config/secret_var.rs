//! `secret_vars`: where the value of a secret variable is.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use sandbox_core::names::MountName;
use serde::{Deserialize, Deserializer};

/// The longest path in a KV engine, in bytes.
const MAX_PATH: usize = 512;

/// Where the value of a secret variable is.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(
    untagged,
    expecting = "must be a path, or { vault_kv = \"MOUNT/PATH\", field = \"NAME\" } with a path of letters, digits, '_', '-' and '.'"
)]
pub enum SecretVar {
    /// In a file of the daemon's own, 0600.
    File(PathBuf),
    /// In Vault.
    VaultKv(VaultKv),
}

/// A field of a secret in a KV engine of version 2.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct VaultKv {
    /// The secret.
    pub vault_kv: KvPath,
    /// Which of its fields.
    pub field: String,
}

/// A secret in a KV engine: the engine's mount and the path in it, as `kv/shop/database`. Vault paths are not escaped
/// for us: a segment has letters, digits, `_`, `-` and `.`, and is neither `.` nor `..`.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct KvPath {
    mount: MountName,
    path: String,
}

impl SecretVar {
    /// Whether it says all that is needed to find a value.
    pub(super) fn is_whole(&self) -> bool {
        match self {
            Self::File(path) => path.is_absolute(),
            Self::VaultKv(kv) => !kv.field.is_empty(),
        }
    }
}

impl KvPath {
    /// Where the engine is mounted.
    #[must_use]
    pub fn mount(&self) -> &str {
        self.mount.as_str()
    }

    /// The path below it.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl FromStr for KvPath {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let (mount, path) = s
            .split_once('/')
            .ok_or("must be MOUNT/PATH, as kv/shop/database")?;
        let mount = mount.parse().map_err(|e| format!("the mount {e}"))?;
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let is_segment =
            |segment: &str| !matches!(segment, "" | "." | "..") && segment.chars().all(is_part);
        if path.len() > MAX_PATH || !path.split('/').all(is_segment) {
            return Err(format!(
                "the path must be of at most {MAX_PATH} letters, digits, '_', '-' and '.' between single '/'"
            ));
        }
        let path = path.to_owned();
        Ok(Self { mount, path })
    }
}

impl fmt::Display for KvPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.mount, self.path)
    }
}

impl<'de> Deserialize<'de> for KvPath {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_in_its_place_in_a_url() {
        let good: KvPath = "kv/agent-sandbox/shop_1.db".parse().unwrap();
        assert_eq!(
            (good.mount(), good.path()),
            ("kv", "agent-sandbox/shop_1.db")
        );
        for bad in [
            "",
            "kv",
            "kv/",
            "/a",
            "kv//a",
            "kv/a/",
            "kv/../sys",
            "kv/a/./b",
            "kv/a b",
            "kv/a?b=c",
            "kv/a%2f",
            "Kv/a",
        ] {
            assert!(bad.parse::<KvPath>().is_err(), "{bad}");
        }
    }
}
