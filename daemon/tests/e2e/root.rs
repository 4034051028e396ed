//! A Terraform root with a daemon of its own: the demo's source under another name, with a state, a policy and
//! approvals that begin empty.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use toml::Table;

use crate::bridge::{Answer, Bridge};
use crate::cluster::{kubectl, try_kubectl};
use crate::human;
use crate::own_daemon::{OwnDaemon, own, set, without_spares};
use crate::places::{AGENT, home};
use crate::trail::{Event, Trail, names};

/// The demo's one Deployment, as people read it.
const DEMO: &str = include_str!("../../../terraform/demo/main.tf");
/// As it is shipped.
pub(crate) const POLICY: &str = include_str!("../../../policy/policy.yaml");

pub(crate) struct Root {
    pub(crate) daemon: OwnDaemon,
    /// The Deployment's name.
    name: String,
}

impl Root {
    /// With a daemon that serves, and one Deployment in the source, which is not there yet.
    pub(crate) fn new(name: &str) -> Self {
        Self::with(name, |_| ())
    }

    /// The same under a configuration as `edit` changes it.
    pub(crate) fn with(name: &str, edit: impl FnOnce(&mut Table)) -> Self {
        let mut root = Self::not_started(name);
        root.configure(edit);
        root.daemon.start();
        root
    }

    /// The same, by a clock that stands still.
    pub(crate) fn by_a_held_clock(name: &str) -> Self {
        let mut root = Self::not_started(name);
        root.daemon.hold_clock();
        root.daemon.start();
        root
    }

    pub(crate) fn not_started(name: &str) -> Self {
        let mut daemon = OwnDaemon::new(|_| ());
        daemon.run_build(Path::new(env!("CARGO_BIN_EXE_sandboxd")));
        daemon.make_folder("root", 0o755, (AGENT, AGENT));
        let root = Self {
            daemon,
            name: name.to_owned(),
        };
        for file in ["terraform.tfvars", ".terraform.lock.hcl"] {
            let text = fs::read_to_string(home().join("roots/demo").join(file));
            root.write(file, &text.expect("a root: run scripts/up"));
        }
        root.write("main.tf", &root.source("shop", 0));
        root.write_policy(POLICY);
        root.configure(|_| ());
        root
    }

    /// One Deployment: with another label it is another one.
    pub(crate) fn source(&self, label: &str, replicas: u32) -> String {
        let label = format!("app = \"{}-{label}\"", self.name);
        let text = DEMO.replace("app = \"shop\"", &label);
        let text = text.replace("\"shop\"\n", &format!("\"{}\"\n", self.name));
        text.replace("replicas = 1", &format!("replicas = {replicas}"))
    }

    /// Writes a file of the source, as the agent's own.
    pub(crate) fn write(&self, file: &str, text: &str) {
        let path = self.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        own(&path, 0o644, (AGENT, AGENT));
    }

    pub(crate) fn read(&self, file: &str) -> String {
        fs::read_to_string(self.path(file)).unwrap()
    }

    pub(crate) fn remove(&self, file: &str) {
        fs::remove_file(self.path(file)).unwrap();
    }

    fn path(&self, file: &str) -> std::path::PathBuf {
        Path::new(&self.daemon.path("root")).join(file)
    }

    /// Writes its configuration anew, for the next start.
    pub(crate) fn configure(&self, edit: impl FnOnce(&mut Table)) {
        let (folder, policy) = (self.daemon.path("root"), self.daemon.path("policy.yaml"));
        self.daemon.configure(|config| {
            set(config, "policy", "file", policy);
            without_spares(config);
            set(config, "limits", "in_flight_per_principal", 64);
            set(config, "limits", "in_flight", 64);
            let demo = config["roots"]["demo"].as_table_mut().unwrap();
            demo.insert("folder".to_owned(), folder.into());
            // A policy may ask for two.
            set(config, "approvers", "second-approver", vec![100_078]);
            edit(config);
        });
    }

    pub(crate) fn write_policy(&self, text: &str) {
        self.daemon.write("policy.yaml", text);
    }

    /// The policy as it is shipped, with one text in the place of another, in force once this returns.
    pub(crate) fn have_policy(&self, old: &str, new: &str) {
        assert!(old.is_empty() || POLICY.contains(old), "{old}");
        let text = if old.is_empty() {
            POLICY.to_owned()
        } else {
            POLICY.replace(old, new)
        };
        self.write_policy(&text);
        let mark = self.trail().mark();
        self.daemon.reload();
        let read = self.trail().wait_for(mark, "a policy that is read", |e| {
            e.name.starts_with("policy.")
        });
        assert_eq!(read.name, "policy.loaded", "{read:?}");
    }

    pub(crate) fn trail(&self) -> Trail {
        self.daemon.trail()
    }

