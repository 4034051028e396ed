//! One attached runner's life: prove, then one request, then the end. A state machine over frames.
//!
//! Each state is a function that takes the frames it knows and refuses every other:
//! `await_prove` → `prove` → `await_start` → (`take_inputs`) → `work` → Finished. A Ping is answered in
//! any of them.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use sandbox_proto::RUNNER_PROTOCOL_VERSION;
use sandbox_proto::runner::v1::failure::Kind;
use sandbox_proto::runner::v1::terraform::Mode;
use sandbox_proto::runner::v1::{
    Egress, Failure, Finished, Hello, Pong, Prove, Start, Terraform, from_runner, start, to_runner,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

use crate::api::{Connection, Server};
use crate::caller::{Caller, failure};
use crate::credential::Credential;
use crate::egress::{self, Proof};
use crate::ending::Ending;
use crate::frames::{FrameError, FrameReader, FrameWriter};
use crate::inputs::{ChunkError, Inputs, Intake};
use crate::places::Places;
use crate::proxy::upstream::Upstream;
use crate::reports::Reports;
use crate::terraform::Run;
use crate::{kernel, list, terraform};

/// Pings answered in one life: at one in 20 s, a day's worth.
pub const MAX_PINGS: u32 = 5_000;

/// How long the last frame may take to be fetched before the container ends with it.
const LINGER: Duration = Duration::from_secs(2);

/// Reports under way between the work and the stream.
const REPORTS: usize = 8;

/// Why a session ended before its Finished frame.
#[derive(Debug, thiserror::Error)]
pub enum Abort {
    /// A frame that has no place in this state.
    #[error("the daemon sent {frame} while {state}")]
    OutOfPlace {
        /// What came.
        frame: &'static str,
        /// What was going on.
        state: &'static str,
    },
    /// More pings than any daemon sends.
    #[error("the daemon sent more than {MAX_PINGS} pings")]
    TooManyPings,
    /// A Chunk that no input has room for.
    #[error("the daemon sent {0}")]
    Chunk(#[from] ChunkError),
    /// A frame that is too long, does not decode, or was cut off; or a stream that failed.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// Stdin ended.
    #[error("the daemon closed the stream while {0}")]
    Closed(&'static str),
}

impl Abort {
    /// How the process ends after this.
    pub fn ending(&self) -> Ending {
        match self {
            Self::OutOfPlace { .. }
            | Self::TooManyPings
            | Self::Chunk(_)
            | Self::Frame(FrameError::TooLong(_) | FrameError::Garbled) => Ending::Violation,
            Self::Frame(FrameError::Truncated | FrameError::Stream(_)) | Self::Closed(_) => {
                Ending::Gone
            }
            Self::Frame(FrameError::OwnTooLong(_)) => Ending::Fault,
        }
    }
}

/// Serves one request over `input` and `output`, and ends.
///
/// # Errors
/// [`Abort`]: no Finished frame went out.
pub async fn serve<R, W>(input: R, output: W, places: &Places) -> Result<Ending, Abort>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut session = Session {
        reader: FrameReader::new(input),
        writer: FrameWriter::new(output),
        places,
        pings: 0,
    };
    let ending = session.run().await?;
    // The container ends with this process. Let the daemon fetch the last frame before that.
    timeout(LINGER, session.reader.ended()).await.ok();
    Ok(ending)
}

struct Session<'a, R, W> {
    reader: FrameReader<R>,
    writer: FrameWriter<W>,
    places: &'a Places,
    pings: u32,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Session<'_, R, W> {
    async fn run(&mut self) -> Result<Ending, Abort> {
        let prove = self.await_prove().await?;
        let Some(connection) = self.prove(prove).await? else {
            return Ok(Ending::EgressOpen);
        };
        let start = self.await_start().await?;
        let failure = self.work(start, connection).await?;
        let ending = match failure {
            None => Ending::Done,
            Some(_) => Ending::Failed,
        };
        let finished = from_runner::Frame::Finished(Finished { failure });
        self.writer.send(finished).await?;
        Ok(ending)
    }

    async fn await_prove(&mut self) -> Result<Prove, Abort> {
        let state = "it waited for Prove";
        match self.next_but_ping(state).await? {
            to_runner::Frame::Prove(prove) => Ok(prove),
            other @ (to_runner::Frame::Ping(_)
            | to_runner::Frame::Start(_)
            | to_runner::Frame::Chunk(_)) => Err(out_of_place(&other, state)),
        }
    }

    /// Answers with Hello. Without a connection to the API server there is nothing more to do.
    async fn prove(&mut self, prove: Prove) -> Result<Option<Connection>, Abort> {
        let proof = self
            .alongside("it proved its egress", prove_egress(prove))
            .await?;
        let hello = Hello {
            protocol_version: RUNNER_PROTOCOL_VERSION,
            runner_version: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: kernel::text().unwrap_or_default(),
            egress: Some(proof.egress),
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
        };
        self.writer.send(from_runner::Frame::Hello(hello)).await?;
        Ok(proof.connection)
    }

    async fn await_start(&mut self) -> Result<Start, Abort> {
        let state = "it waited for Start";
        match self.next_but_ping(state).await? {
            to_runner::Frame::Start(start) => Ok(start),
            other @ (to_runner::Frame::Ping(_)
            | to_runner::Frame::Prove(_)
            | to_runner::Frame::Chunk(_)) => Err(out_of_place(&other, state)),
        }
    }

    /// Does what Start asks and sends what there is to tell; returns why it failed, if it did.
    async fn work(
        &mut self,
        mut start: Start,
        connection: Connection,
    ) -> Result<Option<Failure>, Abort> {
        let deadline = Instant::now() + Duration::from_millis(start.timeout_ms.into());
        let credential = match take_credential(&mut start) {
            Ok(credential) => credential,
            Err(failure) => return Ok(Some(failure)),
        };
        if let Some(credential) = &credential {
            self.writer.mask(Arc::clone(credential));
        }
        let inputs = match &start.work {
            Some(start::Work::Terraform(work)) => match self.take_inputs(work, deadline).await? {
                Ok(inputs) => inputs,
                Err(failure) => return Ok(Some(failure)),
            },
            Some(start::Work::PodStatus(_)) | None => Inputs::default(),
        };
        let (reports, mut reported) = mpsc::channel(REPORTS);
        let state = "it worked";
        let task = Task {
            start,
            inputs,
            connection,
            credential,
            deadline,
            places: self.places,
            reports: Reports::new(reports),
        };
        let mut work = std::pin::pin!(task.run());
        loop {
            // What was reported goes out before what comes after it, Finished included.
            tokio::select! {
                biased;
                Some(frame) = reported.recv() => self.writer.send(frame).await?,
                ping = self.next_ping(state) => self.answer(ping?).await?,
                failure = &mut work => {
                    while let Ok(frame) = reported.try_recv() {
                        self.writer.send(frame).await?;
                    }
                    return Ok(failure);
                }
            }
        }
    }

    /// Takes the chunks of what `work` announces.
    async fn take_inputs(
        &mut self,
        work: &Terraform,
        deadline: Instant,
    ) -> Result<Result<Inputs, Failure>, Abort> {
        let refuse = |error| failure(Kind::BadInput, &format!("{error}"));
        let mut intake = match Intake::announced(work) {
            Ok(intake) => intake,
            Err(error) => return Ok(Err(refuse(error))),
        };
        let state = "it waited for Chunk";
        while !intake.is_complete() {
            match timeout_at(deadline, self.next_but_ping(state)).await {
                Ok(Ok(to_runner::Frame::Chunk(chunk))) => intake.take(chunk.data)?,
                Ok(Ok(other)) => return Err(out_of_place(&other, state)),
                Ok(Err(abort)) => return Err(abort),
                Err(_) => {
                    let detail = "the inputs did not come in time";
                    return Ok(Err(failure(Kind::Timeout, detail)));
                }
            }
        }
        Ok(intake.finish().map_err(refuse))
    }

    /// Runs `work` while nothing but pings may come in.
    async fn alongside<T>(
        &mut self,
        state: &'static str,
        work: impl Future<Output = T>,
    ) -> Result<T, Abort> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                ping = self.next_ping(state) => self.answer(ping?).await?,
                done = &mut work => return Ok(done),
            }
        }
    }

    async fn next_but_ping(&mut self, state: &'static str) -> Result<to_runner::Frame, Abort> {
        loop {
            match self.reader.next().await? {
                Some(to_runner::Frame::Ping(ping)) => self.answer(ping.nonce).await?,
                Some(frame) => return Ok(frame),
                None => return Err(Abort::Closed(state)),
            }
        }
    }

    /// The nonce of a ping. Loses nothing when dropped.
    async fn next_ping(&mut self, state: &'static str) -> Result<u64, Abort> {
        match self.reader.next().await? {
            Some(to_runner::Frame::Ping(ping)) => Ok(ping.nonce),
            Some(other) => Err(out_of_place(&other, state)),
            None => Err(Abort::Closed(state)),
        }
    }

    async fn answer(&mut self, nonce: u64) -> Result<(), Abort> {
        self.pings += 1;
        if self.pings > MAX_PINGS {
            return Err(Abort::TooManyPings);
        }
        let pong = from_runner::Frame::Pong(Pong { nonce });
        Ok(self.writer.send(pong).await?)
    }
}

