//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use sandbox_core::audit::RequestPrefix;

/// What a human may ask of sandboxd.
///
/// Every run keeps the newest signed checkpoint of the audit trail under your own account, in
/// $XDG_STATE_HOME/agent-sandbox or ~/.local/state/agent-sandbox, and holds the daemon to the one it
/// kept before. A trail that was rolled back, forked or signed with another key is an ALARM.
///
/// Exit codes: 0 all is well, 1 the answer could not be had, 2 wrong usage, 3 ALARM.
#[derive(Debug, Parser)]
#[command(name = "approver", version)]
pub(crate) struct Cli {
    /// Where sandboxd listens for approvers.
    #[arg(
        long,
        global = true,
        value_name = "PATH",
        default_value = "/run/sandboxd/approver/approver.sock"
    )]
    pub(crate) socket: PathBuf,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the audit trail, of one request or all of it, and verify it.
    Audit(AuditArgs),
    /// Show how sandboxd and what it depends on are doing.
    Status(StatusArgs),
}

#[derive(Args, Debug)]
pub(crate) struct AuditArgs {
    /// Only the events of this request: its id, or the beginning of it, at least 6 digits. Ids begin
    /// with the time, so neighbours share a long beginning; one that means several is refused with
    /// the list.
    #[arg(long, value_name = "ID")]
    pub(crate) request_id: Option<RequestPrefix>,
    /// The lines exactly as they are stored, one JSON object each.
    #[arg(long)]
    pub(crate) json: bool,
    /// Read the whole trail and check every hash, the chain and every signed checkpoint here, and have
    /// sandboxd do the same. Alone it shows the verdict and no events; with --json the verdict goes
    /// to stderr.
    #[arg(long)]
    pub(crate) verify: bool,
    /// Also hold the trail to the checkpoint in this file, e.g. one that a colleague kept.
    #[arg(long, value_name = "FILE")]
    pub(crate) since: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct StatusArgs {
    /// One JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}
