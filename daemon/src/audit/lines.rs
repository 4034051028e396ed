//! Reads a trail line by line without ever holding more than one, however broken it is.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use sandbox_core::audit::MAX_LINE_BYTES;

const CHUNK: usize = 128 * 1024;

/// What comes next in a file.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Next<'a> {
    /// A line without its LF, and where it begins. Of one that is longer than any may be, the beginning.
    Line(u64, &'a [u8]),
    /// What stands after the last LF.
    Torn(Torn),
    /// Nothing.
    End,
}

/// Bytes at the end of a file that no LF ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Torn {
    /// Where they begin.
    pub(super) offset: u64,
    /// How many there are.
    pub(super) bytes: u64,
}

/// A reader of the lines between two places of a file. Leaves the file's own position alone.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    file: &'a File,
    /// Where `buffer` begins in the file.
    offset: u64,
    end: u64,
    buffer: Vec<u8>,
    /// What of `buffer` has been given out.
    used: usize,
    /// What of `buffer` is known to hold no LF.
    searched: usize,
}

impl<'a> Lines<'a> {
    /// The lines that begin at or after `start`, where one has to begin, up to `end`.
    pub(super) fn between(file: &'a File, start: u64, end: u64) -> Self {
        Self {
            file,
            offset: start,
            end,
            buffer: Vec::new(),
            used: 0,
            searched: 0,
        }
    }

    /// The next line. After [`Next::Torn`] and [`Next::End`] there is nothing more.
    pub(super) fn next(&mut self) -> io::Result<Next<'_>> {
        loop {
            if let Some(length) = self.buffer[self.searched..]
                .iter()
                .position(|b| *b == b'\n')
            {
                let (start, end) = (self.used, self.searched + length);
                (self.used, self.searched) = (end + 1, end + 1);
                return Ok(Next::Line(
                    self.offset + start as u64,
                    &self.buffer[start..end],
                ));
            }
            self.searched = self.buffer.len();
            if self.buffer.len() - self.used > MAX_LINE_BYTES {
                return self.overlong();
            }
            if self.fill()? == 0 {
                let bytes = (self.buffer.len() - self.used) as u64;
                let torn = Torn {
                    offset: self.offset + self.used as u64,
                    bytes,
                };
                return Ok(if bytes == 0 {
                    Next::End
                } else {
                    Next::Torn(torn)
                });
            }
        }
    }

    /// No reader needs more of an overlong line than that it is one; but it is torn if nothing ends it.
    fn overlong(&mut self) -> io::Result<Next<'_>> {
        let start = self.offset + self.used as u64;
        let mut chunk = vec![0; CHUNK];
        let mut at = self.offset + self.buffer.len() as u64;
        while at < self.end {
            let read = self.read(&mut chunk, at)?;
            if read == 0 || chunk[..read].contains(&b'\n') {
                break;
            }
            at += read as u64;
        }
        if at >= self.end {
            return Ok(Next::Torn(Torn {
                offset: start,
                bytes: self.end - start,
            }));
        }
        Ok(Next::Line(start, &self.buffer[self.used..]))
    }

    fn fill(&mut self) -> io::Result<usize> {
        self.buffer.drain(..self.used);
        self.offset += self.used as u64;
        self.searched -= self.used;
        self.used = 0;
        let held = self.buffer.len();
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(held + CHUNK, 0);
        let read = self.read(&mut buffer[held..], self.offset + held as u64);
        buffer.truncate(held + *read.as_ref().unwrap_or(&0));
        self.buffer = buffer;
        read
    }

    fn read(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(at)).unwrap_or(usize::MAX);
        let want = into.len().min(left);
        loop {
            match self.file.read_at(&mut into[..want], at) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::*;

    fn file(content: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        file
    }

    fn all(content: &[u8]) -> (Vec<(u64, Vec<u8>)>, Option<Torn>) {
        let file = file(content);
        let mut lines = Lines::between(&file, 0, content.len() as u64);
        let mut seen = Vec::new();
        loop {
            match lines.next().unwrap() {
                Next::Line(offset, line) => seen.push((offset, line.to_vec())),
                Next::Torn(torn) => return (seen, Some(torn)),
                Next::End => return (seen, None),
            }
        }
    }

    #[test]
    fn an_overlong_line_shows_its_beginning_and_without_an_end_is_torn() {
        let mut content = vec![b'x'; 3 * MAX_LINE_BYTES];
        assert_eq!(
            all(&content),
            (
                vec![],
                Some(Torn {
                    offset: 0,
                    bytes: 3 * MAX_LINE_BYTES as u64
                })
            )
        );
        content.push(b'\n');
        let file = file(&content);
        let mut lines = Lines::between(&file, 0, content.len() as u64);
        let Next::Line(0, line) = lines.next().unwrap() else {
            panic!("no line")
        };
        assert!(line.len() > MAX_LINE_BYTES && line.len() < content.len());
    }

    #[test]
    fn a_span_ends_where_it_was_said_to() {
        let file = file(b"aa\nbb\ncc\n");
        let mut lines = Lines::between(&file, 3, 6);
        assert_eq!(lines.next().unwrap(), Next::Line(3, b"bb"));
        assert_eq!(lines.next().unwrap(), Next::End);
    }

    proptest! {
        #[test]
        fn lines_come_as_splitting_would_give_them(
            lines in proptest::collection::vec((any::<u8>(), 0..70_000_usize), 0..12), torn in 0..3_usize,
        ) {
            let mut content = Vec::new();
            let mut expected = Vec::new();
            for (byte, length) in lines {
                let line = vec![if byte == b'\n' { b'x' } else { byte }; length];
                expected.push((content.len() as u64, line.clone()));
                content.extend(line);
                content.push(b'\n');
            }
            let offset = content.len() as u64;
            content.extend(std::iter::repeat_n(b'x', torn));
            let torn = (torn > 0).then_some(Torn { offset, bytes: torn as u64 });
            prop_assert_eq!(all(&content), (expected, torn));
        }
    }
}
