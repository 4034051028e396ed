//! `sandboxd check-root`: what keeps a folder from being a root, all of it, and how to configure it when nothing
//! does. It packs and checks as a plan would, without a daemon.

mod access;
mod data_files;
mod fault;
mod needs;
mod report;
mod setting;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use nix::unistd::{Uid, User};
use sandbox_bundle::survey::Survey;
use sandbox_bundle::{Bundle, BundlePath, PackError, RootFolder, lock};
use sandbox_core::names::{NamespaceName, RootName};
use sandbox_core::resource::Resource;

use super::check::of_image;
use super::source::bundle_limits;
use crate::config::{self, SecretVar, StateKind};
use crate::run::config_path;
use fault::Fault;
use setting::Setting;

/// Arguments of `check-root`.
#[derive(Args, Debug)]
pub struct CheckRoot {
    /// The folder that Terraform is run in.
    folder: PathBuf,
    /// What the root is called. [default: as it is configured, or the folder's own name]
    #[arg(long)]
    name: Option<RootName>,
    /// The namespace of its objects. [default: as it is configured, or the one that the source names]
    #[arg(long)]
    namespace: Option<NamespaceName>,
    /// A file of the folder with values of variables, as `var_files` of the root names it. Can be given again.
    #[arg(long, value_name = "FILE")]
    var_file: Vec<String>,
    /// Where the configuration is. [default: /etc/sandboxd/sandboxd.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// The command that writes the lock file for the image, run in the folder.
    #[arg(long, hide = true, default_value = "images/mirror --lock .")]
    lock_command: String,
}

