//! What agents ask for and people decide: `approver list`, `show`, `grant` and `deny`.

mod standing;
mod list;
mod describe;
mod values;
mod json;
mod verdict;
mod wait;

use std::io::Write;

use sandbox_core::audit::Value;
use sandbox_proto::approver::v1::Approval;

pub(crate) use describe::{Lengths, body, heading};
pub(crate) use list::{waiting, what};
pub(crate) use standing::{is_open, left, state_word};
pub(crate) use verdict::{NOT_WITH_AN_ALARM, Question, deny, grant, recorded};

use crate::cli::{ListArgs, ShowArgs};
use crate::clock::now_ms;
use crate::daemon::Daemon;
use crate::document::print;
use crate::failure::Failure;
use crate::terminal::Look;

/// `approver list`.
pub(crate) async fn list(
    args: &ListArgs,
    daemon: &mut Daemon,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let approvals = daemon.approvals(args.all).await?;
    if args.json {
        let all: Vec<Value> = approvals.iter().map(json::approval).collect();
        writeln!(out, "{}", Value::from(all))?;
    } else {
        let look = Look::of_stdout();
        print(&list::rows(&approvals, args.all, now_ms()), look, out)?;
    }
    Ok(())
}

/// `approver show`.
pub(crate) async fn show(
    args: &ShowArgs,
    daemon: &mut Daemon,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let shown = daemon.approval(args.id.as_str()).await?;
    if args.json {
        writeln!(out, "{}", json::everything(&shown))?;
    } else {
        print(&describe::whole(&shown, now_ms()), Look::of_stdout(), out)?;
    }
    Ok(())
}

/// In a sentence, how many wait.
pub(crate) fn told_count(approvals: &[Approval]) -> String {
    match waiting(approvals) {
        0 => "No approval waits for a verdict.".to_owned(),
        1 => "1 APPROVAL WAITS FOR A VERDICT: approver list".to_owned(),
        some => format!("{some} APPROVALS WAIT FOR A VERDICT: approver list"),
    }
}
