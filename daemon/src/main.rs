//! The privileged daemon. See the library for what it does.

fn main() -> std::process::ExitCode {
    sandboxd::cli::run()
}
