//! The policy: which principal may run which action where. Deciding changes nothing.
//!
//! Rules are read from the top; the first that matches decides; when none does, the answer is no.

mod condition;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde_saphyr::Spanned;

use crate::names::{NamespaceName, PrincipalName, RootName, RuleName};
use crate::parameters::ActionName;
use crate::plan::PlanFacts;

use condition::{PlanCondition, PlanEntry};

/// The largest policy file taken, in bytes.
pub const MAX_POLICY_BYTES: usize = 256 * 1024;
/// The most rules taken.
pub const MAX_RULES: usize = 1000;

/// A policy that was read whole and holds together.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Policy {
    rules: Vec<Rule>,
}

/// One rule. All of its conditions must hold for it to match.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rule {
    name: RuleName,
    /// `None`: every principal.
    principals: Option<BTreeSet<PrincipalName>>,
    actions: BTreeSet<ActionName>,
    /// Exact names. An action that touches a namespace matches only with one of them.
    namespaces: BTreeSet<NamespaceName>,
    /// Exact names. An action of a Terraform root matches only with one of them.
    roots: BTreeSet<RootName>,
    /// What must hold of a plan.
    plan: Option<PlanCondition>,
    effect: Effect,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Effect {
    Allow,
    RequireApproval {
        quorum: u32,
        expires_after: Duration,
    },
    Deny {
        reason: String,
    },
}

/// What is asked of the policy.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Who asks.
    pub principal: &'a PrincipalName,
    /// For which action.
    pub action: ActionName,
    /// In which namespace, if the action touches one.
    pub namespace: Option<&'a NamespaceName>,
    /// Of which Terraform root, if the action is about one.
    pub root: Option<&'a RootName>,
    /// What the plan does, once that is known.
    pub facts: Option<&'a PlanFacts>,
}

/// What the policy answers for one request. Working it out changes nothing.
#[must_use = "a decision that is dropped is neither enforced nor recorded"]
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Decision {
    /// It may run.
    Allow {
        /// The rule that says so.
        rule: RuleName,
    },
    /// It may once enough people said yes to just this.
    RequireApproval {
        /// The rule that says so.
        rule: RuleName,
        /// How many different people.
        quorum: u32,
        /// How long it waits for them, and for its use.
        expires_after: Duration,
    },
    /// It may not.
    Deny {
        /// The rule that says so; `None` when no rule matched.
        rule: Option<RuleName>,
        /// Why, for the agent and the audit.
        reason: String,
    },
}

/// Why a policy cannot be used, and where.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("line {line}, column {column}: {problem}")]
pub struct PolicyError {
    /// Counted from 1; 0 when the fault is the file as a whole.
    pub line: u64,
    /// Counted from 1.
    pub column: u64,
    /// What is wrong, as a clause.
    pub problem: String,
}

impl Policy {
    /// Reads a policy file. `reserved` are namespaces that may never be a target: the sandbox's, the
    /// issuer's, the probe's; `kube-*` never is.
    ///
    /// # Errors
    /// The first fault with its line and column. Unknown and repeated fields are faults.
    pub fn parse(yaml: &str, reserved: &[NamespaceName]) -> Result<Self, PolicyError> {
        let whole = |problem: String| PolicyError {
            line: 0,
            column: 0,
            problem,
        };
        if yaml.len() > MAX_POLICY_BYTES {
            return Err(whole(format!(
                "the file is over {MAX_POLICY_BYTES} bytes long"
            )));
        }
        let file: PolicyFile = serde_saphyr::from_str(yaml).map_err(|e| {
            let at = e.location();
            PolicyError {
                line: at.map_or(0, |l| l.line()),
                column: at.map_or(0, |l| l.column()),
                problem: first_line(&e.without_snippet().to_string()),
            }
        })?;
        if file.version.value != 1 {
            return Err(fault(&file.version, "version must be 1".to_owned()));
        }
        if file.rules.len() > MAX_RULES {
            return Err(whole(format!("there are over {MAX_RULES} rules")));
        }
        let mut rules: Vec<Rule> = Vec::with_capacity(file.rules.len());
        for rule in file.rules {
            if rules.iter().any(|r| r.name == rule.name.value) {
                return Err(fault(
                    &rule.name,
                    format!("there are two rules named {}", rule.name.value),
                ));
            }
            rules.push(rule.check(reserved)?);
        }
        Ok(Self { rules })
    }

