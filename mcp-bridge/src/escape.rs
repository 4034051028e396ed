//! Characters that a reader does not see, or sees in the wrong place, leave only as escapes.
//!
//! Text from a cluster may hold them: a pod's message is written by whoever runs the pod. On the wire
//! ([`for_wire`]) an escape is JSON's own, so no value changes, and a line stays one line for every
//! splitter (Python's `splitlines` breaks at U+0085 and U+2028). In what a model or a person reads
//! ([`for_reader`]) it is spelled out, because their client decodes the JSON first.

use std::fmt::Write as _;

/// JSON text with every hidden character as a `\u` escape. The value stays the same.
pub(crate) fn for_wire(json: String) -> String {
    if !json.chars().any(hidden) {
        return json;
    }
    let mut escaped = String::with_capacity(json.len() + 64);
    for c in json.chars() {
        if hidden(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Infallible: `String` never refuses a write.
                write!(escaped, "\\u{unit:04x}").unwrap_or_default();
            }
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Text with every hidden character but line feed and tab spelled out, as in `\u{202e}`.
pub(crate) fn for_reader(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if hidden(c) && !matches!(c, '\n' | '\t') {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Controls, line and paragraph separators, bidirectional controls, and characters without a glyph
/// (zero-width space, word joiner, invisible operators, byte order mark, tags). Joiners and variation
/// selectors stay: scripts and emoji need them.
fn hidden(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    const NASTY: &str =
        "a\u{7f}\u{85}\u{9b}\u{2028}\u{2029}\u{202e}\u{2066}\u{200e}\u{feff}\u{e0041}z";

    #[test]
    fn the_wire_carries_escapes_and_the_same_value() {
        let json = serde_json::to_string(NASTY).unwrap();
        let wire = for_wire(json);
        assert!(wire.is_ascii(), "{wire}");
        assert!(wire.contains(r"\u202e"), "{wire}");
        assert!(wire.contains(r"\udb40\udc41"), "{wire}");
        assert_eq!(serde_json::from_str::<String>(&wire).unwrap(), NASTY);
    }

    #[test]
    fn a_reader_sees_escapes_and_keeps_lines_tabs_and_scripts() {
        assert_eq!(for_reader("a\n\tb"), "a\n\tb");
        assert_eq!(
            for_reader("x\u{202e}y\r\u{1b}[2J"),
            r"x\u{202e}y\u{d}\u{1b}[2J"
        );
        assert_eq!(
            for_reader("نام 👩\u{200d}🚒 Größe"),
            "نام 👩\u{200d}🚒 Größe"
        );
    }

    #[test]
    fn harmless_text_is_not_copied() {
        let json = String::from(r#"{"text":"line\nline"}"#);
        let before = json.as_ptr();
        let wire = for_wire(json);
        assert_eq!(wire.as_ptr(), before);
    }
}
