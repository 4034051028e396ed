//! A JSON Schema check for the part of it that tools use.

use serde_json::Value;

/// Fails if `value` does not fit `schema`. A keyword this does not know is a failure, too.
pub fn assert_fits(value: &Value, schema: &Value) {
    check(value, schema, "result").unwrap_or_else(|why| panic!("{why}\nin {value}"));
}

fn check(value: &Value, schema: &Value, at: &str) -> Result<(), String> {
    for (keyword, wanted) in schema.as_object().unwrap() {
        match keyword.as_str() {
            "type" => {
                let fits = match wanted.as_str().unwrap() {
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    "integer" => value.is_i64() || value.is_u64(),
                    "boolean" => value.is_boolean(),
                    other => return Err(format!("unknown type {other}")),
                };
                if !fits {
                    return Err(format!("{at} is no {wanted}"));
                }
            }
            "enum" => {
                if !wanted.as_array().unwrap().contains(value) {
                    return Err(format!("{at} is none of {wanted}"));
                }
            }
            "required" => {
                for name in wanted.as_array().unwrap() {
                    if value.get(name.as_str().unwrap()).is_none() {
                        return Err(format!("{at} lacks {name}"));
                    }
                }
            }
            "properties" => {
                for (name, schema) in wanted.as_object().unwrap() {
                    if let Some(value) = value.get(name) {
                        check(value, schema, &format!("{at}.{name}"))?;
                    }
                }
            }
            "additionalProperties" => {
                assert_eq!(wanted, false);
                let known = schema["properties"].as_object().unwrap();
                if let Some(name) = value
                    .as_object()
                    .unwrap()
                    .keys()
                    .find(|n| !known.contains_key(*n))
                {
                    return Err(format!("{at} may not have {name}"));
                }
            }
            "items" => {
                for (number, item) in value.as_array().unwrap().iter().enumerate() {
                    check(item, wanted, &format!("{at}[{number}]"))?;
                }
            }
            "description" | "minimum" | "maximum" => {}
            other => return Err(format!("unknown keyword {other}")),
        }
    }
    Ok(())
}
