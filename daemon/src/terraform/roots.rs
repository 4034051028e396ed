//! The roots there are, and that one thing at a time happens to each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ring::digest::{Context, SHA256};
use sandbox_core::names::RootName;
use sandbox_core::parameters::{FieldError, Parameters};

use super::source::bytes;
use crate::config;
use crate::report::{Code, Failure};

/// The configured roots. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Roots(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    roots: BTreeMap<RootName, Arc<config::Root>>,
    busy: Mutex<BTreeSet<RootName>>,
}

/// A root that a request is about.
#[derive(Clone, Debug)]
pub struct Root {
    /// Its name.
    pub name: RootName,
    /// What the configuration says of it.
    pub settings: Arc<config::Root>,
}

/// While this lives, nothing else happens to its root.
#[must_use = "a root whose turn is dropped is free again"]
pub(crate) struct Turn {
    roots: Roots,
    name: RootName,
}

impl Roots {
    /// Those of a configuration.
    #[must_use]
    pub fn new(roots: BTreeMap<RootName, config::Root>) -> Self {
        let roots = roots.into_iter().map(|(name, root)| (name, Arc::new(root)));
        Self(Arc::new(Inner {
            roots: roots.collect(),
            busy: Mutex::default(),
        }))
    }

    /// The root that parameters are about; `None` when their action has none.
    ///
    /// # Errors
    /// When `working_dir` is neither a root's name nor its folder.
    pub fn find(&self, parameters: &Parameters) -> Result<Option<Root>, FieldError> {
        let working_dir = match parameters {
            Parameters::TerraformPlan(p) => &p.working_dir,
            Parameters::TerraformApply(a) => &a.working_dir,
            Parameters::PodStatus(_) | Parameters::GetRequest(_) => return Ok(None),
        };
        // As text: whether a path leads to the same folder is not looked up for an agent.
        let folder = Path::new(working_dir.trim_end_matches('/'));
        let found = self.0.roots.iter().find(|(name, root)| {
            name.as_str() == working_dir || root.folder.components().eq(folder.components())
        });
        match found {
            Some((name, settings)) => Ok(Some(Root {
                name: name.clone(),
                settings: Arc::clone(settings),
            })),
            None => Err(FieldError::new(
                "working_dir",
                "is neither the name nor the folder of a root in sandboxd.toml",
            )),
        }
    }

    /// Their names, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &RootName> {
        self.0.roots.keys()
    }

    /// Takes a root's turn.
    ///
    /// # Errors
    /// [`Code::RootBusy`] while somebody else has it.
    pub(crate) fn take(&self, name: &RootName) -> Result<Turn, Failure> {
        let mut busy = self.0.busy.lock().unwrap_or_else(PoisonError::into_inner);
        if busy.insert(name.clone()) {
            return Ok(Turn {
                roots: self.clone(),
                name: name.clone(),
            });
        }
        Err(Failure::new(
            Code::RootBusy,
            format!("Another plan or apply of the root {name} is under way."),
        ))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut busy = self
            .roots
            .0
            .busy
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        busy.remove(&self.name);
    }
}

impl Root {
    /// Of everything the configuration says of it: a change of any of it voids an approval.
    #[must_use]
    pub fn settings_digest(&self) -> [u8; 32] {
        let mut context = Context::new(&SHA256);
        context.update(b"agent-sandbox root settings 1\n");
        // Debug output is one text for equal settings, and different for others: every field is in it, quoted.
        context.update(format!("{:?}", self.settings).as_bytes());
        bytes(context.finish().as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbox_core::parameters::ActionName;

    fn roots() -> Roots {
        let settings =
            "folder = '/srv/demo'\nnamespaces = ['demo-app']\nkinds = ['deployments.apps']\n";
        let root: config::Root = toml::from_str(settings).unwrap();
        Roots::new(BTreeMap::from([("demo".parse().unwrap(), root)]))
    }

    fn find(working_dir: &str) -> Result<Option<Root>, FieldError> {
        let json = serde_json::json!({ "working_dir": working_dir }).to_string();
        roots().find(&Parameters::parse(ActionName::TerraformPlan, &json).unwrap())
    }

    #[test]
    fn a_root_is_found_by_its_name_and_by_its_folder_alone() {
        for good in ["demo", "/srv/demo", "/srv/demo/", "/srv//demo"] {
            assert_eq!(find(good).unwrap().unwrap().name.as_str(), "demo", "{good}");
        }
        for bad in [
            "Demo",
            "/srv",
            "/srv/demo/..",
            "/srv/demo/modules",
            "srv/demo",
            ".",
        ] {
            assert_eq!(find(bad).unwrap_err().field, "working_dir", "{bad}");
        }
    }

    #[test]
    fn a_root_has_one_turn_at_a_time() {
        let (roots, demo) = (roots(), "demo".parse().unwrap());
        let turn = roots.take(&demo).unwrap();
        assert_eq!(
            roots.take(&demo).map(drop).unwrap_err().code,
            Code::RootBusy
        );
        drop(turn);
        assert!(roots.take(&demo).is_ok());
    }

    #[test]
    fn other_settings_have_another_digest() {
        let root = find("demo").unwrap().unwrap();
        let mut other = (*root.settings).clone();
        other.var_files.push("a.tfvars".to_owned());
        let other = Root {
            settings: Arc::new(other),
            ..root.clone()
        };
        assert_ne!(root.settings_digest(), other.settings_digest());
        assert_eq!(
            root.settings_digest(),
            find("demo").unwrap().unwrap().settings_digest()
        );
    }
}
