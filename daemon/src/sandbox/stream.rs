//! The daemon's end of the stream to a runner: frames out, frames in, each in its place.

use std::pin::Pin;
use std::time::Duration;

use prost::Message as _;
use prost::bytes::Bytes;
use ring::digest::{SHA256, digest};
use sandbox_proto::runner::v1 as wire;
use sandbox_proto::runner::v1::{from_runner, to_runner};
use sandbox_proto::{MAX_FRAME_BYTES, RUNNER_PROTOCOL_VERSION};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::time::{Instant, timeout};

use super::{Input, Made, SandboxError, Seen};
use crate::report::{Code, Failure};

/// How long a spare may take to answer a ping before it counts as lost.
const PING_LIMIT: Duration = Duration::from_secs(2);
/// Between two pings while work runs.
const PING_EVERY: Duration = Duration::from_secs(20);
/// The most API calls one request may report. A resource takes about ten of an apply.
const MAX_CALLS: usize = 5000;
/// The most phases, and beginnings and ends of operations, one request may report.
const MAX_STEPS: usize = 5000;
/// Pieces of inputs that are sent, and the longest that are taken.
const PIECE: usize = 1024 * 1024;
/// The longest artifact taken, in bytes.
const MAX_ARTIFACT: usize = 32 * 1024 * 1024;
/// The most bytes of the runner's standard error that are kept.
const MAX_STDERR: u64 = 2048;

type Reader = Box<dyn AsyncRead + Send + Unpin>;
type Writer = Box<dyn AsyncWrite + Send + Unpin>;
/// Ends when the far end has ended, with what it said. A dead transport never ends the byte stream
/// itself (seen with kube 5), so every read is raced against this.
type Ended = Pin<Box<dyn Future<Output = String> + Send>>;

/// The pieces of a stream to a runner.
pub(super) struct Ends {
    pub(super) reader: Reader,
    pub(super) writer: Writer,
    pub(super) stderr: Reader,
    pub(super) ended: Ended,
    /// Whatever keeps the transport alive.
    pub(super) transport: Box<dyn std::any::Any + Send>,
}

/// A stream to one runner. When it is dropped, the runner ends.
pub(super) struct RunnerStream {
    reader: BufReader<Reader>,
    writer: Writer,
    stderr: Reader,
    /// `None` once it was seen to end.
    ended: Option<Ended>,
    nonce: u64,
    _transport: Box<dyn std::any::Any + Send>,
}

impl RunnerStream {
    pub(super) fn new(ends: Ends) -> Self {
        Self {
            reader: BufReader::new(ends.reader),
            writer: ends.writer,
            stderr: ends.stderr,
            ended: Some(ends.ended),
            nonce: 0,
            _transport: ends.transport,
        }
    }

    /// Has the runner say where it is, and prove that only the API server can be reached.
    pub(super) async fn prove(
        &mut self,
        api_server: wire::ApiServer,
        forbidden_target: String,
        limit: Duration,
    ) -> Result<wire::Hello, SandboxError> {
        let prove = wire::Prove {
            protocol_version: RUNNER_PROTOCOL_VERSION,
            api_server: Some(api_server),
            forbidden_target,
            timeout_ms: u32::try_from(limit.as_millis()).unwrap_or(u32::MAX),
        };
        self.send(to_runner::Frame::Prove(prove)).await?;
        let answer = timeout(limit + Duration::from_secs(5), self.receive()).await;
        match answer {
            Ok(Ok(from_runner::Frame::Hello(hello)))
                if hello.protocol_version == RUNNER_PROTOCOL_VERSION =>
            {
                Ok(hello)
            }
            Ok(Ok(from_runner::Frame::Hello(hello))) => Err(SandboxError::Runner(format!(
                "speaks version {} of the frames, sandboxd {RUNNER_PROTOCOL_VERSION}: build the image anew",
                hello.protocol_version
            ))),
            Ok(Ok(other)) => Err(out_of_place(&other)),
            Ok(Err(e)) => Err(self.with_last_words(e).await),
            Err(_) => Err(SandboxError::Runner("did not say hello in time".to_owned())),
        }
    }

    /// Whether the runner still answers.
    pub(super) async fn ping(&mut self) -> Result<(), SandboxError> {
        self.nonce += 1;
        let nonce = self.nonce;
        self.send(to_runner::Frame::Ping(wire::Ping { nonce }))
            .await?;
        match timeout(PING_LIMIT, self.receive()).await {
            Ok(Ok(from_runner::Frame::Pong(pong))) if pong.nonce == nonce => Ok(()),
            Ok(Ok(other)) => Err(out_of_place(&other)),
            Ok(Err(e)) => Err(self.with_last_words(e).await),
            Err(_) => Err(SandboxError::Runner("did not answer a ping".to_owned())),
        }
    }

