//! Whether a pod, as the API server has it now, is the one that was started and nothing more.

use k8s_openapi::api::core::v1::{Pod, PodSpec};

use super::job::{self, CONTAINER, Class, JobName, UID};
use crate::config;

/// What a pod that passed is, for the trail.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct PodFacts {
    pub(super) pod: String,
    pub(super) uid: String,
    pub(super) node: String,
    pub(super) runtime_class: String,
    pub(super) image: String,
}

/// Reads the pod of `job`. `uid` is the one seen before, when it was.
///
/// # Errors
/// The first difference, as a clause.
pub(super) fn check(
    pod: &Pod,
    job: &JobName,
    uid: Option<&str>,
    class: Class,
    config: &config::Sandbox,
) -> Result<PodFacts, String> {
    let meta = &pod.metadata;
    let own_uid = meta.uid.as_deref().ok_or("it has no UID")?;
    let owned = meta
        .owner_references
        .iter()
        .flatten()
        .any(|o| o.kind == "Job" && o.name == job.as_str() && o.controller == Some(true));
    ensure(owned, "the Job does not own it")?;
    ensure(
        uid.is_none_or(|u| u == own_uid),
        "it is another pod than before",
    )?;
    ensure(meta.deletion_timestamp.is_none(), "it is being deleted")?;
    let spec = pod.spec.as_ref().ok_or("it has no spec")?;
    check_spec(spec, class, config)?;
    check_status(pod)?;
    Ok(PodFacts {
        pod: meta.name.clone().unwrap_or_default(),
        uid: own_uid.to_owned(),
        node: spec.node_name.clone().unwrap_or_default(),
        runtime_class: config.runtime_class.clone(),
        image: config.image.clone(),
    })
}

fn check_spec(spec: &PodSpec, class: Class, config: &config::Sandbox) -> Result<(), String> {
    let runtime_class = spec.runtime_class_name.as_deref().unwrap_or("none");
    ensure(
        runtime_class == config.runtime_class,
        &format!(
            "its runtimeClassName is {runtime_class}, not {}",
            config.runtime_class
        ),
    )?;
    let [container] = spec.containers.as_slice() else {
        return Err(format!(
            "it has {} containers, not one",
            spec.containers.len()
        ));
    };
    let none = |list: Option<usize>| list.unwrap_or(0) == 0;
    ensure(
        none(spec.init_containers.as_ref().map(Vec::len)),
        "it has init containers",
    )?;
    ensure(
        none(spec.ephemeral_containers.as_ref().map(Vec::len)),
        "it has ephemeral containers",
    )?;
    // Just the volumes of its class, as they were asked for.
    let wanted = job::pod(class, config);
    ensure(
        spec.volumes.as_deref().unwrap_or_default()
            == wanted.volumes.as_deref().unwrap_or_default(),
        "it has other volumes",
    )?;
    let mounts = wanted
        .containers
        .first()
        .and_then(|c| c.volume_mounts.as_deref());
    ensure(
        container.volume_mounts.as_deref().unwrap_or_default() == mounts.unwrap_or_default(),
        "it has other volume mounts",
    )?;
    ensure(
        none(container.env.as_ref().map(Vec::len)),
        "it has environment variables",
    )?;
    ensure(
        none(container.env_from.as_ref().map(Vec::len)),
        "it has environment variables",
    )?;
    ensure(container.command.is_none(), "its command was replaced")?;
    let image = container.image.as_deref().unwrap_or("none");
    ensure(image == config.image, &format!("its image is {image}"))?;
    ensure(
        spec.service_account_name.as_deref() == Some("default"),
        "its ServiceAccount is not default",
    )?;
    ensure(
        spec.automount_service_account_token == Some(false),
        "it mounts a ServiceAccount's token",
    )?;
    let host = [
        spec.host_network,
        spec.host_pid,
        spec.host_ipc,
        spec.share_process_namespace,
    ];
    ensure(
        !host.contains(&Some(true)),
        "it shares a namespace of the host",
    )?;
    let pod = spec.security_context.as_ref();
    let own = container.security_context.as_ref();
    let user = own
        .and_then(|s| s.run_as_user)
        .or(pod.and_then(|s| s.run_as_user));
    let group = own
        .and_then(|s| s.run_as_group)
        .or(pod.and_then(|s| s.run_as_group));
    ensure(
        user == Some(UID) && group == Some(UID),
        "it does not run as uid and gid 65532",
    )?;
    ensure(
        own.is_some_and(|s| {
            s.read_only_root_filesystem == Some(true)
                && s.allow_privilege_escalation == Some(false)
                && s.privileged != Some(true)
                && s.capabilities.as_ref().is_some_and(|c| {
                    c.drop.as_deref() == Some(&["ALL".to_owned()][..])
                        && none(c.add.as_ref().map(Vec::len))
                })
        }),
        "its container is not hardened as it was",
    )
}

