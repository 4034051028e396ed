//! Which types of the providers are which kinds of Kubernetes, and which are never taken.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::names::{NameError, check_length};

/// A kind, as in a path: the plural in lower case, and its API group unless it is the core group, e.g.
/// `deployments.apps`, `services`.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct KindName {
    resource: String,
    group: String,
}

impl KindName {
    /// The plural, lower case.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// The API group; empty is the core group.
    #[must_use]
    pub fn group(&self) -> &str {
        &self.group
    }

    /// Why no root may ever write this kind, if so.
    #[must_use]
    pub fn forbidden(&self) -> Option<&'static str> {
        forbidden(&self.group, &self.resource)
    }
}

impl FromStr for KindName {
    type Err = NameError;
    fn from_str(s: &str) -> Result<Self, NameError> {
        const ALLOWED: &str = "a-z, 0-9, '-' and '.'";
        check_length(s, 253)?;
        for (index, c) in s.chars().enumerate() {
            if !matches!(c, 'a'..='z' | '0'..='9' | '-' | '.') {
                return Err(NameError::Character {
                    character: c.escape_debug().to_string(),
                    position: index + 1,
                    allowed: ALLOWED,
                });
            }
        }
        let (resource, group) = s.split_once('.').unwrap_or((s, ""));
        let edges = |part: &str| part.starts_with('-') || part.ends_with('-') || part.is_empty();
        if edges(resource) || (s.contains('.') && group.split('.').any(edges)) {
            return Err(NameError::Grammar(
                "must be a plural and its API group, as in deployments.apps".to_owned(),
            ));
        }
        Ok(Self {
            resource: resource.to_owned(),
            group: group.to_owned(),
        })
    }
}

impl fmt::Display for KindName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource)?;
        if self.group.is_empty() {
            return Ok(());
        }
        write!(f, ".{}", self.group)
    }
}

impl Serialize for KindName {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for KindName {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        text.parse().map_err(|e| {
            serde::de::Error::custom(format!("{:?} {e}", text.escape_debug().to_string()))
        })
    }
}

/// What is known of a kind.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Kind {
    /// Type of the Kubernetes provider, without `kubernetes_` and the version behind it.
    pub(super) type_name: &'static str,
    pub(super) group: &'static str,
    pub(super) name: &'static str,
    pub(super) resource: &'static str,
    pub(super) namespaced: bool,
    /// What it holds is lost with it.
    pub(super) holds_data: bool,
}

const fn kind(
    type_name: &'static str,
    group: &'static str,
    kind: &'static str,
    resource: &'static str,
) -> Kind {
    Kind {
        type_name,
        group,
        name: kind,
        resource,
        namespaced: true,
        holds_data: false,
    }
}

impl Kind {
    const fn cluster(self) -> Self {
        Self {
            namespaced: false,
            ..self
        }
    }

    const fn data(self) -> Self {
        Self {
            holds_data: true,
            ..self
        }
    }
}

