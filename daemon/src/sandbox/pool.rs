//! Sandboxes started ahead, and those who wait for one.
//!
//! One task owns the pool of a class. It starts as many sandboxes as are wanted: the spares, and one for
//! each caller that waits. Whatever comes up first goes to whoever waited longest.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kube::Client;
use sandbox_core::audit::{Event, EventName};
use sandbox_core::ids::RequestId;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::cluster::Cluster;
use super::job::{Class, JobName};
use super::network::{Network, NetworkParts};
use super::places::Places;
use super::pods::Pods;
use super::start::Ready;
use super::{Claimed, SandboxError};
use crate::audit::Audit;
use crate::clock::Clock;
use crate::config;
use crate::crash::{self, Step};
use crate::lifetime::Lifetime;
use crate::report::chain;
use crate::store::Store;

/// Between two looks at the spares.
const UPKEEP: Duration = Duration::from_secs(20);
/// After a spare failed to start, before the next try; doubled each time, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// After a spare was taken, before the next one is started: a pod that starts takes a core for half a second,
/// and the call that took the spare would be the one to wait. Who waits for a sandbox is not made to.
const REFILL_PAUSE: Duration = Duration::from_millis(250);
/// When there was no room for a spare, before the next look.
const NO_ROOM_PAUSE: Duration = Duration::from_secs(1);

/// The sandboxes. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Sandboxes {
    inner: Arc<Inner>,
    reads: mpsc::UnboundedSender<Message>,
    terraform: mpsc::UnboundedSender<Message>,
}

/// What starting and deleting needs.
pub(super) struct Inner {
    cluster: Cluster,
    pub(super) client: Client,
    pub(super) namespace: String,
    pub(super) probe_namespace: String,
    pub(super) config: config::Sandbox,
    pub(super) limits: config::Limits,
    pub(super) pods: Pods,
    pub(super) network: Network,
    pub(super) store: Store,
    pub(super) audit: Audit,
    pub(super) clock: Clock,
    pub(super) lifetime: Lifetime,
    places: Places,
    ready_reads: AtomicUsize,
    ready_terraform: AtomicUsize,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandboxes")
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

/// What the sandboxes work with.
#[derive(Debug)]
pub struct SandboxParts {
    /// Where they run.
    pub cluster: Cluster,
    /// Where in it.
    pub kubernetes: config::Kubernetes,
    /// What they are.
    pub config: config::Sandbox,
    /// How long work may take.
    pub limits: config::Limits,
    /// The journal.
    pub store: Store,
    /// The trail.
    pub audit: Audit,
    /// What time it is.
    pub clock: Clock,
    /// How long all this goes on.
    pub lifetime: Lifetime,
}

/// How the pool is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PoolState {
    /// Spares that wait.
    pub ready: usize,
    /// Spares there should be.
    pub size: usize,
}

enum Message {
    Claim(Caller),
    Started(Result<Ready, SandboxError>),
    /// The caller that a start queued for does not wait any more.
    NotStarted,
    Checked(Option<Ready>),
    /// The places of a spare that was let go are free.
    Left,
}

/// Who waits for a sandbox.
struct Caller {
    answer: oneshot::Sender<Result<(Ready, bool), SandboxError>>,
    /// Cancelled once it has an answer or gave up.
    gone: CancellationToken,
}

impl Sandboxes {
    /// Starts the watches, the keeper of the network policies and the pool.
    #[must_use]
    pub fn new(parts: SandboxParts) -> Self {
        let SandboxParts {
            cluster,
            kubernetes,
            config,
            limits,
            store,
            audit,
            clock,
            lifetime,
        } = parts;
        let namespace = kubernetes.sandbox_namespace.to_string();
        let client = cluster.client().clone();
        let network = NetworkParts {
            client: client.clone(),
            namespace: namespace.clone(),
            server_name: kubernetes.api_server_name,
            ca_pem: cluster.ca_pem().to_owned(),
            audit: audit.clone(),
        };
        let inner = Arc::new(Inner {
            pods: Pods::watch(client.clone(), &namespace, &lifetime),
            network: Network::keep(network, &lifetime),
            client,
            cluster,
            namespace,
            probe_namespace: kubernetes.probe_namespace.to_string(),
            places: Places::new(config.max),
            ready_reads: AtomicUsize::new(0),
            ready_terraform: AtomicUsize::new(0),
            config,
            limits,
            store,
            audit,
            clock,
            lifetime,
        });
        Self {
            reads: Pool::start(&inner, Class::Read),
            terraform: Pool::start(&inner, Class::Terraform),
            inner,
        }
    }

