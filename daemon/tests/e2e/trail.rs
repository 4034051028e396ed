//! The audit trail of a daemon: through `approver`, as a human reads it, and as the file grows.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::places::{APPROVER, installed, run_as};
use crate::wait::until;

#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) request: String,
    pub(crate) name: String,
    pub(crate) fields: Value,
}

/// One daemon, as an approver reaches it.
#[derive(Clone, Debug)]
pub(crate) struct Trail {
    pub(crate) file: PathBuf,
    pub(crate) socket: PathBuf,
    /// As which user: a name or a uid.
    pub(crate) approver: String,
    /// Where this approver keeps the checkpoints it saw: another daemon's would be an alarm.
    pub(crate) approver_home: PathBuf,
}

/// A place in the file; what comes after it is new.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark(u64);

impl Event {
    fn parse(line: &str) -> Self {
        let event: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        Self {
            request: text("request_id"),
            name: text("event"),
            fields: event["fields"].clone(),
        }
    }

    pub(crate) fn text(&self, field: &str) -> &str {
        self.fields[field].as_str().unwrap_or_default()
    }
}

impl Trail {
    pub(crate) fn of_the_installed() -> Self {
        Self {
            file: "/var/lib/sandboxd/audit.jsonl".into(),
            socket: "/run/sandboxd/approver/approver.sock".into(),
            approver: APPROVER.to_owned(),
            approver_home: crate::places::home().join("home").join(APPROVER),
        }
    }

    /// stdout of `approver ARGS`, once it exits with 0.
    pub(crate) fn approver(&self, args: &[&str]) -> Result<String, String> {
        let mut command = run_as(&self.approver, APPROVER, &installed("approver"));
        command.env("HOME", &self.approver_home);
        let out = command
            .arg("--socket")
            .arg(&self.socket)
            .args(args)
            .output();
        let out = out.unwrap();
        if out.status.success() {
            Ok(String::from_utf8(out.stdout).unwrap())
        } else {
            Err(String::from_utf8_lossy(&out.stderr).into_owned())
        }
    }

    /// How the daemon says it is, well or not.
    pub(crate) fn status(&self) -> Value {
        let mut command = run_as(&self.approver, APPROVER, &installed("approver"));
        command.env("HOME", &self.approver_home);
        command.arg("--socket").arg(&self.socket);
        let out = command.args(["status", "--json"]).output().unwrap();
        serde_json::from_slice(&out.stdout).unwrap_or(Value::Null)
    }

    /// The stored lines of one request.
    pub(crate) fn lines(&self, request: &str) -> String {
        self.approver(&["audit", "--request-id", request, "--json"])
            .unwrap()
    }

    pub(crate) fn of(&self, request: &str) -> Vec<Event> {
        self.lines(request).lines().map(Event::parse).collect()
    }

    /// The events of `request` once `name` is one of them.
    pub(crate) fn of_once(&self, request: &str, name: &str) -> Vec<Event> {
        until(
            &format!("{name} of {request}"),
            Duration::from_mins(1),
            || {
                let events = self.of(request);
                events
                    .iter()
                    .any(|event| event.name == name)
                    .then_some(events)
            },
        )
    }

    /// Has the daemon and `approver` check all of it.
    pub(crate) fn assert_whole(&self) {
        let verdict = self.approver(&["audit", "--verify"]);
        assert!(verdict.is_ok(), "{verdict:?}");
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark(fs::metadata(&self.file).unwrap().len())
    }

    /// What came after `mark`, whole lines only.
    pub(crate) fn since(&self, mark: Mark) -> Vec<Event> {
        let mut file = File::open(&self.file).unwrap();
        file.seek(SeekFrom::Start(mark.0)).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(Event::parse).collect()
    }

    /// The first event after `mark` that is wanted, within a minute.
    pub(crate) fn wait_for(
        &self,
        mark: Mark,
        what: &str,
        wanted: impl Fn(&Event) -> bool,
    ) -> Event {
        let limit = Duration::from_mins(1);
        until(what, limit, || self.since(mark).into_iter().find(&wanted))
    }

    /// As [`Self::wait_for`], and as soon as it can be known.
    pub(crate) fn catch(&self, mark: Mark, wanted: impl Fn(&Event) -> bool) -> Option<Event> {
        let end = Instant::now() + Duration::from_secs(30);
        while Instant::now() < end {
            if self.mark().0 != mark.0
                && let Some(found) = self.since(mark).into_iter().find(&wanted)
            {
                return Some(found);
            }
            thread::sleep(Duration::from_micros(200));
        }
        None
    }
}

/// Their names, in order.
pub(crate) fn names(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.name.as_str()).collect()
}

/// The one event of that name.
pub(crate) fn only<'a>(events: &'a [Event], name: &str) -> &'a Event {
    let mut found = events.iter().filter(|event| event.name == name);
    let event = found.next();
    let event = event.unwrap_or_else(|| panic!("no {name} in {:?}", names(events)));
    assert!(found.next().is_none(), "two of {name}: {events:?}");
    event
}
