//! An MCP client on the pipes of one `mcp-bridge`.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::places::{AGENT, installed, run_as};

/// Longer than any call may take.
const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) struct Bridge {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    /// Answers that came while another one was waited for.
    early: HashMap<u64, Value>,
    last_id: u64,
    /// Every line it wrote.
    pub(crate) transcript: String,
}

/// What a tool call came to.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    result: Value,
}

impl Bridge {
    /// To the installed daemon, as the agent's user.
    pub(crate) fn start() -> Self {
        Self::start_as(AGENT, AGENT, None)
    }

    pub(crate) fn start_as(user: &str, group: &str, socket: Option<&Path>) -> Self {
        let mut command = run_as(user, group, &installed("mcp-bridge"));
        if let Some(socket) = socket {
            command.arg("--socket").arg(socket);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut bridge = Self {
            input: child.stdin.take(),
            child,
            lines,
            early: HashMap::new(),
            last_id: 0,
            transcript: String::new(),
        };
        let hello = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": { "name": "e2e", "version": "1" },
        });
        let id = bridge.send("initialize", &hello);
        assert_eq!(bridge.wait(id)["serverInfo"]["name"], "agent-sandbox");
        bridge.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        bridge
    }

    /// The pods of `namespace`.
    pub(crate) fn pods(&mut self, namespace: &str) -> Answer {
        self.call("k8s_get_pod_status", json!({ "namespace": namespace }))
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Answer {
        let id = self.begin(tool, arguments);
        self.answer(id)
    }

    /// Sends a call; [`Self::answer`] and [`Self::next_answer`] give what it comes to.
    #[expect(clippy::needless_pass_by_value, reason = "`json!` where it is called")]
    pub(crate) fn begin(&mut self, tool: &str, arguments: Value) -> u64 {
        self.send(
            "tools/call",
            &json!({ "name": tool, "arguments": arguments }),
        )
    }

    pub(crate) fn answer(&mut self, id: u64) -> Answer {
        let result = self.wait(id);
        Answer { result }
    }

    /// Whichever call is answered next.
    pub(crate) fn next_answer(&mut self) -> (u64, Answer) {
        let early = self.early.keys().next().copied();
        let early = early.and_then(|id| self.early.remove_entry(&id));
        let (id, result) = early.unwrap_or_else(|| self.read());
        (id, Answer { result })
    }

    /// What a call comes to that is answered before its work is over: asked for until it is.
    pub(crate) fn end_of(&mut self, answer: Answer) -> Answer {
        let mut answer = answer;
        let begun = Instant::now();
        while answer.field("outcome") == "running" {
            assert!(
                begun.elapsed() < Duration::from_mins(4),
                "{}",
                answer.text()
            );
            let ask = json!({ "request_id": answer.request_id(), "wait_seconds": 40 });
            answer = self.call("get_request", ask).of_the_request();
        }
        answer
    }

    /// As a client that crashes.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn send(&mut self, method: &str, params: &Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.write(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    fn write(&mut self, message: &Value) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{message}").unwrap();
        input.flush().unwrap();
    }

    fn wait(&mut self, id: u64) -> Value {
        loop {
            if let Some(result) = self.early.remove(&id) {
                return result;
            }
            let (other, result) = self.read();
            self.early.insert(other, result);
        }
    }

    fn read(&mut self) -> (u64, Value) {
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            let line = line.expect("an answer of the bridge in time");
            self.transcript.push_str(&line);
            self.transcript.push('\n');
            let message: Value = serde_json::from_str(&line).unwrap();
            if let Some(id) = message["id"].as_u64() {
                assert!(message["error"].is_null(), "a protocol error: {message}");
                return (id, message["result"].clone());
            }
        }
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        // The end of its input is the end of it, once what is in flight was answered.
        self.input = None;
        if thread::panicking() {
            drop(self.child.kill());
        }
        drop(self.child.wait());
    }
}

impl Answer {
    /// From an answer of `get_request`, that of the call it is about.
    fn of_the_request(mut self) -> Self {
        if let Some(result) = self.structured()["result_json"].as_str() {
            self.result["structuredContent"] = serde_json::from_str(result).unwrap();
        }
        if !self.code().is_empty() {
            self.result["isError"] = true.into();
        }
        self
    }

    pub(crate) fn structured(&self) -> &Value {
        &self.result["structuredContent"]
    }

    pub(crate) fn text(&self) -> &str {
        self.result["content"][0]["text"].as_str().unwrap()
    }

    pub(crate) fn is_error(&self) -> bool {
        self.result["isError"] == true
    }

    /// The code of a failure; empty for a success.
    pub(crate) fn code(&self) -> &str {
        self.field("code")
    }

    pub(crate) fn message(&self) -> &str {
        self.field("message")
    }

    pub(crate) fn request_id(&self) -> &str {
        self.field("request_id")
    }

    pub(crate) fn field(&self, name: &str) -> &str {
        self.structured()[name].as_str().unwrap_or_default()
    }

    /// Of a call that worked, the names of the pods.
    pub(crate) fn pod_names(&self) -> Vec<String> {
        assert!(!self.is_error(), "{}", self.text());
        assert_eq!(self.field("outcome"), "finished", "{}", self.text());
        let pods = self.structured()["pods"].as_array().unwrap();
        let names = pods.iter().map(|pod| pod["name"].as_str().unwrap());
        names.map(str::to_owned).collect()
    }

    /// Of a call that did not work: its code, the words its message must have, and that it says what to do.
    pub(crate) fn assert_refused(&self, code: &str, words: &str) {
        assert!(self.is_error(), "it worked: {}", self.text());
        assert_eq!(self.code(), code, "{}", self.text());
        assert!(self.message().contains(words), "{}", self.text());
        assert!(!self.field("next").is_empty(), "{}", self.text());
        assert!(self.text().contains(self.message()), "{}", self.text());
    }
}
