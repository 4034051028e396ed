//! Where in a resource's values something stands.

use std::fmt::Write as _;

use serde_json::Value;

/// One step into a value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Step {
    /// Into an object.
    Key(String),
    /// Into an array.
    Index(usize),
    /// Into a set, by something that is neither: which element it is cannot be told.
    Element,
}

/// Attributes of the providers that are maps, or whatever the configuration puts there: what follows are
/// words that it chose. `tests/plans/schema_maps.txt` has those of the provider's own schema.
const FREE: &[&str] = &[
    "annotations",
    "binary_data",
    "capacity",
    "data",
    "default",
    "default_request",
    "hard",
    "input",
    "keepers",
    "labels",
    "manifest",
    "match_labels",
    "max",
    "max_limit_request_ratio",
    "min",
    "node_selector",
    "object",
    "options",
    "output",
    "parameters",
    "triggers",
    "triggers_replace",
    "volume_attributes",
];

/// Maps in some places and blocks in others; blocks are arrays.
const FREE_UNLESS_BLOCKS: &[&str] = &["limits", "requests", "selector"];

/// The path as people write it: `spec[0].replicas`, `data["a.b"]`.
pub(super) fn written(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Key(key) if is_word(key) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(key);
            }
            Step::Key(key) => {
                let quoted = Value::String(key.clone());
                // Writing to a String cannot fail.
                write!(text, "[{quoted}]").unwrap_or_default();
            }
            Step::Index(index) => write!(text, "[{index}]").unwrap_or_default(),
            Step::Element => text.push_str("[*]"),
        }
    }
    text
}

/// The path as far as the provider chose its words: without indexes, and not into maps, whose keys may be
/// values that were read from somewhere.
pub(super) fn of_schema(path: &[Step]) -> String {
    let fixed = &path[..free_from(path).unwrap_or(path.len())];
    let words: Vec<&str> = fixed
        .iter()
        .map_while(|step| match step {
            Step::Key(key) if !is_word(key) => None,
            Step::Key(key) => Some(key.as_str()),
            Step::Index(_) | Step::Element => Some(""),
        })
        .filter(|word| !word.is_empty())
        .collect();
    if words.is_empty() {
        return "its values".to_owned();
    }
    words.join(".")
}

/// Where the words of the configuration begin, behind the name of the map.
pub(super) fn free_from(path: &[Step]) -> Option<usize> {
    path.iter().enumerate().find_map(|(index, step)| {
        let Step::Key(key) = step else { return None };
        let block = matches!(path.get(index + 1), Some(Step::Index(_) | Step::Element));
        let free =
            FREE.contains(&key.as_str()) || (FREE_UNLESS_BLOCKS.contains(&key.as_str()) && !block);
        free.then_some(index + 1)
    })
}

/// What [`of_schema`] says of a path that was written by [`written`].
pub(super) fn names(text: &str) -> String {
    let mut path = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        rest = rest.strip_prefix('.').unwrap_or(rest);
        let Some(inside) = rest.strip_prefix('[') else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            path.push(Step::Key(rest[..end].to_owned()));
            rest = &rest[end..];
            continue;
        };
        let end = inside.find(']').unwrap_or(inside.len());
        match inside[..end].parse() {
            Ok(index) => path.push(Step::Index(index)),
            Err(_) if &inside[..end] == "*" => path.push(Step::Element),
            Err(_) => {
                path.push(Step::Key(inside.to_owned())); // in quotes: chosen by the configuration
                break;
            }
        }
        rest = inside.get(end + 1..).unwrap_or_default();
    }
    of_schema(&path)
}

fn is_word(key: &str) -> bool {
    !key.is_empty()
        && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !key.starts_with(|c: char| c.is_ascii_digit())
}

/// The steps of a path as a plan writes one.
pub(super) fn steps(json: &Value) -> Option<Vec<Step>> {
    let steps = json.as_array()?.iter().map(|step| match step {
        Value::String(key) => Step::Key(key.clone()),
        Value::Number(n) => n
            .as_u64()
            .and_then(|n| usize::try_from(n).ok())
            .map_or(Step::Element, Step::Index),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => Step::Element,
    });
    Some(steps.collect())
}

/// Whether one of the two leads to the other, or they are the same.
pub(super) fn on_one_line(a: &[Step], b: &[Step]) -> bool {
    a.iter()
        .zip(b)
        .all(|(a, b)| a == b || *a == Step::Element || *b == Step::Element)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn path(json: &Value) -> Vec<Step> {
        steps(json).unwrap()
    }

    #[test]
    fn a_path_is_written_as_people_write_it() {
        for (json, text) in [
            (json!(["spec", 0, "replicas"]), "spec[0].replicas"),
            (json!(["data", "a.b"]), r#"data["a.b"]"#),
            (
                json!(["data", "a\"\n\u{202e}"]),
                "data[\"a\\\"\\n\u{202e}\"]",
            ),
            (json!(["set", {"a": 1}, "b"]), "set[*].b"),
            (json!(["data", ""]), r#"data[""]"#),
        ] {
            assert_eq!(written(&path(&json)), text, "{json}");
        }
    }

    #[test]
    fn keys_that_the_configuration_chose_are_left_out_for_agents() {
        for (json, text) in [
            (
                json!(["spec", 0, "template", 0, "spec", 0, "container", 0, "image"]),
                "spec.template.spec.container.image",
            ),
            (json!(["data", "hunter2"]), "data"),
            (
                json!(["metadata", 0, "labels", "hunter2"]),
                "metadata.labels",
            ),
            (
                json!(["spec", 0, "selector", 0, "match_labels", "hunter2"]),
                "spec.selector.match_labels",
            ),
            (json!(["spec", 0, "selector", "hunter2"]), "spec.selector"),
            (json!(["input", "hunter2", "x"]), "input"),
            (json!(["input", 0, "hunter2"]), "input"),
            (
                json!(["spec", 0, "resources", 0, "limits", 0, "cpu"]),
                "spec.resources.limits.cpu",
            ),
            (json!(["spec", 0, "limits", "hunter2"]), "spec.limits"),
            (json!(["manifest", "spec", "hunter2"]), "manifest"),
            (json!(["hunter 2"]), "its values"),
        ] {
            assert_eq!(of_schema(&path(&json)), text, "{json}");
            assert_eq!(names(&written(&path(&json))), text, "{json}");
        }
    }

    #[test]
    fn every_map_of_the_providers_schema_is_known_as_one() {
        let words: Vec<&str> = include_str!("../../tests/plans/schema_maps.txt")
            .lines()
            .collect();
        assert!(words.contains(&"annotations") && words.len() > 10);
        for word in words {
            assert_eq!(
                of_schema(&path(&json!(["spec", 0, word, "hunter2"]))),
                format!("spec.{word}")
            );
        }
    }

    #[test]
    fn paths_are_on_one_line_when_one_leads_to_the_other() {
        let selector = path(&json!(["spec", 0, "selector"]));
        let label = path(&json!(["spec", 0, "selector", 0, "match_labels", "app"]));
        let other = path(&json!(["spec", 0, "replicas"]));
        assert!(on_one_line(&selector, &label) && on_one_line(&label, &selector));
        assert!(!on_one_line(&label, &other));
        assert!(on_one_line(
            &path(&json!(["set", {"a": 1}, "b"])),
            &path(&json!(["set", 3, "b"]))
        ));
    }
}
