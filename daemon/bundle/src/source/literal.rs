//! The few expressions that are read as values: what Terraform itself takes without evaluating anything.

use super::scan::{Kind, Token};

/// A value as it is written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Literal {
    /// Text in quotes without templates.
    Text(String),
    /// `true` or `false`.
    Bool(bool),
    /// `null`.
    Null,
    /// Names joined by dots; the first of them.
    Reference(String),
    /// Keys that are written out, with their values; a key can be there more than once.
    Object(Vec<Entry>),
    /// Values in brackets.
    List(Vec<Literal>),
    /// Everything that is worked out.
    Other,
}

/// One key of an object.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    /// Where the key is, counted from 1.
    pub(crate) line: u32,
    pub(crate) value: Literal,
}

impl Literal {
    /// The text, if it is one.
    pub(crate) fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self {
            Some(text)
        } else {
            None
        }
    }
}

/// How deep objects and lists are read; deeper ones are [`Literal::Other`].
const MAX_DEPTH: usize = 8;

/// Reads the tokens of one whole expression.
pub(super) fn read(text: &str, tokens: &[Token]) -> Literal {
    let mut reader = Reader {
        text,
        tokens,
        at: 0,
    };
    match reader.value(0) {
        Some(literal) if reader.at == tokens.len() => literal,
        _ => Literal::Other,
    }
}

struct Reader<'t> {
    text: &'t str,
    tokens: &'t [Token],
    at: usize,
}

impl<'t> Reader<'t> {
    fn peek(&self) -> Option<Kind> {
        self.tokens.get(self.at).map(|token| token.kind)
    }

    fn take(&mut self, kind: Kind) -> Option<Token> {
        let token = *self.tokens.get(self.at)?;
        (token.kind == kind).then(|| {
            self.at += 1;
            token
        })
    }

    fn word(&self, token: Token) -> &'t str {
        &self.text[token.start..token.end]
    }

    fn skip_newlines(&mut self) {
        while self.take(Kind::Newline).is_some() {}
    }

    fn value(&mut self, depth: usize) -> Option<Literal> {
        if depth > MAX_DEPTH {
            return None;
        }
        if self.peek()? == Kind::OpenQuote {
            return self.quoted().map(Literal::Text);
        }
        if self.take(Kind::OpenBrace).is_some() {
            return self.object(depth + 1);
        }
        if self.take(Kind::OpenBracket).is_some() {
            return self.list(depth + 1);
        }
        let first = self.take(Kind::Ident)?;
        if self.peek() == Some(Kind::Dot) {
            while self.take(Kind::Dot).is_some() {
                self.take(Kind::Ident)?;
            }
            return Some(Literal::Reference(self.word(first).to_owned()));
        }
        Some(match self.word(first) {
            "true" => Literal::Bool(true),
            "false" => Literal::Bool(false),
            "null" => Literal::Null,
            name => Literal::Reference(name.to_owned()),
        })
    }

    fn object(&mut self, depth: usize) -> Option<Literal> {
        let mut entries = Vec::new();
        loop {
            self.skip_newlines();
            if self.take(Kind::CloseBrace).is_some() {
                return Some(Literal::Object(entries));
            }
            let line = self.tokens.get(self.at)?.line;
            let key = if self.peek()? == Kind::OpenQuote {
                self.quoted()?
            } else {
                let token = self.take(Kind::Ident)?;
                self.word(token).to_owned()
            };
            self.take(Kind::Equal).or_else(|| self.take(Kind::Colon))?;
            let value = self.value(depth)?;
            entries.push(Entry { key, line, value });
            if self.peek()? != Kind::CloseBrace {
                self.take(Kind::Comma)
                    .or_else(|| self.take(Kind::Newline))?;
            }
        }
    }

    fn list(&mut self, depth: usize) -> Option<Literal> {
        let mut values = Vec::new();
        loop {
            self.skip_newlines();
            if self.take(Kind::CloseBracket).is_some() {
                return Some(Literal::List(values));
            }
            values.push(self.value(depth)?);
            self.skip_newlines();
            if self.peek()? != Kind::CloseBracket {
                self.take(Kind::Comma)?;
            }
        }
    }

    fn quoted(&mut self) -> Option<String> {
        let (text, length) = quoted(self.text, &self.tokens[self.at..])?;
        self.at += length;
        Some(text)
    }
}

