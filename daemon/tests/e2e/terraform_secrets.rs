//! What of a root is secret: values that come from OpenBao, plans and states as they lie on the disk, and which
//! outputs an agent is told.

use std::fs;

use serde_json::{Value, json};
use toml::Table;

use crate::bridge::Bridge;
use crate::canary::finds;
use crate::cluster_lock::ClusterLock;
use crate::ground::{assert_nothing_left, rows};
use crate::openbao::{Away, Secret};
use crate::root::Root;
use crate::terraform_canary::KEEPS;

const CANARY: &str = "c4naryatrest5b1d90";

/// An output that Terraform does not mark, and one that is too long to be told.
const OUTPUTS: &str = r#"
output "url" {
  value = "https://shop.example/\u202e${length(nonsensitive(var.password))}"
}

output "long" {
  value = join("", [for n in range(1024) : "01234567890123456789012345678901"])
}
"#;

/// `[vault] transit` as scripts/up has it, or none; and a password of OpenBao's.
fn configure(root: &Root, transit: bool, password: (&str, &str)) {
    root.configure(|config| {
        let vault = config["vault"].as_table_mut().unwrap();
        vault.remove("transit");
        if transit {
            let key = "mount = 'transit'\nkey = 'agent-sandbox'\n";
            vault.insert("transit".to_owned(), key.parse::<Table>().unwrap().into());
        }
        let (path, field) = password;
        let of_root = format!(
            "agent_outputs = ['url', 'masked', 'long', 'gone']\n\
             [secret_vars.password]\nvault_kv = '{path}'\nfield = '{field}'\n"
        );
        let demo = config["roots"]["demo"].as_table_mut().unwrap();
        demo.extend(of_root.parse::<Table>().unwrap());
    });
}

/// The daemon again, configured otherwise.
fn again(root: &mut Root, transit: bool, password: (&str, &str)) {
    assert!(root.daemon.terminate().success());
    configure(root, transit, password);
    root.daemon.start();
}

/// Whether the secret is anywhere in the daemon's folder.
fn is_on_the_disk(root: &Root) -> bool {
    let folder = fs::read_dir(root.daemon.path("state")).unwrap();
    let files: Vec<_> = folder.map(|entry| entry.unwrap().path()).collect();
    assert!(files.iter().any(|file| file.ends_with("sandboxd.db")));
    let has = |bytes: Vec<u8>| bytes.windows(CANARY.len()).any(|w| w == CANARY.as_bytes());
    files.iter().any(|file| has(fs::read(file).unwrap()))
}

