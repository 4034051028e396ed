//! `sandboxd.toml`: read once, checked whole, before anything is opened.

mod roots;
mod secret_var;
mod users;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sandbox_bundle::ProviderSource;
use sandbox_core::names::{KeyName, MountName, NamespaceName, PrincipalName, RootName};
use serde::Deserialize;

use crate::sandbox::TERRAFORM_PLACES;

pub(crate) use roots::is_word;
pub use roots::{Root, StateKind};
pub use secret_var::{KvPath, SecretVar, VaultKv};
pub use users::{Principals, Role};

/// Where the configuration is when no other place is named.
pub const DEFAULT_PATH: &str = "/etc/sandboxd/sandboxd.toml";

/// Kubernetes refuses token lifetimes under ten minutes, so a lease lives at least that long.
const LEASE_TTL: Duration = Duration::from_mins(10);

/// What a lease of a Terraform rung lives: `cluster/vault/configure` says the same.
const TERRAFORM_LEASE_TTL: Duration = Duration::from_mins(20);

/// Everything the daemon is told by its configuration file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Principals of `agent.sock`: a name, and its uids or user names.
    agents: BTreeMap<PrincipalName, Vec<users::Entry>>,
    /// Principals of `approver.sock`.
    #[serde(default)]
    approvers: BTreeMap<PrincipalName, Vec<users::Entry>>,
    /// The sockets.
    #[serde(default)]
    pub listen: Listen,
    /// Where the daemon keeps its own files.
    #[serde(default)]
    pub state: State,
    /// The policy.
    #[serde(default)]
    pub policy: PolicyFile,
    /// The cluster.
    pub kubernetes: Kubernetes,
    /// Vault or OpenBao.
    pub vault: Vault,
    /// The Jobs.
    pub sandbox: Sandbox,
    /// How much at once.
    #[serde(default)]
    pub limits: Limits,
    /// Whom to tell that something waits for humans.
    #[serde(default)]
    pub notify: Notify,
    /// Terraform's source trees, by name.
    #[serde(default)]
    pub roots: BTreeMap<RootName, Root>,
}

/// `[listen]`: both folders must be closed to others, both paths at most 107 bytes long.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Listen {
    /// Where agents connect.
    pub agent_socket: PathBuf,
    /// Where approvers connect.
    pub approver_socket: PathBuf,
}

/// `[state]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct State {
    /// Holds `audit.jsonl`, the database and keys; 0700.
    pub directory: PathBuf,
}

/// `[policy]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyFile {
    /// Read at start and on SIGHUP.
    pub file: PathBuf,
}

/// `[kubernetes]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kubernetes {
    /// The daemon's own kubeconfig. No environment variable is looked at.
    pub kubeconfig: PathBuf,
    /// Where Jobs run.
    #[serde(default = "sandbox_jobs")]
    pub sandbox_namespace: NamespaceName,
    /// Where the always-up listener is that a sandbox must not reach.
    #[serde(default = "sandbox_probe")]
    pub probe_namespace: NamespaceName,
    /// Where the issuer's `ServiceAccount` is. Never a target.
    #[serde(default = "sandbox_issuer")]
    pub issuer_namespace: NamespaceName,
    /// The name the API server's certificate is checked against from inside the cluster.
    #[serde(default = "api_server_name")]
    pub api_server_name: String,
}

/// `[vault]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vault {
    /// `https://HOST:PORT`.
    pub address: String,
    /// PEM of the authority that signed Vault's certificate; no other is trusted.
    pub ca_file: PathBuf,
    /// Of the `AppRole`.
    pub role_id_file: PathBuf,
    /// Of the `AppRole`; 0600.
    pub secret_id_file: PathBuf,
    /// Where `AppRole` is mounted.
    #[serde(default = "approle")]
    pub approle_mount: MountName,
    /// Vault namespace, where the server has them.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Kubernetes engines, all set up alike; leases are spread over them.
    pub mounts: Vec<MountName>,
    /// The key that plans and states are encrypted with. Without it they are kept as they are.
    #[serde(default)]
    pub transit: Option<Transit>,
}

/// `vault.transit`: a key that never leaves Vault. It wraps the keys that data is encrypted with here.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Transit {
    /// Where the engine is mounted.
    #[serde(default = "transit")]
    pub mount: MountName,
    /// Its key.
    pub key: KeyName,
}

/// `[sandbox]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sandbox {
    /// The runner's image, by digest: `NAME@sha256:…`.
    pub image: String,
    /// The `RuntimeClass` that is gVisor.
    #[serde(default = "gvisor")]
    pub runtime_class: String,
    /// Sandboxes kept ready for reads. 0 means each call starts its own.
    #[serde(default = "pool_read")]
    pub pool_read: usize,
    /// The same for Terraform.
    #[serde(default)]
    pub pool_terraform: usize,
    /// The most sandboxes at once, spares included, and Terraform as four.
    #[serde(default = "max_sandboxes")]
    pub max: usize,
    /// How long a spare may wait before it is replaced, in seconds, 30 to 86400.
    #[serde(default = "spare_idle_seconds")]
    pub spare_idle_seconds: u64,
    /// The Terraform providers of the image, as `images/mirror --list` tells them.
    #[serde(default)]
    pub providers: Vec<Provider>,
}

