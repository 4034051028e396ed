//! What is not taken, each with address, field and what to do.

use super::*;
use proptest::prelude::*;
use serde_json::json;

#[test]
fn what_is_known_only_after_apply_is_refused_where_it_decides_what_runs() {
    let late = "is known only after apply, so it could change after the approval; write the value out, or apply \
                what it comes from first";
    let dynamic = "is known only after apply, and the plan does not say what sets it; write its block out instead \
                   of making it with \"dynamic\", or set it";
    for (name, field, why) in [
        ("late_image", "spec.template.spec.container.image", late),
        ("late_args", "spec.template.spec.container.args", late),
        (
            "late_account",
            "spec.template.spec.service_account_name",
            late,
        ),
        ("late_env", "spec.template.spec.container.env", dynamic),
        (
            "late_volume",
            "spec.template.spec.volume.host_path.path",
            dynamic,
        ),
    ] {
        assert_eq!(
            refusal(name),
            format!("kubernetes_deployment.web: {field} {why}")
        );
    }
    assert_eq!(
        refusal("late_module"),
        format!(
            "module.late.kubernetes_deployment.web: spec.template.spec.service_account_name {late}"
        )
    );
}

/// Each of these, set by the source to something that is not known yet.
#[test]
fn every_guarded_field_is_guarded() {
    for (path, field) in [
        ("container/0/command", "container.command"),
        ("container/0/args", "container.args"),
        ("container/0/image", "container.image"),
        ("container/0/env/0/value", "container.env.value"),
        (
            "container/0/security_context/0/privileged",
            "container.security_context.privileged",
        ),
        (
            "container/0/security_context/0/run_as_user",
            "container.security_context.run_as_user",
        ),
        (
            "container/0/volume_mount/0/mount_path",
            "container.volume_mount.mount_path",
        ),
        ("init_container/0/image", "init_container.image"),
        (
            "security_context/0/run_as_user",
            "security_context.run_as_user",
        ),
        ("service_account_name", "service_account_name"),
        ("host_network", "host_network"),
        ("volume/0/secret/0/secret_name", "volume.secret.secret_name"),
        ("volume/0/host_path/0/path", "volume.host_path.path"),
    ] {
        let mut plan = json("create");
        let set = plan["configuration"]["root_module"]["resources"]
            .as_array_mut()
            .unwrap()
            .iter_mut()
            .find(|r| r["address"] == "kubernetes_deployment.plain")
            .unwrap();
        let inner = "/expressions/spec/0/template/0/spec/0";
        let references =
            json!({"references": ["terraform_data.late.output", "terraform_data.late"]});
        put(set.pointer_mut(inner).unwrap(), path, &references);
        let change = &mut entry(&mut plan, "kubernetes_deployment.plain")["change"];
        let at = "/spec/0/template/0/spec/0";
        put(change["after"].pointer_mut(at).unwrap(), path, &Value::Null);
        put(
            change["after_unknown"].pointer_mut(at).unwrap(),
            path,
            &json!(true),
        );
        let refusal = read(&plan).unwrap_err().to_string();
        let expected = format!(
            "kubernetes_deployment.plain: spec.template.spec.{field} is known only after apply, so it could change"
        );
        assert!(refusal.starts_with(&expected), "{path}: {refusal}");
    }
}

/// What the provider keeps on an update it does not fill in anew, so a block that goes from something to
/// "not known" comes from the source.
#[test]
fn a_block_that_was_there_and_is_not_known_any_more_is_refused() {
    let mut plan = json("change");
    let change = &mut entry(&mut plan, "kubernetes_deployment.zero")["change"];
    let at = "spec/0/template/0/spec/0/volume";
    put(&mut change["after_unknown"], at, &json!(true));
    put(&mut change["after"], at, &json!([]));
    put(&mut change["before"], at, &json!([]));
    let facts = read(&plan).unwrap();
    let zero = facts
        .writes
        .iter()
        .find(|w| w.object.name == "zero")
        .unwrap();
    assert_eq!(
        zero.absent,
        ["/spec/template/spec/volumes"],
        "nothing was there: the provider may fill it in"
    );

    let change = &mut entry(&mut plan, "kubernetes_deployment.zero")["change"];
    put(&mut change["before"], &format!("{at}/0/name"), &json!("v"));
    let refusal = read(&plan).unwrap_err().to_string();
    assert!(
        refusal.contains("spec.template.spec.volume is known only after apply"),
        "{refusal}"
    );
}

