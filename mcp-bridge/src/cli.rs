//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

/// Where sandboxd listens for agents unless its configuration says otherwise.
const DEFAULT_SOCKET: &str = "/run/sandboxd/agent/agent.sock";

/// Lets an MCP client talk to sandboxd.
///
/// The client starts this program and speaks MCP on its standard input and output. Tools and their
/// results come from sandboxd; this program holds no credential and decides nothing.
#[derive(Debug, Parser)]
#[command(name = "mcp-bridge", version)]
pub(crate) struct Args {
    /// The agent socket of sandboxd
    #[arg(long, value_name = "PATH", default_value = DEFAULT_SOCKET)]
    pub socket: PathBuf,

    /// Say on standard error what happens; without it only what needs a person is said
    #[arg(long, short)]
    pub verbose: bool,

    /// How long a call may take before it is answered with "running"; for tests
    #[arg(long, value_name = "MS", default_value_t = 45_000, hide = true)]
    answer_within_ms: u64,
}

impl Args {
    /// How long a call may take before it is answered with `running`.
    ///
    /// MCP clients give up after about 60 s; an answer that says where to look beats their time-out.
    pub fn answer_within(&self) -> Duration {
        Duration::from_millis(self.answer_within_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_answered_within_45_seconds_unless_a_test_says_otherwise() {
        let args = Args::parse_from(["mcp-bridge"]);
        assert_eq!(args.answer_within(), Duration::from_secs(45));
        assert_eq!(args.socket, PathBuf::from(DEFAULT_SOCKET));
        let args = Args::parse_from(["mcp-bridge", "--answer-within-ms", "10"]);
        assert_eq!(args.answer_within(), Duration::from_millis(10));
    }

    #[test]
    fn the_flag_for_tests_is_not_shown() {
        use clap::CommandFactory as _;
        let help = Args::command().render_long_help().to_string();
        assert!(
            help.contains("--socket") && !help.contains("answer-within"),
            "{help}"
        );
    }
}
