//! A root as people have them, planned, reviewed, applied, changed and taken away through the daemon; and the same
//! beside it with an administrator's kubeconfig and no sandbox. `scripts/bench terraform` shows the times.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::bridge::{Answer, Bridge};
use crate::cluster::{Kept, kubectl};
use crate::cluster_lock::ClusterLock;
use crate::daemon::at_rest;
use crate::ground::assert_nothing_left;
use crate::own_daemon::{own, set};
use crate::places::{DAEMON, installed, node};
use crate::root::Root;
use crate::sixty;

const PASSWORD: &str = "hunter2-hunter2";
const APPS: &str = "toset([\"catalog\", \"orders\", \"payments\"])";

/// The rungs of the root `demo`, which reach what this root has while this lives.
struct Widened {
    _rungs: [Kept; 3],
}

impl Widened {
    fn new() -> Self {
        let rungs = ["plan", "apply", "apply-delete"].map(|rung| {
            let name = format!("sandbox-{rung}-demo");
            let object = ["-n", "demo-app", "role", &name];
            let kept = Kept::new(&object);
            let first = [&["get"], &object[..], &["-o", "jsonpath={.rules[0].verbs}"]].concat();
            let verbs: Value = serde_json::from_str(&kubectl(&first)).unwrap();
            let rule = json!({ "apiGroups": [""], "resources": ["configmaps", "services"], "verbs": verbs });
            let patch = json!([{ "op": "add", "path": "/rules/-", "value": rule }]).to_string();
            let patch = [&["patch"], &object[..], &["--type=json", "--patch", &patch]].concat();
            kubectl(&patch);
            kept
        });
        Self { _rungs: rungs }
    }
}

/// Terraform as a person runs it: the same files and provider, a namespace of its own, an administrator's rights.
struct Outside {
    folder: TempDir,
}

impl Outside {
    const NAMESPACE: &str = "e2e-sixty";

    fn new() -> Self {
        kubectl(&["create", "namespace", Self::NAMESPACE]);
        let outside = Self {
            folder: TempDir::new().unwrap(),
        };
        let cache = std::env::var("AGENT_SANDBOX_CACHE");
        let cache = PathBuf::from(cache.unwrap_or_else(|_| "/var/cache/agent-sandbox".to_owned()));
        let mirror = cache.join("providers/mirror");
        let settings = format!(
            "provider_installation {{\n  filesystem_mirror {{\n    path = {mirror:?}\n  }}\n}}\n"
        );
        fs::write(outside.folder.path().join("settings"), settings).unwrap();
        outside
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.folder.path().join("root").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn terraform(&self, args: &[&str]) -> Duration {
        let began = Instant::now();
        let out = Command::new("terraform")
            .args(args)
            .current_dir(self.folder.path().join("root"))
            .env("TF_CLI_CONFIG_FILE", self.folder.path().join("settings"))
            .env("TF_VAR_password", PASSWORD)
            .env("KUBECONFIG", node("KUBECONFIG_ADMIN"))
            .env("CHECKPOINT_DISABLE", "1")
            .output();
        let took = began.elapsed();
        let out = out.expect("Terraform 1.11 on PATH");
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "terraform {args:?}: {said}");
        took
    }

    fn plan(&self) -> Duration {
        // A sandbox begins with nothing, so this does too.
        drop(fs::remove_dir_all(
            self.folder.path().join("root/.terraform"),
        ));
        let init = self.terraform(&["init", "-input=false", "-lockfile=readonly"]);
        init + self.terraform(&["plan", "-input=false", "-out=saved"])
    }

    fn apply(&self) -> Duration {
        self.terraform(&["apply", "-input=false", "saved"])
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        kubectl(&["delete", "namespace", Self::NAMESPACE, "--wait=false"]);
    }
}

/// One change, both ways.
struct Beside<'b> {
    root: &'b Root,
    outside: &'b Outside,
    bridge: Bridge,
}

impl Beside<'_> {
    /// A file of the source.
    fn write(&self, file: &str, text: &str) {
        self.root.write(file, text);
        self.outside.write(file, text);
    }

    fn plan(&mut self, what: &str) -> Answer {
        let outside = self.outside.plan();
        at_rest(&self.root.trail());
        let began = Instant::now();
        let planned = Root::plan(&mut self.bridge);
        row(&format!("plan, {what}"), began.elapsed(), outside);
        assert!(!planned.is_error(), "{}", planned.text());
        let trail = self.root.trail();
        let events = trail.of(planned.request_id());
        let first = events.iter().find(|e| e.name == "sandbox.started").unwrap();
        assert_eq!(first.fields["pooled"], true, "{events:?}");
        planned
    }

    /// Asks, has a person look at it and type `typed`, and applies. Gives what the person saw.
    fn apply(&mut self, what: &str, typed: &str) -> String {
        let trail = self.root.trail();
        let approval = Root::ask(&mut self.bridge);
        let began = Instant::now();
        let shown = trail.approver(&["show", &approval]).unwrap();
        let looked = began.elapsed();
        println!("  {:<44} {looked:>8.1?}", format!("approver show, {what}"));
        self.root.grant(&approval, typed);
        let outside = self.outside.apply();
        at_rest(&trail);
        let began = Instant::now();
        let applied = Root::use_up(&mut self.bridge, &approval);
        row(&format!("apply, {what}"), began.elapsed(), outside);
        assert_eq!(applied.field("outcome"), "finished", "{}", applied.text());
        shown
    }
}

