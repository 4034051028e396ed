//! `terraform_plan` and `terraform_apply` as agents see them. Values never reach an agent: names alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sandbox_core::approval::{State as Approved, summary};
use sandbox_core::ids::{ApprovalId, RequestId};
use sandbox_core::names::RootName;
use sandbox_core::parameters::ActionName;
use sandbox_core::plan::{AgentChange, PlanFacts};
use serde_json::{Map, Value, json};

use super::text::{self, count, visible, visible_json};
use super::{Description, Tier};
use crate::approve::COOL_DOWN;
use crate::request::Report;
use crate::store::StoredApproval;

/// The most changes an agent is told of; humans see all.
const TOLD_CHANGES: usize = 60;

pub(super) fn plan_description() -> Description {
    Description {
        name: ActionName::TerraformPlan,
        title: "Terraform plan",
        description: "Says what `terraform apply` would change in a configured root: each resource, what happens to \
             it, why it would be replaced, and the names of changed attributes (never values). Changes nothing; \
             keeps the plan for terraform_apply.",
        input: json!({
            "type": "object",
            "properties": {
                "working_dir": {"type": "string", "description": "root's name, e.g. demo, or its folder"},
                "reason": {"type": "string", "description": "why, for the people who approve"}
            },
            "required": ["working_dir"],
            "additionalProperties": false
        }),
        output: output(&json!({
            "changes": {"type": "array", "items": {"type": "object", "properties": {
                "address": {"type": "string"},
                "action": {"type": "string"},
                "reason": {"type": "string"},
                "attributes": {"type": "string", "description": "names of what changes"}
            }}},
            "dangers": {"type": "string", "description": "what people will be warned of"},
            "left_out": {"type": "string"}
        })),
        tier: Tier::Low,
    }
}

pub(super) fn apply_description() -> Description {
    Description {
        name: ActionName::TerraformApply,
        title: "Terraform apply",
        description: "Without approval_id: asks people to approve the plan of a root, applies nothing and returns an \
             approval_id. With it, once they did: applies exactly that plan, once. Poll get_request while it runs.",
        input: json!({
            "type": "object",
            "properties": {
                "working_dir": {"type": "string", "description": "root's name, e.g. demo, or its folder"},
                "approval_id": {"type": "string", "description": "of an approval that was granted"},
                "withdraw": {"type": "boolean", "description": "take approval_id back instead"},
                "reason": {"type": "string", "description": "why, for the people who approve"}
            },
            "required": ["working_dir"],
            "additionalProperties": false
        }),
        output: output(&json!({
            "approval_id": {"type": "string"},
            "approval_state": {"type": "string"},
            "expires_at": {"type": "string"},
            "next": {"type": "string"},
            "outputs_json": {"type": "string", "description": "outputs you may see"},
            "left_out": {"type": "string"}
        })),
        tier: Tier::High,
    }
}

fn output(own: &Value) -> Value {
    let mut properties = json!({
        "outcome": {"type": "string", "description": "finished, approval_pending, nothing_to_do, or running: then ask get_request"},
        "request_id": {"type": "string"},
        "root": {"type": "string"},
        "summary": {"type": "string"},
        "last_apply": {"type": "string"}
    });
    if let (Some(all), Some(own)) = (properties.as_object_mut(), own.as_object()) {
        all.extend(own.clone());
    }
    json!({"type": "object", "properties": properties, "required": ["outcome", "request_id"]})
}

/// What a plan would do, for its agent: no value, and no word that could be one. `age` is that of a copy of
/// the state, where it lives elsewhere.
pub(crate) fn planned(
    request: RequestId,
    root: &RootName,
    facts: &PlanFacts,
    age: Option<Duration>,
) -> Report {
    let view = facts.for_agent();
    let mut summary = summary(facts);
    if let Some(old) = age {
        let old = text::age(i64::try_from(old.as_secs()).unwrap_or(i64::MAX));
        summary = format!("{summary} (against a copy of the state that is {old} old)");
    }
    let told = &view.changes[..view.changes.len().min(TOLD_CHANGES)];
    let mut lines = vec![format!("Root {root}: {summary}.")];
    // Keys are left out of addresses, so that many lines are one.
    let alike = told.iter().map(line).collect::<Vec<_>>();
    lines.extend(alike.chunk_by(PartialEq::eq).map(|same| match same {
        [one] => one.clone(),
        many => format!("{} ({} of them)", many[0], many.len()),
    }));
    let mut structured = json!({
        "outcome": if facts.is_empty() { "nothing_to_do" } else { "finished" },
        "request_id": request,
        "root": root,
        "summary": summary,
        "changes": told.iter().map(object).collect::<Vec<_>>(),
    });
    let mut notes = Vec::new();
    if !facts.dangers.is_empty() {
        let kinds: BTreeSet<&str> = facts.dangers.iter().map(|d| d.kind.as_str()).collect();
        let kinds: Vec<&str> = kinds.into_iter().collect();
        let dangers = kinds.join(", ");
        structured["dangers"] = dangers.as_str().into();
        notes.push(format!("Dangers: {dangers}."));
    }
    if !view.outputs.is_empty() {
        let outputs: Vec<String> = view.outputs.iter().map(|name| visible(name)).collect();
        notes.push(format!("Outputs that change: {}.", outputs.join(", ")));
    }
    if view.drifted > 0 {
        notes.push(format!(
            "{} changed outside of Terraform.",
            count(view.drifted as u64, "resource")
        ));
    }
    if view.changes.len() > told.len() {
        let left_out = format!(
            "{} more are not listed here; people see all of them.",
            count((view.changes.len() - told.len()) as u64, "change")
        );
        structured["left_out"] = left_out.as_str().into();
        notes.push(left_out);
    }
    lines.extend(notes);
    Report {
        structured,
        text: lines.join("\n"),
    }
}

