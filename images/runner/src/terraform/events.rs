//! What Terraform says with `-json`: one JSON object a line. Operations and diagnostics are kept; the
//! rest, values of outputs among it, is passed over.

use std::collections::HashMap;

use sandbox_proto::runner::v1::{Diagnostic, Operation, operation::State};
use serde::Deserialize;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use crate::text::clip;

/// A longer line is passed over: none that matters is.
const MAX_LINE_BYTES: usize = 1024 * 1024;
/// Together they fit a frame: see the sizes below.
const MAX_OPERATIONS: usize = 1_000;
const MAX_DIAGNOSTICS: usize = 100;
const MAX_ADDRESS_BYTES: usize = 1024;
const MAX_SUMMARY_BYTES: usize = 1024;
const MAX_DETAIL_BYTES: usize = 8 * 1024;

/// What was said so far.
#[derive(Default)]
pub struct Events {
    line: Vec<u8>,
    overlong: bool,
    version: String,
    operations: Vec<Operation>,
    running: HashMap<(String, String), (usize, Instant)>,
    diagnostics: Vec<Diagnostic>,
    left_out: usize,
    news: Option<UnboundedSender<Operation>>,
}

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    terraform: Option<String>,
    hook: Option<Hook>,
    diagnostic: Option<Said>,
}

#[derive(Deserialize)]
struct Hook {
    resource: Resource,
    action: String,
}

#[derive(Deserialize)]
struct Resource {
    addr: String,
}

#[derive(Deserialize)]
struct Said {
    severity: String,
    summary: String,
    #[serde(default)]
    detail: String,
    #[serde(default)]
    address: String,
    range: Option<Range>,
}

#[derive(Deserialize)]
struct Range {
    filename: String,
    start: Start,
}

#[derive(Deserialize)]
struct Start {
    line: u32,
}

impl Events {
    /// Also tells `news` of each operation as it begins and ends: a result never comes from a pod that is lost.
    pub fn tell(&mut self, news: UnboundedSender<Operation>) {
        self.news = Some(news);
    }

    /// Takes what came next on Terraform's stdout.
    pub fn take(&mut self, bytes: &[u8]) {
        let mut lines = bytes.split(|&byte| byte == b'\n').peekable();
        while let Some(part) = lines.next() {
            if self.line.len() + part.len() > MAX_LINE_BYTES {
                self.overlong = true;
                self.line.clear();
            }
            if !self.overlong {
                self.line.extend_from_slice(part);
            }
            if lines.peek().is_some() {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.overlong) {
            return;
        }
        if let Ok(line) = serde_json::from_slice::<Line>(&line) {
            self.read(line);
        }
    }

    fn read(&mut self, line: Line) {
        match (line.kind.as_str(), line.hook, line.diagnostic) {
            ("version", _, _) => self.version = clip(&line.terraform.unwrap_or_default(), 64),
            ("apply_start", Some(hook), _) => self.begin(hook),
            ("apply_complete", Some(hook), _) => self.end(hook, State::Applied),
            ("apply_errored", Some(hook), _) => self.end(hook, State::Failed),
            ("diagnostic", _, Some(said)) => self.diagnose(said),
            _ => {}
        }
    }

    fn begin(&mut self, hook: Hook) {
        if self.operations.len() == MAX_OPERATIONS {
            self.left_out += 1;
            return;
        }
        self.operations.push(Operation {
            address: clip(&hook.resource.addr, MAX_ADDRESS_BYTES),
            action: clip(&hook.action, 32),
            state: State::Started.into(),
            elapsed_ms: 0,
        });
        self.tell_of(self.operations.len() - 1);
        let began = (self.operations.len() - 1, Instant::now());
        self.running
            .insert((hook.resource.addr, hook.action), began);
    }

    fn end(&mut self, hook: Hook, state: State) {
        let Some((at, began)) = self.running.remove(&(hook.resource.addr, hook.action)) else {
            return;
        };
        let operation = &mut self.operations[at];
        operation.state = state.into();
        let elapsed = began.elapsed().as_millis();
        operation.elapsed_ms = u32::try_from(elapsed).unwrap_or(u32::MAX);
        self.tell_of(at);
    }

    fn tell_of(&self, at: usize) {
        if let Some(news) = &self.news {
            // Nobody listens any more once the run is over.
            news.send(self.operations[at].clone()).ok();
        }
    }

    fn diagnose(&mut self, said: Said) {
        // How the state is handed over is ours, and no news to anyone.
        if said.severity == "warning" && said.summary == "Deprecated flag: -state" {
            return;
        }
        let (file, line) = match said.range {
            Some(range) => (range.filename, range.start.line),
            None => (String::new(), 0),
        };
        self.add(Diagnostic {
            error: said.severity == "error",
            summary: clip(&said.summary, MAX_SUMMARY_BYTES),
            detail: clip(&said.detail, MAX_DETAIL_BYTES),
            file: clip(&file, MAX_ADDRESS_BYTES),
            line,
            address: clip(&said.address, MAX_ADDRESS_BYTES),
        });
    }

    /// Adds an error that Terraform did not say as JSON.
    pub fn add_error(&mut self, summary: &str, detail: &str) {
        self.add(Diagnostic {
            error: true,
            summary: clip(summary, MAX_SUMMARY_BYTES),
            detail: clip(detail, MAX_DETAIL_BYTES),
            ..Diagnostic::default()
        });
    }

    /// Errors are kept before warnings when there are too many.
    fn add(&mut self, diagnostic: Diagnostic) {
        if self.diagnostics.len() < MAX_DIAGNOSTICS {
            self.diagnostics.push(diagnostic);
            return;
        }
        self.left_out += 1;
        let warning = self.diagnostics.iter_mut().find(|other| !other.error);
        if let (true, Some(warning)) = (diagnostic.error, warning) {
            *warning = diagnostic;
        }
    }

    /// Whether Terraform named an error.
    #[must_use]
    pub fn has_error(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.error)
    }

