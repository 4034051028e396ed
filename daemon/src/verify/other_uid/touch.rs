//! Getting at files, folders and sockets with what rights the process has.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::Access;
use serde::{Deserialize, Serialize};

/// What was tried, and where it worked.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Touched {
    pub(crate) tried: usize,
    /// Not there: files come and go.
    pub(crate) missing: usize,
    pub(crate) open: Vec<(PathBuf, Way)>,
}

/// How a path gave way.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum Way {
    Read,
    Written,
    Listed,
    Connected,
}

/// Tries to read, write, list or connect to each path. Nothing is changed where that works.
pub(super) fn touch(paths: &[PathBuf]) -> Touched {
    let mut touched = Touched::default();
    for path in paths {
        touched.tried += 1;
        // A folder that may not even be entered hides what its paths are.
        let kind = match fs::symlink_metadata(path) {
            Ok(meta) => Some(meta.file_type()),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                touched.missing += 1;
                continue;
            }
            Err(_) => None,
        };
        if kind.is_none_or(|k| k.is_dir()) && fs::read_dir(path).is_ok() {
            touched.open.push((path.clone(), Way::Listed));
        }
        if kind.is_none_or(|k| k.is_socket()) && UnixStream::connect(path).is_ok() {
            touched.open.push((path.clone(), Way::Connected));
        }
        // Opening a pipe would wait for its other end.
        if kind.is_some_and(|k| k.is_file()) {
            if fs::File::open(path).is_ok() {
                touched.open.push((path.clone(), Way::Read));
            }
            if OpenOptions::new().append(true).open(path).is_ok() {
                touched.open.push((path.clone(), Way::Written));
            }
        }
    }
    touched
}

/// Whether something could be put into each folder.
pub(super) fn write(folders: &[PathBuf]) -> Touched {
    let writable = |folder: &&PathBuf| is_writable(folder);
    Touched {
        tried: folders.len(),
        missing: folders.iter().filter(|f| !f.exists()).count(),
        open: folders
            .iter()
            .filter(writable)
            .map(|f| (f.clone(), Way::Written))
            .collect(),
    }
}

fn is_writable(folder: &Path) -> bool {
    rustix::fs::access(folder, Access::WRITE_OK).is_ok()
}

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Read => "can be read",
            Self::Written => "can be written",
            Self::Listed => "can be listed",
            Self::Connected => "can be connected to",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_gives_way_is_named_and_nothing_is_changed() {
        let folder = tempfile::tempdir().unwrap();
        let (file, socket) = (folder.path().join("file"), folder.path().join("socket"));
        fs::write(&file, "kept").unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let missing = folder.path().join("missing");
        let paths = [
            folder.path().to_owned(),
            file.clone(),
            socket.clone(),
            missing,
        ];
        let touched = touch(&paths);
        assert_eq!((touched.tried, touched.missing), (4, 1));
        let expected = [
            (folder.path().to_owned(), Way::Listed),
            (file.clone(), Way::Read),
            (file.clone(), Way::Written),
            (socket, Way::Connected),
        ];
        assert_eq!(touched.open, expected);
        assert_eq!(fs::read(&file).unwrap(), b"kept");
        assert_eq!(write(&paths[..1]).open.len(), 1);
    }

    #[test]
    fn a_pipe_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        assert!(touch(&[pipe]).open.is_empty());
    }
}
