//! The actions: how each presents itself to agents, what it hands to a sandbox, and what it reports.

pub mod get_request;
mod page;
pub mod pod_status;
mod text;

use sandbox_core::ids::RequestId;
use sandbox_core::parameters::{ActionName, Parameters};
use sandbox_proto::runner::v1 as wire;

use crate::report::{Code, Failure};
use crate::request::{Parts, Report};

pub use page::PageKey;

/// How much harm a mistaken use can do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Tier {
    /// It only looks.
    Low,
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
        Parameters::GetRequest(_) => Ok(()),
    }
}

/// What the sandbox is told to do; the credential is added where it leaves the daemon.
pub(crate) fn start(
    request: RequestId,
    parameters: &Parameters,
    parts: &Parts,
) -> Result<wire::Start, Failure> {
    let work = match parameters {
        Parameters::PodStatus(p) => {
            pod_status::work(p, &parts.page_key, parts.limits.result_bytes)?
        }
        Parameters::GetRequest(_) => return Err(wrong_output()),
    };
    Ok(wire::Start {
        request_id: request.to_string(),
        timeout_ms: u32::try_from(parts.limits.read_seconds * 1000).unwrap_or(u32::MAX),
        work: Some(work),
        ..wire::Start::default()
    })
}

/// What the sandbox's output means to the caller.
pub(crate) fn report(
    request: RequestId,
    parameters: &Parameters,
    output: wire::Output,
    parts: &Parts,
) -> Result<Report, Failure> {
    match (parameters, output.output) {
        (Parameters::PodStatus(p), Some(wire::output::Output::Pods(pods))) => {
            Ok(pod_status::report(
                request,
                p,
                &pods,
                &parts.page_key,
                parts.limits.result_bytes,
            ))
        }
        (Parameters::PodStatus(_) | Parameters::GetRequest(_), _) => Err(wrong_output()),
    }
}

fn wrong_output() -> Failure {
    Failure::new(Code::Internal, "The runner's output is not of this action.")
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
