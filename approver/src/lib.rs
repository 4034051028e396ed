//! The human's command line for sandboxd, over a socket that agents cannot reach.
//!
//! It shows and verifies the audit trail and says how the daemon is doing. It holds nothing but the
//! last checkpoint of the trail it saw, under its own uid, and every run holds the daemon to it: a trail
//! that was rolled back, forked or signed with another key is an alarm.

mod cli;
mod daemon;
mod memory;
mod home;
mod continuity;
mod audit;
mod status;
mod escape;
mod failure;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use clap::Parser as _;

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
    let memory = Memory::open(&cli.socket)?;
    let mut anchors: Vec<Held> = memory.kept().into_iter().collect();
    if let Command::Audit(args) = &cli.command {
        anchors.extend(args.since.as_deref().map(memory::read_given).transpose()?);
    }
    let mut daemon = Daemon::connect(&cli.socket).await?;
    let (status, newest, mut failures) = hold(&mut daemon, &anchors).await?;

    let mut out = BufWriter::new(io::stdout().lock());
    let done = match &cli.command {
        Command::Audit(args) => {
            let known = anchors
                .iter()
                .map(|held| held.checkpoint)
                .chain(newest)
                .collect();
            audit::run(args, &mut daemon, known, &mut out).await
        }
        Command::Status(args) => status::run(args, &daemon, &status, newest.as_ref(), &mut out),
    };
    let done = done.and_then(|()| Ok(out.flush()?));
    // The alarm comes last: the end of a long output is what gets read.
    failures.splice(0..0, done.err());
    if let (Some(newest), true) = (newest, failures.is_empty()) {
        // Only a trail that held in every respect is worth holding later ones to.
        failures.extend(memory.keep(newest).err());
    }
    Ok(failures)
}

type Standing = (
    sandbox_proto::approver::v1::GetStatusResponse,
    Option<continuity::Newest>,
    Vec<Failure>,
);

/// Asks the daemon where it stands and holds that against every checkpoint known here.
async fn hold(daemon: &mut Daemon, anchors: &[Held]) -> Result<Standing, Failure> {
    let mut failures = Vec::new();
    let status = daemon.status(anchors.first().map_or(0, Held::seq)).await?;
    let newest = match continuity::newest(&status) {
        Ok(newest) => newest,
        Err(failure) => {
            failures.push(failure);
            None
        }
    };
    for (number, held) in anchors.iter().enumerate() {
        let hash = match number {
            0 => status.at_seq_hash.clone(),
            _ => daemon.status(held.seq()).await?.at_seq_hash,
        };
        failures.extend(continuity::check(held, newest.as_ref(), &hash).err());
    }
    Ok((status, newest, failures))
}
