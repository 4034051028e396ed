//! What an agent may learn of a plan: no value, and no word that could be one.

use serde::Serialize;

use super::{Action, PlanFacts, address};

/// A plan without its values.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct AgentView {
    /// In the order of the facts: the most dangerous first.
    pub changes: Vec<AgentChange>,
    /// How many resources do not change.
    pub unchanged: u32,
    /// Names of outputs that change.
    pub outputs: Vec<String>,
    /// How many resources changed behind Terraform's back.
    pub drifted: usize,
}

/// One resource that changes, without its values.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct AgentChange {
    /// The address, with `*` for keys of `for_each`.
    pub address: String,
    /// create, update, replace, delete, forget, import, move or read.
    pub action: &'static str,
    /// Terraform's reason.
    pub reason: Option<String>,
    /// Names of the attributes that force a replacement.
    pub replace_paths: Vec<String>,
    /// Names of the attributes that change.
    pub attributes: Vec<String>,
}

impl Action {
    /// The word for it, here and in the approver's protocol.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Replace { .. } => "replace",
            Self::Delete => "delete",
            Self::Forget => "forget",
            Self::Import => "import",
            Self::Move => "move",
            Self::Read => "read",
        }
    }
}

impl PlanFacts {
    /// What an agent may learn.
    ///
    /// Keys of `for_each`, keys of maps and the names of objects are values too: a configuration can make them
    /// of what it read, so none of them is here.
    #[must_use]
    pub fn for_agent(&self) -> AgentView {
        let names = |paths: &mut dyn Iterator<Item = &String>| {
            let mut names: Vec<String> = paths.map(|path| super::path::names(path)).collect();
            names.sort_unstable();
            names.dedup();
            names
        };
        AgentView {
            changes: self
                .changes
                .iter()
                .map(|change| AgentChange {
                    address: address::without_keys(&change.address),
                    action: change.action.as_str(),
                    reason: change.reason.clone(),
                    replace_paths: names(&mut change.replace_paths.iter()),
                    attributes: names(&mut change.attributes.iter().map(|a| &a.path)),
                })
                .collect(),
            unchanged: self.unchanged,
            outputs: self
                .outputs
                .iter()
                .map(|output| output.name.clone())
                .collect(),
            drifted: self.drift.len(),
        }
    }
}
