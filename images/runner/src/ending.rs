//! How a runner process can end, and the exit code that tells.

use std::process::ExitCode;

/// How a runner process ended. PID 1 passes on the code of the runner that attached.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use = "the exit code is what tells how it ended"]
pub enum Ending {
    /// Everything asked was done; of `attach`: Finished went out and named no failure.
    Done,
    /// Finished went out with a failure; of `ping`: nothing could be reached.
    Failed,
    /// The daemon sent a frame outside its state, size or count; of `ping`: something other than
    /// PONG came back.
    Violation,
    /// The latch was taken, or nobody holds it.
    Refused,
    /// Nobody attached in time.
    Idle,
    /// The daemon's side of the stream went away before the request was over.
    Gone,
    /// Egress was not proven closed, so no request was taken.
    EgressOpen,
    /// The command line made no sense.
    Usage,
    /// A fault of the runner itself, or an attached runner that vanished without a word.
    Fault,
    /// SIGTERM or SIGINT.
    Terminated,
}

impl Ending {
    /// The exit code, which is also the byte an attached runner leaves with PID 1.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Violation => 2,
            Self::Refused => 3,
            Self::Idle => 4,
            Self::Gone => 5,
            Self::EgressOpen => 6,
            // As in sysexits.h, and 128 + SIGTERM as a shell has it.
            Self::Usage => 64,
            Self::Fault => 70,
            Self::Terminated => 143,
        }
    }

    /// The ending with this code. An unknown one is a fault: nothing else here writes any.
    pub fn from_code(code: u8) -> Self {
        const ALL: [Ending; 10] = [
            Ending::Done,
            Ending::Failed,
            Ending::Violation,
            Ending::Refused,
            Ending::Idle,
            Ending::Gone,
            Ending::EgressOpen,
            Ending::Usage,
            Ending::Fault,
            Ending::Terminated,
        ];
        ALL.into_iter()
            .find(|ending| ending.code() == code)
            .unwrap_or(Self::Fault)
    }
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> Self {
        Self::from(ending.code())
    }
}