fn out_of_place(frame: &to_runner::Frame, state: &'static str) -> Abort {
    let frame = match frame {
        to_runner::Frame::Prove(_) => "Prove",
        to_runner::Frame::Ping(_) => "Ping",
        to_runner::Frame::Start(_) => "Start",
        to_runner::Frame::Chunk(_) => "Chunk",
    };
    Abort::OutOfPlace { frame, state }
}

/// A Prove that makes no sense proves nothing, and Hello says why.
async fn prove_egress(prove: Prove) -> Proof {
    let version = prove.protocol_version;
    if version != RUNNER_PROTOCOL_VERSION {
        return unproven(format!(
            "the daemon speaks version {version} of the frames, this runner {RUNNER_PROTOCOL_VERSION}"
        ));
    }
    let Ok(forbidden) = prove.forbidden_target.parse() else {
        return unproven("the forbidden target is no IP:port".to_owned());
    };
    let limit = Duration::from_millis(prove.timeout_ms.into());
    match Server::new(prove.api_server.unwrap_or_default()) {
        Ok(server) => egress::prove(&server, forbidden, limit).await,
        Err(error) => unproven(error.to_string()),
    }
}

fn unproven(detail: String) -> Proof {
    let egress = Egress {
        closed: false,
        detail,
        ..Egress::default()
    };
    Proof {
        egress,
        connection: None,
    }
}

