//! Applies that stop in the middle by themselves: each says what it did and what it did not, keeps the state it
//! wrote, and the next plan is right.

use std::time::Duration;

use crate::bridge::{Answer, Bridge};
use crate::cluster::{kubectl, object_names, try_kubectl};
use crate::cluster_lock::ClusterLock;
use crate::ground::assert_nothing_left;
use crate::own_daemon::set;
use crate::root::{Root, writes};
use crate::trail::{Event, only};
use crate::wait::until;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/demo-app/deployments";
/// Keeps what is deleted where it is.
const FINALIZER: &str = "e2e.example.com/hold";
/// What no node has and none may fetch: a pod of it never gets ready.
const NO_IMAGE: &str =
    "image = \"localhost/e2e/none:1\"\n          image_pull_policy = \"Never\"\n";

/// More Deployments beside the root's own, each after the one before; gone with this.
struct More<'r> {
    root: &'r Root,
    names: &'static [&'static str],
}

impl More<'_> {
    /// The root's own Deployment, and these.
    fn source(&self, label: &str) -> String {
        let one = self.root.source(label, 0);
        let (_, block) = one
            .split_once("resource \"kubernetes_deployment\"")
            .unwrap();
        let name = format!("\"{}\"\n", self.root.name());
        let mut all = one.clone();
        let mut before = "shop";
        for more in self.names {
            let after = format!("{{\n  depends_on = [kubernetes_deployment.{before}]\n");
            let block = block.replacen("\"shop\" {\n", &format!("\"{more}\" {after}"), 1);
            let block = block.replace(&name, &format!("\"{}-{more}\"\n", self.root.name()));
            all.push_str("\nresource \"kubernetes_deployment\"");
            all.push_str(&block);
            before = more;
        }
        all
    }
}

impl Drop for More<'_> {
    fn drop(&mut self) {
        for more in self.names {
            let name = format!("{}-{more}", self.root.name());
            let delete = ["-n", "demo-app", "delete", "deployment", &name];
            kubectl(&[&delete[..], &["--ignore-not-found", "--wait=false"]].concat());
        }
    }
}

/// A quota with room for so many more Deployments; gone with this.
struct Quota;

impl Quota {
    fn leave_room_for(more: usize) -> Self {
        let hard = format!(
            "--hard=count/deployments.apps={}",
            object_names(DEPLOYMENTS).len() + more
        );
        kubectl(&["-n", "demo-app", "create", "quota", "e2e-stops", &hard]);
        let quota = Self;
        // Before that, nothing is let in at all.
        until("a quota that counts", Duration::from_secs(20), || {
            let used = "jsonpath={.status.used}";
            let used = kubectl(&["-n", "demo-app", "get", "quota", "e2e-stops", "-o", used]);
            (!used.is_empty()).then_some(())
        });
        quota
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        kubectl(&["-n", "demo-app", "delete", "quota", "e2e-stops"]);
    }
}

/// As it is shipped.
fn with_a_spare(config: &mut toml::Table) {
    set(config, "sandbox", "pool_terraform", 1);
}

/// Actions and addresses of a plan, sorted.
fn changes(planned: &Answer) -> Vec<String> {
    let changes = planned.structured()["changes"].as_array();
    let changes = changes.unwrap_or_else(|| panic!("{}", planned.text()));
    let text = |value: &serde_json::Value| {
        value
            .as_str()
            .unwrap()
            .replace("kubernetes_deployment.", "")
    };
    let mut told: Vec<_> = changes
        .iter()
        .map(|it| format!("{} {}", text(&it["action"]), text(&it["address"])))
        .collect();
    told.sort();
    told
}

/// That it says all of these.
fn assert_says(answer: &Answer, words: &[&str]) {
    for word in words {
        assert!(answer.message().contains(word), "{word}: {}", answer.text());
    }
}

/// That the next plan is empty and nothing is left over.
fn assert_all_is_done(root: &Root, bridge: &mut Bridge) {
    let planned = Root::plan(bridge);
    let outcome = planned.field("outcome");
    assert_eq!(outcome, "nothing_to_do", "{}", planned.text());
    assert_nothing_left(&root.trail());
}

