//! Text in native syntax to tokens, after hashicorp/hcl's `scan_tokens.rl`.

use super::{Unreadable, line_number};

/// What a token is. Operators are told apart as far as the structure needs it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Ident,
    Newline,
    Equal,
    Colon,
    Comma,
    Dot,
    /// Numbers and operators.
    Other,
    OpenBrace,
    CloseBrace,
    OpenBracket,
    CloseBracket,
    OpenParen,
    CloseParen,
    OpenQuote,
    CloseQuote,
    /// Text in quotes, escapes included.
    Quoted,
    /// `${` and `%{`.
    OpenTemplate,
    CloseTemplate,
    OpenHeredoc,
    CloseHeredoc,
    /// Text of a heredoc.
    Heredoc,
    End,
}

/// A piece of the text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) start: usize,
    pub(super) end: usize,
    /// Where it begins, counted from 1.
    pub(super) line: u32,
}

/// What the scanner is in the middle of.
#[derive(Debug)]
enum Mode<'t> {
    /// Configuration, or an expression in a template. Counts the braces that are open.
    Normal {
        template: bool,
        braces: usize,
    },
    Quoted,
    Heredoc {
        marker: &'t str,
        line_start: bool,
    },
}

/// How deep templates, quotes and heredocs may be in each other, and brackets of every kind. Terraform reads them
/// by recursion: two hundred thousand parentheses end its process.
const MAX_NESTING: usize = 256;

/// The tokens of a text, the last of them [`Kind::End`].
pub(super) fn scan(text: &str) -> Result<Vec<Token>, Unreadable> {
    let mut scanner = Scanner {
        text,
        at: 0,
        lines: 0,
        counted: 0,
        tokens: Vec::new(),
        brackets: 0,
        modes: vec![Mode::Normal {
            template: false,
            braces: 0,
        }],
    };
    while scanner.at < text.len() {
        match scanner.modes.last() {
            Some(Mode::Normal { .. }) => scanner.normal()?,
            Some(Mode::Quoted) => scanner.quoted()?,
            Some(Mode::Heredoc { marker, line_start }) => {
                let (marker, line_start) = (*marker, *line_start);
                scanner.heredoc(marker, line_start)?;
            }
            None => return Err(scanner.fault("a '}' too many")),
        }
        if scanner.brackets > MAX_NESTING {
            return Err(scanner.fault(format!("brackets more than {MAX_NESTING} deep")));
        }
    }
    if scanner.modes.len() != 1 {
        return Err(scanner.fault("an end in the middle of a string or a template"));
    }
    scanner.token(Kind::End, 0);
    Ok(scanner.tokens)
}

struct Scanner<'t> {
    text: &'t str,
    at: usize,
    /// Line feeds before `counted`.
    lines: usize,
    counted: usize,
    tokens: Vec<Token>,
    /// Those that are open.
    brackets: usize,
    modes: Vec<Mode<'t>>,
}