    /// A sandbox for one request, checked again right now. Waits for one to start if none is spare.
    ///
    /// # Errors
    /// [`SandboxError`]
    pub async fn claim(&self, request: RequestId, class: Class) -> Result<Claimed, SandboxError> {
        loop {
            let (ready, pooled) = self.claim_one(class).await?;
            // From here on dropping it deletes its Job.
            let mut claimed = Claimed {
                sandboxes: self.clone(),
                ready: Some(ready),
                pooled,
            };
            match self.check_claimed(&mut claimed).await {
                Ok(()) => {
                    let name = claimed.job().to_owned();
                    let journalled = self.inner.store.job_claimed(name, request).await;
                    journalled.map_err(|e| SandboxError::Store(chain(&e)))?;
                    crash::after(Step::JobClaimed);
                    return Ok(claimed);
                }
                Err(e) if pooled => {
                    tracing::warn!(job = claimed.job(), error = %e, "a spare is of no use any more");
                }
                Err(e) => return Err(e),
            }
        }
    }

    async fn claim_one(&self, class: Class) -> Result<(Ready, bool), SandboxError> {
        let (answer, answered) = oneshot::channel();
        let pool = match class {
            Class::Read => &self.reads,
            Class::Terraform => &self.terraform,
        };
        let gone = CancellationToken::new();
        let _gone = gone.clone().drop_guard();
        pool.send(Message::Claim(Caller { answer, gone }))
            .map_err(|_| SandboxError::Stopping)?;
        answered.await.map_err(|_| SandboxError::Stopping)?
    }

    /// A spare may have been tampered with, or have died, while it waited.
    async fn check_claimed(&self, claimed: &mut Claimed) -> Result<(), SandboxError> {
        if !claimed.pooled {
            return Ok(());
        }
        let Some(ready) = claimed.ready.as_mut() else {
            return Err(SandboxError::Stopping);
        };
        if self.inner.network.generation() != Some(ready.network) {
            return Err(SandboxError::Start(
                "the network policies changed since it was proven".to_owned(),
            ));
        }
        let (checked, answers) = tokio::join!(
            self.inner
                .check_pod(&ready.name, ready.class, Some(&ready.pod_uid)),
            ready.stream.ping()
        );
        if let Err(SandboxError::Changed { job, problem }) = &checked {
            let event = Event::new(EventName::AlarmSandboxChanged)
                .with("job", job.as_str())
                .with("seen", problem.as_str());
            if let Err(e) = self.inner.audit.record_closing(event).await {
                tracing::error!(error = chain(&e), "an alarm is not in the trail");
            }
        }
        checked.map(drop).and(answers)
    }

    /// Waits until the pod is no longer the running one it was; says why.
    pub(super) fn wait_until_lost(
        &self,
        job: JobName,
        uid: String,
    ) -> impl Future<Output = String> + use<> {
        let pods = self.inner.pods.clone();
        async move {
            let lost = pods.wait(&job, |pod| match pod {
                None => Some("its pod is gone".to_owned()),
                Some(pod) if pod.metadata.uid.as_ref() != Some(&uid) => {
                    Some("its pod was replaced".to_owned())
                }
                Some(pod) if pod.metadata.deletion_timestamp.is_some() => {
                    Some("its pod is being deleted".to_owned())
                }
                Some(pod) => {
                    let status = pod.status.as_ref();
                    let phase = status.and_then(|s| s.phase.as_deref()).unwrap_or_default();
                    let reason = status
                        .and_then(|s| s.reason.as_deref())
                        .unwrap_or("no reason given");
                    (phase == "Failed").then(|| format!("its pod failed, {reason}"))
                }
            });
            match lost.await {
                Some(why) => why,
                None => std::future::pending().await,
            }
        }
    }

