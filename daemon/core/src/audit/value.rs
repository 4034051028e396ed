//! What an event's fields may hold.

use std::collections::BTreeMap;
use std::fmt;

/// Named values, sorted by name.
pub type Fields = BTreeMap<String, Value>;

/// A JSON value without fractions, whose text form is one and the same for everyone.
///
/// There is no conversion from a secret type: a secret has to leave its box by name to get here.
#[derive(Clone, Eq, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// Text, of any characters.
    Text(String),
    /// Values in order.
    List(Vec<Value>),
    /// Values by name.
    Object(Fields),
}

impl fmt::Display for Value {
    /// As the trail writes it: JSON in ASCII, on one line, safe on any terminal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        super::encode::value(&mut text, self);
        f.write_str(&text)
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i32> for Value {
    fn from(value: i32) -> Self {
        Self::Integer(value.into())
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Self {
        Self::Integer(value.into())
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<u64> for Value {
    /// Beyond `i64::MAX` the digits become text: most JSON readers would round the number.
    fn from(value: u64) -> Self {
        i64::try_from(value).map_or_else(|_| Self::Text(value.to_string()), Self::Integer)
    }
}

impl From<usize> for Value {
    /// As from a `u64`.
    fn from(value: usize) -> Self {
        i64::try_from(value).map_or_else(|_| Self::Text(value.to_string()), Self::Integer)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(values: Vec<T>) -> Self {
        Self::List(values.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl From<Fields> for Value {
    fn from(fields: Fields) -> Self {
        Self::Object(fields)
    }
}

impl From<serde_json::Value> for Value {
    /// A number with a fraction, or too large, becomes text.
    fn from(value: serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(value) => Self::Bool(value),
            serde_json::Value::Number(number) => number
                .as_i64()
                .map_or_else(|| Self::Text(number.to_string()), Self::Integer),
            serde_json::Value::String(text) => Self::Text(text),
            serde_json::Value::Array(values) => values.into(),
            serde_json::Value::Object(map) => Self::Object(
                map.into_iter()
                    .map(|(key, value)| (key, value.into()))
                    .collect(),
            ),
        }
    }
}
