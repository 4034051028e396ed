//! The tools the client is shown, kept in step with the daemon.
//!
//! One task asks the daemon: at the start, when the connection has ended, when a client lists tools,
//! and now and then, because an operator may change the policy of a running daemon. While the daemon
//! is away the last known list stands, from this process or from an earlier one.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::Tool;
use sandbox_proto::agent::v1::ListActionsResponse;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;

use crate::cache::Cache;
use crate::daemon::Daemon;
use crate::lifetime::Lifetime;
use crate::log::Log;
use crate::refusal::{
    DAEMON_NOT_RUNNING, DAEMON_SILENT, DAEMON_UNREACHABLE, PROTOCOL_MISMATCH, Refusal,
};
use crate::tools;

/// How soon a daemon that is away is tried again; doubles up to [`SLOWEST_RETRY`].
const FIRST_RETRY: Duration = Duration::from_millis(200);
const SLOWEST_RETRY: Duration = Duration::from_secs(2);

/// How soon after a refusal that only a person can lift. The daemon audits each one.
const RETRY_REFUSED: Duration = Duration::from_secs(30);

/// How often a daemon that is there is asked again.
const LOOK_AGAIN: Duration = Duration::from_mins(1);

/// How long `tools/list` waits for fresh news before it answers with what is known.
const LIST_PATIENCE: Duration = Duration::from_millis(2500);

/// How long a slow disk may keep the daemon from being asked.
const CACHE_PATIENCE: Duration = Duration::from_millis(500);

/// All of `tools/list` should fit this; models pay for it in every conversation.
const MAX_LIST_BYTES: usize = 6000;

/// What is known of the daemon's tools. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Catalog {
    known: watch::Receiver<Known>,
    changes: watch::Receiver<u64>,
    ask: watch::Sender<()>,
}

#[derive(Clone, Debug, Default)]
struct Known {
    /// How often the daemon has been asked, and which of these questions has come to an end last,
    /// with or without an answer.
    asked: u64,
    ended: u64,
    tools: Arc<Vec<Tool>>,
    /// Why the daemon could not be asked last time.
    away: Option<Refusal>,
}

impl Catalog {
    /// A catalog that knows nothing yet, and is kept until the end of `lifetime`.
    pub fn start(daemon: Daemon, cache: Option<Cache>, log: Arc<Log>, lifetime: &Lifetime) -> Self {
        let (known, known_rx) = watch::channel(Known::default());
        let (changes, changes_rx) = watch::channel(0);
        let (ask, asks) = watch::channel(());
        let tasks = lifetime.tasks.clone();
        let keeper = Keeper {
            daemon,
            cache,
            log,
            known,
            changes,
            asks,
            tasks,
            stored: None,
        };
        let stop = lifetime.stop.clone();
        lifetime
            .tasks
            .spawn(stop.run_until_cancelled_owned(keeper.keep()));
        Self {
            known: known_rx,
            changes: changes_rx,
            ask,
        }
    }

    /// The tools as of now: the daemon is asked, and if it does not answer soon, the last known list.
    pub async fn tools(&self) -> Arc<Vec<Tool>> {
        let mut known = self.known.clone();
        // An answer to a question that was asked before may be older than this one.
        let asked = known.borrow_and_update().asked;
        self.ask.send_replace(());
        // Past the limit, or without a keeper, what is known is the answer.
        drop(timeout(LIST_PATIENCE, known.wait_for(|known| known.ended > asked)).await);
        self.last_known()
    }

    /// The tools as they were known last.
    pub fn last_known(&self) -> Arc<Vec<Tool>> {
        Arc::clone(&self.known.borrow().tools)
    }

    /// Counts how often the list has really changed; the first list counts as a change.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }

    /// Why no call can work at all, if the daemon speaks another version.
    pub fn mismatch(&self) -> Option<Refusal> {
        self.known
            .borrow()
            .away
            .clone()
            .filter(|refusal| refusal.code == PROTOCOL_MISMATCH)
    }
}

