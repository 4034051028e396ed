//! OpenBao, as its operator. No token of it is in any argument or environment.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::places::{home, script};

const MOUNTS: usize = 4;

/// What `/v1/PATH` answers.
fn ask(method: &str, path: &str, body: &str) -> Value {
    let vault = home().join("vault");
    let env = fs::read_to_string(vault.join("env")).expect("OpenBao: run scripts/up");
    let address = env
        .lines()
        .find_map(|line| line.strip_prefix("VAULT_ADDRESS="));
    let mut child = Command::new("curl")
        .args(["--silent", "--max-time", "30", "--request", method])
        .arg("--cacert")
        .arg(vault.join("ca.pem"))
        .arg("--header")
        .arg(format!("@{}", vault.join("operator/root.header").display()))
        .args(["--data-binary", "@-"])
        .arg(format!("{}/v1/{path}", address.unwrap()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(body.as_bytes())
        .unwrap();
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success(), "{method} {path}: no answer");
    serde_json::from_slice(&out.stdout).unwrap_or(Value::Null)
}

fn keys(path: &str) -> Vec<String> {
    let answer = ask("LIST", path, "");
    let keys = answer["data"]["keys"].as_array();
    let keys = keys.into_iter().flatten();
    keys.map(|key| key.as_str().unwrap().to_owned()).collect()
}

/// Leases of the engines that OpenBao has not ended, of every role.
pub(crate) fn leases() -> Vec<String> {
    let mut leases = Vec::new();
    for mount in 0..MOUNTS {
        let engine = format!("sys/leases/lookup/sandbox-k8s-{mount}/creds/");
        for role in keys(&engine) {
            leases.extend(keys(&format!("{engine}{role}")));
        }
    }
    leases
}

/// Policies of the tokens that can ask for a credential: one such token lives as long as its call.
pub(crate) fn children() -> Vec<String> {
    keys("auth/token/accessors")
        .into_iter()
        .flat_map(|accessor| {
            let body = json!({ "accessor": accessor }).to_string();
            let token = ask("POST", "auth/token/lookup-accessor", &body);
            let policies = token["data"]["policies"].as_array().cloned();
            policies.unwrap_or_default()
        })
        .filter_map(|policy| Some(policy.as_str()?.to_owned()))
        .filter(|policy| policy.starts_with("sandbox-k8s-"))
        .collect()
}

/// A secret that sandboxd may read; dropping it takes it away again.
pub(crate) struct Secret {
    /// As `secret_vars` names it.
    pub(crate) path: String,
}

impl Secret {
    pub(crate) fn put(name: &str, fields: &Value) -> Self {
        let body = json!({ "data": fields }).to_string();
        let written = ask("POST", &format!("kv/data/agent-sandbox/{name}"), &body);
        assert!(written["data"]["version"].is_u64(), "{written}");
        Self {
            path: format!("kv/agent-sandbox/{name}"),
        }
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        let path = self.path.replacen("kv/", "kv/metadata/", 1);
        ask("DELETE", &path, "");
    }
}

/// OpenBao that was ended or sealed; dropping it brings it back, unsealed.
pub(crate) struct Away(());

impl Away {
    pub(crate) fn stopped() -> Self {
        let away = Self(());
        script("cluster/vault/server", &["down"]);
        away
    }

    pub(crate) fn sealed() -> Self {
        let away = Self(());
        assert_eq!(ask("PUT", "sys/seal", ""), Value::Null);
        assert_eq!(ask("GET", "sys/seal-status", "")["sealed"], true);
        away
    }

    pub(crate) fn bring_back(self) {
        drop(self);
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        script("cluster/vault/server", &["up"]);
    }
}
