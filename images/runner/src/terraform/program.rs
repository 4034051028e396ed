//! Terraform as a child process: a listed environment, its output read as it comes, and an end in time.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep_until, timeout};

use super::folder::Folder;

/// How much of stderr is kept: the end of it, where the reason stands.
const MAX_STDERR: usize = 8 * 1024;

/// How long the Kubernetes provider waits at most between two looks at an object, and some more.
const POLL: Duration = Duration::from_secs(14);

/// How long what a killed Terraform left in its pipes may take to be read.
const DRAIN_LIMIT: Duration = Duration::from_secs(2);

/// One Terraform over one folder.
pub struct Program<'a> {
    /// Terraform's binary.
    pub binary: &'a Path,
    /// Where it works.
    pub folder: &'a Folder,
    /// Terraform's workspace; empty is the default one.
    pub workspace: &'a str,
    /// The proxy, where there is one.
    pub proxy: Option<SocketAddr>,
    /// When it has to be over.
    pub times: Times,
}

/// When a run has to end.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Terraform is asked to stop: it ends the operations under way, and begins no other.
    pub interrupt: Instant,
    /// No request passes any more. An operation that goes on looking whether an object is ready ends with that,
    /// and the state has the object; killed instead, it would leave an object that no state knows.
    pub close: Instant,
    /// It is killed, with everything it started.
    pub kill: Instant,
}

impl Times {
    /// For work that may take `limit` from now on: there is time after the interrupt for what is under
    /// way, and after the kill for what has to be told.
    #[must_use]
    pub fn within(limit: Duration) -> Self {
        let now = Instant::now();
        let telling = (limit / 20).min(Duration::from_secs(5));
        let looks = POLL.min(limit / 4);
        let finishing = (limit / 20).min(Duration::from_secs(41));
        let kill = limit.saturating_sub(telling);
        let close = kill.saturating_sub(looks);
        Self {
            interrupt: now + close.saturating_sub(finishing),
            close: now + close,
            kill: now + kill,
        }
    }
}

/// How a run ended.
pub struct Ended {
    /// Terraform's exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Whether it was asked to stop because its time was over.
    pub interrupted: bool,
    /// The end of what it said on stderr.
    pub stderr: String,
}

impl Program<'_> {
    /// Runs one command, and hands over its stdout in pieces. Dropped, it takes Terraform with it.
    ///
    /// # Errors
    /// When it cannot be started or waited for, or `output` wants no more.
    pub async fn run(
        &self,
        args: &[&str],
        mut output: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<Ended> {
        let mut child = self.command(args).spawn()?;
        let group = Group::of(&child);
        let (Some(mut stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let mut tail = std::pin::pin!(read_tail(stderr));
        let mut said = None;
        let mut piece = vec![0; 64 * 1024];
        let mut interrupted = false;
        let mut open = true;
        let status = loop {
            tokio::select! {
                biased;
                () = sleep_until(self.times.kill) => {
                    interrupted = true;
                    child.start_kill()?;
                    break child.wait().await?;
                }
                () = sleep_until(self.times.interrupt), if !interrupted => {
                    interrupted = true;
                    group.interrupt();
                }
                read = stdout.read(&mut piece), if open => match read? {
                    0 => open = false,
                    read => output(&piece[..read])?,
                },
                text = &mut tail, if said.is_none() => said = Some(text),
                status = child.wait() => break status?,
            }
        };
        // Its providers would end by themselves, a moment later.
        drop(group);
        let rest = async {
            while open {
                match stdout.read(&mut piece).await? {
                    0 => open = false,
                    read => output(&piece[..read])?,
                }
            }
            io::Result::Ok(match said {
                Some(said) => said,
                None => tail.await,
            })
        };
        let stderr = match timeout(DRAIN_LIMIT, rest).await {
            Ok(stderr) => stderr?,
            Err(_) => String::new(),
        };
        Ok(Ended {
            code: status.code(),
            interrupted,
            stderr,
        })
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.binary);
        command
            .args(args)
            .current_dir(self.folder.source())
            .env_clear()
            .env("HOME", self.folder.home())
            .env("TMPDIR", self.folder.temporary())
            .env("TF_DATA_DIR", self.folder.data())
            .env("TF_CLI_CONFIG_FILE", self.folder.settings())
            .env("TF_IN_AUTOMATION", "1")
            .env("TF_INPUT", "0")
            .env("CHECKPOINT_DISABLE", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        if !matches!(self.workspace, "" | "default") {
            command.env("TF_WORKSPACE", self.workspace);
        }
        if let Some(proxy) = self.proxy {
            command
                .env("KUBE_HOST", format!("http://{proxy}"))
                .env("KUBE_LOAD_CONFIG_FILE", "false");
        }
        command
    }
}

/// Terraform and the providers it started. Dropped, it ends whichever of them still run.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        Self(pid.and_then(Pid::from_raw))
    }

    /// Terraform alone: it tells its providers itself.
    fn interrupt(&self) {
        if let Some(pid) = self.0 {
            // Gone already, then.
            kill_process(pid, Signal::INT).ok();
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // Nobody left in it is what we want.
            kill_process_group(group, Signal::KILL).ok();
        }
    }
}

/// The end of a stream, once it ends.
async fn read_tail(mut stream: impl AsyncRead + Unpin) -> String {
    let mut tail = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(read @ 1..) = stream.read(&mut piece).await {
        tail.extend_from_slice(&piece[..read]);
        let over = tail.len().saturating_sub(MAX_STDERR);
        tail.drain(..over);
    }
    String::from_utf8_lossy(&tail).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_time_for_what_is_under_way_for_a_last_look_and_for_telling() {
        for seconds in [50, 57, 600, 855, 1083] {
            let limit = Duration::from_secs(seconds);
            let before = Instant::now();
            let times = Times::within(limit);
            // The provider looks every ten seconds at least.
            let looks = times.kill.duration_since(times.close);
            assert!(looks >= Duration::from_secs(12), "{seconds}: {looks:?}");
            assert!(
                times.close - times.interrupt >= Duration::from_secs(2),
                "{seconds}"
            );
            assert!(
                before + limit - times.kill <= Duration::from_secs(5),
                "{seconds}"
            );
        }
        let minute = Times::within(Duration::from_secs(855));
        assert!(minute.kill.duration_since(minute.interrupt) >= Duration::from_secs(50));
        // Whatever the limit, they come in this order.
        let none = Times::within(Duration::ZERO);
        assert!(none.interrupt <= none.close && none.close <= none.kill);
    }
}
