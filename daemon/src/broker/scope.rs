//! What credentials are good for.

use sandbox_core::names::{NamespaceName, RootName};
use sandbox_core::resource::Resource;

/// What a credential is good for: one rung in one namespace.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Scope {
    pub(super) namespace: NamespaceName,
    pub(super) rung: String,
    /// What it may list there: how its token is tried.
    pub(super) listed: Resource,
}

impl Scope {
    /// To get and list pods.
    pub(crate) fn pod_reader(namespace: NamespaceName) -> Self {
        Self {
            namespace,
            rung: "pod-reader".to_owned(),
            listed: Resource::PODS,
        }
    }

    /// A rung of a Terraform root. `listed` is one of the root's kinds.
    pub(crate) fn of_root(
        rung: Rung,
        root: &RootName,
        namespace: NamespaceName,
        listed: Resource,
    ) -> Self {
        Self {
            namespace,
            rung: format!("{}-{root}", rung.as_str()),
            listed,
        }
    }

    /// The engine's role: `RUNG.NAMESPACE`.
    pub(crate) fn role(&self) -> String {
        format!("{}.{}", self.rung, self.namespace)
    }
}

/// How much a Terraform credential may do with the root's kinds in its namespace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rung {
    /// Read them.
    Plan,
    /// Also make and change them.
    Apply,
    /// Also delete them.
    ApplyDelete,
}

impl Rung {
    /// From the least to the most.
    pub const ALL: [Self; 3] = [Self::Plan, Self::Apply, Self::ApplyDelete];

    /// As it begins the names of engine roles and reviewed Roles.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Apply => "apply",
            Self::ApplyDelete => "apply-delete",
        }
    }
}
