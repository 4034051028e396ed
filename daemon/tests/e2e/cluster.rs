//! The cluster, as its administrator.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::thread;

use serde_json::{Value, json};

use crate::places::node;

/// kubectl's answer.
pub(crate) fn try_kubectl(args: &[&str], input: &str) -> Result<String, String> {
    let mut child = Command::new(node("BIN_DIR").join("kubectl"))
        .arg("--kubeconfig")
        .arg(node("KUBECONFIG_ADMIN"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let feeding = thread::spawn(move || stdin.write_all(input.as_bytes()));
    let out = child.wait_with_output().unwrap();
    drop(feeding.join().unwrap()); // a kubectl that fails early does not read it all
    if out.status.success() {
        Ok(String::from_utf8(out.stdout).unwrap())
    } else {
        Err(String::from_utf8_lossy(&out.stderr).into_owned())
    }
}

pub(crate) fn kubectl(args: &[&str]) -> String {
    try_kubectl(args, "").unwrap_or_else(|e| panic!("kubectl {args:?}: {e}"))
}

/// What the API server has at `path`.
pub(crate) fn get(path: &str) -> Value {
    serde_json::from_str(&kubectl(&["get", "--raw", path])).unwrap()
}

pub(crate) fn items(path: &str) -> Vec<Value> {
    get(path)["items"].as_array().unwrap().clone()
}

pub(crate) fn object_names(path: &str) -> Vec<String> {
    let names = items(path).into_iter();
    names
        .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

/// Whether a leased account may do something, by the authorizer's word.
pub(crate) fn may(account: &str, verb: &str, resource: &str, namespace: &str) -> bool {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {
            "user": format!("system:serviceaccount:demo-app:{account}"),
            "groups": ["system:serviceaccounts", "system:serviceaccounts:demo-app", "system:authenticated"],
            "resourceAttributes": { "verb": verb, "resource": resource, "namespace": namespace },
        },
    });
    let args = ["create", "-f", "-", "-o", "jsonpath={.status.allowed}"];
    try_kubectl(&args, &review.to_string()).unwrap() == "true"
}

/// An object that is put back as it was, whatever becomes of it.
pub(crate) struct Kept {
    object: Value,
}

impl Kept {
    /// Remembers `args`, e.g. `-n sandbox-jobs configmap sandbox-images`.
    pub(crate) fn new(args: &[&str]) -> Self {
        let all: Vec<&str> = ["get", "-o", "json"].iter().chain(args).copied().collect();
        let mut object: Value = serde_json::from_str(&kubectl(&all)).unwrap();
        object.as_object_mut().unwrap().remove("status");
        let about = object["metadata"].as_object_mut().unwrap();
        for field in [
            "resourceVersion",
            "uid",
            "creationTimestamp",
            "generation",
            "managedFields",
        ] {
            about.remove(field);
        }
        Self { object }
    }

    /// Puts it back.
    pub(crate) fn put_back(&self) {
        let object = self.object.to_string();
        let replaced = try_kubectl(&["replace", "-f", "-"], &object);
        if replaced.is_err_and(|e| e.contains("NotFound")) {
            try_kubectl(&["create", "-f", "-"], &object).unwrap();
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.put_back();
    }
}
