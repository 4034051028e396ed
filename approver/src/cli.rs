//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use sandbox_core::approval::{ApprovalPrefix, MAX_VERDICT_REASON};
use sandbox_core::audit::RequestPrefix;

/// What a human may ask of sandboxd.
///
/// Every run keeps the newest signed checkpoint of the audit trail under your own account, in
/// $XDG_STATE_HOME/agent-sandbox or ~/.local/state/agent-sandbox, and holds the daemon to the one it
/// kept before. A trail that was rolled back, forked or signed with another key is an ALARM.
///
/// Exit codes: 0 all is well, 1 the answer could not be had, 2 wrong usage, 3 ALARM, 4 no verdict was
/// recorded or yours does not count, 5 granted but what it was granted for did not succeed, 128 and the
/// signal's number when a signal ended the run (130 after Ctrl-C).
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
    /// List what waits for a verdict of yours, the newest first.
    List(ListArgs),
    /// Show all there is to know of one approval, its dangers first. Nothing of it is cut.
    Show(ShowArgs),
    /// Show an approval, ask, and record a yes.
    ///
    /// What destroys or replaces something is granted at a terminal only, by typing the name of such an
    /// object as kind/namespace/name; what has other dangers, at a terminal only too. A script may grant
    /// the rest, and names the plan it saw: --digest.
    Grant(GrantArgs),
    /// Record a no. It ends the approval, whatever others say.
    Deny(DenyArgs),
    /// Watch, read, grant and deny approvals on the whole screen, as they come.
    Watch,
    /// Show the audit trail, of one request or all of it, and verify it.
    Audit(AuditArgs),
    /// Show how sandboxd and what it depends on are doing.
    Status(StatusArgs),
}

#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    /// Also those that ended in the last seven days.
    #[arg(long)]
    pub(crate) all: bool,
    /// A JSON array.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ShowArgs {
    /// The approval's id, or its first 6 characters and more.
    pub(crate) id: ApprovalPrefix,
    /// One JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct GrantArgs {
    /// The approval's id, or its first 6 characters and more.
    pub(crate) id: ApprovalPrefix,
    /// The digest of the plan that you saw, as show prints it: its first 16 digits and more. Nothing is
    /// granted if the approval has another one.
    #[arg(long, value_name = "HEX", value_parser = digest)]
    pub(crate) digest: Option<String>,
    /// Wait for the end of the apply that uses the grant, and tell it.
    #[arg(long)]
    pub(crate) wait: bool,
    /// Why, for those who read the trail later; at most 1,000 characters.
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub(crate) reason: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct DenyArgs {
    /// The approval's id, or its first 6 characters and more.
    pub(crate) id: ApprovalPrefix,
    /// Why, for the agent and for those who read the trail later; at most 1,000 characters.
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub(crate) reason: String,
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

/// A reason as the daemon takes it.
pub(crate) fn reason(typed: &str) -> Result<String, String> {
    let reason = typed.trim();
    match reason.chars().count() {
        0 => Err("the reason is empty; say why".to_owned()),
        1..=MAX_VERDICT_REASON => Ok(reason.to_owned()),
        some => Err(format!(
            "it may have {MAX_VERDICT_REASON} characters and has {some}"
        )),
    }
}

/// The beginning of a digest. An agent can try out many plans, but not until one has a beginning so long.
fn digest(typed: &str) -> Result<String, String> {
    if !(16..=64).contains(&typed.len()) || !typed.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err("it has 16 to 64 digits, 0 to 9 and a to f".to_owned());
    }
    Ok(typed.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn a_reason_is_neither_empty_nor_too_long() {
        assert_eq!(reason(" why \n"), Ok("why".to_owned()));
        assert!(reason(" \t").is_err());
        assert!(reason(&"\u{e9}".repeat(1000)).is_ok());
        assert!(reason(&"x".repeat(1001)).is_err());
    }

    #[test]
    fn a_digest_is_told_by_sixteen_digits_and_more() {
        assert_eq!(
            digest("ABCDEF0123456789"),
            Ok("abcdef0123456789".to_owned())
        );
        assert!(digest(&"a".repeat(64)).is_ok());
        for not in ["", "abcdef012345678", "abcdef012345678g", &"a".repeat(65)] {
            assert!(digest(not).is_err(), "{not}");
        }
    }
}