/// The kinds that a plan may write, if the root lists them.
const KINDS: &[Kind] = &[
    kind("config_map", "", "ConfigMap", "configmaps").data(),
    kind("cron_job", "batch", "CronJob", "cronjobs"),
    kind("csi_driver", "storage.k8s.io", "CSIDriver", "csidrivers").cluster(),
    kind("daemon_set", "apps", "DaemonSet", "daemonsets"),
    kind("daemonset", "apps", "DaemonSet", "daemonsets"),
    kind(
        "default_service_account",
        "",
        "ServiceAccount",
        "serviceaccounts",
    ),
    kind("deployment", "apps", "Deployment", "deployments"),
    kind(
        "endpoint_slice",
        "discovery.k8s.io",
        "EndpointSlice",
        "endpointslices",
    ),
    kind("endpoints", "", "Endpoints", "endpoints"),
    kind(
        "horizontal_pod_autoscaler",
        "autoscaling",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
    ),
    kind("ingress", "networking.k8s.io", "Ingress", "ingresses"),
    kind(
        "ingress_class",
        "networking.k8s.io",
        "IngressClass",
        "ingressclasses",
    )
    .cluster(),
    kind("job", "batch", "Job", "jobs"),
    kind("limit_range", "", "LimitRange", "limitranges"),
    kind("namespace", "", "Namespace", "namespaces")
        .cluster()
        .data(),
    kind(
        "network_policy",
        "networking.k8s.io",
        "NetworkPolicy",
        "networkpolicies",
    ),
    kind(
        "persistent_volume",
        "",
        "PersistentVolume",
        "persistentvolumes",
    )
    .cluster()
    .data(),
    kind(
        "persistent_volume_claim",
        "",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
    )
    .data(),
    kind("pod", "", "Pod", "pods"),
    kind(
        "pod_disruption_budget",
        "policy",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
    ),
    kind(
        "priority_class",
        "scheduling.k8s.io",
        "PriorityClass",
        "priorityclasses",
    )
    .cluster(),
    kind(
        "replication_controller",
        "",
        "ReplicationController",
        "replicationcontrollers",
    ),
    kind("resource_quota", "", "ResourceQuota", "resourcequotas"),
    kind(
        "runtime_class",
        "node.k8s.io",
        "RuntimeClass",
        "runtimeclasses",
    )
    .cluster(),
    kind("secret", "", "Secret", "secrets").data(),
    kind("service", "", "Service", "services"),
    kind("service_account", "", "ServiceAccount", "serviceaccounts"),
    kind("stateful_set", "apps", "StatefulSet", "statefulsets").data(),
    kind(
        "storage_class",
        "storage.k8s.io",
        "StorageClass",
        "storageclasses",
    )
    .cluster(),
    // Manifests alone have these.
    kind("", "apps", "ReplicaSet", "replicasets"),
    kind("", "coordination.k8s.io", "Lease", "leases"),
];

/// The Ingress of the old provider, which a cluster of today does not serve any more.
const OLD_INGRESS: Kind = kind("ingress", "extensions", "Ingress", "ingresses");

const RIGHTS: &str = "gives out rights";
const ADMISSION: &str = "changes what the API server lets in for everyone";
const SERVES: &str = "changes what the API server serves";
const OTHERS: &str = "writes into an object that someone else manages";

/// Types of the Kubernetes provider that are never taken, and why.
const NEVER: &[(&str, &str)] = &[
    ("annotations", OTHERS),
    ("api_service", SERVES),
    ("certificate_signing_request", RIGHTS),
    ("cluster_role", RIGHTS),
    ("cluster_role_binding", RIGHTS),
    ("config_map_data", OTHERS),
    ("custom_resource_definition", SERVES),
    ("env", OTHERS),
    ("labels", OTHERS),
    ("mutating_webhook_configuration", ADMISSION),
    ("node_taint", OTHERS),
    ("pod_security_policy", ADMISSION),
    ("role", RIGHTS),
    ("role_binding", RIGHTS),
    ("secret_data", OTHERS),
    ("token_request", RIGHTS),
    ("validating_admission_policy", ADMISSION),
    ("validating_webhook_configuration", ADMISSION),
];

/// Why a kind may never be written, if so.
pub(super) fn forbidden(group: &str, resource: &str) -> Option<&'static str> {
    match (group, resource) {
        (
            "rbac.authorization.k8s.io"
            | "authorization.k8s.io"
            | "authentication.k8s.io"
            | "certificates.k8s.io",
            _,
        ) => Some(RIGHTS),
        ("admissionregistration.k8s.io", _) | ("policy" | "extensions", "podsecuritypolicies") => {
            Some(ADMISSION)
        }
        ("apiextensions.k8s.io" | "apiregistration.k8s.io", _) => Some(SERVES),
        ("", "nodes" | "bindings") | ("metrics.k8s.io", _) => Some(OTHERS),
        _ => None,
    }
}

/// What a type of resource stands for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Type {
    /// One kind of Kubernetes.
    Kind(Kind),
    /// `kubernetes_manifest`: says itself of which kind it is.
    Manifest,
    /// Lives in the state alone.
    Lifeless,
    /// Never taken, with why.
    Never(&'static str),
    /// Nobody knows.
    Unmapped,
}