    /// Answers one question.
    ///
    /// An apply is decided twice: when it is asked for, and again with `facts` before anything is opened or
    /// used for it. The first answer only turns away what can never be: a rule that asks for facts is passed
    /// over where it denies, and taken where it lets through. Only the second one counts.
    pub fn decide(&self, question: &Question<'_>) -> Decision {
        match self.rules.iter().find(|rule| rule.matches(question)) {
            Some(Rule {
                name,
                effect: Effect::Allow,
                ..
            }) => Decision::Allow { rule: name.clone() },
            Some(Rule {
                name,
                effect:
                    Effect::RequireApproval {
                        quorum,
                        expires_after,
                    },
                ..
            }) => Decision::RequireApproval {
                rule: name.clone(),
                quorum: *quorum,
                expires_after: *expires_after,
            },
            Some(Rule {
                name,
                effect: Effect::Deny { reason },
                ..
            }) => Decision::Deny {
                rule: Some(name.clone()),
                reason: reason.clone(),
            },
            None => Decision::Deny {
                rule: None,
                reason: self.nearest(question),
            },
        }
    }

    /// For each rule in order, whether it matches and if not, why: what `check-policy --explain` prints.
    #[must_use]
    pub fn explain(&self, question: &Question<'_>) -> Vec<(RuleName, Result<(), &'static str>)> {
        self.rules
            .iter()
            .map(|r| (r.name.clone(), r.mismatch(question).map_or(Ok(()), Err)))
            .collect()
    }

    /// The namespaces any rule names: those that credentials can be issued for.
    pub fn namespaces(&self) -> impl Iterator<Item = &NamespaceName> {
        self.rules
            .iter()
            .flat_map(|r| &r.namespaces)
            .collect::<BTreeSet<_>>()
            .into_iter()
    }

    /// The Terraform roots any rule names.
    pub fn roots(&self) -> impl Iterator<Item = &RootName> {
        self.rules
            .iter()
            .flat_map(|r| &r.roots)
            .collect::<BTreeSet<_>>()
            .into_iter()
    }

    /// The principals any rule names.
    pub fn principals(&self) -> impl Iterator<Item = &PrincipalName> {
        self.rules
            .iter()
            .filter_map(|r| r.principals.as_ref())
            .flatten()
    }

    /// The rules that ask people, each with how many it asks for.
    pub fn quorums(&self) -> impl Iterator<Item = (&RuleName, u32)> {
        self.rules.iter().filter_map(|rule| match rule.effect {
            Effect::RequireApproval { quorum, .. } => Some((&rule.name, quorum)),
            Effect::Allow | Effect::Deny { .. } => None,
        })
    }

    /// The rules there are.
    #[must_use]
    pub fn rule_count(&self) -> usize {
        self.rules.len()
    }

    /// Says which condition failed last in the rule that came closest; tells nothing about rules for
    /// other principals.
    fn nearest(&self, q: &Question<'_>) -> String {
        let mine = self.rules.iter().filter(|r| r.names(q.principal));
        let (mut any, mut for_action) = (false, false);
        for rule in mine {
            any = true;
            for_action |= rule.actions.contains(&q.action);
        }
        if let (true, Some(root)) = (for_action, q.root) {
            return format!(
                "no rule of the policy lets {} use {} with this plan of root {root}",
                q.principal, q.action
            );
        }
        match (any, for_action, q.namespace) {
            (true, true, Some(ns)) => {
                format!(
                    "no rule of the policy lets {} use {} in namespace {ns}",
                    q.principal, q.action
                )
            }
            (true, true, None) | (true, false, _) => {
                format!(
                    "no rule of the policy lets {} use {}",
                    q.principal, q.action
                )
            }
            (false, _, _) => format!("no rule of the policy names {}", q.principal),
        }
    }
}

impl Rule {
    fn names(&self, principal: &PrincipalName) -> bool {
        self.principals
            .as_ref()
            .is_none_or(|p| p.contains(principal))
    }

    fn matches(&self, question: &Question<'_>) -> bool {
        self.mismatch(question).is_none()
    }

