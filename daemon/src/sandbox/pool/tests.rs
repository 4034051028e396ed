//! Who gets places. There is no API server here, so no sandbox starts; places are taken and freed as ever.

use super::*;
use crate::audit::Settings;
use crate::sandbox::stream::{Ends, RunnerStream};
use crate::sandbox::{Proof, places::TERRAFORM_PLACES};

/// In virtual time; longer than any Job takes to be given up.
const LIMIT: Duration = Duration::from_mins(5);

struct World {
    _folder: tempfile::TempDir,
    inner: Arc<Inner>,
    messages: mpsc::UnboundedSender<Message>,
    queue: mpsc::UnboundedReceiver<Message>,
}

impl World {
    /// With `max` places, and one spare wanted for Terraform. No pool runs.
    async fn new(max: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Clock::system();
        let (audit, _) = Audit::open(folder.path(), Settings::default(), clock.clone()).unwrap();
        let kubernetes = config::Kubernetes {
            kubeconfig: folder.path().to_owned(),
            sandbox_namespace: "sandbox-jobs".parse().unwrap(),
            probe_namespace: "sandbox-probe".parse().unwrap(),
            issuer_namespace: "sandbox-issuer".parse().unwrap(),
            api_server_name: "kubernetes.default.svc".to_owned(),
        };
        let config = config::Sandbox {
            image: String::new(),
            runtime_class: "gvisor".to_owned(),
            pool_read: 0,
            pool_terraform: 0,
            max,
            spare_idle_seconds: 600,
            providers: Vec::new(),
        };
        let sandboxes = Sandboxes::new(SandboxParts {
            cluster: Cluster::away(),
            kubernetes,
            config,
            limits: config::Limits::default(),
            store: Store::open(folder.path()).unwrap(),
            audit,
            clock,
            lifetime: Lifetime::default(),
        });
        // The pools end when nobody can ask them any more.
        let Sandboxes {
            inner,
            reads,
            terraform,
        } = sandboxes;
        drop((reads, terraform));
        until(|| Arc::strong_count(&inner) == 1).await;
        let mut inner = Arc::into_inner(inner).unwrap();
        inner.config.pool_terraform = 1;
        let (messages, queue) = mpsc::unbounded_channel();
        Self {
            _folder: folder,
            inner: Arc::new(inner),
            messages,
            queue,
        }
    }

    fn pool(&self, class: Class) -> Pool {
        Pool::new(&self.inner, class, &self.messages)
    }

    fn spare(&self, class: Class) -> Ready {
        Ready {
            name: JobName::random().unwrap(),
            class,
            pod: String::new(),
            pod_uid: String::new(),
            node: String::new(),
            runtime_class: String::new(),
            image: String::new(),
            proof: Proof {
                kernel: String::new(),
                egress: String::new(),
            },
            api_server: sandbox_proto::runner::v1::ApiServer::default(),
            stream: RunnerStream::new(Ends {
                reader: Box::new(tokio::io::empty()),
                writer: Box::new(tokio::io::sink()),
                stderr: Box::new(tokio::io::empty()),
                ended: Box::pin(std::future::pending()),
                transport: Box::new(()),
            }),
            since: Instant::now(),
            network: 0,
            permit: self.inner.places.take_free(class).unwrap(),
        }
    }

    /// One that waits for a sandbox until the guard is dropped.
    fn caller() -> (Caller, impl Sized) {
        let (answer, answered) = oneshot::channel();
        let gone = CancellationToken::new();
        let guard = gone.clone().drop_guard();
        (Caller { answer, gone }, (answered, guard))
    }

    /// Whether a caller gets the places of a class.
    async fn gets_places(&self, class: Class) -> bool {
        let places = tokio::time::timeout(LIMIT, self.inner.places.wait(class));
        places.await.is_ok_and(|places| places.is_some())
    }
}

async fn until(mut done: impl FnMut() -> bool) {
    let done = async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(LIMIT, done).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_spare_that_has_no_room_keeps_no_read_from_what_is_free() {
    let world = World::new(TERRAFORM_PLACES + 2).await;
    let _running = world.spare(Class::Terraform);
    let mut pool = world.pool(Class::Terraform);
    pool.start_what_is_wanted();
    tokio::task::yield_now().await;
    assert!(world.gets_places(Class::Read).await);
}

#[tokio::test(start_paused = true)]
async fn a_spare_is_started_once_there_is_room() {
    let world = World::new(TERRAFORM_PLACES + 2).await;
    let running = world.spare(Class::Terraform);
    let mut pool = world.pool(Class::Terraform);
    pool.start_what_is_wanted();
    assert_eq!(pool.starting, 0);
    drop(running);
    tokio::time::advance(NO_ROOM_PAUSE).await;
    pool.start_what_is_wanted();
    assert_eq!(pool.starting, 1);
}

#[tokio::test(start_paused = true)]
async fn an_idle_spare_makes_room_for_a_caller_of_the_other_class() {
    for (idle, asked, spares) in [
        (Class::Terraform, Class::Read, 1),
        (Class::Read, Class::Terraform, 4),
    ] {
        let mut world = World::new(TERRAFORM_PLACES).await;
        let mut pool = world.pool(idle);
        pool.ready.extend((0..spares).map(|_| world.spare(idle)));
        let (caller, _waits) = World::caller();
        let mut callers = world.pool(asked);
        callers.take(Message::Claim(caller));
        callers.start_what_is_wanted();
        until(|| world.inner.places.asked_of(idle) > 0).await;
        pool.make_room();
        assert!(pool.ready.is_empty(), "{idle:?}");
        until(|| world.inner.places.asked_of(idle) == 0).await;
        let mut left = 0;
        while left < spares {
            match world.queue.recv().await.unwrap() {
                Message::Left => {
                    pool.take(Message::Left);
                    left += 1;
                }
                other @ (Message::Claim(_)
                | Message::Started(_)
                | Message::NotStarted
                | Message::Checked(_)) => callers.take(other),
            }
        }
        assert_eq!(pool.leaving, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn no_more_spares_go_than_are_asked_for() {
    let world = World::new(2 * TERRAFORM_PLACES).await;
    let mut pool = world.pool(Class::Terraform);
    pool.ready
        .extend((0..2).map(|_| world.spare(Class::Terraform)));
    pool.make_room();
    assert_eq!(pool.ready.len(), 2, "nobody asks");
    let mut waits = Box::pin(world.inner.places.wait(Class::Read));
    assert!(futures_util::poll!(&mut waits).is_pending());
    pool.make_room();
    pool.make_room();
    assert_eq!(pool.ready.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_gave_up_leaves_the_queue() {
    let world = World::new(TERRAFORM_PLACES + 2).await;
    let _running = world.spare(Class::Terraform);
    let mut pool = world.pool(Class::Terraform);
    let (caller, waits) = World::caller();
    pool.take(Message::Claim(caller));
    pool.start_what_is_wanted();
    until(|| world.inner.places.asked_of(Class::Read) > 0).await;
    drop(waits);
    assert!(world.gets_places(Class::Read).await);
}
