//! From a folder on disk to a bundle.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::bundle::{Bundle, BundleError, File};
use crate::folder::{Entry, EntryKind, Folder, ReadFault};
use crate::limits::{Budget, LimitError, Limits};
use crate::names::{self, Role};
use crate::path::{BundlePath, LOCK_FILE, PathError};
use crate::source;

/// A Terraform root on disk, as the configuration names it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RootFolder {
    /// Absolute, and without a link anywhere in it.
    pub folder: PathBuf,
    /// Files with values of variables, as paths beneath the folder. Those that Terraform would read unasked
    /// must be among them, and no others are packed.
    pub var_files: Vec<String>,
    /// Files, or folders with all that is in them, that the configuration reads, e.g. `templates`.
    pub data: Vec<String>,
}

/// Why a folder was not packed.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// The folder cannot be used.
    #[error("could not read the folder {}: {problem}", escaped(&folder.to_string_lossy()))]
    Folder {
        /// The root's folder.
        folder: PathBuf,
        /// What is wrong with it and what to do.
        problem: String,
    },
    /// It has no configuration.
    #[error(
        "the folder {} has no *.tf or *.tf.json file; name the folder that Terraform is run in",
        escaped(&.0.to_string_lossy())
    )]
    Empty(PathBuf),
    /// Values that Terraform reads unasked, and that the root does not list: the file's name as it is.
    #[error(
        "could not pack {}: Terraform reads these values unasked, and the root does not list them; add the file to the root's var_files, or give it another name",
        escaped(.0)
    )]
    Unlisted(String),
    /// A file or a folder cannot be used.
    #[error("could not pack {path}: {problem}")]
    File {
        /// As seen from the root's folder, escaped.
        path: String,
        /// What is wrong with it and what to do.
        problem: String,
    },
    /// A name on disk, or one that the configuration lists, is none for a bundle.
    #[error("could not pack {path}: the path {problem}")]
    Path {
        /// As seen from the root's folder, escaped.
        path: String,
        /// Why.
        problem: PathError,
    },
    /// It is too much.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// What was read does not make a bundle.
    #[error(transparent)]
    Bundle(#[from] BundleError),
}

impl Bundle {
    /// Packs what Terraform reads of a root, and what the root lists: `*.tf` and `*.tf.json` of its own
    /// folder and of the modules it calls beneath it, the lock file, the listed values and data. Blocks on
    /// the disk, and on a file system that takes its time for as long as that.
    ///
    /// A file that was written to while it was read is refused, as far as the file system's clock shows it;
    /// two files may be of two moments. What counts is that what was packed is what is reviewed. Bytes are
    /// kept as they are.
    ///
    /// # Errors
    /// [`PackError`]: links, files with more than one name, what is no file, names that are none for a
    /// bundle, values that are not listed, a passed limit.
    pub fn pack(root: &RootFolder, limits: &Limits) -> Result<Self, PackError> {
        Self::pack_with(root, limits, None)
    }

    /// The same, for whoever mends a whole root: what cannot be packed is left out and told, all of it. Only a
    /// folder that cannot be read at all and a passed limit leave nothing.
    #[must_use]
    pub fn pack_all(root: &RootFolder, limits: &Limits) -> (Option<Self>, Vec<PackError>) {
        let mut faults = Vec::new();
        match Self::pack_with(root, limits, Some(&mut faults)) {
            Ok(bundle) => (Some(bundle), faults),
            Err(fault) => {
                faults.push(fault);
                (None, faults)
            }
        }
    }

    fn pack_with(
        root: &RootFolder,
        limits: &Limits,
        faults: Option<&mut Vec<PackError>>,
    ) -> Result<Self, PackError> {
        let folder = Folder::open(&root.folder).map_err(|fault| PackError::Folder {
            folder: root.folder.clone(),
            problem: folder_problem(&root.folder, &fault),
        })?;
        let mut packing = Packing {
            folder,
            budget: Budget::new(limits),
            files: BTreeMap::new(),
            faults: Faults(faults),
        };
        packing.configuration(&root.var_files)?;
        if packing.files.is_empty() {
            return Err(PackError::Empty(root.folder.clone()));
        }
        let lock_file = packing.lock_file();
        packing.faults.pass(lock_file)?;
        for path in &root.var_files {
            let listed = packing.listed_file(path);
            packing.faults.pass(listed)?;
        }
        for path in &root.data {
            let listed = packing.listed_data(path);
            packing.faults.pass(listed)?;
        }
        let files = packing
            .files
            .into_iter()
            .map(|(path, bytes)| File { path, bytes })
            .collect();
        Ok(Self::new(files, limits)?)
    }
}

