//! The human's command line for sandboxd, over a socket that agents cannot reach.
//!
//! It shows what agents ask for, records what people say to it, shows and verifies the audit trail and
//! says how the daemon is doing. It holds nothing but the last checkpoint of the trail it saw, under its
//! own uid, and every run holds the daemon to it: a trail that was rolled back, forked or signed with
//! another key is an alarm.

mod cli;
mod daemon;
mod memory;
mod home;
mod continuity;
mod access;
mod approvals;
mod watch;
mod audit;
mod status;
mod document;
mod terminal;
mod escape;
mod clock;
mod failure;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use clap::Parser as _;

use access::{Access, Standing};
use cli::{Cli, Command};
use continuity::Held;
use daemon::Daemon;
use failure::Failure;
use memory::Memory;

/// Runs the command line this process was started with.
#[must_use]
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    let failures = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime.block_on(session(&cli)),
        Err(e) => vec![Failure::Error(format!("Could not start: {e}."))],
    };
    failure::report(&failures)
}

/// One run, and all that went wrong in it.
async fn session(cli: &Cli) -> Vec<Failure> {
    match try_session(cli).await {
        Ok(failures) => failures,
        Err(failure) => vec![failure],
    }
}

async fn try_session(cli: &Cli) -> Result<Vec<Failure>, Failure> {
    if matches!(cli.command, Command::Watch) {
        watch::check_terminal()?;
    }
    let memory = Memory::open(&cli.socket)?;
    let mut anchors: Vec<Held> = memory.kept().into_iter().collect();
    if let Command::Audit(args) = &cli.command {
        anchors.extend(args.since.as_deref().map(memory::read_given).transpose()?);
    }
    let access = Access {
        socket: &cli.socket,
        anchors,
    };
    let (daemon, standing) = access.connect().await?;
    let newest = standing.newest;
    let done = run_command(cli, &access, daemon, &standing).await;
    let mut failures = standing.alarms;
    // The alarm comes last: the end of a long output is what gets read.
    failures.splice(0..0, done.err());
    let well = |failure: &Failure| {
        matches!(
            failure,
            Failure::Refused(_) | Failure::Unsuccessful(_) | Failure::Ended { .. }
        )
    };
    if let (Some(newest), true) = (newest, failures.iter().all(well)) {
        // Only a trail that held in every respect is worth holding later ones to.
        failures.extend(memory.keep(newest).err());
    }
    Ok(failures)
}

async fn run_command(
    cli: &Cli,
    access: &Access<'_>,
    mut daemon: Daemon,
    standing: &Standing,
) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout());
    let done = match &cli.command {
        Command::List(args) => approvals::list(args, &mut daemon, &mut out).await,
        Command::Show(args) => approvals::show(args, &mut daemon, &mut out).await,
        Command::Grant(args) => approvals::grant(args, access, daemon, standing, &mut out).await,
        Command::Deny(args) => approvals::deny(args, &mut daemon, &mut out).await,
        Command::Watch => watch::run(access, daemon, standing).await,
        Command::Audit(args) => {
            let known = access.anchors.iter().map(|held| held.checkpoint);
            let known = known.chain(standing.newest).collect();
            audit::run(args, &mut daemon, known, &mut out).await
        }
        Command::Status(args) => status::run(args, &mut daemon, standing, &mut out).await,
    };
    done.and_then(|()| Ok(out.flush()?))
}
