//! What a tool call comes to, as MCP's `tools/call` result: structure for programs, text for readers.
//!
//! The structure fits the tool's output schema in every outcome (see [`crate::tools`]), because the
//! TypeScript SDK checks it even where `isError` is set. The text says the same and is complete in
//! itself, because many clients show a model nothing else.

use std::fmt::Write as _;

use rmcp::model::{ContentBlock, MetaObject, ResultType};
use sandbox_proto::agent::v1::{Failure, Finished, Outcome};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::escape;
use crate::refusal::{self, Refusal};
use crate::version::Era;

/// The result of one `tools/call`.
///
/// Ours and not rmcp's, so that the daemon's structured result goes out as it came in, and not
/// through a tree of values.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolResult {
    #[serde(skip_serializing_if = "Option::is_none")]
    result_type: Option<ResultType>,
    content: [ContentBlock; 1],
    structured_content: Box<RawValue>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_error: bool,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<MetaObject>,
}

impl ToolResult {
    /// The end of a request.
    pub fn finished(finished: Finished) -> Self {
        let outcome = match finished.outcome() {
            Outcome::Succeeded => return Self::succeeded(finished),
            Outcome::Failed => "failed",
            Outcome::Denied => "denied",
            Outcome::Cancelled => "cancelled",
            Outcome::Unspecified | Outcome::Unknown => "unknown",
        };
        let refusal = finished.failure.map_or_else(unexplained, from_failure);
        Self::failed(outcome, Some(&finished.request_id), &refusal)
    }

    /// Not finished in time for the client; the daemon goes on.
    pub fn running(request_id: &str) -> Self {
        let text = format!(
            "Still running. Call get_request with request_id \"{request_id}\" (and wait_seconds up to \
             40) for the result. Do not repeat this call: it goes on by itself."
        );
        Self::new(
            &text,
            &json!({"outcome": "running", "request_id": request_id}),
            false,
        )
    }

    /// Refused; there may be a request on record, but none that runs.
    pub fn refused(refusal: &Refusal) -> Self {
        Self::failed("refused", refusal.request_id.as_deref(), refusal)
    }

    /// There is a request, and what became of it is not known here.
    pub fn lost(request_id: &str, refusal: &Refusal) -> Self {
        Self::failed("unknown", Some(request_id), refusal)
    }

    /// The same result in the shape of an era of the protocol.
    pub fn in_era(mut self, era: Era) -> Self {
        self.result_type = era.result_type();
        self.meta = era.result_meta();
        self
    }

    fn succeeded(finished: Finished) -> Self {
        let Some(structured) = plain_object(finished.structured_json) else {
            let fault = Refusal::new(
                refusal::DAEMON_FAULT,
                "The request succeeded, but sandboxd sent a result that is not a JSON object.",
                "Ask the operator whether mcp-bridge and sandboxd are of the same release.",
            );
            return Self::lost(&finished.request_id, &fault);
        };
        let text = if finished.text.is_empty() {
            structured.get()
        } else {
            &finished.text
        };
        Self::with(text, structured.clone(), false)
    }

    fn failed(outcome: &str, request_id: Option<&str>, refusal: &Refusal) -> Self {
        let mut structured = json!({
            "outcome": outcome,
            "code": refusal.code,
            "message": escape::for_reader(&refusal.message),
            "next": escape::for_reader(&refusal.next),
        });
        let mut text = format!(
            "{}: {}\nNext: {}",
            refusal.code, refusal.message, refusal.next
        );
        // Infallible: `String` never refuses a write.
        if let Some(field) = &refusal.field {
            structured["field"] = escape::for_reader(field).into();
            write!(text, "\nField: {field}").unwrap_or_default();
        }
        if let Some(request_id) = request_id {
            structured["request_id"] = request_id.into();
            write!(text, "\nrequest_id: {request_id}").unwrap_or_default();
        }
        Self::new(&text, &structured, true)
    }

    fn new(text: &str, structured: &serde_json::Value, is_error: bool) -> Self {
        let structured =
            RawValue::from_string(structured.to_string()).expect("a value's own text is JSON");
        Self::with(text, structured, is_error)
    }

    fn with(text: &str, structured_content: Box<RawValue>, is_error: bool) -> Self {
        Self {
            result_type: None,
            content: [ContentBlock::text(escape::for_reader(text))],
            structured_content,
            is_error,
            meta: None,
        }
    }
}

