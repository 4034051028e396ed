//! What a root's source needs of its configuration: values, kinds, a namespace.

use std::path::{Path, PathBuf};

use sandbox_bundle::BundlePath;
use sandbox_bundle::survey::{Namespace, Resource as Block, Variable};
use sandbox_core::names::NamespaceName;
use sandbox_core::plan::kind_of_type;
use sandbox_core::resource::Resource;

use super::super::variables::of_file;
use super::Seen;
use super::fault::{Fault, shown};
use super::setting::Setting;
use crate::config::{self, SecretVar, VaultKv};

/// A variable without a value.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) variable: Variable,
    /// Where its value would be if it is a secret.
    pub(super) secret_file: PathBuf,
}

impl Seen {
    pub(super) fn need(&mut self, namespace: Option<&NamespaceName>, setting: &Setting) {
        self.values(setting);
        let blocks = std::mem::take(&mut self.survey.resources);
        for block in &blocks {
            self.kind(block, setting);
        }
        if self.kinds.is_empty() && self.faults.is_empty() {
            self.faults.insert(Fault::of_root(
                "nothing in the source is an object of Kubernetes whose kind is known".to_owned(),
                "Name the folder that Terraform is run in, or write [roots.NAME] by hand."
                    .to_owned(),
            ));
        }
        self.namespace(namespace, &blocks, setting);
        self.survey.resources = blocks;
    }

    fn values(&mut self, setting: &Setting) {
        for (name, from) in &self.secret_vars {
            let file = match from {
                SecretVar::File(file) => file,
                SecretVar::VaultKv(VaultKv { vault_kv, field }) => {
                    self.notes.push(format!(
                        "The value of {name} is in Vault at {vault_kv}, field {field:?}: it was not asked for here."
                    ));
                    continue;
                }
            };
            if let Err(problem) = of_file(file) {
                self.faults.insert(Fault::of_config(
                    setting,
                    format!(
                        "roots.{}.secret_vars.{name}, {}, cannot be read: {problem}",
                        self.name,
                        shown(file)
                    ),
                    write_secret(file),
                ));
            }
        }
        let other = match &other_values(&self.folder, &self.var_files)[..] {
            [] => String::new(),
            files => format!(
                ", or name the file that has it with --var-file ({})",
                files.join(", ")
            ),
        };
        for variable in self.survey.variables.clone() {
            if variable.has_value || self.secret_vars.contains_key(&variable.name) {
                continue;
            }
            let file = setting.secret_file(&self.name, &variable.name);
            let is_plain = config::is_word(&variable.name);
            let found = if is_plain {
                of_file(&file)
            } else {
                Err(String::new())
            };
            if found.is_ok() {
                self.secret_vars
                    .insert(variable.name, SecretVar::File(file));
                continue;
            }
            let shown_name = variable.name.escape_default();
            let (what, next) = if variable.sensitive && is_plain {
                if file.symlink_metadata().is_ok()
                    && let Err(problem) = &found
                {
                    self.notes
                        .push(format!("{} cannot be read: {problem}.", shown(&file)));
                }
                self.secret_vars
                    .insert(variable.name.clone(), SecretVar::File(file.clone()));
                (
                    format!("the sensitive variable {shown_name} has no value"),
                    write_secret(&file),
                )
            } else {
                (
                    format!("the variable {shown_name} has no value"),
                    format!(
                        "Give it a default or a line in terraform.tfvars{other}. If it is a secret, say `sensitive = true`. {}",
                        write_secret(&file)
                    ),
                )
            };
            self.faults.insert(Fault::new(
                variable.file.as_str(),
                variable.line,
                what,
                next,
            ));
            self.open.push(Open {
                variable,
                secret_file: file,
            });
        }
    }

