//! Finds the id of a request in a line that cannot be parsed: too long to keep, or not UTF-8.
//!
//! An error without the request's id reaches nobody: clients drop it, and whoever waits for that
//! request waits for a time-out. The TypeScript SDK writes the id last, after the arguments, so the
//! whole line has to be looked at, without keeping it.

use crate::message::Id;

/// Longer ids are not echoed.
const MAX_ID_BYTES: usize = 256;

/// A scanner of one JSON object that keeps nothing but the value of its own member `id`.
#[derive(Default)]
pub(crate) struct IdScan {
    depth: usize,
    in_string: bool,
    escaped: bool,
    place: Place,
    /// The key or the id that is being read.
    token: Vec<u8>,
    id: Option<Id>,
}

/// Where in the outermost object the scanner is.
#[derive(Clone, Copy, Default, PartialEq)]
enum Place {
    /// Before it, after it, or where there is no object at all.
    #[default]
    Outside,
    Key,
    /// In a value that is none of our business.
    Value,
    /// In the value of `id`.
    Id,
}

impl IdScan {
    /// Looks at the next bytes of the line.
    pub fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.step(*byte);
        }
    }

    /// The id, if the line held one that is a string or a number.
    pub fn id(self) -> Option<Id> {
        self.id
    }

    fn step(&mut self, byte: u8) {
        if self.in_string {
            self.keep(byte);
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.keep(byte);
            }
            b'{' | b'[' => {
                self.depth += 1;
                if self.depth == 1 && byte == b'{' {
                    self.enter(Place::Key);
                }
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 {
                    self.enter(Place::Outside);
                }
            }
            b',' if self.depth == 1 && self.place != Place::Outside => self.enter(Place::Key),
            b':' if self.depth == 1 && self.place == Place::Key => {
                let is_id = self.token == b"\"id\"";
                self.enter(if is_id { Place::Id } else { Place::Value });
            }
            b' ' | b'\t' | b'\r' => {}
            _ => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        let wanted = self.depth == 1 && matches!(self.place, Place::Key | Place::Id);
        if wanted && self.token.len() < MAX_ID_BYTES {
            self.token.push(byte);
        }
    }

    fn enter(&mut self, place: Place) {
        if self.place == Place::Id && self.id.is_none() {
            // An id that was cut at the limit has lost its quote and does not parse.
            self.id = str::from_utf8(&self.token).ok().and_then(Id::parse);
        }
        self.token.clear();
        self.place = place;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id_of(line: &str) -> Option<String> {
        let mut scan = IdScan::default();
        scan.feed(line.as_bytes());
        scan.id().map(|id| id.to_string())
    }

    #[test]
    fn the_id_of_the_request_itself_is_found_first_or_last() {
        let last = r#"{ "method":"m","params":{"id":9,"a":["id",{"id":8}],"s":"\",\"id\":7"}, "id" : 42 }"#;
        assert_eq!(id_of(last).as_deref(), Some("42"));
        assert_eq!(
            id_of(r#"{"id":"a\"b,}","method":"#).as_deref(),
            Some(r#""a\"b,}""#)
        );
        assert_eq!(id_of(r#"{"id":-1,"#).as_deref(), Some("-1"));
    }

    #[test]
    fn what_is_not_an_id_is_none() {
        for line in [
            "",
            "xxxx",
            r#"[{"id":1}]"#,
            r#"{"params":{"id":1}}"#,
            r#"{"id":null,"a":1}"#,
            r#"{"id":{"a":1},"b":2}"#,
            r#"{"id":12"#,
            r#"}}]],"id":1,"#,
        ] {
            assert_eq!(id_of(line), None, "{line}");
        }
        assert_eq!(
            id_of(&format!(r#"{{"id":"{}"}}"#, "x".repeat(MAX_ID_BYTES))),
            None
        );
    }
}
