//! From nothing to a sandbox that is ready: created, running, checked, attached, proven closed.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{AttachParams, DeleteParams, ListParams, PostParams, PropagationPolicy};
use kube::{Api, Client};
use sandbox_proto::runner::v1 as wire;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout};

use super::check::{PodFacts, check};
use super::job::{CONTAINER, Class, JobName, UID, job};
use super::network::NetworkState;
use super::pool::Inner;
use super::stream::{Ends, RunnerStream};
use super::{Proof, SandboxError};
use crate::crash::{self, Step};
use crate::report::chain;

/// From create to running. Seen: 1.7 s alone, several times that under load.
const START_LIMIT: Duration = Duration::from_secs(30);
/// From attached to proven closed: a policy takes 0.6 to 1.3 s to bite.
const PROOF_LIMIT: Duration = Duration::from_secs(15);
/// Tries to create a Job whose quota others write at the same time: 2.5 s in all.
const CREATE_TRIES: u32 = 7;
/// How long a pod may take to be gone after it was deleted.
const DELETE_LIMIT: Duration = Duration::from_mins(1);

/// A sandbox that waits for its one request.
pub(super) struct Ready {
    pub(super) name: JobName,
    pub(super) class: Class,
    pub(super) pod: String,
    pub(super) pod_uid: String,
    pub(super) node: String,
    pub(super) runtime_class: String,
    pub(super) image: String,
    pub(super) proof: Proof,
    pub(super) api_server: wire::ApiServer,
    pub(super) stream: RunnerStream,
    pub(super) since: Instant,
    /// The generation of the network policy it was proven under.
    pub(super) network: u64,
    pub(super) permit: OwnedSemaphorePermit,
}

impl Inner {
    /// Starts one sandbox. On failure its Job is deleted in the background, and keeps its place until it
    /// is gone: whoever waits hears at once why there is none.
    pub(super) async fn start(
        self: &Arc<Self>,
        class: Class,
        permit: OwnedSemaphorePermit,
    ) -> Result<Ready, SandboxError> {
        let name =
            JobName::random().map_err(|_| SandboxError::Start("no random bytes".to_owned()))?;
        self.store
            .job_opened(name.to_string(), self.clock.now_ms())
            .await
            .map_err(|e| SandboxError::Store(chain(&e)))?;
        crash::after(Step::JobJournalled);
        match self.bring_up(&name, class).await {
            Ok((facts, stream, proof, network)) => Ok(Ready {
                api_server: network.api_server,
                name,
                class,
                pod: facts.pod,
                pod_uid: facts.uid,
                node: facts.node,
                runtime_class: facts.runtime_class,
                image: facts.image,
                proof,
                stream,
                since: Instant::now(),
                network: network.generation,
                permit,
            }),
            Err(e) => {
                let inner = Arc::clone(self);
                self.lifetime
                    .spawn(async move { inner.take_down(&name, permit).await });
                Err(e)
            }
        }
    }

    async fn bring_up(
        &self,
        name: &JobName,
        class: Class,
    ) -> Result<(PodFacts, RunnerStream, Proof, NetworkState), SandboxError> {
        let network = self.network.ready().await.map_err(SandboxError::Start)?;
        let jobs: Api<Job> = self.api();
        let work_seconds = match class {
            Class::Read => self.limits.read_seconds,
            Class::Terraform => self.limits.terraform_seconds,
        };
        let wanted = job(name, class, &self.config, work_seconds);
        create(&jobs, &wanted).await?;
        crash::after(Step::JobCreated);
        self.wait_until_running(name).await?;
        let facts = self.check_pod(name, class, None).await?;
        let mut stream = attach(&self.api(), &facts.pod).await?;
        let probe = Probe {
            client: &self.client,
            namespace: &self.probe_namespace,
        };
        let proof = prove(&mut stream, network.api_server.clone(), probe).await?;
        // Again, now that something of ours runs in it.
        let facts = self.check_pod(name, class, Some(&facts.uid)).await?;
        Ok((facts, stream, proof, network))
    }

