//! Reads configuration as Terraform reads it, as far as its structure: blocks, labels, arguments, literals.
//!
//! Written after hashicorp/hcl (scanner, parser and JSON syntax of version 2.23, which Terraform 1.11 has)
//! rather than over an HCL crate, since a difference is a way past the checks. What is lenient here is
//! refused by Terraform, and what is in doubt is refused here. Expressions are not evaluated: where one ends
//! follows from its brackets, quotes and templates alone.

mod scan;
mod literal;
mod native;
mod json;
mod view;

use crate::names::Role;

pub(crate) use literal::{Entry, Literal};
pub(crate) use view::{Found, Name, Stands, View};

/// Why a file cannot be read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Unreadable {
    /// Counted from 1.
    pub(crate) line: u32,
    /// A clause about the place.
    pub(crate) problem: String,
}

impl Unreadable {
    fn new(line: u32, problem: impl Into<String>) -> Self {
        Self {
            line,
            problem: problem.into(),
        }
    }
}

/// A file, read.
#[derive(Debug)]
pub(crate) enum Source {
    Native(native::Body),
    Json(json::Node),
}

impl Source {
    /// Reads a configuration file.
    pub(crate) fn read(role: Role, bytes: &[u8]) -> Result<Self, Unreadable> {
        let text = text(bytes)?;
        match role {
            Role::Json => Ok(Self::Json(json::parse(text)?)),
            Role::Native | Role::Lock | Role::AutoValues | Role::None => {
                // The scanner of Terraform takes a byte order mark away, that of the JSON syntax does not.
                let text = text.strip_prefix('\u{feff}').unwrap_or(text);
                Ok(Self::Native(native::parse(text)?))
            }
        }
    }

    /// What is in it.
    pub(crate) fn view(&self) -> View<'_> {
        match self {
            Self::Native(body) => View::Native(body),
            Self::Json(node) => View::Json(vec![node]),
        }
    }
}

/// Bytes as text. Nothing is decoded or mended: Terraform takes UTF-8 and so do we.
fn text(bytes: &[u8]) -> Result<&str, Unreadable> {
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return Err(Unreadable::new(1, "UTF-16; Terraform reads UTF-8 alone"));
    }
    std::str::from_utf8(bytes).map_err(|e| {
        let lines = memchr::memchr_iter(b'\n', &bytes[..e.valid_up_to()]).count();
        Unreadable::new(line_number(lines), "bytes that are no UTF-8")
    })
}

/// The line after so many line feeds.
fn line_number(line_feeds: usize) -> u32 {
    u32::try_from(line_feeds).map_or(u32::MAX, |n| n.saturating_add(1))
}

/// The folders of the modules that a file in `folder` calls, as far as they are beneath the root. What is
/// not understood is left out here and refused by the check.
pub(crate) fn local_modules(folder: &str, role: Role, bytes: &[u8]) -> Vec<String> {
    let Ok(source) = Source::read(role, bytes) else {
        return Vec::new();
    };
    let calls = source.view().blocks("module", 1);
    let sources = calls.iter().flat_map(|call| call.body.values("source"));
    sources
        .filter_map(|(_, value)| resolve(folder, value.text()?).ok())
        .collect()
}

/// Why a module's source is no folder of the bundle.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Elsewhere {
    /// It is fetched from somewhere, or is an absolute path.
    Remote,
    /// It goes out of the root's folder.
    Outside,
    /// It is local, but not a plain path.
    NotPlain,
}

/// The folder that `source` names in a file of `folder`, as seen from the root's.
pub(crate) fn resolve(folder: &str, source: &str) -> Result<String, Elsewhere> {
    if !source.starts_with("./") && !source.starts_with("../") {
        return Err(Elsewhere::Remote);
    }
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in source.strip_suffix('/').unwrap_or(source).split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop().ok_or(Elsewhere::Outside)?;
            }
            _ if part.starts_with('.') || !part.bytes().all(is_plain) || part.is_empty() => {
                return Err(Elsewhere::NotPlain);
            }
            _ => parts.push(part),
        }
    }
    Ok(parts.join("/"))
}

fn is_plain(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_source_is_a_folder_beneath_the_root_or_nothing() {
        for (folder, source, expected) in [
            ("", "./modules/web", Ok("modules/web")),
            ("", "./modules/web/", Ok("modules/web")),
            ("", "./", Ok("")),
            ("", "././a", Ok("a")),
            ("modules/web", "../db", Ok("modules/db")),
            ("modules/web", "./inner", Ok("modules/web/inner")),
            ("modules/web", "../../other", Ok("other")),
            ("", "../modules/web", Err(Elsewhere::Outside)),
            ("modules/web", "../../../x", Err(Elsewhere::Outside)),
            ("", "./a/../../b", Err(Elsewhere::Outside)),
            ("", "/srv/modules", Err(Elsewhere::Remote)),
            ("", "hashicorp/consul/aws", Err(Elsewhere::Remote)),
            (
                "",
                "git::https://host.example/x.git",
                Err(Elsewhere::Remote),
            ),
            ("", "modules/web", Err(Elsewhere::Remote)),
            ("", ".", Err(Elsewhere::Remote)),
            ("", "", Err(Elsewhere::Remote)),
            ("", "./.terraform/modules/x", Err(Elsewhere::NotPlain)),
            ("", "./a//b", Err(Elsewhere::NotPlain)),
            ("", "./a\\b", Err(Elsewhere::NotPlain)),
            ("", "./a?ref=b", Err(Elsewhere::NotPlain)),
        ] {
            assert_eq!(
                resolve(folder, source).as_deref(),
                expected.as_ref().copied(),
                "{source}"
            );
        }
    }
}
