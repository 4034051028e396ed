//! The operator's own command, told that something waits for humans. It gets the approval's id and nothing
//! an agent could have chosen.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use sandbox_core::ids::{ApprovalId, RequestId};
use tokio::process::Command;

use super::{ApprovalParts, told};
use crate::report::chain;

/// How long the command may take.
const LIMIT: Duration = Duration::from_secs(10);
/// All of its environment.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Starts the command, if there is one, and does not wait for it. That it did not work is told in the log:
/// the approval is there all the same, and `approver list` and `watch` show it.
pub(super) fn send(parts: &ApprovalParts, id: ApprovalId, request: RequestId) {
    let [program, arguments @ ..] = parts.notify.command.as_slice() else {
        return;
    };
    let command = command(program, arguments, id);
    let event = told::notified(id, request, program);
    let audit = parts.audit.clone();
    parts.lifetime.spawn(async move {
        if let Err(e) = audit.record(event).await {
            tracing::error!(approval = %id, error = chain(&e), "nobody is notified");
            return;
        }
        if let Err(why) = run(command, LIMIT).await {
            tracing::warn!(approval = %id, why, "the command of [notify] did not work");
        }
    });
}

fn command(program: &str, arguments: &[String], id: ApprovalId) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .arg(id.as_str())
        .env_clear()
        .env("PATH", PATH)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Its own children end with it.
        .process_group(0)
        .kill_on_drop(true);
    command
}

async fn run(mut command: Command, limit: Duration) -> Result<(), String> {
    let mut child = command.spawn().map_err(|e| e.to_string())?;
    let group = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .and_then(Pid::from_raw);
    match tokio::time::timeout(limit, child.wait()).await {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(status.to_string()),
        Ok(Err(e)) => Err(e.to_string()),
        Err(_) => {
            if let Some(group) = group {
                kill_process_group(group, Signal::KILL).ok();
            }
            Err(format!("it took over {} s and was ended", limit.as_secs()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// What the shell is given: a fresh script could not be run while another test's child still has it open.
    fn shell(text: &str, arguments: &[&str]) -> Command {
        let arguments: Vec<String> = ["-c", text]
            .iter()
            .chain(arguments)
            .map(ToString::to_string)
            .collect();
        command("/bin/sh", &arguments, ApprovalId::new([7; 12]))
    }

    #[tokio::test]
    async fn the_command_gets_its_arguments_the_id_and_a_path_alone() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let text =
            "printf '%s\\n' \"$#\" \"$@\" > \"$0\"; /usr/bin/env -u _ >> \"$0\"; pwd >> \"$0\"";
        let arguments = [out.to_str().unwrap(), "--to=$HOME; ops"];
        run(shell(text, &arguments), LIMIT).await.unwrap();
        let out = std::fs::read_to_string(out).unwrap();
        let (told, environment) = out.split_once("777777777777\n").unwrap();
        assert_eq!(told, "2\n--to=$HOME; ops\n");
        let mut environment: Vec<_> = environment.lines().collect();
        environment.sort_unstable();
        // PWD is the shell's own.
        assert_eq!(environment, ["/", &format!("PATH={PATH}"), "PWD=/"]);
    }

    #[tokio::test]
    async fn a_command_that_does_not_end_is_ended_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let text = "sleep 60 & echo $! > \"$0\"; wait";
        let endless = shell(text, &[pid.to_str().unwrap()]);
        let ended = run(endless, Duration::from_secs(2)).await;
        assert_eq!(ended.unwrap_err(), "it took over 2 s and was ended");
        let child = std::fs::read_to_string(pid).unwrap();
        let stat = format!("/proc/{}/stat", child.trim());
        let begun = Instant::now();
        // Gone, or waiting for whoever inherited it to notice that it is.
        while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
            assert!(begun.elapsed() < Duration::from_secs(10), "it lives on");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn a_command_that_fails_or_is_not_there_says_so() {
        let why = run(shell("exit 3", &[]), LIMIT).await.unwrap_err();
        assert!(why.contains('3'), "{why}");
        let nowhere = command("/nowhere/notify", &[], ApprovalId::new([7; 12]));
        assert!(run(nowhere, LIMIT).await.is_err());
    }
}
