//! Whether a saved plan was made from the bundle it is said to be made from. A plan file carries its own
//! copy of the configuration and of the lock file, and Terraform goes by those, not by the folder.

use std::collections::{BTreeMap, BTreeSet};

use sandbox_bundle::BundlePath;
use serde::Deserialize;

use super::Tree;
use super::lock::Locks;
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
        dir => match dir.parse::<BundlePath>() {
            Ok(_) => Ok(format!("{dir}/")),
            Err(_) => Err(Difference::Manifest),
        },
    }
}

/// The configuration files directly in a folder: what Terraform reads there.
fn files_of<'a>(bundle: &'a Tree<'_>, folder: &str) -> impl Iterator<Item = (&'a str, &'a [u8])> {
    bundle.iter().filter_map(move |(path, bytes)| {
        let name = path.strip_prefix(folder)?;
        // Terraform goes by the case, too.
        let is_configuration = [".tf", ".tf.json"].iter().any(|end| name.ends_with(end));
        (is_configuration && !name.contains('/')).then_some((*path, *bytes))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::zip::tests::{made, zip};
    use super::*;

    const MODULES: &[u8] = br#"[{"Key":"","Dir":"."},{"Key":"a","Source":"./m","Dir":"m"}]"#;

    fn bundle() -> Tree<'static> {
        let files: [(&str, &[u8]); 4] = [
            ("main.tf", b"root"),
            ("m/main.tf", b"module"),
            ("m/note.txt", b"x"),
            ("other/main.tf", b"not used"),
        ];
        files.into()
    }

    /// The plan of that bundle, with some entries added or changed.
    fn compared(changes: &[(&str, &[u8])]) -> Result<Modules, Difference> {
        let mut entries = vec![
            ("tfplan", &b"\xff"[..]),
            ("tfconfig/m-/main.tf", b"root"),
            ("tfconfig/m-a/main.tf", b"module"),
            (MANIFEST, MODULES),
            (LOCK, b"# nothing\n"),
        ];
        for change in changes {
            entries.retain(|(name, _)| *name != change.0);
            entries.push(*change);
        }
        let made: Vec<_> = entries
            .iter()
            .map(|(name, bytes)| made(name, bytes))
            .collect();
        compare(&zip(&made), &bundle())
    }

    #[test]
    fn a_plan_of_the_bundle_is_told_from_any_other() {
        let modules = compared(&[]).unwrap();
        let found = br#"{"Modules":[{"Key":"a","Source":"./m","Dir":"m"},{"Key":"","Source":"","Dir":"."}]}"#;
        assert_eq!(modules.compare(Some(found)), Ok(()));
        for other in [
            &br#"{"Modules":[{"Key":"","Source":"","Dir":"."}]}"#[..],
            br#"{"Modules":[{"Key":"","Dir":"."},{"Key":"a","Source":"./m","Dir":"other"}]}"#,
            br#"{"Modules":[{"Key":"","Dir":"."},{"Key":"a","Source":"./other","Dir":"m"}]}"#,
        ] {
            assert_eq!(modules.compare(Some(other)), Err(Difference::Modules));
        }
        assert_eq!(modules.compare(None), Err(Difference::Modules));
        assert_eq!(modules.compare(Some(b"[]")), Err(Difference::Manifest));
    }

    #[test]
    fn what_differs_is_named() {
        let file = |path: &str| Difference::File(path.to_owned());
        let stray = |path: &str| Difference::Stray(path.to_owned());
        let cases: [(&str, &[u8], Difference); 8] = [
            ("tfconfig/m-/main.tf", b"Root", file("main.tf")),
            ("tfconfig/m-a/main.tf", b"", file("m/main.tf")),
            ("tfconfig/m-/more.tf", b"", stray("tfconfig/m-/more.tf")),
            (
                "tfconfig/m-b/main.tf",
                b"module",
                stray("tfconfig/m-b/main.tf"),
            ),
            (
                LOCK,
                b"provider \"x\" {\n version = \"1\"\n}\n",
                Difference::Lock,
            ),
            (MANIFEST, b"{}", Difference::Manifest),
            (
                MANIFEST,
                br#"[{"Key":"","Dir":"../x"}]"#,
                Difference::Manifest,
            ),
            (
                MANIFEST,
                br#"[{"Key":"","Dir":"."}]"#,
                stray("tfconfig/m-a/main.tf"),
            ),
        ];
        for (name, bytes, difference) in cases {
            assert_eq!(compared(&[(name, bytes)]), Err(difference), "{name}");
        }
    }

    proptest! {
        #[test]
        fn no_list_of_modules_makes_it_panic(key in ".{0,8}", dir in "[a-z./]{0,8}", text in ".{0,40}") {
            let listed = serde_json::json!([{ "Key": key, "Dir": dir }]).to_string();
            compared(&[(MANIFEST, listed.as_bytes())]).ok();
            compared(&[(MANIFEST, text.as_bytes())]).ok();
        }
    }
}
