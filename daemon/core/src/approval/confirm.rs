//! What of a plan a human sees in one line, and what must be typed to grant it.

use crate::plan::{Action, Change, PlanFacts};

/// What must be typed to grant a plan, one of them: `kind/namespace/name` of each live object that it
/// destroys or replaces, in the order of the plan. Never an address, which the agent chose. Empty when it
/// destroys nothing that lives in the cluster.
#[must_use]
pub fn must_type(facts: &PlanFacts) -> Vec<String> {
    let of_changes = facts
        .changes
        .iter()
        .filter(|change| destroys(change))
        .filter_map(|change| change.object.as_ref());
    // What may be deleted and is no change of its own: what an earlier replacement left over.
    let of_writes = facts.writes.iter().filter(|w| w.delete).map(|w| &w.object);
    let mut objects = Vec::new();
    for object in of_changes.chain(of_writes) {
        let text = object.to_string();
        if !objects.contains(&text) {
            objects.push(text);
        }
    }
    objects
}

/// Whether what was typed grants a plan for which one of `objects` must be typed. White space around it
/// does not matter; everything else does.
#[must_use]
pub fn is_confirmed(objects: &[String], typed: &str) -> bool {
    objects.is_empty() || objects.iter().any(|object| object == typed.trim())
}

fn destroys(change: &Change) -> bool {
    match change.action {
        Action::Replace { .. } | Action::Delete => true,
        Action::Create
        | Action::Update
        | Action::Forget
        | Action::Import
        | Action::Move
        | Action::Read => false,
    }
}

/// The plan in one line, the worst first: `1 to destroy, 2 to add`.
#[must_use]
pub fn summary(facts: &PlanFacts) -> String {
    let count =
        |which: fn(&Action) -> bool| facts.changes.iter().filter(|c| which(&c.action)).count();
    let counts = [
        (count(|a| matches!(a, Action::Delete)), "to destroy"),
        (count(|a| matches!(a, Action::Replace { .. })), "to replace"),
        (count(|a| matches!(a, Action::Forget)), "to forget"),
        (count(|a| matches!(a, Action::Update)), "to change"),
        (count(|a| matches!(a, Action::Create)), "to add"),
        (count(|a| matches!(a, Action::Import)), "to import"),
        (count(|a| matches!(a, Action::Move)), "to move"),
        (count(|a| matches!(a, Action::Read)), "to read"),
    ];
    let mut told: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    match facts.outputs.len() {
        0 => {}
        1 => told.push("1 output to change".to_owned()),
        several => told.push(format!("{several} outputs to change")),
    }
    if told.is_empty() {
        "nothing to do".to_owned()
    } else {
        told.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{LiveObject, OutputChange, Write};

    fn object(kind: &str, name: &str) -> LiveObject {
        LiveObject {
            group: String::new(),
            kind: kind.to_owned(),
            resource: format!("{}s", kind.to_lowercase()),
            namespace: Some("demo-app".parse().unwrap()),
            name: name.to_owned(),
        }
    }

    fn change(action: Action, object: Option<LiveObject>) -> Change {
        Change {
            address: "kubernetes_deployment.w\u{435}b".to_owned(),
            previous_address: None,
            object,
            action,
            reason: None,
            replace_paths: Vec::new(),
            attributes: Vec::new(),
            import_id: None,
        }
    }

    fn write(object: LiveObject, delete: bool) -> Write {
        Write {
            object,
            create: true,
            update: true,
            delete,
            absent: Vec::new(),
        }
    }

    #[test]
    fn what_is_destroyed_or_replaced_must_be_typed_by_its_live_name() {
        let replaced = Action::Replace {
            create_before_destroy: true,
        };
        let facts = PlanFacts {
            changes: vec![
                change(Action::Delete, Some(object("Service", "web"))),
                change(replaced, Some(object("Deployment", "web"))),
                change(Action::Create, Some(object("Secret", "new"))),
                change(Action::Forget, Some(object("Secret", "old"))),
                change(Action::Delete, None),
            ],
            writes: vec![
                write(object("Deployment", "web"), true),
                write(object("ConfigMap", "left-over"), true),
                write(object("Secret", "new"), false),
            ],
            outputs: vec![OutputChange {
                name: "url".to_owned(),
                action: "create".to_owned(),
                before: "(none)".to_owned(),
                after: "\"x\"".to_owned(),
                sensitive: false,
            }],
            ..PlanFacts::default()
        };
        let objects = must_type(&facts);
        assert_eq!(
            objects,
            [
                "Service/demo-app/web",
                "Deployment/demo-app/web",
                "ConfigMap/demo-app/left-over"
            ]
        );
        assert_eq!(
            summary(&facts),
            "2 to destroy, 1 to replace, 1 to forget, 1 to add, 1 output to change"
        );
        assert!(is_confirmed(&objects, " Deployment/demo-app/web\n"));
        for typed in [
            "",
            "yes",
            "Deployment/demo-app/w\u{435}b",
            "deployment/demo-app/web",
            "kubernetes_deployment.web",
        ] {
            assert!(!is_confirmed(&objects, typed), "{typed}");
        }
    }

    #[test]
    fn a_plan_that_destroys_nothing_asks_for_no_typing() {
        let facts = PlanFacts {
            changes: vec![change(Action::Update, Some(object("Service", "web")))],
            writes: vec![write(object("Service", "web"), false)],
            ..PlanFacts::default()
        };
        assert!(must_type(&facts).is_empty());
        assert!(is_confirmed(&must_type(&facts), ""));
        assert_eq!(summary(&facts), "1 to change");
        assert_eq!(summary(&PlanFacts::default()), "nothing to do");
    }
}