    async fn wait_until_running(&self, name: &JobName) -> Result<(), SandboxError> {
        let until = Instant::now() + START_LIMIT;
        let mut last = "no pod".to_owned();
        loop {
            let next_look = (Instant::now() + Duration::from_secs(1)).min(until);
            let waited = self.pods.wait(name, |pod| match pod.map(|p| progress(p)) {
                Some(Progress::Running) => Some(Ok(())),
                Some(Progress::Failed(why)) => Some(Err(why)),
                Some(Progress::Waiting(why)) => {
                    last = why;
                    None
                }
                None => None,
            });
            match tokio::time::timeout_at(next_look, waited).await {
                Ok(Some(answer)) => return answer.map_err(SandboxError::Start),
                Ok(None) => return Err(SandboxError::Stopping),
                Err(_) if last == "no pod" => {
                    // Why a Job gets no pod stands in events only: quota, admission, RuntimeClass.
                    if let Some(why) = why_no_pod(&self.api(), name).await {
                        return Err(SandboxError::Start(why));
                    }
                }
                Err(_) => {}
            }
            if Instant::now() >= until {
                let limit = START_LIMIT.as_secs();
                return Err(SandboxError::Start(format!(
                    "after {limit} s the Job {name} had {last}"
                )));
            }
        }
    }

    /// Reads the pod of a Job from the API server itself, not from the watch, and checks it.
    pub(super) async fn check_pod(
        &self,
        name: &JobName,
        class: Class,
        uid: Option<&str>,
    ) -> Result<PodFacts, SandboxError> {
        let pods: Api<Pod> = self.api();
        let of_job = ListParams::default().labels(&format!("batch.kubernetes.io/job-name={name}"));
        let list = pods
            .list(&of_job)
            .await
            .map_err(|e| refused("read a pod back", &e))?;
        let changed = |problem| SandboxError::Changed {
            job: name.to_string(),
            problem,
        };
        let [pod] = list.items.as_slice() else {
            return Err(changed(format!(
                "there are {} pods, not one",
                list.items.len()
            )));
        };
        check(pod, name, uid, class, &self.config).map_err(changed)
    }

    /// Deletes Job and pod, waits until the pod is gone, and frees its place.
    pub(super) async fn take_down(&self, name: &JobName, permit: OwnedSemaphorePermit) {
        let until = Instant::now() + DELETE_LIMIT;
        let mut pause = Duration::from_millis(200);
        while let Err(e) = self.delete_job(name).await {
            tracing::warn!(job = %name, error = %e, "the Job is not deleted yet");
            if Instant::now() > until {
                // Its row stays open; the next start, or its own deadline, ends it.
                break;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(5));
        }
        drop(permit);
    }