    /// Whether an operation has begun.
    #[must_use]
    pub fn has_operation(&self) -> bool {
        !self.operations.is_empty()
    }

    /// Operations, diagnostics, and the version of Terraform.
    #[must_use]
    pub fn finish(mut self) -> (Vec<Operation>, Vec<Diagnostic>, String) {
        if self.left_out > 0 {
            let summary = format!(
                "{} more operations and messages are not told",
                self.left_out
            );
            self.diagnostics.push(Diagnostic {
                summary,
                ..Diagnostic::default()
            });
        }
        (self.operations, self.diagnostics, self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = r#"{"@level":"info","@message":"Terraform 1.11.4","terraform":"1.11.4","type":"version","ui":"1.2"}
{"@level":"info","hook":{"resource":{"addr":"terraform_data.a","module":"","resource":"terraform_data.a"},"action":"delete","id_key":"id"},"type":"apply_start"}
{"@level":"info","hook":{"resource":{"addr":"terraform_data.a"},"action":"delete","elapsed_seconds":0},"type":"apply_complete"}
{"@level":"info","hook":{"resource":{"addr":"terraform_data.a"},"action":"create"},"type":"apply_start"}
{"@level":"info","hook":{"resource":{"addr":"terraform_data.b"},"action":"update"},"type":"apply_start"}
{"@level":"info","hook":{"resource":{"addr":"terraform_data.a"},"action":"create","elapsed_seconds":1},"type":"apply_errored"}
not json
{"@level":"error","type":"diagnostic","diagnostic":{"severity":"error","summary":"No","detail":"Because.","address":"terraform_data.a","range":{"filename":"main.tf","start":{"line":7,"column":1,"byte":9},"end":{"line":7,"column":2,"byte":10}}}}
{"type":"outputs","outputs":{"secret":{"value":"canary"}}}
"#;

    fn read(stream: &[u8], size: usize) -> Events {
        let mut events = Events::default();
        for piece in stream.chunks(size) {
            events.take(piece);
        }
        events
    }

    #[test]
    fn operations_and_diagnostics_are_read_in_any_pieces() {
        for size in [1, 7, STREAM.len()] {
            let events = read(STREAM.as_bytes(), size);
            assert!(events.has_error());
            let (operations, diagnostics, version) = events.finish();
            assert_eq!(version, "1.11.4");
            let told: Vec<_> = operations
                .iter()
                .map(|o| (o.address.as_str(), o.action.as_str(), o.state()))
                .collect();
            assert_eq!(
                told,
                [
                    ("terraform_data.a", "delete", State::Applied),
                    ("terraform_data.a", "create", State::Failed),
                    ("terraform_data.b", "update", State::Started),
                ]
            );
            let [said] = diagnostics.as_slice() else {
                panic!("{diagnostics:?}");
            };
            assert_eq!((said.file.as_str(), said.line), ("main.tf", 7));
            assert_eq!(
                (said.summary.as_str(), said.detail.as_str()),
                ("No", "Because.")
            );
            assert!(!format!("{diagnostics:?}{operations:?}").contains("canary"));
        }
    }

    #[test]
    fn a_line_without_end_is_passed_over_and_what_follows_is_read() {
        let mut stream = vec![b'x'; 3 * MAX_LINE_BYTES];
        stream.push(b'\n');
        stream.extend_from_slice(STREAM.as_bytes());
        let events = read(&stream, 64 * 1024);
        assert_eq!(events.operations.len(), 3);
        assert!(events.line.capacity() <= 2 * MAX_LINE_BYTES);
    }

    #[test]
    fn too_many_messages_keep_the_errors_and_say_that_some_are_missing() {
        let mut events = Events::default();
        for n in 0..2 * MAX_DIAGNOSTICS {
            let severity = if n < MAX_DIAGNOSTICS {
                "warning"
            } else {
                "error"
            };
            events.take(
                format!("{{\"type\":\"diagnostic\",\"diagnostic\":{{\"severity\":\"{severity}\",\"summary\":\"{n}\"}}}}\n")
                    .as_bytes(),
            );
        }
        let (_, diagnostics, _) = events.finish();
        assert_eq!(diagnostics.len(), MAX_DIAGNOSTICS + 1);
        assert!(diagnostics[..MAX_DIAGNOSTICS].iter().all(|said| said.error));
        assert_eq!(
            diagnostics[MAX_DIAGNOSTICS].summary,
            "100 more operations and messages are not told"
        );
    }
}
