//! Reads beneath one folder, and follows no link out of it or within it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::Errno;

/// Never waits for the other end of a pipe, and never makes a terminal ours.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);
const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::DIRECTORY);

/// Why a file was not read.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum ReadFault {
    /// It, or a folder on the way, is a symbolic link.
    Link,
    /// It has more names than this one.
    HardLinks,
    /// It is this instead of a file.
    NotAFile(&'static str),
    /// Somebody wrote to it meanwhile.
    Changed,
    /// It has more bytes than were allowed.
    TooLong,
    /// There is none.
    Missing,
    /// The system said no.
    Io(Errno),
}

impl From<Errno> for ReadFault {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::LOOP => Self::Link,
            Errno::NOENT => Self::Missing,
            // What NOFOLLOW and DIRECTORY together make of a link, and of a file where a folder should be.
            Errno::NOTDIR => Self::NotAFile("not a folder"),
            other => Self::Io(other),
        }
    }
}

/// What stands in a folder under one name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Entry {
    /// As the file system has it, which need not be UTF-8.
    pub(crate) name: Vec<u8>,
    pub(crate) kind: EntryKind,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum EntryKind {
    File,
    Folder,
    Link,
    Other,
}

/// An open folder. Whatever is renamed meanwhile, what is read is beneath it.
#[derive(Debug)]
pub(crate) struct Folder(OwnedFd);

impl Folder {
    /// Opens an absolute path that has no link anywhere in it.
    pub(crate) fn open(path: &Path) -> Result<Self, ReadFault> {
        let top = openat(rustix::fs::CWD, "/", FOLDER, Mode::empty())?;
        let mut relative = Vec::new();
        for component in path.components() {
            match component {
                Component::RootDir | Component::CurDir => {}
                Component::Normal(part) => relative.push(part.as_bytes()),
                Component::ParentDir | Component::Prefix(_) => return Err(ReadFault::Missing),
            }
        }
        if relative.is_empty() {
            return Ok(Self(top));
        }
        Ok(Self(open_beneath(
            top.as_fd(),
            &relative.join(&b'/'),
            FOLDER,
        )?))
    }

    /// Opens a folder beneath this one; empty means this one.
    fn beneath(&self, path: &str) -> Result<OwnedFd, ReadFault> {
        let path = if path.is_empty() { "." } else { path };
        Ok(open_beneath(self.0.as_fd(), path.as_bytes(), FOLDER)?)
    }