    /// One try to delete a Job with its pod and to see the pod gone.
    pub(super) async fn delete_job(&self, name: &JobName) -> Result<(), SandboxError> {
        let now = DeleteParams {
            grace_period_seconds: Some(0),
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        let jobs: Api<Job> = self.api();
        gone_is_fine(jobs.delete(name.as_str(), &now).await.map(drop))
            .map_err(|e| refused("delete a Job", &e))?;
        // Without waiting for the garbage collector.
        let pods: Api<Pod> = self.api();
        let of_job = ListParams::default().labels(&format!("batch.kubernetes.io/job-name={name}"));
        let until = Instant::now() + Duration::from_secs(15);
        let mut pause = Duration::from_millis(20);
        loop {
            let list = pods
                .list(&of_job)
                .await
                .map_err(|e| refused("look for a deleted pod", &e))?;
            if list.items.is_empty() {
                break;
            }
            for pod in list
                .items
                .iter()
                .filter(|p| p.metadata.deletion_timestamp.is_none())
            {
                let pod = pod.metadata.name.as_deref().unwrap_or_default();
                gone_is_fine(pods.delete(pod, &now).await.map(drop))
                    .map_err(|e| refused("delete a pod", &e))?;
            }
            if Instant::now() > until {
                return Err(SandboxError::Cluster {
                    step: "delete a pod",
                    problem: "it is still there".to_owned(),
                });
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(320));
        }
        crash::after(Step::JobDeleted);
        self.store
            .job_deleted(name.to_string(), self.clock.now_ms())
            .await
            .map_err(|e| SandboxError::Store(chain(&e)))
    }

    pub(super) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

/// Why a Job got no pod, if events tell.
pub(super) async fn why_no_pod(events: &Api<Event>, name: &JobName) -> Option<String> {
    let of_job = ListParams::default().fields(&format!(
        "involvedObject.kind=Job,involvedObject.name={name},reason=FailedCreate"
    ));
    let list = events.list(&of_job).await.ok()?;
    let messages = list
        .items
        .into_iter()
        .rev()
        .filter_map(|event| event.message);
    // After a conflict over the quota the Job's controller tries again by itself.
    let message = messages
        .into_iter()
        .find(|message| !is_quota_conflict(message))?;
    Some(message.chars().take(500).collect())
}

/// Opens the one stream to the runner in `pod`.
pub(super) async fn attach(pods: &Api<Pod>, pod: &str) -> Result<RunnerStream, SandboxError> {
    let params = AttachParams::default()
        .container(CONTAINER)
        .stdin(true)
        .stdout(true)
        .stderr(true)
        .max_stdin_buf_size(64 * 1024)
        .max_stdout_buf_size(256 * 1024)
        .max_stderr_buf_size(4 * 1024);
    let exec = pods.exec(pod, ["/runner", "attach"], &params);
    let mut process = timeout(Duration::from_secs(10), exec)
        .await
        .map_err(|_| SandboxError::Runner("could not be attached to within 10 s".to_owned()))?
        .map_err(|e| refused("attach to the runner", &e))?;
    let (reader, writer, stderr, status) = (
        process.stdout(),
        process.stdin(),
        process.stderr(),
        process.take_status(),
    );
    let (Some(reader), Some(writer), Some(stderr), Some(status)) = (reader, writer, stderr, status)
    else {
        return Err(SandboxError::Runner(
            "was attached to without its streams".to_owned(),
        ));
    };
    let ended = async move {
        match status.await.and_then(|s| s.message) {
            Some(message) => message.chars().take(300).collect(),
            None => "the connection to it broke".to_owned(),
        }
    };
    Ok(RunnerStream::new(Ends {
        reader: Box::new(reader),
        writer: Box::new(writer),
        stderr: Box::new(stderr),
        ended: Box::pin(ended),
        transport: Box::new(process),
    }))
}

/// Has the runner prove that it reaches the API server, and not the probe.
pub(super) async fn prove(
    stream: &mut RunnerStream,
    api_server: wire::ApiServer,
    probe: Probe<'_>,
) -> Result<Proof, SandboxError> {
    let target = probe.address().await?;
    let hello = stream
        .prove(api_server, target.clone(), PROOF_LIMIT)
        .await?;
    let egress = hello.egress.unwrap_or_default();
    let detail: String = egress.detail.chars().take(300).collect();
    // A listener that went away meanwhile would look like a closed door.
    if probe.address().await? != target {
        return Err(SandboxError::Start(
            "the egress probe moved while it was tried".to_owned(),
        ));
    }
    if !egress.closed {
        return Err(SandboxError::EgressOpen(detail));
    }
    let uid = u32::try_from(UID).unwrap_or_default();
    if (hello.uid, hello.gid) != (uid, uid) {
        return Err(SandboxError::Runner(format!(
            "runs as {}:{}",
            hello.uid, hello.gid
        )));
    }
    let kernel = hello.kernel.trim().chars().take(200).collect();
    Ok(Proof {
        kernel,
        egress: format!("{detail} ({} ms)", egress.elapsed_ms),
    })
}

/// Where the listener is that must not be reachable.
#[derive(Clone, Copy)]
pub(super) struct Probe<'a> {
    pub(super) client: &'a Client,
    pub(super) namespace: &'a str,
}

impl Probe<'_> {
    /// Its address, known to be up right now.
    pub(super) async fn address(self) -> Result<String, SandboxError> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), self.namespace);
        let probes = ListParams::default().labels("app.kubernetes.io/name=egress-probe");
        let list = pods
            .list(&probes)
            .await
            .map_err(|e| refused("look for the egress probe", &e))?;
        list.items
            .iter()
            .filter(|pod| pod.metadata.deletion_timestamp.is_none())
            .filter_map(|pod| pod.status.as_ref())
            .find(|status| {
                status
                    .conditions
                    .iter()
                    .flatten()
                    .any(|c| c.type_ == "Ready" && c.status == "True")
            })
            .and_then(|status| status.pod_ip.as_ref())
            .map(|ip| format!("{ip}:7777"))
            .ok_or_else(|| {
                SandboxError::Start(format!(
                    "no egress probe is ready in {}, so nothing could prove that egress is closed",
                    self.namespace
                ))
            })
    }
}

