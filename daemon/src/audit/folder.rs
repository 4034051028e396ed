//! The state folder: that nobody else can write there, and that one daemon uses it at a time.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};

use super::error::AuditError;

/// A state folder that is ours until this is dropped.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    // The lock ends with the descriptor.
    _lock: File,
}

impl Folder {
    /// Makes the folder if it is missing, and takes it.
    pub(super) fn take(path: &Path) -> Result<Self, AuditError> {
        match DirBuilder::new().mode(0o700).create(path) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                return Err(AuditError::io("make", path)(e));
            }
            Ok(()) | Err(_) => {}
        }
        let found = fs::metadata(path).map_err(AuditError::io("look at", path))?;
        if !found.is_dir() {
            return Err(refused(path, "is not a folder"));
        }
        check_owner(path, &found)?;
        Ok(Self {
            path: path.to_owned(),
            _lock: lock(&path.join("audit.lock"))?,
        })
    }

    /// The path of a file in it.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Whether there is anything of that name.
    pub(super) fn has(&self, name: &str) -> Result<bool, AuditError> {
        let path = self.file(name);
        match fs::symlink_metadata(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            found => found.map(|_| true).map_err(AuditError::io("look at", path)),
        }
    }

    /// Opens a file in it, making it if need be; 0600, never through a link, never somebody else's.
    pub(super) fn open(&self, name: &str) -> Result<File, AuditError> {
        let path = self.file(name);
        let mut options = ours();
        options.read(true).append(true);
        let (file, made) = match options.open(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => (
                options
                    .create_new(true)
                    .open(&path)
                    .map_err(AuditError::io("make", &path))?,
                true,
            ),
            found => (found.map_err(AuditError::io("open", &path))?, false),
        };
        check_file(&path, &file)?;
        if made {
            self.sync()?;
        }
        Ok(file)
    }

    /// Writes a new file whole or not at all, durable when this returns. One of that name gives way.
    pub(super) fn write(&self, name: &str, content: &[u8]) -> Result<(), AuditError> {
        let (new, path) = (self.file(&format!("{name}.new")), self.file(name));
        let written = ours()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&new)
            .and_then(|mut file| {
                file.write_all(content)?;
                file.sync_all()?;
                fs::rename(&new, &path)
            });
        written.map_err(AuditError::io("write", &path))?;
        self.sync()
    }

    /// Makes the names in it durable.
    fn sync(&self) -> Result<(), AuditError> {
        let synced = File::open(&self.path).and_then(|folder| folder.sync_all());
        synced.map_err(AuditError::io("sync", &self.path))
    }
}

/// Reads a small file of the folder, or finds none. Refuses one that others may read.
pub(super) fn read_private(path: &Path) -> Result<Option<Vec<u8>>, AuditError> {
    const LARGEST: u64 = 4096;
    let file = match ours().read(true).open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found.map_err(AuditError::io("open", path))?,
    };
    let found = check_file(path, &file)?;
    if found.mode() & 0o077 != 0 {
        return Err(refused(
            path,
            "can be read by others; it must have mode 0600",
        ));
    }
    let mut content = Vec::new();
    file.take(LARGEST)
        .read_to_end(&mut content)
        .map_err(AuditError::io("read", path))?;
    Ok(Some(content))
}

fn ours() -> OpenOptions {
    let mut options = OpenOptions::new();
    options
        .mode(0o600)
        .custom_flags((OFlags::NOFOLLOW | OFlags::CLOEXEC).bits().cast_signed());
    options
}

fn check_file(path: &Path, file: &File) -> Result<Metadata, AuditError> {
    let found = file.metadata().map_err(AuditError::io("look at", path))?;
    if !found.is_file() {
        return Err(refused(path, "is not a regular file"));
    }
    if found.nlink() != 1 {
        return Err(refused(path, "has a second name elsewhere"));
    }
    check_owner(path, &found)?;
    Ok(found)
}

fn check_owner(path: &Path, found: &Metadata) -> Result<(), AuditError> {
    let own = rustix::process::geteuid().as_raw();
    if found.uid() != own {
        return Err(refused(
            path,
            format!("belongs to uid {}, and this is uid {own}", found.uid()),
        ));
    }
    if found.mode() & 0o022 != 0 {
        return Err(refused(
            path,
            format!(
                "can be written by others (mode {:04o})",
                found.mode() & 0o7777
            ),
        ));
    }
    Ok(())
}

fn lock(path: &Path) -> Result<File, AuditError> {
    let mut file = ours()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(AuditError::io("open", path))?;
    check_file(path, &file)?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        let mut holder = String::new();
        let pid = (&file)
            .take(16)
            .read_to_string(&mut holder)
            .ok()
            .and_then(|_| holder.trim().parse().ok());
        return Err(AuditError::Locked {
            path: path.to_owned(),
            pid,
        });
    }
    // On a full disk the pid stays unsaid; the lock is what counts.
    if file.set_len(0).is_ok() {
        drop(writeln!(file, "{}", std::process::id()));
    }
    Ok(file)
}

fn refused(path: &Path, why: impl Into<String>) -> AuditError {
    AuditError::Folder {
        path: path.to_owned(),
        why: why.into(),
    }
}
