//! What changed in the source between two bundles, for people.

use std::time::Duration;

use similar::TextDiff;

use crate::bundle::Bundle;

/// After this long a file's changed lines are shown as one block out and one block in: right, only longer.
const PATIENCE: Duration = Duration::from_secs(1);

/// What happened to a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FileAction {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// Its bytes are others.
    Changed,
}

impl FileAction {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Changed => "changed",
        }
    }
}

/// One file that is not the same.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FileDiff {
    /// Of the bundle.
    pub path: String,
    /// What happened to it.
    pub action: FileAction,
    /// A unified diff with three lines around, never cut, not escaped; empty for what is no text.
    pub diff: String,
}

/// Every file in which `new` differs from `old`, sorted by path; without an old bundle, all of them.
#[must_use]
pub fn diff(old: Option<&Bundle>, new: &Bundle) -> Vec<FileDiff> {
    let before = old.map_or(&[][..], Bundle::files);
    let mut diffs: Vec<FileDiff> = Vec::new();
    for file in new.files() {
        let path = file.path.as_str();
        let (action, was) = match old.and_then(|old| old.file(path)) {
            Some(was) if was == file.bytes => continue,
            Some(was) => (FileAction::Changed, was),
            None => (FileAction::Added, &[][..]),
        };
        diffs.push(file_diff(path, action, was, &file.bytes));
    }
    for file in before {
        let path = file.path.as_str();
        if new.file(path).is_none() {
            diffs.push(file_diff(path, FileAction::Removed, &file.bytes, &[]));
        }
    }
    diffs.sort_by(|a, b| a.path.cmp(&b.path));
    diffs
}

fn file_diff(path: &str, action: FileAction, old: &[u8], new: &[u8]) -> FileDiff {
    let diff = match (std::str::from_utf8(old), std::str::from_utf8(new)) {
        (Ok(old), Ok(new)) => unified(path, action, old, new),
        _ => String::new(),
    };
    FileDiff {
        path: path.to_owned(),
        action,
        diff,
    }
}

fn unified(path: &str, action: FileAction, old: &str, new: &str) -> String {
    let a = format!("a/{path}");
    let b = format!("b/{path}");
    let nothing = "/dev/null";
    let header = match action {
        FileAction::Added => (nothing, b.as_str()),
        FileAction::Removed => (a.as_str(), nothing),
        FileAction::Changed => (a.as_str(), b.as_str()),
    };
    TextDiff::configure()
        .timeout(PATIENCE)
        .diff_lines(old, new)
        .unified_diff()
        .context_radius(3)
        .header(header.0, header.1)
        .to_string()
}
