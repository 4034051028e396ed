//! Terraform's lock file, as far as two of them can differ: which version of which provider, with which
//! hashes. Terraform writes a plan's copy anew, so comments, order and blanks are not what was packed.

use std::collections::{BTreeMap, BTreeSet};

/// Provider by address: its version, and the hashes it may have.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct Locks(BTreeMap<String, (String, BTreeSet<String>)>);

impl Locks {
    /// Reads a lock file; `None` when it says anything but which providers there are.
    #[must_use]
    pub fn read(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let mut tokens = tokens(text.strip_prefix('\u{feff}').unwrap_or(text))?.into_iter();
        let mut locks = Self::default();
        while let Some(token) = tokens.next() {
            let (Token::Word("provider"), Token::Text(address)) = (token, tokens.next()?) else {
                return None;
            };
            let provider = provider(&mut tokens)?;
            if locks.0.insert(address.to_owned(), provider).is_some() {
                return None;
            }
        }
        Some(locks)
    }
}

fn provider<'a>(
    tokens: &mut impl Iterator<Item = Token<'a>>,
) -> Option<(String, BTreeSet<String>)> {
    let (mut version, mut hashes) = (None, BTreeSet::new());
    if tokens.next()? != Token::Sign('{') {
        return None;
    }
    loop {
        let name = match tokens.next()? {
            Token::Sign('}') => return Some((version?, hashes)),
            Token::Word(name) => name,
            Token::Text(_) | Token::Sign(_) => return None,
        };
        match (name, tokens.next()?, tokens.next()?) {
            ("version", Token::Sign('='), Token::Text(text)) if version.is_none() => {
                version = Some(text.to_owned());
            }
            // What the sources ask for: they are compared themselves.
            ("constraints", Token::Sign('='), Token::Text(_)) => {}
            ("hashes", Token::Sign('='), Token::Sign('[')) if hashes.is_empty() => loop {
                match tokens.next()? {
                    Token::Sign(']') => break,
                    Token::Sign(',') => {}
                    Token::Text(hash) => drop(hashes.insert(hash.to_owned())),
                    Token::Word(_) | Token::Sign(_) => return None,
                }
            },
            _ => return None,
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Token<'a> {
    Word(&'a str),
    Text(&'a str),
    Sign(char),
}

/// The file's tokens, comments and blanks left out.
fn tokens(mut rest: &str) -> Option<Vec<Token<'_>>> {
    let mut tokens = Vec::new();
    loop {
        rest = rest.trim_start();
        let Some(first) = rest.chars().next() else {
            return Some(tokens);
        };
        if first == '#' || rest.starts_with("//") {
            rest = rest.split_once('\n').map_or("", |(_, next)| next);
        } else if let Some(after) = rest.strip_prefix('"') {
            let (text, next) = after.split_once('"')?;
            // Escapes and templates have no place in it, and are not read here.
            if text.contains(['\\', '$', '%', '\n']) {
                return None;
            }
            tokens.push(Token::Text(text));
            rest = next;
        } else if "{}[]=,".contains(first) {
            tokens.push(Token::Sign(first));
            rest = &rest[1..];
        } else {
            let end = rest.find(|c: char| !c.is_ascii_lowercase());
            let (word, next) = rest.split_at(end.unwrap_or(rest.len()));
            if word.is_empty() {
                return None;
            }
            tokens.push(Token::Word(word));
            rest = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = r#"# This file is maintained automatically by "terraform init".

provider "registry.terraform.io/hashicorp/kubernetes" {
  version     = "1.13.4"
  constraints = "1.13.4"
  hashes = [
    "h1:b=",
    "zh:a",
  ]
}
"#;

    #[test]
    fn comments_order_and_blanks_make_no_difference() {
        let locks = Locks::read(LOCK.as_bytes()).unwrap();
        let other = "\u{feff}// ours\r\nprovider \"registry.terraform.io/hashicorp/kubernetes\" {\r\n\
            hashes=[\"zh:a\",\"h1:b=\"]\r\nversion=\"1.13.4\"\r\n}\r\n";
        assert_eq!(Locks::read(other.as_bytes()).unwrap(), locks);
        assert_eq!(Locks::read(b"# nothing\n").unwrap(), Locks::default());
    }

    #[test]
    fn versions_hashes_and_providers_make_one() {
        let locks = Locks::read(LOCK.as_bytes());
        for (from, to) in [
            ("\"1.13.4\"\n  c", "\"1.13.5\"\n  c"),
            ("zh:a", "zh:c"),
            ("hashicorp/", "other/"),
        ] {
            let other = Locks::read(LOCK.replacen(from, to, 1).as_bytes());
            assert!(other.is_some());
            assert_ne!(other, locks, "{to}");
        }
        for strange in [
            LOCK.repeat(2),
            LOCK.replace("provider", "resource"),
            LOCK.replace("1.13.4", "${x}"),
            LOCK.replace("zh:a", "\\x"),
            LOCK.replace("version ", "version = \"1\"\nversion "),
            LOCK.replace(']', ""),
            LOCK.replace("version ", "Version "),
        ] {
            assert_eq!(Locks::read(strange.as_bytes()), None, "{strange}");
        }
        assert_eq!(Locks::read(b"\xff"), None);
    }
}
