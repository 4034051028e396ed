//! What tries are made with. The two pods and the login are made when the first check asks for them, shared
//! by all, and taken away at the end.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use sandbox_core::names::NamespaceName;
use sandbox_core::policy::Policy;
use tokio::sync::OnceCell;

use super::report::{Line, Tries};
use crate::broker::Trial;
use crate::config::{Config, Principals};
use crate::report::chain;
use crate::run::load_policy;
use crate::sandbox::Cluster;
use crate::sandbox::trial::{self, MADE_BY, TrialPod};

/// Everything a check works with.
pub(super) struct Ground {
    pub(super) config: Config,
    /// Where `config` was read.
    pub(super) config_file: PathBuf,
    pub(super) principals: Principals,
    pub(super) policy: Policy,
    /// The daemon's uid: the owner of its state.
    pub(super) daemon_uid: u32,
    /// The namespace that credentials are tried in: the first of the policy.
    pub(super) target: NamespaceName,
    /// As the daemon.
    pub(super) daemon: Cluster,
    admin: Option<Admin>,
    /// What else must be closed to the agent.
    pub(super) closed: Vec<PathBuf>,
    /// The Job's name, and the namespace's but for the first word.
    mark: String,
    sandbox: OnceCell<Result<Sandbox, String>>,
    asked_for_sandbox: AtomicBool,
    open: OnceCell<Result<TrialPod, String>>,
    asked_for_open: AtomicBool,
    login: OnceCell<Result<Trial, String>>,
}

struct Admin {
    kubeconfig: PathBuf,
    cluster: Cluster,
}

/// The Job's pod.
pub(super) struct Sandbox {
    pub(super) pod: TrialPod,
    /// `/proc/version` in it.
    pub(super) kernel: String,
}

impl Ground {
    pub(super) async fn open(
        config_file: &Path,
        admin_kubeconfig: Option<PathBuf>,
        closed: Vec<PathBuf>,
    ) -> anyhow::Result<Self> {
        // The daemon's uid is needed to read who else is who; any does to learn where its state is.
        let (config, _) = Config::load(config_file, 0)?;
        let state = &config.state.directory;
        let daemon_uid = std::fs::symlink_metadata(state)
            .with_context(|| {
                format!(
                    "could not look at the daemon's state in {}",
                    state.display()
                )
            })?
            .uid();
        let (config, principals) = Config::load(config_file, daemon_uid)?;
        let policy = load_policy(&config, &principals)?;
        let target = policy.namespaces().next().cloned();
        let admin = match admin_kubeconfig {
            Some(kubeconfig) => Some(Admin {
                cluster: Cluster::open(&kubeconfig).await?,
                kubeconfig,
            }),
            None => None,
        };
        let random = crate::random::name(10)
            .map_err(|_| anyhow::anyhow!("the system gives no random bytes"))?;
        Ok(Self {
            target: target.context("the policy names no namespace, so there is none to try")?,
            daemon: Cluster::open(&config.kubernetes.kubeconfig).await?,
            config,
            config_file: config_file.to_owned(),
            principals,
            policy,
            daemon_uid,
            admin,
            closed,
            mark: format!("verify-{random}"),
            sandbox: OnceCell::new(),
            asked_for_sandbox: AtomicBool::new(false),
            open: OnceCell::new(),
            asked_for_open: AtomicBool::new(false),
            login: OnceCell::new(),
        })
    }

    /// A name for what is tried and never made: another than the Job's, which is there.
    pub(super) fn name(&self) -> String {
        format!("{}-dry-run", self.mark)
    }

    /// As an administrator.
    pub(super) fn admin(&self) -> anyhow::Result<&Cluster> {
        let admin = self.admin.as_ref().map(|a| &a.cluster);
        admin.context("it needs an administrator: give --admin-kubeconfig")
    }

    /// The administrator's kubeconfig, if one was given.
    pub(super) fn admin_kubeconfig(&self) -> Option<&Path> {
        self.admin.as_ref().map(|a| a.kubeconfig.as_path())
    }

    /// As `user`, by the administrator's right to impersonate.
    pub(super) async fn acting_for(&self, user: &str) -> anyhow::Result<Cluster> {
        let admin = self.admin()?;
        let kubeconfig = self.admin_kubeconfig();
        let kubeconfig = kubeconfig.context("an administrator has a kubeconfig")?;
        let acting = Cluster::open_as(kubeconfig, Some(user)).await?;
        debug_assert_eq!(acting.url(), admin.url());
        Ok(acting)
    }

