//! An approver service that answers from a script, and the real binary run against it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::Output;
use std::sync::{Arc, Mutex};

use ring::signature::{Ed25519KeyPair, KeyPair as _};
use sandbox_core::audit::{
    Checkpoint, Draft, Event, EventName, Head, PublicKey, Record, RequestPrefix, Seq, Signature,
    UtcMillis,
};
use sandbox_core::ids::RequestId;
use sandbox_proto::PROTOCOL_VERSION;
use sandbox_proto::approver::v1 as proto;
use sandbox_proto::approver::v1::approver_service_server::{
    ApproverService, ApproverServiceServer,
};
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::process::Command;
use tokio::runtime::{Builder, Runtime};
use tokio_stream::wrappers::UnixListenerStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status};

use crate::desk::{Changes, Desk};

pub const NOW_MS: i64 = 1_772_357_400_000;

pub fn id(number: u64) -> RequestId {
    RequestId::new(NOW_MS.cast_unsigned() + number, [7; 10])
}

/// A trail signed with a real key.
pub struct Trail {
    pub lines: Vec<Vec<u8>>,
    pub head: Head,
    pub newest: Option<Checkpoint>,
    key: Ed25519KeyPair,
}

impl Trail {
    /// An empty trail with the key that `seed` gives.
    pub fn signed_by(seed: u8) -> Self {
        let key = Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap();
        Self {
            lines: Vec::new(),
            head: Head::START,
            newest: None,
            key,
        }
    }

    /// Two events each of `requests` requests, and a checkpoint over them.
    pub fn of(requests: u64, result: &str) -> Self {
        let mut trail = Self::signed_by(1);
        for number in 0..requests {
            trail.push(
                Event::new(EventName::ToolRequest)
                    .request(id(number))
                    .with("number", number),
            );
            trail.push(
                Event::new(EventName::ToolResult)
                    .request(id(number))
                    .with("result", result),
            );
        }
        trail.sign();
        trail
    }

    pub fn push(&mut self, event: Event) {
        let mut line = Vec::new();
        let time = UtcMillis::from_unix_ms(NOW_MS + self.head.seq.0.cast_signed() * 1_000);
        self.head = Draft::new(event).unwrap().seal(self.head, time, &mut line);
        line.pop();
        self.lines.push(line);
    }

    pub fn sign(&mut self) {
        let (head, time) = (self.head, UtcMillis::from_unix_ms(NOW_MS));
        let mut key = PublicKey([0; 32]);
        key.0.copy_from_slice(self.key.public_key().as_ref());
        let mut signature = Signature([0; 64]);
        signature.0.copy_from_slice(
            self.key
                .sign(&Checkpoint::signed_bytes(head, time))
                .as_ref(),
        );
        let checkpoint = Checkpoint {
            head,
            time,
            key,
            signature,
        };
        self.push(checkpoint.to_event());
        self.newest = Some(checkpoint);
    }

    /// What a file of it holds.
    pub fn text(&self) -> String {
        let lines = self
            .lines
            .iter()
            .flat_map(|line| [&line[..], b"\n"].concat());
        String::from_utf8(lines.collect()).unwrap()
    }
}

/// What the service answers with.
#[derive(Clone, Default)]
pub struct Script {
    pub lines: Vec<Vec<u8>>,
    pub checkpoint: Option<Checkpoint>,
    pub fault: String,
    pub refusal: Option<Status>,
    pub protocol_version: Option<u32>,
    /// Left out of answers about one request.
    pub hidden: Option<Seq>,
    pub detail: String,
}

impl From<&Trail> for Script {
    fn from(trail: &Trail) -> Self {
        Self {
            lines: trail.lines.clone(),
            checkpoint: trail.newest,
            ..Self::default()
        }
    }
}

struct Scripted {
    script: Arc<Mutex<Script>>,
    desk: Desk,
}

impl Scripted {
    fn script(&self) -> Result<Script, Status> {
        let script = self.script.lock().unwrap().clone();
        script.refusal.clone().map_or(Ok(script), Err)
    }
}

#[tonic::async_trait]
impl ApproverService for Scripted {
    type WatchApprovalsStream = Changes;

    async fn list_approvals(
        &self,
        request: Request<proto::ListApprovalsRequest>,
    ) -> Result<Response<proto::ListApprovalsResponse>, Status> {
        self.script()?;
        Ok(Response::new(self.desk.list(request.into_inner())))
    }

    async fn get_approval(
        &self,
        request: Request<proto::GetApprovalRequest>,
    ) -> Result<Response<proto::GetApprovalResponse>, Status> {
        self.script()?;
        let shown = self.desk.get(&request.get_ref().approval_id)?;
        Ok(Response::new(shown))
    }

    async fn record_verdict(
        &self,
        request: Request<proto::RecordVerdictRequest>,
    ) -> Result<Response<proto::RecordVerdictResponse>, Status> {
        self.script()?;
        Ok(Response::new(self.desk.record(request.into_inner())?))
    }

    async fn watch_approvals(
        &self,
        _: Request<proto::WatchApprovalsRequest>,
    ) -> Result<Response<Changes>, Status> {
        self.script()?;
        Ok(Response::new(self.desk.watch()))
    }

    type QueryAuditStream = Pin<Box<dyn Stream<Item = Result<proto::AuditLine, Status>> + Send>>;

