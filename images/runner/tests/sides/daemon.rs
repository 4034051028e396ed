//! The daemon's side of a runner's stream, with what it usually sends.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use prost::Message as _;
use sandbox_proto::runner::v1::failure::Kind;
use sandbox_proto::runner::v1::{
    ApiCall, ApiServer, Chunk, FromRunner, Hello, Operation, Ping, PodList, PodStatus, Prove,
    Start, TerraformResult, ToRunner, artifact, from_runner, output, start, to_runner,
};
use sandbox_runner::ending::Ending;
use sandbox_runner::places::Places;
use sandbox_runner::session::{self, Abort};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::{CANARY, PATIENCE};

/// The daemon's end of a stream.
pub struct Daemon {
    to_runner: Option<Box<dyn AsyncWrite + Unpin>>,
    from_runner: Box<dyn AsyncRead + Unpin>,
    /// Every byte that came.
    pub received: Vec<u8>,
}

/// Runs a session over pipes in memory, with `play` as its daemon. When `play` returns, the stream
/// closes.
pub async fn with_session<T>(
    play: impl AsyncFnOnce(&mut Daemon) -> T,
) -> (Result<Ending, Abort>, T) {
    with_session_at(&Places::default(), play).await
}

/// The same, with folders and programs of the test's own.
pub async fn with_session_at<T>(
    places: &Places,
    play: impl AsyncFnOnce(&mut Daemon) -> T,
) -> (Result<Ending, Abort>, T) {
    let (daemon_end, runner_end) = tokio::io::duplex(64 * 1024);
    let (input, output) = tokio::io::split(runner_end);
    let (from_runner, to_runner) = tokio::io::split(daemon_end);
    let play = async {
        let mut daemon = Daemon::over(to_runner, from_runner);
        let played = play(&mut daemon).await;
        daemon.close().await;
        played
    };
    let both = async { tokio::join!(session::serve(input, output, places), play) };
    timeout(2 * PATIENCE, both)
        .await
        .expect("a session that ends")
}

/// Starts `command`, a runner's attach, with its standard streams as the daemon's.
pub fn with_process(command: &mut Command) -> (Child, Daemon) {
    let piped = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = piped.kill_on_drop(true).spawn().unwrap();
    let daemon = Daemon::over(child.stdin.take().unwrap(), child.stdout.take().unwrap());
    (child, daemon)
}

impl Daemon {
    fn over(
        to_runner: impl AsyncWrite + Unpin + 'static,
        from_runner: impl AsyncRead + Unpin + 'static,
    ) -> Self {
        Self {
            to_runner: Some(Box::new(to_runner)),
            from_runner: Box::new(from_runner),
            received: Vec::new(),
        }
    }

    pub async fn send(&mut self, frame: to_runner::Frame) {
        self.send_bytes(&encoded(frame)).await;
    }

    /// The runner may have ended already; what it did is the test's question, not whether it read.
    pub async fn send_bytes(&mut self, bytes: &[u8]) {
        let to_runner = self.to_runner.as_mut().expect("a stream that is open");
        to_runner.write_all(bytes).await.ok();
        to_runner.flush().await.ok();
    }

    /// Ends the runner's stdin.
    pub async fn close(&mut self) {
        if let Some(mut to_runner) = self.to_runner.take() {
            to_runner.shutdown().await.ok();
        }
    }