/// JSON text of an object, on one line.
fn plain_object(json: String) -> Option<Box<RawValue>> {
    let value = RawValue::from_string(json)
        .ok()
        .filter(|value| value.get().starts_with('{'))?;
    if !value.get().contains(['\n', '\r', '\t']) {
        return Some(value);
    }
    // In valid JSON these stand between tokens only; inside a string they would be escapes.
    RawValue::from_string(value.get().replace(['\n', '\r', '\t'], " ")).ok()
}

fn from_failure(failure: Failure) -> Refusal {
    Refusal {
        field: Some(failure.field).filter(|field| !field.is_empty()),
        ..Refusal::new(&failure.code, failure.message, failure.next)
    }
}

fn unexplained() -> Refusal {
    Refusal::new(
        refusal::DAEMON_FAULT,
        "The request ended without success, and sandboxd did not say why.",
        "Ask the operator to look up this request_id in the audit.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn json(result: &ToolResult) -> Value {
        serde_json::to_value(result).unwrap()
    }

    #[test]
    fn a_result_goes_out_as_the_daemon_wrote_it_on_one_line() {
        let result = ToolResult::finished(Finished {
            request_id: "r".to_owned(),
            outcome: Outcome::Succeeded.into(),
            structured_json: "{\n\t\"n\": 123456789012345678901234567890,\r\n\"t\": \"a\\nb\"}"
                .to_owned(),
            text: "one\ntwo \u{202e}".to_owned(),
            failure: None,
        });
        let line = serde_json::to_string(&result).unwrap();
        assert!(!line.contains('\n'), "{line}");
        assert!(line.contains("123456789012345678901234567890"), "{line}");
        assert!(line.contains(r"one\ntwo \\u{202e}"), "{line}");
        assert!(
            !line.contains("isError") && !line.contains("resultType"),
            "{line}"
        );
    }

    #[test]
    fn a_failure_says_code_next_field_and_request_in_text_and_structure() {
        let result = json(&ToolResult::finished(Finished {
            request_id: "r-1".to_owned(),
            outcome: Outcome::Denied.into(),
            failure: Some(Failure {
                code: "POLICY_DENIED".to_owned(),
                message: "No rule allows it.".to_owned(),
                next: "Ask for another namespace.".to_owned(),
                field: "namespace".to_owned(),
            }),
            ..Finished::default()
        }));
        assert_eq!(result["isError"], true);
        assert_eq!(
            result["content"][0]["text"],
            "POLICY_DENIED: No rule allows it.\nNext: Ask for another namespace.\nField: namespace\nrequest_id: r-1"
        );
        assert_eq!(
            result["structuredContent"],
            json!({
                "outcome": "denied", "request_id": "r-1", "code": "POLICY_DENIED",
                "message": "No rule allows it.", "next": "Ask for another namespace.",
                "field": "namespace",
            })
        );
    }

    #[test]
    fn a_refusal_names_a_request_only_if_there_is_one() {
        let mut refusal = Refusal::new("POLICY_DENIED", "No.", "Ask.");
        let result = json(&ToolResult::refused(&refusal));
        assert_eq!(result["structuredContent"].get("request_id"), None);
        refusal.request_id = Some("r-2".to_owned());
        let result = json(&ToolResult::refused(&refusal));
        assert_eq!(result["structuredContent"]["request_id"], "r-2");
        assert_eq!(result["structuredContent"]["outcome"], "refused");
    }

    #[test]
    fn a_success_without_an_object_is_the_daemons_fault_and_not_a_success() {
        for structured_json in ["", "[1]", "{", "null"] {
            let result = json(&ToolResult::finished(Finished {
                request_id: "r".to_owned(),
                outcome: Outcome::Succeeded.into(),
                structured_json: structured_json.to_owned(),
                ..Finished::default()
            }));
            assert_eq!(result["isError"], true, "{structured_json}");
            assert_eq!(result["structuredContent"]["code"], "DAEMON_FAULT");
        }
    }

    #[test]
    fn an_unknown_outcome_is_never_a_success() {
        let result = json(&ToolResult::finished(Finished {
            outcome: 99,
            ..Finished::default()
        }));
        assert_eq!(result["isError"], true);
        assert_eq!(result["structuredContent"]["outcome"], "unknown");
    }
}