    fn mismatch(&self, q: &Question<'_>) -> Option<&'static str> {
        if !self.names(q.principal) {
            Some("other principals")
        } else if !self.actions.contains(&q.action) {
            Some("other actions")
        } else if q.namespace.is_some_and(|ns| !self.namespaces.contains(ns)) {
            Some("other namespaces")
        } else if q.root.is_some_and(|root| !self.roots.contains(root)) {
            Some("other roots")
        } else {
            match (&self.plan, q.facts) {
                (Some(condition), Some(facts)) => condition.mismatch(facts),
                (Some(_), None) if matches!(self.effect, Effect::Deny { .. }) => {
                    Some("it asks what the plan does, which is not known yet")
                }
                (Some(_), None) | (None, _) => None,
            }
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allow { rule } => write!(f, "allow, by rule {rule}"),
            Self::RequireApproval {
                rule,
                quorum,
                expires_after,
            } => write!(
                f,
                "ask {quorum}, by rule {rule}, for {} minutes",
                expires_after.as_secs() / 60
            ),
            Self::Deny {
                rule: Some(rule),
                reason,
            } => write!(f, "deny, by rule {rule}: {reason}"),
            Self::Deny { rule: None, reason } => write!(f, "deny: {reason}"),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyFile {
    version: Spanned<u32>,
    rules: Vec<RuleEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleEntry {
    name: Spanned<RuleName>,
    principals: Vec<Spanned<String>>,
    actions: Vec<Spanned<String>>,
    #[serde(default)]
    namespaces: Vec<Spanned<NamespaceName>>,
    #[serde(default)]
    roots: Vec<Spanned<RootName>>,
    #[serde(default)]
    plan: Option<PlanEntry>,
    effect: EffectEntry,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum EffectEntry {
    Allow,
    RequireApproval(ApprovalEntry),
    Deny { reason: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ApprovalEntry {
    /// One person, where nothing is said.
    #[serde(default)]
    quorum: Option<Spanned<u32>>,
    /// Half an hour, where nothing is said.
    #[serde(default)]
    expires_after_minutes: Option<Spanned<u64>>,
}

impl RuleEntry {
    fn check(self, reserved: &[NamespaceName]) -> Result<Rule, PolicyError> {
        if self.principals.is_empty() {
            return Err(fault(
                &self.name,
                "principals is empty, so the rule can never match".to_owned(),
            ));
        }
        if self.actions.is_empty() {
            return Err(fault(
                &self.name,
                "actions is empty, so the rule can never match".to_owned(),
            ));
        }
        let principals = if self.principals.iter().any(|p| p.value == "*") {
            None
        } else {
            let name = |p: &Spanned<String>| {
                p.value
                    .parse()
                    .map_err(|e| fault(p, format!("the principal {e}")))
            };
            Some(self.principals.iter().map(name).collect::<Result<_, _>>()?)
        };
        let action = |a: &Spanned<String>| {
            ActionName::find(&a.value)
                .ok_or_else(|| fault(a, format!("there is no action {}", a.value.escape_debug())))
        };
        for ns in &self.namespaces {
            if ns.value.is_system() || reserved.contains(&ns.value) {
                let problem = format!("the namespace {} may never be a target", ns.value);
                return Err(fault(ns, problem));
            }
        }
        let actions = self
            .actions
            .iter()
            .map(action)
            .collect::<Result<BTreeSet<_>, _>>()?;
        let applies = actions.contains(&ActionName::TerraformApply);
        let of_roots =
            |a: &ActionName| matches!(a, ActionName::TerraformPlan | ActionName::TerraformApply);
        if actions.iter().any(of_roots) && self.roots.is_empty() {
            let problem = "roots is empty, so the rule can never match a plan or an apply";
            return Err(fault(&self.name, problem.to_owned()));
        }
        if self.plan.is_some() && actions.iter().any(|a| *a != ActionName::TerraformApply) {
            let problem = "plan is a condition of terraform_apply alone";
            return Err(fault(&self.name, problem.to_owned()));
        }
        let plan = self.plan.map(|plan| plan.check(&self.name)).transpose()?;
        let effect = match self.effect {
            EffectEntry::Allow if applies => {
                let problem = "an apply cannot be allowed without people: use require_approval";
                return Err(fault(&self.name, problem.to_owned()));
            }
            EffectEntry::RequireApproval(_)
                if actions.iter().any(|a| *a != ActionName::TerraformApply) =>
            {
                let problem = "require_approval is for terraform_apply alone";
                return Err(fault(&self.name, problem.to_owned()));
            }
            EffectEntry::Allow => Effect::Allow,
            EffectEntry::RequireApproval(entry) => entry.check()?,
            EffectEntry::Deny { reason } => Effect::Deny { reason },
        };
        Ok(Rule {
            actions,
            name: self.name.value,
            principals,
            namespaces: self.namespaces.into_iter().map(|ns| ns.value).collect(),
            roots: self.roots.into_iter().map(|root| root.value).collect(),
            plan,
            effect,
        })
    }
}

impl ApprovalEntry {
    fn check(self) -> Result<Effect, PolicyError> {
        if let Some(at) = self
            .quorum
            .as_ref()
            .filter(|q| !(1..=10).contains(&q.value))
        {
            return Err(fault(at, "quorum must be from 1 to 10".to_owned()));
        }
        let minutes = self.expires_after_minutes;
        if let Some(at) = minutes.as_ref().filter(|m| !(1..=1440).contains(&m.value)) {
            let problem = "expires_after_minutes must be from 1 to 1440";
            return Err(fault(at, problem.to_owned()));
        }
        Ok(Effect::RequireApproval {
            quorum: self.quorum.map_or(1, |q| q.value),
            expires_after: Duration::from_secs(60 * minutes.map_or(30, |m| m.value)),
        })
    }
}

fn fault<T>(at: &Spanned<T>, problem: String) -> PolicyError {
    PolicyError {
        line: at.referenced.line(),
        column: at.referenced.column(),
        problem,
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SHIPPED: &str = include_str!("../../../policy/policy.yaml");

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
}