/// One block is written out and another comes from a `dynamic` one: which is which cannot be told.
#[test]
fn blocks_that_the_source_has_fewer_of_are_of_unclear_origin() {
    let mut plan = json("create");
    let change = &mut entry(&mut plan, "kubernetes_deployment.plain")["change"];
    let containers = change["after"]
        .pointer_mut("/spec/0/template/0/spec/0/container")
        .unwrap();
    let first = containers[0].clone();
    containers.as_array_mut().unwrap().push(first);
    let refusal = read(&plan).unwrap_err().to_string();
    assert!(
        refusal.contains(
            "container.resources is known only after apply, and the plan does not say what sets it"
        ),
        "{refusal}"
    );
}

#[test]
fn what_stands_in_a_dynamic_block_is_of_unclear_origin() {
    let mut plan = json("create");
    let resources = plan["configuration"]["root_module"]["resources"]
        .as_array_mut()
        .unwrap();
    let found = resources
        .iter_mut()
        .find(|r| r["address"] == "kubernetes_deployment.plain")
        .unwrap();
    let pod = found
        .pointer_mut("/expressions/spec/0/template/0/spec/0")
        .unwrap();
    pod.as_object_mut().unwrap().remove("container").unwrap();
    let refusal = read(&plan).unwrap_err().to_string();
    assert!(
        refusal.contains("the plan does not say what sets it"),
        "{refusal}"
    );
}

#[test]
fn null_is_not_set() {
    let mut plan = json("create");
    let resources = plan["configuration"]["root_module"]["resources"]
        .as_array_mut()
        .unwrap();
    let found = resources
        .iter_mut()
        .find(|r| r["address"] == "kubernetes_deployment.plain")
        .unwrap();
    let pod = found
        .pointer_mut("/expressions/spec/0/template/0/spec/0")
        .unwrap();
    pod["service_account_name"] = json!({"constant_value": null});
    assert!(read(&plan).is_ok());
}

/// Puts a value at a path of keys and indexes, and whatever leads there.
fn put(mut at: &mut Value, path: &str, value: &Value) {
    for part in path.split('/') {
        if let Ok(index) = part.parse::<usize>() {
            if !at.is_array() {
                *at = json!([]);
            }
            let items = at.as_array_mut().unwrap();
            while items.len() <= index {
                items.push(json!({}));
            }
            at = &mut items[index];
        } else {
            if !at.is_object() {
                *at = json!({});
            }
            at = &mut at[part];
        }
    }
    *at = value.clone();
}

#[test]
fn names_and_namespaces_must_be_known_fixed_and_of_this_root() {
    let name = "metadata.name is missing, or known only after apply; give it a fixed name; generate_name cannot \
                be reviewed";
    for fixture in ["late_name", "generated_name"] {
        assert_eq!(
            refusal(fixture),
            format!("kubernetes_config_map.web: {name}")
        );
    }
    let elsewhere = "kubernetes_config_map.there: its namespace is not one of this root (demo-app); move it there, \
                     or ask an operator to add the namespace to the root";
    assert_eq!(refusal("elsewhere"), elsewhere);
    assert_eq!(refusal("import_elsewhere"), elsewhere);
    assert!(refusal("sensitive_name").contains("metadata.name is sensitive"));
}

#[test]
fn what_a_config_map_holds_may_come_late_and_is_shown_as_such() {
    let facts = facts("late_data");
    assert_eq!(
        dangers(&facts),
        [(4, "known-after-apply", "ConfigMap/demo-app/web".to_owned())]
    );
}

