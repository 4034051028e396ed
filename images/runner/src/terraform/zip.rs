//! The zip that a plan file is. Read strictly, from its central directory, as Terraform reads it; what
//! two readers could read in two ways is refused.

use std::collections::BTreeMap;

use miniz_oxide::inflate::decompress_to_vec_with_limit;

/// More entries than a plan of 5,000 source files has.
const MAX_ENTRIES: usize = 6_000;

/// What all entries may have together once unpacked, in bytes.
const MAX_UNPACKED: usize = 64 * 1024 * 1024;

/// Why a file is no zip that Terraform would have written.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ZipError {
    /// No directory at its end, or one that points out of the file.
    #[error("it is no zip file, or it is cut off")]
    Shape,
    /// Encrypted, split, 64-bit, or packed in a way Terraform does not use.
    #[error("it uses a part of the zip format that Terraform does not")]
    Unknown,
    /// A name that is there twice.
    #[error("it has {0:?} twice")]
    Twice(String),
    /// More than 6,000 entries, or than 64 MiB in them.
    #[error("it holds more than a plan may")]
    TooLarge,
    /// Packed bytes that do not unpack to what the directory says.
    #[error("its entry {0:?} does not unpack")]
    Broken(String),
}

/// Unpacks every entry whose name `wanted` accepts.
///
/// # Errors
/// [`ZipError`]; entries that are not wanted are checked for their names and places all the same.
pub fn read(
    zip: &[u8],
    wanted: impl Fn(&str) -> bool,
) -> Result<BTreeMap<String, Vec<u8>>, ZipError> {
    let (count, start, end) = directory(zip)?;
    if count > MAX_ENTRIES {
        return Err(ZipError::TooLarge);
    }
    let mut rest = zip.get(start..end).ok_or(ZipError::Shape)?;
    let mut seen = BTreeMap::new();
    let mut room = MAX_UNPACKED;
    for _ in 0..count {
        let (entry, after) = Entry::read(rest)?;
        rest = after;
        let unpacked = if wanted(&entry.name) {
            Some(entry.unpack(zip, room)?)
        } else {
            None
        };
        room -= unpacked.as_ref().map_or(0, Vec::len);
        if seen.insert(entry.name.clone(), unpacked).is_some() {
            return Err(ZipError::Twice(entry.name));
        }
    }
    if !rest.is_empty() {
        return Err(ZipError::Shape);
    }
    let unpacked = seen
        .into_iter()
        .filter_map(|(name, bytes)| Some((name, bytes?)));
    Ok(unpacked.collect())
}

/// How many entries there are, and where their directory begins and ends.
fn directory(zip: &[u8]) -> Result<(usize, usize, usize), ZipError> {
    const END: usize = 22;
    let at = zip.len().checked_sub(END).ok_or(ZipError::Shape)?;
    let end = &zip[at..];
    // Without a comment: then there is one place to look for it.
    if end[..4] != *b"PK\x05\x06" || u16_at(end, 20) != 0 {
        return Err(ZipError::Shape);
    }
    let (disk, count) = (u16_at(end, 4), u16_at(end, 10));
    let (length, start) = (u32_at(end, 12), u32_at(end, 16));
    if disk != 0 || u16_at(end, 6) != 0 || u16_at(end, 8) != count || count == u16::MAX {
        return Err(ZipError::Unknown);
    }
    if start == usize::MAX || start.checked_add(length) != Some(at) {
        return Err(ZipError::Shape);
    }
    Ok((count.into(), start, at))
}

struct Entry {
    name: String,
    packed: usize,
    unpacked: usize,
    deflated: bool,
    header: usize,
}

impl Entry {
    fn read(directory: &[u8]) -> Result<(Self, &[u8]), ZipError> {
        const FIXED: usize = 46;
        let fixed = directory.get(..FIXED).ok_or(ZipError::Shape)?;
        if fixed[..4] != *b"PK\x01\x02" {
            return Err(ZipError::Shape);
        }
        let lengths = [28, 30, 32].map(|at| usize::from(u16_at(fixed, at)));
        let [name, extra, comment] = lengths;
        let all = FIXED + name + extra + comment;
        let name = directory.get(FIXED..FIXED + name).ok_or(ZipError::Shape)?;
        let name = std::str::from_utf8(name).map_err(|_| ZipError::Unknown)?;
        let rest = directory.get(all..).ok_or(ZipError::Shape)?;
        // Bit 0 is encryption, bit 3 puts the sizes behind the bytes as well, bit 11 says UTF-8.
        let flags = u16_at(fixed, 8) & !(1 << 3 | 1 << 11);
        let deflated = match (flags, u16_at(fixed, 10)) {
            (0, 0) => false,
            (0, 8) => true,
            _ => return Err(ZipError::Unknown),
        };
        let entry = Self {
            name: name.to_owned(),
            packed: u32_at(fixed, 20),
            unpacked: u32_at(fixed, 24),
            deflated,
            header: u32_at(fixed, 42),
        };
        Ok((entry, rest))
    }

    fn unpack(&self, zip: &[u8], room: usize) -> Result<Vec<u8>, ZipError> {
        const FIXED: usize = 30;
        if self.unpacked > room {
            return Err(ZipError::TooLarge);
        }
        let broken = || ZipError::Broken(self.name.clone());
        let header = zip.get(self.header..).ok_or_else(broken)?;
        let fixed = header.get(..FIXED).ok_or_else(broken)?;
        let lengths = usize::from(u16_at(fixed, 26)) + usize::from(u16_at(fixed, 28));
        let name = header.get(FIXED..FIXED + usize::from(u16_at(fixed, 26)));
        if fixed[..4] != *b"PK\x03\x04" || name != Some(self.name.as_bytes()) {
            return Err(broken());
        }
        let start = FIXED + lengths;
        let packed = header.get(start..start + self.packed).ok_or_else(broken)?;
        let bytes = if self.deflated {
            decompress_to_vec_with_limit(packed, self.unpacked).map_err(|_| broken())?
        } else {
            packed.to_vec()
        };
        if bytes.len() != self.unpacked {
            return Err(broken());
        }
        Ok(bytes)
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// Four bytes as a length. A 32-bit one that says "see elsewhere" is no length of ours either.
fn u32_at(bytes: &[u8], at: usize) -> usize {
    let number = u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    usize::try_from(number).unwrap_or(usize::MAX)
}
