//! The human's command line for sandboxd.

use std::process::ExitCode;

fn main() -> ExitCode {
    approver::run()
}