/// A Job gets its labels from the API server.
#[test]
fn what_the_provider_fills_in_is_no_news() {
    let mut plan = json("create");
    let change = &mut entry(&mut plan, "kubernetes_config_map.plain")["change"];
    put(
        &mut change["after_unknown"],
        "metadata/0/labels",
        &json!(true),
    );
    assert_eq!(read(&plan).unwrap().dangers, facts("create").dangers);
}

#[test]
fn a_data_source_that_is_read_while_applying_is_refused() {
    assert!(refusal("late_read").starts_with(
        "data.kubernetes_config_map.late: the data source would be read only while applying, so what it says could \
         change after the approval; take out its depends_on"
    ));
}

#[test]
fn rights_tokens_and_kinds_of_others_are_refused() {
    assert!(
        refusal("role")
            .starts_with("kubernetes_role.r: its type kubernetes_role gives out rights; ")
    );
    assert!(
        refusal("token_secret").starts_with(
            "kubernetes_secret.t: type makes the cluster put a token into the Secret; "
        )
    );
    for (type_name, manifest, why) in [
        ("kubernetes_tomorrow", json!(null), "is not known here"),
        (
            "kubernetes_pod",
            json!(null),
            "its kind Pod is not among the kinds of this root",
        ),
        (
            "kubernetes_mutating_webhook_configuration",
            json!(null),
            "changes what the API server lets in",
        ),
        (
            "kubernetes_manifest",
            json!(["rbac.authorization.k8s.io/v1", "Role"]),
            "gives out rights",
        ),
        (
            "kubernetes_manifest",
            json!(["apiextensions.k8s.io/v1", "CustomResourceDefinition"]),
            "what the API server serves",
        ),
        (
            "kubernetes_manifest",
            json!([
                "admissionregistration.k8s.io/v1",
                "ValidatingWebhookConfiguration"
            ]),
            "lets in",
        ),
        (
            "kubernetes_manifest",
            json!(["example.com/v1", "Gadget"]),
            "is not among the kinds of this root",
        ),
        (
            "kubernetes_manifest",
            json!(["v1", "Node"]),
            "someone else manages",
        ),
    ] {
        let mut plan = json("create");
        let map = entry(&mut plan, "kubernetes_config_map.plain");
        map["type"] = json!(type_name);
        if let Some(manifest) = manifest.as_array() {
            map["change"]["after"] = json!({"manifest": {"apiVersion": manifest[0], "kind": manifest[1],
                "metadata": {"name": "x", "namespace": "demo-app"}}});
            map["change"]["after_unknown"] = json!({});
        }
        let refusal = read(&plan).unwrap_err().to_string();
        assert!(
            refusal.starts_with("kubernetes_config_map.plain: ") && refusal.contains(why),
            "{refusal}"
        );
    }
    let mut plan = json("create");
    let map = entry(&mut plan, "kubernetes_config_map.plain");
    (map["type"], map["provider_name"]) = (
        json!("local_file"),
        json!("registry.terraform.io/hashicorp/local"),
    );
    assert!(
        read(&plan)
            .unwrap_err()
            .to_string()
            .contains("writes files where Terraform itself runs")
    );
}

#[test]
fn a_token_secret_of_a_manifest_is_refused() {
    let mut plan = json("create");
    let map = entry(&mut plan, "kubernetes_config_map.plain");
    map["type"] = json!("kubernetes_manifest");
    map["change"]["after"] = json!({"manifest": {"apiVersion": "v1", "kind": "Secret",
        "type": "kubernetes.io/service-account-token", "metadata": {"name": "x", "namespace": "demo-app"}}});
    map["change"]["after_unknown"] = json!({});
    assert!(
        read(&plan)
            .unwrap_err()
            .to_string()
            .contains("put a token into the Secret")
    );
}

