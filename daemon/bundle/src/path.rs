//! Where a file of a bundle is.

use std::fmt;
use std::str::FromStr;

/// The longest path, in bytes: what a tar header of the old format holds.
const MAX_PATH: usize = 255;
/// The longest last part of a path that does not fit the name field together with its folder.
const TAR_NAME: usize = 100;
/// The longest folder in the prefix field of a tar header.
const TAR_PREFIX: usize = 155;

/// The one hidden file that belongs to a root.
pub(crate) const LOCK_FILE: &str = ".terraform.lock.hcl";

/// Where a file of a bundle is, as seen from the root's folder: relative, `/` between its parts, nothing
/// hidden and no state, e.g. `modules/web/main.tf`.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BundlePath(String);

/// Why a text is not a path of a bundle. It never repeats the text.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PathError {
    /// Nothing was given, or nothing stands between two `/`.
    #[error("has an empty part; write it without a '/' at either end and without '//'")]
    Empty,
    /// It begins at the top of the file system.
    #[error("is absolute; write it relative to the root's folder")]
    Absolute,
    /// `.` or `..` is a part of it.
    #[error("has '.' or '..' as a part; write the plain path beneath the root's folder")]
    Dots,
    /// A part begins with a dot.
    #[error("is hidden; Terraform passes over hidden files and so does a bundle")]
    Hidden,
    /// Terraform would take it for a state.
    #[error("is a Terraform state; states are managed beside the source")]
    State,
    /// Longer than a tar header holds.
    #[error("is {length} bytes long; at most 255 fit, with at most 100 in the file's name")]
    TooLong {
        /// Bytes given.
        length: usize,
    },
    /// A character that a terminal or another file system takes for something else.
    #[error("has the character {character} at position {position}; rename the file")]
    Character {
        /// The character, escaped.
        character: String,
        /// Counted from 1.
        position: usize,
    },
}

impl BundlePath {
    /// The path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The folder it is in, without a `/` at the end; empty for the root's own.
    #[must_use]
    pub fn folder(&self) -> &str {
        self.0.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    /// Its last part.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or(&self.0, |(_, name)| name)
    }

    /// How many folders it is deep; 0 in the root's own.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.0.bytes().filter(|b| *b == b'/').count()
    }

    /// The prefix and the name field of its tar header.
    pub(crate) fn tar_fields(&self) -> (&str, &str) {
        split_for_tar(&self.0).unwrap_or(("", &self.0)) // checked when it was made
    }
}

impl FromStr for BundlePath {
    type Err = PathError;
    fn from_str(s: &str) -> Result<Self, PathError> {
        if s.starts_with('/') {
            return Err(PathError::Absolute);
        }
        for (index, c) in s.chars().enumerate() {
            if !is_plain(c) {
                return Err(PathError::Character {
                    character: c.escape_unicode().to_string(),
                    position: index + 1,
                });
            }
        }
        for part in s.split('/') {
            match part {
                "" => return Err(PathError::Empty),
                "." | ".." => return Err(PathError::Dots),
                _ if part.starts_with('.') && s != LOCK_FILE => return Err(PathError::Hidden),
                _ if is_state(part) => return Err(PathError::State),
                _ => {}
            }
        }
        if split_for_tar(s).is_none() {
            return Err(PathError::TooLong { length: s.len() });
        }
        Ok(Self(s.to_owned()))
    }
}

impl fmt::Display for BundlePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether people see this character for what it is, in every terminal and on every file system. Letters of
/// any script may be in a file's name, and the marks that a Mac takes apart from them.
fn is_plain(c: char) -> bool {
    match c {
        '\\' => false,
        ' '..='~' | '\u{300}'..='\u{36f}' => true,
        _ => c.is_alphanumeric(),
    }
}

/// What the local backend reads and writes by itself.
fn is_state(part: &str) -> bool {
    let part = part.to_ascii_lowercase();
    part.ends_with(".tfstate") || part.ends_with(".tfstate.backup") || part == "terraform.tfstate.d"
}

/// Splits a path at a `/` into the prefix and the name field of a tar header, the name as long as it can be.
fn split_for_tar(path: &str) -> Option<(&str, &str)> {
    if path.len() <= TAR_NAME {
        return Some(("", path));
    }
    if path.len() > MAX_PATH {
        return None;
    }
    path.match_indices('/')
        .map(|(at, _)| (&path[..at], &path[at + 1..]))
        .find(|(prefix, name)| prefix.len() <= TAR_PREFIX && name.len() <= TAR_NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_paths_pass() {
        for path in [
            "main.tf",
            "modules/web/main.tf",
            LOCK_FILE,
            "größe.tf",
            "gro\u{308}ße.tf",
            "a b/~x#.tpl",
            "templates/x.tf.json",
        ] {
            assert_eq!(path.parse::<BundlePath>().unwrap().as_str(), path);
        }
    }

    #[test]
    fn a_path_knows_its_folder_and_name() {
        let path: BundlePath = "modules/web/main.tf".parse().unwrap();
        assert_eq!(
            (path.folder(), path.name(), path.depth()),
            ("modules/web", "main.tf", 2)
        );
        let top: BundlePath = "main.tf".parse().unwrap();
        assert_eq!((top.folder(), top.name(), top.depth()), ("", "main.tf", 0));
    }

    #[test]
    fn what_leaves_the_folder_or_hides_is_refused() {
        let error = |s: &str| s.parse::<BundlePath>().unwrap_err();
        assert_eq!(error("/etc/passwd"), PathError::Absolute);
        for path in ["", "a//b", "a/", "a/b//"] {
            assert_eq!(error(path), PathError::Empty, "{path:?}");
        }
        for path in ["..", "a/../b", "./a", "a/."] {
            assert_eq!(error(path), PathError::Dots, "{path:?}");
        }
        for path in [
            ".git/config",
            "a/.terraform.lock.hcl",
            ".terraform/x",
            ".terraform.lock.hcl/x",
        ] {
            assert_eq!(error(path), PathError::Hidden, "{path:?}");
        }
        for path in [
            "terraform.tfstate",
            "TERRAFORM.TFSTATE",
            "a.tfstate.backup",
            "terraform.tfstate.d/x/y",
        ] {
            assert_eq!(error(path), PathError::State, "{path:?}");
        }
        for (path, character, position) in [
            ("a\nb", "\\u{a}", 2),
            ("a\\b", "\\u{5c}", 2),
            ("\u{202e}ft.niam", "\\u{202e}", 1),
            ("ma\u{200b}in.tf", "\\u{200b}", 3),
            ("a\u{2028}", "\\u{2028}", 2),
        ] {
            let character = character.to_owned();
            assert_eq!(
                error(path),
                PathError::Character {
                    character,
                    position
                },
                "{path:?}"
            );
        }
    }

    #[test]
    fn a_path_of_255_bytes_passes_where_a_tar_header_holds_it() {
        let folder = "f".repeat(77);
        let longest = format!("{folder}/{folder}/{}", "n".repeat(99)); // 77 + 1 + 77 + 1 + 99
        assert_eq!(longest.len(), 255);
        let path: BundlePath = longest.parse().unwrap();
        assert_eq!(path.tar_fields().0.len(), 155);
        let one_more = format!("{folder}/{folder}/{}", "n".repeat(100));
        assert_eq!(
            one_more.parse::<BundlePath>(),
            Err(PathError::TooLong { length: 256 })
        );
        let name = "n".repeat(101);
        assert_eq!(
            name.parse::<BundlePath>(),
            Err(PathError::TooLong { length: 101 })
        );
    }
}
