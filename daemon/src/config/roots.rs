//! `[roots.NAME]`: a source tree of Terraform that agents may ask for, and what it may touch.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use sandbox_core::names::{NamespaceName, RootName};
use sandbox_core::plan::KindName;
use sandbox_core::resource::Resource;
use serde::Deserialize;

use super::SecretVar;

/// One source tree.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Root {
    /// Where its files are. An agent may name it by this path too.
    pub folder: PathBuf,
    /// Where its objects are. One namespace: a lease is good in one.
    pub namespaces: Vec<NamespaceName>,
    /// The kinds it may have, as `deployments.apps`; `cluster/base/apply` renders its Roles from the same list.
    pub kinds: Vec<Resource>,
    /// Files of the folder that hold values of variables, in order; `terraform.tfvars` and `*.auto.tfvars` are
    /// read without being named.
    #[serde(default)]
    pub var_files: Vec<String>,
    /// Variables whose values are secret, and where those are. They reach the sandbox's memory alone.
    #[serde(default)]
    pub secret_vars: BTreeMap<String, SecretVar>,
    /// Other files of the folder that the source reads.
    #[serde(default)]
    pub data_files: Vec<String>,
    /// Terraform's workspace.
    #[serde(default = "default_workspace")]
    pub workspace: String,
    /// Where its state is.
    #[serde(default)]
    pub state: StateKind,
    /// Outputs whose values an agent is told after an apply, unless they are sensitive.
    #[serde(default)]
    pub agent_outputs: Vec<String>,
}

/// Where a root's state is.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum StateKind {
    /// The daemon keeps it, a version for each change.
    #[default]
    Managed,
    /// Elsewhere. The file is a pull of it that an operator put there, so there are plans, and no applies.
    Snapshot(PathBuf),
}

fn default_workspace() -> String {
    "default".to_owned()
}

impl Root {
    pub(super) fn check(
        &self,
        name: &RootName,
        reserved: &[NamespaceName],
        check: &mut impl FnMut(bool, String),
    ) {
        let at = format!("roots.{name}");
        check(
            self.folder.is_absolute(),
            format!("{at}.folder must be an absolute path"),
        );
        check(
            self.namespaces.len() == 1,
            format!("{at}.namespaces must name one namespace"),
        );
        for namespace in &self.namespaces {
            check(
                !namespace.is_system() && !reserved.contains(namespace),
                format!("{at}.namespaces: {namespace} may never be a target"),
            );
        }
        check(
            !self.kinds.is_empty(),
            format!("{at}.kinds must name at least one kind"),
        );
        check(
            !name.as_str().starts_with("delete-"),
            format!(
                "{at}: a name that begins with delete- would share its roles with another root"
            ),
        );
        for (key, files) in [
            ("var_files", &self.var_files),
            ("data_files", &self.data_files),
        ] {
            for file in files {
                check(
                    is_inside(file),
                    format!("{at}.{key}: {file:?} must be a path inside the folder"),
                );
            }
        }
        for (variable, from) in &self.secret_vars {
            check(
                is_word(variable),
                format!("{at}.secret_vars: {variable:?} is no name of a variable"),
            );
            check(
                from.is_whole(),
                format!("{at}.secret_vars.{variable} must be an absolute path, or name a field"),
            );
        }
        for (index, output) in self.agent_outputs.iter().enumerate() {
            check(
                is_word(output) && !self.agent_outputs[..index].contains(output),
                format!(
                    "{at}.agent_outputs: {output:?} is no name of an output, or stands there twice"
                ),
            );
        }
        check(
            is_word(&self.workspace),
            format!("{at}.workspace must be of letters, digits, '_' and '-'"),
        );
        if let StateKind::Snapshot(file) = &self.state {
            check(
                file.is_absolute(),
                format!("{at}.state.snapshot must be an absolute path"),
            );
        }
    }

    /// The one namespace it is good in.
    #[must_use]
    pub fn namespace(&self) -> Option<&NamespaceName> {
        self.namespaces.first()
    }

    /// Its kinds, as plans name them.
    #[must_use]
    pub fn kind_names(&self) -> BTreeSet<KindName> {
        // Every kind of the table is a name: each is a plural and its group.
        let names = self.kinds.iter().map(ToString::to_string);
        names.filter_map(|name| name.parse().ok()).collect()
    }

    /// A kind whose list tells whether a credential works.
    #[must_use]
    pub fn listed(&self) -> Option<Resource> {
        self.kinds.first().copied()
    }
}

pub(crate) fn is_word(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !text.is_empty() && text.chars().all(is_part)
}

fn is_inside(path: &str) -> bool {
    !path.is_empty()
        && Path::new(path)
            .components()
            .all(|c| matches!(c, Component::Normal(_)))
}