#[test]
fn an_import_of_another_object_and_a_state_that_lies_are_refused() {
    let mut plan = json("import");
    plan["resource_changes"][0]["change"]["importing"]["id"] = json!("demo-app/other");
    assert!(
        read(&plan)
            .unwrap_err()
            .to_string()
            .contains("the id of its import names another object")
    );
    let mut plan = json("change");
    let gone = entry(&mut plan, "kubernetes_config_map.gone");
    gone["change"]["before"]["id"] = json!("kube-system/gone");
    assert!(
        read(&plan)
            .unwrap_err()
            .to_string()
            .contains("its id in the state names another object")
    );
}

#[test]
fn a_namespace_is_its_own_namespace() {
    let mut guard = guard();
    guard.kinds.insert("namespaces".parse().unwrap());
    let mut plan = json("create");
    let map = entry(&mut plan, "kubernetes_config_map.plain");
    map["type"] = json!("kubernetes_namespace");
    let mut named = |name: &str, guard: &PlanGuard| {
        let map = entry(&mut plan, "kubernetes_config_map.plain");
        map["change"]["after"]["metadata"][0]["name"] = json!(name);
        PlanFacts::read(&serde_json::to_vec(&plan).unwrap(), guard)
    };
    assert!(named("demo-app", &guard).is_ok());
    guard.namespaces.insert("kube-system".parse().unwrap()); // in vain
    for other in ["elsewhere", "kube-system"] {
        let refusal = named(other, &guard).unwrap_err().to_string();
        assert!(
            refusal.contains("its namespace is not one of this root"),
            "{refusal}"
        );
    }
}

#[test]
fn what_is_in_no_plan_is_refused() {
    for (attribute, set) in [
        (
            "data_wo",
            json!({"data_wo": {"references": ["var.password"]}}),
        ),
        ("token_wo", json!({"spec": [{"inner": [{"token_wo": {}}]}]})),
    ] {
        let mut plan = json("create");
        let resources = plan["configuration"]["root_module"]["resources"]
            .as_array_mut()
            .unwrap();
        let db = resources
            .iter_mut()
            .find(|r| r["address"] == "kubernetes_secret.db")
            .unwrap();
        let expressions = db["expressions"].as_object_mut().unwrap();
        expressions.extend(set.as_object().unwrap().clone());
        let refusal = read(&plan).unwrap_err().to_string();
        let expected =
            format!("kubernetes_secret.db: {attribute} is write-only: its value is in no plan");
        assert!(refusal.starts_with(&expected), "{refusal}");
    }
}

#[test]
fn a_manifest_that_is_not_the_object_in_the_state_is_refused() {
    let mut plan = json("change");
    let gone = entry(&mut plan, "kubernetes_config_map.gone");
    gone["type"] = json!("kubernetes_manifest");
    let object = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "demo-app"}});
    gone["change"]["before"] = json!({"manifest": object("gone"), "object": object("other")});
    assert!(
        read(&plan)
            .unwrap_err()
            .to_string()
            .contains("its object in the state is another one")
    );
    entry(&mut plan, "kubernetes_config_map.gone")["change"]["before"]["object"] = object("gone");
    assert!(read(&plan).is_ok());
}

#[test]
fn a_plan_that_is_not_whole_is_refused() {
    assert_eq!(refusal("errored"), "planning ended with errors; plan again");
    assert!(refusal("target").starts_with("the plan is incomplete"));
    let mut plan = json("change");
    plan["applyable"] = json!(false);
    assert!(
        read(&plan)
            .unwrap_err()
            .to_string()
            .contains("cannot be applied")
    );
    let mut plan = json("change");
    let deferred = plan["resource_changes"][0].clone();
    plan["deferred_changes"] =
        json!([{"reason": "resource_config_unknown", "resource_change": deferred}]);
    assert!(
        read(&plan)
            .unwrap_err()
            .to_string()
            .contains("its change was put off to a later plan")
    );
}

