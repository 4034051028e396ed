//! A call held in the middle: its sandbox is stopped right after `sandbox.started`, when the credential is
//! there and on its way in, and before the work is done.

use std::collections::HashMap;
use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::bridge::Bridge;
use crate::cluster::items;
use crate::daemon::at_rest;
use crate::trail::{Event, Trail};

/// A read takes some 30 ms and the stop 1 ms, but the machine may be busy.
const TRIES: usize = 8;

pub(crate) struct Frozen {
    /// The bridge's id of the call.
    pub(crate) call: u64,
    pub(crate) request: String,
    /// `credential.issued` and `sandbox.started` of it.
    pub(crate) issued: Event,
    pub(crate) started: Event,
    sandbox: Vec<Pid>,
}

impl Frozen {
    /// A call to list the pods of demo-app that stands still.
    pub(crate) fn call(bridge: &mut Bridge, trail: &Trail) -> Self {
        for _ in 0..TRIES {
            at_rest(trail);
            let sandboxes = kernels();
            let mark = trail.mark();
            let call = bridge.begin("k8s_get_pod_status", json!({ "namespace": "demo-app" }));
            let started = trail.catch(mark, |event| event.name == "sandbox.started");
            let Some(started) = started else {
                panic!("no sandbox: {}", bridge.answer(call).text());
            };
            let sandbox = sandboxes.get(started.text("pod_uid")).cloned();
            let frozen = Self {
                call,
                request: started.request.clone(),
                sandbox: sandbox.unwrap_or_default(),
                issued: crate::trail::only(&trail.since(mark), "credential.issued").clone(),
                started,
            };
            frozen.signal(Signal::STOP);
            let done = trail.since(mark);
            if !frozen.sandbox.is_empty() && !done.iter().any(|e| e.name == "sandbox.completed") {
                return frozen;
            }
            frozen.resume();
            bridge.answer(call);
        }
        panic!("in {TRIES} tries no call was caught in the middle");
    }

    /// Lets the call go on.
    pub(crate) fn resume(self) {
        drop(self);
    }

    fn signal(&self, signal: Signal) {
        for pid in &self.sandbox {
            if kill_process(*pid, signal).is_err() {
                println!("the sandbox's process {pid:?} is gone: nothing stands still");
            }
        }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.signal(Signal::CONT);
    }
}

/// The gVisor kernel of each pod in sandbox-jobs, by the pod's UID.
fn kernels() -> HashMap<String, Vec<Pid>> {
    let pods = items("/api/v1/namespaces/sandbox-jobs/pods");
    let uids = pods.iter().map(|pod| pod["metadata"]["uid"].as_str());
    let mut kernels: HashMap<String, Vec<Pid>> = uids
        .map(|uid| (uid.unwrap().to_owned(), Vec::new()))
        .collect();
    for entry in fs::read_dir("/proc").unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().and_then(|name| name.to_str());
        let pid = name
            .and_then(|name| name.parse().ok())
            .and_then(Pid::from_raw);
        let (Some(pid), Ok(cgroup), Ok(command)) = (
            pid,
            fs::read_to_string(path.join("cgroup")),
            fs::read(path.join("cmdline")),
        ) else {
            continue;
        };
        if !command.starts_with(b"runsc-sandbox") {
            continue;
        }
        for (uid, pids) in &mut kernels {
            // A cgroup's name has the UID as it is or, made by systemd, with underscores.
            if cgroup.contains(uid.as_str()) || cgroup.contains(&uid.replace('-', "_")) {
                pids.push(pid);
            }
        }
    }
    kernels
}
