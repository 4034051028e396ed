//! `approver audit`: shows the trail and checks it here, whatever the daemon says of it.

mod show;
mod check;

use std::io::Write;

use sandbox_core::audit::{Checkpoint, LineHash, Record, Seq};
use sandbox_core::ids::RequestId;
use sandbox_proto::approver::v1::AuditLine;

use crate::cli::AuditArgs;
use crate::daemon::Daemon;
use crate::failure::Failure;

/// Runs the command. `known` are the checkpoints the trail is to be held to.
pub(crate) async fn run(
    args: &AuditArgs,
    daemon: &mut Daemon,
    known: Vec<Checkpoint>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let mut shown = Shown::default();
    if !args.verify || args.json || args.request_id.is_some() {
        list(args, daemon, &mut shown, out).await?;
    }
    if args.verify {
        out.flush()?;
        let verdict = check::whole_trail(daemon, known, &shown).await?;
        if args.json {
            // stdout is for the lines alone.
            drop(writeln!(std::io::stderr(), "{verdict}"));
        } else {
            writeln!(out, "{verdict}")?;
        }
    }
    Ok(())
}

/// What was shown of one request, to be found again in the whole trail.
#[derive(Debug, Default)]
struct Shown {
    request: Option<RequestId>,
    lines: Vec<LineHash>,
}

async fn list(
    args: &AuditArgs,
    daemon: &mut Daemon,
    shown: &mut Shown,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let request_id = args
        .request_id
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default();
    let mut lines = daemon.lines(request_id).await?;
    let mut table = show::Table::new(args.request_id.is_some());
    let mut before = Seq(0);
    while let Some(line) = lines.next().await? {
        let record = read(&line, before)?;
        before = record.seq;
        if let Some(prefix) = &args.request_id {
            let Some(id) = record.request_id.filter(|id| prefix.matches(*id)) else {
                return Err(Failure::Alarm(format!(
                    "event {} is of another request than asked for.",
                    record.seq
                )));
            };
            shown.request = Some(id);
            shown.lines.push(record.hash);
        }
        if args.json {
            out.write_all(&line.line)?;
            out.write_all(b"\n")?;
        } else {
            table.show(&record, out)?;
        }
    }
    if before == Seq(0) && !args.json {
        writeln!(out, "The audit trail is empty.")?;
    }
    Ok(())
}

/// Nothing is shown that does not fit its own hash or comes out of order.
fn read(line: &AuditLine, before: Seq) -> Result<Record, Failure> {
    let record = Record::read(&line.line)
        .map_err(|e| Failure::Alarm(format!("event {} of the audit trail {e}.", line.seq)))?;
    if record.seq > before && record.seq.0 == line.seq {
        Ok(record)
    } else {
        Err(Failure::Alarm(format!(
            "event {} of the audit trail came out of order.",
            record.seq
        )))
    }
}
