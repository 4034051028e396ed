//! No token anywhere it could be read: not in etcd, logs, trail, journal, process tables or Job specs, while a
//! call runs and afterwards.

use std::fs;
use std::path::{Path, PathBuf};

use crate::bridge::Bridge;
use crate::cluster::{get, kubectl};
use crate::cluster_lock::ClusterLock;
use crate::frozen::Frozen;
use crate::places::{home, node};
use crate::trail::Trail;

/// Larger than any file of ours but etcd's write-ahead log, which is 64 MB.
const MOST: u64 = 256 * 1024 * 1024;

/// What a secret of ours looks like: a JWT, or one of Vault's tokens, or a given text.
pub(crate) fn finds(bytes: &[u8], secrets: &[String]) -> Option<String> {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let run = |at: usize| bytes[at..].iter().take_while(|b| is_word(**b)).count();
    let mut starts = [false; 256];
    let firsts = secrets.iter().filter_map(|s| s.bytes().next());
    firsts
        .chain([b'e', b'h', b's'])
        .for_each(|b| starts[usize::from(b)] = true);
    for (at, _) in bytes
        .iter()
        .enumerate()
        .filter(|(_, b)| starts[usize::from(**b)])
    {
        let rest = &bytes[at..];
        if rest.starts_with(b"eyJ") {
            let head = run(at);
            let dot = rest.get(head) == Some(&b'.') && head > 16;
            if dot && rest[head + 1..].starts_with(b"eyJ") && run(at + head + 1) > 32 {
                return Some("a JWT".to_owned());
            }
        }
        if rest.starts_with(b"hvs.") && run(at + 4) > 20 {
            return Some("a Vault token".to_owned());
        }
        let word_before = at > 0 && is_word(bytes[at - 1]);
        if !word_before && rest.starts_with(b"s.") && run(at + 2) == 24 {
            return Some("a Vault token".to_owned());
        }
        if let Some(secret) = secrets.iter().find(|s| rest.starts_with(s.as_bytes())) {
            return Some(format!("a secret of {} bytes", secret.len()));
        }
    }
    None
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_dir() {
            files(&entry.path(), found);
        } else if kind.is_file() && entry.metadata().is_ok_and(|m| m.len() < MOST) {
            found.push(entry.path());
        }
    }
}

/// Environment and arguments of every process there is.
fn process_tables() -> Vec<PathBuf> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter(|entry| {
        entry
            .file_name()
            .to_string_lossy()
            .bytes()
            .all(|b| b.is_ascii_digit())
    })
    .flat_map(|entry| [entry.path().join("environ"), entry.path().join("cmdline")])
    .collect()
}

fn places() -> Vec<PathBuf> {
    let mut all = process_tables();
    for folder in [
        node("ETCD_DIR"),
        node("LOG_DIR"),
        home().join("log"),
        PathBuf::from("/var/log/pods"),
        PathBuf::from("/var/lib/sandboxd"),
    ] {
        files(&folder, &mut all);
    }
    all
}

pub(crate) fn scan(secrets: &[String]) -> (usize, Vec<String>) {
    let mut read = 0;
    let mut found = Vec::new();
    for place in places() {
        // A process may have ended meanwhile.
        let Ok(bytes) = fs::read(&place) else {
            continue;
        };
        read += 1;
        if let Some(what) = finds(&bytes, secrets) {
            found.push(format!("{what} in {}", place.display()));
        }
    }
    (read, found)
}

pub(crate) fn secrets() -> Vec<String> {
    let id =
        fs::read_to_string("/etc/sandboxd/vault-secret-id").expect("a secret id: run scripts/up");
    vec![id.trim().to_owned()]
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn no_token_is_at_rest_or_in_a_process_table_while_a_call_runs_and_afterwards() {
    let _lock = ClusterLock::take();
    let trail = Trail::of_the_installed();
    let secrets = secrets();
    let mut bridge = Bridge::start();
    let frozen = Frozen::call(&mut bridge, &trail);

    // The credential exists now, and is in use.
    let (read, found) = scan(&secrets);
    assert!(read > 50, "only {read} places could be read");
    assert!(found.is_empty(), "{found:?}");
    let specs = get("/apis/batch/v1/namespaces/sandbox-jobs/jobs").to_string()
        + &get("/api/v1/namespaces/sandbox-jobs/pods").to_string();
    assert!(specs.contains("sbx-"), "no Job is there to look at");
    assert_eq!(finds(specs.as_bytes(), &secrets), None);

    let (call, request) = (frozen.call, frozen.request.clone());
    frozen.resume();
    assert!(!bridge.answer(call).is_error());
    trail.of_once(&request, "credential.proven_dead");
    let (_, found) = scan(&secrets);
    assert!(found.is_empty(), "{found:?}");
    assert_eq!(finds(bridge.transcript.as_bytes(), &secrets), None);
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn the_scan_finds_what_is_planted_where_it_looks() {
    let _lock = ClusterLock::take();
    let jwt = format!(
        "eyJ{}.eyJ{}.{}",
        "a".repeat(40),
        "b".repeat(60),
        "c".repeat(40)
    );
    let planted = [
        jwt,
        format!("hvs.{}", "A".repeat(30)),
        format!("s.{}", "x".repeat(24)),
        "canary-1234".into(),
    ];
    let files = planted.map(|secret| {
        let file = tempfile::Builder::new()
            .tempfile_in(home().join("log"))
            .unwrap();
        fs::write(file.path(), format!("before {secret} after")).unwrap();
        file
    });
    let child = std::process::Command::new("sleep")
        .arg("30")
        .env("PLANTED", "canary-1234")
        .spawn();
    let mut child = child.unwrap();
    let name = format!("canary-{}", std::process::id());
    let planted = format!("--from-literal=planted={name}-in-etcd");
    let configmap = ["-n", "demo-app", "create", "configmap", &name, &planted];
    kubectl(&configmap);
    let (_, found) = scan(&["canary-1234".to_owned(), format!("{name}-in-etcd")]);
    kubectl(&["-n", "demo-app", "delete", "configmap", &name]);
    child.kill().unwrap();
    child.wait().unwrap();
    let etcd = node("ETCD_DIR").display().to_string();
    let in_etcd = found.iter().filter(|f| f.contains(&etcd));
    assert!(in_etcd.count() > 0, "nothing was found in etcd: {found:?}");
    let environment = format!("/proc/{}/environ", child.id());
    for place in files
        .iter()
        .map(|f| f.path().display().to_string())
        .chain([environment])
    {
        assert!(
            found.iter().any(|f| f.ends_with(&place)),
            "{place} was not found: {found:?}"
        );
    }
}
