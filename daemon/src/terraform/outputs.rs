//! The outputs of a root that its operator lets agents see, out of the state that an apply left.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::actions::terraform::Outputs;
use crate::actions::visible_json;

#[derive(Deserialize)]
struct State {
    #[serde(default)]
    outputs: BTreeMap<String, Output>,
}

#[derive(Deserialize)]
struct Output {
    #[serde(default)]
    value: Value,
    #[serde(default)]
    sensitive: bool,
}

/// Those of `names` that a state has and that may be told, in at most `max_bytes` of JSON; and of each other one,
/// why it is not there.
pub(super) fn of(state: Option<&[u8]>, names: &[String], max_bytes: usize) -> Outputs {
    let mut told = Outputs::default();
    let state = state.and_then(|bytes| serde_json::from_slice::<State>(bytes).ok());
    let Some(state) = state else {
        let no_state = |name: &String| format!("{name} (the state could not be read)");
        told.left_out = names.iter().map(no_state).collect();
        return told;
    };
    let mut left = max_bytes;
    for name in names {
        let why = match state.outputs.get(name) {
            None => "there is none".to_owned(),
            Some(output) if output.sensitive => "sensitive".to_owned(),
            Some(output) => {
                let value = visible_json(&output.value);
                if value.len() + name.len() <= left {
                    left -= value.len() + name.len();
                    told.values.insert(name.clone(), output.value.clone());
                    continue;
                }
                format!("{} bytes, more than there is room for", value.len())
            }
        };
        told.left_out.push(format!("{name} ({why})"));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATE: &str = r#"{"version":4,"serial":3,"lineage":"a","outputs":{
        "url":{"value":"https://shop.example","type":"string"},
        "ports":{"value":[80,443],"type":["tuple",["number","number"]],"sensitive":false},
        "nothing":{"type":"dynamic"},
        "password":{"value":"canary","type":"string","sensitive":true},
        "long":{"value":"0123456789012345678901234567890123456789","type":"string"}},"resources":[]}"#;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn what_is_listed_is_told_and_what_is_sensitive_never() {
        let told = of(
            Some(STATE.as_bytes()),
            &names(&["url", "ports", "nothing", "password", "gone"]),
            4096,
        );
        assert_eq!(
            serde_json::to_string(&told.values).unwrap(),
            r#"{"nothing":null,"ports":[80,443],"url":"https://shop.example"}"#
        );
        assert_eq!(
            told.left_out,
            ["password (sensitive)", "gone (there is none)"]
        );
        assert!(of(Some(STATE.as_bytes()), &[], 4096).values.is_empty());
    }

    #[test]
    fn what_has_no_room_is_left_out_whole_and_named() {
        let told = of(Some(STATE.as_bytes()), &names(&["long", "url"]), 40);
        assert_eq!(told.values.keys().collect::<Vec<_>>(), ["url"]);
        assert_eq!(
            told.left_out,
            ["long (42 bytes, more than there is room for)"]
        );
    }

    #[test]
    fn of_a_state_that_is_none_nothing_is_told() {
        for state in [
            None,
            Some(&b""[..]),
            Some(b"{"),
            Some(br#"{"outputs":{"url":"canary"}}"#),
        ] {
            let told = of(state, &names(&["url"]), 4096);
            assert!(told.values.is_empty());
            assert_eq!(told.left_out, ["url (the state could not be read)"]);
        }
    }
}
