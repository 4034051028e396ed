//! The real program as processes on this host: one hold, one attach, and never a second.
#![cfg(test)]

mod sides;

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use sandbox_proto::runner::v1::input::Kind::Bundle;
use sandbox_proto::runner::v1::terraform::Mode;
use sandbox_proto::runner::v1::to_runner;
use sandbox_runner::ending::Ending;
use sides::api_server::{Answer, Api};
use sides::daemon::{Daemon, all_pods, prove, start, with_process};
use sides::terraform::{ask, bundle};
use sides::{CANARY, PATIENCE, nobody};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::timeout;

const RUNNER: &str = env!("CARGO_BIN_EXE_runner");

/// PID 1 with its latch open, under a name of its own.
struct Hold {
    latch: String,
    child: Child,
    stderr: BufReader<ChildStderr>,
}

impl Hold {
    async fn start(idle_seconds: u32) -> Self {
        static HOLDS: AtomicU32 = AtomicU32::new(0);
        let count = HOLDS.fetch_add(1, Ordering::Relaxed);
        let latch = format!("runner-test-{}-{count}", std::process::id());
        Self::start_as(Command::new(RUNNER), latch, idle_seconds).await
    }

    async fn start_as(mut command: Command, latch: String, idle_seconds: u32) -> Self {
        let mut child = command
            .args([
                "hold",
                "--idle-seconds",
                &idle_seconds.to_string(),
                "--latch",
                &latch,
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        timeout(PATIENCE, stderr.read_line(&mut line))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(line, "runner: waiting for one attach\n");
        Self {
            latch,
            child,
            stderr,
        }
    }

    fn attach(&self) -> (Child, Daemon) {
        with_process(Command::new(RUNNER).args(["attach", "--latch", &self.latch]))
    }

    /// An attach whose stdin is at its end.
    async fn attach_output(&self) -> Output {
        let mut command = Command::new(RUNNER);
        command
            .args(["attach", "--latch", &self.latch])
            .stdin(Stdio::piped());
        timeout(PATIENCE, command.output()).await.unwrap().unwrap()
    }

    /// Exit code, stdout and the rest of stderr: the container's log.
    async fn ended(mut self) -> (Option<i32>, String, String) {
        let status = timeout(PATIENCE, self.child.wait())
            .await
            .expect("hold ends")
            .unwrap();
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut stdout)
            .await
            .unwrap();
        self.stderr.read_to_string(&mut stderr).await.unwrap();
        (status.code(), stdout, stderr)
    }
}

fn code(ending: Ending) -> i32 {
    ending.code().into()
}

fn pid(child: &Child) -> rustix::process::Pid {
    let pid = i32::try_from(child.id().unwrap()).unwrap();
    rustix::process::Pid::from_raw(pid).unwrap()
}

async fn exit_code(child: &mut Child) -> Option<i32> {
    timeout(PATIENCE, child.wait())
        .await
        .expect("attach ends")
        .unwrap()
        .code()
}

#[tokio::test]
async fn a_whole_request_through_real_processes_leaves_no_trace_in_any_log() {
    let api = Api::start(|_| Answer::refusal(403, "pods is forbidden"));
    let hold = Hold::start(30).await;
    let (attach, mut daemon) = hold.attach();
    let hello = daemon.prove(prove(api.described(), nobody())).await;
    assert!(hello.egress.unwrap().closed);
    let run = daemon.run(start(api.described(), all_pods())).await;
    assert_eq!(
        run.failure().1,
        "the API server answered 403: pods is forbidden"
    );
    assert_eq!(api.requests()[0].authorization, format!("Bearer {CANARY}"));
    daemon.close().await;
    let attached = timeout(PATIENCE, attach.wait_with_output())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(attached.status.code(), Some(code(Ending::Failed)));
    assert_eq!(String::from_utf8_lossy(&attached.stderr), "");
    let (ended, stdout, stderr) = hold.ended().await;
    assert_eq!(
        ended,
        Some(code(Ending::Failed)),
        "PID 1 passes the code on"
    );
    assert_eq!(stdout, "");
    assert_eq!(stderr, "runner: ended with code 1\n");
}

#[tokio::test]
async fn a_second_attach_is_refused_while_the_first_runs_and_after() {
    let hold = Hold::start(30).await;
    let (mut first, mut daemon) = hold.attach();
    daemon.ping_pong(1).await;
    for _ in 0..2 {
        let second = hold.attach_output().await;
        assert_eq!(second.status.code(), Some(code(Ending::Refused)));
        let said = "runner: this runner has been attached to before, and serves one request only\n";
        assert_eq!(String::from_utf8_lossy(&second.stderr), said);
        assert_eq!(second.stdout, b"");
    }
    daemon.ping_pong(2).await;
    let latch = hold.latch.clone();
    daemon.close().await;
    assert_eq!(exit_code(&mut first).await, Some(code(Ending::Gone)));
    assert_eq!(hold.ended().await.0, Some(code(Ending::Gone)));

    let output = Command::new(RUNNER)
        .args(["attach", "--latch", &latch])
        .output()
        .await
        .unwrap();
    assert_eq!(output.status.code(), Some(code(Ending::Refused)));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no runner of ours holds the latch"), "{said}");
}

#[tokio::test]
async fn two_that_attach_at_once_get_one_latch() {
    let hold = Hold::start(30).await;
    let (first, second) = tokio::join!(hold.attach_output(), hold.attach_output());
    let mut codes = [first.status.code(), second.status.code()];
    codes.sort_unstable();
    // The one that got in finds its stdin at its end; the other finds the latch taken, or PID 1 gone.
    assert_eq!(
        codes,
        [Some(code(Ending::Refused)), Some(code(Ending::Gone))]
    );
}

#[tokio::test]
async fn nobody_attaching_ends_it() {
    let hold = Hold::start(1).await;
    let (ended, stdout, stderr) = hold.ended().await;
    assert_eq!(ended, Some(code(Ending::Idle)));
    assert_eq!(
        (stdout.as_str(), stderr.as_str()),
        ("", "runner: nobody attached in 1 s\n")
    );
}

#[tokio::test]
async fn the_idle_limit_does_not_end_a_runner_that_attached() {
    let hold = Hold::start(1).await;
    let started = Instant::now();
    let (_attach, mut daemon) = hold.attach();
    let mut ticks = tokio::time::interval(Duration::from_millis(50));
    while started.elapsed() < Duration::from_millis(1_300) {
        daemon.ping_pong(1).await;
        ticks.tick().await;
    }
    daemon.close().await;
    assert_eq!(hold.ended().await.0, Some(code(Ending::Gone)));
}

#[tokio::test]
async fn sigterm_ends_it_before_and_after_the_attach() {
    let hold = Hold::start(30).await;
    rustix::process::kill_process(pid(&hold.child), rustix::process::Signal::TERM).unwrap();
    assert_eq!(hold.ended().await.0, Some(code(Ending::Terminated)));

    let hold = Hold::start(30).await;
    let (_attach, mut daemon) = hold.attach();
    daemon.ping_pong(1).await;
    rustix::process::kill_process(pid(&hold.child), rustix::process::Signal::TERM).unwrap();
    assert_eq!(hold.ended().await.0, Some(code(Ending::Terminated)));
}

#[tokio::test]
async fn a_runner_that_is_killed_takes_pid_1_with_it() {
    let hold = Hold::start(30).await;
    let (mut attach, mut daemon) = hold.attach();
    daemon.ping_pong(1).await;
    attach.start_kill().unwrap();
    assert_eq!(hold.ended().await.0, Some(code(Ending::Fault)));
}

#[tokio::test]
async fn a_violation_is_said_on_stderr_and_in_both_exit_codes() {
    let api = Api::start(|_| Answer::Silence);
    let hold = Hold::start(30).await;
    let (attach, mut daemon) = hold.attach();
    daemon
        .send(to_runner::Frame::Start(start(api.described(), all_pods())))
        .await;
    let attached = timeout(PATIENCE, attach.wait_with_output())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(attached.status.code(), Some(code(Ending::Violation)));
    let said = "runner: the daemon sent Start while it waited for Prove\n";
    assert_eq!(String::from_utf8_lossy(&attached.stderr), said);
    assert_eq!(hold.ended().await.0, Some(code(Ending::Violation)));
}

/// `/proc/PID` of a process that is not dumpable belongs to root, whoever runs it. So the runner has
/// to run as somebody else.
#[tokio::test]
async fn an_attached_runner_is_closed_to_its_own_user_and_leaves_no_core() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("runner");
    fs::copy(RUNNER, &program).unwrap();
    let as_nobody = || {
        let mut command = Command::new(&program);
        if rustix::process::geteuid().is_root() {
            command.uid(65_532).gid(65_532);
        }
        command
    };
    let latch = format!("runner-test-{}-opaque", std::process::id());
    let hold = Hold::start_as(as_nobody(), latch.clone(), 30).await;
    let (attach, mut daemon) = with_process(as_nobody().args(["attach", "--latch", &latch]));
    daemon.ping_pong(1).await;
    let owner = |child: &Child| {
        fs::metadata(format!("/proc/{}/fd", child.id().unwrap()))
            .unwrap()
            .uid()
    };
    assert_ne!(owner(&hold.child), 0, "an ordinary process is its user's");
    assert_eq!(owner(&attach), 0);
    let limits = fs::read_to_string(format!("/proc/{}/limits", attach.id().unwrap())).unwrap();
    let core = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"))
        .unwrap();
    assert_eq!(
        core.split_whitespace().skip(4).take(2).collect::<Vec<_>>(),
        ["0", "0"],
        "{core}"
    );
}

