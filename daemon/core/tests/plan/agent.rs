//! What an agent may learn of a plan: nothing that could be a value.

use super::*;
use serde_json::json;

#[test]
fn an_agent_sees_actions_reasons_and_names_of_the_schema() {
    let view = facts("change").for_agent();
    let label = view
        .changes
        .iter()
        .find(|c| c.address == "kubernetes_deployment.label")
        .unwrap();
    assert_eq!(label.action, "replace");
    assert_eq!(
        label.reason.as_deref(),
        Some("an attribute changed that cannot be changed in place")
    );
    assert_eq!(label.replace_paths, ["spec.selector.match_labels"]);
    assert!(
        label
            .attributes
            .contains(&"spec.selector.match_labels".to_owned())
    );
}

#[test]
fn keys_names_and_values_stay_with_the_approver() {
    let mut plan = json("change");
    let changed = entry(&mut plan, "kubernetes_config_map.changed");
    changed["address"] = json!("kubernetes_config_map.changed[\"canary-key\"]");
    changed["index"] = json!("canary-key");
    for side in ["before", "after"] {
        changed["change"][side]["metadata"][0]["name"] = json!("canary-name");
        changed["change"][side]["id"] = json!("demo-app/canary-name");
    }
    changed["change"]["after"]["data"] = json!({"canary-word": "canary-value"});
    let facts = read(&plan).unwrap();
    assert!(
        serde_json::to_string(&facts)
            .unwrap()
            .contains("canary-word"),
        "the approver sees it"
    );
    let view = serde_json::to_string(&facts.for_agent()).unwrap();
    assert!(!view.contains("canary-"), "{view}");
    assert!(view.contains("kubernetes_config_map.changed[*]"), "{view}");
}

/// Refusals reach the agent.
#[test]
fn a_refusal_repeats_no_value() {
    type Edit = fn(&mut Value, &str);
    let canary = "canary-word";
    let edits: [Edit; 7] = [
        |e, canary| e["change"]["after"]["metadata"][0]["namespace"] = json!(canary),
        |e, canary| e["change"]["after"]["metadata"][0]["name"] = json!(format!("{canary}_")),
        |e, canary| e["change"]["after"]["id"] = json!(canary),
        |e, canary| {
            e["change"]["after_unknown"]["spec"] = json!([{"node_selector": {canary: true}}]);
        },
        |e, canary| {
            e["type"] = json!("kubernetes_manifest");
            e["change"]["after"] = json!({"manifest": {"apiVersion": canary, "kind": canary,
                "metadata": {"name": "x", "namespace": "demo-app"}}});
        },
        |e, canary| e["change"]["importing"] = json!({"id": canary}),
        |e, canary| e["change"]["after"] = json!(canary),
    ];
    for (index, edit) in edits.iter().enumerate() {
        let mut plan = json("create");
        let map = entry(&mut plan, "kubernetes_deployment.plain");
        map["address"] = json!(format!("kubernetes_deployment.plain[\"{canary}\"]"));
        edit(map, canary);
        let refusal = read(&plan).unwrap_err().to_string();
        assert!(!refusal.contains(canary), "{index}: {refusal}");
        assert!(
            refusal.contains("kubernetes_deployment.plain[*]"),
            "{index}: {refusal}"
        );
    }
}
