//! What a stolen kubeconfig of the daemon is good for: Jobs of the one kind, and nothing to read.

use k8s_openapi::api::authentication::v1::{SelfSubjectReview, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, PodSpec, Secret, ServiceAccount};
use k8s_openapi::api::networking::v1::{NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicySpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::Api;
use kube::api::{DeleteParams, ListParams};

use super::admission::dry_run;
use super::answer::Answer;
use super::ground::Ground;
use super::report::{Tries, of_all};
use crate::sandbox::trial;

pub(super) async fn check(ground: &Ground, tries: &mut Tries) -> anyhow::Result<()> {
    let user = whoami(ground).await?;
    tries.record(
        "ask the API server who the daemon's kubeconfig is",
        Ok::<_, String>(user.clone()),
    );
    let cannot = format!("User \"{user}\" cannot");
    let forbidden: &[&str] = &[&cannot];
    secrets(ground, forbidden, tries).await;
    jobs(ground, tries).await;
    beside_jobs(ground, forbidden, tries).await;
    Ok(())
}

async fn whoami(ground: &Ground) -> anyhow::Result<String> {
    let reviews: Api<SelfSubjectReview> = Api::all(ground.daemon.client().clone());
    let review = reviews
        .create(
            &kube::api::PostParams::default(),
            &SelfSubjectReview::default(),
        )
        .await
        .map_err(|e| anyhow::anyhow!("{}", crate::report::chain(&e)))?;
    let user = review.status.and_then(|s| s.user_info?.username);
    user.ok_or_else(|| anyhow::anyhow!("the API server does not say"))
}

/// Names alone are asked for: a Secret that could be read is not.
async fn secrets(ground: &Ground, forbidden: &[&str], tries: &mut Tries) {
    let one = ListParams::default().limit(1);
    let everywhere: Api<Secret> = Api::all(ground.daemon.client().clone());
    tries.record(
        "as the daemon, list Secrets everywhere",
        Answer::from(everywhere.list_metadata(&one).await).must_be_refused(forbidden),
    );
    let kubernetes = &ground.config.kubernetes;
    let namespaces = [
        kubernetes.sandbox_namespace.as_str(),
        kubernetes.issuer_namespace.as_str(),
        ground.target.as_str(),
        "kube-system",
    ];
    let mut answers = Vec::new();
    for namespace in namespaces {
        let secrets: Api<Secret> = Api::namespaced(ground.daemon.client().clone(), namespace);
        let answer = Answer::from(secrets.list_metadata(&one).await);
        answers.push((namespace, answer.must_be_refused(forbidden)));
    }
    tries.record(
        format!("as the daemon, list Secrets in {}", namespaces.join(", ")),
        of_all(answers),
    );
}

/// The first shows that the Job is good but for what is wrong with the others.
async fn jobs(ground: &Ground, tries: &mut Tries) {
    tries.record(
        "as the daemon, make a Job as it does (dry run)",
        make_job(ground, |_| {}).await.must_be_let_through(),
    );
    let account = make_job(ground, |spec| {
        spec.service_account_name = Some("other".to_owned());
    });
    tries.record(
        "as the daemon, make a Job under another ServiceAccount (dry run)",
        account.await.must_be_refused(&["must be default"]),
    );
    let token = make_job(ground, |spec| {
        spec.automount_service_account_token = Some(true);
    });
    tries.record(
        "as the daemon, make a Job with a ServiceAccount's token (dry run)",
        token.await.must_be_refused(&["must be false"]),
    );
    let image = make_job(ground, |spec| {
        for container in &mut spec.containers {
            let (name, _) = ground
                .config
                .sandbox
                .image
                .split_once('@')
                .unwrap_or_default();
            container.image = Some(format!("{name}@sha256:{}", "0".repeat(64)));
        }
    });
    tries.record(
        "as the daemon, make a Job of another image (dry run)",
        image
            .await
            .must_be_refused(&["is not one of those in the ConfigMap"]),
    );
    let runtime = make_job(ground, |spec| spec.runtime_class_name = None);
    tries.record(
        "as the daemon, make a Job without gVisor (dry run)",
        runtime
            .await
            .must_be_refused(&["runtimeClassName must be gvisor"]),
    );
}

async fn make_job(ground: &Ground, change: impl FnOnce(&mut PodSpec)) -> Answer {
    let mut job = trial::job(&ground.name(), &ground.config);
    let pod = job.spec.as_mut().and_then(|s| s.template.spec.as_mut());
    pod.map(change);
    let jobs: Api<Job> = in_sandbox(ground);
    jobs.create(&dry_run(), &job).await.into()
}

async fn beside_jobs(ground: &Ground, forbidden: &[&str], tries: &mut Tries) {
    let pods: Api<Pod> = in_sandbox(ground);
    let pod = trial::pod(&ground.name(), &ground.config.sandbox);
    tries.record(
        "as the daemon, make a pod without a Job (dry run)",
        Answer::from(pods.create(&dry_run(), &pod).await).must_be_refused(forbidden),
    );
    let target = &ground.target;
    let pods: Api<Pod> = Api::namespaced(ground.daemon.client().clone(), target.as_str());
    let one = ListParams::default().limit(1);
    tries.record(
        format!("as the daemon, list pods in {target}"),
        Answer::from(pods.list_metadata(&one).await).must_be_refused(forbidden),
    );
    let home = &ground.config.kubernetes.issuer_namespace;
    let accounts: Api<ServiceAccount> =
        Api::namespaced(ground.daemon.client().clone(), home.as_str());
    let token = TokenRequest {
        spec: TokenRequestSpec::default(),
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request("issuer", &dry_run(), &token)
        .await;
    tries.record(
        "as the daemon, take the issuer's token",
        Answer::from(answer).must_be_refused(forbidden),
    );
    let policies: Api<NetworkPolicy> = in_sandbox(ground);
    let open = policies
        .create(&dry_run(), &open_policy(ground.name()))
        .await;
    tries.record(
        "as the daemon, add a NetworkPolicy that opens every way out (dry run)",
        Answer::from(open).must_be_refused(&["and no other"]),
    );
    let dry = DeleteParams {
        dry_run: true,
        ..DeleteParams::default()
    };
    tries.record(
        "as the daemon, delete the NetworkPolicy default-deny (dry run)",
        Answer::from(policies.delete("default-deny", &dry).await).must_be_refused(forbidden),
    );
}

fn open_policy(name: String) -> NetworkPolicy {
    NetworkPolicy {
        metadata: ObjectMeta {
            name: Some(name),
            ..ObjectMeta::default()
        },
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(LabelSelector::default()),
            policy_types: Some(vec!["Egress".to_owned()]),
            egress: Some(vec![NetworkPolicyEgressRule::default()]),
            ..NetworkPolicySpec::default()
        }),
    }
}

fn in_sandbox<K>(ground: &Ground) -> Api<K>
where
    K: kube::Resource<Scope = kube::core::NamespaceResourceScope>,
    K::DynamicType: Default,
{
    let namespace = ground.config.kubernetes.sandbox_namespace.as_str();
    Api::namespaced(ground.daemon.client().clone(), namespace)
}
