//! The connection of the watch: what the daemon says as it says it, and a new connection when it is gone.

use std::convert::Infallible;
use std::future;
use std::time::Duration;

use sandbox_proto::approver::v1::{Approval, GetApprovalResponse, GetStatusResponse};
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::time::{Instant, sleep_until};

use crate::access::Access;
use crate::daemon::{Daemon, Verdict};
use crate::escape::escape;
use crate::failure::Failure;

const RETRY: Duration = Duration::from_secs(1);

/// What the screen wants of the daemon.
#[derive(Debug)]
pub(super) enum Ask {
    /// All there is to know of one approval.
    Show(String),
    Record(Verdict),
}

/// What the daemon said, or that it is away.
#[derive(Debug)]
pub(super) enum News {
    Connected {
        /// Its version and uid.
        daemon: String,
        /// All there are, the newest first.
        approvals: Vec<Approval>,
    },
    Changed(Box<Approval>),
    Shown {
        id: String,
        answer: Result<Box<GetApprovalResponse>, Failure>,
    },
    Recorded {
        granted: bool,
        answer: Result<Box<Approval>, Failure>,
    },
    Lost(Failure),
}

/// Keeps the connection for ever. It ends when it is dropped.
pub(super) async fn keep(
    access: &Access<'_>,
    mut daemon: Daemon,
    status: &GetStatusResponse,
    mut asks: Receiver<Ask>,
    news: Sender<News>,
) -> Infallible {
    let mut status = status.clone();
    loop {
        let lost = match serve(&mut daemon, &status, &mut asks, &news).await {
            Ok(never) => match never {},
            Err(lost) => lost,
        };
        tell(&news, News::Lost(lost)).await;
        (daemon, status) = again(access, &mut asks, &news).await;
    }
}

async fn serve(
    daemon: &mut Daemon,
    status: &GetStatusResponse,
    asks: &mut Receiver<Ask>,
    news: &Sender<News>,
) -> Result<Infallible, Failure> {
    // First the stream, so that nothing can happen between the list and the first change.
    let mut changes = daemon.changes().await?;
    let approvals = daemon.approvals(true).await?;
    let uid = daemon
        .uid()
        .map_or_else(String::new, |uid| format!(" (uid {uid})"));
    let daemon_is = format!("sandboxd {}{uid}", escape(&status.daemon_version));
    let connected = News::Connected {
        daemon: daemon_is,
        approvals,
    };
    tell(news, connected).await;
    loop {
        tokio::select! {
            change = changes.next() => match change {
                Ok(approval) => tell(news, News::Changed(Box::new(approval))).await,
                Err(end) => return Err(daemon.lost(&end)),
            },
            ask = next(asks) => {
                let answer = match ask {
                    Ask::Show(id) => {
                        let answer = daemon.approval(&id).await.map(Box::new);
                        News::Shown { id, answer }
                    }
                    Ask::Record(verdict) => News::Recorded {
                        granted: verdict.grant,
                        answer: daemon.record_verdict(verdict).await.map(Box::new),
                    },
                };
                tell(news, answer).await;
            }
        }
    }
}

/// A new connection, however long that takes. What is asked meanwhile is answered at once.
async fn again(
    access: &Access<'_>,
    asks: &mut Receiver<Ask>,
    news: &Sender<News>,
) -> (Daemon, GetStatusResponse) {
    loop {
        let next_try = Instant::now() + RETRY;
        loop {
            tokio::select! {
                () = sleep_until(next_try) => break,
                ask = next(asks) => tell(news, not_now(ask)).await,
            }
        }
        match access.connect().await {
            Ok((daemon, standing)) => match standing.alarms.into_iter().next() {
                Some(alarm) => tell(news, News::Lost(alarm)).await,
                None => return (daemon, standing.status),
            },
            Err(still) => tell(news, News::Lost(still)).await,
        }
    }
}

fn not_now(ask: Ask) -> News {
    match ask {
        Ask::Show(id) => News::Shown {
            id,
            answer: Err(Failure::Error("sandboxd is away.".to_owned())),
        },
        Ask::Record(verdict) => News::Recorded {
            granted: verdict.grant,
            answer: Err(Failure::Refused(
                "No verdict was recorded: sandboxd is away.".to_owned(),
            )),
        },
    }
}

async fn next(asks: &mut Receiver<Ask>) -> Ask {
    match asks.recv().await {
        Some(ask) => ask,
        None => future::pending().await,
    }
}

/// The receiver lives as long as we are polled.
async fn tell(news: &Sender<News>, what: News) {
    drop(news.send(what).await);
}
