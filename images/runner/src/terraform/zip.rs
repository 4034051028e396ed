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

#[cfg(test)]
pub(super) mod tests {
    use miniz_oxide::deflate::compress_to_vec;
    use proptest::prelude::*;

    use super::*;

    pub struct Made<'a> {
        name: &'a str,
        bytes: &'a [u8],
        method: u16,
        flags: u16,
    }

    /// An entry as Terraform writes one.
    pub fn made<'a>(name: &'a str, bytes: &'a [u8]) -> Made<'a> {
        Made {
            name,
            bytes,
            method: 8,
            flags: 1 << 3 | 1 << 11,
        }
    }

    /// A zip of these entries as Go writes one, its checksums left at 0: they are not looked at.
    pub fn zip(entries: &[Made<'_>]) -> Vec<u8> {
        let (mut zip, mut directory) = (Vec::new(), Vec::new());
        for entry in entries {
            let packed = match entry.method {
                0 => entry.bytes.to_vec(),
                _ => compress_to_vec(entry.bytes, 6),
            };
            let short = |n: usize| u16::try_from(n).unwrap().to_le_bytes();
            let long = |n: usize| u32::try_from(n).unwrap().to_le_bytes();
            let head = [
                [20, 0],
                entry.flags.to_le_bytes(),
                entry.method.to_le_bytes(),
            ]
            .concat();
            let sizes = [long(packed.len()), long(entry.bytes.len())].concat();
            let name = short(entry.name.len());
            directory.extend([&b"PK\x01\x02\x14\x00"[..], &head, &[0; 8], &sizes, &name].concat());
            directory.extend([0; 12]);
            directory.extend([&long(zip.len())[..], entry.name.as_bytes()].concat());
            zip.extend([&b"PK\x03\x04"[..], &head, &[0; 16], &name, &[0; 2]].concat());
            zip.extend([entry.name.as_bytes(), &packed].concat());
        }
        let count = u16::try_from(entries.len()).unwrap().to_le_bytes();
        let start = u32::try_from(zip.len()).unwrap().to_le_bytes();
        let length = u32::try_from(directory.len()).unwrap().to_le_bytes();
        zip.extend(directory);
        zip.extend(
            [
                &b"PK\x05\x06\0\0\0\0"[..],
                &count,
                &count,
                &length,
                &start,
                &[0; 2],
            ]
            .concat(),
        );
        zip
    }

    fn all(zip: &[u8]) -> Result<BTreeMap<String, Vec<u8>>, ZipError> {
        read(zip, |_| true)
    }

    #[test]
    fn wanted_entries_come_out_whole() {
        let long = vec![7; 70_000];
        let mut stored = made("c", b"as it is");
        stored.method = 0;
        let zip = zip(&[made("a", b"first"), made("b", &long), stored]);
        let entries = all(&zip).unwrap();
        assert_eq!(entries["a"], b"first");
        assert_eq!(entries["b"], long);
        assert_eq!(entries["c"], b"as it is");
        assert_eq!(read(&zip, |name| name == "b").unwrap().len(), 1);
    }

    #[test]
    fn what_two_readers_could_read_in_two_ways_is_refused() {
        let one = || zip(&[made("a", b"first")]);
        let with = |change: fn(&mut Vec<u8>)| {
            let mut zip = one();
            change(&mut zip);
            zip
        };
        let entry = |change: fn(&mut Made<'_>)| {
            let mut made = made("a", b"first");
            change(&mut made);
            zip(&[made])
        };
        let twice = zip(&[made("a", b"1"), made("b", b"2"), made("a", b"3")]);
        // The name is the last byte of the directory, and of the local header's fixed part.
        let at_directory = |zip: &[u8]| zip.len() - 22 - 47;
        let mut other_name = one();
        other_name[30] = b'b';
        let mut larger = one();
        let at = at_directory(&larger);
        larger[at + 24] += 1;
        let mut huge = one();
        huge[at + 27] = 0x7f;
        for (zip, refused) in [
            (twice, ZipError::Twice("a".to_owned())),
            (entry(|it| it.method = 12), ZipError::Unknown),
            (entry(|it| it.flags |= 1), ZipError::Unknown),
            (other_name, ZipError::Broken("a".to_owned())),
            (larger, ZipError::Broken("a".to_owned())),
            (huge, ZipError::TooLarge),
            (with(|zip| zip.push(0)), ZipError::Shape),
            (with(|zip| zip.insert(0, 0)), ZipError::Shape),
            (with(|zip| zip.truncate(50)), ZipError::Shape),
            (Vec::new(), ZipError::Shape),
        ] {
            assert_eq!(all(&zip), Err(refused));
        }
        // A name that is not wanted counts all the same.
        let hidden = zip(&[made("x", b"1"), made("x", b"2")]);
        assert_eq!(
            read(&hidden, |_| false),
            Err(ZipError::Twice("x".to_owned()))
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(at in 0_usize..200, byte in any::<u8>(), bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            all(&bytes).ok();
            let mut zip = zip(&[made("a", b"first"), made("b", &[7; 200])]);
            let at = at % zip.len();
            zip[at] = byte;
            all(&zip).ok();
        }
    }
}
