//! The thread that owns the trail's file.
//!
//! It takes what has queued up while it waited for the disk, writes it in one piece, waits once, and
//! answers everyone.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use sandbox_core::audit::{Checkpoint, Draft, Head, Seq, UtcMillis};
use sandbox_core::ids::RequestId;
use tokio::runtime;
use tokio::sync::{mpsc, oneshot};

use super::error::AuditError;
use super::file::{AppendError, TrailFile};
use super::folder::Folder;
use super::key::Signer;
use super::view::View;
use crate::clock::Clock;

/// What one write takes at most, so that nobody's memory or patience depends on how many wait.
const BATCH_EVENTS: usize = 1024;
const BATCH_BYTES: u64 = 1024 * 1024;
/// No checkpoint's line is longer.
const CHECKPOINT_BYTES: u64 = 1024;

type Reply<T> = oneshot::Sender<Result<T, AuditError>>;
/// The answer to [`Message::Close`], kept until the folder is given back.
type Closing = (
    Reply<Option<Checkpoint>>,
    Result<Option<Checkpoint>, AuditError>,
);

/// What the writer can be asked.
#[derive(Debug)]
pub(super) enum Message {
    /// Write an event.
    Append { draft: Draft, reply: Reply<Seq> },
    /// Sign how far the trail has come.
    Checkpoint { reply: Reply<Option<Checkpoint>> },
    /// Sign the end and go.
    Close { reply: Reply<Option<Checkpoint>> },
}

/// The owner of the trail.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) file: TrailFile,
    pub(super) signer: Signer,
    pub(super) clock: Clock,
    pub(super) view: Arc<View>,
    pub(super) head: Head,
    pub(super) newest: Option<Checkpoint>,
    pub(super) checkpoint_every: u64,
    pub(super) checkpoint_idle: Duration,
    /// Held for as long as anything may be written.
    pub(super) _folder: Folder,
}

/// An event that waits to be durable.
#[derive(Debug)]
struct Waiting {
    draft: Draft,
    reply: Reply<Seq>,
}

/// What came out of the queue at once.
#[derive(Default)]
struct Batch {
    events: Vec<Waiting>,
    bytes: u64,
    /// What was asked after them.
    then: Option<Control>,
}

enum Control {
    Checkpoint(Reply<Option<Checkpoint>>),
    Close(Reply<Option<Checkpoint>>),
}

enum Woken {
    By(Message),
    Idle,
    Abandoned,
}

/// What may be written just now.
enum Gate {
    Open,
    /// Events that end work. Others are answered with this.
    EndsOnly(AuditError),
    /// Nothing.
    Shut(AuditError),
}

/// Whether a checkpoint is worth the space that is held back for ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Reserve {
    Leave,
    Use,
}

impl Writer {
    pub(super) fn view(&self) -> Arc<View> {
        Arc::clone(&self.view)
    }

    /// Starts the thread. It ends after [`Message::Close`], or when every handle is gone.
    pub(super) fn start(self, queue: mpsc::Receiver<Message>) -> Result<(), AuditError> {
        let path = self.view.path.clone();
        // Only for the wait with a limit; the thread blocks on the disk otherwise, and may.
        let timer = runtime::Builder::new_current_thread().enable_time().build();
        let timer = timer.map_err(AuditError::io("make a timer to write", &path))?;
        let thread = std::thread::Builder::new().name("audit".to_owned());
        let run = move || timer.block_on(self.run(queue));
        thread
            .spawn(run)
            .map_err(AuditError::io("start a thread to write", path))?;
        Ok(())
    }

    /// Writes one event before the thread runs.
    pub(super) fn write_now(&mut self, draft: &Draft) -> Result<(), AuditError> {
        let mut lines = Pending::after(self.head);
        lines.push(draft, self.now());
        self.append(lines).map_err(|e| self.give_up(e))
    }

