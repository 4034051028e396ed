//! Pods for `verify`: a sandbox as the daemon starts them, and a pod that no policy holds beside it.
//!
//! Neither is journalled. Both end by themselves after [`LIFE_SECONDS`], should nobody delete them.

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{
    AttachParams, AttachedProcess, DeleteParams, ListParams, PostParams, PropagationPolicy,
};
use kube::{Api, Client};
use tokio::io::AsyncReadExt as _;
use tokio::time::{Instant, timeout};

use super::check::check;
use super::job::{self, CONTAINER, Class, JobName, MANAGED_BY};
use super::network;
use super::start::{Probe, Progress, attach, gone_is_fine, progress, prove, refused, why_no_pod};
use super::{Cluster, Proof, SandboxError};
use crate::config::{self, Config};

/// The label's value on what `verify` makes; the daemon's own is `sandboxd`.
pub(crate) const MADE_BY: (&str, &str) = (MANAGED_BY.0, "sandboxd-verify");

const LIFE_SECONDS: i64 = 180;
const START_LIMIT: Duration = Duration::from_secs(30);
/// For one command in a pod.
const EXEC_LIMIT: Duration = Duration::from_secs(15);
const MAX_TEXT: u64 = 4096;

/// A pod that runs, with what can be done in it.
pub(crate) struct TrialPod {
    pods: Api<Pod>,
    name: String,
    /// Which node it is on.
    pub(crate) node: String,
    /// That node's address.
    pub(crate) node_ip: String,
    /// Its own address.
    pub(crate) ip: String,
}

/// What a command printed, and its exit code.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) text: String,
}

/// The daemon's Job under another name and with a shorter life.
pub(crate) fn job(name: &str, config: &Config) -> Job {
    let read_seconds = config.limits.read_seconds;
    let name = JobName::existing(name);
    let mut job = job::job(&name, Class::Read, &config.sandbox, read_seconds);
    mark(&mut job.metadata);
    if let Some(spec) = &mut job.spec {
        spec.active_deadline_seconds = Some(LIFE_SECONDS);
        spec.template.metadata.iter_mut().for_each(mark);
    }
    job
}

/// The pod of such a Job, alone.
pub(crate) fn pod(name: &str, config: &config::Sandbox) -> Pod {
    let mut spec = job::pod(Class::Read, config);
    spec.active_deadline_seconds = Some(LIFE_SECONDS);
    let mut metadata = ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    };
    mark(&mut metadata);
    Pod {
        metadata,
        spec: Some(spec),
        status: None,
    }
}

fn mark(metadata: &mut ObjectMeta) {
    let labels = metadata.labels.get_or_insert_default();
    labels.insert(MADE_BY.0.to_owned(), MADE_BY.1.to_owned());
}

/// Starts a sandbox as the daemon does, and checks its pod as the daemon does.
pub(crate) async fn start(
    daemon: &Cluster,
    config: &Config,
    name: &str,
) -> Result<TrialPod, SandboxError> {
    let namespace = config.kubernetes.sandbox_namespace.as_str();
    let (client, name) = (daemon.client(), JobName::existing(name));
    let jobs: Api<Job> = Api::namespaced(client.clone(), namespace);
    jobs.create(&PostParams::default(), &job(name.as_str(), config))
        .await
        .map_err(|e| refused("create a Job", &e))?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let of_job = ListParams::default().labels(&format!("batch.kubernetes.io/job-name={name}"));
    let pod = match running(&pods, &of_job).await {
        Ok(pod) => pod,
        Err(e) => {
            let events = Api::namespaced(client.clone(), namespace);
            let why = why_no_pod(&events, &name).await;
            return Err(why.map_or(e, SandboxError::Start));
        }
    };
    check(&pod, &name, None, Class::Read, &config.sandbox).map_err(|problem| {
        SandboxError::Changed {
            job: name.to_string(),
            problem,
        }
    })?;
    Ok(TrialPod::of(pods, &pod))
}

/// Starts the same pod without gVisor and where no policy is.
pub(crate) async fn start_open(
    admin: &Cluster,
    config: &config::Sandbox,
    namespace: &str,
) -> Result<TrialPod, SandboxError> {
    const NAME: &str = "open";
    let pods: Api<Pod> = Api::namespaced(admin.client().clone(), namespace);
    let mut open = pod(NAME, config);
    if let Some(spec) = &mut open.spec {
        spec.runtime_class_name = None;
    }
    pods.create(&PostParams::default(), &open)
        .await
        .map_err(|e| refused("create a pod", &e))?;
    let this = ListParams::default().fields(&format!("metadata.name={NAME}"));
    let pod = running(&pods, &this).await?;
    Ok(TrialPod::of(pods, &pod))
}