    /// Takes the kind of a block, or says why no root may have it.
    fn kind(&mut self, block: &Block, setting: &Setting) {
        let Some(provider) = &block.provider else {
            return; // the check refuses it
        };
        let is_in_image = setting.providers.as_ref().is_none_or(|providers| {
            providers
                .iter()
                .any(|known| is_same(&known.source, provider))
        });
        if !is_in_image && !provider.starts_with("terraform.io/builtin/") {
            return; // so does it here
        }
        let type_name = block.type_name.escape_default();
        let word = if block.is_data { "data" } else { "resource" };
        let mut fault = |why: String, next: &str| {
            let what = format!("{word} \"{type_name}\" is refused: {why}");
            self.faults.insert(Fault::new(
                block.file.as_str(),
                block.line,
                what,
                next.to_owned(),
            ));
        };
        match kind_of_type(provider, &block.type_name) {
            Ok(None) if block.type_name.ends_with("_manifest") => self.notes.push(format!(
                "{}:{}: the first plan says which kind the manifest is; add it to kinds.",
                block.file.as_str().escape_default(),
                block.line
            )),
            Ok(None) => {}
            Ok(Some(kind)) if kind.to_string() == "secrets" => fault(
                "no credential of Terraform's reads Secrets".to_owned(),
                "Make the Secret elsewhere, and name it where pods use it.",
            ),
            Ok(Some(kind)) => match kind.to_string().parse::<Resource>() {
                Ok(resource) => {
                    self.kinds.insert(resource);
                }
                Err(e) => fault(format!("{kind} {e}"), "Make it elsewhere."),
            },
            Err(why) => fault(why, "Take it out; leave it to people."),
        }
    }

    fn namespace(&mut self, given: Option<&NamespaceName>, blocks: &[Block], setting: &Setting) {
        for block in blocks {
            if let Namespace::Named(name) = &block.namespace {
                self.namespaces.insert(name.clone());
            }
        }
        let configured = setting
            .roots
            .get(&self.name)
            .and_then(|root| root.namespace());
        let only = match self.namespaces.iter().collect::<Vec<_>>()[..] {
            [only] => only.parse().ok(),
            _ => None,
        };
        self.namespace = given.or(configured).cloned().or(only);
        let Some(namespace) = self.namespace.clone() else {
            let names: Vec<_> = self
                .namespaces
                .iter()
                .map(|n| n.escape_default().to_string())
                .collect();
            let what = if names.is_empty() {
                "which namespace its objects are in does not stand in the source".to_owned()
            } else {
                format!(
                    "its objects are in several namespaces: {}",
                    names.join(", ")
                )
            };
            self.faults.insert(Fault::of_root(
                what,
                "A root is in one; name it with --namespace, and move the rest to a root of its own.".to_owned(),
            ));
            return;
        };
        if namespace.is_system() || setting.reserved.contains(&namespace) {
            self.faults.insert(Fault::of_root(
                format!("the namespace {namespace} may never be a target"),
                "Use another.".to_owned(),
            ));
        }
        for block in blocks {
            let what = match &block.namespace {
                Namespace::Named(name) if name != namespace.as_str() => format!(
                    "it is in the namespace {}, and the root is in {namespace}",
                    name.escape_default()
                ),
                Namespace::Absent if namespace.as_str() != "default" => format!(
                    "it names no namespace, so it would be in default, and the root is in {namespace}"
                ),
                Namespace::Named(_) | Namespace::Absent | Namespace::Unseen => continue,
            };
            let next = format!(
                "Write namespace = \"{namespace}\" into its metadata, or move it to a root of its own."
            );
            self.faults
                .insert(Fault::new(block.file.as_str(), block.line, what, next));
        }
    }
}

fn write_secret(file: &Path) -> String {
    let file = shown(file);
    format!(
        "Put its value into a file of sandboxd's own: install -D -m 600 -o sandboxd /dev/stdin {file} (type it, Ctrl-D)."
    )
}

/// Files of values that Terraform reads only when it is told to, and that nobody named so far.
fn other_values(folder: &Path, listed: &[String]) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names
        .filter(|name| {
            let is_file = name.contains(".tfvars") && name.parse::<BundlePath>().is_ok();
            is_file && !listed.contains(name)
        })
        .map(|name| name.escape_default().to_string())
        .collect();
    names.sort();
    names
}

/// Whether a provider of the configuration is the one at that address.
fn is_same(known: &str, address: &str) -> bool {
    let (Ok(known), Ok(address)) = (
        known.parse::<sandbox_bundle::ProviderSource>(),
        address.parse(),
    ) else {
        return false;
    };
    known.matches(&address)
}
