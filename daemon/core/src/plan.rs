//! What a saved Terraform plan does, for people and for the policy.
//!
//! Read from `terraform show -json` of the plan file alone. What is not understood whole is refused: a plan
//! a human cannot be shown in full is one nobody can approve.

mod address;
mod agent;
mod checks;
mod dangers;
mod document;
mod facts;
mod json;
mod kinds;
mod object;
mod path;
mod pods;
mod refusal;
mod shown;
mod source;
mod unknown;
mod values;

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::names::NamespaceName;

pub use address::without_keys;
pub use agent::{AgentChange, AgentView};
pub use facts::MAX_PLAN_JSON;
pub use kinds::{KindName, kind_of_type, not_of_root};
pub use refusal::PlanRefusal;

/// The most changes a plan may have, unless a root says less.
pub const MAX_CHANGES: usize = 200;
/// The most bytes a plan may take to show.
pub const MAX_PLAN_BYTES: usize = 1024 * 1024;

/// What the plans of a root may hold.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PlanGuard {
    /// Where its objects live.
    pub namespaces: BTreeSet<NamespaceName>,
    /// Of which kinds they are. Kinds that give out rights are refused even when they stand here.
    pub kinds: BTreeSet<KindName>,
    /// The most changes.
    pub max_changes: usize,
    /// The most bytes of facts, written as JSON.
    pub max_bytes: usize,
}

/// Everything a plan does. Values of sensitive attributes are masked already.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct PlanFacts {
    /// The most dangerous first.
    pub dangers: Vec<Danger>,
    /// The most dangerous first, then by address. Without those that do nothing.
    pub changes: Vec<Change>,
    /// How many do nothing.
    pub unchanged: u32,
    /// Changed outputs. Import-, move- and output-only plans are not "no changes".
    pub outputs: Vec<OutputChange>,
    /// What changed behind Terraform's back since the state was written.
    pub drift: Vec<Change>,
    /// `check` blocks that fail or are unknown, a sentence each.
    pub checks: Vec<String>,
    /// The Terraform that made the plan.
    pub terraform_version: String,
    /// Every object an apply of this plan may write, and how: what the runner's proxy lets through.
    pub writes: Vec<Write>,
}

/// One reason to look twice.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Danger {
    /// How bad: 1 (data may be lost or rights widen) to 4 (worth a look).
    pub rank: u8,
    /// A stable word, e.g. `destroys`, `replaces`.
    pub kind: String,
    /// The live object.
    pub object: Option<LiveObject>,
    /// Where in the configuration.
    pub address: String,
    /// Why, in a sentence.
    pub why: String,
}

/// A Kubernetes object as the API server knows it. Facts are kept by it, not by address: a leftover of a
/// replacement shares an address, and a renamed address deletes and creates the same object.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct LiveObject {
    /// API group; empty is the core group.
    pub group: String,
    /// As in an object's `kind`, e.g. `Deployment`.
    pub kind: String,
    /// Plural, lower case, as in a path, e.g. `deployments`.
    pub resource: String,
    /// `None` for what has no namespace.
    pub namespace: Option<NamespaceName>,
    /// As Kubernetes takes it.
    pub name: String,
}

impl fmt::Display for LiveObject {
    /// `kind/namespace/name`, or `kind/name`: what a human types.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{}/{namespace}/{}", self.kind, self.name),
            None => write!(f, "{}/{}", self.kind, self.name),
        }
    }
}

/// What happens to one resource.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It is made.
    Create,
    /// It is changed in place.
    Update,
    /// It is destroyed and made anew.
    Replace {
        /// The new one is made first.
        create_before_destroy: bool,
    },
    /// It is destroyed.
    Delete,
    /// Terraform lets go of it, and it goes on living.
    Forget,
    /// An object that exists becomes Terraform's.
    Import,
    /// It gets another address.
    Move,
    /// A data source is read.
    Read,
}

/// One resource that changes.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Change {
    /// Where in the configuration.
    pub address: String,
    /// Where it was, if it moves.
    pub previous_address: Option<String>,
    /// The live object: the prior state's where there is one, else the planned one's.
    pub object: Option<LiveObject>,
    /// What happens.
    pub action: Action,
    /// Terraform's own reason, in words.
    pub reason: Option<String>,
    /// Attributes that force the replacement.
    pub replace_paths: Vec<String>,
    /// What changes in it.
    pub attributes: Vec<Attribute>,
    /// By which id it is imported.
    pub import_id: Option<String>,
}

/// One attribute that changes.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Attribute {
    /// e.g. `spec[0].replicas`.
    pub path: String,
    /// JSON, or `(sensitive)`, `(known after apply)`, `(none)`.
    pub before: String,
    /// As `before`.
    pub after: String,
    /// Whether it is masked.
    pub sensitive: bool,
    /// Whether it forces the replacement.
    pub forces_replacement: bool,
    /// Whether the provider fills it in while it applies, and nothing goes that anybody chose: the source
    /// does not set it, and before there was nothing, or what the provider alone decides, as a `uid`.
    #[serde(default)]
    pub filled_in: bool,
}

/// One output that changes.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct OutputChange {
    /// Its name.
    pub name: String,
    /// create, update, delete.
    pub action: String,
    /// As [`Attribute::before`].
    pub before: String,
    /// As [`Attribute::before`].
    pub after: String,
    /// Whether it is masked.
    pub sensitive: bool,
}

/// An object an apply may write, and how.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Write {
    /// Which.
    pub object: LiveObject,
    /// It may be made.
    pub create: bool,
    /// It may be changed.
    pub update: bool,
    /// It may be deleted.
    pub delete: bool,
    /// What a create or an update must not set, as JSON pointers into the object, e.g.
    /// `/spec/template/spec/volumes`: there, nothing, null, an empty text, list or object is all there may
    /// be.
    ///
    /// The provider fills these in when the configuration leaves them out, so the plan has them as known
    /// after apply. A `dynamic` block whose `for_each` is not known yet looks the same in a plan, and must
    /// not bring in after the approval what nobody saw.
    #[serde(default)]
    pub absent: Vec<String>,
}
