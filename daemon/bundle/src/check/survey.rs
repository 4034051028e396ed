//! What a root's source asks for, as far as it stands written out: for whoever sets a root up. It refuses
//! nothing; that is the check's.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::provider::LocalNames;
use super::{Faults, Module, Rules, SourceFault, read_modules};
use crate::bundle::Bundle;
use crate::names::{self, Role};
use crate::path::BundlePath;
use crate::source::{Elsewhere, Found, Literal, Source, Stands, View, resolve};

/// What was found.
#[derive(Debug, Default)]
pub struct Survey {
    /// Of the root's own folder, in the order of its files.
    pub variables: Vec<Variable>,
    /// Resources and data sources, of all modules.
    pub resources: Vec<Resource>,
    /// Calls of modules that are not beneath the root.
    pub modules: Vec<RemoteModule>,
    /// Files of values that cannot be read.
    pub faults: BTreeSet<SourceFault>,
}

/// A `variable` block.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Variable {
    /// Of the bundle.
    pub file: BundlePath,
    /// Counted from 1.
    pub line: u32,
    /// As it is called.
    pub name: String,
    /// Whether it says so of itself.
    pub sensitive: bool,
    /// Whether it has a default, or a value in a file of values.
    pub has_value: bool,
}

/// A `resource` or `data` block.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Resource {
    /// Of the bundle.
    pub file: BundlePath,
    /// Counted from 1.
    pub line: u32,
    /// e.g. `kubernetes_deployment`
    pub type_name: String,
    /// Host, namespace and name of its provider; `None` where that is not written out.
    pub provider: Option<String>,
    /// Whether it is read and not made.
    pub is_data: bool,
    /// Where it says it is.
    pub namespace: Namespace,
}

/// What the metadata of an object say of its namespace.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Namespace {
    /// This one, by itself or by a variable with a value that is written out.
    Named(String),
    /// Nothing, so that the provider takes `default`.
    Absent,
    /// It is worked out, or there are no metadata to be seen.
    Unseen,
}

/// A call of a module from elsewhere.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RemoteModule {
    /// The file of the call.
    pub file: BundlePath,
    /// Of the block, counted from 1.
    pub line: u32,
    /// The label of the block.
    pub name: String,
    /// Where it comes from; `None` where that is not written out.
    pub source: Option<String>,
    /// Which bytes of the file to replace and to take out so that another source stands there; `None` where that
    /// cannot be told for certain.
    pub edit: Option<Edit>,
}

/// Bytes of a file, from its very first.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Edit {
    /// The source with its quotes.
    pub source: Range<usize>,
    /// The lines of the version, which a module beneath the root must not have.
    pub version: Option<Range<usize>>,
}

impl Bundle {
    /// Looks at all configuration, and at the values in `var_files`, the later ones before the earlier.
    #[must_use]
    pub fn survey(&self, var_files: &[String]) -> Survey {
        let mut survey = Survey::default();
        let mut faults = Faults::new(usize::MAX);
        let values = values(self, var_files, &mut faults);
        survey.faults = std::mem::take(&mut faults.all);
        // What else is wrong is for the check to tell.
        let modules = read_modules(self, &mut faults);
        let mut known = values.clone();
        for file in modules.get("").into_iter().flatten() {
            for block in file.source.view().blocks("variable", 1) {
                survey.variables.push(variable(file, &block, &values));
                if let [(_, Literal::Text(default))] = &block.body.values("default")[..] {
                    known
                        .entry(block.label(0).to_owned())
                        .or_insert_with(|| Some(default.clone()));
                }
            }
        }
        let (rules, no_values) = (Rules::default(), Values::new());
        for (folder, files) in &modules {
            let locals = LocalNames::read(files, &rules, &mut faults);
            let known = if folder.is_empty() {
                &known
            } else {
                &no_values
            };
            for file in files {
                let place = Place::new(self, file, known);
                place.resources(&locals, &mut survey.resources);
                place.remote_modules(folder, &mut survey.modules);
            }
        }
        survey
    }
}

/// Values of variables: the text, where it is one.
type Values = BTreeMap<String, Option<String>>;

fn values(bundle: &Bundle, var_files: &[String], faults: &mut Faults) -> Values {
    let mut values = Values::new();
    let listed = var_files.iter().filter_map(|path| {
        bundle
            .files()
            .iter()
            .find(|file| file.path.as_str() == path)
    });
    for file in listed {
        let role = if names::ends_with(file.path.name(), ".json") {
            Role::Json
        } else {
            Role::Native
        };
        match Source::read(role, &file.bytes) {
            Ok(source) => values.extend(source.view().entries().into_iter().map(|entry| {
                let text = entry.value.text().map(str::to_owned);
                (entry.key, text)
            })),
            Err(unreadable) => faults.unreadable(&file.path, unreadable),
        }
    }
    values
}

