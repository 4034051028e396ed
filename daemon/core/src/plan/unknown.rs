//! Values that are known only after apply: they could change after the approval, so most are refused.

use std::collections::HashSet;

use serde_json::Value;

use super::document::{Actions, ResourceChange};
use super::object::{Subject, refuse};
use super::path::{self, Step};
use super::refusal::PlanRefusal;
use super::source::{self, Origin, Source};

/// What may be left open.
#[derive(Debug, Default)]
pub(super) struct Open {
    /// Attributes that the configuration sets to something that is known only after apply.
    pub(super) late: Vec<String>,
    /// What the provider fills in, so a write must not have it: JSON pointers into the object.
    pub(super) absent: Vec<String>,
}

/// Attributes that the provider fills in from the API server's answer, and that decide nothing about what
/// runs: they may stay open wherever they stand.
const HARMLESS: &[&str] = &[
    "active_deadline_seconds",
    "cluster_ip",
    "cluster_ips",
    "cpu",
    "default_secret_name",
    "external_traffic_policy",
    "generation",
    "health_check_node_port",
    "hostname",
    "id",
    "image_pull_policy",
    "internal_traffic_policy",
    "ip_families",
    "ip_family_policy",
    "load_balancer_ingress",
    "memory",
    "node_port",
    "pod_management_policy",
    "resource_version",
    "revision_history_limit",
    "self_link",
    "service_port",
    "session_affinity_config",
    "status",
    "storage_class_name",
    "target_cpu_utilization_percentage",
    "target_port",
    "termination_message_policy",
    "uid",
    "volume_name",
];

/// The same, as long as the configuration does not mention them.
const FILLED_IN: &[&str] = &[
    "default_request",
    "labels",
    "name", // of a pod template, which the API server does not read
    "namespace",
    "node_affinity",
    "selector",
];

/// What the provider leaves out of its request when the configuration leaves it out. A `dynamic` block whose
/// `for_each` is not known yet looks just like that in a plan. So the request itself is held to it.
const LEFT_OUT: &[&str] = &[
    "image_pull_secrets",
    "limits",
    "node_name",
    "requests",
    "resources",
    "rolling_update",
    "scheduler_name",
    "service_account_name",
    "strategy",
    "volume",
    "volume_mount",
];

/// What the provider decides alone wherever it stands: no configuration can set it.
/// `tests/plans/schema_computed.txt` has those of the provider's own schema.
const PROVIDERS_OWN: &[&str] = &[
    "certificate",
    "default_secret_name",
    "generation",
    "load_balancer_ingress",
    "resource_version",
    "self_link",
    "uid",
];

/// Finds the values that are not known yet, and refuses those that decide what runs.
///
/// # Errors
/// [`PlanRefusal::Resource`] with the first one.
pub(super) fn check(
    of: &ResourceChange,
    subject: Subject,
    source: &Source<'_>,
) -> Result<Open, PlanRefusal> {
    let mut open = Open::default();
    if subject == Subject::Lifeless {
        return Ok(open);
    }
    if let Some(attribute) = source.write_only(of) {
        return Err(refuse(
            of,
            attribute,
            "is write-only: its value is in no plan, so nobody could review it",
            "use the attribute without _wo",
        ));
    }
    for place in source::unknown_places(&of.change.after_unknown) {
        let origin = source.origin(of, &place, &of.change.after);
        if free(subject, &place) {
            if origin != Origin::Provider {
                open.late.push(path::written(&place));
            }
            continue;
        }
        let last = match place.iter().rev().find(|step| matches!(step, Step::Key(_))) {
            Some(Step::Key(key)) => key.as_str(),
            Some(Step::Index(_) | Step::Element) | None => "",
        };
        let is = |list: &[&str]| list.contains(&last);
        let whole = matches!(place.last(), Some(Step::Key(_)));
        match origin {
            Origin::Provider | Origin::Unclear if is(HARMLESS) => {}
            Origin::Provider if is(FILLED_IN) => {}
            Origin::Provider | Origin::Variable
                if is(LEFT_OUT) && whole && !stood_before(of, &place) =>
            {
                let pointer = source::pointer(&place);
                // A DaemonSet's is called otherwise, and no other kind has one of that name beside it.
                if let Some(rest) = pointer.strip_prefix("/spec/strategy") {
                    open.absent.push(format!("/spec/updateStrategy{rest}"));
                }
                open.absent.push(pointer);
            }
            Origin::Variable if is(HARMLESS) => {}
            Origin::Provider | Origin::Unclear => {
                return Err(refuse(
                    of,
                    path::of_schema(&place),
                    "is known only after apply, and the plan does not say what sets it",
                    "write its block out instead of making it with \"dynamic\", or set it",
                ));
            }
            Origin::Variable | Origin::Configuration => {
                return Err(refuse(
                    of,
                    path::of_schema(&place),
                    "is known only after apply, so it could change after the approval",
                    "write the value out, or apply what it comes from first",
                ));
            }
        }
    }
    Ok(open)
}

