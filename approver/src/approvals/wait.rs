//! Waits for the apply that uses a grant.

use std::io::Write;
use std::time::Duration;

use sandbox_proto::approver::v1::Approval;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

use super::standing::{is_open, state_word, told_outcome, unsuccessful_end};
use crate::access::Access;
use crate::daemon::{Changes, Daemon};
use crate::document::{Tone, tell};
use crate::escape::escape;
use crate::failure::Failure;

const RETRY: Duration = Duration::from_secs(1);

/// Waits until the apply that `approval` was granted for has ended, or it can never be used any more.
/// A daemon that goes away is waited for as well. Ctrl-C ends the waiting and nothing else.
pub(super) async fn for_the_apply(
    approval: &Approval,
    access: &Access<'_>,
    daemon: Daemon,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let id = escape(&approval.id);
    tell(
        Tone::Quiet,
        &format!(
            "Waiting for the apply. Ctrl-C ends the waiting; the grant of {id} stays in force."
        ),
    )?;
    let interrupted = |signal| Failure::Ended {
        signal,
        told: format!(
            "\nNo longer waiting. The grant of {id} stays in force until it is used or expires. How it stands: \
             approver show {id}"
        ),
    };
    let no_signals = |e| Failure::Error(format!("Could not wait: {e}."));
    let mut ctrl_c = signal(SignalKind::interrupt()).map_err(no_signals)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(no_signals)?;
    tokio::select! {
        ended = ended(approval, access, daemon) => told_end(&ended?, out),
        _ = ctrl_c.recv() => Err(interrupted(2)),
        _ = terminate.recv() => Err(interrupted(15)),
    }
}

fn told_end(approval: &Approval, out: &mut dyn Write) -> Result<(), Failure> {
    if let Some(why) = unsuccessful_end(approval) {
        return Err(Failure::Unsuccessful(escape(&why)));
    }
    let told = format!(
        "The apply {} (request {}).",
        told_outcome(&approval.outcome),
        approval.used_by
    );
    writeln!(out, "{}", escape(&told))?;
    Ok(())
}

/// The approval once nothing more will come of it.
async fn ended(
    approval: &Approval,
    access: &Access<'_>,
    mut daemon: Daemon,
) -> Result<Approval, Failure> {
    let mut progress = Progress {
        id: &approval.id,
        told: state_word(approval),
    };
    let mut away = false;
    loop {
        match progress.follow(&mut daemon).await {
            Ok(ended) => return Ok(ended),
            Err(Failure::Error(why)) if !away => {
                away = true;
                tell(
                    Tone::Quiet,
                    &format!("{why}\nStill waiting, and trying to connect again."),
                )?;
            }
            Err(Failure::Error(_)) => {}
            Err(other) => return Err(other),
        }
        daemon = loop {
            sleep(RETRY).await;
            if let Ok((daemon, standing)) = access.connect().await {
                if let Some(alarm) = standing.alarms.into_iter().next() {
                    return Err(alarm);
                }
                break daemon;
            }
        };
        if away {
            away = false;
            tell(Tone::Quiet, "Connected again.")?;
        }
    }
}

struct Progress<'a> {
    id: &'a str,
    told: &'static str,
}

impl Progress<'_> {
    /// Follows the approval to its end, on one connection.
    async fn follow(&mut self, daemon: &mut Daemon) -> Result<Approval, Failure> {
        let mut changes: Changes = daemon.changes().await?;
        // What happened before the stream began is not in it.
        let shown = daemon.approval(self.id).await?;
        let mut now = shown.approval.unwrap_or_default();
        loop {
            if now.id == self.id {
                let runs = state_word(&now) == "consumed" && now.outcome.is_empty();
                if !runs && !is_open(&now) {
                    return Ok(now);
                }
                self.tell_once(&now)?;
            }
            now = match changes.next().await {
                Ok(change) => change,
                Err(end) => return Err(daemon.lost(&end)),
            };
        }
    }

    fn tell_once(&mut self, now: &Approval) -> Result<(), Failure> {
        let state = state_word(now);
        if self.told == state {
            return Ok(());
        }
        self.told = state;
        let told = match state {
            "consumed" => format!("It is used by request {}; the apply runs.", now.used_by),
            "granted" => "It has every yes it needs, and waits to be used.".to_owned(),
            _ => return Ok(()),
        };
        Ok(tell(Tone::Quiet, &told)?)
    }
}
