//! Every principal of a test policy × every action × namespaces that matter, as one table that a
//! reviewer can read. A change of access is a change of `golden/decisions.txt`; a new action without a
//! row fails.
//!
//! After a change that is meant: `UPDATE_GOLDEN=1 cargo test -p sandbox-core --test golden_decisions`.

#![cfg(test)]

use std::fmt::Write as _;

use sandbox_core::names::{NamespaceName, PrincipalName, RootName};
use sandbox_core::parameters::ActionName;
use sandbox_core::policy::{Decision, Policy, Question};

const POLICY: &str = "
version: 1
rules:
  - name: nobody-in-legacy
    principals: ['*']
    actions: [k8s_get_pod_status]
    namespaces: [legacy]
    effect: {deny: {reason: legacy is being taken down}}
  - name: readers
    principals: [agent, agent-ro]
    actions: [k8s_get_pod_status]
    namespaces: [demo-app]
    effect: allow
  - name: agent-elsewhere
    principals: [agent]
    actions: [k8s_get_pod_status]
    namespaces: [staging, legacy]
    effect: allow
  - name: planners
    principals: [agent, agent-ro]
    actions: [terraform_plan]
    roots: [demo]
    effect: allow
  - name: applies
    principals: [agent]
    actions: [terraform_apply]
    roots: [demo]
    effect: {require_approval: {quorum: 1}}
  - name: payments
    principals: [agent]
    actions: [terraform_plan]
    roots: [payments]
    effect: allow
  - name: payments-applies
    principals: [agent]
    actions: [terraform_apply]
    roots: [payments]
    effect: {require_approval: {quorum: 2, expires_after_minutes: 10}}
";

/// Where an action is asked for.
enum Place {
    Namespace(NamespaceName),
    Root(RootName),
}

fn places(action: ActionName) -> Vec<(&'static str, Place)> {
    let (namespaces, roots): (&[_], &[_]) = match action {
        ActionName::PodStatus | ActionName::GetRequest => (
            &[
                "demo-app",
                "staging",
                "legacy",
                "kube-system",
                "sandbox-jobs",
            ],
            &[],
        ),
        ActionName::TerraformPlan | ActionName::TerraformApply => {
            (&[], &["demo", "payments", "other"])
        }
    };
    let namespaces = namespaces
        .iter()
        .map(|name| (*name, Place::Namespace(name.parse().unwrap())));
    let roots = roots
        .iter()
        .map(|name| (*name, Place::Root(name.parse().unwrap())));
    namespaces.chain(roots).collect()
}

fn table() -> String {
    let policy = Policy::parse(POLICY, &[]).unwrap();
    let principals = ["agent", "agent-ro", "approver", "unknown"];
    let mut table = format!("{:<42}", "");
    for principal in principals {
        write!(table, "{principal:<34}").unwrap();
    }
    for action in ActionName::ALL {
        for (name, place) in places(action) {
            write!(table, "\n{:<42}", format!("{action} {name}")).unwrap();
            for principal in principals {
                let principal: PrincipalName = principal.parse().unwrap();
                let (namespace, root) = match &place {
                    Place::Namespace(namespace) => (Some(namespace), None),
                    Place::Root(root) => (None, Some(root)),
                };
                let question = Question {
                    principal: &principal,
                    action,
                    namespace,
                    root,
                    facts: None,
                };
                let cell = match policy.decide(&question) {
                    Decision::Allow { rule } => format!("allow ({rule})"),
                    Decision::RequireApproval { rule, quorum, .. } => {
                        format!("ask {quorum} ({rule})")
                    }
                    Decision::Deny {
                        rule: Some(rule), ..
                    } => format!("deny ({rule})"),
                    Decision::Deny { rule: None, .. } => "deny".to_owned(),
                };
                write!(table, "{cell:<34}").unwrap();
            }
        }
    }
    let trimmed: Vec<&str> = table.lines().map(str::trim_end).collect();
    trimmed.join("\n") + "\n"
}

#[test]
fn decisions_are_the_ones_that_were_reviewed() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/decisions.txt");
    let table = table();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &table).unwrap();
    }
    let reviewed = std::fs::read_to_string(path).unwrap();
    assert!(table == reviewed, "the decisions are now:\n{table}");
}
