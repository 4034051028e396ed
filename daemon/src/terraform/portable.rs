//! `sandboxd state`: a root's state in and out, for operators. The daemon is stopped meanwhile, so that no apply
//! is under way, and the trail is this command's to write.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use sandbox_core::audit::{Event, EventName};
use sandbox_core::names::RootName;
use sandbox_core::plan::not_of_root;
use secrecy::{ExposeSecret as _, SecretSlice};
use serde::Deserialize;
use zeroize::Zeroizing;

use super::state::Head;
use crate::audit::{Audit, Settings};
use crate::broker::Login;
use crate::clock::Clock;
use crate::config::{self, Config, StateKind};
use crate::run::config_path;
use crate::store::{Envelope, NewState, Of, Store, StoredState};

/// The Terraform whose states are taken: the one of the image, and those before it.
const NEWEST_TERRAFORM: (u64, u64) = (1, 11);

/// `sandboxd state`
#[derive(Debug, Subcommand)]
pub enum StateCommand {
    /// Put a state in the place of the one that is kept. Lineage, serial, format and kinds are checked first.
    Import(Import),
    /// Write the state that is kept to a new file, mode 0600. It holds secrets in plain text.
    Export(Export),
}

/// Arguments of `import`.
#[derive(Args, Debug)]
pub struct Import {
    /// The root, as sandboxd.toml names it.
    root: RootName,
    /// A state of Terraform's, as `terraform state pull` prints it.
    file: PathBuf,
    /// Take one of another lineage: what is kept describes other objects.
    #[arg(long)]
    new_lineage: bool,
    /// Where the configuration is. [default: /etc/sandboxd/sandboxd.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Arguments of `export`.
#[derive(Args, Debug)]
pub struct Export {
    /// The root, as sandboxd.toml names it.
    root: RootName,
    /// Where to; must not exist.
    file: PathBuf,
    /// Where the configuration is. [default: /etc/sandboxd/sandboxd.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl StateCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// What kept it from its end; nothing was changed then.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        match self {
            Self::Import(args) => runtime.block_on(import(args)),
            Self::Export(args) => runtime.block_on(export(args)),
        }
    }
}

/// Trail and journal of a daemon that does not run.
struct Stopped {
    root: config::Root,
    audit: Audit,
    store: Store,
    clock: Clock,
    /// Where a key of Vault's is configured.
    login: Option<Login>,
}

impl Stopped {
    fn now(name: &RootName, config: Option<PathBuf>) -> anyhow::Result<Self> {
        let uid = rustix::process::geteuid().as_raw();
        let (config, _) = Config::load(&config_path(config), uid)?;
        crate::run::check_state_folder(&config.state.directory, uid)?;
        let root = config.roots.get(name);
        let root = root.with_context(|| format!("sandboxd.toml has no root {name}"))?;
        anyhow::ensure!(
            root.state == StateKind::Managed,
            "the state of the root {name} lives elsewhere: see roots.{name}.state"
        );
        let clock = Clock::system();
        let directory = &config.state.directory;
        let (audit, _) = Audit::open(directory, Settings::default(), clock.clone())
            .context("the trail is not free; stop sandboxd first")?;
        let store = Store::open(directory).context("could not open the database")?;
        let login = config.vault.transit.as_ref();
        let login = login.map(|_| Login::new(&config.vault, store.clone(), clock.clone()));
        Ok(Self {
            root: root.clone(),
            audit,
            store,
            clock,
            login: login.transpose()?,
        })
    }

    /// The state as it goes into the journal.
    async fn close(&self, bytes: &[u8], of: Of<'_>) -> anyhow::Result<Envelope> {
        let key = match &self.login {
            Some(login) => login
                .data_key()
                .await
                .context("there is no key to encrypt it with")?,
            None => None,
        };
        Ok(Envelope::close(bytes, of, key.as_ref())?)
    }

