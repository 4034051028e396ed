//! Whether a saved plan was made from the bundle it is said to be made from. A plan file carries its own
//! copy of the configuration and of the lock file, and Terraform goes by those, not by the folder.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::lock::Locks;
use super::unpack::Tree;
use super::zip::{self, ZipError};

const SNAPSHOT: &str = "tfconfig/";
const MANIFEST: &str = "tfconfig/modules.json";
const LOCK: &str = ".terraform.lock.hcl";

/// How a plan's own sources are not the bundle's.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Difference {
    /// Not a plan file at all.
    #[error("the plan cannot be read: {0}")]
    Zip(#[from] ZipError),
    /// A plan without the list of its modules, or with one that does not read.
    #[error("the plan's list of modules cannot be read")]
    Manifest,
    /// A file that only one of the two has, or that differs.
    #[error("the plan was made with another {0:?} than the bundle has")]
    File(String),
    /// A file in the plan that belongs to no module of it.
    #[error("the plan has {0:?}, which is in none of its modules")]
    Stray(String),
    /// Lock files that differ.
    #[error("the plan was made with another lock file than the bundle has")]
    Lock,
    /// Modules that are not those which the sources name.
    #[error("the plan was made with other modules than the sources name")]
    Modules,
}

/// One module as Terraform's lists have it.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd)]
#[serde(rename_all = "PascalCase")]
struct Module {
    key: String,
    #[serde(default)]
    source: String,
    #[serde(default)]
    version: String,
    dir: String,
}

/// The modules a plan was made with, in no order.
#[derive(Debug, Eq, PartialEq)]
pub struct Modules(BTreeSet<Module>);

/// Compares a plan's own sources with the bundle's files.
///
/// # Errors
/// [`Difference`], the first one.
pub fn compare(plan: &[u8], bundle: &Tree<'_>) -> Result<Modules, Difference> {
    let entries = zip::read(plan, |name| name.starts_with(SNAPSHOT) || name == LOCK)?;
    let [ours, theirs] = [
        bundle.get(LOCK).copied(),
        entries.get(LOCK).map(Vec::as_slice),
    ]
    .map(|lock| Locks::read(lock.unwrap_or_default()));
    if ours.is_none() || ours != theirs {
        return Err(Difference::Lock);
    }
    let manifest = entries.get(MANIFEST).ok_or(Difference::Manifest)?;
    let modules: Vec<Module> =
        serde_json::from_slice(manifest).map_err(|_| Difference::Manifest)?;
    let mut expected = BTreeMap::new();
    for module in &modules {
        let folder = folder(&module.dir)?;
        let entry = format!("{SNAPSHOT}m-{}/", module.key);
        for (path, bytes) in files_of(bundle, &folder) {
            expected.insert(format!("{entry}{}", &path[folder.len()..]), (path, bytes));
        }
    }
    for (name, bytes) in entries {
        if matches!(name.as_str(), LOCK | MANIFEST) {
            continue;
        }
        match expected.remove(&name) {
            Some((_, same)) if same == bytes => {}
            Some((path, _)) => return Err(Difference::File(path.to_owned())),
            None => return Err(Difference::Stray(name)),
        }
    }
    match expected.into_values().next() {
        Some((path, _)) => Err(Difference::File(path.to_owned())),
        None => Ok(Modules(modules.into_iter().collect())),
    }
}

impl Modules {
    /// Compares with what `terraform init` found in the bundle; `None` when it found no module at all.
    ///
    /// # Errors
    /// [`Difference`].
    pub fn compare(&self, found: Option<&[u8]>) -> Result<(), Difference> {
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Found {
            modules: BTreeSet<Module>,
        }
        let Some(found) = found else {
            let root_alone = self.0.iter().all(|module| module.key.is_empty());
            return root_alone.then_some(()).ok_or(Difference::Modules);
        };
        let found: Found = serde_json::from_slice(found).map_err(|_| Difference::Manifest)?;
        let same = found.modules == self.0;
        same.then_some(()).ok_or(Difference::Modules)
    }
}

/// A module's folder as a prefix of the bundle's paths: empty, or with a '/' at its end.
fn folder(dir: &str) -> Result<String, Difference> {
    match dir {
        "" | "." => Ok(String::new()),
        dir if super::unpack::is_plain(dir) => Ok(format!("{dir}/")),
        _ => Err(Difference::Manifest),
    }
}

/// The configuration files directly in a folder: what Terraform reads there.
fn files_of<'a>(bundle: &'a Tree<'_>, folder: &str) -> impl Iterator<Item = (&'a str, &'a [u8])> {
    bundle.iter().filter_map(move |(path, bytes)| {
        let name = path.strip_prefix(folder)?;
        // Terraform goes by the case, too.
        let is_configuration = [".tf", ".tf.json"].iter().any(|end| name.ends_with(end));
        (is_configuration && !name.contains('/')).then_some((path.as_str(), *bytes))
    })
}
