//! The actions: how each presents itself to agents, what it hands to a sandbox, and what it reports.

pub mod get_request;
mod page;
pub mod pod_status;
pub mod terraform;
mod text;

use sandbox_core::parameters::{ActionName, Parameters};

use crate::report::Failure;

pub use page::PageKey;
pub(crate) use text::{count, visible, visible_json};

/// How much harm a mistaken use can do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Tier {
    /// It only looks.
    Low,
    /// It changes what runs, or destroys it.
    High,
}

/// An action as agents see it.
#[derive(Clone, Debug)]
pub struct Description {
    /// Which.
    pub name: ActionName,
    /// A few words for people.
    pub title: &'static str,
    /// For a model: what it does, what it returns.
    pub description: &'static str,
    /// JSON Schema of the parameters.
    pub input: serde_json::Value,
    /// JSON Schema of every outcome.
    pub output: serde_json::Value,
    /// How much harm.
    pub tier: Tier,
}

/// Every action there is.
#[must_use]
pub fn catalogue() -> Vec<Description> {
    ActionName::ALL
        .into_iter()
        .map(|name| match name {
            ActionName::PodStatus => pod_status::description(),
            ActionName::GetRequest => get_request::description(),
            ActionName::TerraformPlan => terraform::plan_description(),
            ActionName::TerraformApply => terraform::apply_description(),
        })
        .collect()
}

/// What can be told about parameters before anything is opened for them.
///
/// # Errors
/// [`Code::PageExpired`] for a page token that is not ours or not of this question.
pub fn check(parameters: &Parameters, key: &PageKey) -> Result<(), Failure> {
    match parameters {
        Parameters::PodStatus(p) => pod_status::continue_token(p, key).map(drop),
        Parameters::GetRequest(_)
        | Parameters::TerraformPlan(_)
        | Parameters::TerraformApply(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_plain(schema: &serde_json::Value, path: &str) {
        let schema = schema.as_object().unwrap();
        for word in [
            "oneOf", "anyOf", "allOf", "not", "$ref", "$defs", "format", "if",
        ] {
            assert!(!schema.contains_key(word), "{path} has {word}");
        }
        match schema["type"].as_str().unwrap() {
            "object" => {
                for (name, property) in schema["properties"].as_object().unwrap() {
                    assert_plain(property, &format!("{path}.{name}"));
                }
            }
            "array" => assert_plain(&schema["items"], &format!("{path}[]")),
            scalar => assert!(
                matches!(scalar, "string" | "integer" | "boolean"),
                "{path}: {scalar}"
            ),
        }
    }

    #[test]
    fn every_schema_is_one_plain_object_of_scalars() {
        for action in catalogue() {
            assert_plain(&action.input, "input");
            assert_plain(&action.output, "output");
            let required = &action.output["required"];
            assert_eq!(
                *required,
                serde_json::json!(["outcome", "request_id"]),
                "{}",
                action.name
            );
        }
    }

    #[test]
    fn the_catalogue_is_small_enough_for_every_conversation() {
        let size: usize = catalogue()
            .iter()
            .map(|a| a.description.len() + a.input.to_string().len() + a.output.to_string().len())
            .sum();
        assert!(size < 5000, "{size} bytes");
    }
}