/// What `type_name` of `provider` (host, namespace, name) stands for.
pub(super) fn of_type(provider: &str, type_name: &str) -> Type {
    let source = provider.split_once('/').map_or("", |(_, source)| source);
    match source {
        "hashicorp/kubernetes" => type_name
            .strip_prefix("kubernetes_")
            .map_or(Type::Unmapped, of_kubernetes),
        "builtin/terraform" if type_name == "terraform_data" => Type::Lifeless,
        "hashicorp/null" if type_name == "null_resource" => Type::Lifeless,
        "hashicorp/random" if type_name.starts_with("random_") => Type::Lifeless,
        "hashicorp/time" if type_name.starts_with("time_") => Type::Lifeless,
        // It could write over the state or the configuration that Terraform runs on.
        "hashicorp/local" => Type::Never("writes files where Terraform itself runs"),
        _ => Type::Unmapped,
    }
}

/// The kind that a type of resource of `provider` (host, namespace, name) writes. `None` for what lives in the
/// state alone, and for a manifest, whose kind is one of its values.
///
/// # Errors
/// Why no root may have such a resource, as a clause.
pub fn kind_of_type(provider: &str, type_name: &str) -> Result<Option<KindName>, String> {
    match of_type(provider, type_name) {
        Type::Lifeless | Type::Manifest => Ok(None),
        Type::Kind(kind) => Ok(Some(KindName {
            resource: kind.resource.to_owned(),
            group: kind.group.to_owned(),
        })),
        Type::Never(why) => Err(format!("it {why}")),
        Type::Unmapped => Err("nobody knows which kind of object it is".to_owned()),
    }
}

/// Why a root of these kinds may not have a resource of that type in its state; `None` when it may. Of a
/// manifest the first plan says.
#[must_use]
pub fn not_of_root(provider: &str, type_name: &str, kinds: &BTreeSet<KindName>) -> Option<String> {
    match kind_of_type(provider, type_name) {
        Ok(None) => None,
        Ok(Some(kind)) => {
            (!kinds.contains(&kind)).then(|| format!("the root has no {}", kind.resource))
        }
        Err(why) => Some(why),
    }
}

fn of_kubernetes(name: &str) -> Type {
    if name == "manifest" {
        return Type::Manifest;
    }
    let versionless = without_version(name);
    if let Some((_, why)) = NEVER.iter().find(|(never, _)| *never == versionless) {
        return Type::Never(why);
    }
    if name == "ingress" {
        return Type::Kind(OLD_INGRESS);
    }
    KINDS
        .iter()
        .find(|kind| kind.type_name == versionless)
        .map_or(Type::Unmapped, |kind| Type::Kind(*kind))
}

/// `config_map_v1_data` is `config_map_data`, `horizontal_pod_autoscaler_v2beta2` has none behind it.
fn without_version(name: &str) -> String {
    let version = |part: &&str| {
        let mut bytes = part.bytes();
        bytes.next() == Some(b'v') && bytes.next().is_some_and(|b| b.is_ascii_digit())
    };
    let parts: Vec<&str> = name.split('_').filter(|part| !version(part)).collect();
    parts.join("_")
}

/// The kind of a manifest, if it is one that is known.
pub(super) fn of_manifest(group: &str, kind: &str) -> Option<Kind> {
    KINDS
        .iter()
        .find(|known| known.group == group && known.name == kind)
        .copied()
}

