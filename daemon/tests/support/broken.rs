//! Objects of the cluster taken away or added for a moment, and put right again when the test is over.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::Value;

/// Puts something back when it is dropped.
#[must_use = "what is dropped at once was never broken"]
pub struct PutBack(Option<Box<dyn FnOnce()>>);

impl PutBack {
    /// Does `undo` at the end.
    pub fn by(undo: impl FnOnce() + 'static) -> Self {
        Self(Some(Box::new(undo)))
    }
}

impl Drop for PutBack {
    fn drop(&mut self) {
        let undo = self.0.take();
        // A second panic would end the process before the others are put back.
        let undone = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            if let Some(undo) = undo {
                undo();
            }
        }));
        assert!(
            undone.is_ok() || std::thread::panicking(),
            "it was not put back: run scripts/up"
        );
    }
}

/// Deletes one object, named as for `kubectl get`.
pub fn taken_away(object: &[&str]) -> PutBack {
    let saved = kubectl(&[&["get", "-o", "json"], object].concat());
    let mut saved: Value = serde_json::from_str(&saved).unwrap();
    let metadata = saved["metadata"].as_object_mut().unwrap();
    for set_by_the_server in ["uid", "resourceVersion", "creationTimestamp", "generation"] {
        metadata.remove(set_by_the_server);
    }
    metadata.remove("managedFields");
    // First, so that it comes back even if the deletion is only half done.
    let back = PutBack::by(move || create(&saved));
    kubectl(&[&["delete"], object].concat());
    back
}

/// Creates one object.
pub fn added(object: &Value) -> PutBack {
    create(object);
    let object = object.to_string();
    PutBack::by(move || drop(kubectl_with(&["delete", "-f", "-"], &object)))
}

fn create(object: &Value) {
    kubectl_with(&["create", "-f", "-"], &object.to_string());
}

/// The cluster's own kubectl, as its administrator.
pub fn kubectl(args: &[&str]) -> String {
    kubectl_with(args, "")
}

fn kubectl_with(args: &[&str], stdin: &str) -> String {
    let mut child = Command::new(format!("{}/kubectl", node("BIN_DIR")))
        .args(args)
        .env("KUBECONFIG", node("KUBECONFIG_ADMIN"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(stdin.as_bytes()).unwrap();
    drop(input);
    let out = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "kubectl {args:?}: {said}");
    String::from_utf8(out.stdout).unwrap().trim().to_owned()
}

/// What the node left word of, such as `KUBECONFIG_ADMIN`.
pub fn node(key: &str) -> String {
    let home = std::env::var("AGENT_SANDBOX_HOME");
    let home = home.unwrap_or_else(|_| "/var/lib/agent-sandbox".to_owned());
    let text = std::fs::read_to_string(format!("{home}/node/env")).expect("a node: run scripts/up");
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    value
        .unwrap_or_else(|| panic!("node/env does not name {key}"))
        .to_owned()
}
