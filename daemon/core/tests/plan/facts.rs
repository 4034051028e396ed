//! The right value for every kind of change.

use super::*;
use serde_json::json;

fn actions(facts: &PlanFacts) -> Vec<(&str, Action, Option<&str>)> {
    facts
        .changes
        .iter()
        .map(|c| (c.address.as_str(), c.action, c.reason.as_deref()))
        .collect()
}

#[test]
fn a_label_edit_is_seen_as_the_replacement_it_is() {
    let facts = facts("change");
    let label = change(&facts, "kubernetes_deployment.label");
    assert_eq!(label.action, REPLACE);
    assert_eq!(
        label.object.as_ref().unwrap().to_string(),
        "Deployment/demo-app/label"
    );
    assert_eq!(label.replace_paths, ["spec[0].selector[0].match_labels"]);
    let tier = attribute(label, "spec[0].selector[0].match_labels.tier");
    assert_eq!(
        (tier.before.as_str(), tier.after.as_str()),
        ("(none)", "\"front\"")
    );
    assert!(tier.forces_replacement);
    let uid = attribute(label, "metadata[0].uid");
    assert_eq!(
        (uid.after.as_str(), uid.forces_replacement),
        ("(known after apply)", false)
    );
    let danger = facts.dangers.iter().find(|d| d.kind == "replaces").unwrap();
    assert_eq!(
        danger.why,
        "The Deployment is deleted and made anew, because an attribute changed that cannot be changed in place. \
         Forced by spec[0].selector[0].match_labels."
    );
}

/// The paths of what is known only after apply, by whether the provider alone has a say in it.
fn late(change: &Change) -> (Vec<&str>, Vec<&str>) {
    let late = change
        .attributes
        .iter()
        .filter(|a| a.after == "(known after apply)");
    let (mut filled_in, mut chosen) = (Vec::new(), Vec::new());
    for attribute in late {
        let to = if attribute.filled_in {
            &mut filled_in
        } else {
            &mut chosen
        };
        to.push(attribute.path.as_str());
    }
    (filled_in, chosen)
}

#[test]
fn what_the_provider_fills_in_is_told_from_what_somebody_chose() {
    let replaced = facts("change");
    let (filled_in, chosen) = late(change(&replaced, "kubernetes_deployment.label"));
    assert!(filled_in.contains(&"metadata[0].uid") && filled_in.contains(&"id"));
    assert!(filled_in.contains(&"spec[0].template[0].spec[0].node_name"));
    // They stood there and can be set, so the source may have done it. A block counts even when it holds
    // nothing: an empty rule can mean "everyone".
    assert_eq!(
        chosen,
        [
            "spec[0].strategy",
            "spec[0].template[0].spec[0].container[0].resources",
            "spec[0].template[0].spec[0].service_account_name"
        ]
    );
    assert_eq!(
        late(change(&facts("late_data"), "kubernetes_config_map.web")).1,
        ["data"]
    );
    let secret = facts("reasons");
    let (filled_in, chosen) = late(change(&secret, "terraform_data.secret_cause"));
    assert_eq!(
        (filled_in, chosen),
        (vec![], vec!["output"]),
        "a masked value is never left out"
    );
    let (filled_in, chosen) = late(change(&secret, "terraform_data.cause"));
    assert_eq!((filled_in, chosen), (vec!["output"], vec![]));
}

