//! JSON with lines and repeated keys, after hashicorp/hcl's `json` package.

use super::{Unreadable, line_number};

/// How deep values may be in each other. Terraform has no limit; our stack has.
const MAX_DEPTH: usize = 128;

/// A value and where it begins.
#[derive(Debug)]
pub(crate) struct Node {
    /// Counted from 1.
    pub(super) line: u32,
    pub(super) value: Value,
}

#[derive(Debug)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Number,
    Text(String),
    Array(Vec<Node>),
    /// In their order, and as often as they are there.
    Object(Vec<Property>),
}

#[derive(Debug)]
pub(super) struct Property {
    pub(super) name: String,
    /// Of the name.
    pub(super) line: u32,
    pub(super) node: Node,
}

/// Reads a whole file.
pub(super) fn parse(text: &str) -> Result<Node, Unreadable> {
    let mut parser = Parser {
        text,
        at: 0,
        lines: 0,
    };
    let node = parser.node(0)?;
    parser.skip_blanks();
    if parser.at < text.len() {
        return Err(parser.fault("more than one JSON value"));
    }
    // Terraform takes no other value for a file.
    if !matches!(node.value, Value::Object(_) | Value::Array(_)) {
        return Err(Unreadable::new(node.line, "JSON that is no object"));
    }
    Ok(node)
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    lines: usize,
}