    /// Sends request, credential and inputs, and follows the work until the runner says that it is done.
    pub(super) async fn run(
        &mut self,
        mut start: wire::Start,
        token: Option<&SecretString>,
        inputs: &[Input],
        tell: &mut impl Tell,
    ) -> Result<wire::Output, Failure> {
        #[expect(
            clippy::disallowed_methods,
            reason = "into the one Start frame, to the runner's memory"
        )]
        let credential = token.map(|t| Bytes::copy_from_slice(t.expose_secret().as_bytes()));
        start.credential = credential.unwrap_or_default();
        self.send(to_runner::Frame::Start(start)).await?;
        for piece in inputs.iter().flat_map(|input| input.bytes.chunks(PIECE)) {
            let data = Bytes::copy_from_slice(piece);
            self.send(to_runner::Frame::Chunk(wire::Chunk { data }))
                .await?;
        }
        let mut output = None;
        let mut coming = None;
        let mut calls = 0;
        let mut steps = 0;
        let mut unanswered = 0;
        let mut next_ping = Instant::now() + PING_EVERY;
        loop {
            // Reading is finished before pinging: a frame read by half would be lost.
            let frame = match timeout(next_ping.duration_since(Instant::now()), self.peek()).await {
                Ok(Ok(())) => self.receive().await?,
                Ok(Err(e)) => return Err(self.with_last_words(e).await.into()),
                Err(_) if unanswered > 0 => {
                    return Err(Failure::new(Code::SandboxLost, "The runner fell silent."));
                }
                Err(_) => {
                    self.nonce += 1;
                    self.send(to_runner::Frame::Ping(wire::Ping { nonce: self.nonce }))
                        .await?;
                    unanswered += 1;
                    next_ping = Instant::now() + PING_EVERY;
                    continue;
                }
            };
            match frame {
                from_runner::Frame::Pong(_) => unanswered = 0,
                from_runner::Frame::Progress(progress) => {
                    steps += 1;
                    if steps > MAX_STEPS {
                        return Err(broken("reported too many steps"));
                    }
                    if let Some(operation) = progress.operation {
                        tell.operation(operation);
                    }
                }
                from_runner::Frame::ApiCall(call) => {
                    calls += 1;
                    if calls > MAX_CALLS {
                        return Err(broken("reported too many API calls"));
                    }
                    let seen = Seen {
                        method: call.method,
                        path: call.path,
                        status: call.status,
                        elapsed_ms: call.elapsed_ms,
                        refused: call.refused,
                    };
                    tell.call(seen).await?;
                }
                from_runner::Frame::Artifact(piece) => {
                    if let Some(made) = take_piece(&mut coming, &piece)? {
                        tell.made(made).await?;
                    }
                }
                from_runner::Frame::Output(out) if output.is_none() => output = Some(out),
                from_runner::Frame::Finished(wire::Finished {
                    failure: Some(failure),
                }) => {
                    if let Some(output) = output {
                        tell.partial(output);
                    }
                    return Err(meaning(&failure));
                }
                from_runner::Frame::Finished(wire::Finished { failure: None }) => {
                    return output.ok_or_else(|| broken("finished without output"));
                }
                other @ (from_runner::Frame::Output(_) | from_runner::Frame::Hello(_)) => {
                    return Err(out_of_place(&other).into());
                }
            }
        }
    }

    async fn send(&mut self, frame: to_runner::Frame) -> Result<(), SandboxError> {
        let message = wire::ToRunner { frame: Some(frame) };
        let length = message.encoded_len();
        let mut bytes = zeroize::Zeroizing::new(Vec::with_capacity(4 + length));
        bytes.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
        message.encode(&mut *bytes).map_err(|e| gone(&e))?;
        let sent = async {
            self.writer.write_all(&bytes).await?;
            self.writer.flush().await
        };
        match timeout(Duration::from_secs(10), sent).await {
            Ok(sent) => sent.map_err(|e| gone(&e)),
            Err(_) => Err(SandboxError::Runner(
                "does not take what is sent".to_owned(),
            )),
        }
    }

    /// Waits until there is something to read, without taking it. May be dropped and called again.
    async fn peek(&mut self) -> Result<(), SandboxError> {
        let Some(ended) = self.ended.as_mut() else {
            return Err(SandboxError::Runner("is gone".to_owned()));
        };
        tokio::select! {
            biased;
            bytes = self.reader.fill_buf() => match bytes {
                Ok([]) => Err(SandboxError::Runner("closed its stream".to_owned())),
                Ok(_) => Ok(()),
                Err(e) => Err(gone(&e)),
            },
            why = ended => {
                self.ended = None;
                Err(SandboxError::Runner(format!("ended: {why}")))
            }
        }
    }

    async fn receive(&mut self) -> Result<from_runner::Frame, SandboxError> {
        let mut length = [0; 4];
        self.fill(&mut length).await?;
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > MAX_FRAME_BYTES {
            return Err(SandboxError::Runner(format!(
                "sent a frame of {length} bytes"
            )));
        }
        let mut bytes = vec![0; length];
        self.fill(&mut bytes).await?;
        wire::FromRunner::decode(bytes.as_slice())
            .ok()
            .and_then(|message| message.frame)
            .ok_or_else(|| SandboxError::Runner("sent a frame that does not decode".to_owned()))
    }

    async fn fill(&mut self, mut bytes: &mut [u8]) -> Result<(), SandboxError> {
        while !bytes.is_empty() {
            self.peek().await?;
            let read = self.reader.read(bytes).await.map_err(|e| gone(&e))?;
            bytes = &mut bytes[read..];
        }
        Ok(())
    }

    /// Adds what the runner said on its standard error: it holds no secret, by the runner's tests.
    async fn with_last_words(&mut self, error: SandboxError) -> SandboxError {
        let SandboxError::Runner(what) = error else {
            return error;
        };
        let mut words = Vec::new();
        let mut stderr = (&mut self.stderr).take(MAX_STDERR);
        let read = timeout(Duration::from_millis(200), stderr.read_to_end(&mut words)).await;
        drop(read);
        let words = String::from_utf8_lossy(&words);
        match words.trim() {
            "" => SandboxError::Runner(what),
            words => SandboxError::Runner(format!("{what} ({})", words.escape_debug())),
        }
    }
}