async fn running(pods: &Api<Pod>, which: &ListParams) -> Result<Pod, SandboxError> {
    let until = Instant::now() + START_LIMIT;
    loop {
        let found = pods.list(which).await;
        let mut found = found.map_err(|e| refused("look for a pod", &e))?.items;
        let seen = match found.pop() {
            None => "no pod".to_owned(),
            Some(pod) => match progress(&pod) {
                Progress::Running => return Ok(pod),
                Progress::Failed(why) => return Err(SandboxError::Start(why)),
                Progress::Waiting(why) => why,
            },
        };
        if Instant::now() > until {
            let limit = START_LIMIT.as_secs();
            return Err(SandboxError::Start(format!(
                "after {limit} s there was {seen}"
            )));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

impl TrialPod {
    fn of(pods: Api<Pod>, pod: &Pod) -> Self {
        let status = pod.status.clone().unwrap_or_default();
        let node = pod.spec.as_ref().and_then(|s| s.node_name.clone());
        Self {
            pods,
            name: pod.metadata.name.clone().unwrap_or_default(),
            node: node.unwrap_or_default(),
            node_ip: status.host_ip.unwrap_or_default(),
            ip: status.pod_ip.unwrap_or_default(),
        }
    }

    /// Runs the runner's binary with `args` to its end.
    pub(crate) async fn run(&self, args: &[&str]) -> Result<Said, SandboxError> {
        let ran = timeout(EXEC_LIMIT, async {
            let mut process = self.exec(args).await?;
            let (stdout, status) = (process.stdout(), process.take_status());
            let (Some(stdout), Some(status)) = (stdout, status) else {
                return Err(broken("was started without its streams"));
            };
            let mut text = Vec::new();
            let mut stdout = stdout.take(MAX_TEXT);
            let (read, status) = tokio::join!(stdout.read_to_end(&mut text), status);
            read.map_err(|e| broken(&e.to_string()))?;
            let code = status.as_ref().and_then(exit_code);
            Ok(Said {
                code: code.ok_or_else(|| broken("ended without an exit code"))?,
                text: String::from_utf8_lossy(&text).trim().to_owned(),
            })
        });
        ran.await.unwrap_or_else(|_| {
            let limit = EXEC_LIMIT.as_secs();
            Err(broken(&format!("did not end in {limit} s")))
        })
    }

    /// Starts the runner's binary with `args` and leaves it running.
    pub(crate) async fn exec(&self, args: &[&str]) -> Result<AttachedProcess, SandboxError> {
        let params = AttachParams::default()
            .container(CONTAINER)
            .stdin(false)
            .stdout(true)
            .stderr(false);
        let command = std::iter::once("/runner").chain(args.iter().copied());
        timeout(EXEC_LIMIT, self.pods.exec(&self.name, command, &params))
            .await
            .map_err(|_| broken("could not be started"))?
            .map_err(|e| refused("run a command in a pod", &e))
    }

    /// Attaches to the runner and has it prove that egress is closed, as before a request. The runner,
    /// and with it the pod, ends after that.
    pub(crate) async fn prove(
        &self,
        daemon: &Cluster,
        config: &config::Kubernetes,
    ) -> Result<Proof, SandboxError> {
        let (endpoints, _) = inspect_network(daemon.client(), config).await?;
        let server = network::api_server(endpoints, &config.api_server_name, daemon.ca_pem());
        let mut stream = attach(&self.pods, &self.name).await?;
        prove(&mut stream, server, probe(daemon.client(), config)).await
    }
}

/// The address of the listener that a sandbox must not reach.
pub(crate) async fn probe_address(
    daemon: &Cluster,
    config: &config::Kubernetes,
) -> Result<String, SandboxError> {
    probe(daemon.client(), config).address().await
}

fn probe<'a>(client: &'a Client, config: &'a config::Kubernetes) -> Probe<'a> {
    Probe {
        client,
        namespace: config.probe_namespace.as_str(),
    }
}

/// The API server's endpoints, and what is wrong with the sandbox namespace's network policies.
pub(crate) async fn inspect_network(
    daemon: &Client,
    config: &config::Kubernetes,
) -> Result<(Vec<(String, i32)>, Vec<String>), SandboxError> {
    network::inspect(daemon, config.sandbox_namespace.as_str())
        .await
        .map_err(|e| refused("read the network policies", &e))
}

/// Deletes the Job of [`start`] and its pod; that they are gone already is fine.
pub(crate) async fn delete(
    daemon: &Cluster,
    config: &config::Kubernetes,
    name: &str,
) -> Result<(), SandboxError> {
    let namespace = config.sandbox_namespace.as_str();
    let jobs: Api<Job> = Api::namespaced(daemon.client().clone(), namespace);
    let now = DeleteParams {
        grace_period_seconds: Some(0),
        propagation_policy: Some(PropagationPolicy::Background),
        ..DeleteParams::default()
    };
    gone_is_fine(jobs.delete(name, &now).await.map(drop)).map_err(|e| refused("delete a Job", &e))
}

fn exit_code(status: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Status) -> Option<i32> {
    if status.status.as_deref() == Some("Success") {
        return Some(0);
    }
    let causes = status.details.as_ref()?.causes.as_ref()?;
    let code = causes
        .iter()
        .find(|c| c.reason.as_deref() == Some("ExitCode"))?;
    code.message.as_ref()?.parse().ok()
}

fn broken(what: &str) -> SandboxError {
    SandboxError::Runner(what.to_owned())
}
