//! The program in a Job's container. See the library for what it does.

use std::process::ExitCode;

fn main() -> ExitCode {
    sandbox_runner::run(std::env::args_os().skip(1)).into()
}
