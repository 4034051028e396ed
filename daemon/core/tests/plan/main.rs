//! What is read from plans that a real Terraform made with a real provider (`tests/plans/make` made them), and
//! from such plans with one thing changed.

#![cfg(test)]

mod agent;
mod facts;
mod refusals;
mod writes;

use sandbox_core::plan::{
    Action, Attribute, Change, MAX_CHANGES, MAX_PLAN_BYTES, PlanFacts, PlanGuard, PlanRefusal,
};
use serde_json::Value;

/// A root for objects in `demo-app`, of the kinds that the plans have.
fn guard() -> PlanGuard {
    let kinds = [
        "configmaps",
        "deployments.apps",
        "persistentvolumeclaims",
        "replicationcontrollers",
        "secrets",
        "serviceaccounts",
        "widgets.example.com",
        "roles.rbac.authorization.k8s.io", // listed in vain
    ];
    PlanGuard {
        namespaces: ["demo-app".parse().unwrap()].into(),
        kinds: kinds.iter().map(|kind| kind.parse().unwrap()).collect(),
        max_changes: MAX_CHANGES,
        max_bytes: MAX_PLAN_BYTES,
    }
}

fn plan(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/plans/{name}.json", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(path).unwrap()
}

fn json(name: &str) -> Value {
    serde_json::from_slice(&plan(name)).unwrap()
}

fn facts(name: &str) -> PlanFacts {
    PlanFacts::read(&plan(name), &guard()).unwrap()
}

fn refusal(name: &str) -> String {
    PlanFacts::read(&plan(name), &guard())
        .unwrap_err()
        .to_string()
}

/// What is read of a plan with one thing changed.
fn read(plan: &Value) -> Result<PlanFacts, PlanRefusal> {
    PlanFacts::read(&serde_json::to_vec(plan).unwrap(), &guard())
}

/// The entry of one address.
fn entry<'a>(plan: &'a mut Value, address: &str) -> &'a mut Value {
    let entries = plan["resource_changes"].as_array_mut().unwrap();
    entries
        .iter_mut()
        .find(|entry| entry["address"] == address)
        .unwrap()
}

fn change<'a>(facts: &'a PlanFacts, address: &str) -> &'a Change {
    facts
        .changes
        .iter()
        .find(|change| change.address == address)
        .unwrap()
}

fn attribute<'a>(change: &'a Change, path: &str) -> &'a Attribute {
    change
        .attributes
        .iter()
        .find(|attribute| attribute.path == path)
        .unwrap()
}

/// Rank, kind and object of each danger.
fn dangers(facts: &PlanFacts) -> Vec<(u8, &str, String)> {
    facts
        .dangers
        .iter()
        .map(|d| {
            let object = d
                .object
                .as_ref()
                .map_or_else(|| d.address.clone(), ToString::to_string);
            (d.rank, d.kind.as_str(), object)
        })
        .collect()
}

const REPLACE: Action = Action::Replace {
    create_before_destroy: false,
};