    /// The next frame; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<from_runner::Frame> {
        timeout(PATIENCE, self.read_frame())
            .await
            .expect("a frame, or the end of the stream")
    }

    async fn read_frame(&mut self) -> Option<from_runner::Frame> {
        let length = self.from_runner.read_u32().await.ok()?;
        let mut bytes = vec![0; length.try_into().unwrap()];
        self.from_runner
            .read_exact(&mut bytes)
            .await
            .expect("a whole frame");
        self.received.extend_from_slice(&bytes);
        let frame = FromRunner::decode(bytes.as_slice()).expect("a frame that decodes");
        Some(frame.frame.expect("a frame this daemon knows"))
    }

    /// Sends Prove and returns the Hello.
    pub async fn prove(&mut self, prove: Prove) -> Hello {
        self.send(to_runner::Frame::Prove(prove)).await;
        match self.next().await {
            Some(from_runner::Frame::Hello(hello)) => hello,
            other => panic!("{other:?} instead of Hello"),
        }
    }

    /// Sends Start and collects what comes, up to Finished.
    pub async fn run(&mut self, start: Start) -> Run {
        self.send(to_runner::Frame::Start(start)).await;
        self.collect().await
    }

    /// Sends a Chunk of these bytes.
    pub async fn chunk(&mut self, data: &[u8]) {
        let data = data.to_vec().into();
        self.send(to_runner::Frame::Chunk(Chunk { data })).await;
    }

    /// Collects what comes, up to Finished.
    pub async fn collect(&mut self) -> Run {
        let mut run = Run::default();
        let mut part = Vec::new();
        loop {
            match self.next().await.expect("Finished before the end") {
                from_runner::Frame::Progress(progress) => match progress.operation {
                    Some(operation) => run.operations.push(operation),
                    None => run.phases.push(progress.phase),
                },
                from_runner::Frame::ApiCall(call) => run.calls.push(call),
                from_runner::Frame::Output(output) => {
                    let twice = match output.output.expect("an output") {
                        output::Output::Pods(pods) => run.pods.replace(pods).is_some(),
                        output::Output::Terraform(result) => {
                            run.terraform.replace(result).is_some()
                        }
                    };
                    assert!(!twice, "one output");
                }
                from_runner::Frame::Artifact(piece) => {
                    part.extend_from_slice(&piece.data);
                    if piece.last {
                        let whole = std::mem::take(&mut part);
                        let sha256 = Sha256::digest(&whole);
                        assert_eq!(sha256.as_slice(), piece.sha256.as_ref());
                        run.artifacts.push((piece.kind(), whole));
                    }
                }
                from_runner::Frame::Finished(finished) => {
                    run.failure = finished
                        .failure
                        .map(|failure| (failure.kind(), failure.detail));
                    return run;
                }
                other @ (from_runner::Frame::Hello(_) | from_runner::Frame::Pong(_)) => {
                    panic!("{other:?} has no place here")
                }
            }
        }
    }

    pub async fn ping(&mut self, nonce: u64) {
        self.send(to_runner::Frame::Ping(Ping { nonce })).await;
    }

    /// Pings, and takes the answer.
    pub async fn ping_pong(&mut self, nonce: u64) {
        self.ping(nonce).await;
        match self.next().await {
            Some(from_runner::Frame::Pong(pong)) => assert_eq!(pong.nonce, nonce),
            other => panic!("{other:?} instead of Pong"),
        }
    }
}

/// What a request brought.
#[derive(Debug, Default)]
pub struct Run {
    pub phases: Vec<String>,
    /// Each twice: as it began, and as it ended.
    pub operations: Vec<Operation>,
    pub calls: Vec<ApiCall>,
    pub pods: Option<PodList>,
    pub terraform: Option<TerraformResult>,
    /// In the order they came.
    pub artifacts: Vec<(artifact::Kind, Vec<u8>)>,
    pub failure: Option<(Kind, String)>,
}

impl Run {
    /// The pods of a run that did what was asked.
    pub fn pods(self) -> PodList {
        assert_eq!(self.failure, None);
        self.pods.expect("pods")
    }

    /// The failure of a run that failed, which has no output.
    pub fn failure(self) -> (Kind, String) {
        assert_eq!(self.pods, None);
        self.failure.expect("a failure")
    }
}

/// A frame as it goes over the stream.
pub fn encoded(frame: to_runner::Frame) -> Vec<u8> {
    let message = ToRunner { frame: Some(frame) }.encode_to_vec();
    let length = u32::try_from(message.len()).unwrap();
    [&length.to_be_bytes(), message.as_slice()].concat()
}

/// A Prove with five seconds to spare.
pub fn prove(api_server: ApiServer, forbidden: SocketAddr) -> Prove {
    Prove {
        protocol_version: sandbox_proto::RUNNER_PROTOCOL_VERSION,
        api_server: Some(api_server),
        forbidden_target: forbidden.to_string(),
        timeout_ms: 5_000,
    }
}

/// A Start with the canary as its credential and five seconds to spare.
pub fn start(api_server: ApiServer, work: PodStatus) -> Start {
    Start {
        request_id: "0198c0de-0000-7000-8000-000000000001".to_owned(),
        credential: CANARY.into(),
        api_server: Some(api_server),
        timeout_ms: u32::try_from(Duration::from_secs(5).as_millis()).unwrap(),
        work: Some(start::Work::PodStatus(work)),
    }
}

/// All pods of `demo-app`, up to 500 of them in 256 KiB.
pub fn all_pods() -> PodStatus {
    PodStatus {
        namespace: "demo-app".to_owned(),
        limit: 500,
        max_bytes: 256 * 1024,
        ..PodStatus::default()
    }
}
