//! Kubernetes label selectors, parsed before they leave the daemon.
//!
//! Grammar: Kubernetes documentation, "Labels and selectors": requirements joined by commas, each
//! `key`, `!key`, `key=value`, `key==value`, `key!=value`, `key in (a,b)` or `key notin (a,b)`.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::names::{NameError, check_length};

/// The longest selector taken, in characters. The API has no limit of its own; a URL does.
pub const MAX_SELECTOR: usize = 1024;

/// A label selector that follows the grammar, e.g. `app=web,tier in (front,back)`, as it was given.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LabelSelector(String);

impl LabelSelector {
    /// The selector as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for LabelSelector {
    type Err = NameError;
    fn from_str(s: &str) -> Result<Self, NameError> {
        check_length(s, MAX_SELECTOR)?;
        // Blanks may stand between tokens; line feeds and tabs would pass as blanks too.
        if let Some(position) = s.chars().position(char::is_control) {
            return Err(grammar(format!(
                "has a control character at position {}",
                position + 1
            )));
        }
        for requirement in split_requirements(s)? {
            check_requirement(requirement.trim())?;
        }
        Ok(Self(s.to_owned()))
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for LabelSelector {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.0)
    }
}

fn grammar(problem: impl Into<String>) -> NameError {
    NameError::Grammar(problem.into())
}

/// Splits at commas outside parentheses.
fn split_requirements(s: &str) -> Result<Vec<&str>, NameError> {
    let mut parts = Vec::new();
    let (mut start, mut open) = (0, false);
    for (index, c) in s.char_indices() {
        match c {
            '(' if open => return Err(grammar("has a '(' inside parentheses")),
            '(' => open = true,
            ')' if !open => return Err(grammar("has a ')' without a '('")),
            ')' => open = false,
            ',' if !open => {
                parts.push(&s[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    if open {
        return Err(grammar("has a '(' without a ')'"));
    }
    parts.push(&s[start..]);
    Ok(parts)
}

fn check_requirement(r: &str) -> Result<(), NameError> {
    if r.is_empty() {
        return Err(grammar("has an empty requirement; remove the extra comma"));
    }
    if let Some(key) = r.strip_prefix('!') {
        return check_key(key.trim());
    }
    if let Some((key, values)) = r.split_once('(') {
        return check_set(key.trim(), values);
    }
    // Longest operator first: "!=" and "==" both contain "=".
    for operator in ["!=", "==", "="] {
        if let Some((key, value)) = r.split_once(operator) {
            check_key(key.trim())?;
            return check_value(value.trim());
        }
    }
    check_key(r)
}

fn check_set(before: &str, values: &str) -> Result<(), NameError> {
    let Some((key, operator)) = before.rsplit_once(char::is_whitespace) else {
        return Err(grammar("needs 'in' or 'notin' before a '('"));
    };
    if !matches!(operator, "in" | "notin") {
        return Err(grammar("knows only 'in' and 'notin' before a '('"));
    }
    let Some((values, rest)) = values.split_once(')') else {
        return Err(grammar("has a '(' without a ')'"));
    };
    if !rest.trim().is_empty() {
        return Err(grammar("has text after a ')'; a comma is missing"));
    }
    check_key(key.trim())?;
    values.split(',').try_for_each(|v| check_value(v.trim()))
}

fn check_key(key: &str) -> Result<(), NameError> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if let Some(prefix) = prefix {
        check_length(prefix, 253)?;
        let label = |l: &str| l.parse::<crate::names::NamespaceName>().map(drop);
        prefix.split('.').try_for_each(label)?;
    }
    check_length(name, 63)?;
    check_value(name)
}

/// A label's value, or the name part of its key.
fn check_value(value: &str) -> Result<(), NameError> {
    if value.is_empty() {
        return Ok(());
    }
    check_length(value, 63)?;
    for (index, c) in value.chars().enumerate() {
        if !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')) {
            return Err(NameError::Character {
                character: c.escape_debug().to_string(),
                position: index + 1,
                allowed: "letters, digits, '-', '_' and '.' in keys and values",
            });
        }
    }
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    if edge(value.chars().next()) && edge(value.chars().last()) {
        Ok(())
    } else {
        Err(NameError::Edge("a letter or a digit, in keys and values"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ok(s: &str) -> bool {
        s.parse::<LabelSelector>().is_ok()
    }

    #[test]
    fn the_documented_forms_pass() {
        for s in [
            "app=web",
            "app==web",
            "app!=web",
            "app",
            "!app",
            "app=",
            "environment in (production, qa)",
            "tier notin (frontend,backend)",
            "app.kubernetes.io/name=web,tier in (a,b),!canary",
            "x in ()",
        ] {
            assert!(ok(s), "{s}");
        }
    }

    #[test]
    fn what_is_not_a_selector_is_refused() {
        for s in [
            "",
            ",",
            "a=b,",
            "=b",
            "a=b=c",
            "a in b",
            "a in (b",
            "a in b)",
            "a of (b)",
            "a in ((b))",
            "a=b c",
            "a=b&limit=0",
            "a=../x",
            "a=b\n",
            "-a=b",
            "a=b-",
            "A B",
            "/a=b",
            "a/b/c=d",
            "in (a)",
            "a in (b) c",
            "a>1",
        ] {
            assert!(!ok(s), "{s:?} passed");
        }
        assert!(!ok(&"a".repeat(MAX_SELECTOR + 1)));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(s in "\\PC{0,200}") {
            let _ = ok(&s);
        }
    }
}