/// One of `sandbox.providers`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    /// With or without its host: `hashicorp/kubernetes`.
    pub source: String,
    /// e.g. `1.13.4`
    pub version: String,
    /// As a lock file has it: `h1:…`.
    pub hash: String,
}

/// `[limits]`: each refusal names its own.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Calls of one principal that run at the same time.
    pub in_flight_per_principal: usize,
    /// Calls that run at the same time in all.
    pub in_flight: usize,
    /// Calls of one principal in any minute.
    pub per_minute_per_principal: usize,
    /// Calls in any minute in all.
    pub per_minute: usize,
    /// The longest text of one result, in bytes.
    pub result_bytes: usize,
    /// How long a read may take, in seconds.
    pub read_seconds: u64,
    /// How long a plan or an apply may take, in seconds.
    pub terraform_seconds: u64,
    /// The most changes a plan may have.
    pub plan_changes: usize,
    /// The longest source tree, in bytes.
    pub bundle_bytes: usize,
    /// The most files of one.
    pub bundle_files: usize,
    /// Free space under which new calls are refused, in bytes.
    pub audit_low_water_bytes: u64,
}

/// `[notify]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Notify {
    /// A program by its absolute path, and its arguments. It is run as the daemon, without a shell, with
    /// the approval's id as one more argument. Empty: nobody is told.
    pub command: Vec<String>,
}

impl Default for Listen {
    fn default() -> Self {
        Self {
            agent_socket: "/run/sandboxd/agent/agent.sock".into(),
            approver_socket: "/run/sandboxd/approver/approver.sock".into(),
        }
    }
}

impl Default for State {
    fn default() -> Self {
        Self {
            directory: "/var/lib/sandboxd".into(),
        }
    }
}

impl Default for PolicyFile {
    fn default() -> Self {
        Self {
            file: "/etc/sandboxd/policy.yaml".into(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            in_flight_per_principal: 8,
            in_flight: 16,
            per_minute_per_principal: 600,
            per_minute: 1200,
            result_bytes: 48 * 1024,
            read_seconds: 60,
            terraform_seconds: 900,
            plan_changes: 200,
            bundle_bytes: 4 * 1024 * 1024,
            bundle_files: 1000,
            audit_low_water_bytes: 64 * 1024 * 1024,
        }
    }
}

#[expect(clippy::expect_used, reason = "a constant that a test reads")]
fn sandbox_jobs() -> NamespaceName {
    "sandbox-jobs".parse().expect("a DNS label")
}
#[expect(clippy::expect_used, reason = "a constant that a test reads")]
fn sandbox_probe() -> NamespaceName {
    "sandbox-probe".parse().expect("a DNS label")
}
#[expect(clippy::expect_used, reason = "a constant that a test reads")]
fn sandbox_issuer() -> NamespaceName {
    "sandbox-issuer".parse().expect("a DNS label")
}
#[expect(clippy::expect_used, reason = "a constant that a test reads")]
fn approle() -> MountName {
    "approle".parse().expect("a DNS label")
}
#[expect(clippy::expect_used, reason = "a constant that a test reads")]
fn transit() -> MountName {
    "transit".parse().expect("a DNS label")
}
fn api_server_name() -> String {
    "kubernetes.default.svc".to_owned()
}
fn gvisor() -> String {
    "gvisor".to_owned()
}
const fn pool_read() -> usize {
    2
}
const fn max_sandboxes() -> usize {
    16
}
const fn spare_idle_seconds() -> u64 {
    600
}

/// Why the configuration cannot be used: every fault that was found, one sentence each.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("could not read the configuration {path}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not what it should be; the text has line and column.
    #[error("the configuration {path} is malformed: {problem}")]
    Parse {
        /// Which file.
        path: PathBuf,
        /// The parser's words, with the place.
        problem: String,
    },
    /// It says things that cannot be.
    #[error("the configuration {path} cannot be used: {}", problems.join("; "))]
    Faults {
        /// Which file.
        path: PathBuf,
        /// Every fault.
        problems: Vec<String>,
    },
}

