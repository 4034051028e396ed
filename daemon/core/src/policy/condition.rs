//! What a rule may ask of a plan.

use serde::Deserialize;
use serde_saphyr::Spanned;

use super::PolicyError;
use super::file::fault;
use crate::plan::{Action, PlanFacts};

/// All of it must hold.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct PlanCondition {
    /// Every change is one of these.
    only: Option<Vec<Kind>>,
    /// One change at least is one of these.
    any: Option<Vec<Kind>>,
    /// There are no more changes than this.
    max_changes: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlanEntry {
    #[serde(default)]
    only_actions: Option<Vec<Kind>>,
    #[serde(default)]
    any_action: Option<Vec<Kind>>,
    #[serde(default)]
    max_changes: Option<Spanned<usize>>,
}

/// What happens to a resource, as a policy names it.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Create,
    Update,
    Replace,
    Delete,
    Forget,
    Import,
    Move,
    Read,
}

impl From<Action> for Kind {
    fn from(action: Action) -> Self {
        match action {
            Action::Create => Self::Create,
            Action::Update => Self::Update,
            Action::Replace { .. } => Self::Replace,
            Action::Delete => Self::Delete,
            Action::Forget => Self::Forget,
            Action::Import => Self::Import,
            Action::Move => Self::Move,
            Action::Read => Self::Read,
        }
    }
}

impl PlanEntry {
    pub(super) fn check(
        self,
        rule: &Spanned<crate::names::RuleName>,
    ) -> Result<PlanCondition, PolicyError> {
        if self.only_actions.is_none() && self.any_action.is_none() && self.max_changes.is_none() {
            return Err(fault(rule, "plan says nothing".to_owned()));
        }
        Ok(PlanCondition {
            only: self.only_actions,
            any: self.any_action,
            max_changes: self.max_changes.map(|n| n.value),
        })
    }
}

impl PlanCondition {
    /// Why it does not hold; `None` when it does.
    pub(super) fn mismatch(&self, facts: &PlanFacts) -> Option<&'static str> {
        let mut kinds = facts.changes.iter().map(|change| Kind::from(change.action));
        if let Some(only) = &self.only
            && kinds.clone().any(|kind| !only.contains(&kind))
        {
            return Some("the plan does something else too");
        }
        if let Some(any) = &self.any
            && !kinds.any(|kind| any.contains(&kind))
        {
            return Some("the plan does none of this");
        }
        if self
            .max_changes
            .is_some_and(|max| facts.changes.len() > max)
        {
            return Some("the plan has more changes");
        }
        None
    }
}

#[cfg(test)]
pub(super) fn change(action: Action) -> crate::plan::Change {
    crate::plan::Change {
        address: "terraform_data.a".to_owned(),
        previous_address: None,
        object: None,
        action,
        reason: None,
        replace_paths: Vec::new(),
        attributes: Vec::new(),
        import_id: None,
    }
}
