//! The command line: five subcommands with a flag or two, so it is parsed by hand.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::time::Duration;

use crate::latch::LatchName;
use crate::places::Places;

/// What `runner --help` prints.
pub const HELP: &str = "\
What runs inside a Job of agent-sandbox.

  runner hold --idle-seconds N [--latch NAME]  PID 1: wait N seconds for one attach, end with it
  runner attach [--latch NAME]                 serve one request, as frames on stdin and stdout
                [--work DIR] [--terraform FILE] [--providers DIR]
                                               where to write, and what to run; the image's own,
                                               unless said: /work, /terraform and /providers
  runner pong --port N                         answer PONG to whoever connects
  runner ping IP:PORT [--timeout-ms N]         print what came back; exit 0 PONG, 1 not reached,
                                               2 reached, but no PONG
  runner kernel                                print the kernel's own description

Other exit codes: 1 the request failed, 2 protocol violation, 3 latch refused, 4 nobody attached,
5 daemon gone, 6 egress not closed, 64 usage, 70 internal fault, 143 terminated.";

/// A parsed command line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Command {
    /// PID 1: hold the latch.
    Hold {
        /// How long to wait for the one attach.
        idle: Duration,
        /// Where to be found.
        latch: LatchName,
    },
    /// Take the latch and serve one request.
    Attach {
        /// Where PID 1 is to be found.
        latch: LatchName,
        /// Where everything else is.
        places: Places,
    },
    /// Answer PONG.
    Pong {
        /// TCP port to listen on, on every address.
        port: u16,
    },
    /// Connect once and tell what came back.
    Ping {
        /// Where to.
        target: SocketAddr,
        /// How long connecting, and then the answer, may take.
        timeout: Duration,
    },
    /// Print the kernel's own description.
    Kernel,
    /// Print [`HELP`].
    Help,
    /// Print the version.
    Version,
}

/// Why a command line made no sense.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum UsageError {
    /// No subcommand, or one that does not exist.
    #[error("there is no subcommand {0:?}")]
    Subcommand(String),
    /// An argument this subcommand does not take.
    #[error("{0:?} is not expected here")]
    Unexpected(String),
    /// A flag or operand that this subcommand needs.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A value that does not parse.
    #[error("{name} cannot be {value:?}: {expected}")]
    Value {
        /// The flag or operand.
        name: &'static str,
        /// What was given.
        value: String,
        /// What would do.
        expected: &'static str,
    },
}

impl Command {
    /// Parses the arguments after the program's name.
    ///
    /// # Errors
    /// [`UsageError`], naming the argument at fault.
    pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Self, UsageError> {
        let mut args = args
            .into_iter()
            .map(|arg| arg.to_string_lossy().into_owned());
        let subcommand = args.next().unwrap_or_default();
        let mut rest = Rest(args.collect());
        let command = match subcommand.as_str() {
            "hold" => Self::Hold {
                idle: rest.seconds("--idle-seconds")?,
                latch: rest.latch()?,
            },
            "attach" => Self::Attach {
                latch: rest.latch()?,
                places: rest.places()?,
            },
            "pong" => Self::Pong {
                port: rest.port("--port")?,
            },
            "ping" => Self::Ping {
                timeout: rest.timeout("--timeout-ms")?,
                target: rest.target("IP:PORT")?,
            },
            "kernel" => Self::Kernel,
            "help" | "--help" | "-h" => Self::Help,
            "version" | "--version" | "-V" => Self::Version,
            _ => return Err(UsageError::Subcommand(subcommand)),
        };
        match rest.0.into_iter().next() {
            Some(unexpected) => Err(UsageError::Unexpected(unexpected)),
            None => Ok(command),
        }
    }
}

/// How long `ping` waits unless told otherwise.
const PING_TIMEOUT: Duration = Duration::from_secs(2);

/// The arguments not taken yet.
struct Rest(Vec<String>);

impl Rest {
    fn seconds(&mut self, flag: &'static str) -> Result<Duration, UsageError> {
        let value = self.flag(flag)?.ok_or(UsageError::Missing(flag))?;
        let seconds = value.parse().ok().filter(|n| (1..=86_400).contains(n));
        seconds
            .map(Duration::from_secs)
            .ok_or(bad(flag, value, "a number of seconds, 1 to 86400"))
    }