/// The text in quotes at the beginning of `tokens`, with its escapes resolved, and how many tokens it is.
/// `None` where it has a template or an escape that Terraform does not know.
pub(super) fn quoted(text: &str, tokens: &[Token]) -> Option<(String, usize)> {
    let (open, rest) = tokens.split_first()?;
    let inner = rest
        .iter()
        .take_while(|token| token.kind == Kind::Quoted)
        .count();
    let close = rest.get(inner)?;
    if open.kind != Kind::OpenQuote || close.kind != Kind::CloseQuote {
        return None;
    }
    Some((unescape(&text[open.end..close.start])?, inner + 2))
}

fn unescape(mut raw: &str) -> Option<String> {
    let mut result = String::with_capacity(raw.len());
    while let Some(c) = raw.chars().next() {
        if raw.starts_with("$${") || raw.starts_with("%%{") {
            result.push_str(&raw[1..3]);
            raw = &raw[3..];
        } else if c == '\\' {
            let (c, length) = escape(&raw[1..])?;
            result.push(c);
            raw = &raw[1 + length..];
        } else {
            result.push(c);
            raw = &raw[c.len_utf8()..];
        }
    }
    Some(result)
}

/// The character after a backslash, and how many bytes say it.
fn escape(after: &str) -> Option<(char, usize)> {
    let digits = |count: usize| {
        let hex = after.get(1..=count)?;
        let hex = hex.bytes().all(|b| b.is_ascii_hexdigit()).then_some(hex)?;
        let c = char::from_u32(u32::from_str_radix(hex, 16).ok()?)?;
        Some((c, 1 + count))
    };
    match after.bytes().next()? {
        b'n' => Some(('\n', 1)),
        b'r' => Some(('\r', 1)),
        b't' => Some(('\t', 1)),
        b'"' => Some(('"', 1)),
        b'\\' => Some(('\\', 1)),
        b'u' => digits(4),
        b'U' => digits(8),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::scan::scan;
    use super::*;

    fn literal(text: &str) -> Literal {
        let tokens = scan(text).unwrap();
        read(text, &tokens[..tokens.len() - 1])
    }

    fn string(text: &str) -> Literal {
        Literal::Text(text.to_owned())
    }

    #[test]
    fn escapes_say_what_they_say_in_terraform() {
        assert_eq!(literal(r#""l\u006fcal""#), string("local"));
        assert_eq!(
            literal(r#""\U0001F600\t\n\r\"\\""#),
            string("\u{1F600}\t\n\r\"\\")
        );
        assert_eq!(
            literal(r#""$${a} %%{b} $$ 100%""#),
            string("${a} %{b} $$ 100%")
        );
        for unknown in [
            r#""\x41""#,
            r#""\u12""#,
            r#""\ud800""#,
            r#""\u+123""#,
            r#""\'""#,
        ] {
            assert_eq!(literal(unknown), Literal::Other, "{unknown}");
        }
    }

    #[test]
    fn what_is_worked_out_is_no_literal() {
        for text in [
            r#""a${b}""#,
            r#""%{ if a }b%{ endif }""#,
            r#"("a")"#,
            r#"true ? "a" : "b""#,
            r#"f("a")"#,
            "a[0]",
            "1",
            "-1",
            "{ (a) = 1 }",
            "{ for a in b : a => a }",
            "[for a in b : a]",
            "a.b == c",
        ] {
            assert_eq!(literal(text), Literal::Other, "{text}");
        }
    }

    #[test]
    fn objects_lists_and_references_are_read() {
        let entry = |key: &str, line, value| Entry {
            key: key.to_owned(),
            line,
            value,
        };
        assert_eq!(
            literal("{\n a = \"x\", \"b\": [\"y\",\n\"z\",]\n c = kubernetes.west }"),
            Literal::Object(vec![
                entry("a", 2, string("x")),
                entry("b", 2, Literal::List(vec![string("y"), string("z")])),
                entry("c", 4, Literal::Reference("kubernetes".to_owned())),
            ])
        );
        assert_eq!(literal("false"), Literal::Bool(false));
        assert_eq!(literal("null"), Literal::Null);
    }
}