    pub(crate) fn bridge(&self) -> Bridge {
        self.daemon.bridge()
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The Deployment's uid; empty while there is none.
    pub(crate) fn uid(&self) -> String {
        self.look("{.metadata.uid}")
    }

    /// A field of the Deployment that lives.
    pub(crate) fn look(&self, path: &str) -> String {
        let output = format!("jsonpath={path}");
        let deployment = ["-n", "demo-app", "get", "deployment", &self.name];
        let more = ["--ignore-not-found", "-o", &output];
        kubectl(&[&deployment[..], &more[..]].concat())
    }

    /// Keeps the Deployment there when it is deleted.
    pub(crate) fn hold(&self, finalizer: &str) {
        self.set_finalizers(json!([finalizer])).unwrap();
    }

    /// Lets it go.
    pub(crate) fn let_go(&self) {
        self.set_finalizers(json!(null)).unwrap();
    }

    #[expect(clippy::needless_pass_by_value, reason = "`json!` where it is called")]
    fn set_finalizers(&self, finalizers: Value) -> Result<String, String> {
        let patch = json!({ "metadata": { "finalizers": finalizers } }).to_string();
        let deployment = ["-n", "demo-app", "patch", "deployment", &self.name];
        try_kubectl(
            &[&deployment[..], &["--type=merge", "--patch", &patch]].concat(),
            "",
        )
    }

    pub(crate) fn plan(bridge: &mut Bridge) -> Answer {
        let answer = bridge.call("terraform_plan", json!({ "working_dir": "demo" }));
        bridge.end_of(answer)
    }

    /// Asks for an approval, and gives its id.
    pub(crate) fn ask(bridge: &mut Bridge) -> String {
        let answer = bridge.call(
            "terraform_apply",
            json!({ "working_dir": "demo", "reason": "e2e" }),
        );
        let answer = bridge.end_of(answer);
        assert_eq!(
            answer.field("outcome"),
            "approval_pending",
            "{}",
            answer.text()
        );
        answer.field("approval_id").to_owned()
    }

    /// Begins an apply of an approved plan.
    pub(crate) fn begin(bridge: &mut Bridge, approval: &str) -> u64 {
        Self::begin_in(bridge, "demo", approval)
    }

    fn begin_in(bridge: &mut Bridge, root: &str, approval: &str) -> u64 {
        bridge.begin(
            "terraform_apply",
            json!({ "working_dir": root, "approval_id": approval }),
        )
    }

    /// Applies an approved plan, or tries to.
    pub(crate) fn use_up(bridge: &mut Bridge, approval: &str) -> Answer {
        Self::use_up_in(bridge, "demo", approval)
    }

    /// The same, naming that root.
    pub(crate) fn use_up_in(bridge: &mut Bridge, root: &str, approval: &str) -> Answer {
        let call = Self::begin_in(bridge, root, approval);
        let answer = bridge.answer(call);
        bridge.end_of(answer)
    }

    /// Has a person say yes. What is destroyed must be typed.
    pub(crate) fn grant(&self, approval: &str, typed: &str) {
        human::grant(&self.trail(), approval, typed);
    }

    /// Tries to use an approval that is not good: the answer says so, and no sandbox ever starts for it.
    pub(crate) fn assert_not_used(
        &self,
        bridge: &mut Bridge,
        approval: &str,
        (code, words): (&str, &str),
    ) {
        let answer = Self::use_up(bridge, approval);
        answer.assert_refused(code, words);
        assert_launched_nothing(&self.trail(), answer.request_id());
    }

    /// An approval as people see it.
    pub(crate) fn shown(&self, approval: &str) -> Value {
        let shown = self.trail().approver(&["show", approval, "--json"]);
        let mut shown: Value = serde_json::from_str(&shown.unwrap()).unwrap();
        shown["approval"].take()
    }

    /// Asks, has it granted, and applies.
    pub(crate) fn apply(&self, bridge: &mut Bridge) -> Answer {
        let approval = Self::ask(bridge);
        self.grant(&approval, "yes");
        let applied = Self::use_up(bridge, &approval);
        assert_eq!(applied.field("outcome"), "finished", "{}", applied.text());
        applied
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        drop(self.set_finalizers(json!(null))); // it may not be there
        let named = ["-n", "demo-app", "delete", "deployment", &self.name];
        kubectl(&[&named[..], &["--ignore-not-found", "--wait=false"]].concat());
    }
}

pub(crate) fn assert_launched_nothing(trail: &Trail, request: &str) {
    let events = trail.of_once(request, "tool.result");
    for begun in ["approval.consumed", "credential.issued", "sandbox.started"] {
        assert!(!names(&events).contains(&begun), "{events:?}");
    }
}

/// Calls of the API server among events, as `METHOD path`, without those that read.
pub(crate) fn writes(events: &[Event]) -> Vec<String> {
    let calls = events.iter().filter(|event| event.name == "api.call");
    let written = calls.filter(|call| call.text("method") != "GET");
    written
        .map(|call| format!("{} {}", call.text("method"), call.text("path")))
        .collect()
}
