//! Verifies a trail in a file: the daemon's own while it runs, and any other at the command line.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Subcommand;
use sandbox_core::audit::{Checkpoint, Fault, FaultKind, Record, Verified, Verifier};
use tokio::task::spawn_blocking;

use super::error::AuditError;
use super::key::check_signature;
use super::lines::{Lines, Next, Torn};
use super::view::View;

/// The exit code that says a trail is not as it was written.
pub const EXIT_FAULT: u8 = 3;

/// Why a trail did not pass.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// It is not as it was written.
    #[error("the trail is not as it was written: {0}")]
    Fault(Fault),
    /// It could not be read, so nothing is known.
    #[error("could not read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The checkpoint to hold it against is none.
    #[error("{path} {why}")]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// Why not, as a clause.
        why: String,
    },
}

/// Verifies a whole trail, also against a checkpoint that was kept elsewhere.
///
/// A trail that a daemon is writing to right now may end in half a line for a moment; ask the daemon.
///
/// # Errors
/// [`VerifyError::Fault`] names the first bad line.
pub fn verify_file(path: &Path, kept: Option<Checkpoint>) -> Result<Verified, VerifyError> {
    let mut verifier = Verifier::from_start(check_signature);
    if let Some(kept) = kept {
        verifier = verifier.against(kept);
    }
    let (file, size) = open(path)?;
    let scanned = scan(&file, size, verifier, |_, _| {}).map_err(read_error(path))?;
    scanned
        .and_then(Scanned::finish)
        .map_err(VerifyError::Fault)
}

/// Verifies the trail of a running daemon, at its path, up to what is durable now.
pub(super) async fn running(view: Arc<View>) -> Result<Verified, VerifyError> {
    let path = view.path.clone();
    let verified = spawn_blocking(move || {
        let (size, head, newest) = {
            let seen = view.read();
            (seen.index.size(), seen.head, seen.newest)
        };
        let (file, _longer_by_now) = open(&view.path)?;
        let mut verifier = Verifier::from_start(check_signature);
        if let Some(newest) = newest {
            verifier = verifier.against(newest);
        }
        let scanned = scan(&file, size, verifier, |_, _| {}).map_err(read_error(&view.path))?;
        let whole = scanned.and_then(Scanned::finish).and_then(|verified| {
            let other_end = FaultKind::OtherEnd { known: head };
            let fault = Fault {
                line: verified.head.seq.0,
                kind: other_end,
            };
            if verified.head == head {
                Ok(verified)
            } else {
                Err(fault)
            }
        });
        if let Err(fault) = &whole {
            view.stop(AuditError::Damaged(fault.clone()));
        }
        whole.map_err(VerifyError::Fault)
    });
    let failed = |_| VerifyError::Read {
        path,
        source: io::Error::other("the reader was stopped"),
    };
    verified.await.map_err(failed)?
}

/// How far a file was read without a fault.
pub(super) struct Scanned {
    pub(super) verifier: Verifier,
    pub(super) torn: Option<Torn>,
}

impl Scanned {
    fn finish(self) -> Result<Verified, Fault> {
        self.verifier.finish(self.torn.map_or(0, |torn| torn.bytes))
    }
}

/// Verifies the first `size` bytes line by line; `each` is shown every good record and its length
/// with its LF.
pub(super) fn scan(
    file: &File,
    size: u64,
    mut verifier: Verifier,
    mut each: impl FnMut(&Record, u64),
) -> io::Result<Result<Scanned, Fault>> {
    let mut lines = Lines::between(file, 0, size);
    loop {
        match lines.next()? {
            Next::Line(_, line) => match verifier.push(line) {
                Ok(record) => each(&record, line.len() as u64 + 1),
                Err(fault) => return explain(fault, lines).map(Err),
            },
            Next::Torn(torn) => {
                return Ok(Ok(Scanned {
                    verifier,
                    torn: Some(torn),
                }));
            }
            Next::End => {
                return Ok(Ok(Scanned {
                    verifier,
                    torn: None,
                }));
            }
        }
    }
}

