//! Reading the packed source tree: a POSIX tar of plain files, as sandbox-bundle writes it, and of
//! nothing else. What tar can say beyond that (links, devices, extensions, owners) is refused.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

const BLOCK: usize = 512;

/// More files than any root has that fits the size limit and a human can review.
const MAX_FILES: usize = 5_000;

/// What is wrong with a packed tree. `at` is the offset of the header in question.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TarError {
    /// It ends inside a header or a file, or without its end mark.
    #[error("the bundle's archive ends too early, at byte {0}")]
    Truncated(usize),
    /// Something after the end mark.
    #[error("the bundle's archive goes on after its end, at byte {0}")]
    Trailing(usize),
    /// A header that is not POSIX tar's, or that does not add up.
    #[error("the bundle's archive has no valid header at byte {0}")]
    Header(usize),
    /// Anything but a plain file.
    #[error("the bundle's archive has something other than a plain file at byte {0}")]
    NotAFile(usize),
    /// A path that is not plainly below the root.
    #[error("the bundle's archive has a path that is not plainly below its root, at byte {0}")]
    Path(usize),
    /// A path that is there twice, or both as a file and as a folder.
    #[error("the bundle's archive has {0:?} twice, or as a file and as a folder")]
    Twice(String),
    /// More than 5,000 files.
    #[error("the bundle's archive has more than {MAX_FILES} files")]
    TooMany,
}

/// The files of a source tree, by path.
pub type Tree<'a> = BTreeMap<String, &'a [u8]>;

/// Reads the archive whole. Nothing is written.
///
/// # Errors
/// [`TarError`], at the first thing that sandbox-bundle would not have written.
pub fn read(tar: &[u8]) -> Result<Tree<'_>, TarError> {
    let mut files = Tree::new();
    let mut at = 0;
    loop {
        let header = tar.get(at..at + BLOCK).ok_or(TarError::Truncated(at))?;
        if header.iter().all(|&byte| byte == 0) {
            break;
        }
        let (path, size) = entry(header, at)?;
        let start = at + BLOCK;
        let end = start.checked_add(size).ok_or(TarError::Header(at))?;
        let bytes = tar.get(start..end).ok_or(TarError::Truncated(at))?;
        if files.len() == MAX_FILES {
            return Err(TarError::TooMany);
        }
        if files.insert(path.clone(), bytes).is_some() {
            return Err(TarError::Twice(path));
        }
        at = start + size.next_multiple_of(BLOCK);
    }
    let rest = &tar[at..];
    if rest.len() < 2 * BLOCK {
        return Err(TarError::Truncated(tar.len()));
    }
    if let Some(more) = rest.iter().position(|&byte| byte != 0) {
        return Err(TarError::Trailing(at + more));
    }
    let folder_too = files
        .keys()
        .find(|path| folders(path).any(|f| files.contains_key(f)));
    match folder_too {
        Some(path) => Err(TarError::Twice(path.clone())),
        None => Ok(files),
    }
}

/// Writes the files below `folder`, which must be there and empty, for this user alone and without
/// execute bits.
///
/// # Errors
/// What the file system said.
pub fn write(files: &Tree<'_>, folder: &Path) -> io::Result<()> {
    for (path, bytes) in files {
        let path = folder.join(path);
        if let Some(parent) = path.parent() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(parent)?;
        }
        write_new(&path, bytes)?;
    }
    Ok(())
}

/// Writes a file that is not there yet, for this user alone.
///
/// # Errors
/// What the file system said.
pub fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file: fs::File = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)
}

/// The folders a path lies in, the outermost last.
fn folders(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(path.rsplit_once('/'), |(folder, _)| folder.rsplit_once('/'))
        .map(|(folder, _)| folder)
}