/// Whatever stood there, and whatever forces the replacement, comes from somebody: each attribute that the
/// provider can fill in is set before, set in the source and made the reason, one at a time.
#[test]
fn nothing_that_was_set_counts_as_filled_in() {
    const ADDRESS: &str = "kubernetes_deployment.label";
    let plan = json("change");
    let facts = read(&plan).unwrap();
    let (filled_in, _) = late(change(&facts, ADDRESS));
    let own = ["generation", "id", "resource_version", "self_link", "uid"];
    let (mut set, mut forcing) = (0, 0);
    for path in filled_in {
        let steps: Vec<&str> = path
            .split(['.', '[', ']'])
            .filter(|s| !s.is_empty())
            .collect();
        let pointer = format!("/{}", steps.join("/"));
        let mut before = plan.clone();
        let at = entry(&mut before, ADDRESS).pointer_mut(&format!("/change/before{pointer}"));
        if let Some(value) = at.filter(|_| !own.contains(steps.last().unwrap())) {
            *value = json!("chosen");
            let facts = read(&before).unwrap();
            let (filled_in, chosen) = late(change(&facts, ADDRESS));
            assert!(
                chosen.contains(&path) && !filled_in.contains(&path),
                "{path}"
            );
            set += 1;
        }
        let mut forced = plan.clone();
        let steps: Vec<Value> = steps
            .iter()
            .map(|s| s.parse::<u64>().map_or_else(|_| json!(s), |n| json!(n)))
            .collect();
        entry(&mut forced, ADDRESS)["change"]["replace_paths"] = json!([steps]);
        let facts = read(&forced).unwrap();
        assert!(late(change(&facts, ADDRESS)).1.contains(&path), "{path}");
        forcing += 1;
    }
    assert!(set >= 6 && forcing >= 15, "{set} and {forcing} were tried");
}

#[test]
fn every_kind_of_change_has_its_place_the_most_dangerous_first() {
    let facts = facts("change");
    assert_eq!(
        dangers(&facts),
        [
            (1, "destroys", "ConfigMap/demo-app/gone".to_owned()),
            (
                1,
                "destroys",
                "PersistentVolumeClaim/demo-app/disk".to_owned()
            ),
            (2, "replaces", "Deployment/demo-app/label".to_owned()),
            (
                3,
                "service-account-changes",
                "Deployment/demo-app/zero".to_owned()
            ),
            (3, "scales-to-zero", "Deployment/demo-app/zero".to_owned()),
            (4, "forgets", "ConfigMap/demo-app/forgotten".to_owned()),
            (4, "moves", "ConfigMap/demo-app/moved".to_owned()),
        ]
    );
    let gone = Some("it is not in the configuration any more");
    assert_eq!(
        actions(&facts),
        [
            ("kubernetes_config_map.gone", Action::Delete, gone),
            (
                "kubernetes_persistent_volume_claim.disk",
                Action::Delete,
                gone
            ),
            (
                "kubernetes_deployment.label",
                REPLACE,
                Some("an attribute changed that cannot be changed in place")
            ),
            ("kubernetes_deployment.zero", Action::Update, None),
            ("kubernetes_config_map.forgotten", Action::Forget, gone),
            ("kubernetes_config_map.new_address", Action::Move, None),
            ("kubernetes_config_map.changed", Action::Update, None),
            ("kubernetes_secret.db", Action::Update, None),
        ]
    );
    let moved = change(&facts, "kubernetes_config_map.new_address");
    assert_eq!(
        moved.previous_address.as_deref(),
        Some("kubernetes_config_map.old_address")
    );
    let changed = change(&facts, "kubernetes_config_map.changed");
    let paths: Vec<&str> = changed.attributes.iter().map(|a| a.path.as_str()).collect();
    assert_eq!(paths, ["data.key"]);
    assert_eq!(
        (facts.unchanged, facts.terraform_version.as_str()),
        (0, "1.11.4")
    );
}

