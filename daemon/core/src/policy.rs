//! The policy: which principal may run which action where. Deciding changes nothing.
//!
//! Rules are read from the top; the first that matches decides; when none does, the answer is no.

mod condition;
mod file;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use crate::names::{NamespaceName, PrincipalName, RootName, RuleName};
use crate::parameters::ActionName;
use crate::plan::PlanFacts;

use condition::PlanCondition;

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
        file::read(yaml, reserved).map(|rules| Self { rules })
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

#[cfg(test)]
mod tests;