#[test]
fn what_terraform_1_11_does_not_write_is_refused() {
    type Edit = fn(&mut Value);
    let edits: [(&str, Edit); 14] = [
        ("the key \"tomorrow\"", |p| p["tomorrow"] = json!(1)),
        ("the key \"action_invocations\"", |p| {
            p["action_invocations"] = json!([]);
        }),
        ("the key \"tomorrow\"", |p| {
            p["resource_changes"][0]["tomorrow"] = json!(1);
        }),
        ("the key \"tomorrow\"", |p| {
            p["resource_changes"][0]["change"]["tomorrow"] = json!(1);
        }),
        ("the key \"identity\"", |p| {
            p["resource_changes"][0]["change"]["importing"] = json!({"id": "a", "identity": {}});
        }),
        ("the key \"index_unknown\"", |p| {
            p["resource_changes"][0]["index_unknown"] = json!(true);
        }),
        ("the format version \"1.3\"", |p| {
            p["format_version"] = json!("1.3");
        }),
        ("the format version \"2.0\"", |p| {
            p["format_version"] = json!("2.0");
        }),
        ("made by Terraform \"1.12.0\"", |p| {
            p["terraform_version"] = json!("1.12.0");
        }),
        ("the actions \"rename\"", |p| {
            p["resource_changes"][0]["change"]["actions"] = json!(["rename"]);
        }),
        ("the actions \"delete, create, forget\"", |p| {
            p["resource_changes"][0]["change"]["actions"] = json!(["delete", "create", "forget"]);
        }),
        ("the action reason \"because\"", |p| {
            p["resource_changes"][0]["action_reason"] = json!("because");
        }),
        ("does not belong to its actions", |p| {
            p["resource_changes"][0]["action_reason"] = json!("replace_by_request");
        }),
        ("the mode \"ephemeral\"", |p| {
            p["resource_changes"][0]["mode"] = json!("ephemeral");
        }),
    ];
    for (word, edit) in edits {
        let mut plan = json("change");
        edit(&mut plan);
        let refusal = read(&plan).unwrap_err();
        assert!(
            matches!(refusal, PlanRefusal::Unknown { .. }),
            "{word}: {refusal}"
        );
        assert!(refusal.to_string().contains(word), "{word}: {refusal}");
    }
}

#[test]
fn other_ways_out_are_refused() {
    type Edit = fn(&mut Value);
    let edits: [(&str, Edit); 6] = [
        ("would leave the old object behind", |p| {
            entry(p, "kubernetes_deployment.label")["change"]["actions"] =
                json!(["create", "forget"]);
        }),
        ("was written while planning", |p| {
            p["resource_changes"][0]["change"]["generated_config"] = json!("x");
        }),
        ("two entries for one address", |p| {
            let again = p["resource_changes"][0].clone();
            p["resource_changes"].as_array_mut().unwrap().push(again);
        }),
        ("does not fit its actions", |p| {
            p["resource_changes"][0]["change"]["after"] = json!(null);
        }),
        ("its provisioner would run what no plan shows", |p| {
            p["configuration"]["root_module"]["resources"][0]["provisioners"] =
                json!([{"type": "local-exec"}]);
        }),
        ("would become another object in an update", |p| {
            let zero = entry(p, "kubernetes_deployment.zero");
            zero["change"]["after"]["metadata"][0]["name"] = json!("other");
            zero["change"]["after"]["id"] = json!("demo-app/other");
        }),
    ];
    for (word, edit) in edits {
        let mut plan = json("change");
        edit(&mut plan);
        let refusal = read(&plan).unwrap_err().to_string();
        assert!(refusal.contains(word), "{word}: {refusal}");
    }
}

#[test]
fn a_repeated_key_anywhere_is_refused() {
    let text = String::from_utf8(plan("change")).unwrap();
    let twice = text.replacen(
        "\"actions\":[\"delete\"]",
        "\"actions\":[\"no-op\"],\"actions\":[\"delete\"]",
        1,
    );
    assert_ne!(text, twice);
    let refusal = PlanFacts::read(twice.as_bytes(), &guard()).unwrap_err();
    assert!(
        refusal.to_string().contains("a key is given twice"),
        "{refusal}"
    );
}

