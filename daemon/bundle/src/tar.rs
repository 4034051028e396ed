//! A bundle on the wire: POSIX tar in its ustar form, with everything fixed but path, length and bytes.

use crate::bundle::{BundleError, File};
use crate::limits::{Budget, LimitError, Limits};
use crate::path::PathError;

/// Everything in a tar is counted in these.
const BLOCK: usize = 512;

// Where the fields of a header are (POSIX.1-2024, pax, "ustar Interchange Format").
const NAME: std::ops::Range<usize> = 0..100;
const SIZE: std::ops::Range<usize> = 124..136;
const CHECKSUM: std::ops::Range<usize> = 148..156;
const TYPE: usize = 156;
const PREFIX: std::ops::Range<usize> = 345..500;

/// Why bytes are not a bundle.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TarError {
    /// They end too early, or a header is none.
    #[error("the bundle is damaged at byte {0}")]
    Damaged(usize),
    /// A link, a folder, a device.
    #[error("the entry at byte {0} is no plain file")]
    NotAFile(usize),
    /// A path that is none for a bundle.
    #[error("the path of the entry at byte {at} {problem}")]
    Path {
        /// Where its header begins.
        at: usize,
        /// Why.
        problem: PathError,
    },
    /// It is a tar, but not one that we wrote.
    #[error("the bundle was not written by sandboxd")]
    NotOurs,
    /// The files do not make a bundle.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// It is too much.
    #[error(transparent)]
    Limit(#[from] LimitError),
}

/// Writes files in the order they have.
pub(crate) fn write(files: &[File]) -> Vec<u8> {
    let padded: usize = files
        .iter()
        .map(|f| BLOCK + f.bytes.len().next_multiple_of(BLOCK))
        .sum();
    let mut tar = Vec::with_capacity(padded + 2 * BLOCK);
    for file in files {
        tar.extend_from_slice(&header(file));
        tar.extend_from_slice(&file.bytes);
        tar.resize(tar.len().next_multiple_of(BLOCK), 0);
    }
    tar.resize(tar.len() + 2 * BLOCK, 0); // the end: two empty blocks
    tar
}

fn header(file: &File) -> [u8; BLOCK] {
    let mut header = [0; BLOCK];
    let mut put = |at: usize, text: &[u8]| header[at..at + text.len()].copy_from_slice(text);
    let (prefix, name) = file.path.tar_fields();
    put(NAME.start, name.as_bytes());
    put(100, b"0000644\0"); // mode
    put(108, b"0000000\0"); // uid
    put(116, b"0000000\0"); // gid
    put(
        SIZE.start,
        format!("{:011o}\0", file.bytes.len()).as_bytes(),
    );
    put(136, b"00000000000\0"); // time
    put(CHECKSUM.start, b"        "); // counts as blanks
    put(TYPE, b"0");
    put(257, b"ustar\x0000");
    put(329, b"0000000\0"); // device
    put(337, b"0000000\0");
    put(PREFIX.start, prefix.as_bytes());
    let sum = checksum(&header);
    header[CHECKSUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

fn checksum(header: &[u8; BLOCK]) -> u32 {
    header.iter().map(|b| u32::from(*b)).sum()
}

/// Reads the files, as far as they are some. Whether the fields that nobody reads are ours is asked by
/// writing it again.
pub(crate) fn read(tar: &[u8], limits: &Limits) -> Result<Vec<File>, TarError> {
    let mut budget = Budget::new(limits);
    let mut files = Vec::new();
    let mut at = 0;
    loop {
        let header: &[u8; BLOCK] = tar
            .get(at..)
            .and_then(<[u8]>::first_chunk)
            .ok_or(TarError::Damaged(at))?;
        if header.iter().all(|b| *b == 0) {
            return Ok(files);
        }
        if header[TYPE] != b'0' {
            return Err(TarError::NotAFile(at));
        }
        let text = path(header).ok_or(TarError::Damaged(at))?;
        let path = text
            .parse()
            .map_err(|problem| TarError::Path { at, problem })?;
        let size = octal(&header[SIZE]).ok_or(TarError::Damaged(at))?;
        budget.take_file(&path, size)?;
        let from = at + BLOCK;
        let bytes = tar
            .get(from..from + size)
            .ok_or(TarError::Damaged(from))?
            .to_vec();
        files.push(File { path, bytes });
        at = from + size.next_multiple_of(BLOCK);
    }
}

fn path(header: &[u8; BLOCK]) -> Option<String> {
    let name = text(&header[NAME])?;
    let prefix = text(&header[PREFIX])?;
    Some(if prefix.is_empty() {
        name.to_owned()
    } else {
        format!("{prefix}/{name}")
    })
}

/// Up to the first NUL, or all of it.
fn text(field: &[u8]) -> Option<&str> {
    let end = field.iter().position(|b| *b == 0).unwrap_or(field.len());
    std::str::from_utf8(&field[..end]).ok()
}

fn octal(field: &[u8]) -> Option<usize> {
    let digits = field.strip_suffix(b"\0")?;
    digits.iter().try_fold(0usize, |sum, digit| match digit {
        b'0'..=b'7' => sum.checked_mul(8)?.checked_add(usize::from(digit - b'0')),
        _ => None,
    })
}