    fn timeout(&mut self, flag: &'static str) -> Result<Duration, UsageError> {
        let Some(value) = self.flag(flag)? else {
            return Ok(PING_TIMEOUT);
        };
        let millis = value.parse().ok().filter(|n| (1..=60_000).contains(n));
        millis.map(Duration::from_millis).ok_or(bad(
            flag,
            value,
            "a number of milliseconds, 1 to 60000",
        ))
    }

    fn port(&mut self, flag: &'static str) -> Result<u16, UsageError> {
        let value = self.flag(flag)?.ok_or(UsageError::Missing(flag))?;
        let port = value.parse().ok().filter(|&n| n > 0);
        port.ok_or(bad(flag, value, "a port, 1 to 65535"))
    }

    fn latch(&mut self) -> Result<LatchName, UsageError> {
        let Some(value) = self.flag("--latch")? else {
            return Ok(LatchName::default());
        };
        value
            .parse()
            .map_err(|_| bad("--latch", value, "1 to 64 of a-z, 0-9 and '-'"))
    }

    fn places(&mut self) -> Result<Places, UsageError> {
        let mut places = Places::default();
        for (flag, place) in [
            ("--work", &mut places.work),
            ("--terraform", &mut places.terraform),
            ("--providers", &mut places.providers),
        ] {
            if let Some(value) = self.flag(flag)? {
                if !value.starts_with('/') {
                    return Err(bad(flag, value, "an absolute path"));
                }
                *place = value.into();
            }
        }
        Ok(places)
    }

    fn target(&mut self, operand: &'static str) -> Result<SocketAddr, UsageError> {
        if self.0.is_empty() {
            return Err(UsageError::Missing(operand));
        }
        let value = self.0.remove(0);
        value.parse().map_err(|_| {
            bad(
                operand,
                value,
                "an IP address and a port; names are not resolved",
            )
        })
    }

    /// Takes `--flag value` or `--flag=value` out of the arguments.
    fn flag(&mut self, flag: &'static str) -> Result<Option<String>, UsageError> {
        let is_flag = |arg: &String| arg.split('=').next() == Some(flag);
        let Some(at) = self.0.iter().position(is_flag) else {
            return Ok(None);
        };
        let arg = self.0.remove(at);
        if let Some((_, value)) = arg.split_once('=') {
            return Ok(Some(value.to_owned()));
        }
        if at == self.0.len() {
            return Err(UsageError::Missing(flag));
        }
        Ok(Some(self.0.remove(at)))
    }
}

fn bad(name: &'static str, value: String, expected: &'static str) -> UsageError {
    UsageError::Value {
        name,
        value,
        expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command, UsageError> {
        Command::parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn the_jobs_own_command_lines_parse() {
        let idle = Duration::from_secs(90);
        let latch = LatchName::default();
        let hold = Ok(Command::Hold { idle, latch });
        assert_eq!(parse("hold --idle-seconds 90"), hold);
        assert_eq!(parse("hold --idle-seconds=90"), hold);
        let attach = |places| Command::Attach {
            latch: LatchName::default(),
            places,
        };
        assert_eq!(parse("attach"), Ok(attach(Places::default())));
        let elsewhere = Places {
            work: "/tmp/w".into(),
            ..Places::default()
        };
        assert_eq!(parse("attach --work /tmp/w"), Ok(attach(elsewhere)));
        assert_eq!(parse("pong --port 7777"), Ok(Command::Pong { port: 7777 }));
        assert_eq!(parse("kernel"), Ok(Command::Kernel));
    }

    #[test]
    fn ping_takes_its_flag_on_either_side() {
        let ping = Ok(Command::Ping {
            target: "[::1]:7777".parse().unwrap(),
            timeout: Duration::from_millis(300),
        });
        assert_eq!(parse("ping [::1]:7777 --timeout-ms 300"), ping);
        assert_eq!(parse("ping --timeout-ms 300 [::1]:7777"), ping);
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (line, named) in [
            ("", "subcommand"),
            ("shell", "\"shell\""),
            ("hold", "--idle-seconds is missing"),
            ("hold --idle-seconds", "--idle-seconds is missing"),
            ("hold --idle-seconds 0", "1 to 86400"),
            ("hold --idle-seconds 5 now", "\"now\""),
            ("attach --latch ../x", "--latch"),
            ("attach --work x", "an absolute path"),
            ("pong --port 0", "1 to 65535"),
            ("ping", "IP:PORT is missing"),
            ("ping localhost:80", "names are not resolved"),
        ] {
            let error = parse(line).unwrap_err().to_string();
            assert!(error.contains(named), "{line:?} gave {error:?}");
        }
    }
}
