//! Tokens to blocks and arguments, after hashicorp/hcl's `parser.go`.

use std::ops::Range;

use super::Unreadable;
use super::literal::{self, Literal};
use super::scan::{Kind, Token, scan};

/// How deep blocks may be in each other. Terraform has no limit; our stack has.
const MAX_DEPTH: usize = 64;

/// What is between two braces, or in a file, in its order.
#[derive(Debug, Default)]
pub(crate) struct Body {
    pub(super) items: Vec<Item>,
}

#[derive(Debug)]
pub(super) enum Item {
    Argument(Argument),
    Block(Block),
}

/// `name = value`
#[derive(Debug)]
pub(super) struct Argument {
    pub(super) name: String,
    pub(super) line: u32,
    pub(super) value: Literal,
    /// Where its name begins, in bytes of the text.
    pub(super) start: usize,
    /// Where its value stands.
    pub(super) value_at: Range<usize>,
}

/// `kind "label" { … }`
#[derive(Debug)]
pub(super) struct Block {
    pub(super) kind: String,
    pub(super) line: u32,
    pub(super) labels: Vec<String>,
    pub(super) body: Body,
}

/// Reads a whole file.
pub(super) fn parse(text: &str) -> Result<Body, Unreadable> {
    let tokens = scan(text)?;
    let mut parser = Parser {
        text,
        tokens: &tokens,
        at: 0,
    };
    parser.body(Kind::End, 0)
}

struct Parser<'t> {
    text: &'t str,
    tokens: &'t [Token],
    at: usize,
}

impl<'t> Parser<'t> {
    /// The next token; at the end, the end again and again.
    fn peek(&self) -> Token {
        const END: Token = Token {
            kind: Kind::End,
            start: 0,
            end: 0,
            line: 1,
        };
        self.tokens
            .get(self.at)
            .or(self.tokens.last())
            .copied()
            .unwrap_or(END)
    }

    fn take(&mut self) -> Token {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn word(&self, token: Token) -> &'t str {
        &self.text[token.start..token.end]
    }

    /// Items up to `end`, which is taken as well.
    fn body(&mut self, end: Kind, depth: usize) -> Result<Body, Unreadable> {
        if depth > MAX_DEPTH {
            let problem = format!("blocks more than {MAX_DEPTH} deep");
            return Err(Unreadable::new(self.peek().line, problem));
        }
        let mut body = Body::default();
        loop {
            let token = self.take();
            if token.kind == end {
                return Ok(body);
            }
            if token.kind == Kind::Newline {
                continue;
            }
            if token.kind != Kind::Ident {
                return Err(Unreadable::new(
                    token.line,
                    "no argument and no block where one is due",
                ));
            }
            let item = self.item(token, depth)?;
            body.items.push(item);
            let after = self.take();
            if !matches!(after.kind, Kind::Newline | Kind::End) {
                return Err(Unreadable::new(
                    after.line,
                    "more on a line than one argument or block",
                ));
            }
            if after.kind == Kind::End {
                self.at -= 1;
            }
        }
    }

    fn item(&mut self, name: Token, depth: usize) -> Result<Item, Unreadable> {
        let next = self.peek();
        if next.kind == Kind::Equal {
            return Ok(Item::Argument(self.argument(name)?));
        }
        if matches!(next.kind, Kind::OpenQuote | Kind::OpenBrace | Kind::Ident) {
            return Ok(Item::Block(self.block(name, depth)?));
        }
        Err(Unreadable::new(
            name.line,
            "a name that begins no argument and no block",
        ))
    }

    fn argument(&mut self, name: Token) -> Result<Argument, Unreadable> {
        self.take(); // the equals sign
        let (value, value_at) = self.expression()?;
        Ok(Argument {
            name: self.word(name).to_owned(),
            line: name.line,
            value,
            start: name.start,
            value_at,
        })
    }

