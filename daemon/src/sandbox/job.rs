//! The Job: one hardened pod, one container, no volume, no token, never replaced.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, PodSecurityContext, PodSpec, PodTemplateSpec, ResourceRequirements,
    SeccompProfile, SecurityContext,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::config;

/// On every Job and pod of ours; what carries it and is not ours is a leftover.
pub(super) const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "sandboxd");
pub(super) const CONTAINER: &str = "runner";
pub(super) const UID: i64 = 65532;
/// Beyond idle time and deadline: how long the Job may take to start and to be taken down.
const SPAN_MARGIN_SECONDS: u64 = 120;

/// A Job's name: `sbx-` and 16 random characters, a DNS label.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) struct JobName(String);

impl JobName {
    pub(super) fn random() -> Result<Self, ring::error::Unspecified> {
        Ok(Self(format!("sbx-{}", crate::random::name(16)?)))
    }

    /// The name of a Job that exists.
    pub(super) fn existing(name: &str) -> Self {
        Self(name.to_owned())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The Job of a sandbox. `cluster/base/admission-jobs.yaml` refuses anything weaker.
pub(super) fn job(name: &JobName, config: &config::Sandbox, read_seconds: u64) -> Job {
    let labels = BTreeMap::from([(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned())]);
    let span = config.spare_idle_seconds + read_seconds + SPAN_MARGIN_SECONDS;
    Job {
        metadata: ObjectMeta {
            name: Some(name.to_string()),
            labels: Some(labels.clone()),
            ..ObjectMeta::default()
        },
        spec: Some(JobSpec {
            parallelism: Some(1),
            completions: Some(1),
            backoff_limit: Some(0),
            // Without this a deleted pod is replaced at once.
            pod_replacement_policy: Some("Failed".to_owned()),
            active_deadline_seconds: Some(i64::try_from(span).unwrap_or(3600).min(3600)),
            ttl_seconds_after_finished: Some(60),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels),
                    ..ObjectMeta::default()
                }),
                spec: Some(pod(config)),
            },
            ..JobSpec::default()
        }),
        ..Job::default()
    }
}

pub(super) fn pod(config: &config::Sandbox) -> PodSpec {
    PodSpec {
        runtime_class_name: Some(config.runtime_class.clone()),
        service_account_name: Some("default".to_owned()),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        restart_policy: Some("Never".to_owned()),
        termination_grace_period_seconds: Some(0),
        // No name is looked up inside; without a cluster DNS `ClusterFirst` would only warn.
        dns_policy: Some("Default".to_owned()),
        security_context: Some(PodSecurityContext {
            run_as_user: Some(UID),
            run_as_group: Some(UID),
            run_as_non_root: Some(true),
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                ..SeccompProfile::default()
            }),
            ..PodSecurityContext::default()
        }),
        containers: vec![Container {
            name: CONTAINER.to_owned(),
            image: Some(config.image.clone()),
            image_pull_policy: Some("IfNotPresent".to_owned()),
            args: Some(vec![
                "hold".to_owned(),
                "--idle-seconds".to_owned(),
                (config.spare_idle_seconds + 60).to_string(),
            ]),
            resources: Some(resources()),
            security_context: Some(SecurityContext {
                allow_privilege_escalation: Some(false),
                read_only_root_filesystem: Some(true),
                capabilities: Some(Capabilities {
                    drop: Some(vec!["ALL".to_owned()]),
                    ..Capabilities::default()
                }),
                ..SecurityContext::default()
            }),
            ..Container::default()
        }],
        ..PodSpec::default()
    }
}

fn resources() -> ResourceRequirements {
    let quantities = |pairs: [(&str, &str); 3]| {
        Some(
            pairs
                .map(|(k, v)| (k.to_owned(), Quantity(v.to_owned())))
                .into_iter()
                .collect(),
        )
    };
    ResourceRequirements {
        requests: quantities([
            ("cpu", "50m"),
            ("memory", "64Mi"),
            ("ephemeral-storage", "16Mi"),
        ]),
        limits: quantities([
            ("cpu", "1"),
            ("memory", "256Mi"),
            ("ephemeral-storage", "64Mi"),
        ]),
        ..ResourceRequirements::default()
    }
}