#[test]
fn every_reason_is_told_in_words() {
    let facts = facts("reasons");
    let repetition = Some("count or for_each was added to it, taken away or exchanged");
    let expected = [
        (
            "module.gone.terraform_data.in",
            Action::Delete,
            Some("it is not in the configuration any more"),
        ),
        (
            "terraform_data.count[1]",
            Action::Delete,
            Some("its index is beyond the count"),
        ),
        (
            "terraform_data.each[\"two\"]",
            Action::Delete,
            Some("its key is not in for_each any more"),
        ),
        (
            "terraform_data.no_config",
            Action::Delete,
            Some("it is not in the configuration any more"),
        ),
        (
            "terraform_data.nowhere",
            Action::Delete,
            Some("it was moved to an address that is not in the configuration"),
        ),
        ("terraform_data.repetition", Action::Delete, repetition),
        (
            "terraform_data.asked",
            REPLACE,
            Some("its replacement was asked for"),
        ),
        (
            "terraform_data.cannot",
            REPLACE,
            Some("an attribute changed that cannot be changed in place"),
        ),
        (
            "terraform_data.secretly_triggered",
            REPLACE,
            Some("something changed that its replace_triggered_by names"),
        ),
        (
            "terraform_data.tainted",
            REPLACE,
            Some("it is marked as damaged: its creation did not end well"),
        ),
        (
            "terraform_data.triggered",
            REPLACE,
            Some("something changed that its replace_triggered_by names"),
        ),
        (
            "terraform_data.forgotten",
            Action::Forget,
            Some("it is not in the configuration any more"),
        ),
        ("terraform_data.moved_to", Action::Move, None),
        ("terraform_data.cause", Action::Update, None),
        ("terraform_data.repetition[\"a\"]", Action::Create, None),
        ("terraform_data.secret_cause", Action::Update, None),
    ];
    assert_eq!(actions(&facts), expected);
    assert_eq!(
        facts.unchanged, 2,
        "terraform_data.count[0] and each[\"one\"]"
    );
}

/// The one reason that no plan here has.
#[test]
fn a_module_that_went_away_is_told() {
    let mut plan = json("reasons");
    entry(&mut plan, "module.gone.terraform_data.in")["action_reason"] =
        json!("delete_because_no_module");
    let facts = read(&plan).unwrap();
    assert_eq!(
        change(&facts, "module.gone.terraform_data.in")
            .reason
            .as_deref(),
        Some("its module is not in the configuration any more")
    );
}

#[test]
fn a_reason_with_a_secret_in_it_says_that_it_changes_and_not_what() {
    let facts = facts("reasons");
    let cannot = change(&facts, "terraform_data.cannot");
    assert_eq!(cannot.replace_paths, ["triggers_replace"]);
    let secret = attribute(cannot, "triggers_replace.k");
    assert_eq!(
        (secret.before.as_str(), secret.after.as_str()),
        ("(sensitive)", "(sensitive)")
    );
    assert!(secret.sensitive && secret.forces_replacement);
    let input = attribute(change(&facts, "terraform_data.secret_cause"), "input");
    assert_eq!(
        (input.before.as_str(), input.sensitive),
        ("(sensitive)", true)
    );
}

#[test]
fn no_secret_is_in_any_facts() {
    for name in ["create", "change", "reasons", "deposed"] {
        assert!(
            name == "deposed" || String::from_utf8(plan(name)).unwrap().contains("canary-"),
            "{name}"
        );
        let text = serde_json::to_string(&facts(name)).unwrap();
        assert!(!text.contains("canary-"), "{name}: {text}");
    }
}

#[test]
fn a_secret_is_masked_key_by_key_and_only_what_changes_is_told() {
    let facts = facts("change");
    let secret = change(&facts, "kubernetes_secret.db");
    let told: Vec<(&str, &str, &str)> = secret
        .attributes
        .iter()
        .map(|a| (a.path.as_str(), a.before.as_str(), a.after.as_str()))
        .collect();
    assert_eq!(told, [("data.password", "(sensitive)", "(sensitive)")]);
}