    /// Calls `each` with what stands in the folder `path`, in no order, until it says no. What is gone by
    /// the time it is looked at is left out.
    pub(crate) fn list<E>(
        &self,
        path: &str,
        mut each: impl FnMut(Entry) -> Result<(), E>,
    ) -> Result<Result<(), E>, ReadFault> {
        let folder = self.beneath(path)?;
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let stat = match statat(&folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(errno.into()),
            };
            let entry = Entry {
                name: name.to_owned(),
                kind: kind(&stat),
            };
            if let Err(e) = each(entry) {
                return Ok(Err(e));
            }
        }
        Ok(Ok(()))
    }

    /// What is at `path`.
    pub(crate) fn kind(&self, path: &str) -> Result<EntryKind, ReadFault> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let folder = self.beneath(folder)?;
        Ok(kind(&statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    /// Reads a whole file of at most `limit` bytes.
    pub(crate) fn read(&self, path: &str, limit: usize) -> Result<Vec<u8>, ReadFault> {
        // Looked at before it is opened, since opening a device can be an act of its own; and again after,
        // since it may be another one by then.
        match self.kind(path)? {
            EntryKind::File => {}
            EntryKind::Link => return Err(ReadFault::Link),
            EntryKind::Folder => return Err(ReadFault::NotAFile("a folder")),
            EntryKind::Other => return Err(ReadFault::NotAFile("no regular file")),
        }
        let file = open_beneath(self.0.as_fd(), path.as_bytes(), READ)?;
        let before = fstat(&file)?;
        if kind(&before) != EntryKind::File {
            return Err(ReadFault::NotAFile("no regular file"));
        }
        // A second name may be in a folder the agent cannot read.
        if before.st_nlink != 1 {
            return Err(ReadFault::HardLinks);
        }
        let mut file = File::from(file);
        let bytes = read_at_most(&mut file, limit)?;
        let after = fstat(&file)?;
        if state(&before) != state(&after) || u64::try_from(after.st_size) != Ok(bytes.len() as u64)
        {
            return Err(ReadFault::Changed);
        }
        Ok(bytes)
    }
}

/// Counts bytes as they come: a file's size is what it says, and it may say 0.
fn read_at_most(file: &mut File, limit: usize) -> Result<Vec<u8>, ReadFault> {
    let mut bytes = Vec::new();
    file.take(limit as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| ReadFault::Io(Errno::from_io_error(&e).unwrap_or(Errno::IO)))?;
    if bytes.len() > limit {
        return Err(ReadFault::TooLong);
    }
    Ok(bytes)
}

/// What changes with every write to a file.
fn state(stat: &Stat) -> impl PartialEq + use<> {
    (
        (stat.st_dev, stat.st_ino, stat.st_size),
        (stat.st_mtime, stat.st_mtime_nsec),
        (stat.st_ctime, stat.st_ctime_nsec),
    )
}

fn kind(stat: &Stat) -> EntryKind {
    let kind = FileType::from_raw_mode(stat.st_mode);
    if kind.is_file() {
        EntryKind::File
    } else if kind.is_dir() {
        EntryKind::Folder
    } else if kind.is_symlink() {
        EntryKind::Link
    } else {
        EntryKind::Other
    }
}

/// Opens `path` beneath `folder`, with no link on the way.
#[cfg(target_os = "linux")]
fn open_beneath(folder: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    use rustix::fs::{ResolveFlags, openat2};
    let resolve = ResolveFlags::BENEATH
        .union(ResolveFlags::NO_SYMLINKS)
        .union(ResolveFlags::NO_MAGICLINKS);
    // With NOFOLLOW, a link at the end would be the thing itself instead of a way that is refused.
    let follow = flags.difference(OFlags::NOFOLLOW);
    for _ in 0..8 {
        match openat2(folder, path, follow, Mode::empty(), resolve) {
            Err(Errno::AGAIN) => {} // something on the way was renamed just then
            Err(Errno::NOSYS) => return walk_beneath(folder, path, flags), // before Linux 5.6
            result => return result,
        }
    }
    Err(Errno::AGAIN)
}

#[cfg(not(target_os = "linux"))]
fn open_beneath(folder: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    walk_beneath(folder, path, flags)
}

/// The same where there is no `openat2`: part by part, each of them no link.
fn walk_beneath(folder: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut here: Option<OwnedFd> = None;
    let mut parts = path.split(|b| *b == b'/').peekable();
    while let Some(part) = parts.next() {
        if part.is_empty() || part == b".." {
            return Err(Errno::XDEV); // as openat2 says of what is not beneath
        }
        let flags = if parts.peek().is_none() {
            flags
        } else {
            FOLDER
        };
        let from = here.as_ref().map_or(folder, AsFd::as_fd);
        match openat(from, OsStr::from_bytes(part), flags, Mode::empty()) {
            Ok(next) => here = Some(next),
            // With DIRECTORY a link is not a folder rather than a loop.
            Err(Errno::NOTDIR) if is_link(from, part) => return Err(Errno::LOOP),
            Err(errno) => return Err(errno),
        }
    }
    here.ok_or(Errno::NOENT)
}

fn is_link(folder: BorrowedFd<'_>, part: &[u8]) -> bool {
    statat(folder, OsStr::from_bytes(part), AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| kind(&stat) == EntryKind::Link)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn both(folder: &Path, path: &str, flags: OFlags) -> [Result<(), Errno>; 2] {
        let fd = openat(rustix::fs::CWD, folder, FOLDER, Mode::empty()).unwrap();
        [
            open_beneath(fd.as_fd(), path.as_bytes(), flags).map(drop),
            walk_beneath(fd.as_fd(), path.as_bytes(), flags).map(drop),
        ]
    }

    #[test]
    fn the_walk_refuses_what_openat2_refuses() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("a")).unwrap();
        std::fs::write(dir.path().join("a/f"), "x").unwrap();
        symlink("a", dir.path().join("to-folder")).unwrap();
        symlink("f", dir.path().join("a/to-file")).unwrap();
        symlink("/etc", dir.path().join("out")).unwrap();
        for (path, flags, expected) in [
            ("a/f", READ, Ok(())),
            ("a", FOLDER, Ok(())),
            (".", FOLDER, Ok(())),
            ("a/to-file", READ, Err(Errno::LOOP)),
            ("to-folder/f", READ, Err(Errno::LOOP)),
            ("to-folder", FOLDER, Err(Errno::LOOP)),
            ("out/passwd", READ, Err(Errno::LOOP)),
            ("a/f/g", READ, Err(Errno::NOTDIR)),
            ("nothing", READ, Err(Errno::NOENT)),
            ("../x", READ, Err(Errno::XDEV)),
            ("/etc/passwd", READ, Err(Errno::XDEV)),
        ] {
            assert_eq!(
                both(dir.path(), path, flags),
                [expected, expected],
                "{path}"
            );
        }
    }
}
