//! A person at a terminal, as the approver's user.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use crate::places::{APPROVER, installed, run_as};
use crate::trail::Trail;

/// Longer than a person at a terminal ever waits for the question.
const PATIENCE: Duration = Duration::from_mins(1);

/// Grants an approval, typing what it asks for. Gives what the terminal showed.
pub(crate) fn grant(trail: &Trail, approval: &str, typed: &str) -> String {
    let mut child = at_a_terminal(trail, &["grant", approval])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let (sender, pieces) = channel();
    thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(length @ 1..) = screen.read(&mut piece) {
            if sender.send(piece[..length].to_vec()).is_err() {
                break;
            }
        }
    });
    let (mut shown, mut answered) = (Vec::new(), false);
    while let Ok(piece) = pieces.recv_timeout(PATIENCE) {
        shown.extend(piece);
        if !answered && asks(&String::from_utf8_lossy(&shown)) {
            writeln!(keys, "{typed}").unwrap();
            answered = true;
        }
    }
    let status = child.wait().unwrap();
    let shown = String::from_utf8_lossy(&shown).replace('\r', "");
    assert!(answered && status.success(), "{status}: {shown}");
    shown
}

/// Whether the last line is a question.
fn asks(shown: &str) -> bool {
    let question = ["To grant it, type", "Type yes to grant it"];
    let last = shown.trim_end();
    question.iter().any(|words| shown.contains(words)) && last.ends_with(['>', ':'])
}

/// `approver ARGS` with a terminal of its own.
fn at_a_terminal(trail: &Trail, args: &[&str]) -> Command {
    let mut approver = run_as(APPROVER, APPROVER, &installed("approver"));
    approver.arg("--socket").arg(&trail.socket).args(args);
    let words = [approver.get_program()]
        .into_iter()
        .chain(approver.get_args());
    let words: Vec<&str> = words.map(|word| word.to_str().unwrap()).collect();
    // Quoted for the shell that `script` starts.
    let words: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let mut command = Command::new("script");
    command
        .args([
            "--quiet",
            "--return",
            "--command",
            &words.join(" "),
            "/dev/null",
        ])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("TERM", "xterm")
        .env("SHELL", "/bin/sh")
        .env("HOME", &trail.approver_home);
    command
}