impl<'t> Scanner<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn line(&mut self) -> u32 {
        let between = &self.text.as_bytes()[self.counted..self.at];
        self.lines += memchr::memchr_iter(b'\n', between).count();
        self.counted = self.at;
        line_number(self.lines)
    }

    fn fault(&mut self, problem: impl Into<String>) -> Unreadable {
        Unreadable::new(self.line(), problem)
    }

    /// Takes `length` bytes as one token.
    fn token(&mut self, kind: Kind, length: usize) {
        let line = self.line();
        let start = self.at;
        self.at += length;
        if matches!(
            kind,
            Kind::OpenBrace | Kind::OpenBracket | Kind::OpenParen | Kind::OpenTemplate
        ) {
            self.brackets += 1;
        } else if matches!(
            kind,
            Kind::CloseBrace | Kind::CloseBracket | Kind::CloseParen | Kind::CloseTemplate
        ) {
            self.brackets = self.brackets.saturating_sub(1);
        }
        self.tokens.push(Token {
            kind,
            start,
            end: self.at,
            line,
        });
    }

    fn enter(&mut self, mode: Mode<'t>) -> Result<(), Unreadable> {
        if self.modes.len() >= MAX_NESTING {
            return Err(self.fault(format!("templates more than {MAX_NESTING} deep")));
        }
        self.modes.push(mode);
        Ok(())
    }

    /// One token of configuration or of an expression.
    fn normal(&mut self) -> Result<(), Unreadable> {
        let rest = self.rest();
        match rest.as_bytes()[0] {
            b' ' | b'\t' => self.at += 1,
            b'\n' => self.token(Kind::Newline, 1),
            b'\r' if rest.starts_with("\r\n") => self.token(Kind::Newline, 2),
            b'#' => self.line_comment(),
            b'/' if rest.starts_with("//") => self.line_comment(),
            b'/' if rest.starts_with("/*") => {
                let Some(end) = rest[2..].find("*/") else {
                    return Err(self.fault("a comment without an end"));
                };
                self.at += end + 4;
            }
            b'"' => {
                self.token(Kind::OpenQuote, 1);
                self.enter(Mode::Quoted)?;
            }
            b'<' if rest.starts_with("<<") => self.open_heredoc()?,
            b'{' | b'}' | b'~' => self.brace()?,
            b'0'..=b'9' => {
                let length = rest.bytes().take_while(u8::is_ascii_digit).count();
                self.token(Kind::Other, length);
            }
            b if is_ident_start(b) => {
                let length = rest.bytes().take_while(|b| is_ident(*b)).count();
                self.token(Kind::Ident, length);
            }
            b => self.operator(b)?,
        }
        Ok(())
    }

    /// A comment to the end of its line, which ends what the line ends.
    fn line_comment(&mut self) {
        match self.rest().find('\n') {
            Some(end) => self.token(Kind::Newline, end + 1),
            None => self.at = self.text.len(),
        }
    }

    fn brace(&mut self) -> Result<(), Unreadable> {
        let Some(Mode::Normal { template, braces }) = self.modes.last_mut() else {
            return Err(self.fault("a brace where none can be"));
        };
        let closes_template = *template && *braces == 0;
        match self.text.as_bytes()[self.at] {
            b'{' => {
                *braces += 1;
                self.token(Kind::OpenBrace, 1);
            }
            b'}' if closes_template => {
                self.modes.pop();
                self.token(Kind::CloseTemplate, 1);
            }
            b'}' if *braces > 0 => {
                *braces -= 1;
                self.token(Kind::CloseBrace, 1);
            }
            b'~' if closes_template && self.rest().starts_with("~}") => {
                self.modes.pop();
                self.token(Kind::CloseTemplate, 2);
            }
            b'~' => return Err(self.fault("a '~' that ends no template")),
            _ => return Err(self.fault("a '}' without a '{'")),
        }
        Ok(())
    }

    fn operator(&mut self, first: u8) -> Result<(), Unreadable> {
        const TWO: [&str; 9] = ["==", "=>", "!=", ">=", "<=", "&&", "||", "::", ".."];
        let rest = self.rest();
        if rest.starts_with("...") {
            self.token(Kind::Other, 3);
            return Ok(());
        }
        if TWO.iter().any(|two| rest.starts_with(two)) {
            self.token(Kind::Other, 2);
            return Ok(());
        }
        let kind = match first {
            b'=' => Kind::Equal,
            b':' => Kind::Colon,
            b',' => Kind::Comma,
            b'.' => Kind::Dot,
            b'[' => Kind::OpenBracket,
            b']' => Kind::CloseBracket,
            b'(' => Kind::OpenParen,
            b')' => Kind::CloseParen,
            b'*' | b'/' | b'%' | b'+' | b'-' | b'<' | b'>' | b'!' | b'?' => Kind::Other,
            _ => {
                let c = char::from(first).escape_default(); // all others are part of an identifier
                return Err(self.fault(format!("the character {c}, which Terraform does not know")));
            }
        };
        self.token(kind, 1);
        Ok(())
    }

    fn open_heredoc(&mut self) -> Result<(), Unreadable> {
        let rest = self.rest();
        let introducer = if rest.starts_with("<<-") { 3 } else { 2 };
        let after = &rest[introducer..];
        let length = after.bytes().take_while(|b| is_ident(*b)).count();
        let marker = &after[..length];
        let newline = match after.as_bytes()[length..] {
            [b'\n', ..] => 1,
            [b'\r', b'\n', ..] => 2,
            _ => 0,
        };
        // Terraform takes other alphabets as well; which letters those are differs by its version.
        if newline == 0 || !marker.is_ascii() || !marker.bytes().next().is_some_and(is_ident_start)
        {
            return Err(self.fault("a '<<' that begins no heredoc"));
        }
        self.token(Kind::OpenHeredoc, introducer + length + newline);
        self.enter(Mode::Heredoc {
            marker,
            line_start: true,
        })
    }

    /// One token within quotes.
    fn quoted(&mut self) -> Result<(), Unreadable> {
        let rest = self.rest();
        if rest.starts_with('"') {
            self.modes.pop();
            self.token(Kind::CloseQuote, 1);
            return Ok(());
        }
        if self.open_template()? {
            return Ok(());
        }
        let length = match rest.as_bytes()[0] {
            b'$' | b'%' => self.sign(),
            b'\\' => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            _ => rest
                .find(['"', '\\', '$', '%', '\r', '\n'])
                .unwrap_or(rest.len()),
        };
        if length == 0 || rest[..length].contains(['\r', '\n']) {
            return Err(self.fault("a line break within quotes"));
        }
        self.token(Kind::Quoted, length);
        Ok(())
    }

    /// One token within a heredoc.
    fn heredoc(&mut self, marker: &str, line_start: bool) -> Result<(), Unreadable> {
        if self.open_template()? {
            return Ok(());
        }
        let rest = self.rest();
        if rest.starts_with(['$', '%']) {
            let length = self.sign();
            self.token(Kind::Heredoc, length);
            self.set_line_start(false);
            return Ok(());
        }
        let end = rest.find(['$', '%', '\r', '\n']).unwrap_or(rest.len());
        let newline = match rest.as_bytes()[end..] {
            [b'\n', ..] => 1,
            [b'\r', b'\n', ..] => 2,
            [b'\r', ..] => return Err(self.fault("a carriage return within a line of a heredoc")),
            _ => 0,
        };
        if newline > 0 && line_start && rest[..end].trim() == marker {
            self.token(Kind::CloseHeredoc, end);
            self.token(Kind::Newline, newline);
            self.modes.pop();
            return Ok(());
        }
        self.token(Kind::Heredoc, end + newline);
        self.set_line_start(newline > 0);
        Ok(())
    }

    fn set_line_start(&mut self, now: bool) {
        if let Some(Mode::Heredoc { line_start, .. }) = self.modes.last_mut() {
            *line_start = now;
        }
    }

    /// `${` or `%{`, if that is next.
    fn open_template(&mut self) -> Result<bool, Unreadable> {
        let rest = self.rest();
        if !rest.starts_with("${") && !rest.starts_with("%{") {
            return Ok(false);
        }
        self.set_line_start(false);
        self.token(
            Kind::OpenTemplate,
            if rest[2..].starts_with('~') { 3 } else { 2 },
        );
        self.enter(Mode::Normal {
            template: true,
            braces: 0,
        })?;
        Ok(true)
    }

    /// How long a `$` or `%` is that begins no template: three bytes where it is doubled before a brace.
    fn sign(&self) -> usize {
        let rest = self.rest();
        if rest.starts_with("$${") || rest.starts_with("%%{") {
            3
        } else {
            1
        }
    }
}