impl CheckRoot {
    /// Runs the command. The exit code is 0 only when there is nothing to mend.
    ///
    /// # Errors
    /// When the answer could not be written.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let json = self.json;
        let setting = Setting::read(&config_path(self.config.clone()));
        let seen = Seen::look(&self, &setting);
        report::print(&seen, &setting, json)?;
        Ok(if seen.faults.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

/// What was seen of a folder, and what it would be configured as.
#[derive(Debug)]
struct Seen {
    name: RootName,
    folder: PathBuf,
    user: String,
    files: usize,
    bytes: usize,
    faults: BTreeSet<Fault>,
    notes: Vec<String>,
    survey: Survey,
    /// Variables without a value, and the file that would hold it if it is a secret.
    open: Vec<needs::Open>,
    kinds: BTreeSet<Resource>,
    /// Those that are written out.
    namespaces: BTreeSet<String>,
    namespace: Option<NamespaceName>,
    var_files: Vec<String>,
    data_files: Vec<String>,
    secret_vars: BTreeMap<String, SecretVar>,
    workspace: String,
    state: StateKind,
    agent_outputs: Vec<String>,
}

impl Seen {
    fn look(args: &CheckRoot, setting: &Setting) -> Self {
        // A plan takes no link on the way; what the person typed may have one.
        let folder = args.folder.canonicalize();
        let folder = folder.or_else(|_| std::path::absolute(&args.folder));
        let folder = folder.unwrap_or_else(|_| args.folder.clone());
        let mut faults: BTreeSet<Fault> = setting.fault.iter().cloned().collect();
        let name = setting::name(args.name.as_ref(), &folder, setting, &mut faults);
        let configured = setting.roots.get(&name);
        if let Some(other) = configured.filter(|root| root.folder != folder) {
            faults.insert(Fault::of_config(
                setting,
                format!("roots.{name} is {}", fault::shown(&other.folder)),
                "Call this one otherwise, with --name.".to_owned(),
            ));
        }
        let mut seen = Self {
            user: user(),
            files: 0,
            bytes: 0,
            faults,
            notes: Vec::new(),
            survey: Survey::default(),
            open: Vec::new(),
            kinds: configured.map_or_else(BTreeSet::new, |r| r.kinds.iter().copied().collect()),
            namespaces: BTreeSet::new(),
            namespace: None,
            var_files: configured.map_or_else(Vec::new, |r| r.var_files.clone()),
            data_files: configured.map_or_else(Vec::new, |r| r.data_files.clone()),
            secret_vars: configured.map_or_else(BTreeMap::new, |r| r.secret_vars.clone()),
            workspace: configured.map_or_else(|| "default".to_owned(), |r| r.workspace.clone()),
            state: configured.map_or(StateKind::Managed, |r| r.state.clone()),
            agent_outputs: configured.map_or_else(Vec::new, |r| r.agent_outputs.clone()),
            name,
            folder,
        };
        for file in &args.var_file {
            if !seen.var_files.contains(file) {
                seen.var_files.push(file.clone());
            }
        }
        if let Some(bundle) = seen.pack(setting) {
            seen.files = bundle.files().len();
            seen.bytes = bundle.files().iter().map(|file| file.bytes.len()).sum();
            seen.check(&bundle, setting, &args.lock_command);
            seen.survey = bundle.survey(&seen.var_files);
            seen.faults
                .extend(seen.survey.faults.iter().map(Fault::of_source));
            seen.need(args.namespace.as_ref(), setting);
        }
        seen.differences(configured, setting);
        seen
    }

    /// Packs as a plan does, and again with the files that the root should list.
    fn pack(&mut self, setting: &Setting) -> Option<Bundle> {
        let limits = bundle_limits(&setting.limits);
        let (mut bundle, mut faults) = Bundle::pack_all(&self.root_folder(), &limits);
        let mut unlisted: Vec<String> = faults
            .iter()
            .filter_map(|fault| match fault {
                PackError::Unlisted(path) => Some(path.clone()),
                PackError::Folder { .. }
                | PackError::Empty(_)
                | PackError::File { .. }
                | PackError::Path { .. }
                | PackError::Limit(_)
                | PackError::Bundle(_) => None,
            })
            .filter(|path| path.parse::<BundlePath>().is_ok())
            .collect();
        // As Terraform takes them, one after the other.
        unlisted.sort_by_key(|path| (!path.starts_with("terraform.tfvars"), path.clone()));
        let mut data = Vec::new();
        if let Some(bundle) = &bundle {
            data = data_files::mentioned(&self.folder, bundle);
        }
        if !unlisted.is_empty() || !data.is_empty() {
            // What is named has the last word.
            self.var_files.splice(0..0, unlisted);
            self.data_files.extend(data);
            (bundle, faults) = Bundle::pack_all(&self.root_folder(), &limits);
        }
        for fault in &faults {
            self.faults
                .insert(Fault::of_packing(fault, &self.folder, &self.user));
        }
        bundle
    }

    fn root_folder(&self) -> RootFolder {
        RootFolder {
            folder: self.folder.clone(),
            var_files: self.var_files.clone(),
            data: self.data_files.clone(),
        }
    }

    /// What a plan would refuse. Without a configuration the image's providers are not known, which is a fault of
    /// its own; any is taken then.
    fn check(&mut self, bundle: &Bundle, setting: &Setting, lock_command: &str) {
        let providers = setting.providers.as_deref().unwrap_or_default();
        let (image, mut rules) = of_image(providers, &self.state);
        if setting.providers.is_none() {
            rules.providers.extend(bundle.providers());
        } else if let Err(faults) = lock::check(bundle, &image, lock_command) {
            self.faults.extend(faults.iter().map(Fault::of_lock));
        }
        let refused = bundle.check_all(&rules);
        self.faults.extend(refused.iter().map(Fault::of_source));
    }

    /// Where the configuration that is there says less than the folder needs.
    fn differences(&mut self, configured: Option<&config::Root>, setting: &Setting) {
        let Some(root) = configured else { return };
        let kinds: BTreeSet<Resource> = root.kinds.iter().copied().collect();
        let missing = |key: &str, names: Vec<String>| {
            (!names.is_empty())
                .then(|| format!("roots.{}.{key} lacks {}", self.name, names.join(", ")))
        };
        let lacks = [
            missing(
                "kinds",
                self.kinds
                    .difference(&kinds)
                    .map(ToString::to_string)
                    .collect(),
            ),
            missing("var_files", lacking(&self.var_files, &root.var_files)),
            missing("secret_vars", {
                let names = self.secret_vars.keys();
                names
                    .filter(|name| !root.secret_vars.contains_key(*name))
                    .cloned()
                    .collect()
            }),
        ];
        let next = "Write what stands below in its place.".to_owned();
        for what in lacks.into_iter().flatten() {
            self.faults
                .insert(Fault::of_config(setting, what, next.clone()));
        }
        if let (Some(namespace), Some(other)) = (&self.namespace, root.namespace())
            && namespace != other
        {
            let what = format!(
                "roots.{}.namespaces names {other}, and not {namespace}",
                self.name
            );
            self.faults.insert(Fault::of_config(setting, what, next));
        }
        let data = lacking(&self.data_files, &root.data_files);
        if !data.is_empty() {
            self.notes.push(format!(
                "The source seems to read {}, which roots.{}.data_files does not list.",
                data.join(", "),
                self.name
            ));
        }
    }
}

fn lacking(all: &[String], there: &[String]) -> Vec<String> {
    let lacks = all.iter().filter(|name| !there.contains(name));
    lacks
        .map(|name| name.escape_default().to_string())
        .collect()
}

/// Whose rights these are.
fn user() -> String {
    let uid = rustix::process::geteuid().as_raw();
    let name = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    name.map_or_else(|| uid.to_string(), |user| user.name)
}
