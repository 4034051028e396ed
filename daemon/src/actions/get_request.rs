//! `get_request`: where one of the caller's own requests stands, and its result while that is kept.

use sandbox_core::ids::RequestId;
use sandbox_core::parameters::{ActionName, MAX_WAIT_SECONDS};
use serde_json::json;

use super::{Description, Tier};
use crate::request::{Report, State};
use crate::store::StoredApproval;

pub(super) fn description() -> Description {
    Description {
        name: ActionName::GetRequest,
        title: "State of a request",
        description: "Says where one of your own requests stands: running, succeeded, failed, denied, cancelled \
             or unknown, with its result for ten minutes after its end. Use it when another tool answered \
             running. Read-only.",
        input: json!({
            "type": "object",
            "properties": {
                "request_id": {"type": "string", "description": "as another tool returned it"},
                "wait_seconds": {"type": "integer", "minimum": 0, "maximum": MAX_WAIT_SECONDS,
                    "description": "wait this long for the end"}
            },
            "required": ["request_id"],
            "additionalProperties": false
        }),
        output: json!({
            "type": "object",
            "properties": {
                "outcome": {"type": "string"},
                "request_id": {"type": "string"},
                "action": {"type": "string"},
                "code": {"type": "string", "description": "why it did not succeed"},
                "message": {"type": "string"},
                "next": {"type": "string", "description": "what to do next"},
                "approval_state": {"type": "string", "description": "pending, granted, consumed, denied, expired or cancelled"},
                "result_json": {"type": "string", "description": "structured result of the action, as JSON"}
            },
            "required": ["outcome", "request_id"]
        }),
        tier: Tier::Low,
    }
}

/// Says where a request stands.
#[must_use]
///
/// `approval` is the one it opened, as that stands now.
pub fn report(
    id: RequestId,
    action: &str,
    state: &State,
    approval: Option<&StoredApproval>,
) -> Report {
    let ended = match state {
        State::Running(phase) => {
            let message = format!("Request {id} ({action}) is running: {}.", phase.name);
            return Report {
                structured: json!({
                    "outcome": "running", "request_id": id, "action": action, "message": message,
                    "next": "Call get_request again, with wait_seconds.",
                }),
                text: format!("{message} Call get_request again, with wait_seconds."),
            };
        }
        State::Ended(ended) => ended,
    };
    let outcome = ended.outcome;
    match &ended.result {
        Ok(result) => {
            let mut structured = json!({
                "outcome": outcome, "request_id": id, "action": action,
                "message": format!("Request {id} ({action}) {outcome}."),
                "result_json": result.structured.to_string(),
            });
            let mut text = format!("Request {id} ({action}) {outcome}.\n{}", result.text);
            if let Some(approval) = approval {
                let (now, next) = super::terraform::standing(approval);
                structured["approval_state"] = now.into();
                structured["next"] = next.clone().into();
                text = format!(
                    "{text}\nNow approval {} is {now}. {next}",
                    approval.approval.terms().id
                );
            }
            Report { structured, text }
        }
        Err(failure) => Report {
            structured: json!({
                "outcome": outcome, "request_id": id, "action": action, "code": failure.code.as_str(),
                "message": failure.message, "next": failure.code.next(),
            }),
            text: format!(
                "Request {id} ({action}): {outcome}. {} {}",
                failure.message,
                failure.code.next()
            ),
        },
    }
}