/// There is nothing to approve.
pub(crate) fn nothing_to_do(request: RequestId, root: &RootName) -> Report {
    let summary = "Nothing to do: what is there is what the configuration says.";
    Report {
        structured: json!({
            "outcome": "nothing_to_do", "request_id": request, "root": root, "summary": summary,
        }),
        text: format!("Root {root}: {summary}"),
    }
}

/// Where an approval stands, and what its owner can do next.
pub(super) fn standing(approval: &StoredApproval) -> (&'static str, String) {
    let id = approval.approval.terms().id;
    let state = approval.approval.state();
    let next = match state {
        Approved::Pending => format!(
            "A person must decide: approver show {id}, then approver grant {id}, as an approver's account that \
             logged in by itself, by ssh or at a console; sudo from the agent's login does not count. Ask \
             get_request with this request_id; once it is granted, call terraform_apply with approval_id {id}."
        ),
        Approved::Granted => format!("Call terraform_apply with approval_id {id}."),
        Approved::Consumed { by, .. } => {
            format!("It was used by request {by}: ask get_request for that.")
        }
        Approved::Denied { .. } => "A person said no; ask them before you try again.".to_owned(),
        Approved::Expired { .. } | Approved::Cancelled { .. } => {
            "Call terraform_apply without approval_id to ask again.".to_owned()
        }
    };
    (state.as_str(), next)
}

/// An approval waits for people, or for its use.
pub(crate) fn pending(request: RequestId, root: &RootName, approval: &StoredApproval) -> Report {
    let terms = approval.approval.terms();
    let id = terms.id;
    let (state, next) = standing(approval);
    Report {
        structured: json!({
            "outcome": "approval_pending", "request_id": request, "root": root,
            "summary": approval.summary, "approval_id": id, "approval_state": state,
            "expires_at": terms.expires.to_string(), "next": next,
        }),
        text: format!(
            "Root {root}: {}. Nothing was applied. Approval {id} is {state} until {}.\n{next}",
            approval.summary, terms.expires
        ),
    }
}

/// Its owner took an approval back.
pub(crate) fn withdrawn(request: RequestId, root: &RootName, approval: ApprovalId) -> Report {
    let summary = format!(
        "It was taken back; nothing was applied. Another one of this root can be asked for in {} s.",
        COOL_DOWN.as_secs()
    );
    Report {
        structured: json!({
            "outcome": "finished", "request_id": request, "root": root, "summary": summary,
            "approval_id": approval, "approval_state": "cancelled",
        }),
        text: format!("Root {root}, approval {approval}: {summary}"),
    }
}

/// What a root lets its agent see after an apply.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    /// Values, by name.
    pub(crate) values: BTreeMap<String, Value>,
    /// The others, each with why it is not there.
    pub(crate) left_out: Vec<String>,
}

/// The approved plan was applied.
pub(crate) fn applied(
    request: RequestId,
    root: &RootName,
    approval: ApprovalId,
    progress: &str,
    outputs: Option<&Outputs>,
) -> Report {
    let summary = if progress.is_empty() {
        "The approved plan was applied."
    } else {
        progress
    };
    let mut structured = json!({
        "outcome": "finished", "request_id": request, "root": root, "summary": summary,
        "approval_id": approval, "approval_state": "consumed",
    });
    let mut lines = vec![format!("Root {root}, approval {approval}: {summary}")];
    if let Some(Outputs { values, left_out }) = outputs {
        structured["outputs_json"] = visible_json(&json!(values)).into();
        let line = |(name, value)| format!("Output {name} = {}", visible_json(value));
        lines.extend(values.iter().map(line));
        if !left_out.is_empty() {
            let left_out = format!("Outputs that are not told: {}.", left_out.join(", "));
            structured["left_out"] = left_out.as_str().into();
            lines.push(left_out);
        }
    }
    Report {
        structured,
        text: lines.join("\n"),
    }
}

/// With a word on the root's last apply, which did not succeed.
pub(crate) fn marked(report: Report, mark: Option<&str>) -> Report {
    let Some(mark) = mark else { return report };
    let Report {
        mut structured,
        text,
    } = report;
    structured["last_apply"] = mark.into();
    Report {
        structured,
        text: format!("{text}\n{mark}"),
    }
}

fn line(change: &AgentChange) -> String {
    let mut text = format!("{} {}", change.action, visible(&change.address));
    if let Some(why) = why(change) {
        text = format!("{text}: {why}");
    }
    match attributes(change) {
        none if none.is_empty() => text,
        names => format!("{text} [{names}]"),
    }
}

/// Names of what changes. Of what comes or goes that would be all there is, and says nothing.
fn attributes(change: &AgentChange) -> String {
    match change.action {
        "create" | "delete" => String::new(),
        _ => visible(&change.attributes.join(", ")),
    }
}

fn object(change: &AgentChange) -> Value {
    let mut object = Map::new();
    let mut put = |name: &str, value: String| {
        if !value.is_empty() {
            object.insert(name.to_owned(), value.into());
        }
    };
    put("address", visible(&change.address));
    put("action", change.action.to_owned());
    put("reason", why(change).unwrap_or_default());
    put("attributes", attributes(change));
    object.into()
}

fn why(change: &AgentChange) -> Option<String> {
    if change.replace_paths.is_empty() {
        return change.reason.as_deref().map(visible);
    }
    Some(format!(
        "forced by {}",
        visible(&change.replace_paths.join(", "))
    ))
}
