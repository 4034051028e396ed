//! JSON read so that two readers cannot disagree about it: a repeated key is a fault, and no fault repeats
//! a value, since values of a plan may be secret.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Reads one value. The fault says where and of what kind, never what stood there.
pub(super) fn read(bytes: &[u8]) -> Result<Value, String> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Strict
        .deserialize(&mut reader)
        .and_then(|value| reader.end().map(|()| value));
    value.map_err(|e| {
        let what = match e.classify() {
            serde_json::error::Category::Eof => "it ends too early",
            serde_json::error::Category::Data => "a key is given twice",
            serde_json::error::Category::Syntax | serde_json::error::Category::Io => {
                "it is no JSON, or nested too deeply"
            }
        };
        format!("line {}, column {}: {what}", e.line(), e.column())
    })
}

/// Builds a `Value`; `serde_json` itself keeps the last of two equal keys without a word.
struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Value, D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }
    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(Value::Number(v.into()))
    }
    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(Value::Number(v.into()))
    }
    fn visit_f64<E: Error>(self, v: f64) -> Result<Value, E> {
        Number::from_f64(v)
            .map(Value::Number)
            .ok_or_else(|| E::custom("a number"))
    }
    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(Value::String(v.to_owned()))
    }
    fn visit_string<E>(self, v: String) -> Result<Value, E> {
        Ok(Value::String(v))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(Strict)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let value = map.next_value_seed(Strict)?;
            if fields.insert(key, value).is_some() {
                return Err(A::Error::custom("a key is given twice"));
            }
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_repeated_key_is_a_fault_at_any_depth() {
        for json in [
            r#"{"a":1,"a":1}"#,
            r#"[{"b":{"a":1,"a":2}}]"#,
            r#"{"a":1,"\u0061":2}"#,
        ] {
            let fault = read(json.as_bytes()).unwrap_err();
            assert!(fault.contains("a key is given twice"), "{json}: {fault}");
        }
    }

    #[test]
    fn a_fault_says_where_and_not_what() {
        for json in [
            r#"{"password": hunter2}"#,
            r#"{"a":"hunter2""#,
            "hunter2",
            "",
        ] {
            let fault = read(json.as_bytes()).unwrap_err();
            assert!(
                fault.starts_with("line ") && !fault.contains("hunter2"),
                "{fault}"
            );
        }
        assert!(read("[".repeat(100_000).as_bytes()).is_err());
        assert!(read(b"{} {}").is_err());
        assert!(read(b"\"\xff\"").is_err());
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_serde_json_reads(text in "\\PC{0,40}", n in any::<i64>(), f in any::<f64>()) {
            let json = serde_json::json!({"s": text, "n": [n, null, true], "f": f}).to_string();
            prop_assert_eq!(read(json.as_bytes()).unwrap(), serde_json::from_str::<Value>(&json).unwrap());
        }
    }
}
