//! `sandboxd run`: opens everything in order, serves, and gives everything back in order.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{DumpableBehavior, Resource, Rlimit};
use sandbox_core::audit::{Event, EventName};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tonic::service::{InterceptorLayer, Routes};
use tonic::transport::Server;

use crate::actions::PageKey;
use crate::approve::{ApprovalParts, Approvals};
use crate::audit::{Audit, OpenReport, Settings};
use crate::broker::{Broker, BrokerParts, Login};
use crate::clock::Clock;
use crate::config::{Config, Principals, Role};
use crate::decide::{self, PolicyInForce};
use crate::grpc::{ApproverParts, admit_principals, agent_routes, approver_routes};
use crate::lifetime::Lifetime;
use crate::listen::Listener;
use crate::reconcile::Leftovers;
use crate::refusals::Refusals;
use crate::report::chain;
use crate::request::{Parts, Requests};
use crate::sandbox::{Cluster, SandboxParts, Sandboxes};
use crate::store::Store;
use crate::terraform::{Keyed, Roots};

/// How long requests, revocations and deletions may take at the end.
const END_LIMIT: Duration = Duration::from_secs(40);

/// Closes every way by which this process's memory or files could be read by others.
///
/// # Errors
/// When the system refuses.
pub fn harden() -> anyhow::Result<()> {
    // Sockets and files are made for owner and group alone; nothing is changed after it was made.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o007));
    rustix::process::setrlimit(
        Resource::Core,
        Rlimit {
            current: Some(0),
            maximum: Some(0),
        },
    )
    .context("could not turn core dumps off")?;
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .context("could not make the process non-dumpable")?;
    Ok(())
}

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// When something it needs cannot be opened; nothing was served then.
pub async fn run(config_path: &Path) -> anyhow::Result<()> {
    let uid = rustix::process::geteuid().as_raw();
    let clock = Clock::system();
    let started_ms = clock.now_ms();
    let (config, principals) = Config::load(config_path, uid)?;
    let policy = load_policy(&config, &principals)?;
    let rules = policy.rule_count();
    check_state_folder(&config.state.directory, uid)?;
    let lifetime = Lifetime::default();

    let settings = Settings {
        low_water_bytes: config.limits.audit_low_water_bytes,
        ..Settings::default()
    };
    let (audit, opened) = Audit::open(&config.state.directory, settings, clock.clone())?;
    tell_start(&audit, &opened, uid, rules).await?;
    let store = Store::open(&config.state.directory).context("could not open the database")?;
    let leftovers = Leftovers::read(&store).await?;

    let cluster = Cluster::open(&config.kubernetes.kubeconfig).await?;
    let login = Login::new(&config.vault, store.clone(), clock.clone())?;
    let broker_parts = BrokerParts {
        login: login.clone(),
        cluster: cluster.clone(),
        store: store.clone(),
        audit: audit.clone(),
        clock: clock.clone(),
        lifetime: lifetime.clone(),
    };
    let sandboxes = Sandboxes::new(SandboxParts {
        cluster,
        kubernetes: config.kubernetes.clone(),
        config: config.sandbox.clone(),
        limits: config.limits.clone(),
        store: store.clone(),
        audit: audit.clone(),
        clock: clock.clone(),
        lifetime: lifetime.clone(),
    });
    let approvals = Approvals::start(ApprovalParts {
        store: store.clone(),
        audit: audit.clone(),
        clock: clock.clone(),
        principals: principals.clone(),
        notify: config.notify.clone(),
        lifetime: lifetime.clone(),
    });
    let requests = Requests::new(Parts {
        refusals: Refusals::new(audit.clone(), &lifetime),
        audit,
        store,
        policy: PolicyInForce::new(policy),
        approvals,
        broker: Broker::new(&config.vault, broker_parts)?,
        login,
        sandboxes,
        roots: Roots::new(config.roots.clone()),
        keyed: Keyed::open(&config.state.directory).context("could not open the key of digests")?,
        page_key: PageKey::generate()
            .map_err(|_| anyhow::anyhow!("the system gives no random bytes"))?,
        limits: config.limits.clone(),
        clock,
        lifetime: lifetime.clone(),
    });
    end_leftovers(leftovers, requests.parts()).await?;

    // Before anybody can know that it serves: a signal that nobody listens for ends it at once.
    let signals = Signals::listen()?;
    let agent = Listener::bind(&config.listen.agent_socket, uid).await?;
    let approver = Listener::bind(&config.listen.approver_socket, uid).await?;
    let approver_parts = ApproverParts {
        requests: requests.clone(),
        sandbox_namespace: config.kubernetes.sandbox_namespace.to_string(),
        uid,
        started_ms,
    };
    let parts = Arc::clone(requests.parts());
    let agent_routes = agent_routes(requests).await?;
    serve(agent, Role::Agent, principals.clone(), agent_routes, &parts);
    serve(
        approver,
        Role::Approver,
        principals.clone(),
        approver_routes(approver_parts),
        &parts,
    );
    tracing::info!(
        agent_socket = %config.listen.agent_socket.display(),
        approver_socket = %config.listen.approver_socket.display(),
        "serving"
    );
    signals.follow(&config, &principals, &parts).await?;
    end(&parts).await
}