impl Config {
    /// Reads and checks the file at `path`. `own_uid` is the daemon's.
    ///
    /// # Errors
    /// [`ConfigError`], listing every fault found.
    pub fn load(path: &Path, own_uid: u32) -> Result<(Self, Principals), ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
            path: path.to_owned(),
            source,
        })?;
        let config: Self = toml::from_str(&text).map_err(|e| ConfigError::Parse {
            path: path.to_owned(),
            problem: e.to_string(),
        })?;
        let mut problems = config.faults();
        let principals =
            Principals::resolve(&config.agents, &config.approvers, own_uid, &mut problems);
        if problems.is_empty() {
            Ok((config, principals))
        } else {
            Err(ConfigError::Faults {
                path: path.to_owned(),
                problems,
            })
        }
    }

    /// Namespaces that may never be a target, besides `kube-*`.
    #[must_use]
    pub fn reserved_namespaces(&self) -> Vec<NamespaceName> {
        let k = &self.kubernetes;
        vec![
            k.sandbox_namespace.clone(),
            k.probe_namespace.clone(),
            k.issuer_namespace.clone(),
        ]
    }

    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut check = |ok: bool, fault: String| {
            if !ok {
                faults.push(fault);
            }
        };
        let l = &self.listen;
        for (key, path) in [
            ("agent_socket", &l.agent_socket),
            ("approver_socket", &l.approver_socket),
        ] {
            check(
                path.is_absolute(),
                format!("listen.{key} must be an absolute path"),
            );
            // sun_path has 108 bytes on Linux and 104 on macOS, the last one NUL.
            check(
                path.as_os_str().len() <= 103,
                format!("listen.{key} is over 103 bytes long, more than a socket's address holds"),
            );
        }
        check(
            l.agent_socket.parent() != l.approver_socket.parent(),
            "listen: the two sockets must be in different folders".to_owned(),
        );
        check(
            self.vault.address.starts_with("https://"),
            "vault.address must start with https://".to_owned(),
        );
        check(
            !self.vault.mounts.is_empty(),
            "vault.mounts must name at least one mount".to_owned(),
        );
        check(
            self.vault.mounts.iter().collect::<BTreeSet<_>>().len() == self.vault.mounts.len(),
            "vault.mounts names a mount twice".to_owned(),
        );
        self.sandbox.check(&mut check);
        self.limits.check(&mut check);
        check(
            self.notify
                .command
                .first()
                .is_none_or(|p| Path::new(p).is_absolute()),
            "notify.command must begin with the absolute path of a program".to_owned(),
        );
        let reserved = self.reserved_namespaces();
        for (name, root) in &self.roots {
            root.check(name, &reserved, &mut check);
        }
        faults
    }
}

impl Sandbox {
    fn check(&self, check: &mut impl FnMut(bool, String)) {
        check(
            is_by_digest(&self.image),
            "sandbox.image must be given by digest: NAME@sha256: and 64 hex digits".to_owned(),
        );
        check(self.max >= 1, "sandbox.max must be at least 1".to_owned());
        let terraform = self.pool_terraform.saturating_mul(TERRAFORM_PLACES);
        check(
            self.pool_read.saturating_add(terraform) <= self.max,
            format!(
                "sandbox.pool_read and {TERRAFORM_PLACES} times sandbox.pool_terraform together must not \
                 exceed sandbox.max"
            ),
        );
        check(
            (30..=86_400).contains(&self.spare_idle_seconds),
            "sandbox.spare_idle_seconds must be from 30 to 86400".to_owned(),
        );
        for provider in &self.providers {
            check(
                provider.source.parse::<ProviderSource>().is_ok(),
                format!(
                    "sandbox.providers: {:?} must be NAMESPACE/NAME or HOST/NAMESPACE/NAME",
                    provider.source
                ),
            );
            check(
                provider.hash.starts_with("h1:"),
                format!(
                    "sandbox.providers: the hash of {} must begin with h1:",
                    provider.source
                ),
            );
        }
    }
}

impl Limits {
    fn check(&self, check: &mut impl FnMut(bool, String)) {
        check(
            (1..=LEASE_TTL.as_secs() - 60).contains(&self.read_seconds),
            "limits.read_seconds must be from 1 to 540: a lease lives ten minutes, and must outlive \
             the call it was made for"
                .to_owned(),
        );
        check(
            (60..=TERRAFORM_LEASE_TTL.as_secs() - 60).contains(&self.terraform_seconds),
            "limits.terraform_seconds must be from 60 to 1140: a lease of Terraform's lives twenty \
             minutes, and must outlive the run it was made for"
                .to_owned(),
        );
        check(
            (1..=8 * 1024 * 1024).contains(&self.bundle_bytes),
            "limits.bundle_bytes must be from 1 to 8388608".to_owned(),
        );
        check(
            (8 * 1024..=1024 * 1024).contains(&self.result_bytes),
            "limits.result_bytes must be from 8192 to 1048576".to_owned(),
        );
        for (key, value) in [
            ("in_flight_per_principal", self.in_flight_per_principal),
            ("in_flight", self.in_flight),
            ("per_minute_per_principal", self.per_minute_per_principal),
            ("per_minute", self.per_minute),
            ("plan_changes", self.plan_changes),
            ("bundle_files", self.bundle_files),
        ] {
            check(value >= 1, format!("limits.{key} must be at least 1"));
        }
    }
}

fn is_by_digest(image: &str) -> bool {
    image.split_once("@sha256:").is_some_and(|(name, digest)| {
        !name.is_empty()
            && digest.len() == 64
            && digest
                .bytes()
                .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    })
}

#[cfg(test)]
mod tests;