/// The values that are not known yet and that nobody chooses, as [`path::written`]: the source does not set
/// them, and nothing that was set goes with them.
pub(super) fn filled_in(
    of: &ResourceChange,
    subject: Subject,
    source: &Source<'_>,
) -> HashSet<String> {
    let mut found = source::unknown_places(&of.change.after_unknown);
    found.retain(|place| {
        let own = is_providers_own(of, subject, place);
        let by_provider = match source.origin(of, place, &of.change.after) {
            Origin::Provider => true,
            Origin::Unclear => own,
            Origin::Variable | Origin::Configuration => false,
        };
        by_provider && (own || !stands(&of.change.before, place))
    });
    found.iter().map(|place| path::written(place)).collect()
}

fn is_providers_own(of: &ResourceChange, subject: Subject, place: &[Step]) -> bool {
    let last = match place {
        [.., Step::Key(key)] => key.as_str(),
        [] | [.., Step::Index(_) | Step::Element] => return false,
    };
    let whole = place.len() == 1;
    match subject {
        Subject::Kind(_) => {
            (whole && last == "id")
                || (PROVIDERS_OWN.contains(&last) && path::free_from(place).is_none())
        }
        // Its output is its input once more.
        Subject::Lifeless => {
            whole && (last == "id" || (last == "output" && of.type_name == "terraform_data"))
        }
        Subject::Manifest => false,
    }
}

/// What a `ConfigMap` or a `Secret` holds, and what an object says of itself: it may come late, and is shown as
/// such.
fn free(subject: Subject, place: &[Step]) -> bool {
    let key = |index: usize| match place.get(index) {
        Some(Step::Key(key)) => Some(key.as_str()),
        Some(Step::Index(_) | Step::Element) | None => None,
    };
    let own = |word: Option<&str>| matches!(word, Some("labels" | "annotations"));
    match subject {
        Subject::Lifeless => true,
        Subject::Kind(kind) => {
            let holds = matches!(kind.name, "ConfigMap" | "Secret");
            (holds && matches!(key(0), Some("data" | "binary_data")))
                || (key(0) == Some("metadata") && own(key(2)))
        }
        Subject::Manifest => key(0) == Some("object"), // what the API server makes of the manifest
    }
}

/// The provider keeps what stood there before, so on an update nothing that was there comes from it.
fn stood_before(of: &ResourceChange, place: &[Step]) -> bool {
    of.change.actions == Actions::Update && stands(&of.change.before, place)
}

/// Whether something stands there. To the provider an empty text or list is nothing.
fn stands(before: &Value, place: &[Step]) -> bool {
    source::at(before, place).is_some_and(|value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_provider_decides_alone_is_as_its_schema_has_it() {
        let schema: Vec<&str> = include_str!("../../tests/plans/schema_computed.txt")
            .lines()
            .collect();
        assert_eq!(PROVIDERS_OWN, schema);
    }
}