    async fn run(mut self, mut queue: mpsc::Receiver<Message>) {
        let mut may_sign = !self.is_covered();
        loop {
            match self.wait(&mut queue, may_sign).await {
                Woken::By(message) => {
                    if let ControlFlow::Break((reply, answer)) =
                        self.serve(gather(message, &mut queue))
                    {
                        // The folder is free before anybody hears that it is.
                        drop(self);
                        drop(reply.send(answer));
                        return;
                    }
                    may_sign = !self.is_covered();
                }
                Woken::Idle => {
                    // For want of space it waits for the next event, which is refused for the same.
                    drop(self.sign_head(Reserve::Leave));
                    may_sign = false;
                }
                Woken::Abandoned => {
                    drop(self.sign_head(Reserve::Use));
                    return;
                }
            }
        }
    }

    async fn wait(&self, queue: &mut mpsc::Receiver<Message>, may_sign: bool) -> Woken {
        let message = if may_sign {
            match tokio::time::timeout(self.checkpoint_idle, queue.recv()).await {
                Ok(message) => message,
                Err(_) => return Woken::Idle,
            }
        } else {
            queue.recv().await
        };
        message.map_or(Woken::Abandoned, Woken::By)
    }

    fn serve(&mut self, batch: Batch) -> ControlFlow<Closing> {
        if !batch.events.is_empty() {
            self.commit(batch.events, batch.bytes);
        }
        match batch.then {
            None => {}
            Some(Control::Checkpoint(reply)) => drop(reply.send(self.sign_head(Reserve::Leave))),
            Some(Control::Close(reply)) => {
                return ControlFlow::Break((reply, self.sign_head(Reserve::Use)));
            }
        }
        ControlFlow::Continue(())
    }

    /// Writes what may be written of these and answers all of them.
    fn commit(&mut self, events: Vec<Waiting>, bytes: u64) {
        let gate = self.gate(bytes);
        let mut admitted = Vec::with_capacity(events.len());
        for event in events {
            match &gate {
                Gate::Shut(why) => event.refuse(why),
                Gate::EndsOnly(why) if !event.draft.name().may_use_reserve() => event.refuse(why),
                Gate::EndsOnly(_) | Gate::Open => admitted.push(event),
            }
        }
        if !admitted.is_empty() {
            self.write(admitted, matches!(gate, Gate::Open));
        }
    }

    fn gate(&mut self, bytes: u64) -> Gate {
        let stopped = self.view.read().stopped.clone();
        match stopped {
            Some(damaged @ AuditError::Damaged(_)) => Gate::EndsOnly(damaged),
            Some(why) => Gate::Shut(why),
            None => match self.file.make_room(bytes + CHECKPOINT_BYTES) {
                Ok(()) => Gate::Open,
                Err(why) => Gate::EndsOnly(why),
            },
        }
    }

    fn write(&mut self, events: Vec<Waiting>, may_sign: bool) {
        let now = self.now();
        let mut lines = Pending::after(self.head);
        let places: Vec<Seq> = events
            .iter()
            .map(|event| lines.push(&event.draft, now))
            .collect();
        if may_sign && self.uncovered() + places.len() as u64 >= self.checkpoint_every {
            lines.sign(&self.signer, now);
        }
        match self.append(lines) {
            Ok(()) => {
                for (event, place) in events.into_iter().zip(places) {
                    // Whoever asked may have gone; the event stands.
                    drop(event.reply.send(Ok(place)));
                }
            }
            Err(AppendError::Full) if events.len() > 1 => self.write_ends_one_by_one(events),
            Err(error) => {
                let why = self.give_up(error);
                for event in events {
                    event.refuse(&why);
                }
            }
        }
    }

    /// The room there was is gone, to somebody else on the same disk: as many ends as still fit.
    fn write_ends_one_by_one(&mut self, events: Vec<Waiting>) {
        for event in events {
            if event.draft.name().may_use_reserve() {
                self.write(vec![event], false);
            } else {
                event.refuse(&AuditError::Full);
            }
        }
    }

