//! What is configured already.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use sandbox_core::names::{NamespaceName, RootName};
use sandbox_core::policy::Policy;

use super::fault::{Fault, shown};
use crate::config::{self, Config, ConfigError};
use crate::run::load_policy;

/// The configuration as far as it can be read.
#[derive(Debug)]
pub(super) struct Setting {
    pub(super) path: PathBuf,
    pub(super) limits: config::Limits,
    /// `None` where it could not be read.
    pub(super) providers: Option<Vec<config::Provider>>,
    pub(super) reserved: Vec<NamespaceName>,
    pub(super) roots: BTreeMap<RootName, config::Root>,
    pub(super) policy: Option<(PathBuf, Policy)>,
    pub(super) fault: Option<Fault>,
}

impl Setting {
    pub(super) fn read(path: &Path) -> Self {
        let own_uid = rustix::process::geteuid().as_raw();
        match Config::load(path, own_uid) {
            Ok((config, principals)) => Self {
                path: path.to_owned(),
                policy: load_policy(&config, &principals)
                    .ok()
                    .map(|policy| (config.policy.file.clone(), policy)),
                reserved: config.reserved_namespaces(),
                limits: config.limits,
                providers: Some(config.sandbox.providers),
                roots: config.roots,
                fault: None,
            },
            Err(e) => {
                let source = std::error::Error::source(&e);
                let why = source.map_or_else(String::new, |source| format!(": {source}"));
                let next = match &e {
                    ConfigError::Read { source, .. }
                        if source.kind() == ErrorKind::PermissionDenied =>
                    {
                        "Run this as root, or as the daemon's user."
                    }
                    ConfigError::Read { .. } => {
                        "Run scripts/up first, or name another with --config."
                    }
                    ConfigError::Parse { .. } | ConfigError::Faults { .. } => "Mend it first.",
                };
                Self {
                    path: path.to_owned(),
                    limits: config::Limits::default(),
                    providers: None,
                    reserved: Vec::new(),
                    roots: BTreeMap::new(),
                    policy: None,
                    fault: Some(Fault::of_root(
                        format!(
                            "{e}{why}, so neither source nor lock file can be held against the image's providers"
                        ),
                        next.to_owned(),
                    )),
                }
            }
        }
    }

    /// The folder for values of secret variables: beside the configuration.
    pub(super) fn secret_file(&self, root: &RootName, variable: &str) -> PathBuf {
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        folder.join("secrets").join(format!("{root}.{variable}"))
    }
}

/// The name that was given, the one of a root in this folder, or one made of the folder's.
pub(super) fn name(
    given: Option<&RootName>,
    folder: &Path,
    setting: &Setting,
    faults: &mut BTreeSet<Fault>,
) -> RootName {
    let configured = setting.roots.iter().find(|(_, root)| root.folder == folder);
    if let Some(name) = given.or(configured.map(|(name, _)| name)) {
        if name.as_str().starts_with("delete-") {
            faults.insert(Fault::of_root(
                format!("a root cannot be called {name}: its roles would be another root's"),
                "Call it otherwise, with --name.".to_owned(),
            ));
        }
        return name.clone();
    }
    let last = folder.file_name().unwrap_or_default().to_string_lossy();
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    let last: String = last.chars().map(plain).take(40).collect();
    let last = last.trim_matches('-').trim_start_matches("delete-");
    last.parse().unwrap_or_else(|_| {
        faults.insert(Fault::of_root(
            format!("no name of a root can be made of {}", shown(folder)),
            "Give it one with --name.".to_owned(),
        ));
        fallback()
    })
}

#[expect(clippy::expect_used, reason = "a constant")]
fn fallback() -> RootName {
    "root".parse().expect("a DNS label")
}