#[test]
fn a_copy_that_lost_its_mark_is_masked_as_well() {
    let mut plan = json("reasons");
    let cause = entry(&mut plan, "terraform_data.secret_cause");
    assert_eq!(
        cause["change"]["before"]["output"], "canary-one",
        "Terraform keeps it in plain text"
    );
    assert_eq!(cause["change"]["before_sensitive"].get("output"), None);
    let facts = read(&plan).unwrap();
    let output = attribute(change(&facts, "terraform_data.secret_cause"), "output");
    assert_eq!(
        (output.before.as_str(), output.after.as_str()),
        ("(sensitive)", "(known after apply)")
    );
}

#[test]
fn a_mark_that_comes_or_goes_is_told_without_the_value() {
    let mut plan = json("change");
    let changed = entry(&mut plan, "kubernetes_config_map.changed");
    changed["change"]["after"] = changed["change"]["before"].clone();
    changed["change"]["before_sensitive"] = json!({"data": {"key": true}});
    let facts = read(&plan).unwrap();
    let key = attribute(change(&facts, "kubernetes_config_map.changed"), "data.key");
    assert_eq!(
        (key.before.as_str(), key.after.as_str()),
        ("(sensitive)", "(same, not sensitive any more)")
    );
}

#[test]
fn a_first_apply_shows_what_its_pods_may_do() {
    let facts = facts("create");
    let why: Vec<&str> = facts.dangers.iter().map(|d| d.why.as_str()).collect();
    assert_eq!(
        why,
        [
            "Its pods will run as the ServiceAccount \"admin\".",
            "Its pods will get the Secret \"db\".",
            "Its pods will get the Secret \"tls\".",
            "Its pods will get \"/etc\" of the node.",
            "Its pods will see the node's processes.",
            "Its pods will share the node's network.",
            "Its pods will take port 80 of the node.",
            "Its pods will give container \"web\" the capability \"NET_ADMIN\".",
            "Its pods will run container \"web\" as root.",
            "Its pods will run container \"web\" privileged: it is root on the node.",
            "Its pods will let container \"web\" gain privileges.",
        ]
    );
    assert!(
        facts
            .dangers
            .iter()
            .all(|d| d.address == "kubernetes_deployment.strong")
    );
    assert_eq!(facts.changes[0].address, "kubernetes_deployment.strong");
}

#[test]
fn what_was_allowed_before_is_no_news_and_what_is_loosened_is() {
    let mut plan = json("change");
    let zero = entry(&mut plan, "kubernetes_deployment.zero");
    for side in ["before", "after"] {
        let pod = &mut zero["change"][side]["spec"][0]["template"][0]["spec"][0];
        pod["host_network"] = json!(true);
        pod["container"][0]["security_context"] =
            json!([{"allow_privilege_escalation": side == "after"}]);
    }
    let facts = read(&plan).unwrap();
    let of_zero: Vec<(u8, &str)> = facts
        .dangers
        .iter()
        .filter(|d| d.address == "kubernetes_deployment.zero")
        .map(|d| (d.rank, d.kind.as_str()))
        .collect();
    assert_eq!(
        of_zero,
        [
            (3, "service-account-changes"),
            (3, "privileged"),
            (3, "scales-to-zero")
        ]
    );
}

#[test]
fn sixty_moves_do_not_hide_one_delete() {
    let facts = facts("moves");
    assert_eq!(facts.changes.len(), 61);
    assert_eq!(
        (facts.changes[0].address.as_str(), facts.changes[0].action),
        ("kubernetes_config_map.gone", Action::Delete)
    );
    assert_eq!(
        (facts.dangers[0].kind.as_str(), facts.dangers[0].rank),
        ("destroys", 1)
    );
    assert!(facts.changes[1..].iter().all(|c| c.action == Action::Move));
}

