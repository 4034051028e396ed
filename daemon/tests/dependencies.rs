//! What each crate may reach, as facts about its dependency tree: the bridge holds no secrets because it
//! contains nothing that could use one.

#![cfg(test)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Talks to Vault or Kubernetes, keeps the journal, or is the daemon itself.
const PRIVILEGED: &[&str] = &[
    "kube",
    "kube-client",
    "kube-core",
    "kube-runtime",
    "k8s-openapi",
    "vaultrs",
    "rustify",
    "reqwest",
    "rusqlite",
    "sandboxd",
];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

/// Every crate that `of` links, itself left out.
fn tree(of: &str) -> BTreeSet<String> {
    let out = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--package",
            of,
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--locked",
        ])
        .current_dir(workspace())
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let text = String::from_utf8(out.stdout).unwrap();
    let names = text
        .lines()
        .filter_map(|l| l.split(' ').next())
        .map(str::to_owned);
    names.filter(|name| name != of).collect()
}

fn assert_reaches_none(of: &str, forbidden: &[&str]) {
    let tree = tree(of);
    assert!(
        tree.len() > 3,
        "{of}: cargo tree gave too little to judge by: {tree:?}"
    );
    let found: Vec<_> = forbidden
        .iter()
        .filter(|name| tree.contains(**name))
        .collect();
    assert!(found.is_empty(), "{of} reaches {found:?}");
}

#[test]
fn bridge_and_approver_reach_no_vault_or_kubernetes_client() {
    assert_reaches_none("mcp-bridge", PRIVILEGED);
    assert_reaches_none("approver", PRIVILEGED);
}

#[test]
fn the_check_finds_the_clients_where_they_are() {
    let tree = tree("sandboxd");
    for name in ["kube", "k8s-openapi", "vaultrs", "rusqlite", "reqwest"] {
        assert!(
            tree.contains(name),
            "{name} is not found in sandboxd, so its absence means nothing"
        );
    }
}

#[test]
fn the_rules_have_no_io_clock_or_randomness() {
    assert_reaches_none("sandbox-core", PRIVILEGED);
    assert_reaches_none(
        "sandbox-core",
        &[
            "tokio",
            "tonic",
            "hyper",
            "rustls",
            "rand",
            "getrandom",
            "rustix",
            "nix",
            "mio",
        ],
    );
}

#[test]
fn the_runner_has_no_server_and_no_journal() {
    assert_reaches_none(
        "sandbox-runner",
        &["tonic", "kube", "vaultrs", "rusqlite", "sandboxd"],
    );
}

#[test]
fn no_second_tls_provider_is_linked() {
    for of in ["sandboxd", "mcp-bridge", "approver", "sandbox-runner"] {
        let tree = tree(of);
        for other in ["openssl", "native-tls", "aws-lc-rs", "aws-lc-sys"] {
            assert!(!tree.contains(other), "{of} reaches {other}");
        }
    }
}

/// Inside the daemon the same idea, by module.
#[test]
fn each_client_is_named_in_its_own_module_alone() {
    let rules: &[(&[&str], &[&str])] = &[
        (&["vaultrs", "rustify"], &["broker"]),
        (&["rusqlite"], &["store"]),
        (&["kube::", "k8s_openapi"], &["sandbox", "verify"]),
        (
            &["sandbox_proto::agent", "sandbox_proto::approver"],
            &["grpc", "verify"],
        ),
    ];
    let src = workspace().join("daemon/src");
    let mut read = 0;
    for file in rust_files(&src) {
        let text = std::fs::read_to_string(&file).unwrap();
        let place = file.strip_prefix(&src).unwrap().with_extension("");
        let module = place.iter().next().unwrap().to_str().unwrap().to_owned();
        read += 1;
        for (words, modules) in rules {
            for line in text.lines().filter(|l| !l.trim_start().starts_with("//")) {
                for word in *words {
                    let named =
                        line.contains(&format!("use {word}")) || line.contains(&format!(" {word}"));
                    let allowed = modules.contains(&module.as_str());
                    assert!(
                        !named || allowed || line.contains('"'),
                        "{}: {line}",
                        file.display()
                    );
                }
            }
        }
    }
    assert!(read > 30, "only {read} files were read");
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    files
}
