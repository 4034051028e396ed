//! The command line of `sandboxd`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use sandbox_core::names::{NamespaceName, PrincipalName, RootName};
use sandbox_core::parameters::ActionName;
use sandbox_core::policy::{Decision, Question};
use tracing_subscriber::EnvFilter;

use crate::audit::AuditCommand;
use crate::config::Config;
use crate::terraform::{CheckRoot, StateCommand};
use crate::verify::VerifyArgs;
use crate::{decide, run as daemon, verify};

/// Decides, mints a credential for one action, runs it in a gVisor Job, revokes, proves.
#[derive(Debug, Parser)]
#[command(name = "sandboxd", version, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve agents and approvers until SIGTERM. SIGHUP reads the policy again.
    Run(RunArgs),
    /// Check the configuration and the policy it names, and say everything that is wrong.
    CheckConfig(ConfigArg),
    /// Check a policy file; with --explain, what it answers and why.
    CheckPolicy(CheckPolicy),
    /// Say everything that keeps a folder from being a Terraform root, and how to configure it. It needs no
    /// daemon and changes nothing; run it as the daemon's user, so that it reads what that user can read.
    CheckRoot(CheckRoot),
    /// Check an audit trail.
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Move a Terraform root's state in or out, as the daemon's user and while the daemon is stopped.
    #[command(subcommand)]
    State(StateCommand),
    /// Try to break what this installation promises, and say what came back. Run it as root.
    Verify(VerifyArgs),
    /// What verify does as another user.
    #[command(hide = true)]
    VerifyAs,
}

#[derive(Args, Debug)]
struct RunArgs {
    #[command(flatten)]
    config: ConfigArg,
    /// End as by a power cut after this step of a call.
    #[cfg(feature = "crash-points")]
    #[arg(long, hide = true)]
    crash_after: Option<crate::crash::Step>,
}

#[derive(Args, Debug)]
struct ConfigArg {
    /// Where the configuration is. [default: /etc/sandboxd/sandboxd.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Args, Debug)]
struct CheckPolicy {
    /// The policy.
    file: PathBuf,
    /// Say what one request would get, and rule by rule why.
    #[arg(long, requires_all = ["principal", "action"])]
    explain: bool,
    /// Who asks.
    #[arg(long)]
    principal: Option<PrincipalName>,
    /// For which action, e.g. `k8s_get_pod_status`.
    #[arg(long)]
    action: Option<String>,
    /// In which namespace.
    #[arg(long)]
    namespace: Option<NamespaceName>,
    /// Of which Terraform root.
    #[arg(long)]
    root: Option<RootName>,
}

/// Runs the command line and gives the exit code.
pub fn run() -> ExitCode {
    let provider = rustls::crypto::ring::default_provider().install_default();
    debug_assert!(provider.is_ok(), "nothing installs one before");
    let outcome = match Cli::parse().command {
        Command::Run(args) => serve(args),
        Command::CheckConfig(arg) => check_config(arg),
        Command::CheckPolicy(arg) => check_policy(&arg),
        Command::CheckRoot(args) => args.run(),
        Command::Audit(command) => command
            .run(&mut std::io::stdout().lock())
            .map(ExitCode::from)
            .map_err(Into::into),
        Command::State(command) => command.run(),
        Command::Verify(args) => verify::run(args),
        Command::VerifyAs => verify::run_as().map(|()| ExitCode::SUCCESS),
    };
    outcome.unwrap_or_else(|e| {
        let message = format!("{e:#}");
        eprintln!("sandboxd: {message}");
        ExitCode::FAILURE
    })
}

fn serve(args: RunArgs) -> anyhow::Result<ExitCode> {
    #[cfg(feature = "crash-points")]
    crate::crash::arm(args.crash_after);
    daemon::harden()?;
    // These two print whole requests and answers at the levels below.
    let quiet = "rustify=off,vaultrs=off,hyper=warn,h2=warn,tower=warn,rustls=warn,kube=warn";
    let filter = EnvFilter::try_new(format!("info,{quiet}"))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .init();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let path = daemon::config_path(args.config.config);
    runtime
        .block_on(daemon::run(&path))
        .map(|()| ExitCode::SUCCESS)
}

#[expect(clippy::print_stdout, reason = "the answer to a command")]
fn check_config(arg: ConfigArg) -> anyhow::Result<ExitCode> {
    let path = daemon::config_path(arg.config);
    let own_uid = rustix::process::geteuid().as_raw();
    let (config, principals) = Config::load(&path, own_uid)?;
    let policy = daemon::load_policy(&config, &principals)?;
    println!(
        "{} is good; its policy has {} rules.",
        path.display(),
        policy.rule_count()
    );
    Ok(ExitCode::SUCCESS)
}

#[expect(clippy::print_stdout, reason = "the answer to a command")]
fn check_policy(arg: &CheckPolicy) -> anyhow::Result<ExitCode> {
    let policy = decide::load(&arg.file, &[])?;
    println!(
        "{} is good; it has {} rules.",
        arg.file.display(),
        policy.rule_count()
    );
    let (true, Some(principal), Some(action)) = (arg.explain, &arg.principal, &arg.action) else {
        return Ok(ExitCode::SUCCESS);
    };
    let action = ActionName::find(action)
        .ok_or_else(|| anyhow::anyhow!("there is no action {}", action.escape_debug()))?;
    let question = Question {
        principal,
        action,
        namespace: arg.namespace.as_ref(),
        root: arg.root.as_ref(),
        facts: None,
    };
    for (rule, why) in policy.explain(&question) {
        match why {
            Ok(()) => {
                println!("  {rule}: matches");
                break;
            }
            Err(why) => println!("  {rule}: does not match ({why})"),
        }
    }
    let decision = policy.decide(&question);
    println!("{decision}");
    Ok(match decision {
        Decision::Allow { .. } | Decision::RequireApproval { .. } => ExitCode::SUCCESS,
        Decision::Deny { .. } => ExitCode::from(2),
    })
}