#[test]
fn two_hundred_changes_are_taken_and_one_more_is_not() {
    let with = |count: usize| {
        let mut plan = json("nothing");
        plan["applyable"] = json!(true);
        let first = plan["resource_changes"][0].clone();
        let entries = (0..count).map(|n| {
            let mut entry = first.clone();
            entry["address"] = json!(format!("terraform_data.a{n}"));
            entry["previous_address"] = json!(format!("terraform_data.b{n}"));
            entry
        });
        plan["resource_changes"] = entries.collect();
        read(&plan)
    };
    assert_eq!(with(200).unwrap().changes.len(), 200);
    assert_eq!(
        with(201).unwrap_err().to_string(),
        "the plan has 201 changes, at most 200 can be reviewed at once; plan a part of it as a root of its own"
    );
}

#[test]
fn an_attribute_of_two_megabytes_is_refused_by_its_own_limit() {
    let mut plan = json("change");
    let changed = entry(&mut plan, "kubernetes_config_map.changed");
    changed["change"]["after"]["data"]["key"] = json!("x".repeat(2 * 1024 * 1024));
    let refusal = read(&plan).unwrap_err();
    assert!(matches!(
        refusal,
        PlanRefusal::TooLong {
            limit: MAX_PLAN_BYTES,
            ..
        }
    ));
    let text = refusal.to_string();
    assert!(text.contains("the longest is data (2097"), "{text}");
    assert!(
        text.ends_with("of kubernetes_config_map.changed") && text.len() < 300,
        "{text}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_bytes_make_reading_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(PlanFacts::read(&bytes, &guard()).is_err());
    }

    /// Real plans with a piece cut out, doubled or overwritten.
    #[test]
    fn no_damage_makes_reading_panic(
        name in prop::sample::select(vec!["create", "change", "reasons", "check", "late_module"]),
        at in any::<prop::sample::Index>(), length in 0_usize..40, with in "[\\[\\]{}\",:a-z0-9]{0,6}",
    ) {
        let mut bytes = plan(name);
        let at = at.index(bytes.len());
        let end = (at + length).min(bytes.len());
        bytes.splice(at..end, with.into_bytes());
        drop(PlanFacts::read(&bytes, &guard()));
    }

    /// A value of any form in place of another one.
    #[test]
    fn no_wrong_form_makes_reading_panic(
        at in any::<prop::sample::Index>(),
        value in prop::sample::select(vec![json!(null), json!(true), json!(1.5), json!("x"), json!([[]]), json!({"a": {}})]),
    ) {
        let mut plan = json("change");
        let mut places = Vec::new();
        walk(&plan, "", &mut places);
        *plan.pointer_mut(&places[at.index(places.len())]).unwrap() = value;
        drop(read(&plan));
    }

    #[test]
    fn one_unknown_key_is_refused(key in "[a-z_]{1,12}", deep in 0_usize..3) {
        let mut plan = json("change");
        let at = match deep {
            0 => &mut plan,
            1 => &mut plan["resource_changes"][0],
            _ => &mut plan["resource_changes"][0]["change"],
        };
        prop_assume!(at.get(&key).is_none());
        // Keys that Terraform has and this plan has not.
        prop_assume!(!["checks", "deferred_changes", "deposed", "index", "importing", "variables",
            "previous_address", "module_address", "action_reason", "replace_paths", "before_sensitive",
            "after_sensitive", "relevant_attributes", "output_changes"].contains(&key.as_str()));
        at[&key] = json!(true);
        prop_assert!(read(&plan).is_err());
    }
}

fn walk(value: &Value, at: &str, places: &mut Vec<String>) {
    places.push(at.to_owned());
    let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Object(map) => map
            .iter()
            .for_each(|(k, v)| walk(v, &format!("{at}/{}", escaped(k)), places)),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(n, v)| walk(v, &format!("{at}/{n}"), places)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
