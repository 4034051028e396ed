//! What runs inside a Job: PID 1's latch, and the one request that comes over the exec stream.
//!
//! The container starts as `runner hold`, which does nothing but wait for one `runner attach`. That
//! one, execed by the daemon, proves that nothing but the API server can be reached, takes a request
//! with its credential, does it over HTTPS and says so. The credential stays in its memory: the
//! container's log, its environment, its arguments and its disk never see it.
//!
//! There is no name resolution here (a static glibc has none): every address is `IP:port`.

pub mod args;
pub mod ending;
pub mod hold;
pub mod attach;
pub mod places;
pub mod latch;
pub mod harden;
pub mod frames;
pub mod session;
pub mod kernel;
pub mod egress;
pub mod api;
pub mod credential;
pub mod reports;
pub mod caller;
pub mod list;
pub mod page;
pub mod pods;
pub mod inputs;
pub mod proxy;
pub mod terraform;
pub mod text;
pub mod probe;

use std::ffi::OsString;
use std::io::{self, Write as _};

use args::Command;
use ending::Ending;

/// Runs one subcommand to its end. Only `kernel`, `ping`, `--help` and `--version` write to stdout
/// for people; `attach` writes frames there and `hold` nothing, since that is the container's log.
pub fn run(args: impl IntoIterator<Item = OsString>) -> Ending {
    let command = match Command::parse(args) {
        Ok(command) => command,
        Err(error) => {
            eprintln!("runner: {error}. `runner --help` lists what there is.");
            return Ending::Usage;
        }
    };
    match command {
        Command::Hold { idle, latch } => hold::run(&latch, idle),
        Command::Attach { latch, places } => attach::run(&latch, &places),
        Command::Pong { port } => probe::pong(port),
        Command::Ping { target, timeout } => probe::ping(target, timeout),
        Command::Kernel => match kernel::text() {
            Ok(text) => say(&text),
            Err(error) => {
                eprintln!("runner: could not read {}: {error}", kernel::PATH);
                Ending::Fault
            }
        },
        Command::Help => say(args::HELP),
        Command::Version => say(concat!("runner ", env!("CARGO_PKG_VERSION"))),
    }
}

fn say(text: &str) -> Ending {
    match writeln!(io::stdout(), "{text}") {
        Ok(()) => Ending::Done,
        Err(_) => Ending::Gone,
    }
}
