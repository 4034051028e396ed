//! One thing to mend.

use std::fmt;
use std::path::Path;

use sandbox_bundle::lock::LockFault;
use sandbox_bundle::{PackError, SourceFault};
use serde::Serialize;

use super::access;
use super::setting::Setting;

/// What is wrong, where, and what to do. What an agent wrote is escaped in it.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(super) struct Fault {
    /// As seen from the root's folder, or the configuration.
    pub(super) file: Option<String>,
    /// Counted from 1.
    pub(super) line: Option<u32>,
    /// A clause.
    pub(super) what: String,
    /// A sentence; `None` where the clause has it.
    pub(super) next: Option<String>,
}

impl Fault {
    pub(super) fn new(file: &str, line: u32, what: String, next: String) -> Self {
        Self {
            file: Some(file.escape_default().to_string()),
            line: Some(line),
            what,
            next: Some(next),
        }
    }

    pub(super) fn of_config(setting: &Setting, what: String, next: String) -> Self {
        Self {
            file: Some(shown(&setting.path)),
            line: None,
            what,
            next: Some(next),
        }
    }

    pub(super) fn of_root(what: String, next: String) -> Self {
        Self {
            file: None,
            line: None,
            what,
            next: Some(next),
        }
    }

    pub(super) fn of_source(fault: &SourceFault) -> Self {
        let what = format!("{} is refused: {}", fault.what, fault.why);
        Self::new(fault.file.as_str(), fault.line, what, fault.next.clone())
    }

    /// Its words have file, line and command.
    pub(super) fn of_lock(fault: &LockFault) -> Self {
        let (line, what) = (fault.line(), fault.to_string());
        let place = line.map(|line| format!(".terraform.lock.hcl:{line}: "));
        let what = place.and_then(|place| what.strip_prefix(&place).map(str::to_owned));
        Self {
            file: Some(".terraform.lock.hcl".to_owned()),
            line,
            what: what.unwrap_or_else(|| fault.to_string()),
            next: None,
        }
    }

    /// `user` is who could not read it, if that is it.
    pub(super) fn of_packing(fault: &PackError, folder: &Path, user: &str) -> Self {
        let path = match fault {
            PackError::File { path, .. } | PackError::Path { path, .. } => Some(path.clone()),
            PackError::Unlisted(path) => Some(path.escape_default().to_string()),
            PackError::Folder { .. }
            | PackError::Empty(_)
            | PackError::Limit(_)
            | PackError::Bundle(_) => None,
        };
        let at = path
            .as_ref()
            .map_or_else(|| folder.to_owned(), |path| folder.join(path));
        Self {
            file: path,
            line: None,
            what: fault.to_string(),
            next: access::grant(folder, &at, user),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => write!(f, "{file}:{line}: ")?,
            (Some(file), None) => write!(f, "{file}: ")?,
            (None, _) => {}
        }
        f.write_str(self.what.trim_end_matches('.'))?;
        f.write_str(".")?;
        match &self.next {
            Some(next) => write!(f, " {next}"),
            None => Ok(()),
        }
    }
}

/// A path as a person may see it.
pub(super) fn shown(path: &Path) -> String {
    path.to_string_lossy().escape_default().to_string()
}
