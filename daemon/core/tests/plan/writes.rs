//! What the proxy lets through while a plan is applied.

use super::*;
use serde_json::json;

fn writes(facts: &PlanFacts) -> Vec<(String, &str)> {
    facts
        .writes
        .iter()
        .map(|w| {
            let how = match (w.create, w.update, w.delete) {
                (true, false, false) => "create",
                (false, true, false) => "update",
                (false, false, true) => "delete",
                (true, false, true) => "create, delete",
                (false, true, true) => "update, delete",
                _ => "something else",
            };
            (w.object.to_string(), how)
        })
        .collect()
}

#[test]
fn each_object_may_be_written_as_planned_and_no_other() {
    assert_eq!(
        writes(&facts("change")),
        [
            ("ConfigMap/demo-app/changed".to_owned(), "update"),
            ("ConfigMap/demo-app/gone".to_owned(), "delete"),
            ("PersistentVolumeClaim/demo-app/disk".to_owned(), "delete"),
            ("Secret/demo-app/db".to_owned(), "update"),
            ("Deployment/demo-app/label".to_owned(), "create, delete"),
            ("Deployment/demo-app/zero".to_owned(), "update"),
        ]
    );
    assert_eq!(
        writes(&facts("rename")),
        [("ConfigMap/demo-app/web".to_owned(), "create, delete")]
    );
    for nothing in ["import", "outputs", "nothing", "reasons", "check"] {
        assert_eq!(writes(&facts(nothing)), [], "{nothing}");
    }
}

/// The provider fills these in when the source does not have them. A `dynamic` block that is not known yet
/// looks the same in the plan, so the request is held to it.
#[test]
fn what_the_source_leaves_out_the_request_must_leave_out() {
    let facts_of = |name| {
        let facts = facts(name);
        let web = facts
            .writes
            .iter()
            .find(|w| w.object.kind == "Deployment")
            .unwrap();
        web.absent.clone()
    };
    let plain = [
        "/spec/strategy",
        "/spec/template/spec/containers/0/resources",
        "/spec/template/spec/containers/0/volumeMounts",
        "/spec/template/spec/imagePullSecrets",
        "/spec/template/spec/nodeName",
        "/spec/template/spec/serviceAccountName",
        "/spec/template/spec/volumes",
        "/spec/updateStrategy",
    ];
    assert_eq!(
        facts_of("late_volumes"),
        plain,
        "its volumes hang from a value that is not known yet"
    );
    assert_eq!(
        facts_of("null_account"),
        plain,
        "its ServiceAccount is a variable that is null"
    );
    let create = facts("create");
    let strong = create
        .writes
        .iter()
        .find(|w| w.object.name == "strong")
        .unwrap();
    assert!(
        !strong
            .absent
            .iter()
            .any(|at| at.ends_with("/volumes") || at.ends_with("AccountName"))
    );
}

#[test]
fn a_replacement_under_another_name_deletes_one_and_makes_the_other() {
    let mut plan = json("change");
    let label = entry(&mut plan, "kubernetes_deployment.label");
    label["change"]["after"]["metadata"][0]["name"] = json!("renamed");
    let facts = read(&plan).unwrap();
    let writes = writes(&facts);
    assert!(writes.contains(&("Deployment/demo-app/label".to_owned(), "delete")));
    assert!(writes.contains(&("Deployment/demo-app/renamed".to_owned(), "create")));
    let why = &facts
        .dangers
        .iter()
        .find(|d| d.kind == "replaces")
        .unwrap()
        .why;
    assert!(why.contains("Deployment/demo-app/renamed is made"), "{why}");
}

#[test]
fn the_provider_patches_what_is_there_already_and_scales_before_it_deletes() {
    let of_type = |fixture: &str, address: &str, type_name: &str| {
        let mut plan = json(fixture);
        entry(&mut plan, address)["type"] = json!(type_name);
        plan
    };
    let default = of_type(
        "create",
        "kubernetes_config_map.plain",
        "kubernetes_default_service_account",
    );
    let facts = read(&default).unwrap();
    assert!(writes(&facts).contains(&("ServiceAccount/demo-app/plain".to_owned(), "update")));
    let scaled = of_type(
        "moves",
        "kubernetes_config_map.gone",
        "kubernetes_replication_controller",
    );
    let facts = read(&scaled).unwrap();
    assert_eq!(
        writes(&facts),
        [(
            "ReplicationController/demo-app/gone".to_owned(),
            "update, delete"
        )]
    );
}

#[test]
fn a_manifest_is_mapped_by_its_own_kind() {
    let mut plan = json("create");
    let map = entry(&mut plan, "kubernetes_config_map.plain");
    map["type"] = json!("kubernetes_manifest");
    map["change"]["after"] = json!({"manifest": {
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "w", "namespace": "demo-app"}, "spec": {"size": 1},
    }});
    map["change"]["after_unknown"] = json!({"object": true});
    let facts = read(&plan).unwrap();
    let widget = facts
        .writes
        .iter()
        .find(|w| w.object.kind == "Widget")
        .unwrap();
    assert_eq!(
        (
            widget.object.group.as_str(),
            widget.object.resource.as_str(),
            widget.create
        ),
        ("example.com", "widgets", true)
    );
}
