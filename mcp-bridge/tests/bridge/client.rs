//! A raw MCP client: the real binary, its pipes, and a deadline for everything.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::wait::{DEADLINE, wait_until};

/// How long silence is listened to where nothing may come.
const SILENCE: Duration = Duration::from_millis(300);

/// A folder for a socket and a cache, and the binary.
pub struct Setting {
    pub folder: TempDir,
}

impl Setting {
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("agent.sock")
    }

    /// A command for the bridge at this socket and with a cache of this setting.
    pub fn command(&self) -> Command {
        self.command_for(Path::new(env!("CARGO_BIN_EXE_mcp-bridge")))
    }

    pub fn command_for(&self, binary: &Path) -> Command {
        let mut command = Command::new(binary);
        command
            .arg("--socket")
            .arg(self.socket())
            .env_clear()
            .env("XDG_CACHE_HOME", self.folder.path().join("cache"));
        command
    }

    pub fn bridge(&self) -> Bridge {
        Bridge::start(&mut self.command())
    }

    pub fn bridge_with<S: AsRef<OsStr>>(&self, args: &[S]) -> Bridge {
        Bridge::start(self.command().args(args))
    }
}

/// A running bridge and the client's ends of its pipes.
pub struct Bridge {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    stderr: Option<ChildStderr>,
    /// Messages read while waiting for another.
    read: Vec<Value>,
    last_id: u64,
}

impl Bridge {
    /// Starts `command` and reads what it writes.
    pub fn start(command: &mut Command) -> Self {
        let (mut bridge, stdout) = Self::start_unread(command);
        bridge.listen(stdout);
        bridge
    }

    /// Starts `command` and leaves its standard output unread.
    pub fn start_unread(command: &mut Command) -> (Self, ChildStdout) {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        let bridge = Self {
            stdin: child.stdin.take(),
            stderr: child.stderr.take(),
            lines: channel().1,
            child,
            read: Vec::new(),
            last_id: 1000,
        };
        (bridge, stdout)
    }

    /// Begins to read.
    pub fn listen(&mut self, stdout: ChildStdout) {
        let (sender, lines) = channel();
        self.lines = lines;
        thread::spawn(move || {
            let mut stdout = BufReader::new(stdout);
            loop {
                let mut line = Vec::new();
                if stdout.read_until(b'\n', &mut line).unwrap() == 0 || sender.send(line).is_err() {
                    break;
                }
            }
        });
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes one line.
    pub fn send(&mut self, line: &str) {
        self.send_bytes(line.as_bytes());
        self.send_bytes(b"\n");
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    /// The client's end of standard input, to write from elsewhere.
    pub fn take_stdin(&mut self) -> ChildStdin {
        self.stdin.take().unwrap()
    }

    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// The next line, as it is.
    pub fn next_line(&mut self) -> String {
        self.try_next_line().expect("the bridge closed its output")
    }

    /// The next line, or none at the end of the output.
    fn try_next_line(&mut self) -> Option<String> {
        let line = match self.lines.recv_timeout(DEADLINE) {
            Ok(line) => String::from_utf8(line).unwrap(),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => panic!("no line within {DEADLINE:?}"),
        };
        let line = line.strip_suffix('\n').expect("a line ends with LF");
        assert!(
            !line
                .chars()
                .any(|c| c.is_control() || "\u{2028}\u{2029}\u{202e}\u{feff}".contains(c)),
            "a line holds a hidden character: {line:?}"
        );
        Some(line.to_owned())
    }

    /// The next message.
    pub fn next(&mut self) -> Value {
        if !self.read.is_empty() {
            return self.read.remove(0);
        }
        serde_json::from_str(&self.next_line()).unwrap()
    }

    /// The next message that `wanted` accepts; the others are kept.
    pub fn next_where(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.read.iter().position(&wanted) {
            return self.read.remove(at);
        }
        loop {
            let message = serde_json::from_str(&self.next_line()).unwrap();
            if wanted(&message) {
                return message;
            }
            self.read.push(message);
        }
    }

    /// The answer to request `id`.
    pub fn answer(&mut self, id: &Value) -> Value {
        self.next_where(|message| message.get("id") == Some(id) && message.get("method").is_none())
    }

    /// Sends a request and waits for its answer.
    pub fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.begin(method, params);
        self.answer(&id)
    }

    /// How soon a ping is answered: the best of five, since the machine has other work, too.
    pub fn ping_time(&mut self) -> Duration {
        let ping = |bridge: &mut Self| {
            let start = Instant::now();
            bridge.request("ping", &json!({}));
            start.elapsed()
        };
        (0..5).map(|_| ping(self)).min().unwrap()
    }

    /// Sends a request; its id.
    pub fn begin(&mut self, method: &str, params: &Value) -> Value {
        self.last_id += 1;
        let id = json!(self.last_id);
        self.send(
            &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string(),
        );
        id
    }

    pub fn notify(&mut self, method: &str, params: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    /// Opens the session as SDK clients do.
    pub fn initialize(&mut self) -> Value {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "raw", "version": "1"},
        });
        let answer = self.request("initialize", &params);
        self.notify("notifications/initialized", &json!({}));
        answer
    }

    /// Calls a tool and waits for the result.
    pub fn call(&mut self, name: &str, arguments: &Value) -> Value {
        let answer = self.request("tools/call", &json!({"name": name, "arguments": arguments}));
        answer
            .get("result")
            .unwrap_or_else(|| panic!("no result: {answer}"))
            .clone()
    }

    /// The tools' names.
    pub fn tool_names(&mut self) -> Vec<String> {
        let answer = self.request("tools/list", &json!({}));
        let tools = answer["result"]["tools"].as_array().unwrap();
        tools
            .iter()
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Fails if a message comes within a moment: after a `ping` is answered, whatever was due before
    /// has had its turn.
    pub fn assert_silent(&mut self) {
        let id = self.begin("ping", &json!({}));
        let pong = self.next();
        assert_eq!(pong["id"], id, "expected nothing, got {pong}");
        match self.lines.recv_timeout(SILENCE) {
            Err(RecvTimeoutError::Timeout) => {}
            other => panic!("expected nothing, got {other:?}"),
        }
    }

    /// The messages until the end of the output.
    pub fn rest(&mut self) -> Vec<Value> {
        let mut rest = std::mem::take(&mut self.read);
        while let Some(line) = self.try_next_line() {
            rest.push(serde_json::from_str(&line).unwrap());
        }
        rest
    }

    /// Closes the input and waits for the exit.
    pub fn end(&mut self) -> ExitStatus {
        self.close_stdin();
        let child = &mut self.child;
        wait_until("the bridge to exit", || child.try_wait().unwrap())
    }

    /// Closes the input, waits for the exit and gives what standard error holds.
    pub fn end_and_read_stderr(&mut self) -> String {
        let mut stderr = self.stderr.take().unwrap();
        self.end();
        let mut text = String::new();
        stderr.read_to_string(&mut text).unwrap();
        text
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        // Most tests have ended it already.
        self.child.kill().unwrap_or_default();
        self.child.wait().unwrap();
    }
}

/// Resident memory of a process, in KiB.
pub fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
