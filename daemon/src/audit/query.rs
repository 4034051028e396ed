//! Questions to the trail, answered from what is durable while the writer goes on.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use sandbox_core::audit::{Fault, FaultKind, Glance, LineHash, Record, RequestPrefix, Seq};
use sandbox_core::ids::RequestId;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio_stream::wrappers::ReceiverStream;

use super::error::{AuditError, QueryError};
use super::index::Span;
use super::lines::{Lines, Next};
use super::view::View;

/// How many lines may wait for a slow reader.
const AHEAD: usize = 64;
/// How many ids an ambiguous beginning lists.
const LISTED: usize = 20;

/// Which lines to give.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only those of this request.
    pub request: Option<RequestPrefix>,
    /// Only those after this place.
    pub after: Option<Seq>,
}

/// A line as it stands in the file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StoredLine {
    /// Its place.
    pub seq: Seq,
    /// Its bytes, without the LF.
    pub line: Vec<u8>,
}

/// Lines in order. Dropping it ends the reading.
pub type LineStream = ReceiverStream<Result<StoredLine, AuditError>>;

pub(super) async fn start(view: Arc<View>, filter: Filter) -> Result<LineStream, QueryError> {
    let scan = spawn_blocking(move || Scan::plan(view, &filter));
    let scan = scan.await.map_err(|_| AuditError::Closed)??;
    let (lines, stream) = mpsc::channel(AHEAD);
    // It ends with its last line or with its reader; there is nothing in it that shutdown waits for.
    drop(spawn_blocking(move || scan.send(&lines)));
    Ok(ReceiverStream::new(stream))
}

pub(super) async fn hash_at(view: Arc<View>, seq: Seq) -> Result<Option<LineHash>, AuditError> {
    let look = spawn_blocking(move || {
        let spans = view.read().index.around(seq).into_iter().collect();
        let mut hash = None;
        Scan {
            view,
            spans,
            after: Seq(seq.0.saturating_sub(1)),
            request: None,
        }
        .each(|glance, line| {
            if glance.seq != seq {
                return ControlFlow::Continue(());
            }
            hash = Some(Record::read(line).map(|record| record.hash));
            ControlFlow::Break(())
        })?;
        hash.transpose().map_err(|e| {
            AuditError::Damaged(Fault {
                line: seq.0,
                kind: FaultKind::Malformed(e),
            })
        })
    });
    look.await.map_err(|_| AuditError::Closed)?
}

/// Where to read, and what to take from there.
struct Scan {
    view: Arc<View>,
    spans: Vec<Span>,
    after: Seq,
    request: Option<RequestId>,
}

impl Scan {
    fn plan(view: Arc<View>, filter: &Filter) -> Result<Self, QueryError> {
        let after = filter.after.unwrap_or(Seq(0));
        let Some(prefix) = &filter.request else {
            let spans = vec![view.read().index.from(after.next())];
            return Ok(Self {
                view,
                spans,
                after,
                request: None,
            });
        };
        let spans = view.read().index.of(prefix, Seq(0));
        let all = Self {
            view,
            spans,
            after: Seq(0),
            request: None,
        };
        let request = Some(all.only_request(prefix)?);
        let spans = all.view.read().index.of(prefix, after);
        Ok(Self {
            spans,
            after,
            request,
            ..all
        })
    }

    /// The one request whose id begins so.
    fn only_request(&self, prefix: &RequestPrefix) -> Result<RequestId, QueryError> {
        let mut ids = BTreeSet::new();
        self.each(|glance, _| {
            ids.extend(glance.request_id.filter(|id| prefix.matches(*id)));
            if ids.len() > LISTED {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        let mut ids: Vec<RequestId> = ids.into_iter().collect();
        match ids[..] {
            [] => Err(QueryError::UnknownRequest),
            [id] => Ok(id),
            _ => {
                let more = ids.len() > LISTED;
                ids.truncate(LISTED);
                Err(QueryError::Ambiguous { ids, more })
            }
        }
    }

    fn send(&self, lines: &mpsc::Sender<Result<StoredLine, AuditError>>) {
        let read = self.each(|glance, line| {
            let stored = StoredLine {
                seq: glance.seq,
                line: line.to_vec(),
            };
            match lines.blocking_send(Ok(stored)) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        });
        if let Err(e) = read {
            drop(lines.blocking_send(Err(e)));
        }
    }

    /// Shows each line that is asked for, until told to stop.
    fn each(
        &self,
        mut show: impl FnMut(Glance, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), AuditError> {
        for Span { start, end } in &self.spans {
            let mut lines = Lines::between(&self.view.file, *start, *end);
            while let Next::Line(_, line) = lines
                .next()
                .map_err(AuditError::io("read", &self.view.path))?
            {
                let Some(glance) = Glance::at(line) else {
                    continue;
                };
                let asked = self.request.is_none_or(|id| glance.request_id == Some(id));
                if asked && glance.seq > self.after && show(glance, line).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
