//! What the terminal at either end of this process is.

use std::env;
use std::io::{IsTerminal as _, stderr, stdin, stdout};
use std::os::fd::AsFd;

use rustix::termios::tcgetwinsize;

/// A terminal that does not say how wide it is.
const USUAL_WIDTH: usize = 80;

/// How output is to look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// In characters; without one, lines are left as they are, for programs and files.
    pub(crate) width: Option<usize>,
    pub(crate) colour: bool,
}

impl Look {
    /// How standard output is to look.
    pub(crate) fn of_stdout() -> Self {
        Self::of(&stdout(), stdout().is_terminal())
    }

    /// How standard error is to look.
    pub(crate) fn of_stderr() -> Self {
        Self::of(&stderr(), stderr().is_terminal())
    }

    fn of(stream: &impl AsFd, terminal: bool) -> Self {
        let width = || {
            let columns = tcgetwinsize(stream).map_or(0, |size| usize::from(size.ws_col));
            if columns == 0 { USUAL_WIDTH } else { columns }
        };
        Self {
            width: terminal.then(width),
            colour: terminal && colour_is_wanted(),
        }
    }
}

/// Whether the person wants colour and the terminal has it (see no-color.org).
pub(crate) fn colour_is_wanted() -> bool {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty());
    set("NO_COLOR").is_none() && set("TERM").is_some() && !is_dumb()
}

/// Whether the terminal says that it knows no escape sequences.
pub(crate) fn is_dumb() -> bool {
    env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Whether somebody at a terminal sees what we print and can answer.
pub(crate) fn has_reader_and_writer() -> bool {
    stdin().is_terminal() && stdout().is_terminal()
}

/// Whether somebody at a terminal can answer a question on standard error.
pub(crate) fn can_answer() -> bool {
    stdin().is_terminal() && stderr().is_terminal()
}