/// What a provider gone bad would try first: the runner's memory, its stream, its environment.
#[tokio::test]
async fn what_terraform_starts_cannot_look_into_the_runner_nor_write_into_its_stream() {
    const SCRIPT: &str = "#!/bin/bash
[ \"$1\" != init ] || exit 0
try() { if \"${@:2}\" 2>/dev/null; then echo \"$1: done\"; else echo \"$1: refused\"; fi >&2; }
look() { cat \"/proc/$1/environ\" >/dev/null; }
enter() { : </proc/$1/mem; }
speak() { echo frames >\"/proc/$1/fd/1\"; }
try 'look at myself' look $$
for what in look enter speak; do try \"$what at the runner\" $what $PPID; done
exit 1
";
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let modes = fs::Permissions::from_mode;
    fs::set_permissions(folder.path(), modes(0o755)).unwrap();
    fs::copy(RUNNER, at("runner")).unwrap();
    fs::write(at("terraform"), SCRIPT).unwrap();
    fs::set_permissions(at("terraform"), modes(0o755)).unwrap();
    fs::create_dir(at("work")).unwrap();
    fs::set_permissions(at("work"), modes(0o777)).unwrap();
    let as_nobody = || {
        let mut command = Command::new(at("runner"));
        if rustix::process::geteuid().is_root() {
            command.uid(65_532).gid(65_532);
        }
        command
    };
    let api = Api::start(|_| Answer::Silence);
    let latch = format!("runner-test-{}-closed", std::process::id());
    let _hold = Hold::start_as(as_nobody(), latch.clone(), 30).await;
    let mut attach = as_nobody();
    attach
        .args(["attach", "--latch", &latch, "--work"])
        .arg(at("work"))
        .arg("--terraform")
        .arg(at("terraform"));
    let (_attach, mut daemon) = with_process(&mut attach);
    daemon.prove(prove(api.described(), nobody())).await;
    let bundle = bundle(&[("main.tf", "")]);
    let plan = ask(Mode::Plan, &[(Bundle, bundle.clone())]);
    daemon
        .send(to_runner::Frame::Start(plan.start(api.described())))
        .await;
    daemon.chunk(&bundle).await;
    let run = daemon.collect().await;
    assert_eq!(run.failure, None);
    let said = &run.terraform.unwrap().diagnostics[0].detail;
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(
        lines,
        [
            "look at myself: done",
            "look at the runner: refused",
            "enter at the runner: refused",
            "speak at the runner: refused",
        ]
    );
    let left = fs::metadata(at("work/run")).unwrap();
    assert_eq!(left.permissions().mode() & 0o7777, 0o700);
}

#[tokio::test]
async fn ping_tells_pong_from_refused_from_silence() {
    let port = free_port();
    let mut listener = Command::new(RUNNER)
        .args(["pong", "--port", &port.to_string()])
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stderr = BufReader::new(listener.stderr.take().unwrap());
    timeout(PATIENCE, stderr.read_line(&mut line))
        .await
        .unwrap()
        .unwrap();
    assert!(line.contains("answering on"), "{line}");
    let try_once = async |target: &str| {
        let command = ["ping", target, "--timeout-ms", "300"];
        let output = Command::new(RUNNER).args(command).output().await.unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
        )
    };
    let target = format!("127.0.0.1:{port}");
    for _ in 0..3 {
        assert_eq!(
            try_once(&target).await,
            (Some(0), format!("{target}: PONG\n"))
        );
    }
    rustix::process::kill_process(pid(&listener), rustix::process::Signal::TERM).unwrap();
    assert_eq!(exit_code(&mut listener).await, Some(0));

    let target = nobody().to_string();
    let (ended, said) = try_once(&target).await;
    assert_eq!(ended, Some(1));
    assert_eq!(
        said,
        format!("{target}: Connection refused (os error 111)\n")
    );

    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let target = silent.local_addr().unwrap().to_string();
    let said = format!("{target}: connected, but nothing came back\n");
    assert_eq!(try_once(&target).await, (Some(2), said));
}

/// A port that is free on every address.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    listener.local_addr().unwrap().port()
}

#[tokio::test]
async fn kernel_prints_one_line_and_nonsense_has_its_exit_code() {
    let output = Command::new(RUNNER).arg("kernel").output().await.unwrap();
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.starts_with("Linux version") && text.ends_with('\n'),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1);

    let output = Command::new(RUNNER).arg("shell").output().await.unwrap();
    assert_eq!(output.status.code(), Some(code(Ending::Usage)));
    assert_eq!(output.stdout, b"");
}
