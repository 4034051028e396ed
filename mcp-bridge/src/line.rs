//! Cuts standard input into lines, each at most [`MAX_LINE_BYTES`] long.
//!
//! A longer line is thrown away as it comes and answered with an error; so is one that is not UTF-8.
//! Lines end with LF or CRLF; a byte order mark before one is ignored, and so are blank ones. A last
//! line without an end counts: people pipe single messages in with `printf`.

use crate::id_scan::IdScan;
use crate::message::Id;

/// The longest line that is read, without its end. Arguments of a tool are names and small numbers,
/// so this is plenty, and it is what bounds the memory a client can make the bridge use.
pub(crate) const MAX_LINE_BYTES: usize = 1 << 20;

/// One line of input that is not blank.
#[derive(Debug, PartialEq)]
pub(crate) enum Line {
    /// Its text, without its end.
    Text(String),
    /// It was longer than [`MAX_LINE_BYTES`]; the id of the request it held, if one could be seen.
    TooLong(Option<Id>),
    /// It was not UTF-8; the id of the request it held, if one could be seen.
    NotUtf8(Option<Id>),
}

/// The cutter: bytes in, lines out.
#[derive(Default)]
pub(crate) struct Lines {
    line: Vec<u8>,
    /// Set while the rest of a line that is too long goes by.
    too_long: Option<IdScan>,
}

impl Lines {
    /// Takes the next bytes of input and gives `emit` every line they complete.
    pub fn feed(&mut self, bytes: &[u8], mut emit: impl FnMut(Line)) {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.add(&rest[..end]);
            self.finish().map(&mut emit);
            rest = &rest[end + 1..];
        }
        self.add(rest);
    }

    /// The last line, if the input ended without a line end.
    pub fn finish(&mut self) -> Option<Line> {
        // The buffer goes with the line, so a long one leaves no memory behind.
        let bytes = std::mem::take(&mut self.line);
        if let Some(scan) = self.too_long.take() {
            return Some(Line::TooLong(scan.id()));
        }
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let mut scan = IdScan::default();
                scan.feed(error.as_bytes());
                return Some(Line::NotUtf8(scan.id()));
            }
        };
        let text = text.trim_start_matches('\u{feff}').trim_ascii();
        (!text.is_empty()).then(|| Line::Text(text.to_owned()))
    }

    fn add(&mut self, bytes: &[u8]) {
        if let Some(scan) = &mut self.too_long {
            scan.feed(bytes);
        } else if self.line.len() + bytes.len() > MAX_LINE_BYTES {
            let mut scan = IdScan::default();
            scan.feed(&std::mem::take(&mut self.line));
            scan.feed(bytes);
            self.too_long = Some(scan);
        } else {
            self.line.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of `input`, fed in pieces of `step` bytes.
    fn cut(input: &[u8], step: usize) -> Vec<Line> {
        let mut lines = Lines::default();
        let mut seen = Vec::new();
        for piece in input.chunks(step) {
            lines.feed(piece, |line| seen.push(line));
        }
        seen.extend(lines.finish());
        seen
    }

    fn text(line: &str) -> Line {
        Line::Text(line.to_owned())
    }

    #[test]
    fn every_usual_end_of_line_is_taken_off_wherever_the_input_is_split() {
        let input = "\u{feff}{\"a\":1}\r\n\n  \t\r\n{\"b\":2}\n\u{feff}{\"ü\":3}".as_bytes();
        for step in 1..input.len() {
            assert_eq!(
                cut(input, step),
                [text("{\"a\":1}"), text("{\"b\":2}"), text("{\"ü\":3}")],
                "pieces of {step}"
            );
        }
    }

    #[test]
    fn a_line_of_the_longest_length_is_read_and_one_byte_more_is_not() {
        let mut input = vec![b'7'; MAX_LINE_BYTES];
        input.push(b'\n');
        assert_eq!(cut(&input, 65_536).len(), 1);
        assert!(matches!(cut(&input, 65_536)[0], Line::Text(_)));
        input.insert(0, b'7');
        assert_eq!(cut(&input, 65_536), [Line::TooLong(None)]);
    }

    #[test]
    fn a_line_that_is_too_long_gives_its_id_and_the_next_one_is_read() {
        let mut input = br#"{"method":"tools/call","params":{"id":1,"x":""#.to_vec();
        input.resize(3 * MAX_LINE_BYTES, b'x');
        input.extend_from_slice(b"\"},\"id\":42}\n{}\n");
        assert_eq!(
            cut(&input, 4096),
            [Line::TooLong(Id::parse("42")), text("{}")]
        );
    }

    #[test]
    fn bytes_that_are_not_utf8_give_the_id_if_there_is_one() {
        assert_eq!(
            cut(b"{\"id\":\"a\",\"method\":\"\xff\xfe\"}\n\xc3\x28\n", 7),
            [Line::NotUtf8(Id::parse("\"a\"")), Line::NotUtf8(None)]
        );
    }

    #[test]
    fn nothing_is_kept_of_a_line_that_is_too_long() {
        let mut lines = Lines::default();
        for _ in 0..40 {
            lines.feed(&vec![b'x'; MAX_LINE_BYTES / 2], |line| panic!("{line:?}"));
        }
        assert_eq!(lines.line.capacity(), 0);
        assert_eq!(lines.finish(), Some(Line::TooLong(None)));
    }
}