    pub(super) async fn delete(&self, ready: Ready) -> Result<(), SandboxError> {
        let Ready {
            name,
            stream,
            permit,
            ..
        } = ready;
        // Its end of the stream first: the runner ends by itself.
        drop(stream);
        let deleted = self.inner.delete_job(&name).await;
        if deleted.is_err() {
            let inner = Arc::clone(&self.inner);
            self.inner
                .lifetime
                .spawn(async move { inner.take_down(&name, permit).await });
        }
        deleted
    }

    /// Deletes a Job of an earlier run, with its pod.
    ///
    /// # Errors
    /// What keeps it; it is to be tried again.
    pub async fn delete_leftover(&self, name: &str) -> Result<(), SandboxError> {
        self.inner.delete_job(&JobName::existing(name)).await
    }

    /// Every Job of ours that is in the cluster.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn jobs_in_cluster(&self) -> Result<Vec<String>, SandboxError> {
        let jobs: kube::Api<k8s_openapi::api::batch::v1::Job> = self.inner.api();
        let (key, value) = super::job::MANAGED_BY;
        let ours = kube::api::ListParams::default().labels(&format!("{key}={value}"));
        let list = jobs
            .list_metadata(&ours)
            .await
            .map_err(|e| super::start::refused("list Jobs", &e))?;
        Ok(list
            .items
            .into_iter()
            .filter_map(|j| j.metadata.name)
            .collect())
    }

    /// Whether the API server answers the daemon.
    ///
    /// # Errors
    /// When it does not, with its words.
    pub async fn health(&self, namespace: &str) -> Result<(), super::ClusterError> {
        self.inner.cluster.health(namespace).await
    }

    /// The runner's image, by digest.
    #[must_use]
    pub fn image(&self) -> &str {
        &self.inner.config.image
    }

    /// The Terraform providers of that image.
    #[must_use]
    pub fn providers(&self) -> &[config::Provider] {
        &self.inner.config.providers
    }

    /// How the pools are, together.
    #[must_use]
    pub fn pool(&self) -> PoolState {
        let of = [Class::Read, Class::Terraform];
        PoolState {
            ready: of
                .map(|class| self.inner.ready(class).load(Ordering::Relaxed))
                .iter()
                .sum(),
            size: of.map(|class| self.inner.size(class)).iter().sum(),
        }
    }

    pub(super) fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.inner.lifetime.spawn(task)
    }
}

impl Inner {
    fn ready(&self, class: Class) -> &AtomicUsize {
        match class {
            Class::Read => &self.ready_reads,
            Class::Terraform => &self.ready_terraform,
        }
    }

    /// Spares of a class that there should be.
    fn size(&self, class: Class) -> usize {
        match class {
            Class::Read => self.config.pool_read,
            Class::Terraform => self.config.pool_terraform,
        }
    }
}

struct Pool {
    inner: Arc<Inner>,
    class: Class,
    /// Weak: the pool must not keep its own queue open.
    messages: mpsc::WeakUnboundedSender<Message>,
    ready: VecDeque<Ready>,
    waiting: VecDeque<Caller>,
    starting: usize,
    checking: usize,
    /// Places of spares that were let go, until they are free.
    leaving: u32,
    pause: Duration,
    not_before: Instant,
}

impl Pool {
    /// Starts it, and gives where it is asked.
    fn start(inner: &Arc<Inner>, class: Class) -> mpsc::UnboundedSender<Message> {
        let (messages, queue) = mpsc::unbounded_channel();
        let pool = Self::new(inner, class, &messages);
        inner.lifetime.spawn(pool.run(queue));
        messages
    }

