//! Tool calls: each followed from `Invoke` to its answer.
//!
//! Every call is answered within a set time, because clients give up after about a minute: with its
//! result, or with `running` and the id to ask for. The daemon goes on in any case; only a
//! `CancelRequest` by id ends a request early, never the loss of the stream.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use sandbox_proto::agent::v1::InvokeEvent;
use sandbox_proto::agent::v1::invoke_event::Event;
use serde_json::value::RawValue;
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;

use crate::catalog::Catalog;
use crate::daemon::{Daemon, Invocation};
use crate::log::Log;
use crate::message::Id;
use crate::outcome::ToolResult;
use crate::refusal::{self, Refusal};
use crate::reply::Reply;
use crate::stdio::Outbox;
use crate::version::Era;

mod progress;
mod under_way;

use progress::ProgressReport;
use under_way::{Entry, UnderWay};

/// Calls under way at once. Each may hold a result; the daemon's own limits are far lower.
const MAX_CALLS: usize = 32;

/// How long a cancelled call is followed to learn the request id that `CancelRequest` needs.
const CANCEL_PATIENCE: Duration = Duration::from_secs(5);

/// What a client asked for in one `tools/call`.
#[derive(Debug)]
pub(crate) struct ToolCall {
    pub invocation: Invocation,
    /// JSON text; progress is told only to a client that gave one.
    pub progress_token: Option<Box<RawValue>>,
    pub era: Era,
}

/// What calls work with.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub daemon: Daemon,
    pub catalog: Catalog,
    pub outbox: Outbox,
    pub log: Arc<Log>,
    /// How long a call may take before it is answered with `running`.
    pub answer_within: Duration,
}

/// The calls under way. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Calls {
    parts: Parts,
    room: Arc<Semaphore>,
    under_way: UnderWay,
}

impl Calls {
    /// No calls yet.
    pub fn new(parts: Parts) -> Self {
        Self {
            parts,
            room: Arc::new(Semaphore::new(MAX_CALLS)),
            under_way: UnderWay::default(),
        }
    }

    /// Starts a call as one of `tasks`, or refuses it if too many are under way.
    pub async fn start(&self, call: ToolCall, reply: Reply, tasks: &TaskTracker) {
        let Ok(room) = Arc::clone(&self.room).try_acquire_owned() else {
            return reply
                .result(&ToolResult::refused(&too_many()).in_era(call.era))
                .await;
        };
        // Entered here and not in the task: a cancellation may be the very next line.
        let entry = self.under_way.enter(reply.id().clone());
        let calls = self.clone();
        tasks.spawn(async move {
            let _room = room;
            calls.run(call, reply, entry).await;
        });
    }

    /// Ends the call with this id early, if it is still under way.
    pub fn cancel(&self, id: &Id) {
        self.under_way.cancel(id);
    }

    async fn run(self, call: ToolCall, reply: Reply, entry: Entry) {
        let era = call.era;
        let (accepted, request_id) = watch::channel(None);
        let mut answer = pin!(self.answer(call, &accepted, &entry));
        tokio::select! {
            result = &mut answer => reply.result(&result.in_era(era)).await,
            () = entry.cancelled() => {
                reply.withdraw();
                self.end_early(answer, request_id).await;
            }
        }
    }

    async fn answer(
        &self,
        call: ToolCall,
        accepted: &watch::Sender<Option<String>>,
        entry: &Entry,
    ) -> ToolResult {
        if let Some(mismatch) = self.parts.catalog.mismatch() {
            return ToolResult::refused(&mismatch);
        }
        match timeout(self.parts.answer_within, self.follow(call, accepted, entry)).await {
            Ok(result) => result,
            Err(_) => match accepted.borrow().as_deref() {
                Some(request_id) => ToolResult::running(request_id),
                None => ToolResult::refused(&Refusal::silent(
                    self.parts.daemon.access(),
                    self.parts.answer_within,
                )),
            },
        }
    }

    /// Follows the request to its end, however long that takes.
    async fn follow(
        &self,
        call: ToolCall,
        accepted: &watch::Sender<Option<String>>,
        entry: &Entry,
    ) -> ToolResult {
        let mut report = call
            .progress_token
            .map(|token| ProgressReport::new(token, &self.parts.outbox));
        let mut events = match self.parts.daemon.invoke(call.invocation).await {
            Ok(events) => events,
            Err(status) => {
                return ToolResult::refused(&Refusal::of_status(
                    &status,
                    self.parts.daemon.access(),
                ));
            }
        };
        let end = loop {
            match events.message().await {
                Ok(Some(InvokeEvent {
                    event: Some(Event::Finished(finished)),
                })) => {
                    return ToolResult::finished(finished);
                }
                Ok(Some(InvokeEvent {
                    event: Some(Event::Accepted(event)),
                })) => {
                    accepted.send_replace(Some(event.request_id));
                }
                Ok(Some(InvokeEvent {
                    event: Some(Event::Progress(progress)),
                })) => {
                    // Nothing more is said about a call once its client has cancelled it.
                    if let Some(report) = report.as_mut().filter(|_| !entry.is_cancelled()) {
                        report.tell(&progress);
                    }
                }
                // An event of a newer daemon.
                Ok(Some(InvokeEvent { event: None })) => {}
                Ok(None) => break None,
                Err(status) => break Some(status),
            }
        };
        let access = self.parts.daemon.access();
        match (accepted.borrow().as_deref(), end) {
            (Some(request_id), end) => {
                ToolResult::lost(request_id, &Refusal::of_lost_stream(end.as_ref(), access))
            }
            (None, Some(status)) => ToolResult::refused(&Refusal::of_status(&status, access)),
            (None, None) => ToolResult::refused(&Refusal::new(
                refusal::DAEMON_FAULT,
                "sandboxd ended the call without taking or refusing it.",
                "Ask the operator to look at sandboxd's log.",
            )),
        }
    }

    /// Has the daemon end a request whose client has cancelled it, once its id is known.
    async fn end_early(
        &self,
        answer: Pin<&mut impl Future<Output = ToolResult>>,
        mut request_id: watch::Receiver<Option<String>>,
    ) {
        let known = async {
            request_id
                .wait_for(Option::is_some)
                .await
                .ok()
                .and_then(|request_id| request_id.clone())
        };
        let request_id = tokio::select! {
            request_id = known => request_id,
            // It has ended by itself, or was never taken.
            _ = answer => None,
            () = sleep(CANCEL_PATIENCE) => None,
        };
        let Some(request_id) = request_id else { return };
        if let Err(refusal) = self.parts.daemon.cancel(request_id.clone()).await {
            self.parts.log.note(&format!(
                "request {request_id} could not be cancelled: {refusal}"
            ));
        }
    }
}

fn too_many() -> Refusal {
    Refusal::new(
        refusal::TOO_MANY_CALLS,
        format!(
            "{MAX_CALLS} calls of this client are under way, and the bridge takes no more at once."
        ),
        "Wait for one of them to be answered, then call again.",
    )
}