/// Letters of other alphabets are taken all alike: what Terraform takes for none of its letters it refuses.
fn is_ident_start(b: u8) -> bool {
    b.is_ascii_alphabetic() || b == b'_' || b >= 0x80
}

fn is_ident(b: u8) -> bool {
    is_ident_start(b) || b.is_ascii_digit() || b == b'-'
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kinds that a text is made of, and what each is.
    fn pieces(text: &str) -> Vec<(Kind, &str)> {
        let tokens = scan(text).unwrap();
        tokens
            .iter()
            .map(|token| (token.kind, &text[token.start..token.end]))
            .collect()
    }

    fn idents(text: &str) -> Vec<(&str, u32)> {
        let tokens = scan(text).unwrap();
        let idents = tokens.iter().filter(|token| token.kind == Kind::Ident);
        idents
            .map(|token| (&text[token.start..token.end], token.line))
            .collect()
    }

    #[test]
    fn a_heredoc_ends_at_its_marker_alone_on_a_line() {
        for inside in [
            "EOTX\n",
            "EOT x\n",
            "x EOT\n",
            "$EOT\n",
            "%EOT\n",
            "${a}EOT\n",
            "$${a}EOT\n",
            "%{if a}EOT\n",
            "$\nx\n",
        ] {
            let text = format!("{inside} EOT\t\r\n");
            let tokens = format!("x = <<EOT\n{text}after\n");
            let found = pieces(&tokens);
            let close = found
                .iter()
                .position(|(kind, _)| *kind == Kind::CloseHeredoc)
                .unwrap();
            assert_eq!(found[close].1, " EOT\t", "{inside:?}");
            assert_eq!(found[close + 1], (Kind::Newline, "\r\n"));
            assert_eq!(found[close + 2], (Kind::Ident, "after"), "{inside:?}");
        }
        assert_eq!(idents("x = <<-A\n\u{a0}A\u{2003}\ny"), [("x", 1), ("y", 3)]);
        // A line that only follows a sign is a line of its own.
        assert_eq!(idents("x = <<A\n$\nA\ny"), [("x", 1), ("y", 4)]);
    }

    #[test]
    fn a_heredoc_in_a_template_of_a_heredoc_ends_by_itself() {
        let text = "x = <<A\n${<<B\nA\nB\n}\nA\ny";
        assert_eq!(idents(text), [("x", 1), ("y", 7)]);
    }

    #[test]
    fn signs_that_begin_no_template_stay_text() {
        for text in [
            "\"$\"y",
            "\"$$\"y",
            "\"$${x}\"y",
            "\"$$${x}\"y",
            "\"%%{x}\"y",
            "\"100%\"y",
            "\"$\\\"x\"y",
        ] {
            assert_eq!(idents(text), [("y", 1)], "{text}");
        }
        for text in [
            "\"%${x}\"y",
            "\"$%{x}\"y",
            "\"$${${x}\"y",
            "\"${~x~}\"y",
            "\"${{}[\"}\"]}${x}\"y",
        ] {
            assert_eq!(idents(text), [("x", 1), ("y", 1)], "{text}");
        }
    }

    #[test]
    fn comments_end_with_their_line_or_where_they_are_closed() {
        let text = "a # \" {\r\nb // <<X\nc /* \n\" */ d /*/ */ e # f";
        assert_eq!(
            idents(text),
            [("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 4)]
        );
        let newlines = pieces(text)
            .iter()
            .filter(|(kind, _)| *kind == Kind::Newline)
            .count();
        assert_eq!(newlines, 2);
        assert_eq!(idents("a # \r b\nc"), [("a", 1), ("c", 2)]);
    }

    #[test]
    fn templates_have_a_depth() {
        let deep = |n: usize| format!("{}x{}", "\"${".repeat(n), "}\"".repeat(n));
        assert!(scan(&deep(120)).is_ok());
        assert!(scan(&deep(130)).is_err());
    }
}