/// Path and size of a header's file.
fn entry(header: &[u8], at: usize) -> Result<(String, usize), TarError> {
    let bad = TarError::Header(at);
    if &header[257..265] != b"ustar\x0000" || Some(checksum(header)) != octal(&header[148..156]) {
        return Err(bad);
    }
    if header[156] != b'0' || text(&header[157..257]) != Some("") {
        return Err(TarError::NotAFile(at));
    }
    let size = octal(&header[124..136]).and_then(|size| usize::try_from(size).ok());
    let path = match (text(&header[345..500]), text(&header[0..100])) {
        (Some(""), Some(name)) => name.to_owned(),
        (Some(prefix), Some(name)) => format!("{prefix}/{name}"),
        _ => return Err(TarError::Path(at)),
    };
    if !is_plain(&path) {
        return Err(TarError::Path(at));
    }
    Ok((path, size.ok_or(bad)?))
}

/// Whether a path names a file below the root by itself: no empty part, no `.`, no `..`, nothing that
/// is not shown as it is.
#[must_use]
pub fn is_plain(path: &str) -> bool {
    let part = |part: &str| !part.is_empty() && part != "." && part != "..";
    path.split('/').all(part) && !path.chars().any(|c| c.is_control() || c == '\\')
}

/// The sum of the header's bytes, its own field counted as blanks.
fn checksum(header: &[u8]) -> u64 {
    let sum: u64 = header.iter().map(|&byte| u64::from(byte)).sum();
    let field: u64 = header[148..156].iter().map(|&byte| u64::from(byte)).sum();
    sum - field + 8 * u64::from(b' ')
}