fn deployment(method: &str, name: &str) -> impl Fn(&Event) -> bool {
    let (method, path) = (method.to_owned(), format!("{DEPLOYMENTS}{name}"));
    move |event| {
        event.name == "api.call" && event.text("method") == method && event.text("path") == path
    }
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn a_quota_that_stops_the_second_of_three_leaves_the_first_and_the_next_plan_has_the_rest() {
    let _lock = ClusterLock::take();
    let root = Root::with("e2e-quota", with_a_spare);
    let (trail, mut bridge) = (root.trail(), root.bridge());
    let more = More {
        root: &root,
        names: &["second", "third"],
    };
    root.write("main.tf", &more.source("shop"));
    let approval = Root::ask(&mut bridge);
    root.grant(&approval, "yes");
    let quota = Quota::leave_room_for(1);
    let stopped = Root::use_up(&mut bridge, &approval);
    stopped.assert_refused("TERRAFORM_FAILED", "Terraform could not apply all of it.");
    assert_says(
        &stopped,
        &[
            "kubernetes_deployment.second: a ResourceQuota of the namespace leaves no room for it.",
            "Applied: create kubernetes_deployment.shop.",
            "Failed: create kubernetes_deployment.second.",
            "Not started: create kubernetes_deployment.third.",
        ],
    );
    let events = trail.of_once(stopped.request_id(), "credential.proven_dead");
    assert_eq!(only(&events, "terraform.applied").text("outcome"), "failed");
    let whole = only(&events, "terraform.failed").text("summaries");
    assert!(whole.contains("exceeded quota: e2e-stops"), "{whole}");
    assert_eq!(only(&events, "tool.result").text("outcome"), "failed");

    let planned = Root::plan(&mut bridge);
    assert_eq!(changes(&planned), ["create second", "create third"]);
    drop(quota);
    let before = root.uid();
    let applied = root.apply(&mut bridge);
    assert_eq!(root.uid(), before);
    assert_eq!(
        writes(&trail.of(applied.request_id())),
        [format!("POST {DEPLOYMENTS}"), format!("POST {DEPLOYMENTS}")]
    );
    assert_all_is_done(&root, &mut bridge);
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn what_outlasts_the_deadline_has_failed_and_what_is_let_go_in_time_is_replaced() {
    let _lock = ClusterLock::take();
    let root = Root::with("e2e-late", |config| {
        with_a_spare(config);
        set(config, "limits", "terraform_seconds", 60);
    });
    let (trail, mut bridge) = (root.trail(), root.bridge());
    let own = format!("/{}", root.name());
    let typed = format!("Deployment/demo-app/{}", root.name());
    root.apply(&mut bridge);

    // Let go in time: it takes longer, and is done.
    root.hold(FINALIZER);
    let before = root.uid();
    root.write("main.tf", &root.source("storefront", 0));
    let approval = Root::ask(&mut bridge);
    root.grant(&approval, &typed);
    let mark = trail.mark();
    let call = Root::begin(&mut bridge, &approval);
    trail.wait_for(mark, "the deletion", deployment("DELETE", &own));
    let deleted = trail.mark();
    trail.wait_for(deleted, "another look at it", deployment("GET", &own));
    assert_eq!(root.uid(), before, "it is still held");
    root.let_go();
    let answer = bridge.answer(call);
    let applied = bridge.end_of(answer);
    assert_eq!(applied.field("outcome"), "finished", "{}", applied.text());
    let after = root.uid();
    assert!(!after.is_empty() && after != before, "{before}, {after}");

    // Never let go, and beside it a Deployment that never gets ready.
    let more = More {
        root: &root,
        names: &["never", "last"],
    };
    root.hold(FINALIZER);
    let good = more.source("shop");
    let last = good.rfind("resource \"kubernetes_deployment\"").unwrap();
    let first = good.find("\"never\" {").unwrap();
    let never = good[first..last]
        .replace("depends_on = [kubernetes_deployment.shop]\n", "")
        .replace("replicas = 0", "replicas = 1")
        .replace(
            "image             = var.image\n          image_pull_policy = \"IfNotPresent\"\n",
            NO_IMAGE,
        );
    assert!(never.contains(NO_IMAGE), "{never}");
    root.write("main.tf", &[&good[..first], &never, &good[last..]].concat());
    let approval = Root::ask(&mut bridge);
    root.grant(&approval, &typed);
    let stopped = Root::use_up(&mut bridge, &approval);
    stopped.assert_refused("TERRAFORM_FAILED", "Terraform was stopped before");
    assert_says(
        &stopped,
        &[
            "kubernetes_deployment.never: it was not done in time.",
            "create kubernetes_deployment.never",
            "delete kubernetes_deployment.shop",
            "Not started: ",
            "create kubernetes_deployment.shop",
            "create kubernetes_deployment.last",
            "The states it wrote are kept.",
        ],
    );
    assert!(
        !stopped.message().contains("without an end"),
        "{}",
        stopped.text()
    );
    let events = trail.of_once(stopped.request_id(), "credential.proven_dead");
    assert_eq!(only(&events, "terraform.applied").text("outcome"), "failed");

    // What is there without being ready is replaced; what was held is made anew.
    root.let_go();
    until("the end of the Deployment", Duration::from_secs(20), || {
        root.uid().is_empty().then_some(())
    });
    root.write("main.tf", &good);
    let planned = Root::plan(&mut bridge);
    assert_eq!(
        changes(&planned),
        ["create last", "create shop", "replace never"]
    );
    assert!(
        planned.text().contains("marked as damaged"),
        "{}",
        planned.text()
    );
    let approval = Root::ask(&mut bridge);
    root.grant(&approval, &format!("{typed}-never"));
    let applied = Root::use_up(&mut bridge, &approval);
    assert_eq!(applied.field("outcome"), "finished", "{}", applied.text());
    assert_all_is_done(&root, &mut bridge);
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn a_create_that_is_cut_off_after_its_request_is_told_and_brought_in_by_an_import() {
    let _lock = ClusterLock::take();
    let root = Root::with("e2e-cut-off", with_a_spare);
    let (trail, mut bridge) = (root.trail(), root.bridge());
    let waits = root.source("shop", 1).replace(
        "image             = var.image\n          image_pull_policy = \"IfNotPresent\"\n",
        NO_IMAGE,
    );
    root.write("main.tf", &waits);
    let approval = Root::ask(&mut bridge);
    root.grant(&approval, "yes");
    let mark = trail.mark();
    let call = Root::begin(&mut bridge, &approval);
    let created = trail.wait_for(mark, "the creation", deployment("POST", ""));
    let before = root.uid();
    assert!(!before.is_empty());
    let events = trail.of(&created.request);
    let pod = only(&events, "sandbox.started").text("pod").to_owned();
    kubectl(&[
        "-n",
        "sandbox-jobs",
        "delete",
        "pod",
        &pod,
        "--grace-period=0",
        "--force",
    ]);
    let answer = bridge.answer(call);
    let cut_off = bridge.end_of(answer);
    cut_off.assert_refused("APPLY_UNKNOWN", "its end was not seen");
    assert_says(
        &cut_off,
        &[
            "Begun, without an end: create kubernetes_deployment.shop.",
            "0 states of it were kept.",
            "import block",
        ],
    );
    trail.of_once(&created.request, "credential.proven_dead");
    assert!(try_kubectl(&["-n", "sandbox-jobs", "get", "pod", &pod], "").is_err(),);

    // Terraform knows of nothing, so it plans to make it; that it is there comes out when it tries.
    let planned = Root::plan(&mut bridge);
    assert_eq!(changes(&planned), ["create shop"]);
    let approval = Root::ask(&mut bridge);
    root.grant(&approval, "yes");
    let again = Root::use_up(&mut bridge, &approval);
    again.assert_refused("TERRAFORM_FAILED", "such an object is there already");
    assert_says(
        &again,
        &["import block", "Failed: create kubernetes_deployment.shop."],
    );
    assert_eq!(root.uid(), before);

    // As it was told.
    let import = format!(
        "import {{\n  to = kubernetes_deployment.shop\n  id = \"demo-app/{}\"\n}}\n",
        root.name()
    );
    root.write("import.tf", &import);
    root.write("main.tf", &root.source("shop", 0));
    let planned = Root::plan(&mut bridge);
    assert_eq!(changes(&planned), ["update shop"]);
    assert!(
        planned.field("dangers").contains("imports"),
        "{}",
        planned.text()
    );
    root.apply(&mut bridge);
    assert_eq!(root.uid(), before, "it was made anew");
    assert_all_is_done(&root, &mut bridge);
}
