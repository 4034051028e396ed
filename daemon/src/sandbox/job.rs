//! The Job: one hardened pod, one container, no token, never replaced. No volume but the memory that
//! Terraform unpacks into.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, EmptyDirVolumeSource, PodSecurityContext, PodSpec, PodTemplateSpec,
    ResourceRequirements, SeccompProfile, SecurityContext, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::config;

/// On every Job and pod of ours; what carries it and is not ours is a leftover.
pub(super) const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "sandboxd");
pub(super) const CONTAINER: &str = "runner";
pub(super) const UID: i64 = 65532;
/// The one volume of a Terraform sandbox, its place, and how much it may hold.
pub(super) const WORK: (&str, &str, &str) = ("work", "/work", "256Mi");
/// Beyond idle time and deadline: how long the Job may take to start and to be taken down.
const SPAN_MARGIN_SECONDS: u64 = 120;

/// What a sandbox is made for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Class {
    /// One page of one list. Small, without a volume, some started ahead.
    Read,
    /// A run of Terraform: more memory, and a volume in it. Started when it is wanted.
    Terraform,
}

impl Class {
    /// The word in labels and audit.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Terraform => "terraform",
        }
    }
}

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
pub(super) fn job(
    name: &JobName,
    class: Class,
    config: &config::Sandbox,
    work_seconds: u64,
) -> Job {
    let labels = BTreeMap::from([(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned())]);
    let span = config.spare_idle_seconds + work_seconds + SPAN_MARGIN_SECONDS;
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
                spec: Some(pod(class, config)),
            },
            ..JobSpec::default()
        }),
        ..Job::default()
    }
}

pub(super) fn pod(class: Class, config: &config::Sandbox) -> PodSpec {
    let (work, path, size) = WORK;
    let volumes = (class == Class::Terraform).then(|| {
        vec![Volume {
            name: work.to_owned(),
            empty_dir: Some(EmptyDirVolumeSource {
                medium: Some("Memory".to_owned()),
                size_limit: Some(Quantity(size.to_owned())),
            }),
            ..Volume::default()
        }]
    });
    let volume_mounts = (class == Class::Terraform).then(|| {
        vec![VolumeMount {
            name: work.to_owned(),
            mount_path: path.to_owned(),
            ..VolumeMount::default()
        }]
    });
    PodSpec {
        volumes,
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
            resources: Some(resources(class)),
            volume_mounts,
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

fn resources(class: Class) -> ResourceRequirements {
    // CPU, memory, ephemeral storage: requested, and at most. Memory holds the volume too.
    let (requests, limits) = match class {
        Class::Read => (["50m", "64Mi", "16Mi"], ["1", "256Mi", "64Mi"]),
        Class::Terraform => (["100m", "256Mi", "16Mi"], ["2", "1Gi", "64Mi"]),
    };
    let quantities = |amounts: [&str; 3]| {
        ["cpu", "memory", "ephemeral-storage"]
            .into_iter()
            .zip(amounts)
            .map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned())))
            .collect()
    };
    ResourceRequirements {
        requests: Some(quantities(requests)),
        limits: Some(quantities(limits)),
        ..ResourceRequirements::default()
    }
}