    fn new(inner: &Arc<Inner>, class: Class, messages: &mpsc::UnboundedSender<Message>) -> Self {
        Self {
            inner: Arc::clone(inner),
            class,
            messages: messages.downgrade(),
            ready: VecDeque::new(),
            waiting: VecDeque::new(),
            starting: 0,
            checking: 0,
            leaving: 0,
            pause: FIRST_PAUSE,
            not_before: Instant::now(),
        }
    }

    async fn run(mut self, mut queue: mpsc::UnboundedReceiver<Message>) {
        let stop = self.inner.lifetime.stop.clone();
        let mut upkeep = tokio::time::interval(UPKEEP);
        upkeep.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut callers = self.inner.places.queue();
        loop {
            self.make_room();
            self.start_what_is_wanted();
            self.inner
                .ready(self.class)
                .store(self.ready.len(), Ordering::Relaxed);
            let resume = self.not_before;
            tokio::select! {
                () = stop.cancelled() => break,
                message = queue.recv() => match message {
                    Some(message) => self.take(message),
                    None => break,
                },
                Ok(()) = callers.changed() => {}
                _ = upkeep.tick() => self.look_after_spares(),
                () = tokio::time::sleep_until(resume), if resume > Instant::now() => {}
            }
        }
        self.end(queue).await;
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Claim(caller) => match self.ready.pop_front() {
                Some(ready) => {
                    self.not_before = self.not_before.max(Instant::now() + REFILL_PAUSE);
                    self.hand_over(caller, ready, true);
                }
                None => self.waiting.push_back(caller),
            },
            Message::Started(Ok(ready)) => {
                self.starting -= 1;
                self.pause = FIRST_PAUSE;
                self.keep_or_hand_over(ready, false);
            }
            Message::Started(Err(e)) => {
                self.starting -= 1;
                self.failed(e);
            }
            Message::NotStarted => self.starting -= 1,
            Message::Left => self.leaving -= self.inner.places.of(self.class),
            Message::Checked(ready) => {
                self.checking -= 1;
                if let Some(ready) = ready {
                    self.keep_or_hand_over(ready, true);
                }
            }
        }
    }

    fn keep_or_hand_over(&mut self, ready: Ready, pooled: bool) {
        self.waiting.retain(|caller| !caller.answer.is_closed());
        match self.waiting.pop_front() {
            Some(caller) => self.hand_over(caller, ready, pooled),
            None => self.ready.push_back(ready),
        }
    }

    fn hand_over(&mut self, caller: Caller, ready: Ready, pooled: bool) {
        // A caller that gave up meanwhile leaves it for the next one.
        if let Err(Ok((ready, pooled))) = caller.answer.send(Ok((ready, pooled))) {
            self.keep_or_hand_over(ready, pooled);
        }
    }

    fn failed(&mut self, error: SandboxError) {
        tracing::warn!(error = %error, "a sandbox did not start");
        if matches!(error, SandboxError::EgressOpen(_)) {
            let inner = Arc::clone(&self.inner);
            let event = Event::new(EventName::AlarmEgressOpen).with("seen", error.to_string());
            self.inner.lifetime.spawn(async move {
                if let Err(e) = inner.audit.record_closing(event).await {
                    tracing::error!(error = chain(&e), "an alarm is not in the trail");
                }
            });
        }
        self.waiting.retain(|caller| !caller.answer.is_closed());
        if let Some(caller) = self.waiting.pop_front() {
            // It asked at the right time to hear why; who comes later gets a new try.
            drop(caller.answer.send(Err(error)));
        } else {
            self.not_before = Instant::now() + self.pause;
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Lets idle spares go for as many places as callers of the other class queue for.
    fn make_room(&mut self) {
        while self.leaving < self.inner.places.asked_of(self.class)
            && let Some(ready) = self.ready.pop_front()
        {
            self.leaving += self.inner.places.of(self.class);
            let (inner, messages) = (Arc::clone(&self.inner), self.messages.clone());
            self.inner.lifetime.spawn(async move {
                drop(ready.stream);
                inner.take_down(&ready.name, ready.permit).await;
                deliver(&inner, &messages, Message::Left).await;
            });
        }
    }

    /// Callers queue for places; a spare takes what is free or is not started, since in the queue it would
    /// keep places from those that wait behind it.
    fn start_what_is_wanted(&mut self) {
        self.waiting.retain(|caller| !caller.answer.is_closed());
        let most = self.inner.places.most(self.class);
        let coming = self.ready.len() + self.starting + self.checking;
        let callers = self.waiting.iter().take(most).skip(coming);
        let gone: Vec<_> = callers.map(|caller| caller.gone.clone()).collect();
        for gone in gone {
            let (inner, class) = (Arc::clone(&self.inner), self.class);
            self.start_one(async move {
                tokio::select! {
                    () = gone.cancelled() => None,
                    places = inner.places.wait(class) => places,
                }
            });
        }
        if Instant::now() < self.not_before {
            return;
        }
        let coming = self.ready.len() + self.starting + self.checking;
        let spares = self.inner.size(self.class);
        let wanted = spares.saturating_add(self.waiting.len()).min(most);
        for _ in coming..wanted {
            let Some(places) = self.inner.places.take_free(self.class) else {
                self.not_before = Instant::now() + NO_ROOM_PAUSE;
                break;
            };
            self.start_one(std::future::ready(Some(places)));
        }
    }

    /// Starts a sandbox as soon as it has its places, or not at all without them.
    fn start_one(
        &mut self,
        places: impl Future<Output = Option<OwnedSemaphorePermit>> + Send + 'static,
    ) {
        self.starting += 1;
        let (inner, messages, class) = (Arc::clone(&self.inner), self.messages.clone(), self.class);
        self.inner.lifetime.spawn(async move {
            let message = match places.await {
                Some(places) => Message::Started(inner.start(class, places).await),
                None => Message::NotStarted,
            };
            deliver(&inner, &messages, message).await;
        });
    }

    fn look_after_spares(&mut self) {
        let idle_limit = Duration::from_secs(self.inner.config.spare_idle_seconds);
        for mut ready in std::mem::take(&mut self.ready) {
            self.checking += 1;
            let (inner, messages) = (Arc::clone(&self.inner), self.messages.clone());
            self.inner.lifetime.spawn(async move {
                let still_proven = inner.network.generation() == Some(ready.network);
                let good = still_proven
                    && ready.since.elapsed() < idle_limit
                    && ready.stream.ping().await.is_ok();
                if good {
                    deliver(&inner, &messages, Message::Checked(Some(ready))).await;
                } else {
                    deliver(&inner, &messages, Message::Checked(None)).await;
                    drop(ready.stream);
                    inner.take_down(&ready.name, ready.permit).await;
                }
            });
        }
    }

    /// Deletes the spares; those that wait are told by their closed channel.
    async fn end(self, mut queue: mpsc::UnboundedReceiver<Message>) {
        queue.close();
        let mut ready: Vec<Ready> = self.ready.into();
        while let Some(message) = queue.recv().await {
            match message {
                Message::Started(Ok(r)) | Message::Checked(Some(r)) => ready.push(r),
                Message::Claim(_)
                | Message::Started(Err(_))
                | Message::NotStarted
                | Message::Checked(None)
                | Message::Left => {}
            }
        }
        let downs = ready.into_iter().map(|r| {
            drop(r.stream);
            let inner = Arc::clone(&self.inner);
            async move { inner.take_down(&r.name, r.permit).await }
        });
        futures_util::future::join_all(downs).await;
    }
}

/// Hands a sandbox to the pool, or deletes it when the pool has ended.
async fn deliver(inner: &Inner, messages: &mpsc::WeakUnboundedSender<Message>, message: Message) {
    let undelivered = match messages.upgrade() {
        Some(messages) => messages.send(message).err().map(|e| e.0),
        None => Some(message),
    };
    if let Some(Message::Started(Ok(ready)) | Message::Checked(Some(ready))) = undelivered {
        drop(ready.stream);
        inner.take_down(&ready.name, ready.permit).await;
    }
}

#[cfg(test)]
mod tests;