struct Packing<'f> {
    folder: Folder,
    budget: Budget,
    files: BTreeMap<BundlePath, Vec<u8>>,
    faults: Faults<'f>,
}

/// Where faults are gathered, if they do not end it.
struct Faults<'f>(Option<&'f mut Vec<PackError>>);

impl Faults<'_> {
    fn pass<T: Default>(&mut self, result: Result<T, PackError>) -> Result<T, PackError> {
        match (result, &mut self.0) {
            (Err(fault), Some(faults)) if !matches!(fault, PackError::Limit(_)) => {
                faults.push(fault);
                Ok(T::default())
            }
            (result, _) => result,
        }
    }
}

impl Packing<'_> {
    /// The root's own folder, then every folder of a module that is called from what was read so far.
    fn configuration(&mut self, var_files: &[String]) -> Result<(), PackError> {
        let mut seen = BTreeSet::from([String::new()]);
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            self.budget.take_entry(&folder)?;
            let entries = self.entries(&folder, var_files);
            for (name, role) in self.faults.pass(entries)? {
                let modules = self.modules_of(&folder, &name, role);
                for module in self.faults.pass(modules)? {
                    if seen.insert(module.clone()) {
                        folders.push(module);
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads a configuration file, and tells which folders it calls.
    fn modules_of(
        &mut self,
        folder: &str,
        name: &str,
        role: Role,
    ) -> Result<Vec<String>, PackError> {
        let path = parse(&join(folder, name))?;
        Ok(source::local_modules(folder, role, self.read(&path)?))
    }

    /// The configuration files of one folder, by name. A module's folder that is not there is no error
    /// here: the check of the source says which line asks for it.
    fn entries(
        &mut self,
        folder: &str,
        var_files: &[String],
    ) -> Result<Vec<(String, Role)>, PackError> {
        let mut found = Vec::new();
        let (budget, faults) = (&mut self.budget, &mut self.faults);
        let listed = self.folder.list(folder, |entry| {
            budget.take_entry(folder)?;
            found.extend(faults.pass(configuration_file(folder, &entry, var_files))?);
            Ok::<_, PackError>(())
        });
        match listed {
            Ok(result) => result?,
            Err(ReadFault::Missing) if !folder.is_empty() => {}
            Err(fault) => return Err(file_error(folder, &fault)),
        }
        found.sort();
        Ok(found)
    }

    /// A root without a lock file can be packed; the check of the lock file says what to do.
    fn lock_file(&mut self) -> Result<(), PackError> {
        match self.folder.kind(LOCK_FILE) {
            Err(ReadFault::Missing) => Ok(()),
            _ => self.listed_file(LOCK_FILE),
        }
    }

    fn listed_file(&mut self, path: &str) -> Result<(), PackError> {
        self.read(&parse(path)?).map(|_| ())
    }

    /// A file, or a folder with all that is in it.
    fn listed_data(&mut self, path: &str) -> Result<(), PackError> {
        let path = parse(path.strip_suffix('/').unwrap_or(path))?;
        let kind = self
            .folder
            .kind(path.as_str())
            .map_err(|fault| file_error(path.as_str(), &fault))?;
        if kind == EntryKind::Folder {
            self.data_folder(path.as_str())
        } else {
            self.read(&path).map(|_| ())
        }
    }

    fn data_folder(&mut self, top: &str) -> Result<(), PackError> {
        let mut folders = vec![top.to_owned()];
        while let Some(folder) = folders.pop() {
            let mut files = Vec::new();
            let budget = &mut self.budget;
            let listed = self.folder.list(&folder, |entry| {
                budget.take_entry(&folder)?;
                let name = String::from_utf8_lossy(&entry.name).into_owned();
                if names::is_ignored(&name) {
                    return Ok(());
                }
                let path = join(&folder, readable(&folder, &entry)?);
                match entry.kind {
                    EntryKind::Folder => folders.push(path),
                    EntryKind::File | EntryKind::Link | EntryKind::Other => files.push(path),
                }
                Ok::<_, PackError>(())
            });
            listed.map_err(|fault| file_error(&folder, &fault))??;
            files.sort();
            for path in files {
                self.read(&parse(&path)?)?;
            }
        }
        Ok(())
    }

    /// Reads a file once, however often it is asked for.
    fn read(&mut self, path: &BundlePath) -> Result<&[u8], PackError> {
        if !self.files.contains_key(path) {
            let limit = self.budget.bytes_left();
            let bytes = match self.folder.read(path.as_str(), limit) {
                Ok(bytes) => bytes,
                Err(ReadFault::TooLong) => {
                    self.budget.take_file(path, limit + 1)?; // says which limit that was
                    return Err(file_error(path.as_str(), &ReadFault::TooLong));
                }
                Err(fault) => return Err(file_error(path.as_str(), &fault)),
            };
            self.budget.take_file(path, bytes.len())?;
            self.files.insert(path.clone(), bytes);
        }
        Ok(self.files.get(path).map_or(&[], Vec::as_slice))
    }
}

/// What of a folder Terraform would read as configuration. Values it would read unasked must be listed.
fn configuration_file(
    folder: &str,
    entry: &Entry,
    var_files: &[String],
) -> Result<Option<(String, Role)>, PackError> {
    let name = String::from_utf8_lossy(&entry.name);
    // Terraform passes over folders, whatever they are called.
    if entry.kind == EntryKind::Folder {
        return Ok(None);
    }
    let role = names::role(&name);
    match role {
        Role::Native | Role::Json => Ok(Some((readable(folder, entry)?.to_owned(), role))),
        Role::AutoValues if folder.is_empty() && !is_editor_link(entry) => {
            let name = readable(folder, entry)?;
            if var_files.iter().any(|listed| listed == name) {
                Ok(None)
            } else {
                Err(PackError::Unlisted(name.to_owned()))
            }
        }
        Role::AutoValues | Role::Lock | Role::None => Ok(None),
    }
}

/// Emacs marks a file that is being edited with a link to nowhere.
fn is_editor_link(entry: &Entry) -> bool {
    entry.kind == EntryKind::Link && entry.name.starts_with(b".#")
}

/// A name that is text.
fn readable<'e>(folder: &str, entry: &'e Entry) -> Result<&'e str, PackError> {
    std::str::from_utf8(&entry.name).map_err(|_| PackError::File {
        path: escaped(&join(folder, &String::from_utf8_lossy(&entry.name))),
        problem: "its name is not UTF-8; rename it".to_owned(),
    })
}

fn parse(path: &str) -> Result<BundlePath, PackError> {
    path.parse().map_err(|problem| PackError::Path {
        path: escaped(path),
        problem,
    })
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() {
        name.to_owned()
    } else {
        format!("{folder}/{name}")
    }
}

/// Names are the agent's words.
fn escaped(text: &str) -> String {
    text.escape_default().to_string()
}

fn file_error(path: &str, fault: &ReadFault) -> PackError {
    PackError::File {
        path: escaped(if path.is_empty() {
            "the root's folder"
        } else {
            path
        }),
        problem: problem(fault),
    }
}

fn folder_problem(folder: &Path, fault: &ReadFault) -> String {
    match fault {
        ReadFault::Link => match folder.canonicalize() {
            Ok(real) => format!(
                "a part of it is a symbolic link; name it by its real path, {}",
                escaped(&real.to_string_lossy())
            ),
            Err(_) => problem(fault),
        },
        ReadFault::HardLinks
        | ReadFault::NotAFile(_)
        | ReadFault::Changed
        | ReadFault::TooLong
        | ReadFault::Missing
        | ReadFault::Io(_) => problem(fault),
    }
}

fn problem(fault: &ReadFault) -> String {
    match fault {
        ReadFault::Link => {
            "it is or goes through a symbolic link; put the file itself there".to_owned()
        }
        ReadFault::HardLinks => {
            "it has another name elsewhere (a hard link); put a copy there".to_owned()
        }
        ReadFault::NotAFile(kind) => {
            format!("it is {kind}; put a regular file there or take it away")
        }
        ReadFault::Changed => "it was written to while it was read; try again".to_owned(),
        ReadFault::TooLong => "it is longer than a bundle may be".to_owned(),
        ReadFault::Missing => "it is not there".to_owned(),
        ReadFault::Io(errno) => format!("the system says: {errno}"),
    }
}
