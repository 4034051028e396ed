//! How a run ends when not well.

use std::io;
use std::process::ExitCode;

use crate::document::{Tone, tell};

/// What went wrong, in whole sentences for a person.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The answer could not be had.
    Error(String),
    /// The audit trail is not what it was, or not what it claims.
    Alarm(String),
    /// No verdict was recorded, or one that does not count.
    Refused(String),
    /// The grant was given, and what it was given for did not succeed.
    Unsuccessful(String),
    /// A signal ended the run.
    Ended {
        /// Its number.
        signal: u8,
        /// What stays as it is; nothing where that is plain.
        told: String,
    },
    /// Whoever read our output has enough.
    OutputClosed,
}

impl Failure {
    /// The exit code, by which the worst is found too: an alarm outweighs all else.
    fn code(&self) -> (u8, u8) {
        match self {
            Self::OutputClosed => (0, 0),
            Self::Error(_) => (1, 1),
            Self::Refused(_) => (2, 4),
            Self::Unsuccessful(_) => (3, 5),
            Self::Ended { signal, .. } => (4, 128 + signal),
            Self::Alarm(_) => (5, 3),
        }
    }
}

impl From<io::Error> for Failure {
    /// Of an error in writing our own output.
    fn from(e: io::Error) -> Self {
        if e.kind() == io::ErrorKind::BrokenPipe {
            Self::OutputClosed
        } else {
            Self::Error(format!("Could not write the output: {e}."))
        }
    }
}

/// Tells all of it on stderr; the worst gives the exit code.
pub(crate) fn report(failures: &[Failure]) -> ExitCode {
    for failure in failures {
        let told = match failure {
            Failure::Error(text) | Failure::Refused(text) | Failure::Unsuccessful(text) => {
                tell(Tone::Plain, text)
            }
            Failure::Ended { told, .. } if !told.is_empty() => tell(Tone::Plain, told),
            Failure::Alarm(text) => tell(Tone::Danger, &format!("\nALARM: {text}")),
            Failure::Ended { .. } | Failure::OutputClosed => Ok(()),
        };
        // There is nobody left to tell; the code still says it.
        drop(told);
    }
    let worst = failures.iter().map(Failure::code).max().unwrap_or_default();
    ExitCode::from(worst.1)
}
