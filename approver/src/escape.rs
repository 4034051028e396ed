//! Text from elsewhere on its way to a terminal.

use std::fmt::Write as _;

/// The text with everything but visible ASCII and the space escaped, so that it cannot move the cursor,
/// look like other text, or be taken for two lines.
pub(crate) fn escape(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            ' '..='~' => shown.push(character),
            '\n' => shown.push_str("\\n"),
            '\t' => shown.push_str("\\t"),
            other => {
                write!(shown, "\\u{{{:x}}}", u32::from(other))
                    .expect("writing to a String does not fail");
            }
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_that_a_terminal_would_act_on() {
        assert_eq!(escape("plain \"text\" \\"), "plain \"text\" \\");
        assert_eq!(escape("a\nb\r\x1b[2J\t"), "a\\nb\\u{d}\\u{1b}[2J\\t");
        assert_eq!(
            escape("раypal\u{202e}\u{2028}\u{85}"),
            "\\u{440}\\u{430}ypal\\u{202e}\\u{2028}\\u{85}"
        );
    }
}
