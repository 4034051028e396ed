//! What the conditions of a configuration say: those that do not hold, and those nobody can tell yet.

use serde_json::Value;

use super::refusal::PlanRefusal;

/// A sentence for each condition that fails or is not known yet.
pub(super) fn sentences(checks: &Value) -> Result<Vec<String>, PlanRefusal> {
    let mut told = Vec::new();
    for check in checks.as_array().into_iter().flatten() {
        if status(check)? == "pass" {
            continue;
        }
        let instances = check.get("instances").and_then(Value::as_array);
        match instances.filter(|instances| !instances.is_empty()) {
            None => told.extend(sentence(check)?),
            Some(instances) => {
                for instance in instances {
                    told.extend(sentence(instance)?);
                }
            }
        }
    }
    Ok(told)
}

fn status(check: &Value) -> Result<&str, PlanRefusal> {
    let status = check.get("status").and_then(Value::as_str);
    status
        .filter(|status| matches!(*status, "pass" | "fail" | "error" | "unknown"))
        .ok_or_else(|| PlanRefusal::unknown("checks", "have a status that is not one of theirs"))
}

fn sentence(check: &Value) -> Result<Option<String>, PlanRefusal> {
    let name = check
        .pointer("/address/to_display")
        .and_then(Value::as_str)
        .ok_or_else(|| PlanRefusal::Unreadable("checks have one without an address".to_owned()))?;
    Ok(Some(match status(check)? {
        "pass" => return Ok(None),
        "unknown" => format!("{name} is known only after apply."),
        "error" => format!("{name} could not be worked out."),
        _ => {
            let problems = check.get("problems").and_then(Value::as_array);
            let messages: Vec<&str> = problems
                .into_iter()
                .flatten()
                .filter_map(|problem| problem.get("message").and_then(Value::as_str))
                .collect();
            if messages.is_empty() {
                format!("{name} does not hold.")
            } else {
                format!("{name} does not hold: {}", messages.join("; "))
            }
        }
    }))
}
