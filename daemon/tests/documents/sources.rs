//! The sources as far as the documents speak of them, read as text: what is looked for has a fixed form,
//! and each search fails when it finds nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const FOLDERS: &[&str] = &[
    ".ci",
    "approver",
    "cluster",
    "daemon",
    "images",
    "mcp-bridge",
    "packaging",
    "proto",
    "scripts",
];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

/// A file of the checkout.
pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(workspace().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

pub(crate) fn exists(path: &str) -> bool {
    workspace().join(path).exists()
}

/// Every Rust file and script, by its path.
pub(crate) struct Tree(BTreeMap<String, String>);

impl Tree {
    pub(crate) fn read() -> Self {
        let mut files = BTreeMap::new();
        for folder in FOLDERS {
            collect(&workspace(), folder, &mut files);
        }
        assert!(files.len() > 150, "only {} files were read", files.len());
        Self(files)
    }

    /// Whether exactly one file whose path ends so has that test.
    pub(crate) fn has_test(&self, reference: &str) -> bool {
        let (file, name) = reference.split_once("::").unwrap();
        if file == "verify" {
            return self.checks().contains(name);
        }
        let end = format!("/{file}");
        let having = self
            .0
            .iter()
            .filter(|(path, _)| *path == file || path.ends_with(&end))
            .filter(|(path, text)| has(path, text, name));
        having.count() == 1
    }

    /// The names of all Rust tests.
    pub(crate) fn test_names(&self) -> BTreeSet<String> {
        self.rust().flat_map(|(_, text)| tests(text)).collect()
    }

    /// What `sandboxd verify --only` takes.
    pub(crate) fn checks(&self) -> BTreeSet<String> {
        let source = &self.0["daemon/src/verify.rs"];
        let kebab = |name: String| {
            let mut out = String::new();
            for c in name.chars() {
                if c.is_ascii_uppercase() && !out.is_empty() {
                    out.push('-');
                }
                out.push(c.to_ascii_lowercase());
            }
            out
        };
        variants(source, "enum Check {")
            .into_iter()
            .map(kebab)
            .collect()
    }

    /// The names of fields that events get anywhere in daemon and core.
    pub(crate) fn event_fields(&self) -> BTreeSet<String> {
        let tells = |path: &str| {
            let of_ours = path.starts_with("daemon/src/") || path.starts_with("daemon/core/src/");
            of_ours && !path.starts_with("daemon/src/verify")
        };
        let mut fields = BTreeSet::new();
        for (_, text) in self.rust().filter(|(path, _)| tells(path)) {
            let code: String = text
                .split("#[cfg(test)]\nmod tests {")
                .next()
                .unwrap()
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"))
                .collect();
            for rest in code.split(".with(").skip(1) {
                let literal = rest.trim_start().strip_prefix('"');
                let name = literal.and_then(|l| l.split('"').next());
                fields.extend(name.map(str::to_owned));
            }
        }
        fields
    }

    /// The project's own environment variables, wherever they are named.
    pub(crate) fn variables(&self) -> BTreeSet<String> {
        const PREFIX: &str = "AGENT_SANDBOX_";
        let scripts = self.0.iter().filter(|(path, _)| !is_rust(path));
        let mut variables = BTreeSet::new();
        for (_, text) in scripts {
            for rest in text.split(PREFIX).skip(1) {
                let end = rest.find(|c: char| !c.is_ascii_uppercase() && c != '_');
                let name = &rest[..end.unwrap_or(rest.len())];
                // `AGENT_SANDBOX_$name` is put together where it is used.
                if !name.is_empty() {
                    variables.insert(format!("{PREFIX}{name}"));
                }
            }
        }
        variables
    }

    fn rust(&self) -> impl Iterator<Item = (&String, &String)> {
        self.0.iter().filter(|(path, _)| is_rust(path))
    }
}

fn collect(root: &Path, folder: &str, files: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(root.join(folder)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = format!("{folder}/{name}");
        if entry.file_type().unwrap().is_dir() {
            if name != "target" && name != "node_modules" {
                collect(root, &path, files);
            }
        } else if is_rust(&path) || !name.contains('.') || has_extension(&path, "sh") {
            // What is not text is no source.
            if let Ok(text) = fs::read_to_string(entry.path()) {
                files.insert(path, text);
            }
        }
    }
}

fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|e| e == extension)
}

