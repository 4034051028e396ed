//! The last known list of actions, kept for a bridge that starts before the daemon.
//!
//! One file for each socket in the user's cache folder. It is a convenience of that user alone: the
//! daemon decides every call whatever a list says, so a file that is missing, damaged or edited costs
//! nobody but its owner.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use prost::Message as _;
use sandbox_proto::PROTOCOL_VERSION;
use sandbox_proto::agent::v1::ListActionsResponse;

/// A list is some 6 kB; a longer file is not ours.
const MAX_BYTES: u64 = 256 * 1024;

/// Where the list of one daemon is kept.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    file: PathBuf,
}

impl Cache {
    /// The cache for the daemon at `socket`, under `XDG_CACHE_HOME` or else `HOME`; none without either.
    pub fn for_socket(socket: &Path, env: impl Fn(&str) -> Option<OsString>) -> Option<Self> {
        let base = absolute(env("XDG_CACHE_HOME"))
            .or_else(|| absolute(env("HOME")).map(|home| home.join(".cache")))?;
        Some(Self {
            file: base.join("agent-sandbox").join(file_name(socket)),
        })
    }

    /// The list that was stored last, if one can be used.
    pub fn load(&self) -> Option<ListActionsResponse> {
        let mut bytes = Vec::new();
        File::open(&self.file)
            .ok()?
            .take(MAX_BYTES)
            .read_to_end(&mut bytes)
            .ok()?;
        let list = ListActionsResponse::decode(bytes.as_slice()).ok()?;
        (list.protocol_version == PROTOCOL_VERSION).then_some(list)
    }

    /// Stores a list in one step, readable by its owner alone.
    ///
    /// # Errors
    /// The folder cannot be made or written: a home that does not exist, or a full disk.
    pub fn store(&self, list: &ListActionsResponse) -> io::Result<()> {
        let folder = self.file.parent().unwrap_or(Path::new("/"));
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        // Two bridges may store at once; each writes a file of its own and renames it.
        let new = self
            .file
            .with_extension(format!("new.{}", std::process::id()));
        let written = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&new)
            .and_then(|mut file| file.write_all(&list.encode_to_vec()))
            .and_then(|()| fs::rename(&new, &self.file));
        if written.is_err() {
            // What is left of it is of no use; that it cannot be removed changes nothing.
            fs::remove_file(&new).unwrap_or_default();
        }
        written
    }
}

/// XDG: "All paths must be absolute. If an implementation encounters a relative path it should
/// consider the path invalid and ignore it."
fn absolute(path: Option<OsString>) -> Option<PathBuf> {
    path.map(PathBuf::from).filter(|path| path.is_absolute())
}

/// A file name that no other socket has: every byte but letters, digits, `.` and `-` is `_` and two
/// hexadecimal digits. A socket's path has at most 108 bytes.
fn file_name(socket: &Path) -> String {
    let mut name = String::from("actions-");
    for byte in socket.as_os_str().as_encoded_bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-') {
            name.push(char::from(*byte));
        } else {
            // Infallible: `String` never refuses a write.
            write!(name, "_{byte:02x}").unwrap_or_default();
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbox_proto::agent::v1::Action;
    use std::os::unix::fs::PermissionsExt as _;

    fn cache_in(folder: &Path, socket: &str) -> Cache {
        let folder = folder.as_os_str().to_owned();
        Cache::for_socket(Path::new(socket), |name| {
            (name == "XDG_CACHE_HOME").then(|| folder.clone())
        })
        .unwrap()
    }

    fn list(name: &str) -> ListActionsResponse {
        ListActionsResponse {
            protocol_version: PROTOCOL_VERSION,
            actions: vec![Action {
                name: name.to_owned(),
                ..Action::default()
            }],
            ..ListActionsResponse::default()
        }
    }

    #[test]
    fn a_list_comes_back_for_its_own_socket_and_is_private() {
        let home = tempfile::tempdir().unwrap();
        let cache = cache_in(&home.path().join("deep/er"), "/run/a/agent.sock");
        assert_eq!(cache.load(), None);
        cache.store(&list("one")).unwrap();
        cache.store(&list("two")).unwrap();
        assert_eq!(cache.load(), Some(list("two")));
        assert_eq!(
            cache_in(&home.path().join("deep/er"), "/run/a_agent.sock").load(),
            None
        );

        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&cache.file), 0o600);
        assert_eq!(mode(cache.file.parent().unwrap()), 0o700);
        assert_eq!(
            fs::read_dir(cache.file.parent().unwrap()).unwrap().count(),
            1
        );
    }

    #[test]
    fn a_file_that_is_damaged_or_of_another_version_is_ignored() {
        let home = tempfile::tempdir().unwrap();
        let cache = cache_in(home.path(), "/run/agent.sock");
        cache
            .store(&ListActionsResponse {
                protocol_version: 99,
                ..list("x")
            })
            .unwrap();
        assert_eq!(cache.load(), None);
        fs::write(&cache.file, b"\xff\xff not protobuf").unwrap();
        assert_eq!(cache.load(), None);
    }

    #[test]
    fn relative_folders_are_ignored_and_home_is_the_fallback() {
        let socket = Path::new("/run/agent.sock");
        let relative = |name: &str| (name == "XDG_CACHE_HOME").then(|| OsString::from("cache"));
        assert!(Cache::for_socket(socket, relative).is_none());
        let home = |name: &str| (name == "HOME").then(|| OsString::from("/home/ada"));
        let cache = Cache::for_socket(socket, home).unwrap();
        assert_eq!(
            cache.file,
            Path::new("/home/ada/.cache/agent-sandbox/actions-_2frun_2fagent.sock")
        );
    }
}