    /// A sandbox as the daemon starts them, started by the daemon's identity.
    pub(super) async fn sandbox(&self) -> anyhow::Result<&Sandbox> {
        let started = self
            .sandbox
            .get_or_init(|| kept(Box::pin(self.start_sandbox())))
            .await;
        told(started).context("no Job of the sandbox namespace runs")
    }

    /// A pod of the same image without gVisor, in a namespace of its own where no policy is.
    pub(super) async fn open_pod(&self) -> anyhow::Result<&TrialPod> {
        let started = self
            .open
            .get_or_init(|| kept(Box::pin(self.start_open())))
            .await;
        told(started).context("no pod outside the sandbox namespace runs to compare with")
    }

    /// A login to Vault as the daemon's.
    pub(super) async fn login(&self) -> anyhow::Result<&Trial> {
        let log_in = || kept(Trial::log_in(&self.config.vault, &self.daemon));
        told(self.login.get_or_init(log_in).await)
            .context("the daemon's login to Vault does not work")
    }

    pub(super) fn open_namespace(&self) -> String {
        format!("sandbox-{}", self.mark)
    }

    async fn start_sandbox(&self) -> anyhow::Result<Sandbox> {
        self.asked_for_sandbox.store(true, Ordering::Relaxed);
        let pod = trial::start(&self.daemon, &self.config, &self.mark).await?;
        // Now: a runner that attaches and finds egress open ends, and its pod with it.
        let said = pod.run(&["kernel"]).await?;
        anyhow::ensure!(
            said.code == 0,
            "the runner did not print its kernel: {}",
            said.text
        );
        Ok(Sandbox {
            pod,
            kernel: said.text,
        })
    }

    async fn start_open(&self) -> anyhow::Result<TrialPod> {
        let admin = self.admin()?;
        self.asked_for_open.store(true, Ordering::Relaxed);
        let namespaces: Api<Namespace> = Api::all(admin.client().clone());
        let namespace = Namespace {
            metadata: ObjectMeta {
                name: Some(self.open_namespace()),
                labels: Some([(MADE_BY.0.to_owned(), MADE_BY.1.to_owned())].into()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let made = namespaces.create(&PostParams::default(), &namespace).await;
        made.map_err(|e| anyhow::anyhow!("could not make a namespace: {}", chain(&e)))?;
        Ok(trial::start_open(admin, &self.config.sandbox, &self.open_namespace()).await?)
    }

    /// Takes everything away. What could not be is a failure.
    pub(super) async fn clean_up(&self) -> Vec<Line> {
        let mut tries = Tries::of("clean-up");
        let (sandbox, open, login) =
            tokio::join!(self.delete_sandbox(), self.delete_open(), self.log_out());
        for (what, gone) in [
            ("delete the Job", sandbox),
            ("delete the namespace", open),
            ("log out of Vault", login),
        ] {
            if let Err(e) = gone {
                tries.record(what, Err::<String, _>(format!("{e:#}")));
            }
        }
        tries.lines()
    }

    async fn delete_sandbox(&self) -> anyhow::Result<()> {
        if !self.asked_for_sandbox.load(Ordering::Relaxed) {
            return Ok(());
        }
        trial::delete(&self.daemon, &self.config.kubernetes, &self.mark).await?;
        Ok(())
    }

    async fn delete_open(&self) -> anyhow::Result<()> {
        if !self.asked_for_open.load(Ordering::Relaxed) {
            return Ok(());
        }
        let namespaces: Api<Namespace> = Api::all(self.admin()?.client().clone());
        match namespaces
            .delete(&self.open_namespace(), &DeleteParams::default())
            .await
        {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(e) => Err(anyhow::anyhow!("{}", chain(&e))),
            Ok(_) => Ok(()),
        }
    }

    async fn log_out(&self) -> anyhow::Result<()> {
        match self.login.get() {
            Some(Ok(login)) => Ok(login.log_out().await?),
            Some(Err(_)) | None => Ok(()),
        }
    }
}

/// A failure is kept like a success, and told to every check: a second start would fail otherwise.
async fn kept<T>(made: impl Future<Output = anyhow::Result<T>>) -> Result<T, String> {
    made.await.map_err(|e| format!("{e:#}"))
}

fn told<T>(made: &Result<T, String>) -> anyhow::Result<&T> {
    made.as_ref().map_err(|e| anyhow::anyhow!("{e}"))
}
