//! What the bridge says to people: on standard error, little by default.
//!
//! Clients may never read standard error, and a full pipe blocks its writer. So a thread of its own
//! writes, and when it lags behind, messages are dropped.

use std::io::Write;
use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use crate::escape;

/// Messages that may wait for standard error.
const MAX_WAITING: usize = 64;

/// The way to standard error.
#[derive(Debug)]
pub(crate) struct Log {
    verbose: bool,
    /// The thread is started by the first message; most runs have none.
    writer: OnceLock<Option<SyncSender<Entry>>>,
}

#[derive(Debug)]
enum Entry {
    Text(String),
    Flush(SyncSender<()>),
}

impl Log {
    /// A log that also tells what [`Log::note`] is given, if `verbose`.
    pub fn new(verbose: bool) -> Self {
        Self {
            verbose,
            writer: OnceLock::new(),
        }
    }

    /// Says something a person has to act on.
    pub fn warn(&self, text: &str) {
        self.put(Entry::Text(format!(
            "mcp-bridge: {}\n",
            escape::for_reader(text)
        )));
    }

    /// Says something that only explains.
    pub fn note(&self, text: &str) {
        if self.verbose {
            self.warn(text);
        }
    }

    /// Waits until what was said is written, or `limit` has passed.
    pub fn flush(&self, limit: Duration) {
        if self.writer.get().is_some() {
            let (done, written) = sync_channel(1);
            self.put(Entry::Flush(done));
            // Late or not at all: we are about to exit either way.
            written.recv_timeout(limit).unwrap_or_default();
        }
    }

    fn put(&self, entry: Entry) {
        if let Some(writer) = self.writer.get_or_init(start) {
            // Full means that nobody reads.
            writer.try_send(entry).unwrap_or_default();
        }
    }
}

fn start() -> Option<SyncSender<Entry>> {
    let (entries, waiting) = sync_channel(MAX_WAITING);
    let write = move || {
        for entry in waiting {
            match entry {
                // A closed standard error is the client's choice.
                Entry::Text(text) => std::io::stderr()
                    .write_all(text.as_bytes())
                    .unwrap_or_default(),
                Entry::Flush(done) => done.send(()).unwrap_or_default(),
            }
        }
    };
    std::thread::Builder::new()
        .name("stderr".to_owned())
        .spawn(write)
        .ok()
        .map(|_| entries)
}
