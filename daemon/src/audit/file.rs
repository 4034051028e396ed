//! The trail's file: whole lines or none, room kept for the end of things.

use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
use rustix::io::Errno;

use super::Settings;
use super::error::AuditError;

/// The file, and what is known of it.
#[derive(Debug)]
pub(super) struct TrailFile {
    path: PathBuf,
    file: Arc<File>,
    size: u64,
    /// Up to where blocks are allocated, as far as we know; `None` when the file system cannot.
    allocated: Option<u64>,
    low_water: u64,
    reserve: u64,
    sync: fn(&File) -> io::Result<()>,
}

/// Why lines were not appended.
#[derive(Debug)]
pub(super) enum AppendError {
    /// The disk is full. The file is as it was before.
    Full,
    /// Nothing can be written any more.
    Over(AuditError),
}

impl TrailFile {
    /// For a file that was just read and is `size` long.
    pub(super) fn new(path: PathBuf, file: Arc<File>, size: u64, settings: &Settings) -> Self {
        let (low_water, reserve) = (settings.low_water_bytes, settings.reserve_bytes);
        Self {
            path,
            file,
            size,
            allocated: Some(size),
            low_water,
            reserve,
            sync: File::sync_data,
        }
    }

    /// Whether the file system lets us hold blocks back.
    pub(super) fn holds_reserve(&self) -> bool {
        self.allocated
            .is_some_and(|allocated| allocated - self.size >= self.reserve)
    }

    /// Sees to it that `bytes` can be written and the reserve is whole after that.
    pub(super) fn make_room(&mut self, bytes: u64) -> Result<(), AuditError> {
        let free =
            free_bytes(&self.file).map_err(AuditError::io("ask for space for", &self.path))?;
        let wanted = self.size.saturating_add(bytes).saturating_add(self.reserve);
        if free < self.low_water {
            return Err(AuditError::LowSpace {
                free,
                needed: self.low_water,
            });
        }
        let Some(allocated) = self.allocated.filter(|allocated| *allocated < wanted) else {
            return Ok(());
        };
        // Twice what is wanted now, so that this is not asked for at every write.
        for until in [wanted.saturating_add(self.reserve), wanted] {
            match fallocate(
                &self.file,
                FallocateFlags::KEEP_SIZE,
                allocated,
                until - allocated,
            ) {
                Ok(()) => {
                    self.allocated = Some(until);
                    return Ok(());
                }
                Err(Errno::NOSPC | Errno::DQUOT) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                    self.allocated = None;
                    return Ok(());
                }
                Err(e) => return Err(AuditError::io("hold space for", &self.path)(e.into())),
            }
        }
        Err(AuditError::LowSpace {
            free,
            needed: wanted - allocated,
        })
    }

    /// Appends whole lines; durable when this returns. On a full disk it takes back what it wrote.
    pub(super) fn append(&mut self, lines: &[u8]) -> Result<(), AppendError> {
        self.check_in_place().map_err(AppendError::Over)?;
        if let Err(e) = (&*self.file).write_all(lines) {
            self.take_back()?;
            let full = [
                ErrorKind::StorageFull,
                ErrorKind::QuotaExceeded,
                ErrorKind::FileTooLarge,
            ];
            return Err(if full.contains(&e.kind()) {
                AppendError::Full
            } else {
                over(e)
            });
        }
        (self.sync)(&self.file).map_err(over)?;
        self.size += lines.len() as u64;
        Ok(())
    }

    /// Cuts off what a failed write left. Blocks held behind the end go with it.
    fn take_back(&mut self) -> Result<(), AppendError> {
        self.file.set_len(self.size).map_err(over)?;
        self.allocated = self.allocated.map(|_| self.size);
        Ok(())
    }

    /// Nobody else has moved, replaced, cut or written to the file.
    fn check_in_place(&self) -> Result<(), AuditError> {
        let displaced = |why| AuditError::Displaced(self.path.clone(), why);
        let ours = self
            .file
            .metadata()
            .map_err(AuditError::io("look at", &self.path))?;
        let there = std::fs::symlink_metadata(&self.path).map_err(|_| displaced("it is gone"))?;
        if (there.dev(), there.ino()) != (ours.dev(), ours.ino()) {
            return Err(displaced("it is another file now"));
        }
        if ours.len() == self.size {
            Ok(())
        } else {
            Err(displaced("its length changed"))
        }
    }
}

/// Free space that is not kept for root, in bytes.
pub(super) fn free_bytes(file: &File) -> io::Result<u64> {
    let found = fstatvfs(file)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

fn over(e: io::Error) -> AppendError {
    AppendError::Over(AuditError::Broken(Arc::new(e)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trail(folder: &std::path::Path) -> TrailFile {
        let path = folder.join("audit.jsonl");
        let file = File::options()
            .read(true)
            .append(true)
            .create(true)
            .open(&path)
            .unwrap();
        TrailFile::new(path, Arc::new(file), 0, &Settings::default())
    }

    #[test]
    fn room_is_held_behind_the_end_without_growing_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let mut trail = trail(folder.path());
        trail.make_room(100).unwrap();
        let found = std::fs::metadata(folder.path().join("audit.jsonl")).unwrap();
        assert_eq!(found.len(), 0);
        assert!(
            found.blocks() * 512 >= 1024 * 1024,
            "{} blocks",
            found.blocks()
        );
        assert!(trail.holds_reserve());
    }

    #[test]
    fn under_the_low_water_mark_there_is_no_room() {
        let folder = tempfile::tempdir().unwrap();
        let mut trail = trail(folder.path());
        trail.low_water = u64::MAX;
        assert!(matches!(
            trail.make_room(1),
            Err(AuditError::LowSpace {
                needed: u64::MAX,
                ..
            })
        ));
    }

    #[test]
    fn a_failed_sync_is_the_end_because_nobody_knows_what_the_disk_holds() {
        let folder = tempfile::tempdir().unwrap();
        let mut trail = trail(folder.path());
        trail.sync = |_| Err(io::Error::from(Errno::IO));
        assert!(matches!(
            trail.append(b"x\n"),
            Err(AppendError::Over(AuditError::Broken(_)))
        ));
    }

    #[test]
    fn a_file_that_somebody_touched_is_not_written_to() {
        for (touch, why) in [
            (
                (|path| std::fs::remove_file(path)) as fn(&std::path::Path) -> io::Result<()>,
                "gone",
            ),
            (
                |path| std::fs::rename(path, path.with_extension("old")),
                "gone",
            ),
            (
                |path| {
                    std::fs::copy(path, path.with_extension("b"))
                        .and_then(|_| std::fs::rename(path.with_extension("b"), path))
                },
                "another file",
            ),
            (|path| std::fs::write(path, b""), "length"),
            (
                |path| File::options().append(true).open(path)?.write_all(b"{}\n"),
                "length",
            ),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let mut trail = trail(folder.path());
            trail.append(b"first\n").unwrap();
            touch(&folder.path().join("audit.jsonl")).unwrap();
            match trail.append(b"second\n") {
                Err(AppendError::Over(error @ AuditError::Displaced(..))) => {
                    assert!(error.to_string().contains(why), "{error}");
                }
                other => panic!("{why}: {other:?}"),
            }
        }
    }
}