/// The policy, if it is good and names only who is configured.
///
/// # Errors
/// What is wrong with it.
pub fn load_policy(
    config: &Config,
    principals: &Principals,
) -> anyhow::Result<sandbox_core::policy::Policy> {
    let policy = decide::load(&config.policy.file, &config.reserved_namespaces())?;
    if let Some(unknown) = policy.principals().find(|p| !principals.has_agent(p)) {
        anyhow::bail!(
            "the policy {} names the principal {unknown}, which is not in [agents] of sandboxd.toml",
            config.policy.file.display()
        );
    }
    // An approver is never the one who asks: no principal is both.
    let people = principals.of(Role::Approver).map(|(_, name)| name);
    let people = people.collect::<BTreeSet<_>>().len();
    if let Some((rule, quorum)) = policy.quorums().find(|(_, q)| *q as usize > people) {
        anyhow::bail!(
            "the rule {rule} of the policy {} asks for {quorum} people, and [approvers] of sandboxd.toml names \
             {people}: no approval by it could ever be granted",
            config.policy.file.display()
        );
    }
    Ok(policy)
}

pub(crate) fn check_state_folder(path: &Path, uid: u32) -> anyhow::Result<()> {
    let meta = std::fs::symlink_metadata(path)
        .with_context(|| format!("could not use the state folder {}", path.display()))?;
    anyhow::ensure!(
        meta.is_dir(),
        "the state folder {} is not a folder",
        path.display()
    );
    anyhow::ensure!(
        meta.uid() == uid && meta.mode().trailing_zeros() >= 6,
        "the state folder {} must belong to uid {uid} and be closed to everybody else (mode 0700)",
        path.display()
    );
    Ok(())
}

async fn tell_start(
    audit: &Audit,
    opened: &OpenReport,
    uid: u32,
    rules: usize,
) -> anyhow::Result<()> {
    if let Some(torn) = &opened.torn {
        tracing::warn!(file = %torn.file.display(), bytes = torn.bytes, "half a last line was set aside");
    }
    if !opened.holds_reserve {
        tracing::warn!(
            "no space could be held back for the end of work; only the low-water mark keeps some free"
        );
    }
    let started = Event::new(EventName::DaemonStarted)
        .with("version", env!("CARGO_PKG_VERSION"))
        .with("uid", uid);
    let loaded = Event::new(EventName::PolicyLoaded).with("rules", rules);
    audit.record_closing(started).await?;
    audit.record_closing(loaded).await?;
    Ok(())
}

async fn end_leftovers(leftovers: Leftovers, parts: &Arc<Parts>) -> anyhow::Result<()> {
    if !leftovers.end(parts).await? {
        tracing::warn!("not everything of the earlier run is gone yet; trying goes on");
        let parts = Arc::clone(parts);
        parts
            .lifetime
            .clone()
            .spawn(async move { leftovers.keep_on(&parts).await });
    }
    Ok(())
}

fn serve(
    listener: Listener,
    role: Role,
    principals: Principals,
    routes: Routes,
    parts: &Arc<Parts>,
) {
    let connections = listener.accept(role, principals, &parts.lifetime);
    let stop = parts.lifetime.stop.clone();
    let refusals = parts.refusals.clone();
    parts.lifetime.spawn(async move {
        let served = Server::builder()
            .http2_keepalive_interval(Some(Duration::from_secs(30)))
            .http2_keepalive_timeout(Some(Duration::from_secs(20)))
            .max_concurrent_streams(64)
            .layer(InterceptorLayer::new(admit_principals(refusals)))
            .add_routes(routes)
            .serve_with_incoming_shutdown(connections, stop.cancelled_owned())
            .await;
        if let Err(e) = served {
            tracing::error!(error = chain(&e), ?role, "a socket is no longer served");
        }
    });
}

/// What an operator sends.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Does what they ask for, until one asks for the end.
    async fn follow(
        mut self,
        config: &Config,
        principals: &Principals,
        parts: &Parts,
    ) -> anyhow::Result<()> {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return Ok(()),
                _ = self.interrupt.recv() => return Ok(()),
                _ = self.hang_up.recv() => reload(config, principals, parts).await?,
            }
        }
    }
}

/// Swaps the policy, whole or not at all, and says which.
async fn reload(config: &Config, principals: &Principals, parts: &Parts) -> anyhow::Result<()> {
    let event = match load_policy(config, principals) {
        Ok(policy) => {
            let (before, after) = (parts.policy.get().rule_count(), policy.rule_count());
            let changed = *parts.policy.get() != policy;
            parts.policy.replace(policy);
            tracing::info!(before, after, changed, "the policy was read again");
            Event::new(EventName::PolicyLoaded)
                .with("rules", after)
                .with("changed", changed)
        }
        Err(e) => {
            let why = format!("{e:#}");
            tracing::error!(
                why,
                "the policy was not taken; the one before stays in force"
            );
            Event::new(EventName::PolicyRefused).with("why", why)
        }
    };
    parts.audit.record_closing(event).await?;
    Ok(())
}

/// Requests first, then what hangs from them, then the login, then the trail.
async fn end(parts: &Parts) -> anyhow::Result<()> {
    tracing::info!("stopping: requests end, leases are revoked, Jobs deleted");
    let left = parts.lifetime.end(END_LIMIT).await;
    if left > 0 {
        tracing::error!(
            left,
            "tasks did not end in time; the next start ends what they held"
        );
    }
    parts.broker.log_out().await;
    let stopped = Event::new(EventName::DaemonStopped).with("tasks_left", left);
    parts.audit.record_closing(stopped).await?;
    parts.audit.close().await?;
    Ok(())
}

/// Where the configuration is.
#[must_use]
pub fn config_path(given: Option<PathBuf>) -> PathBuf {
    given.unwrap_or_else(|| crate::config::DEFAULT_PATH.into())
}