/// The task's side of a [`Catalog`].
struct Keeper {
    daemon: Daemon,
    cache: Option<Cache>,
    log: Arc<Log>,
    known: watch::Sender<Known>,
    changes: watch::Sender<u64>,
    asks: watch::Receiver<()>,
    tasks: TaskTracker,
    /// What the cache file holds.
    stored: Option<ListActionsResponse>,
}

impl Keeper {
    async fn keep(mut self) {
        self.recall().await;
        let mut retry = FIRST_RETRY;
        loop {
            // Whoever has asked until now is served by this question.
            self.asks.mark_unchanged();
            self.known.send_modify(|known| known.asked += 1);
            match self.daemon.list_actions().await {
                Ok(list) => {
                    retry = FIRST_RETRY;
                    self.learn(list);
                    tokio::select! {
                        () = self.daemon.disconnected() => {}
                        Ok(()) = self.asks.changed() => {}
                        () = sleep(LOOK_AGAIN) => {}
                    }
                }
                Err(refusal) => {
                    let wait = if is_transient(&refusal) {
                        retry
                    } else {
                        RETRY_REFUSED
                    };
                    self.miss(refusal);
                    tokio::select! {
                        () = self.daemon.disconnected(), if self.daemon.is_connected() => {}
                        Ok(()) = self.asks.changed() => {}
                        () = sleep(wait) => {}
                    }
                    retry = SLOWEST_RETRY.min(retry * 2);
                }
            }
        }
    }

    /// Starts from the list an earlier bridge has stored.
    async fn recall(&mut self) {
        let Some(cache) = self.cache.clone() else {
            return;
        };
        // A home on a network file system may hang; neither `ping` nor the daemon waits for it.
        let load = spawn_blocking(move || cache.load());
        if let Ok(Ok(Some(list))) = timeout(CACHE_PATIENCE, load).await {
            self.show(list.clone());
            self.stored = Some(list);
        }
    }

    fn learn(&mut self, list: ListActionsResponse) {
        let version = list.daemon_version.clone();
        self.show(list.clone());
        let was_away = self.known.borrow().away.is_some();
        self.known.send_modify(|known| {
            known.ended = known.asked;
            known.away = None;
        });
        if was_away {
            self.log.note(&format!(
                "connected to sandboxd {version} as {}",
                self.daemon.access()
            ));
        }
        self.store(list);
    }

    fn miss(&self, refusal: Refusal) {
        if self.known.borrow().away.as_ref() != Some(&refusal) {
            let text = refusal.to_string();
            if is_transient(&refusal) {
                self.log.note(&text);
            } else {
                self.log.warn(&text);
            }
        }
        self.known.send_modify(|known| {
            known.ended = known.asked;
            known.away = Some(refusal);
        });
    }

    /// Puts a list in place of the one known, if they differ.
    fn show(&self, list: ListActionsResponse) {
        let (tools, faults) = tools::from_actions(list.actions);
        if *self.known.borrow().tools == tools {
            return;
        }
        for fault in faults {
            self.log.warn(&fault);
        }
        let bytes = serde_json::to_vec(&tools).map_or(0, |json| json.len());
        if bytes > MAX_LIST_BYTES {
            self.log.note(&format!(
                "the list of tools has {bytes} bytes, more than {MAX_LIST_BYTES}"
            ));
        }
        self.known
            .send_modify(|known| known.tools = Arc::new(tools));
        self.changes.send_modify(|count| *count += 1);
    }

    /// Keeps the list for a later bridge; a task of its own, so that nobody waits for a slow disk.
    fn store(&mut self, list: ListActionsResponse) {
        let Some(cache) = self
            .cache
            .clone()
            .filter(|_| self.stored.as_ref() != Some(&list))
        else {
            return;
        };
        self.stored = Some(list.clone());
        let log = Arc::clone(&self.log);
        self.tasks.spawn_blocking(move || {
            if let Err(error) = cache.store(&list) {
                log.note(&format!(
                    "the list of tools could not be kept for later: {error}"
                ));
            }
        });
    }
}

/// A daemon that is not there yet will be; every other refusal needs a person.
fn is_transient(refusal: &Refusal) -> bool {
    [DAEMON_NOT_RUNNING, DAEMON_UNREACHABLE, DAEMON_SILENT].contains(&refusal.code.as_str())
}
