//! `sandboxd verify`: tries to break what the rest promises, and says what came back.
//!
//! It stands outside the daemon and believes nothing it can try. Root runs it: with the daemon's own
//! kubeconfig and login where the daemon's rights are tried, with an administrator's where anybody's are,
//! and as other uids where the sockets and files are. What could not be tried has failed.
//!
//! It makes a Job in the sandbox namespace, a namespace with one pod, and credentials under a login of its
//! own; none of them outlives it. All else are reads, or dry runs that pass every gate and change nothing.
//! What it asks of the daemon is in the daemon's trail, as the principal it asked as, from the client
//! `sandboxd verify`.

mod answer;
mod ground;
mod other_uid;
mod report;

mod admission;
mod agent_files;
mod credential;
mod daemon;
mod daemon_rights;
mod egress;
mod issuer;
mod kernel;
mod sockets;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use futures_util::{StreamExt as _, stream};
use tokio::signal::unix::{SignalKind, signal};

use crate::run::{config_path, harden};
use ground::Ground;
use report::{Line, Report, Tries};

pub(crate) use other_uid::run_as;

/// Checks that run at the same time: more would only make each other slow on a small machine.
const AT_ONCE: usize = 4;
/// The longest that one check may take; a healthy one takes five seconds at most.
const CHECK_LIMIT: Duration = Duration::from_mins(1);

/// The arguments of `sandboxd verify`.
#[derive(Args, Debug)]
pub struct VerifyArgs {
    /// Where the daemon's configuration is. [default: /etc/sandboxd/sandboxd.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The kubeconfig of an administrator, who may impersonate. Without it, what needs one has failed.
    #[arg(long, value_name = "FILE")]
    admin_kubeconfig: Option<PathBuf>,
    /// A further file or folder that the agent's user must not be able to look into.
    #[arg(long, value_name = "PATH")]
    closed: Vec<PathBuf>,
    /// Only these checks.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<Check>,
    /// Print one JSON object instead of lines.
    #[arg(long)]
    json: bool,
}

/// What is promised. Each is tried in one or more ways, a line each.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Check {
    /// Jobs run under gVisor's kernel.
    GvisorKernel,
    /// The sandbox namespace takes no pod under another runtime.
    RuncPod,
    /// Nor one that breaches Pod Security `restricted`.
    PodSecurity,
    /// A Job reaches the API server and nothing else, and nothing reaches it.
    Egress,
    /// A credential is good for its scope alone.
    Credential,
    /// No credential is to be had for another namespace.
    OtherNamespace,
    /// A revoked credential is dead, and nothing is left of it.
    Revocation,
    /// The issuer cannot hand out what was not reviewed.
    Issuer,
    /// The daemon's own rights are what they should be.
    DaemonRights,
    /// The sockets serve who is listed, each its own.
    Sockets,
    /// The agent's user gets at nothing of the daemon's.
    AgentFiles,
    /// The daemon is well, and its trail is whole.
    Daemon,
}

/// Runs the checks, prints what came back, and leaves nothing behind.
///
/// # Errors
/// When not even a beginning can be made, or on an interrupt.
pub(crate) fn run(args: VerifyArgs) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(
        rustix::process::geteuid().is_root(),
        "verify acts as several users and reads what is closed to each of them: run it as root"
    );
    // Leased tokens pass through this process.
    harden()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(verify(args))
}

async fn verify(args: VerifyArgs) -> anyhow::Result<ExitCode> {
    let mut report = Report::begin(args.json);
    let checks: Vec<Check> = Check::value_variants()
        .iter()
        .copied()
        .filter(|check| args.only.is_empty() || args.only.contains(check))
        .collect();
    let config = config_path(args.config);
    let ground = Ground::open(&config, args.admin_kubeconfig, args.closed).await?;
    let mut interrupted = Box::pin(interrupted()?);
    // In the order they are listed, each as soon as those before it are done.
    let mut done = stream::iter(checks)
        .map(|check| check.run(&ground))
        .buffered(AT_ONCE);
    let finished = loop {
        tokio::select! {
            lines = done.next() => match lines {
                Some(lines) => report.add(lines)?,
                None => break true,
            },
            () = &mut interrupted => break false,
        }
    };
    drop(done);
    let left = ground.clean_up().await;
    anyhow::ensure!(finished, "interrupted");
    report.add(left)?;
    report.end()
}

impl Check {
    /// As `--only` takes it, and as its lines bear it.
    fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |v| v.get_name().to_owned())
    }

    async fn run(self, ground: &Ground) -> Vec<Line> {
        let mut tries = Tries::of(&self.name());
        let work = async {
            match self {
                Self::GvisorKernel => kernel::check(ground, &mut tries).await,
                Self::RuncPod => admission::runc_pod(ground, &mut tries).await,
                Self::PodSecurity => admission::pod_security(ground, &mut tries).await,
                Self::Egress => egress::check(ground, &mut tries).await,
                Self::Credential => credential::scope(ground, &mut tries).await,
                Self::OtherNamespace => credential::other_namespace(ground, &mut tries).await,
                Self::Revocation => credential::revocation(ground, &mut tries).await,
                Self::Issuer => issuer::check(ground, &mut tries).await,
                Self::DaemonRights => daemon_rights::check(ground, &mut tries).await,
                Self::Sockets => sockets::check(ground, &mut tries).await,
                Self::AgentFiles => agent_files::check(ground, &mut tries).await,
                Self::Daemon => daemon::check(ground, &mut tries).await,
            }
        };
        let limit = CHECK_LIMIT.as_secs();
        let outcome = tokio::time::timeout(CHECK_LIMIT, Box::pin(work))
            .await
            .unwrap_or_else(|_| Err(anyhow::anyhow!("it was not done after {limit} s")));
        tries.end(outcome)
    }
}

/// Ready on SIGINT or SIGTERM.
fn interrupted() -> std::io::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: VerifyArgs,
    }

    #[test]
    fn only_takes_names_of_checks_and_nothing_else() {
        let given = ["verify", "--only", "egress,runc-pod", "--only", "daemon"];
        let only = Line::try_parse_from(given).unwrap().args.only;
        assert_eq!(only, [Check::Egress, Check::RuncPod, Check::Daemon]);
        let refused = Line::try_parse_from(["verify", "--only", "egres"]).unwrap_err();
        assert!(refused.to_string().contains("gvisor-kernel"), "{refused}");
        assert!(Line::try_parse_from(["verify", "--only", ""]).is_err());
    }
}