fn row(what: &str, inside: Duration, outside: Duration) {
    let ratio = inside.as_secs_f64() / outside.as_secs_f64();
    println!("  {what:<44} {inside:>8.1?}   outside {outside:>8.1?}   {ratio:.2} times");
}

/// Its objects in a namespace, as `kind name`.
fn there(namespace: &str) -> Vec<String> {
    let kinds = ["get", "configmaps,deployments.apps,services", "-o"];
    let columns = "custom-columns=kind:.kind,name:.metadata.name";
    let table = kubectl(&[&["-n", namespace], &kinds[..], &[columns, "--no-headers"]].concat());
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut all: Vec<_> = table.lines().map(words).collect();
    all.retain(|object| object.contains(" sixty-"));
    all.sort();
    all
}

/// Has the installed daemon serve what this root needs: more kinds, and a secret.
fn serve_more(root: &mut Root) -> Widened {
    assert!(root.daemon.terminate().success());
    // Its times are those of what is installed.
    root.daemon.run_build(&installed("sandboxd"));
    let widened = Widened::new();
    let password = root.daemon.write("password", PASSWORD);
    own(password.as_ref(), 0o600, (DAEMON, DAEMON));
    root.configure(|config| {
        set(config, "sandbox", "pool_terraform", 1); // as it is shipped
        let demo = config["roots"]["demo"].as_table_mut().unwrap();
        let secret = toml::Table::from_iter([("password".to_owned(), password.into())]);
        demo.insert("secret_vars".to_owned(), secret.into());
        let kinds = ["configmaps", "deployments.apps", "services"];
        demo.insert(
            "kinds".to_owned(),
            kinds.map(toml::Value::from).to_vec().into(),
        );
    });
    root.daemon.start();
    widened
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn sixty_resources_of_three_modules_are_made_changed_and_deleted_as_without_a_sandbox() {
    let _lock = ClusterLock::take();
    let mut root = Root::new("e2e-sixty");
    let _widened = serve_more(&mut root);
    let outside = Outside::new();
    let mut beside = Beside {
        bridge: root.bridge(),
        root: &root,
        outside: &outside,
    };
    let [(main, source), modules @ ..] = sixty::FILES;
    for (file, text) in modules {
        beside.write(file, text);
    }
    beside.write(main, source);
    beside.write(".terraform.lock.hcl", &root.read(".terraform.lock.hcl"));
    let image = root.read("terraform.tfvars");
    let values = |namespace: &str, release: &str| {
        format!("{image}namespace = \"{namespace}\"\nrelease = \"{release}\"\n")
    };
    let release = |release: &str| {
        root.write("terraform.tfvars", &values("demo-app", release));
        outside.write("terraform.tfvars", &values(Outside::NAMESPACE, release));
    };
    let mut all: Vec<_> = sixty::objects()
        .iter()
        .map(|(kind, name)| format!("{kind} {name}"))
        .collect();
    all.sort();

    println!(
        "\n60 resources in three modules, MCP in to MCP out; outside: terraform init, plan and apply"
    );
    release("1");
    let planned = beside.plan("60 to add");
    assert_eq!(
        planned.field("summary"),
        "60 to add, 1 output to change",
        "{}",
        planned.text()
    );
    let shown = beside.apply("60 to add", "yes");
    assert_eq!(there("demo-app"), all);
    assert_eq!(there(Outside::NAMESPACE), all);
    let planned = beside.plan("nothing to do");
    assert_eq!(
        planned.field("outcome"),
        "nothing_to_do",
        "{}",
        planned.text()
    );

    release("2");
    let planned = beside.plan("54 to change");
    assert!(
        planned.field("summary").starts_with("54 to change"),
        "{}",
        planned.text()
    );
    beside.apply("54 to change", "yes");
    let setting = [
        "-n",
        "demo-app",
        "get",
        "configmap",
        "sixty-orders-part-17",
        "-o",
        "jsonpath={.data}",
    ];
    let data: Value = serde_json::from_str(&kubectl(&setting)).unwrap();
    assert_eq!(data["password"], PASSWORD);
    let text = data["settings.yaml"].as_str().unwrap();
    assert!(text.contains("\"release\": \"2\""), "{text}");

    assert!(source.contains(APPS));
    beside.write(main, &source.replace(APPS, "toset([])"));
    let planned = beside.plan("60 to destroy");
    assert!(
        planned.field("summary").starts_with("60 to destroy"),
        "{}",
        planned.text()
    );
    let gone = beside.apply("60 to destroy", "Deployment/demo-app/sixty-orders");
    assert_eq!(there("demo-app"), Vec::<String>::new());

    for seen in [&shown, &gone, &beside.bridge.transcript] {
        assert!(!seen.contains(PASSWORD), "{seen}");
    }
    let trail = root.trail();
    trail.assert_whole();
    assert_nothing_left(&trail);
}
