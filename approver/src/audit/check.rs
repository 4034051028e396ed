//! `--verify`: every line of the trail through our own verifier, and the daemon's verdict beside it.

use std::fmt;

use sandbox_core::audit::{Checkpoint, Fault, LineHash, Record, Verified, Verifier};
use sandbox_proto::approver::v1::VerifyAuditResponse;

use super::Shown;
use crate::continuity::check_signature;
use crate::daemon::Daemon;
use crate::escape::escape;
use crate::failure::Failure;

/// A trail that passed.
#[derive(Debug)]
pub(super) struct Verdict {
    verified: Verified,
    /// How many checkpoints from elsewhere it was held to.
    held_to: usize,
    /// Events of the request shown that were written after it was shown.
    came_meanwhile: usize,
}

pub(super) async fn whole_trail(
    daemon: &mut Daemon,
    known: Vec<Checkpoint>,
    shown: &Shown,
) -> Result<Verdict, Failure> {
    let held_to = known.len();
    let start = Verifier::from_start(check_signature);
    let fold = known.into_iter().fold(start, Verifier::against);
    let mut of_request = Vec::new();
    let ours = read_all(daemon, fold, |record| {
        if shown.request.is_some() && record.request_id == shown.request {
            of_request.push(record.hash);
        }
    });
    let ours = ours.await?;
    let theirs = daemon.verify().await?;
    match (ours, theirs.fault.is_empty()) {
        (Ok(verified), true) => {
            let came_meanwhile = compare(shown, &of_request)?;
            Ok(Verdict {
                verified,
                held_to,
                came_meanwhile,
            })
        }
        (Err(fault), _) => Err(Failure::Alarm(format!(
            "the audit trail is NOT as it was written.\n  first bad line, as received here: {fault}\n  {}",
            own_words(&theirs)
        ))),
        (Ok(_), false) => Err(Failure::Alarm(format!(
            "the lines received here are whole, and yet the file is not.\n  {}",
            own_words(&theirs)
        ))),
    }
}

/// Puts every line through the verifier. The inner error is what is wrong with the trail.
async fn read_all(
    daemon: &mut Daemon,
    mut verifier: Verifier,
    mut note: impl FnMut(&Record),
) -> Result<Result<Verified, Fault>, Failure> {
    let mut lines = daemon.lines(String::new()).await?;
    while let Some(line) = lines.next().await? {
        match verifier.push(&line.line) {
            Ok(record) => note(&record),
            Err(mut fault) => {
                // What comes after tells lines that were moved from lines that are gone.
                let mut number = fault.line;
                while let Some(later) = lines.next().await? {
                    number += 1;
                    if fault.consider(number, &later.line) {
                        break;
                    }
                }
                return Ok(Err(fault));
            }
        }
    }
    Ok(verifier.finish(0))
}

/// The events shown must be the first of those found; how many more there are by now.
fn compare(shown: &Shown, found: &[LineHash]) -> Result<usize, Failure> {
    match found.strip_prefix(&shown.lines[..]) {
        Some(later) => Ok(later.len()),
        None => Err(Failure::Alarm(format!(
            "the whole trail has other events of this request than the {} that were shown.",
            shown.lines.len()
        ))),
    }
}

fn own_words(theirs: &VerifyAuditResponse) -> String {
    if theirs.fault.is_empty() {
        format!(
            "sandboxd itself finds all of its {} events whole",
            theirs.events
        )
    } else {
        format!("sandboxd itself says: {}", escape(&theirs.fault))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verified {
            events,
            head: _,
            checkpoints,
            newest,
        } = &self.verified;
        write!(
            f,
            "The trail is whole: {events} events, read and checked here; sandboxd finds the same."
        )?;
        match newest {
            Some(newest) => write!(
                f,
                "\nCheckpoints: {checkpoints}, all signed by {}; the newest, of {}, covers event {}.",
                newest.key, newest.time, newest.head.seq
            )?,
            None => f.write_str("\nNo checkpoint is signed yet.")?,
        }
        if self.verified.unsigned() > 0 {
            write!(
                f,
                "\nEvents that no checkpoint covers yet: {}.",
                self.verified.unsigned()
            )?;
        }
        if self.held_to > 0 {
            write!(
                f,
                "\nIt agrees with every checkpoint known here ({}).",
                self.held_to
            )?;
        }
        if self.came_meanwhile > 0 {
            write!(
                f,
                "\nThe request has {} more events by now.",
                self.came_meanwhile
            )?;
        }
        Ok(())
    }
}
