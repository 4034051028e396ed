//! What the sandbox namespace takes: tried as an administrator, whom no RBAC rule holds back, and as the
//! daemon. Dry runs, which pass every gate; the first of each pair shows that the rest of the pod is good.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, PodSpec};
use kube::Api;
use kube::api::PostParams;

use super::answer::Answer;
use super::ground::Ground;
use super::report::Tries;
use crate::sandbox::trial;

const NO_RUNC: &[&str] = &["runtimeClassName must be gvisor"];
const NOT_LISTED: &str = "is not one of those in the ConfigMap";
const NO_BREACH: &[&str] = &["violates PodSecurity \"restricted:"];

/// A pod or Job under another runtime than gVisor.
pub(super) async fn runc_pod(ground: &Ground, tries: &mut Tries) -> anyhow::Result<()> {
    let good = make_pod(ground, |_| {}).await?.must_be_let_through();
    tries.record(
        "as an administrator, make a pod as the daemon's Jobs do (dry run)",
        match good {
            Err(e) if e.contains(NOT_LISTED) => {
                Err(format!("{e} {}", why_not_listed(ground).await?))
            }
            other => other,
        },
    );
    tries.record(
        "as an administrator, make the same pod under runc (dry run)",
        make_pod(ground, |spec| spec.runtime_class_name = None)
            .await?
            .must_be_refused(NO_RUNC),
    );
    let mut job = trial::job(&ground.name(), &ground.config);
    if let Some(spec) = job.spec.as_mut().and_then(|s| s.template.spec.as_mut()) {
        spec.runtime_class_name = None;
    }
    let namespace = ground.config.kubernetes.sandbox_namespace.as_str();
    let jobs: Api<Job> = Api::namespaced(ground.daemon.client().clone(), namespace);
    let answer = Answer::from(jobs.create(&dry_run(), &job).await);
    tries.record(
        "as the daemon, make a Job under runc (dry run)",
        answer.must_be_refused(NO_RUNC),
    );
    Ok(())
}

/// An API server that once saw no binding to a `ConfigMap` reads none again until it restarts.
async fn why_not_listed(ground: &Ground) -> anyhow::Result<&'static str> {
    let namespace = ground.config.kubernetes.sandbox_namespace.as_str();
    let maps: Api<ConfigMap> = Api::namespaced(ground.admin()?.client().clone(), namespace);
    let listed = maps
        .get_opt("sandbox-images")
        .await?
        .and_then(|map| map.data);
    let listed =
        listed.is_some_and(|data| data.values().any(|i| *i == ground.config.sandbox.image));
    Ok(if listed {
        "But it is: the API server goes by an older list. Restart it (kubernetes/kubernetes#130887)."
    } else {
        "It is not: sandboxd is configured for another image than the cluster admits. Run scripts/up."
    })
}

/// A pod that Pod Security `restricted` does not allow.
pub(super) async fn pod_security(ground: &Ground, tries: &mut Tries) -> anyhow::Result<()> {
    let privileged = make_pod(ground, |spec| {
        for container in &mut spec.containers {
            let security = container.security_context.get_or_insert_default();
            security.privileged = Some(true);
            security.allow_privilege_escalation = None;
        }
    });
    tries.record(
        "as an administrator, make a privileged pod (dry run)",
        privileged.await?.must_be_refused(NO_BREACH),
    );
    let on_the_host = make_pod(ground, |spec| {
        spec.host_network = Some(true);
        spec.host_pid = Some(true);
    });
    tries.record(
        "as an administrator, make a pod in the host's network that sees its processes (dry run)",
        on_the_host.await?.must_be_refused(NO_BREACH),
    );
    Ok(())
}

async fn make_pod(ground: &Ground, change: impl FnOnce(&mut PodSpec)) -> anyhow::Result<Answer> {
    let mut pod = trial::pod(&ground.name(), &ground.config.sandbox);
    pod.spec.as_mut().map(change);
    let namespace = ground.config.kubernetes.sandbox_namespace.as_str();
    let pods: Api<Pod> = Api::namespaced(ground.admin()?.client().clone(), namespace);
    Ok(pods.create(&dry_run(), &pod).await.into())
}

/// Through every gate, and nothing is kept.
pub(super) fn dry_run() -> PostParams {
    PostParams {
        dry_run: true,
        ..PostParams::default()
    }
}