/// Creates a Job. Callers that come together write one quota, and the API server turns all but one of
/// them away with a conflict that is no answer to the Job itself.
async fn create(jobs: &Api<Job>, wanted: &Job) -> Result<(), SandboxError> {
    let mut pause = Duration::from_millis(20);
    for _ in 0..CREATE_TRIES {
        match jobs.create(&PostParams::default(), wanted).await {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if is_quota_conflict(&status.message) => {
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            Err(kube::Error::Api(status)) => {
                // The cluster answered, and said no: admission, quota, rights.
                let why: String = status.message.chars().take(500).collect();
                return Err(SandboxError::Start(format!(
                    "the cluster refused the Job: {why}"
                )));
            }
            Err(e) => return Err(refused("create a Job", &e)),
        }
    }
    let why = format!("the quota was busy {CREATE_TRIES} times in a row");
    Err(SandboxError::Start(why))
}

fn is_quota_conflict(message: &str) -> bool {
    message.contains("resourcequotas") && message.contains("the object has been modified")
}

/// How far a pod has come.
pub(super) enum Progress {
    Waiting(String),
    Running,
    Failed(String),
}

pub(super) fn progress(pod: &Pod) -> Progress {
    let Some(status) = &pod.status else {
        return Progress::Waiting("a pod without a status".to_owned());
    };
    let container = status.container_statuses.iter().flatten().next();
    let state = container.and_then(|c| c.state.as_ref());
    let waiting = state.and_then(|s| s.waiting.as_ref());
    if let Some(waiting) = waiting {
        let reason = waiting.reason.as_deref().unwrap_or("no reason");
        let message = waiting.message.as_deref().unwrap_or_default();
        let why: String = format!("{reason}: {message}").chars().take(300).collect();
        // These do not mend themselves while somebody waits.
        let lasting = [
            "ErrImageNeverPull",
            "ErrImagePull",
            "ImagePullBackOff",
            "InvalidImageName",
        ];
        if lasting.contains(&reason)
            || reason.starts_with("Create")
            || reason.starts_with("RunContainer")
        {
            return Progress::Failed(format!("the pod could not start: {why}"));
        }
        return Progress::Waiting(format!("a pod that waits ({why})"));
    }
    match status.phase.as_deref() {
        Some("Running") if state.is_some_and(|s| s.running.is_some()) => Progress::Running,
        Some("Failed" | "Succeeded") => {
            let ended = state.and_then(|s| s.terminated.as_ref());
            let code = ended.map_or(-1, |t| t.exit_code);
            let message = status
                .message
                .as_deref()
                .or(ended.and_then(|t| t.message.as_deref()));
            let message: String = message.unwrap_or("no message").chars().take(300).collect();
            Progress::Failed(format!(
                "the pod ended before it was used, exit code {code}: {message}"
            ))
        }
        phase => {
            let unscheduled = status
                .conditions
                .iter()
                .flatten()
                .find(|c| c.type_ == "PodScheduled" && c.status == "False")
                .and_then(|c| c.message.as_deref());
            Progress::Waiting(match unscheduled {
                Some(why) => format!("a pod that no node takes ({why})"),
                None => format!("a pod that is {}", phase.unwrap_or("without a phase")),
            })
        }
    }
}

pub(super) fn gone_is_fine(done: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match done {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other,
    }
}

pub(super) fn refused(step: &'static str, error: &kube::Error) -> SandboxError {
    // The API's own words say what admission or quota held against it.
    let problem = if let kube::Error::Api(status) = error {
        status.message.chars().take(500).collect()
    } else {
        chain(error)
    };
    SandboxError::Cluster { step, problem }
}