    async fn query_audit(
        &self,
        request: Request<proto::QueryAuditRequest>,
    ) -> Result<Response<Self::QueryAuditStream>, Status> {
        let ask = request.into_inner();
        assert_eq!(ask.protocol_version, PROTOCOL_VERSION);
        let script = self.script()?;
        let prefix =
            (!ask.request_id.is_empty()).then(|| ask.request_id.parse::<RequestPrefix>().unwrap());
        let lines = script
            .lines
            .into_iter()
            .zip(1..)
            .filter(move |(line, seq)| {
                let Some(prefix) = &prefix else {
                    return *seq > ask.after_seq;
                };
                let record = Record::read(line).unwrap();
                script.hidden != Some(record.seq)
                    && record.request_id.is_some_and(|id| prefix.matches(id))
            });
        let lines = lines.map(|(line, seq)| {
            Ok(proto::AuditLine {
                seq,
                line: line.into(),
            })
        });
        Ok(Response::new(Box::pin(tokio_stream::iter(
            lines.collect::<Vec<_>>(),
        ))))
    }

    async fn verify_audit(
        &self,
        _: Request<proto::VerifyAuditRequest>,
    ) -> Result<Response<proto::VerifyAuditResponse>, Status> {
        let script = self.script()?;
        Ok(Response::new(proto::VerifyAuditResponse {
            events: script.lines.len() as u64,
            fault: script.fault,
            ..proto::VerifyAuditResponse::default()
        }))
    }

    async fn get_status(
        &self,
        request: Request<proto::GetStatusRequest>,
    ) -> Result<Response<proto::GetStatusResponse>, Status> {
        let script = self.script()?;
        let at = request
            .get_ref()
            .at_seq
            .checked_sub(1)
            .and_then(|at| usize::try_from(at).ok());
        let hash = at.and_then(|at| Some(Record::read(script.lines.get(at)?).unwrap().hash));
        Ok(Response::new(proto::GetStatusResponse {
            protocol_version: script.protocol_version.unwrap_or(PROTOCOL_VERSION),
            daemon_version: "0.1.0".to_owned(),
            started_ms: NOW_MS,
            parts: vec![proto::Part {
                name: "vault".to_owned(),
                ok: false,
                detail: script.detail,
            }],
            pool_size: 4,
            pool_ready: 3,
            checkpoint: script.checkpoint.map(|c| proto::Checkpoint {
                seq: c.head.seq.0,
                hash: c.head.hash.as_bytes().to_vec().into(),
                time_ms: c.time.as_unix_ms(),
                public_key: c.key.0.to_vec().into(),
                signature: c.signature.0.to_vec().into(),
            }),
            at_seq_hash: hash
                .map(|hash| hash.as_bytes().to_vec())
                .unwrap_or_default()
                .into(),
            ..proto::GetStatusResponse::default()
        }))
    }
}

/// A service on a socket of its own, and a home for the one who asks it.
pub struct Stage {
    folder: TempDir,
    script: Arc<Mutex<Script>>,
    pub desk: Desk,
    /// A runtime of its own, so that its end is the end of every connection, as a daemon's end is.
    server: Option<Runtime>,
}

impl Stage {
    pub fn set(script: impl Into<Script>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut stage = Self {
            folder,
            script: Arc::new(Mutex::new(script.into())),
            desk: Desk::default(),
            server: None,
        };
        stage.start();
        stage
    }

    /// A stage with a whole trail and these approvals.
    pub fn with(approvals: impl IntoIterator<Item = proto::GetApprovalResponse>) -> Self {
        let stage = Self::set(&Trail::of(1, "succeeded"));
        for approval in approvals {
            stage.desk.put(approval);
        }
        stage
    }

    pub fn start(&mut self) {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let inside = runtime.enter();
        let listener = UnixListener::bind(self.socket()).unwrap();
        let service = ApproverServiceServer::new(Scripted {
            script: Arc::clone(&self.script),
            desk: self.desk.clone(),
        });
        let serve = tonic::transport::Server::builder().add_service(service);
        let connections = UnixListenerStream::new(listener).filter(Result::is_ok);
        runtime.spawn(async move { serve.serve_with_incoming(connections).await.unwrap() });
        drop(inside);
        self.server = Some(runtime);
    }

    /// Ends it and every connection to it; nobody listens any more.
    pub fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.shutdown_background();
        }
        std::fs::remove_file(self.socket()).unwrap();
    }

    /// What it answers from now on.
    pub fn change(&self, script: impl Into<Script>) {
        *self.script.lock().unwrap() = script.into();
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("approver.sock")
    }

    pub fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// The one checkpoint kept.
    pub fn kept_file(&self) -> PathBuf {
        let mut kept = std::fs::read_dir(self.state().join("agent-sandbox")).unwrap();
        let path = kept.next().unwrap().unwrap().path();
        assert!(kept.next().is_none(), "more than one file is kept");
        path
    }

    pub fn kept(&self) -> Checkpoint {
        Checkpoint::from_file(&std::fs::read_to_string(self.kept_file()).unwrap()).unwrap()
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = approver(&self.socket(), &self.state());
        command.args(args);
        command
    }

    pub async fn run(&self, args: &[&str]) -> Ran {
        self.command(args).output().await.unwrap().into()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.shutdown_background();
        }
    }
}

pub fn approver(socket: &Path, state: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_approver"));
    command
        .env_clear()
        .env("XDG_STATE_HOME", state)
        .arg("--socket")
        .arg(socket)
        .kill_on_drop(true);
    command
}

/// How a run ended.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ran {
    #[track_caller]
    pub fn ended(self, code: i32, words: &[&str]) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        for word in words {
            assert!(
                self.out.contains(word) || self.err.contains(word),
                "{word:?} in {self:?}"
            );
        }
        self
    }
}