pub(crate) fn is_rust(path: &str) -> bool {
    has_extension(path, "rs")
}

fn has(path: &str, text: &str, name: &str) -> bool {
    if is_rust(path) {
        return tests(text).contains(name);
    }
    // A function of a script that is also called.
    let defined = text
        .lines()
        .any(|line| line.starts_with(&format!("{name}()")));
    let called = text
        .lines()
        .any(|line| line.split_whitespace().any(|word| word == name));
    defined && called
}

/// The functions that bear a test's attribute.
fn tests(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some(rest) = line.strip_prefix("fn ").or(line.strip_prefix("async fn ")) {
            let name = rest.split(['(', '<']).next().unwrap();
            if std::mem::take(&mut is_test) {
                found.insert(name.to_owned());
            }
        } else if line.ends_with('}') {
            is_test = false;
        }
    }
    found
}

/// The text from one marker to the next.
pub(crate) fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let (_, rest) = text.split_once(from).unwrap_or_else(|| panic!("no {from}"));
    let (part, _) = rest.split_once(to).unwrap_or_else(|| panic!("no {to}"));
    part
}

/// The first string literal after `marker`.
pub(crate) fn literal_after(text: &str, marker: &str) -> Option<String> {
    let (_, rest) = text.split_once(marker)?;
    let (_, literal) = rest.split_once('"')?;
    Some(literal.split('"').next()?.to_owned())
}

/// `Self::Variant => "literal"`, by variant.
pub(crate) fn arms(body: &str) -> BTreeMap<String, String> {
    let arms: BTreeMap<_, _> = body
        .split("Self::")
        .skip(1)
        .map(|arm| {
            let literal = literal_after(arm, "=>").unwrap_or_else(|| panic!("no text in {arm}"));
            (identifier(arm), literal)
        })
        .collect();
    assert!(!arms.is_empty(), "no arms were found");
    arms
}

/// `Self::A | Self::B => tonic::Code::X`, by variant.
pub(crate) fn statuses(body: &str) -> BTreeMap<String, String> {
    let mut statuses = BTreeMap::new();
    let mut waiting = Vec::new();
    for part in body.split("::").collect::<Vec<_>>().windows(2) {
        let (before, name) = (part[0], identifier(part[1]));
        if before.ends_with("Self") {
            waiting.push(name);
        } else if before == "Code" {
            statuses.extend(waiting.drain(..).map(|variant| (variant, name.clone())));
        }
    }
    statuses
}

/// The variants of an enum without fields.
pub(crate) fn variants(source: &str, head: &str) -> BTreeSet<String> {
    let variants: BTreeSet<_> = between(source, head, "\n}")
        .lines()
        .filter_map(|line| line.trim().strip_suffix(','))
        .filter(|name| name.bytes().all(|b| b.is_ascii_alphanumeric()))
        .map(str::to_owned)
        .collect();
    assert!(!variants.is_empty(), "no variants were found after {head}");
    variants
}

/// The fields of every struct that is read from the file, with their types.
pub(crate) fn deserialized_structs(source: &str) -> BTreeMap<String, Vec<(String, String)>> {
    let mut structs = BTreeMap::new();
    for part in source.split("#[derive(").skip(1) {
        let (derives, rest) = part.split_once(")]").unwrap();
        let Some((_, body)) = rest.split_once("pub struct ") else {
            continue;
        };
        if !derives.contains("Deserialize") {
            continue;
        }
        let (name, body) = body.split_once(" {").unwrap();
        let fields = body.split("\n}").next().unwrap().lines();
        let fields = fields
            .map(|line| line.trim().trim_start_matches("pub "))
            .filter(|line| !line.starts_with("//") && !line.starts_with('#'))
            .filter_map(|line| line.strip_suffix(',')?.split_once(": "))
            .map(|(field, kind)| (field.to_owned(), kind.to_owned()));
        structs.insert(name.to_owned(), fields.collect());
    }
    structs
}

fn identifier(text: &str) -> String {
    text.chars()
        .take_while(char::is_ascii_alphanumeric)
        .collect()
}
