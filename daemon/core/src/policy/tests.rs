use super::*;
use proptest::prelude::*;

const SHIPPED: &str = include_str!("../../../../policy/policy.yaml");

fn parse(yaml: &str) -> Result<Policy, PolicyError> {
    Policy::parse(
        yaml,
        &[
            "sandbox-jobs".parse().unwrap(),
            "sandbox-issuer".parse().unwrap(),
        ],
    )
}

fn ask(policy: &Policy, principal: &str, namespace: &str) -> Decision {
    policy.decide(&Question {
        principal: &principal.parse().unwrap(),
        action: ActionName::PodStatus,
        namespace: Some(&namespace.parse().unwrap()),
        root: None,
        facts: None,
    })
}

fn ask_apply(policy: &Policy, root: &str, facts: Option<&PlanFacts>) -> String {
    let question = Question {
        principal: &"demo-agent".parse().unwrap(),
        action: ActionName::TerraformApply,
        namespace: None,
        root: Some(&root.parse().unwrap()),
        facts,
    };
    policy.decide(&question).to_string()
}

#[test]
fn the_shipped_policy_lets_the_demo_agent_read_pods_of_the_demo_alone() {
    let policy = parse(SHIPPED).unwrap();
    assert!(matches!(
        ask(&policy, "demo-agent", "demo-app"),
        Decision::Allow { .. }
    ));
    assert!(matches!(
        ask(&policy, "demo-agent", "default"),
        Decision::Deny { .. }
    ));
    assert!(matches!(
        ask(&policy, "demo-agent", "kube-system"),
        Decision::Deny { .. }
    ));
    assert!(matches!(
        ask(&policy, "someone", "demo-app"),
        Decision::Deny { .. }
    ));
}

#[test]
fn the_first_matching_rule_wins() {
    let policy = parse(
        "version: 1\nrules:\n- {name: a, principals: [p], actions: [k8s_get_pod_status], namespaces: [x], effect: {deny: {reason: closed today}}}\n- {name: b, principals: ['*'], actions: [k8s_get_pod_status], namespaces: [x, y], effect: allow}\n",
    )
    .unwrap();
    assert_eq!(
        ask(&policy, "p", "x").to_string(),
        "deny, by rule a: closed today"
    );
    assert_eq!(ask(&policy, "p", "y").to_string(), "allow, by rule b");
    assert_eq!(ask(&policy, "q", "x").to_string(), "allow, by rule b");
    let question = Question {
        principal: &"p".parse().unwrap(),
        action: ActionName::PodStatus,
        namespace: Some(&"y".parse().unwrap()),
        root: None,
        facts: None,
    };
    let why: Vec<_> = policy
        .explain(&question)
        .into_iter()
        .map(|(_, w)| w)
        .collect();
    assert_eq!(why, [Err("other namespaces"), Ok(())]);
}

#[test]
fn without_a_match_the_answer_is_no_and_says_how_near_it_was() {
    let policy = parse(
        "version: 1\nrules:\n- {name: a, principals: [p], actions: [k8s_get_pod_status], namespaces: [x], effect: allow}\n",
    )
    .unwrap();
    assert_eq!(
        ask(&policy, "p", "z").to_string(),
        "deny: no rule of the policy lets p use k8s_get_pod_status in namespace z"
    );
    assert_eq!(
        ask(&policy, "q", "x").to_string(),
        "deny: no rule of the policy names q"
    );
    assert!(matches!(
        ask(&parse("version: 1\nrules: []\n").unwrap(), "p", "x"),
        Decision::Deny { rule: None, .. }
    ));
}

#[test]
fn a_fault_is_named_with_its_place() {
    let head =
        "version: 1\nrules:\n- name: a\n  principals: [p]\n  actions: [k8s_get_pod_status]\n";
    for (yaml, line, problem) in [
        (
            format!("{head}  namespaces: [kube-system]\n  effect: allow\n"),
            6,
            "never be a target",
        ),
        (
            format!("{head}  namespaces: [sandbox-jobs]\n  effect: allow\n"),
            6,
            "never be a target",
        ),
        (
            format!("{head}  namespaces: [Demo]\n  effect: allow\n"),
            6,
            "character D",
        ),
        (
            format!("{head}  namespaces: ['*']\n  effect: allow\n"),
            6,
            "character *",
        ),
        (
            format!("{head}  colour: red\n  effect: allow\n"),
            6,
            "colour",
        ),
        (format!("{head}  effect: maybe\n"), 6, "maybe"),
        (
            format!("{head}  effect: allow\n  effect: allow\n"),
            7,
            "effect",
        ),
        ("version: 2\nrules: []\n".to_owned(), 1, "version must be 1"),
        (
            head.replace("k8s_get_pod_status", "k8s_rm_rf") + "  effect: allow\n",
            5,
            "no action k8s_rm_rf",
        ),
    ] {
        let e = parse(&yaml).unwrap_err();
        assert!(e.problem.contains(problem), "{yaml}\n{e}");
        assert_eq!(e.line, line, "{yaml}\n{e}");
    }
}