/// A root that keeps a password of OpenBao's, not planned yet.
fn root_with_a_secret(name: &str, kept: &Secret) -> Root {
    let mut root = Root::new(name);
    let whole = root.source("shop", 0);
    let (head, _) = whole
        .split_once("resource \"kubernetes_deployment\"")
        .unwrap();
    root.write("main.tf", head);
    root.write("keeps.tf", KEEPS);
    root.write("outputs.tf", OUTPUTS);
    again(&mut root, true, (&kept.path, "password"));
    root
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn a_secret_of_openbaos_is_in_no_file_of_the_daemons_and_outputs_are_told_as_listed() {
    let _lock = ClusterLock::take();
    let kept = Secret::put("e2e", &json!({ "password": CANARY, "port": 5432 }));
    let mut root = root_with_a_secret("e2e-atrest", &kept);
    let (trail, mut bridge) = (root.trail(), root.bridge());
    outputs_are_told_as_listed(&root, &mut bridge);

    // A plan that could still be applied has the secret too.
    root.write("more.tf", "output \"more\" {\n  value = 1\n}\n");
    let planned = Root::plan(&mut bridge);
    assert_eq!(planned.field("outcome"), "finished", "{}", planned.text());
    // Terraform's own file is compressed, so that it is encrypted is seen by its beginning.
    let plans = "SELECT hex(substr(bytes, 1, 5)) FROM plan WHERE bytes IS NOT NULL";
    assert_eq!(rows(&trail, plans), ["0073627801"]);
    assert!(!is_on_the_disk(&root));
    assert!(root.daemon.terminate().success());
    assert!(!is_on_the_disk(&root));
    root.daemon
        .make_folder("out", 0o700, ("sandboxd", "sandboxd"));
    let out = root.daemon.path("out/one.tfstate");
    root.daemon.state("export", &out);
    let mut state: Value = serde_json::from_str(&fs::read_to_string(&out).unwrap()).unwrap();
    assert_eq!(
        state["outputs"]["masked"]["value"],
        format!("it is {CANARY}")
    );

    import_next(&mut state, &root);
    assert!(!is_on_the_disk(&root));

    // Without the key in the configuration nothing is guessed at.
    configure(&root, false, (&kept.path, "password"));
    let out = root.daemon.path("out/two.tfstate");
    let refused = root.daemon.try_state("export", &out).unwrap_err();
    assert!(refused.contains("put vault.transit back"), "{refused}");
    root.daemon.start();
    let answer = Root::plan(&mut bridge);
    answer.assert_refused("STORE_UNAVAILABLE", "put vault.transit back");
    assert!(root.daemon.terminate().success());

    // A state that is kept in plain text is found by the same search, and is read with a key as well.
    import_next(&mut state, &root);
    assert!(is_on_the_disk(&root));
    configure(&root, true, (&kept.path, "password"));
    root.daemon.start();
    let planned = Root::plan(&mut bridge);
    assert_eq!(planned.field("outcome"), "finished", "{}", planned.text());

    values_that_are_not_there_are_named(&mut root, &mut bridge, &kept);
    let secret = [CANARY.to_owned()];
    let log = root.daemon.log();
    assert_eq!(finds(log.as_bytes(), &secret), None, "{log}");
    let told = &bridge.transcript;
    assert_eq!(finds(told.as_bytes(), &secret), None, "{told}");
    assert_nothing_left(&trail);
}

/// As an operator does who changed a state by hand.
fn import_next(state: &mut Value, root: &Root) {
    let serial = state["serial"].as_u64().unwrap();
    state["serial"] = (serial + 1).into();
    let file = root.daemon.write("next.tfstate", &state.to_string());
    root.daemon.state("import", &file);
}

fn outputs_are_told_as_listed(root: &Root, bridge: &mut Bridge) {
    let approval = Root::ask(bridge);
    let shown = root.trail().approver(&["show", &approval]).unwrap();
    assert!(shown.contains("url, masked, long, gone"), "{shown}");
    root.grant(&approval, "yes");
    let applied = Root::use_up(bridge, &approval);
    assert_eq!(applied.field("outcome"), "finished", "{}", applied.text());
    let outputs = r#"{"url":"https://shop.example/\u202e18"}"#;
    assert_eq!(applied.field("outputs_json"), outputs);
    let left_out = "Outputs that are not told: masked (sensitive), long (32770 bytes, more than there is room \
         for), gone (there is none).";
    assert_eq!(applied.field("left_out"), left_out);
    for line in [r#"Output url = "https://shop.example/\u202e18""#, left_out] {
        assert!(applied.text().contains(line), "{}", applied.text());
    }
    let ask = json!({ "request_id": applied.request_id() });
    let again = bridge.call("get_request", ask);
    let result: Value = serde_json::from_str(again.field("result_json")).unwrap();
    assert_eq!(result["outputs_json"], outputs);
    let events = root.trail().of_once(applied.request_id(), "tool.result");
    let event = crate::trail::only(&events, "terraform.applied");
    assert_eq!(event.text("outputs_told"), "url");
}

fn values_that_are_not_there_are_named(root: &mut Root, bridge: &mut Bridge, kept: &Secret) {
    for ((path, field), words) in [
        (
            (kept.path.as_str(), "user"),
            "\"user\": there is no such field",
        ),
        ((&kept.path, "port"), "\"port\": that field is no text"),
        (
            ("kv/agent-sandbox/e2e-gone", "password"),
            "there is no such secret",
        ),
        (
            ("kv/elsewhere", "password"),
            "must have read on kv/data/elsewhere",
        ),
    ] {
        again(root, true, (path, field));
        let answer = Root::plan(bridge);
        let place = format!("variable password could not be read from Vault at {path}: ");
        answer.assert_refused("VAULT_REFUSED", &place);
        assert!(answer.message().contains(words), "{}", answer.text());
    }
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn without_openbao_nothing_is_planned_and_no_approval_is_used_up() {
    let _lock = ClusterLock::take();
    let kept = Secret::put("e2e", &json!({ "password": CANARY }));
    let root = root_with_a_secret("e2e-noplan", &kept);
    let (trail, mut bridge) = (root.trail(), root.bridge());
    let approval = Root::ask(&mut bridge);
    root.grant(&approval, "yes");
    let away = Away::stopped();
    for answer in [
        Root::plan(&mut bridge),
        Root::use_up(&mut bridge, &approval),
    ] {
        answer.assert_refused("VAULT_UNAVAILABLE", "Vault does not answer");
    }
    away.bring_back();
    let applied = Root::use_up(&mut bridge, &approval);
    assert_eq!(applied.field("outcome"), "finished", "{}", applied.text());
    assert_nothing_left(&trail);
}