#[test]
fn plans_that_only_move_import_or_change_outputs_are_not_empty() {
    let outputs = facts("outputs");
    assert!(!outputs.is_empty() && outputs.changes.is_empty());
    let o = &outputs.outputs[0];
    assert_eq!(
        (
            o.name.as_str(),
            o.action.as_str(),
            o.before.as_str(),
            o.after.as_str()
        ),
        ("o", "update", "1", "2")
    );

    let import = facts("import");
    assert!(!import.is_empty());
    assert_eq!(
        dangers(&import),
        [(4, "imports", "ConfigMap/demo-app/here".to_owned())]
    );
    assert_eq!(
        import.changes[0].import_id.as_deref(),
        Some("demo-app/here")
    );
    assert_eq!(import.changes[0].action, Action::Import);

    assert!(!facts("moves").is_empty());
    let nothing = facts("nothing");
    assert!(nothing.is_empty());
    assert_eq!(nothing.unchanged, 1);
}

#[test]
fn an_import_that_also_changes_says_both() {
    let mut plan = json("change");
    let changed = entry(&mut plan, "kubernetes_config_map.changed");
    changed["change"]["importing"] = json!({"id": "demo-app/changed"});
    let facts = read(&plan).unwrap();
    let changed = change(&facts, "kubernetes_config_map.changed");
    assert_eq!(
        (changed.action, changed.import_id.as_deref()),
        (Action::Update, Some("demo-app/changed"))
    );
    assert!(dangers(&facts).contains(&(4, "imports", "ConfigMap/demo-app/changed".to_owned())));
}

#[test]
fn outputs_come_and_go_and_secret_ones_are_masked() {
    let facts = facts("reasons");
    let told: Vec<(&str, &str)> = facts
        .outputs
        .iter()
        .map(|o| (o.name.as_str(), o.action.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            ("changes", "update"),
            ("comes", "create"),
            ("goes", "delete")
        ]
    );
    let create = super::facts("create");
    let password = create
        .outputs
        .iter()
        .find(|o| o.name == "password")
        .unwrap();
    assert_eq!(
        (password.after.as_str(), password.sensitive),
        ("(sensitive)", true)
    );
}

#[test]
fn drift_is_what_changed_outside_and_nothing_else() {
    let facts = facts("drift");
    let drift: Vec<(&str, Action)> = facts
        .drift
        .iter()
        .map(|d| (d.address.as_str(), d.action))
        .collect();
    assert_eq!(
        drift,
        [
            ("kubernetes_config_map.lost", Action::Delete),
            ("kubernetes_deployment.web", Action::Update)
        ]
    );
    let replicas = attribute(&facts.drift[1], "spec[0].replicas");
    assert_eq!(
        (replicas.before.as_str(), replicas.after.as_str()),
        ("1", "5")
    );
    let back = attribute(
        change(&facts, "kubernetes_deployment.web"),
        "spec[0].replicas",
    );
    assert_eq!((back.before.as_str(), back.after.as_str()), ("5", "1"));

    // Its version moves with each status that is written; other words of its own do not.
    let mut plan = json("drift");
    for (word, drifts) in [("resource_version", 1), ("uid", 2)] {
        let drifted = &mut plan["resource_drift"][1]["change"];
        drifted["after"] = drifted["before"].clone();
        drifted["after"]["metadata"][0][word] = json!("other");
        assert_eq!(read(&plan).unwrap().drift.len(), drifts, "{word}");
    }
}

#[test]
fn check_blocks_that_fail_or_are_not_known_are_told() {
    let facts = facts("check");
    assert_eq!(
        facts.checks,
        [
            "check.fails does not hold: one is not two",
            "check.reads is known only after apply."
        ]
    );
    let nested = change(&facts, "data.kubernetes_config_map.nested");
    assert_eq!(
        (nested.action, nested.reason.as_deref()),
        (Action::Read, Some("it belongs to a check block"))
    );
}

#[test]
fn a_renamed_address_deletes_and_creates_the_same_object() {
    let facts = facts("rename");
    assert_eq!(
        dangers(&facts),
        [
            (1, "same-object", "ConfigMap/demo-app/web".to_owned()),
            (1, "destroys", "ConfigMap/demo-app/web".to_owned()),
        ]
    );
    assert!(
        facts.dangers[0]
            .why
            .contains("kubernetes_config_map.a deletes it, kubernetes_config_map.b creates it")
    );
}

