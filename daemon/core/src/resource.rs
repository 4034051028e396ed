//! Kinds of Kubernetes objects, as roles and paths name them.

use std::fmt;
use std::str::FromStr;

/// What Terraform may be let near, as `plural.group`, with the version of its path. RBAC, webhooks and CRDs
/// are missing on purpose, they could widen what anybody may do; and Secrets, which a plan would have to read.
const KNOWN: [(&str, &str, &str); 16] = [
    ("configmaps", "", "v1"),
    ("endpoints", "", "v1"),
    ("limitranges", "", "v1"),
    ("persistentvolumeclaims", "", "v1"),
    ("pods", "", "v1"),
    ("replicationcontrollers", "", "v1"),
    ("resourcequotas", "", "v1"),
    ("serviceaccounts", "", "v1"),
    ("services", "", "v1"),
    ("daemonsets", "apps", "v1"),
    ("deployments", "apps", "v1"),
    ("statefulsets", "apps", "v1"),
    ("cronjobs", "batch", "v1"),
    ("jobs", "batch", "v1"),
    ("ingresses", "networking.k8s.io", "v1"),
    ("networkpolicies", "networking.k8s.io", "v1"),
];

/// A kind of object in a namespace, e.g. `deployments.apps`; the core group has no dot: `pods`.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Resource {
    plural: &'static str,
    group: &'static str,
    version: &'static str,
}

impl Resource {
    /// `pods`
    pub const PODS: Self = Self {
        plural: "pods",
        group: "",
        version: "v1",
    };

    /// Every one there is.
    pub fn all() -> impl Iterator<Item = Self> {
        KNOWN.into_iter().map(|(plural, group, version)| Self {
            plural,
            group,
            version,
        })
    }

    /// Its API group; empty is the core group.
    #[must_use]
    pub const fn group(self) -> &'static str {
        self.group
    }

    /// Its name in paths and roles.
    #[must_use]
    pub const fn plural(self) -> &'static str {
        self.plural
    }

    /// Where the API server lists it in a namespace.
    #[must_use]
    pub fn path(self, namespace: &str) -> String {
        let Self {
            plural,
            group,
            version,
        } = self;
        match group {
            "" => format!("/api/{version}/namespaces/{namespace}/{plural}"),
            group => format!("/apis/{group}/{version}/namespaces/{namespace}/{plural}"),
        }
    }
}

/// Nothing by that name may be let near.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("is no kind Terraform may be let near; there are {}", Resource::all().map(|r| r.to_string()).collect::<Vec<_>>().join(", "))]
pub struct ResourceError;

impl FromStr for Resource {
    type Err = ResourceError;
    fn from_str(text: &str) -> Result<Self, ResourceError> {
        Self::all()
            .find(|r| r.to_string() == text)
            .ok_or(ResourceError)
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group {
            "" => f.write_str(self.plural),
            group => write!(f, "{}.{group}", self.plural),
        }
    }
}

impl<'de> serde::Deserialize<'de> for Resource {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        text.parse().map_err(|e| {
            serde::de::Error::custom(format!("{:?} {e}", text.escape_debug().to_string()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_read_as_it_is_shown_and_knows_its_path() {
        for resource in Resource::all() {
            assert_eq!(resource.to_string().parse(), Ok(resource));
        }
        let deployments: Resource = "deployments.apps".parse().unwrap();
        assert_eq!(
            deployments.path("demo-app"),
            "/apis/apps/v1/namespaces/demo-app/deployments"
        );
        assert_eq!("pods".parse(), Ok(Resource::PODS));
        assert_eq!(Resource::PODS.path("a"), "/api/v1/namespaces/a/pods");
        for bad in [
            "",
            "deployments",
            "secrets",
            "roles.rbac.authorization.k8s.io",
            "Pods",
        ] {
            assert!(bad.parse::<Resource>().is_err(), "{bad}");
        }
    }
}