    /// The state as it goes into a file.
    async fn open_state(
        &self,
        root: &RootName,
        kept: &StoredState,
    ) -> anyhow::Result<SecretSlice<u8>> {
        let opened = match &self.login {
            Some(login) => login.open(&kept.bytes, kept.of(root)).await?,
            None => kept.bytes.open(kept.of(root), None)?,
        };
        Ok(opened)
    }

    async fn end(self) -> anyhow::Result<()> {
        if let Some(login) = &self.login {
            login.end().await;
        }
        self.audit.close().await?;
        Ok(())
    }
}

#[expect(clippy::print_stdout, reason = "the answer to a command")]
async fn import(args: Import) -> anyhow::Result<ExitCode> {
    let stopped = Stopped::now(&args.root, args.config)?;
    let bytes = std::fs::read(&args.file)
        .map(Zeroizing::new)
        .with_context(|| format!("could not read {}", args.file.display()))?;
    let head = check(&bytes, &stopped.root)
        .map_err(|why| anyhow::anyhow!("{} was not imported: {why}", args.file.display()))?;
    let kept = stopped.store.newest_state(args.root.clone()).await?;
    if let Some(kept) = &kept {
        anyhow::ensure!(
            kept.lineage == head.lineage || args.new_lineage,
            "its lineage is {}, and that of the state that is kept {}: it describes other objects; if that is meant, \
             say --new-lineage",
            head.lineage,
            kept.lineage
        );
        anyhow::ensure!(
            kept.lineage != head.lineage || head.serial > kept.serial,
            "its serial is {}, and that of the state that is kept {}: it is older, or the same; if \
             that is meant, raise \"serial\" in the file above {}",
            head.serial,
            kept.serial,
            kept.serial
        );
    }
    let of = Of::State {
        root: &args.root,
        lineage: &head.lineage,
        serial: head.serial,
    };
    let closed = stopped.close(&bytes, of).await;
    let closed = closed.with_context(|| format!("{} was not imported", args.file.display()))?;
    let before = kept.map_or_else(
        || "none".to_owned(),
        |kept| format!("{} {}", kept.lineage, kept.serial),
    );
    let event = Event::new(EventName::StateImported)
        .with("root", args.root.as_str())
        .with("lineage", head.lineage.as_str())
        .with("serial", i64::try_from(head.serial).unwrap_or(i64::MAX))
        .with("before", before);
    stopped.audit.record_closing(event).await?;
    let (lineage, serial) = (head.lineage.clone(), head.serial);
    let new = NewState {
        root: args.root.clone(),
        lineage: head.lineage,
        serial,
        bytes: closed,
        request: None,
    };
    let now_ms = stopped.clock.now_ms();
    stopped.store.replace_state(new, now_ms).await?;
    stopped.end().await?;
    println!(
        "The root {} now has state {lineage}, serial {serial}.",
        args.root
    );
    Ok(ExitCode::SUCCESS)
}

#[expect(clippy::print_stdout, reason = "the answer to a command")]
async fn export(args: Export) -> anyhow::Result<ExitCode> {
    let stopped = Stopped::now(&args.root, args.config)?;
    let kept = stopped.store.newest_state(args.root.clone()).await?;
    let kept = kept.with_context(|| format!("the root {} has no state", args.root))?;
    let opened = stopped.open_state(&args.root, &kept).await;
    let opened =
        opened.with_context(|| format!("the state of the root {} cannot be read", args.root))?;
    let mut file = new_file(&args.file)?;
    let event = Event::new(EventName::StateExported)
        .with("root", args.root.as_str())
        .with("lineage", kept.lineage.as_str())
        .with("serial", i64::try_from(kept.serial).unwrap_or(i64::MAX));
    stopped.audit.record_closing(event).await?;
    #[expect(
        clippy::disallowed_methods,
        reason = "into the file that the operator asked for, 0600"
    )]
    file.write_all(opened.expose_secret())?;
    file.sync_all()?;
    stopped.end().await?;
    println!(
        "{} has state {}, serial {}, of the root {}. It holds secrets in plain text.",
        args.file.display(),
        kept.lineage,
        kept.serial,
        args.root
    );
    Ok(ExitCode::SUCCESS)
}

