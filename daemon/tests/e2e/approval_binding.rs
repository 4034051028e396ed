//! An approval is good for what was reviewed: whatever differs is named and nothing is applied; of many uses at
//! once one wins.

use std::collections::BTreeSet;

use serde_json::Value;
use toml::Table;

use crate::bridge::Bridge;
use crate::cluster_lock::ClusterLock;
use crate::ground::assert_nothing_left;
use crate::own_daemon::set;
use crate::places::AGENT;
use crate::root::{POLICY, Root, assert_launched_nothing, writes};

/// Uses at once, by two clients of one agent: a bridge takes 32.
const AT_ONCE: usize = 50;

/// A second agent: a uid of nobody.
const OTHER: u32 = 100_077;

/// What of a use differs is named.
fn assert_changed(root: &Root, bridge: &mut Bridge, approval: &str, what: &str) {
    let message = changed(approval, what);
    root.assert_not_used(bridge, approval, ("APPROVAL_CHANGED", &message));
}

fn changed(approval: &str, what: &str) -> String {
    format!("What would be applied is not what approval {approval} is for. Changed since: {what}.")
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn whatever_changes_after_a_grant_is_named_and_of_many_uses_one_applies() {
    let _lock = ClusterLock::take();
    let mut root = Root::not_started("e2e-binding");
    let (trail, mut bridge) = (root.trail(), root.bridge());
    root.write("secret.tf", "variable \"password\" {\n  type = string\n}\n");
    let password = root.daemon.write("password", "xyzzy-1");
    root.configure(|config| set_up(config, &password));
    root.daemon.start();
    let approval = Root::ask(&mut bridge);
    root.grant(&approval, "yes");
    an_edited_file_is_named(&root, &mut bridge, &approval);
    a_changed_secret_is_named(&root, &mut bridge, &approval);
    a_changed_policy_is_named(&root, &mut bridge, &approval);
    another_root_is_named(&root, &mut bridge, &approval);
    other_settings_and_somebody_else_are_told(&mut root, &mut bridge, &approval);
    assert_eq!(root.uid(), "");
    of_many_at_once_one_applies(&root, &mut bridge, &approval);
    let lives = root.uid();
    assert!(!lives.is_empty());
    a_state_that_moved_on_is_named(&mut root, &mut bridge);
    assert_eq!(root.uid(), lives);
    trail.assert_whole();
    assert_nothing_left(&trail);
}

/// One secret variable, and a second root that is the first one but for its name.
fn set_up(config: &mut Table, password: &str) {
    let roots = config["roots"].as_table_mut().unwrap();
    let mut demo = roots["demo"].clone();
    let secrets = Table::from_iter([("password".to_owned(), password.into())]);
    let settings = demo.as_table_mut().unwrap();
    settings.insert("secret_vars".to_owned(), secrets.into());
    roots.insert("demo".to_owned(), demo.clone());
    roots.insert("other".to_owned(), demo);
}

fn an_edited_file_is_named(root: &Root, bridge: &mut Bridge, approval: &str) {
    root.write("more.tf", "locals {\n  more = 1\n}\n");
    assert_changed(root, bridge, approval, "bundle");
    root.remove("more.tf");
    for file in ["main.tf", "terraform.tfvars"] {
        let text = root.read(file);
        root.write(file, &(text.clone() + "# edited\n"));
        assert_changed(root, bridge, approval, "bundle");
        root.write(file, &text);
    }
    let lock_file = root.read(".terraform.lock.hcl");
    root.write(".terraform.lock.hcl", &(lock_file.clone() + "# edited\n"));
    assert_changed(root, bridge, approval, "bundle, lock file");
    root.write(".terraform.lock.hcl", &lock_file.replace("h1:", "h1:A"));
    let refused = ("SOURCE_REFUSED", ".terraform.lock.hcl:");
    root.assert_not_used(bridge, approval, refused);
    root.write(".terraform.lock.hcl", &lock_file);
}

/// By name alone.
fn a_changed_secret_is_named(root: &Root, bridge: &mut Bridge, approval: &str) {
    root.daemon.write("password", "xyzzy-2");
    assert_changed(root, bridge, approval, "variable values");
    assert!(!bridge.transcript.contains("xyzzy"));
    root.daemon.write("password", "xyzzy-1");
}

fn another_root_is_named(root: &Root, bridge: &mut Bridge, approval: &str) {
    root.have_policy("roots: [demo]", "roots: [demo, other]");
    let answer = Root::use_up_in(bridge, "other", approval);
    let message = changed(approval, "parameters, root, credential scope");
    answer.assert_refused("APPROVAL_CHANGED", &message);
    assert_launched_nothing(&root.trail(), answer.request_id());
    root.have_policy("", "");
}

fn a_changed_policy_is_named(root: &Root, bridge: &mut Bridge, approval: &str) {
    root.have_policy("quorum: 1", "quorum: 2");
    assert_changed(root, bridge, approval, "quorum");
    root.have_policy("people-approve-demo-applies", "other-people-do");
    assert_changed(root, bridge, approval, "policy rule");
    let asks = "require_approval: { quorum: 1, expires_after_minutes: 30 }";
    root.have_policy(asks, "deny: { reason: no applies today }");
    root.assert_not_used(bridge, approval, ("POLICY_DENIED", "no applies today"));
    root.have_policy("", "");
}

/// The image and the root's settings; another agent's use, and that of an id which nobody has.
fn other_settings_and_somebody_else_are_told(root: &mut Root, bridge: &mut Bridge, approval: &str) {
    let trail = &root.trail();
    let password = root.daemon.path("password");
    root.configure(|config| {
        set_up(config, &password);
        set(config, "agents", "other-agent", vec![i64::from(OTHER)]);
        let image = config["sandbox"]["image"].as_str().unwrap();
        let image = format!("{}@sha256:{:064}", image.split('@').next().unwrap(), 0);
        set(config, "sandbox", "image", image);
        let demo = config["roots"]["demo"].as_table_mut().unwrap();
        let kinds = demo["kinds"].as_array_mut().unwrap();
        kinds.push("configmaps".into());
    });
    root.write_policy(&POLICY.replace("[demo-agent]", "[demo-agent, other-agent]"));
    root.daemon.restart();
    assert_changed(root, bridge, approval, "root settings, runner image");
    let socket = root.daemon.path("agent/agent.sock");
    let mut other = Bridge::start_as(&OTHER.to_string(), AGENT, Some(socket.as_ref()));
    for (bridge, id) in [(&mut other, approval), (bridge, "aaaaaaaaaaaa")] {
        let answer = Root::use_up(bridge, id);
        answer.assert_refused("NO_SUCH_APPROVAL", "or it is somebody else's");
        assert_launched_nothing(trail, answer.request_id());
    }
    drop(other);
    root.configure(|config| set_up(config, &password));
    root.write_policy(POLICY);
    root.daemon.restart();
}

fn of_many_at_once_one_applies(root: &Root, bridge: &mut Bridge, approval: &str) {
    let trail = &root.trail();
    let mark = trail.mark();
    let mut second = root.bridge();
    for _ in 0..AT_ONCE / 2 {
        Root::begin(bridge, approval);
        Root::begin(&mut second, approval);
    }
    let mut codes = Vec::new();
    for bridge in [&mut *bridge, &mut second] {
        for _ in 0..AT_ONCE / 2 {
            let (_, answer) = bridge.next_answer();
            let answer = bridge.end_of(answer);
            codes.push(if answer.is_error() {
                answer.code().to_owned()
            } else {
                answer.field("outcome").to_owned()
            });
        }
    }
    assert_eq!(
        codes.iter().filter(|code| *code == "finished").count(),
        1,
        "{codes:?}"
    );
    let known: BTreeSet<&str> = BTreeSet::from(["finished", "ROOT_BUSY", "APPROVAL_USED"]);
    assert!(
        codes.iter().all(|code| known.contains(code.as_str())),
        "{codes:?}"
    );
    let events = trail.since(mark);
    let consumed = events
        .iter()
        .filter(|event| event.name == "approval.consumed");
    assert_eq!(consumed.count(), 1, "{codes:?}");
    assert_eq!(
        writes(&events),
        ["POST /apis/apps/v1/namespaces/demo-app/deployments"]
    );
    root.assert_not_used(bridge, approval, ("APPROVAL_USED", approval));
}

/// And a person may still say no after a yes.
fn a_state_that_moved_on_is_named(root: &mut Root, bridge: &mut Bridge) {
    let trail = &root.trail();
    root.write("main.tf", &root.source("storefront", 0));
    let approval = Root::ask(bridge);
    root.grant(&approval, &format!("Deployment/demo-app/{}", root.name()));
    assert!(root.daemon.terminate().success());
    root.daemon
        .state("export", &root.daemon.path("state/exported"));
    let state = std::fs::read_to_string(root.daemon.path("state/exported")).unwrap();
    let serial: Value = serde_json::from_str(&state).unwrap();
    let serial = serial["serial"].as_u64().unwrap();
    let later = state.replace(
        &format!("\"serial\": {serial}"),
        &format!("\"serial\": {}", serial + 1),
    );
    assert_ne!(later, state);
    let later = root.daemon.write("later", &later);
    root.daemon.state("import", &later);
    root.daemon.start();
    assert_changed(root, bridge, &approval, "state serial");
    trail
        .approver(&["deny", &approval, "--reason", "not today"])
        .unwrap();
    root.assert_not_used(bridge, &approval, ("APPROVAL_DENIED", "not today"));
}
