//! Terraform's side of a session: a root packed as the daemon packs it, and the frames for it.

use std::path::PathBuf;

use sandbox_bundle::{Bundle, File, Limits};
use sandbox_proto::runner::v1::input::Kind;
use sandbox_proto::runner::v1::terraform::Mode;
use sandbox_proto::runner::v1::{ApiServer, Input, Start, Terraform, artifact, start};
use sandbox_runner::places::Places;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use super::daemon::{Run, prove, with_session_at};
use super::{CANARY, nobody};

/// The packed source tree of these files, by the daemon's own hand.
pub fn bundle(files: &[(&str, &str)]) -> Vec<u8> {
    let files = files.iter().map(|(path, text)| File {
        path: path.parse().unwrap(),
        bytes: text.as_bytes().to_vec(),
    });
    let bundle = Bundle::new(files.collect(), &Limits::default());
    bundle.unwrap().to_tar()
}

/// A run of Terraform, as a daemon would ask for it.
pub struct Ask {
    pub work: Terraform,
    pub inputs: Vec<Vec<u8>>,
    pub credential: String,
    pub timeout_ms: u32,
}

/// A run in `mode` over these inputs.
pub fn ask(mode: Mode, inputs: &[(Kind, Vec<u8>)]) -> Ask {
    let announced = inputs.iter().map(|(kind, bytes)| Input {
        kind: (*kind).into(),
        size: bytes.len() as u64,
        sha256: Sha256::digest(bytes).to_vec().into(),
    });
    Ask {
        work: Terraform {
            mode: mode.into(),
            inputs: announced.collect(),
            workspace: "default".to_owned(),
            namespaces: vec!["demo-app".to_owned()],
            ..Terraform::default()
        },
        inputs: inputs.iter().map(|(_, bytes)| bytes.clone()).collect(),
        credential: match mode {
            Mode::Facts => String::new(),
            Mode::Plan | Mode::Apply | Mode::Unspecified => CANARY.to_owned(),
        },
        timeout_ms: 60_000,
    }
}

impl Ask {
    /// The Start frame.
    pub fn start(&self, api_server: ApiServer) -> Start {
        Start {
            request_id: "0198c0de-0000-7000-8000-000000000001".to_owned(),
            credential: self.credential.clone().into(),
            api_server: Some(api_server),
            timeout_ms: self.timeout_ms,
            work: Some(start::Work::Terraform(self.work.clone())),
        }
    }

    /// Runs it in a folder of its own, from Prove to Finished.
    pub async fn run(&self, api_server: ApiServer) -> Run {
        self.run_with(api_server, &real()).await.0
    }

    /// The same with other programs; also gives every byte that came.
    pub async fn run_with(&self, api_server: ApiServer, programs: &Places) -> (Run, Vec<u8>) {
        let (_work, places) = work_folder(programs);
        let (_, ran) = with_session_at(&places, async |daemon| {
            let hello = daemon.prove(prove(api_server.clone(), nobody())).await;
            assert!(hello.egress.as_ref().unwrap().closed, "{hello:?}");
            let start = self.start(api_server);
            daemon
                .send(sandbox_proto::runner::v1::to_runner::Frame::Start(start))
                .await;
            for input in &self.inputs {
                for piece in input.chunks(1024 * 1024) {
                    daemon.chunk(piece).await;
                }
            }
            let run = daemon.collect().await;
            (run, std::mem::take(&mut daemon.received))
        })
        .await;
        ran
    }
}

impl Run {
    /// The newest artifact of a kind.
    pub fn artifact(&self, kind: artifact::Kind) -> Option<&[u8]> {
        let mut newest_first = self.artifacts.iter().rev();
        newest_first
            .find(|(known, _)| *known == kind)
            .map(|(_, bytes)| bytes.as_slice())
    }

    /// Everything that was told to nobody but approvers, for messages of a test.
    pub fn told(&self) -> String {
        format!("{:?} {:?} {:?}", self.failure, self.terraform, self.calls)
    }
}

/// A folder to work in, and `programs` with it.
fn work_folder(programs: &Places) -> (TempDir, Places) {
    let folder = tempfile::tempdir().unwrap();
    let places = Places {
        work: folder.path().to_owned(),
        ..programs.clone()
    };
    (folder, places)
}

/// The lock file for the one provider of the mirror.
pub fn lock_file() -> String {
    static LOCK: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    LOCK.get_or_init(make_lock_file).clone()
}

fn make_lock_file() -> String {
    let mirror = real().providers;
    let folder = mirror.join("registry.terraform.io/hashicorp/kubernetes/1.13.4");
    let platform = std::fs::read_dir(&folder).expect("the providers: images/mirror");
    let platform = platform.map(|entry| entry.unwrap().path()).next().unwrap();
    let binary = "terraform-provider-kubernetes_v1.13.4";
    let binary_sum = Sha256::digest(std::fs::read(platform.join(binary)).unwrap());
    let binary_sum: Vec<_> = binary_sum
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    // Go's checksum of a folder with one file.
    let line = format!("{}  {binary}\n", binary_sum.concat());
    let sum = base64(&Sha256::digest(line));
    format!(
        "provider \"registry.terraform.io/hashicorp/kubernetes\" {{\n  version     = \"1.13.4\"\n  \
         constraints = \"1.13.4\"\n  hashes = [\n    \"h1:{sum}\",\n  ]\n}}\n"
    )
}

/// Padded base64.
pub fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut coded = String::new();
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for (at, shift) in [18, 12, 6, 0].into_iter().enumerate() {
            let digit = DIGITS[(bits >> shift) as usize & 63];
            coded.push(if at <= three.len() { digit.into() } else { '=' });
        }
    }
    coded
}

/// Terraform as it is on PATH, and the providers as `images/mirror` leaves them.
pub fn real() -> Places {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|folder| folder.join("terraform"))
        .find(|file| file.is_file());
    let cache = std::env::var("AGENT_SANDBOX_CACHE");
    let cache = cache.unwrap_or_else(|_| "/var/cache/agent-sandbox".to_owned());
    Places {
        terraform: found.expect("Terraform 1.11 on PATH"),
        providers: PathBuf::from(cache).join("providers/mirror"),
        ..Places::default()
    }
}