impl<'t> Parser<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn line(&self) -> u32 {
        line_number(self.lines)
    }

    fn fault(&self, problem: impl Into<String>) -> Unreadable {
        Unreadable::new(self.line(), problem)
    }

    fn skip_blanks(&mut self) {
        for b in self.rest().bytes() {
            match b {
                b' ' | b'\t' | b'\r' => {}
                b'\n' => self.lines += 1,
                _ => return,
            }
            self.at += 1;
        }
    }

    /// The next byte that is no blank.
    fn peek(&mut self) -> Option<u8> {
        self.skip_blanks();
        self.rest().bytes().next()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn node(&mut self, depth: usize) -> Result<Node, Unreadable> {
        if depth > MAX_DEPTH {
            return Err(self.fault(format!("JSON more than {MAX_DEPTH} deep")));
        }
        let first = self.peek();
        let line = self.line();
        let value = match first {
            Some(b'{') => self.object(depth)?,
            Some(b'[') => self.array(depth)?,
            Some(b'"') => Value::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'a'..=b'z') => self.keyword()?,
            _ => return Err(self.fault("no JSON value where one is due")),
        };
        Ok(Node { line, value })
    }

    fn object(&mut self, depth: usize) -> Result<Value, Unreadable> {
        self.at += 1;
        let mut properties = Vec::new();
        if self.take(b'}') {
            return Ok(Value::Object(properties));
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.fault("no name in quotes where one is due"));
            }
            let line = self.line();
            let name = self.string()?;
            if !self.take(b':') {
                return Err(self.fault("a name without a ':'"));
            }
            let node = self.node(depth + 1)?;
            properties.push(Property { name, line, node });
            if self.take(b'}') {
                return Ok(Value::Object(properties));
            }
            if !self.take(b',') {
                return Err(self.fault("no ',' and no '}' where one is due"));
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, Unreadable> {
        self.at += 1;
        let mut nodes = Vec::new();
        if self.take(b']') {
            return Ok(Value::Array(nodes));
        }
        loop {
            nodes.push(self.node(depth + 1)?);
            if self.take(b']') {
                return Ok(Value::Array(nodes));
            }
            if !self.take(b',') {
                return Err(self.fault("no ',' and no ']' where one is due"));
            }
        }
    }

    fn keyword(&mut self) -> Result<Value, Unreadable> {
        let length = self
            .rest()
            .bytes()
            .take_while(u8::is_ascii_lowercase)
            .count();
        let value = match &self.rest()[..length] {
            "null" => Value::Null,
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ => return Err(self.fault("a word that JSON does not know")),
        };
        self.at += length;
        Ok(value)
    }

    /// Which number it is matters nowhere. One that is not well-formed Terraform refuses.
    fn number(&mut self) -> Value {
        let is_part = |b: &u8| matches!(b, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9');
        self.at += self.rest().bytes().take_while(is_part).count();
        Value::Number
    }

    fn string(&mut self) -> Result<String, Unreadable> {
        self.at += 1;
        let mut result = String::new();
        loop {
            let Some(c) = self.rest().chars().next() else {
                return Err(self.fault("a string without an end"));
            };
            self.at += c.len_utf8();
            match c {
                '"' => return Ok(result),
                '\\' => result.push(self.escape()?),
                c if c < ' ' => return Err(self.fault("a control character in a string")),
                c => result.push(c),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Unreadable> {
        let Some(selector) = self.rest().bytes().next() else {
            return Err(self.fault("a string without an end"));
        };
        if selector == b'u' {
            return self.unicode();
        }
        let c = match selector {
            b'"' | b'\\' | b'/' => char::from(selector),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            _ => return Err(self.fault("an escape that JSON does not know")),
        };
        self.at += 1;
        Ok(c)
    }

    /// One `\u`, or two of them that make one character. Half of such a pair alone Terraform replaces; we
    /// refuse it.
    fn unicode(&mut self) -> Result<char, Unreadable> {
        let first = self.hex()?;
        if let Some(c) = char::from_u32(first) {
            return Ok(c);
        }
        if (0xd800..0xdc00).contains(&first) && self.rest().starts_with("\\u") {
            self.at += 1;
            let second = self.hex()?;
            if (0xdc00..0xe000).contains(&second) {
                let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return char::from_u32(code).ok_or_else(|| self.fault("half a character"));
            }
        }
        Err(self.fault("half a character"))
    }

    /// The four digits after a `u`.
    fn hex(&mut self) -> Result<u32, Unreadable> {
        let digits = self.rest().get(1..5).unwrap_or_default();
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(self.fault("a \\u without four digits"));
        }
        self.at += 5;
        u32::from_str_radix(digits, 16).map_err(|_| self.fault("a \\u without four digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_names_and_their_lines_are_kept() {
        let node =
            parse("\n{\"a\": 1,\n\"\\u0061\": {},\r\n \"a\":\n[null, true, -1.5e3]}\n").unwrap();
        let Value::Object(properties) = node.value else {
            panic!("no object")
        };
        let found: Vec<_> = properties
            .iter()
            .map(|p| (p.name.as_str(), p.line, p.node.line))
            .collect();
        assert_eq!(found, [("a", 2, 2), ("a", 3, 3), ("a", 4, 5)]);
    }

    #[test]
    fn what_is_no_json_is_refused_with_its_line() {
        for (text, line) in [
            ("", 1),
            ("null", 1),
            ("{\n\"a\" 1}", 2),
            ("{\"a\": 1,\n}", 2),
            ("[1,\n]", 2),
            ("{} {}", 1),
            ("{\"a\": \"\n\"}", 1),
            ("{\"a\": \"\\x\"}", 1),
            ("{\"a\": \"\\ud800\"}", 1),
            ("{\"a\": \"\\ud800\\u0061\"}", 1),
            ("{\"a\": \"\\u00e\u{e9}\"}", 1),
            ("// c\n{}", 1),
            ("{\"a\": nil}", 1),
            ("\u{feff}{}", 1),
        ] {
            assert_eq!(parse(text).unwrap_err().line, line, "{text:?}");
        }
        assert!(parse("{\"a\": \"\\ud83d\\ude00\"}").is_ok());
    }

    #[test]
    fn depth_is_limited() {
        let deep = |n: usize| format!("{}1{}", "[".repeat(n), "]".repeat(n));
        assert!(parse(&deep(MAX_DEPTH)).is_ok());
        assert!(parse(&deep(MAX_DEPTH + 1)).is_err());
        assert!(parse(&"[".repeat(1 << 20)).is_err());
    }
}