    fn block(&mut self, kind: Token, depth: usize) -> Result<Block, Unreadable> {
        let mut labels = Vec::new();
        while self.peek().kind != Kind::OpenBrace {
            labels.push(self.label()?);
        }
        self.take(); // the brace
        let next = self.peek().kind;
        let body = if matches!(next, Kind::Newline | Kind::CloseBrace | Kind::End) {
            self.body(Kind::CloseBrace, depth + 1)?
        } else {
            self.one_line_body()?
        };
        Ok(Block {
            kind: self.word(kind).to_owned(),
            line: kind.line,
            labels,
            body,
        })
    }

    fn label(&mut self) -> Result<String, Unreadable> {
        let token = self.peek();
        if token.kind == Kind::Ident {
            self.take();
            return Ok(self.word(token).to_owned());
        }
        if token.kind != Kind::OpenQuote {
            return Err(Unreadable::new(
                token.line,
                "a block without a '{' on its line",
            ));
        }
        let rest = self.tokens.get(self.at..).unwrap_or_default();
        let Some((label, length)) = literal::quoted(self.text, rest) else {
            return Err(Unreadable::new(token.line, "a label that is no plain text"));
        };
        self.at += length;
        Ok(label)
    }

    /// `{ name = value }`: one argument, and no block.
    fn one_line_body(&mut self) -> Result<Body, Unreadable> {
        let name = self.take();
        if name.kind != Kind::Ident || self.peek().kind != Kind::Equal {
            return Err(Unreadable::new(
                name.line,
                "a block of one line with more than an argument in it",
            ));
        }
        let argument = self.argument(name)?;
        let close = self.take();
        if close.kind != Kind::CloseBrace {
            return Err(Unreadable::new(
                close.line,
                "a block of one line that does not end on it",
            ));
        }
        Ok(Body {
            items: vec![Item::Argument(argument)],
        })
    }

    /// An expression ends where its line does, or before a `}` that it did not open, with nothing left open.
    fn expression(&mut self) -> Result<(Literal, Range<usize>), Unreadable> {
        let first = self.at;
        let mut open: Vec<(Kind, u32)> = Vec::new();
        loop {
            let token = self.peek();
            let ends = matches!(token.kind, Kind::Newline | Kind::CloseBrace | Kind::End);
            if ends && open.is_empty() {
                break;
            }
            if token.kind == Kind::End {
                let (_, line) = open.first().copied().unwrap_or((token.kind, token.line));
                return Err(Unreadable::new(
                    line,
                    "something that is opened and never closed",
                ));
            }
            if let Some(closer) = closer(token.kind) {
                open.push((closer, token.line));
            } else if is_closer(token.kind) && open.pop().map(|(kind, _)| kind) != Some(token.kind)
            {
                return Err(Unreadable::new(token.line, "brackets that do not match"));
            }
            self.at += 1;
        }
        let tokens = self.tokens.get(first..self.at).unwrap_or_default();
        let [one, ..] = tokens else {
            return Err(Unreadable::new(
                self.peek().line,
                "an argument without a value",
            ));
        };
        let end = tokens.last().map_or(one.end, |last| last.end);
        Ok((literal::read(self.text, tokens), one.start..end))
    }
}

const fn closer(open: Kind) -> Option<Kind> {
    Some(match open {
        Kind::OpenBrace => Kind::CloseBrace,
        Kind::OpenBracket => Kind::CloseBracket,
        Kind::OpenParen => Kind::CloseParen,
        Kind::OpenQuote => Kind::CloseQuote,
        Kind::OpenTemplate => Kind::CloseTemplate,
        Kind::OpenHeredoc => Kind::CloseHeredoc,
        Kind::Ident
        | Kind::Newline
        | Kind::Equal
        | Kind::Colon
        | Kind::Comma
        | Kind::Dot
        | Kind::Other
        | Kind::CloseBrace
        | Kind::CloseBracket
        | Kind::CloseParen
        | Kind::CloseQuote
        | Kind::Quoted
        | Kind::CloseTemplate
        | Kind::CloseHeredoc
        | Kind::Heredoc
        | Kind::End => return None,
    })
}

const fn is_closer(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::CloseBrace
            | Kind::CloseBracket
            | Kind::CloseParen
            | Kind::CloseQuote
            | Kind::CloseTemplate
            | Kind::CloseHeredoc
    )
}
