//! Values as the one JSON text the trail allows for them: ASCII, no spaces, keys sorted.

use std::fmt::Write as _;

use super::value::{Fields, Value};

/// Appends a value.
pub(super) fn value(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Integer(number) => {
            write!(out, "{number}").expect("writing to a String does not fail");
        }
        Value::Text(text) => string(out, text),
        Value::List(values) => {
            out.push('[');
            for (position, item) in values.iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                self::value(out, item);
            }
            out.push(']');
        }
        Value::Object(fields) => object(out, fields),
    }
}

/// Appends an object.
pub(super) fn object(out: &mut String, fields: &Fields) {
    out.push('{');
    for (position, (key, item)) in fields.iter().enumerate() {
        if position > 0 {
            out.push(',');
        }
        string(out, key);
        out.push(':');
        value(out, item);
    }
    out.push('}');
}

/// Appends a string in quotes, with everything but visible ASCII and the space escaped.
pub(super) fn string(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest
        .bytes()
        .position(|b| !matches!(b, b' '..=b'~') || b == b'"' || b == b'\\')
    {
        let (plain, from) = rest.split_at(at);
        out.push_str(plain);
        let mut chars = from.chars();
        if let Some(character) = chars.next() {
            escape(out, character);
        }
        rest = chars.as_str();
    }
    out.push_str(rest);
    out.push('"');
}

fn escape(out: &mut String, character: char) {
    match character {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        other => {
            for unit in other.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}").expect("writing to a String does not fail");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(text: &str) -> String {
        let mut out = String::new();
        string(&mut out, text);
        out
    }

    #[test]
    fn each_kind_of_character_has_its_one_spelling() {
        assert_eq!(encoded("plain ~"), r#""plain ~""#);
        assert_eq!(encoded("\"\\\n\r\t\u{8}\u{c}"), r#""\"\\\n\r\t\b\f""#);
        assert_eq!(encoded("\0\u{1f}\u{7f}"), r#""\u0000\u001f\u007f""#);
        assert_eq!(
            encoded("é\u{85}\u{2028}\u{2029}\u{202e}"),
            r#""\u00e9\u0085\u2028\u2029\u202e""#
        );
        assert_eq!(encoded("\u{1f600}"), r#""\ud83d\ude00""#);
    }

    proptest! {
        #[test]
        fn any_text_comes_back_from_an_ordinary_json_reader(text in any::<String>()) {
            let json = encoded(&text);
            prop_assert!(json.bytes().all(|b| matches!(b, b' '..=b'~')), "{}", json);
            prop_assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        }
    }
}
