//! The form of the policy's file, and what must hold of it.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;
use serde_saphyr::Spanned;

use super::condition::PlanEntry;
use super::{Effect, MAX_POLICY_BYTES, MAX_RULES, PolicyError, Rule};
use crate::names::{NamespaceName, RootName, RuleName};
use crate::parameters::ActionName;

/// The rules of a file, in their order.
pub(super) fn read(yaml: &str, reserved: &[NamespaceName]) -> Result<Vec<Rule>, PolicyError> {
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
    Ok(rules)
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

pub(super) fn fault<T>(at: &Spanned<T>, problem: String) -> PolicyError {
    PolicyError {
        line: at.referenced.line(),
        column: at.referenced.column(),
        problem,
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}
