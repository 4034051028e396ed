//! Refuses source that would do more than its plan shows, with file and line.
//!
//! Everything is looked at that Terraform would read, module by module. What is allowed is listed, at the top
//! of a file, in `terraform` and in `provider` blocks; what is not on a list is refused.

mod provider;
mod blocks;
mod modules;
pub mod survey;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::bundle::Bundle;
use crate::names::{self, Role};
use crate::path::BundlePath;
use crate::source::{Source, Unreadable};

use provider::LocalNames;
pub use provider::{ProviderSource, ProviderSourceError};

/// More than a person will mend before asking again.
const MAX_FAULTS: usize = 100;

/// What the source may use.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Rules {
    /// The providers of the image. Terraform's own is always there.
    pub providers: Vec<ProviderSource>,
    /// Whether the root's backend is put out of force, so that it may name any.
    pub state_elsewhere: bool,
}

/// One thing in the source that is refused. What an agent wrote is escaped in it.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct SourceFault {
    /// Of the bundle.
    pub file: BundlePath,
    /// Counted from 1.
    pub line: u32,
    /// What stands there.
    pub what: String,
    /// Why it is refused, as a clause.
    pub why: String,
    /// What to do, as a sentence.
    pub next: String,
}

impl fmt::Display for SourceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            line,
            what,
            why,
            next,
        } = self;
        let file = file.as_str().escape_default();
        write!(f, "{file}:{line}: {what} is refused: {why}. {next}")
    }
}

impl Bundle {
    /// Checks all configuration in the bundle, that of modules that nobody calls included.
    ///
    /// # Errors
    /// What is refused, by file and line, at most the first 100.
    pub fn check(&self, rules: &Rules) -> Result<(), Vec<SourceFault>> {
        let faults = examine(self, rules, MAX_FAULTS).all;
        if faults.is_empty() {
            Ok(())
        } else {
            Err(faults.into_iter().collect())
        }
    }

    /// The same, for whoever mends a whole root: all that is refused, however much it is.
    #[must_use]
    pub fn check_all(&self, rules: &Rules) -> BTreeSet<SourceFault> {
        examine(self, rules, usize::MAX).all
    }

    /// The providers that the source names or implies, Terraform's own left out.
    #[must_use]
    pub fn providers(&self) -> BTreeSet<ProviderSource> {
        examine(self, &Rules::default(), MAX_FAULTS).providers
    }
}

fn examine(bundle: &Bundle, rules: &Rules, limit: usize) -> Faults {
    let mut faults = Faults::new(limit);
    let modules = read_modules(bundle, &mut faults);
    let mut calls = Vec::new();
    for (folder, files) in &modules {
        let locals = LocalNames::read(files, rules, &mut faults);
        for file in files {
            let any_backend = rules.state_elsewhere && folder.is_empty();
            blocks::check(file, &locals, any_backend, &mut faults);
            modules::read_calls(folder, file, &mut calls, &mut faults);
        }
    }
    modules::check_calls(&calls, &modules.keys().copied().collect(), &mut faults);
    faults
}

/// Every configuration file that can be read, module by module.
fn read_modules<'b>(bundle: &'b Bundle, faults: &mut Faults) -> BTreeMap<&'b str, Vec<Module<'b>>> {
    let mut modules: BTreeMap<&str, Vec<Module<'_>>> = BTreeMap::new();
    for file in bundle.files() {
        let role = names::role(file.path.name());
        if !matches!(role, Role::Native | Role::Json) {
            continue;
        }
        if names::is_override(file.path.name()) {
            faults.add(&file.path, 1, &OVERRIDE);
        }
        match Source::read(role, &file.bytes) {
            Ok(source) => modules.entry(file.path.folder()).or_default().push(Module {
                path: &file.path,
                source,
            }),
            Err(unreadable) => faults.unreadable(&file.path, unreadable),
        }
    }
    modules
}

/// One file of a module.
#[derive(Debug)]
struct Module<'b> {
    path: &'b BundlePath,
    source: Source,
}

/// Why a construct is refused and what to do.
#[derive(Debug)]
struct Reason {
    what: &'static str,
    why: &'static str,
    next: &'static str,
}

const OVERRIDE: Reason = Reason {
    what: "an override file",
    why: "it changes what other files say, the backend included, so that none of them can be read by itself",
    next: "Write its arguments into the file that has the block.",
};

/// What was found so far.
#[derive(Debug)]
struct Faults {
    limit: usize,
    all: BTreeSet<SourceFault>,
    providers: BTreeSet<ProviderSource>,
}

impl Faults {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            all: BTreeSet::new(),
            providers: BTreeSet::new(),
        }
    }

    fn add(&mut self, file: &BundlePath, line: u32, reason: &Reason) {
        self.add_named(file, line, reason.what.to_owned(), reason);
    }

    /// The same with other words for what stands there.
    fn add_named(&mut self, file: &BundlePath, line: u32, what: String, reason: &Reason) {
        self.push(SourceFault {
            file: file.clone(),
            line,
            what,
            why: reason.why.to_owned(),
            next: reason.next.to_owned(),
        });
    }

    fn unreadable(&mut self, file: &BundlePath, unreadable: Unreadable) {
        self.push(SourceFault {
            file: file.clone(),
            line: unreadable.line,
            what: unreadable.problem,
            why: "what cannot be read here could be read by Terraform".to_owned(),
            next: "Run `terraform validate` on the folder and mend what it says; if it says nothing, write the line in a plainer way.".to_owned(),
        });
    }

    fn push(&mut self, fault: SourceFault) {
        self.all.insert(fault);
        if self.all.len() > self.limit {
            self.all.pop_last();
        }
    }
}

/// Text of the source as a person may see it: in quotes, escaped, not endless.
fn quoted(text: &str) -> String {
    let mut shown: String = text.chars().take(60).collect();
    if shown.len() < text.len() {
        shown.push_str("...");
    }
    format!("\"{}\"", shown.escape_default())
}