/// What is told while work runs. Where telling fails, the work ends.
pub(crate) trait Tell: Send {
    /// A call to the API server, made or refused.
    fn call(&mut self, seen: Seen) -> impl Future<Output = Result<(), Failure>> + Send;
    /// A file that the work made.
    fn made(&mut self, made: Made) -> impl Future<Output = Result<(), Failure>> + Send;
    /// An operation of Terraform's that began or ended.
    fn operation(&mut self, operation: wire::Operation);
    /// What there is to say of work that failed.
    fn partial(&mut self, output: wire::Output);
}

/// Puts the pieces of one artifact together; gives it once it is whole and is what it was said to be.
fn take_piece(coming: &mut Option<Made>, piece: &wire::Artifact) -> Result<Option<Made>, Failure> {
    let kind = piece.kind();
    let mut made = coming.take().unwrap_or(Made {
        kind,
        bytes: zeroize::Zeroizing::new(Vec::new()),
    });
    if made.kind != kind || made.bytes.len() + piece.data.len() > MAX_ARTIFACT {
        return Err(broken("sent a file out of its place or size"));
    }
    made.bytes.extend_from_slice(&piece.data);
    if !piece.last {
        *coming = Some(made);
        return Ok(None);
    }
    if digest(&SHA256, &made.bytes).as_ref() != &piece.sha256[..] {
        return Err(broken("sent a file that is not what it says"));
    }
    Ok(Some(made))
}

fn gone(error: &dyn std::error::Error) -> SandboxError {
    SandboxError::Runner(format!("is gone: {error}"))
}

fn out_of_place(frame: &from_runner::Frame) -> SandboxError {
    let name = match frame {
        from_runner::Frame::Hello(_) => "Hello",
        from_runner::Frame::Pong(_) => "Pong",
        from_runner::Frame::Progress(_) => "Progress",
        from_runner::Frame::ApiCall(_) => "ApiCall",
        from_runner::Frame::Output(_) => "Output",
        from_runner::Frame::Artifact(_) => "Artifact",
        from_runner::Frame::Finished(_) => "Finished",
    };
    SandboxError::Runner(format!("sent {name} out of its place"))
}

fn broken(what: &str) -> Failure {
    SandboxError::Runner(what.to_owned()).into()
}

/// What the runner's own report of a failure means to a caller.
fn meaning(failure: &wire::Failure) -> Failure {
    use wire::failure::Kind;
    let detail: String = failure.detail.chars().take(1024).collect();
    let detail = detail.escape_debug();
    match failure.kind() {
        Kind::Unreachable => Failure::new(
            Code::ClusterUnavailable,
            format!("The sandbox could not reach the API server: {detail}."),
        ),
        Kind::Forbidden => Failure::new(
            Code::ApiForbidden,
            format!("The API server refused the leased credential: {detail}."),
        ),
        Kind::ExpiredPage => Failure::new(
            Code::PageExpired,
            "The list has moved on since the page before; its token is too old.",
        ),
        Kind::BadRequest => Failure::new(
            Code::ApiError,
            format!("The API server called the request bad: {detail}."),
        ),
        Kind::NotFound => Failure::new(
            Code::ApiError,
            format!("The API server does not know it: {detail}."),
        ),
        Kind::Server => Failure::new(Code::ApiError, format!("The API server failed: {detail}.")),
        Kind::Timeout => Failure::new(
            Code::DeadlineExceeded,
            format!("The work took too long: {detail}."),
        ),
        Kind::TooLarge => Failure::new(
            Code::ResultTooLarge,
            "Not even one pod fits the limit of a result.",
        ),
        Kind::BadInput => Failure::new(
            Code::Internal,
            format!("The runner did not get what it was to get: {detail}."),
        ),
        Kind::PlanDiffers => Failure::new(
            Code::PlanRefused,
            format!("The plan was not made from this source: {detail}."),
        ),
        Kind::Internal | Kind::Unspecified => {
            Failure::new(Code::Internal, format!("The runner failed: {detail}."))
        }
    }
}