/// Octal digits, ended by NUL or a blank.
fn octal(field: &[u8]) -> Option<u64> {
    let end = field.iter().position(|byte| matches!(byte, 0 | b' '));
    let (digits, rest) = field.split_at(end.unwrap_or(field.len()));
    if !rest.iter().all(|byte| matches!(byte, 0 | b' ')) {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

/// Text up to the first NUL, with nothing but NULs after it.
fn text(field: &[u8]) -> Option<&str> {
    let end = field.iter().position(|&byte| byte == 0);
    let (text, rest) = field.split_at(end.unwrap_or(field.len()));
    if rest.iter().any(|&byte| byte != 0) {
        return None;
    }
    std::str::from_utf8(text).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use proptest::prelude::*;

    use super::*;

    /// A header as sandbox-bundle writes it, then `change`, then the sum.
    fn header(path: &str, size: usize, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
        let mut header = vec![0; BLOCK];
        let split = path.len().saturating_sub(100);
        let (prefix, name) = match path[split..].find('/') {
            Some(slash) if split > 0 => (&path[..split + slash], &path[split + slash + 1..]),
            _ => ("", path),
        };
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[345..345 + prefix.len()].copy_from_slice(prefix.as_bytes());
        header[100..108].copy_from_slice(b"0000644\0");
        header[108..124].copy_from_slice(b"0000000\x000000000\0");
        header[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes());
        header[136..148].copy_from_slice(b"00000000000\0");
        header[156] = b'0';
        header[257..265].copy_from_slice(b"ustar\x0000");
        change(&mut header);
        let sum = checksum(&header);
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        header
    }

    fn file(path: &str, bytes: &[u8]) -> Vec<u8> {
        let mut entry = header(path, bytes.len(), |_| ());
        entry.extend_from_slice(bytes);
        entry.resize(entry.len().next_multiple_of(BLOCK), 0);
        entry
    }

    fn tar(entries: &[Vec<u8>]) -> Vec<u8> {
        let mut tar = entries.concat();
        tar.resize(tar.len() + 2 * BLOCK, 0);
        tar
    }

    #[test]
    fn plain_files_come_out_for_this_user_alone_and_not_executable() {
        let long = format!("{}/deep/main.tf", "modules".repeat(20));
        let archive = tar(&[
            file("main.tf", b"a"),
            file("modules/x/main.tf", &[7; BLOCK]),
            file(&long, b""),
        ]);
        let files = read(&archive).unwrap();
        let paths: Vec<_> = files.keys().map(String::as_str).collect();
        assert_eq!(paths, ["main.tf", "modules/x/main.tf", &long]);
        assert_eq!(files["modules/x/main.tf"], [7; BLOCK]);

        let folder = tempfile::tempdir().unwrap();
        write(&files, folder.path()).unwrap();
        let written = folder.path().join("modules/x/main.tf");
        assert_eq!(fs::read(&written).unwrap(), [7; BLOCK]);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(&written), 0o600);
        assert_eq!(mode(written.parent().unwrap()), 0o700);
        assert!(
            write(&files, folder.path()).is_err(),
            "nothing is written over"
        );
    }

    #[test]
    fn what_sandbox_bundle_does_not_write_is_refused() {
        let with = |change: fn(&mut [u8])| tar(&[header("a", 0, change)]);
        for (archive, refused) in [
            (with(|h| h[156] = b'5'), TarError::NotAFile(0)),
            (with(|h| h[156] = b'2'), TarError::NotAFile(0)),
            (with(|h| h[156] = b'1'), TarError::NotAFile(0)),
            (with(|h| h[156] = b'x'), TarError::NotAFile(0)),
            (with(|h| h[156] = b'L'), TarError::NotAFile(0)),
            (with(|h| h[156] = 0), TarError::NotAFile(0)),
            (with(|h| h[157] = b'm'), TarError::NotAFile(0)),
            (
                with(|h| h[257..265].copy_from_slice(b"ustar  \0")),
                TarError::Header(0),
            ),
            (with(|h| h[124] = 0x80), TarError::Header(0)),
            (
                with(|h| h[124..127].copy_from_slice(b"9 9")),
                TarError::Header(0),
            ),
            (with(|h| h[3] = b'x'), TarError::Path(0)),
            (with(|h| h[0] = 0xff), TarError::Path(0)),
            (tar(&[file("../a", b"")]), TarError::Path(0)),
            (tar(&[file("/a", b"")]), TarError::Path(0)),
            (tar(&[file("a/../b", b"")]), TarError::Path(0)),
            (tar(&[file("./a", b"")]), TarError::Path(0)),
            (tar(&[file("a//b", b"")]), TarError::Path(0)),
            (tar(&[file("a/", b"")]), TarError::Path(0)),
            (tar(&[file("a\nb", b"")]), TarError::Path(0)),
            (tar(&[file("", b"")]), TarError::Path(0)),
            (
                tar(&[file("a", b""), file("a", b"")]),
                TarError::Twice("a".to_owned()),
            ),
            (
                tar(&[file("a", b""), file("a/b/c", b"")]),
                TarError::Twice("a/b/c".to_owned()),
            ),
            (file("a", b"x"), TarError::Truncated(2 * BLOCK)),
            (header("a", 1, |_| ()), TarError::Truncated(0)),
            (vec![0; BLOCK], TarError::Truncated(BLOCK)),
            (Vec::new(), TarError::Truncated(0)),
            (
                [tar(&[]), file("a", b"")].concat(),
                TarError::Trailing(2 * BLOCK),
            ),
        ] {
            assert_eq!(read(&archive), Err(refused));
        }
        let mut wrong_sum = tar(&[file("a", b"")]);
        wrong_sum[0] = b'b';
        assert_eq!(read(&wrong_sum), Err(TarError::Header(0)));
    }

    proptest! {
        #[test]
        fn no_bytes_get_a_file_out_of_the_folder(
            mut archive in proptest::collection::vec(any::<u8>(), 0..4 * BLOCK),
            good in any::<bool>(),
        ) {
            if good && archive.len() >= BLOCK {
                let start = header("main.tf", 0, |_| ());
                archive[BLOCK / 2..BLOCK].copy_from_slice(&start[BLOCK / 2..]);
                let sum = checksum(&archive[..BLOCK]);
                archive[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
            }
            if let Ok(files) = read(&archive) {
                prop_assert!(files.keys().all(|path| is_plain(path)));
            }
        }
    }
}