#[test]
fn the_shipped_policy_asks_one_person_for_every_apply_of_the_demo() {
    let policy = parse(SHIPPED).unwrap();
    let facts = PlanFacts::default();
    for facts in [None, Some(&facts)] {
        assert_eq!(
            ask_apply(&policy, "demo", facts),
            "ask 1, by rule people-approve-demo-applies, for 30 minutes"
        );
        assert!(ask_apply(&policy, "other", facts).starts_with("deny"));
    }
}

#[test]
fn what_a_plan_does_decides_once_it_is_known() {
    use crate::plan::Action::{Create, Delete, Forget, Update};

    let policy = parse(
        "version: 1\nrules:\n- {name: no-deletes, principals: ['*'], actions: [terraform_apply], roots: [r], \
         plan: {any_action: [delete, replace]}, effect: {deny: {reason: nothing is destroyed here}}}\n\
         - {name: small, principals: ['*'], actions: [terraform_apply], roots: [r], \
         plan: {only_actions: [create, update], max_changes: 2}, effect: {require_approval: {}}}\n\
         - {name: rest, principals: ['*'], actions: [terraform_apply], roots: [r], \
         effect: {require_approval: {quorum: 2, expires_after_minutes: 5}}}\n",
    )
    .unwrap();
    let plan = |actions: &[crate::plan::Action]| PlanFacts {
        changes: actions.iter().map(|a| condition::change(*a)).collect(),
        ..PlanFacts::default()
    };
    for (actions, answer) in [
        (
            &[Create, Update][..],
            "ask 1, by rule small, for 30 minutes",
        ),
        (
            &[Create, Update, Create],
            "ask 2, by rule rest, for 5 minutes",
        ),
        (&[Forget], "ask 2, by rule rest, for 5 minutes"),
        (
            &[Create, Delete],
            "deny, by rule no-deletes: nothing is destroyed here",
        ),
    ] {
        assert_eq!(ask_apply(&policy, "r", Some(&plan(actions))), answer);
    }
    // Before it is known, nothing is denied that could still be let through.
    assert!(ask_apply(&policy, "r", None).starts_with("ask 1, by rule small"));
}

#[test]
fn an_apply_is_never_allowed_and_nothing_else_waits_for_people() {
    for (rule, problem) in [
        (
            "actions: [terraform_apply], roots: [r], effect: allow",
            "without people",
        ),
        (
            "actions: [terraform_apply], effect: {require_approval: {}}",
            "roots is empty",
        ),
        ("actions: [terraform_plan], effect: allow", "roots is empty"),
        (
            "actions: [terraform_plan], roots: [r], effect: {require_approval: {}}",
            "terraform_apply alone",
        ),
        (
            "actions: [terraform_plan], roots: [r], plan: {max_changes: 1}, effect: allow",
            "terraform_apply alone",
        ),
        (
            "actions: [terraform_apply], roots: [r], effect: {require_approval: {quorum: 0}}",
            "from 1 to 10",
        ),
        (
            "actions: [terraform_apply], roots: [r], effect: {require_approval: {expires_after_minutes: 1441}}",
            "from 1 to 1440",
        ),
        (
            "actions: [terraform_apply], roots: [r], plan: {only_actions: [destroy]}, effect: {require_approval: {}}",
            "destroy",
        ),
        (
            "actions: [terraform_apply], roots: [r], plan: {}, effect: {require_approval: {}}",
            "says nothing",
        ),
    ] {
        let e = parse(&format!(
            "version: 1\nrules:\n- {{name: a, principals: ['*'], {rule}}}\n"
        ));
        let e = e.unwrap_err();
        assert!(e.problem.contains(problem), "{rule}: {e}");
        assert_eq!(e.line, 3, "{rule}: {e}");
    }
}

#[test]
fn two_rules_of_one_name_and_rules_that_never_match_are_faults() {
    let rule = "{name: a, principals: [p], actions: [k8s_get_pod_status], effect: allow}";
    assert!(parse(&format!("version: 1\nrules:\n- {rule}\n- {rule}\n")).is_err());
    assert!(
        parse(&format!(
            "version: 1\nrules:\n- {}\n",
            rule.replace("[p]", "[]")
        ))
        .is_err()
    );
}

#[test]
fn hostile_policy_is_refused_in_time() {
    let mut bomb = "version: 1\na: &a [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for (outer, inner) in ('b'..='j').zip('a'..) {
        let nine = vec![format!("*{inner}"); 9].join(",");
        bomb.extend([
            "",
            &outer.to_string(),
            ": &",
            &outer.to_string(),
            " [",
            &nine,
            "]\n",
        ]);
    }
    assert!(parse(&bomb).is_err());
    assert!(parse(&"[".repeat(100_000)).is_err());
    assert!(parse(&" ".repeat(MAX_POLICY_BYTES + 1)).is_err());
}

proptest! {
    #[test]
    fn no_text_makes_parsing_panic(s in "\\PC{0,300}") {
        drop(parse(&s));
    }
}
