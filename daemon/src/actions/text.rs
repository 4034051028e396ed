//! Text from the cluster or an agent, made safe to show: nothing in it can move a cursor, start a line
//! or turn the direction of reading.

/// `text` with controls, line and paragraph separators and bidirectional marks as escapes.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\'' | '\\' => shown.push(c),
            c => shown.extend(c.escape_debug()),
        }
    }
    shown
}

/// A value as JSON in which what [`visible`] would escape is escaped as JSON does.
pub(crate) fn visible_json(value: &serde_json::Value) -> String {
    let mut shown = String::new();
    for c in value.to_string().chars() {
        // What is not ASCII stands inside of texts alone.
        if c == '\u{7f}' || (!c.is_ascii() && c.escape_debug().len() > 1) {
            let units = c.encode_utf16(&mut [0; 2]).to_vec();
            shown.extend(units.iter().map(|unit| format!("\\u{unit:04x}")));
        } else {
            shown.push(c);
        }
    }
    shown
}

/// The first `limit` characters, and how many there were if that is not all.
pub(super) fn clipped(text: &str, limit: usize) -> String {
    let count = text.chars().count();
    if count <= limit {
        return text.to_owned();
    }
    let start: String = text.chars().take(limit).collect();
    format!("{start}… ({count} characters in all)")
}

/// Seconds as people say them: `45s`, `12m`, `5h`, `3d`.
pub(super) fn age(seconds: i64) -> String {
    match seconds {
        ..120 => format!("{}s", seconds.max(0)),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

/// A count with its noun.
pub(crate) fn count(n: u64, noun: &str) -> String {
    if n == 1 {
        format!("1 {noun}")
    } else {
        format!("{n} {noun}s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_moves_a_reader_survives() {
        assert_eq!(visible("a\nb\r\t\u{1b}[2J"), "a\\nb\\r\\t\\u{1b}[2J");
        assert_eq!(
            visible("x\u{2028}y\u{202e}z\u{85}"),
            "x\\u{2028}y\\u{202e}z\\u{85}"
        );
        assert_eq!(visible("it's \"fine\" – größer"), "it's \"fine\" – größer");
    }

    #[test]
    fn json_stays_itself_and_moves_no_reader_either() {
        let value =
            serde_json::json!({ "a\u{2028}": ["x\n\u{1b}\u{7f}\u{202e}\u{e0001}", "größer", 1.5] });
        let json = visible_json(&value);
        assert_eq!(
            json,
            r#"{"a\u2028":["x\n\u001b\u007f\u202e\udb40\udc01","größer",1.5]}"#
        );
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&json).unwrap(),
            value
        );
    }

    #[test]
    fn what_is_clipped_says_so() {
        assert_eq!(clipped("abc", 3), "abc");
        assert_eq!(clipped("äbcd", 3), "äbc… (4 characters in all)");
    }

    #[test]
    fn ages_are_short() {
        assert_eq!(
            [age(-5), age(119), age(120), age(7200), age(172_800)],
            ["0s", "119s", "2m", "2h", "2d"]
        );
    }
}
