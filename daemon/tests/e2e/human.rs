//! A person at a terminal, as an approver's user.

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use crate::places::{APPROVER, installed, run_as};
use crate::trail::Trail;

/// Longer than a person at a terminal ever waits for the question.
const PATIENCE: Duration = Duration::from_mins(1);

/// Grants an approval, typing what it asks for. Gives what the terminal showed.
pub(crate) fn grant(trail: &Trail, approval: &str, typed: &str) -> String {
    let mut terminal = Terminal::at_the_question(trail, approval);
    terminal.answer(typed);
    let (status, shown) = terminal.end();
    assert!(status.success(), "{status}: {shown}");
    shown
}

/// `approver grant` at a terminal of its own.
pub(crate) struct Terminal {
    child: Child,
    keys: ChildStdin,
    screen: Receiver<Vec<u8>>,
    shown: Vec<u8>,
}

impl Terminal {
    /// With the approval shown, and the question asked.
    pub(crate) fn at_the_question(trail: &Trail, approval: &str) -> Self {
        let mut child = at_a_terminal(trail, &["grant", approval])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, pieces) = channel();
        thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(length @ 1..) = screen.read(&mut piece) {
                if sender.send(piece[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        let mut terminal = Self {
            child,
            keys,
            screen: pieces,
            shown: Vec::new(),
        };
        while !asks(&terminal.text()) {
            let piece = terminal.screen.recv_timeout(PATIENCE);
            terminal
                .shown
                .extend(piece.unwrap_or_else(|_| panic!("no question: {}", terminal.text())));
        }
        terminal
    }

    pub(crate) fn answer(&mut self, typed: &str) {
        writeln!(self.keys, "{typed}").unwrap();
    }

    /// Waits for it. Gives what it came to, and all that was shown, in one line: the terminal breaks it anywhere.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        while let Ok(piece) = self.screen.recv_timeout(PATIENCE) {
            self.shown.extend(piece);
        }
        let text = self.text();
        let words: Vec<&str> = text.split_whitespace().collect();
        (self.child.wait().unwrap(), words.join(" "))
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.shown).replace('\r', "")
    }
}

/// Whether the last line is a question.
fn asks(shown: &str) -> bool {
    let question = ["To grant it, type", "Type yes to grant it"];
    let last = shown.trim_end();
    question.iter().any(|words| shown.contains(words)) && last.ends_with(['>', ':'])
}

/// `approver ARGS` with a terminal of its own.
fn at_a_terminal(trail: &Trail, args: &[&str]) -> Command {
    let mut approver = run_as(&trail.approver, APPROVER, &installed("approver"));
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