fn variable(file: &Module<'_>, block: &Found<'_>, values: &Values) -> Variable {
    let name = block.label(0);
    let sensitive = block.body.values("sensitive");
    Variable {
        file: file.path.clone(),
        line: block.line,
        name: name.to_owned(),
        sensitive: sensitive.iter().any(|(_, v)| *v != Literal::Bool(false)),
        has_value: !block.body.values("default").is_empty() || values.contains_key(name),
    }
}

const MARK: char = '\u{feff}';

/// A file that is looked at.
struct Place<'p> {
    file: &'p Module<'p>,
    /// As offsets count it: without a byte order mark.
    text: &'p str,
    has_mark: bool,
    /// Variables of its module.
    known: &'p Values,
}

impl<'p> Place<'p> {
    fn new(bundle: &'p Bundle, file: &'p Module<'p>, known: &'p Values) -> Self {
        let bytes = bundle.file(file.path.as_str()).unwrap_or_default();
        let whole = std::str::from_utf8(bytes).unwrap_or_default(); // it was read, so it is text
        let text = whole.strip_prefix(MARK).unwrap_or(whole);
        Self {
            file,
            text,
            has_mark: text.len() < whole.len(),
            known,
        }
    }

    fn resources(&self, locals: &LocalNames<'_>, found: &mut Vec<Resource>) {
        let view = self.file.source.view();
        let mut add = |block: &Found<'_>, is_data| {
            found.push(Resource {
                file: self.file.path.clone(),
                line: block.line,
                type_name: block.label(0).to_owned(),
                provider: locals.provider_of(block).map(|source| source.address()),
                is_data,
                namespace: self.namespace(&block.body),
            });
        };
        for block in view.blocks("resource", 2) {
            add(&block, false);
        }
        let in_checks = view.blocks("check", 1);
        let in_checks = in_checks.iter().flat_map(|c| c.body.blocks("data", 2));
        for block in view.blocks("data", 2).into_iter().chain(in_checks) {
            add(&block, true);
        }
    }

    fn namespace(&self, body: &View<'_>) -> Namespace {
        let metadata = body.blocks("metadata", 0);
        let [metadata] = &metadata[..] else {
            return Namespace::Unseen;
        };
        match &metadata.body.values("namespace")[..] {
            [] | [(_, Literal::Null)] => Namespace::Absent,
            [(_, Literal::Text(name))] => Namespace::Named(name.clone()),
            [(_, Literal::Reference(_))] => {
                let stands = metadata.body.stands("namespace");
                let text = stands.first().map(|s| &self.text[s.value.clone()]);
                let variable = text.and_then(|text| text.strip_prefix("var."));
                let value = variable.and_then(|name| self.known.get(name)?.clone());
                value.map_or(Namespace::Unseen, Namespace::Named)
            }
            _ => Namespace::Unseen,
        }
    }

    fn remote_modules(&self, folder: &str, found: &mut Vec<RemoteModule>) {
        for block in self.file.source.view().blocks("module", 1) {
            let sources = block.body.values("source");
            let source = match &sources[..] {
                [] => continue,
                [(_, Literal::Text(source))] => Some(source.clone()),
                _ => None,
            };
            let is_elsewhere = source.as_deref().is_none_or(|source| {
                matches!(
                    resolve(folder, source),
                    Err(Elsewhere::Remote | Elsewhere::Outside)
                )
            });
            if is_elsewhere {
                found.push(RemoteModule {
                    file: self.file.path.clone(),
                    line: block.line,
                    name: block.label(0).to_owned(),
                    edit: source.as_ref().and_then(|_| self.edit(&block.body)),
                    source,
                });
            }
        }
    }

    fn edit(&self, body: &View<'_>) -> Option<Edit> {
        let [source] = &body.stands("source")[..] else {
            return None;
        };
        let version = match &body.stands("version")[..] {
            [] => None,
            [version] => Some(self.shifted(&self.lines_of(version)?)),
            _ => return None,
        };
        Some(Edit {
            source: self.shifted(&source.value),
            version,
        })
    }

    /// An argument with the blanks before it, what is said about it behind it, and its line end.
    fn lines_of(&self, argument: &Stands) -> Option<Range<usize>> {
        let before = &self.text[..argument.start];
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        let after = &self.text[argument.value.end..];
        let length = after.find('\n').map(|at| at + 1)?;
        let rest = after[..length].trim();
        let alone = before[start..].trim().is_empty()
            && (rest.is_empty() || rest.starts_with('#') || rest.starts_with("//"));
        alone.then_some(start..argument.value.end + length)
    }

    /// As the file has it, a byte order mark included.
    fn shifted(&self, range: &Range<usize>) -> Range<usize> {
        let by = if self.has_mark { MARK.len_utf8() } else { 0 };
        range.start + by..range.end + by
    }
}