    fn sign_head(&mut self, reserve: Reserve) -> Result<Option<Checkpoint>, AuditError> {
        if self.is_covered() {
            return Ok(self.newest);
        }
        match self.gate(0) {
            Gate::Open => {}
            Gate::EndsOnly(AuditError::LowSpace { .. }) if reserve == Reserve::Use => {}
            Gate::EndsOnly(why) | Gate::Shut(why) => return Err(why),
        }
        let mut lines = Pending::after(self.head);
        lines.sign(&self.signer, self.now());
        self.append(lines).map_err(|e| self.give_up(e))?;
        Ok(self.newest)
    }

    /// Makes the lines durable, and only then shows them.
    fn append(&mut self, lines: Pending) -> Result<(), AppendError> {
        self.file.append(&lines.bytes)?;
        self.head = lines.head;
        self.newest = lines.newest.or(self.newest);
        let mut seen = self.view.change();
        for (request, length) in lines.lines {
            seen.index.push(request, length);
        }
        (seen.head, seen.newest) = (self.head, self.newest);
        seen.commits += 1;
        Ok(())
    }

    /// What to answer after a write failed; and whether it was the last one.
    fn give_up(&self, error: AppendError) -> AuditError {
        match error {
            AppendError::Full => AuditError::Full,
            AppendError::Over(why) => {
                tracing::error!(
                    error = &why as &dyn std::error::Error,
                    "the audit trail has stopped"
                );
                self.view.stop(why.clone());
                why
            }
        }
    }

    /// Events after the newest checkpoint's own line.
    fn uncovered(&self) -> u64 {
        let covered = self.newest.map_or(Seq(0), |newest| newest.head.seq.next());
        self.head.seq.0 - covered.0
    }

    fn is_covered(&self) -> bool {
        self.uncovered() == 0
    }

    fn now(&self) -> UtcMillis {
        UtcMillis::from_unix_ms(i64::try_from(self.clock.now_ms()).unwrap_or(i64::MAX))
    }
}

impl Waiting {
    fn refuse(self, why: &AuditError) {
        drop(self.reply.send(Err(why.clone())));
    }
}

/// Takes what has queued up behind `first`, up to one write's worth.
fn gather(first: Message, queue: &mut mpsc::Receiver<Message>) -> Batch {
    let mut batch = Batch::default();
    let mut next = Some(first);
    while let Some(message) = next {
        match message {
            Message::Append { draft, reply } => {
                batch.bytes += draft.max_line_bytes() as u64;
                batch.events.push(Waiting { draft, reply });
            }
            Message::Checkpoint { reply } => batch.then = Some(Control::Checkpoint(reply)),
            Message::Close { reply } => batch.then = Some(Control::Close(reply)),
        }
        let full = batch.events.len() >= BATCH_EVENTS || batch.bytes >= BATCH_BYTES;
        next = if full || batch.then.is_some() {
            None
        } else {
            queue.try_recv().ok()
        };
    }
    batch
}

/// Lines on their way to the disk.
struct Pending {
    bytes: Vec<u8>,
    /// For the index: the request and the length of each.
    lines: Vec<(Option<RequestId>, u64)>,
    head: Head,
    newest: Option<Checkpoint>,
}

impl Pending {
    fn after(head: Head) -> Self {
        Self {
            bytes: Vec::new(),
            lines: Vec::new(),
            head,
            newest: None,
        }
    }

    fn push(&mut self, draft: &Draft, time: UtcMillis) -> Seq {
        let before = self.bytes.len();
        self.head = draft.seal(self.head, time, &mut self.bytes);
        self.lines
            .push((draft.request_id(), (self.bytes.len() - before) as u64));
        self.head.seq
    }

    fn sign(&mut self, signer: &Signer, time: UtcMillis) {
        let checkpoint = signer.sign(self.head, time);
        if let Ok(draft) = Draft::new(checkpoint.to_event()) {
            self.push(&draft, time);
            self.newest = Some(checkpoint);
        }
    }
}