/// Looks through the lines after the first bad one for what tells a move from a cut.
fn explain(mut fault: Fault, mut lines: Lines<'_>) -> io::Result<Fault> {
    let mut number = fault.line;
    while let Next::Line(_, line) = lines.next()? {
        number += 1;
        if fault.consider(number, line) {
            break;
        }
    }
    Ok(fault)
}

fn open(path: &Path) -> Result<(File, u64), VerifyError> {
    let opened = File::open(path).and_then(|file| file.metadata().map(|found| (file, found.len())));
    opened.map_err(read_error(path))
}

fn read_error(path: &Path) -> impl FnOnce(io::Error) -> VerifyError {
    |source| VerifyError::Read {
        path: path.to_owned(),
        source,
    }
}

/// `sandboxd audit …`
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Check a trail line by line: every hash, the chain, every signed checkpoint.
    ///
    /// Exits with 0 when the trail is whole, 3 when it is not (and says which line is the first bad
    /// one), 1 when it could not be read. A trail that a daemon is writing to right now may end in half
    /// a line for a moment: `approver audit --verify` asks the daemon instead.
    Verify {
        /// The trail, e.g. /var/lib/sandboxd/audit.jsonl or a copy of it.
        file: PathBuf,
        /// Also hold it against a checkpoint that was kept elsewhere, such as the one an approver
        /// keeps: shows a trail that was rolled back, forked or signed with another key.
        #[arg(long, value_name = "FILE")]
        checkpoint: Option<PathBuf>,
    },
}

impl AuditCommand {
    /// Runs the command and returns its exit code.
    ///
    /// # Errors
    /// Only what writing to `out` says.
    pub fn run(&self, out: &mut dyn Write) -> io::Result<u8> {
        let Self::Verify { file, checkpoint } = self;
        let kept = checkpoint.as_deref().map(read_checkpoint).transpose();
        match kept.and_then(|kept| verify_file(file, kept)) {
            Ok(verified) => {
                writeln!(out, "{} is whole.", file.display())?;
                tell(out, &verified)?;
                Ok(0)
            }
            Err(VerifyError::Fault(fault)) => {
                writeln!(out, "{} is NOT as it was written.", file.display())?;
                writeln!(out, "First bad line: {fault}.")?;
                Ok(EXIT_FAULT)
            }
            Err(error) => {
                writeln!(
                    out,
                    "Nothing is known of {}: {error}{}.",
                    file.display(),
                    cause(&error)
                )?;
                Ok(1)
            }
        }
    }
}

fn tell(out: &mut dyn Write, verified: &Verified) -> io::Result<()> {
    writeln!(
        out,
        "Events: {}, the last one's hash is {}.",
        verified.events, verified.head.hash
    )?;
    match verified.newest {
        Some(newest) => writeln!(
            out,
            "Checkpoints: {}, all signed by {}; the newest, of {}, covers event {}.",
            verified.checkpoints, newest.key, newest.time, newest.head.seq
        )?,
        None => writeln!(out, "Checkpoints: none.")?,
    }
    match verified.unsigned() {
        0 => Ok(()),
        unsigned => writeln!(out, "Events that no checkpoint covers yet: {unsigned}."),
    }
}

fn cause(error: &VerifyError) -> String {
    std::error::Error::source(error).map_or_else(String::new, |source| format!(": {source}"))
}

fn read_checkpoint(path: &Path) -> Result<Checkpoint, VerifyError> {
    let content = fs::read_to_string(path).map_err(read_error(path))?;
    let refused = |why: String| VerifyError::Checkpoint {
        path: path.to_owned(),
        why,
    };
    let checkpoint = Checkpoint::from_file(&content).map_err(|e| refused(e.to_string()))?;
    if checkpoint.is_signed(check_signature) {
        Ok(checkpoint)
    } else {
        Err(refused(
            "is a checkpoint whose signature is not its key's".to_owned(),
        ))
    }
}
