//! The daemon's actions as MCP tools.
//!
//! A client refuses a whole list for one bad tool, so an action that MCP cannot carry is left out. An
//! output schema is opened just far enough for what the bridge itself says (`running`, refusals,
//! failures): whatever a call comes to fits the schema the client was shown.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use sandbox_proto::agent::v1::Action;
use serde_json::{Value, json};

/// Strings the bridge may set in a structured result.
const OWN_STRINGS: [&str; 6] = ["outcome", "request_id", "code", "message", "next", "field"];

/// Outcomes the bridge may tell.
const OWN_OUTCOMES: [&str; 6] = [
    "running",
    "refused",
    "failed",
    "denied",
    "cancelled",
    "unknown",
];

/// The tools for a list of actions, in its order, and what is wrong with those left out.
pub(crate) fn from_actions(actions: Vec<Action>) -> (Vec<Tool>, Vec<String>) {
    let mut faults = Vec::new();
    let tools = actions
        .into_iter()
        .filter_map(|action| {
            let name = action.name.clone();
            from_action(action, &mut faults)
                .map_err(|why| faults.push(format!("tool {name:?} is left out: {why}")))
                .ok()
        })
        .collect();
    (tools, faults)
}

fn from_action(action: Action, faults: &mut Vec<String>) -> Result<Tool, &'static str> {
    if !is_tool_name(&action.name) {
        return Err("its name is not one MCP allows");
    }
    let input = object_schema(&action.input_schema_json)
        .ok_or("its input schema is not the schema of an object")?;
    let output = object_schema(&action.output_schema_json).and_then(open);
    if output.is_none() {
        faults.push(format!(
            "tool {:?} has no output schema that failures fit",
            action.name
        ));
    }
    let annotations = ToolAnnotations::new()
        .read_only(action.read_only)
        .destructive(action.destructive)
        .idempotent(action.idempotent)
        .open_world(true);
    let mut tool =
        Tool::new(action.name, action.description, Arc::new(input)).with_annotations(annotations);
    tool.title = Some(action.title).filter(|title| !title.is_empty());
    tool.output_schema = output.map(Arc::new);
    Ok(tool)
}

/// MCP 2025-11-25, "Tool Names".
fn is_tool_name(name: &str) -> bool {
    (1..=128).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
}

fn object_schema(json: &str) -> Option<JsonObject> {
    let schema: JsonObject = serde_json::from_str(json).ok()?;
    (schema.get("type")? == "object").then_some(schema)
}

/// The schema with room for what the bridge says; none if it uses our words for something else.
fn open(mut schema: JsonObject) -> Option<JsonObject> {
    let properties = schema
        .entry("properties")
        .or_insert_with(|| json!({}))
        .as_object_mut()?;
    for name in OWN_STRINGS {
        let property = properties
            .entry(name)
            .or_insert_with(|| json!({"type": "string"}));
        if property.get("type")? != "string" {
            return None;
        }
    }
    if let Some(outcomes) = properties["outcome"]
        .get_mut("enum")
        .and_then(Value::as_array_mut)
    {
        for outcome in OWN_OUTCOMES {
            if !outcomes.iter().any(|known| known == outcome) {
                outcomes.push(outcome.into());
            }
        }
    }
    // A call that was refused has no request and no results.
    schema.insert("required".to_owned(), json!(["outcome"]));
    Some(schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action(name: &str, input: &str, output: &str) -> Action {
        Action {
            name: name.to_owned(),
            title: "Title".to_owned(),
            description: "Does it.".to_owned(),
            input_schema_json: input.to_owned(),
            output_schema_json: output.to_owned(),
            read_only: true,
            idempotent: true,
            ..Action::default()
        }
    }

    #[test]
    fn an_action_becomes_a_tool_with_all_it_says() {
        let (tools, faults) = from_actions(vec![action(
            "k8s_get_pod_status",
            r#"{"type":"object","properties":{"namespace":{"type":"string"}},"required":["namespace"],"additionalProperties":false}"#,
            r#"{"type":"object"}"#,
        )]);
        assert_eq!(faults, Vec::<String>::new());
        let tool = serde_json::to_value(&tools[0]).unwrap();
        assert_eq!(tool["name"], "k8s_get_pod_status");
        assert_eq!(tool["title"], "Title");
        assert_eq!(tool["description"], "Does it.");
        assert_eq!(tool["inputSchema"]["required"], json!(["namespace"]));
        assert_eq!(
            tool["annotations"],
            json!({"readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": true})
        );
    }

    #[test]
    fn an_output_schema_has_room_for_every_outcome_and_keeps_what_it_says() {
        let (tools, _) = from_actions(vec![action(
            "a",
            r#"{"type":"object"}"#,
            r#"{"type":"object","additionalProperties":false,"required":["outcome","request_id","pods"],
                "properties":{"outcome":{"type":"string","enum":["finished","running"]},
                              "request_id":{"type":"string"},"pods":{"type":"array"},
                              "message":{"type":"string","description":"kept"}}}"#,
        )]);
        let schema = tools[0].output_schema.as_ref().unwrap();
        assert_eq!(schema["required"], json!(["outcome"]));
        let properties = &schema["properties"];
        assert_eq!(
            properties["outcome"]["enum"],
            json!([
                "finished",
                "running",
                "refused",
                "failed",
                "denied",
                "cancelled",
                "unknown"
            ])
        );
        assert_eq!(properties["message"]["description"], "kept");
        for name in OWN_STRINGS {
            assert_eq!(properties[name]["type"], "string", "{name}");
        }
    }

    #[test]
    fn one_bad_action_does_not_spoil_the_list() {
        let object = r#"{"type":"object"}"#;
        let (tools, faults) = from_actions(vec![
            action("good", object, object),
            action("bad name", object, object),
            action("bad_input", r#"{"type":"string"}"#, object),
            action("no_json", "{", object),
            action(
                "odd_output",
                object,
                r#"{"type":"object","properties":{"code":{"type":"integer"}}}"#,
            ),
        ]);
        let names: Vec<_> = tools.iter().map(|tool| tool.name.as_ref()).collect();
        assert_eq!(names, ["good", "odd_output"]);
        assert_eq!(tools[1].output_schema, None);
        assert_eq!(faults.len(), 4, "{faults:?}");
    }
}