/// The plural that Kubernetes itself would give a kind.
pub(super) fn plural(kind: &str) -> String {
    let lower = kind.to_ascii_lowercase();
    if let Some(stem) = lower.strip_suffix('y')
        && !stem.ends_with(['a', 'e', 'i', 'o', 'u'])
    {
        return format!("{stem}ies");
    }
    if lower.ends_with(['s', 'x', 'z']) || lower.ends_with("ch") || lower.ends_with("sh") {
        return format!("{lower}es");
    }
    format!("{lower}s")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROVIDER: &str = "registry.terraform.io/hashicorp/kubernetes";

    fn kubernetes(type_name: &str) -> Type {
        of_type(PROVIDER, type_name)
    }

    #[test]
    fn versions_of_a_type_are_one_kind() {
        for (type_name, resource, group) in [
            ("kubernetes_deployment", "deployments", "apps"),
            ("kubernetes_deployment_v1", "deployments", "apps"),
            ("kubernetes_daemonset", "daemonsets", "apps"),
            ("kubernetes_daemon_set_v1", "daemonsets", "apps"),
            (
                "kubernetes_horizontal_pod_autoscaler_v2beta2",
                "horizontalpodautoscalers",
                "autoscaling",
            ),
            ("kubernetes_ingress", "ingresses", "extensions"),
            ("kubernetes_ingress_v1", "ingresses", "networking.k8s.io"),
            ("kubernetes_namespace", "namespaces", ""),
        ] {
            let Type::Kind(kind) = kubernetes(type_name) else {
                panic!("{type_name} is not mapped");
            };
            assert_eq!(
                (kind.resource, kind.group),
                (resource, group),
                "{type_name}"
            );
        }
    }

    #[test]
    fn plurals_are_those_of_the_table() {
        for known in KINDS.iter().filter(|k| k.name != "Endpoints") {
            assert_eq!(plural(known.name), known.resource, "{}", known.name);
        }
    }

    #[test]
    fn rights_admission_and_objects_of_others_are_never_taken() {
        for type_name in [
            "kubernetes_role",
            "kubernetes_role_v1",
            "kubernetes_role_binding",
            "kubernetes_cluster_role",
            "kubernetes_cluster_role_binding_v1",
            "kubernetes_certificate_signing_request",
            "kubernetes_api_service",
            "kubernetes_pod_security_policy",
            "kubernetes_mutating_webhook_configuration_v1",
            "kubernetes_validating_webhook_configuration",
            "kubernetes_config_map_v1_data",
            "kubernetes_labels",
            "kubernetes_token_request_v1",
        ] {
            assert!(
                matches!(kubernetes(type_name), Type::Never(_)),
                "{type_name}"
            );
        }
        for kind in [
            "roles.rbac.authorization.k8s.io",
            "customresourcedefinitions.apiextensions.k8s.io",
            "validatingwebhookconfigurations.admissionregistration.k8s.io",
            "nodes",
        ] {
            assert!(
                kind.parse::<KindName>().unwrap().forbidden().is_some(),
                "{kind}"
            );
        }
        assert_eq!("secrets".parse::<KindName>().unwrap().forbidden(), None);
    }

    #[test]
    fn a_type_of_another_provider_is_not_what_its_name_says() {
        for (provider, type_name) in [
            (
                "registry.terraform.io/evil/kubernetes",
                "kubernetes_deployment",
            ),
            ("kubernetes", "kubernetes_deployment"),
            (PROVIDER, "helm_release"),
            (PROVIDER, "kubernetes_tomorrow"),
            ("registry.terraform.io/hashicorp/null", "terraform_data"),
            ("registry.terraform.io/hashicorp/tls", "tls_private_key"),
        ] {
            assert_eq!(
                of_type(provider, type_name),
                Type::Unmapped,
                "{provider} {type_name}"
            );
        }
        assert_eq!(
            of_type("terraform.io/builtin/terraform", "terraform_data"),
            Type::Lifeless
        );
        assert_eq!(
            of_type("registry.terraform.io/hashicorp/random", "random_pet"),
            Type::Lifeless
        );
        assert!(matches!(
            of_type("registry.terraform.io/hashicorp/local", "local_file"),
            Type::Never(_)
        ));
    }

    #[test]
    fn a_kind_is_a_plural_and_its_group() {
        let kind: KindName = "deployments.apps".parse().unwrap();
        assert_eq!((kind.resource(), kind.group()), ("deployments", "apps"));
        assert_eq!(kind.to_string(), "deployments.apps");
        assert_eq!("services".parse::<KindName>().unwrap().group(), "");
        for bad in ["", ".", "a.", ".a", "Deployments", "a/b", "a..b", "-a", "*"] {
            assert!(bad.parse::<KindName>().is_err(), "{bad}");
        }
    }
}