#[test]
fn all_that_happens_to_one_object_comes_together() {
    let mut plan = json("rename");
    let update = entry(&mut json("change"), "kubernetes_deployment.zero").clone();
    plan["resource_changes"]
        .as_array_mut()
        .unwrap()
        .push(update);
    let facts = read(&plan).unwrap();
    let order: Vec<&str> = facts.changes.iter().map(|c| c.address.as_str()).collect();
    assert_eq!(
        order,
        [
            "kubernetes_config_map.a",
            "kubernetes_config_map.b",
            "kubernetes_deployment.zero"
        ]
    );
}

#[test]
fn a_leftover_that_is_deleted_takes_the_living_object_with_it() {
    let facts = facts("deposed");
    assert_eq!(
        facts.changes[0].address,
        "kubernetes_deployment.web (deposed 0a1b2c3d)"
    );
    assert_eq!(facts.changes[0].action, Action::Delete);
    assert_eq!(
        dangers(&facts),
        [
            (1, "same-object", "Deployment/demo-app/web".to_owned()),
            (2, "destroys", "Deployment/demo-app/web".to_owned()),
        ]
    );
}

#[test]
fn a_replacement_that_comes_first_is_told_apart() {
    let facts = facts("first");
    let created_first = Action::Replace {
        create_before_destroy: true,
    };
    assert_eq!(facts.changes[0].action, created_first);
    assert!(
        facts.dangers[0].why.contains("which Kubernetes refuses"),
        "{}",
        facts.dangers[0].why
    );
}

#[test]
fn count_turned_into_for_each_destroys_and_creates() {
    let facts = facts("count_to_each");
    let repetition = Some("count or for_each was added to it, taken away or exchanged");
    assert_eq!(
        actions(&facts),
        [
            ("terraform_data.a[0]", Action::Delete, repetition),
            ("terraform_data.a[1]", Action::Delete, repetition),
            ("terraform_data.a[\"x\"]", Action::Create, None),
            ("terraform_data.a[\"y\"]", Action::Create, None),
        ]
    );
}

/// Who shows an address escapes it; what is typed is never an address.
#[test]
fn an_address_with_a_foreign_letter_comes_as_it_is() {
    assert_eq!(
        facts("homoglyph").changes[0].address,
        "terraform_data.w\u{435}b"
    );
}

#[test]
fn an_empty_rule_that_comes_is_a_change() {
    let mut plan = json("change");
    let zero = entry(&mut plan, "kubernetes_deployment.zero");
    zero["change"]["after"]["spec"][0]["template"][0]["spec"][0]["toleration"] =
        json!([{"key": null}]);
    let facts = read(&plan).unwrap();
    let toleration = attribute(
        change(&facts, "kubernetes_deployment.zero"),
        "spec[0].template[0].spec[0].toleration[0]",
    );
    assert_eq!(
        (toleration.before.as_str(), toleration.after.as_str()),
        ("(none)", "{}")
    );
}

#[test]
fn a_change_with_nothing_to_see_says_so() {
    let mut plan = json("change");
    let changed = entry(&mut plan, "kubernetes_config_map.changed");
    changed["change"]["after"] = changed["change"]["before"].clone();
    let facts = read(&plan).unwrap();
    assert!(dangers(&facts).contains(&(
        4,
        "nothing-to-see",
        "ConfigMap/demo-app/changed".to_owned()
    )));
}

#[test]
fn facts_survive_being_written_down() {
    for name in ["create", "change", "reasons", "drift", "check"] {
        let facts = facts(name);
        let text = serde_json::to_string(&facts).unwrap();
        assert_eq!(
            serde_json::from_str::<PlanFacts>(&text).unwrap(),
            facts,
            "{name}"
        );
    }
}