/// The credential, or none for work that must not have one.
fn take_credential(start: &mut Start) -> Result<Option<Arc<Credential>>, Failure> {
    let frame = std::mem::take(&mut start.credential);
    let takes_none = match &start.work {
        Some(start::Work::Terraform(work)) => work.mode() == Mode::Facts,
        Some(start::Work::PodStatus(_)) | None => false,
    };
    if takes_none && frame.is_empty() {
        return Ok(None);
    }
    let credential = Credential::take(frame).map_err(|error| fault(error.to_string()))?;
    if takes_none {
        let detail = "a credential came with work that must not have one";
        return Err(failure(Kind::BadInput, detail));
    }
    Ok(Some(Arc::new(credential)))
}

/// The work of one Start, with everything it needs.
struct Task<'a> {
    start: Start,
    inputs: Inputs,
    connection: Connection,
    credential: Option<Arc<Credential>>,
    deadline: Instant,
    places: &'a Places,
    reports: Reports,
}

impl Task<'_> {
    async fn run(self) -> Option<Failure> {
        let server = match Server::new(self.start.api_server.unwrap_or_default()) {
            Ok(server) => server,
            Err(error) => return Some(fault(error.to_string())),
        };
        let limit = Duration::from_millis(self.start.timeout_ms.into());
        match (self.start.work, self.credential) {
            (Some(start::Work::PodStatus(work)), Some(credential)) => {
                let mut caller =
                    Caller::new(server, self.connection, credential, limit, self.reports);
                list::pod_status(&work, &mut caller).await.err()
            }
            (Some(start::Work::Terraform(work)), credential) => {
                let run = Run {
                    work: &work,
                    inputs: self.inputs,
                    limit: self.deadline.saturating_duration_since(Instant::now()),
                    places: self.places,
                    reports: self.reports,
                };
                let upstream = credential.map(|credential| {
                    Upstream::new(server, self.connection, credential, self.deadline)
                });
                terraform::run(run, upstream).await.err()
            }
            (Some(start::Work::PodStatus(_)) | None, _) => Some(fault(
                "the Start frame names no work this runner knows".to_owned(),
            )),
        }
    }
}

fn fault(detail: String) -> Failure {
    Failure {
        kind: Kind::Internal.into(),
        detail,
    }
}