fn check_status(pod: &Pod) -> Result<(), String> {
    let status = pod.status.as_ref().ok_or("it has no status")?;
    ensure(
        status.phase.as_deref() == Some("Running"),
        "it is not running",
    )?;
    let [container] = status.container_statuses.as_deref().unwrap_or_default() else {
        return Err("it does not have one container status".to_owned());
    };
    ensure(
        container.name == CONTAINER,
        "its container has another name",
    )?;
    ensure(container.restart_count == 0, "its container was restarted")?;
    let running = container
        .state
        .as_ref()
        .is_some_and(|s| s.running.is_some());
    ensure(running, "its container is not running")
}

fn ensure(holds: bool, problem: &str) -> Result<(), String> {
    if holds {
        Ok(())
    } else {
        Err(problem.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::job::job;
    use k8s_openapi::api::core::v1::{
        Container, ContainerState, ContainerStateRunning, ContainerStatus, EnvVar,
        EphemeralContainer, PodStatus, Volume,
    };
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

    fn config() -> config::Sandbox {
        config::Sandbox {
            image: format!("localhost/agent-sandbox/runner@sha256:{}", "a".repeat(64)),
            runtime_class: "gvisor".to_owned(),
            pool_read: 2,
            pool_terraform: 1,
            max: 16,
            spare_idle_seconds: 600,
            providers: Vec::new(),
        }
    }

    fn name() -> JobName {
        JobName::existing("sbx-a")
    }

    /// The pod that the API server would make of our own Job.
    fn pod() -> Pod {
        pod_of(Class::Read)
    }

    fn pod_of(class: Class) -> Pod {
        let job = job(&name(), class, &config(), 60);
        let spec = job.spec.unwrap().template.spec;
        Pod {
            metadata: ObjectMeta {
                name: Some("sbx-a-1".to_owned()),
                uid: Some("u1".to_owned()),
                owner_references: Some(vec![OwnerReference {
                    kind: "Job".to_owned(),
                    name: "sbx-a".to_owned(),
                    controller: Some(true),
                    ..OwnerReference::default()
                }]),
                ..ObjectMeta::default()
            },
            spec,
            status: Some(PodStatus {
                phase: Some("Running".to_owned()),
                container_statuses: Some(vec![ContainerStatus {
                    name: CONTAINER.to_owned(),
                    state: Some(ContainerState {
                        running: Some(ContainerStateRunning::default()),
                        ..ContainerState::default()
                    }),
                    ..ContainerStatus::default()
                }]),
                ..PodStatus::default()
            }),
        }
    }

    type Change = fn(&mut Pod);

    fn problem(change: impl FnOnce(&mut Pod)) -> String {
        let mut pod = pod();
        change(&mut pod);
        check(&pod, &name(), Some("u1"), Class::Read, &config()).unwrap_err()
    }

    fn spec(pod: &mut Pod) -> &mut PodSpec {
        pod.spec.as_mut().unwrap()
    }

    fn container(pod: &mut Pod) -> &mut Container {
        &mut spec(pod).containers[0]
    }

    #[test]
    fn the_pod_of_our_own_job_passes() {
        let facts = check(&pod(), &name(), Some("u1"), Class::Read, &config()).unwrap();
        assert_eq!((facts.pod.as_str(), facts.uid.as_str()), ("sbx-a-1", "u1"));
    }

    #[test]
    fn each_class_has_its_own_volumes_and_no_others() {
        let seen = |pod: &Pod, class| check(pod, &name(), Some("u1"), class, &config());
        assert!(seen(&pod_of(Class::Terraform), Class::Terraform).is_ok());
        for (made, asked) in [
            (Class::Read, Class::Terraform),
            (Class::Terraform, Class::Read),
        ] {
            let problem = seen(&pod_of(made), asked).unwrap_err();
            assert!(problem.contains("volumes"), "{problem}");
        }
        let mut other = pod_of(Class::Terraform);
        let volume = &mut spec(&mut other).volumes.as_mut().unwrap()[0];
        volume.empty_dir.as_mut().unwrap().medium = None;
        assert!(
            seen(&other, Class::Terraform)
                .unwrap_err()
                .contains("volumes")
        );
    }

    #[test]
    fn every_change_someone_could_make_is_named() {
        let cases: [(&str, Change); 15] = [
            ("another pod", |p| {
                p.metadata.uid = Some("u2".to_owned());
            }),
            ("does not own", |p| {
                p.metadata.owner_references = None;
            }),
            ("runtimeClassName is none", |p| {
                spec(p).runtime_class_name = None;
            }),
            ("runtimeClassName is runc", |p| {
                spec(p).runtime_class_name = Some("runc".into());
            }),
            ("2 containers", |p| {
                spec(p).containers.push(Container::default());
            }),
            ("init", |p| {
                spec(p).init_containers = Some(vec![Container::default()]);
            }),
            ("ephemeral", |p| {
                spec(p).ephemeral_containers = Some(vec![EphemeralContainer::default()]);
            }),
            ("volumes", |p| {
                spec(p).volumes = Some(vec![Volume::default()]);
            }),
            ("image is other", |p| {
                container(p).image = Some("other".into());
            }),
            ("environment", |p| {
                container(p).env = Some(vec![EnvVar::default()]);
            }),
            ("command", |p| {
                container(p).command = Some(vec!["/sh".into()]);
            }),
            ("host", |p| {
                spec(p).host_network = Some(true);
            }),
            ("token", |p| {
                spec(p).automount_service_account_token = None;
            }),
            ("65532", |p| {
                spec(p).security_context.as_mut().unwrap().run_as_group = None;
            }),
            ("hardened", |p| {
                container(p).security_context.as_mut().unwrap().privileged = Some(true);
            }),
        ];
        for (word, change) in cases {
            let problem = problem(change);
            assert!(problem.contains(word), "{problem} does not name {word}");
        }
    }

    #[test]
    fn a_pod_that_restarted_ended_or_is_being_deleted_is_refused() {
        let statuses = |p: &mut Pod| {
            p.status
                .as_mut()
                .unwrap()
                .container_statuses
                .as_mut()
                .unwrap()
                .clone()
        };
        assert!(
            problem(|p| {
                let mut s = statuses(p);
                s[0].restart_count = 1;
                p.status.as_mut().unwrap().container_statuses = Some(s);
            })
            .contains("restarted")
        );
        assert!(
            problem(|p| p.status.as_mut().unwrap().phase = Some("Failed".into()))
                .contains("not running")
        );
        assert!(
            problem(|p| {
                p.metadata.deletion_timestamp =
                    Some(serde_json::from_str("\"2026-01-01T00:00:00Z\"").unwrap());
            })
            .contains("being deleted")
        );
    }
}
