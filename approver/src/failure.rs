//! How a run ends when not well.

use std::io::{self, Write as _};
use std::process::ExitCode;

/// What went wrong, in whole sentences for a person.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The answer could not be had.
    Error(String),
    /// The audit trail is not what it was, or not what it claims.
    Alarm(String),
    /// Whoever read our output has enough.
    OutputClosed,
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
    let mut code = 0;
    let mut err = io::stderr().lock();
    for failure in failures {
        let told = match failure {
            Failure::Error(text) => {
                code = code.max(1);
                writeln!(err, "{text}")
            }
            Failure::Alarm(text) => {
                code = code.max(3);
                writeln!(err, "\nALARM: {text}")
            }
            Failure::OutputClosed => Ok(()),
        };
        // There is nobody left to tell; the code still says it.
        drop(told);
    }
    ExitCode::from(code)
}