fn new_file(path: &Path) -> anyhow::Result<std::fs::File> {
    std::fs::File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .with_context(|| format!("could not make {}", path.display()))
}

#[derive(Deserialize)]
struct Whole {
    terraform_version: String,
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    mode: String,
    #[serde(rename = "type")]
    type_name: String,
    name: String,
    provider: String,
}

/// Whether the image's Terraform can read it, and the root may have what is in it.
fn check(bytes: &[u8], root: &config::Root) -> Result<Head, String> {
    let head = Head::read(bytes)?;
    let whole: Whole = serde_json::from_slice(bytes)
        .map_err(|e| format!("it is no state of Terraform's ({e})"))?;
    let mut numbers = whole.terraform_version.split('.').map(str::parse::<u64>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) if (major, minor) <= NEWEST_TERRAFORM => {}
        _ => {
            return Err(format!(
                "Terraform {} wrote it, and the image has {}.{}",
                whole.terraform_version.escape_debug(),
                NEWEST_TERRAFORM.0,
                NEWEST_TERRAFORM.1
            ));
        }
    }
    let kinds = root.kind_names();
    for resource in whole.resources.iter().filter(|r| r.mode == "managed") {
        // provider["HOST/NAMESPACE/NAME"], perhaps behind a module and before an alias
        let provider = resource.provider.split('"').nth(1).unwrap_or_default();
        if let Some(why) = not_of_root(provider, &resource.type_name, &kinds) {
            let (kind, name) = (&resource.type_name, &resource.name);
            return Err(format!(
                "{}.{}: {why}",
                kind.escape_debug(),
                name.escape_debug()
            ));
        }
    }
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> config::Root {
        toml::from_str(
            "folder = '/srv/demo'\nnamespaces = ['demo-app']\nkinds = ['deployments.apps']\n",
        )
        .unwrap()
    }

    fn state(version: &str, type_name: &str, provider: &str) -> String {
        format!(
            r#"{{"version":4,"terraform_version":"{version}","serial":3,"lineage":"6f1c","outputs":{{}},"resources":[
            {{"mode":"managed","type":"{type_name}","name":"a","provider":"{provider}","instances":[]}}]}}"#
        )
    }

    #[test]
    fn a_state_is_taken_of_what_the_image_reads_and_the_root_may_have() {
        const KUBERNETES: &str = r#"module.a.provider[\"example.org/hashicorp/kubernetes\"].b"#;
        let seen = |version, type_name, provider| {
            check(state(version, type_name, provider).as_bytes(), &root())
        };
        assert_eq!(
            seen("1.11.4", "kubernetes_deployment", KUBERNETES)
                .unwrap()
                .serial,
            3
        );
        assert!(seen("1.5.7", "kubernetes_deployment_v1", KUBERNETES).is_ok());
        for (version, type_name, provider, word) in [
            ("1.12.0", "kubernetes_deployment", KUBERNETES, "1.12.0"),
            ("2.0.0", "kubernetes_deployment", KUBERNETES, "2.0.0"),
            ("x", "kubernetes_deployment", KUBERNETES, "wrote it"),
            ("1.11.4", "kubernetes_service", KUBERNETES, "no services"),
            ("1.11.4", "kubernetes_role", KUBERNETES, "kubernetes_role.a"),
            (
                "1.11.4",
                "aws_instance",
                r#"provider[\"example.org/hashicorp/aws\"]"#,
                "nobody knows",
            ),
        ] {
            let why = seen(version, type_name, provider).unwrap_err();
            assert!(why.contains(word), "{why}");
        }
    }
}
