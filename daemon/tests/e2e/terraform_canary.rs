//! Whatever an agent's source reads and prints, no value of a secret reaches the agent, a log, a process table or
//! etcd: plain, reversed, encoded, split, as a key, as a name, in an error. The trail, which is for approvers,
//! is searched for credentials.

use std::fs;

use crate::canary::{finds, scan, secrets};
use crate::cluster_lock::ClusterLock;
use crate::ground::assert_nothing_left;
use crate::own_daemon::own;
use crate::places::DAEMON;
use crate::root::Root;

const CANARY: &str = "c4narysecret0f7e2e";

/// What the agent's source could make of it.
fn shapes() -> Vec<String> {
    let reversed: String = CANARY.chars().rev().collect();
    // base64 of it, and in the middle of other text at each of the three places it can fall on.
    let encoded = [
        "YzRuYXJ5c2VjcmV0MGY3ZTJl",
        "M0bmFyeXNlY3JldDBmN2UyZ",
        "jNG5hcnlzZWNyZXQwZjdlMm",
    ];
    let mut shapes = vec![CANARY.to_owned(), CANARY.to_uppercase(), reversed];
    shapes.extend(encoded.map(str::to_owned));
    // Split: no half of it either.
    shapes.extend([CANARY[..9].to_owned(), CANARY[9..].to_owned()]);
    shapes
}

/// The secret where it is known to be one, kept in the state.
pub(crate) const KEEPS: &str = r#"
variable "password" {
  type      = string
  sensitive = true
}

resource "terraform_data" "keeps" {
  input = var.password
}

output "masked" {
  value     = "it is ${var.password}"
  sensitive = true
}
"#;

/// Every file that can be read, and the secret, put into outputs in every way.
const PRINTS: &str = r#"
locals {
  plain = nonsensitive(var.password)
  places = flatten([for folder in ["/work", "/var/run", "/etc", "/tmp", "/proc/self", "/proc/1", "/proc/thread-self"] :
    [for file in try(fileset(folder, "*"), []) : "${folder}/${file}"]])
  inside = flatten([for folder in ["/work", path.root, path.cwd] :
    [for file in try(fileset(folder, "**"), []) : "${folder}/${file}"]])
  read = { for file in setunion(local.places, local.inside) : file => try(file(file), "") }
}

output "plain" {
  value = local.plain
}

output "changed" {
  value = [strrev(local.plain), upper(local.plain), base64encode(local.plain), base64encode("a${local.plain}"),
    substr(local.plain, 0, 9), substr(local.plain, 9, -1), split("", local.plain)]
}

output "files" {
  value = local.read
}

output "reversed" {
  value = { for path, text in local.read : path => strrev(text) }
}
"#;

/// Errors that have it in their text, in an address, in what they show; and where they are.
const ERRORS: [(&str, &[&str]); 2] = [
    (
        r#"
resource "terraform_data" "said" {
  lifecycle {
    precondition {
      condition     = local.plain == "x"
      error_message = "it is ${local.plain}, ${strrev(local.plain)}"
    }
  }
}

resource "terraform_data" "keyed" {
  for_each = toset([local.plain])
  lifecycle {
    precondition {
      condition     = each.key == "x"
      error_message = "no"
    }
  }
}
"#,
        &["error.tf line 5", "error.tf line 15"],
    ),
    (
        r#"
output "path" {
  value = file("/${local.plain}")
}

output "number" {
  value = tonumber(local.plain)
}

output "index" {
  value = { a = 1 }[local.plain]
}
"#,
        &["error.tf line 3", "error.tf line 7", "error.tf line 11"],
    ),
];

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn no_value_of_a_secret_leaves_the_sandbox_whatever_the_source_prints() {
    let _lock = ClusterLock::take();
    let mut root = Root::new("e2e-canary");
    let (trail, mut bridge) = (root.trail(), root.bridge());
    let file = root.daemon.write("password", CANARY);
    own(file.as_ref(), 0o600, (DAEMON, DAEMON));
    assert!(root.daemon.terminate().success());
    root.configure(|config| {
        let demo = config["roots"]["demo"].as_table_mut().unwrap();
        let variables = toml::Table::from_iter([("password".to_owned(), file.into())]);
        demo.insert("secret_vars".to_owned(), variables.into());
    });
    root.daemon.start();

    // A secret that is marked as one, even people do not see.
    let whole = root.source("shop", 0);
    let (head, _) = whole
        .split_once("resource \"kubernetes_deployment\"")
        .unwrap();
    root.write("main.tf", head);
    root.write("keeps.tf", KEEPS);
    let approval = Root::ask(&mut bridge);
    let shown = trail.approver(&["show", &approval]).unwrap();
    assert!(shown.contains("terraform_data.keeps"), "{shown}");
    assert_eq!(finds(shown.as_bytes(), &shapes()), None, "{shown}");
    root.grant(&approval, "yes");
    let applied = Root::use_up(&mut bridge, &approval);
    assert_eq!(applied.field("outcome"), "finished", "{}", applied.text());

    // A resource whose key is the secret, so that its address is.
    let keyed = whole.replace(
        "resource \"kubernetes_deployment\" \"shop\" {\n",
        "resource \"kubernetes_deployment\" \"shop\" {\n  for_each = toset([local.plain])\n",
    );
    assert!(keyed.contains("for_each"));
    root.write("main.tf", &keyed);
    root.write("prints.tf", PRINTS);
    let planned = Root::plan(&mut bridge);
    assert_eq!(planned.field("outcome"), "finished", "{}", planned.text());
    for output in ["plain", "changed", "files", "reversed"] {
        assert!(planned.text().contains(output), "{}", planned.text());
    }
    assert!(
        planned.text().contains("kubernetes_deployment.shop[*]"),
        "{}",
        planned.text()
    );
    let applied = root.apply(&mut bridge);
    assert!(
        applied.text().contains("kubernetes_deployment.shop[*]"),
        "{}",
        applied.text()
    );
    let lives = root.uid();
    assert!(!lives.is_empty());

    for (text, places) in ERRORS {
        root.write("error.tf", text);
        let answer = Root::plan(&mut bridge);
        for place in places {
            answer.assert_refused("TERRAFORM_FAILED", place);
        }
    }
    root.remove("error.tf");
    // Refused for what it is in, or is called.
    for (old, new) in [
        ("namespace = \"demo-app\"", "namespace = local.plain"),
        (
            "app = \"e2e-canary-shop\"",
            "(local.plain) = \"/${local.plain}/\"",
        ),
    ] {
        assert!(keyed.contains(old), "{old}");
        root.write("main.tf", &keyed.replace(old, new));
        let answer = Root::plan(&mut bridge);
        let known = ["TERRAFORM_FAILED", "PLAN_REFUSED"];
        assert!(known.contains(&answer.code()), "{}", answer.text());
    }
    assert_nothing_left(&trail);

    let shapes = shapes();
    assert_eq!(
        finds(bridge.transcript.as_bytes(), &shapes),
        None,
        "{}",
        bridge.transcript
    );
    let log = root.daemon.log();
    assert_eq!(finds(log.as_bytes(), &shapes), None, "{log}");
    let everywhere = [secrets(), shapes].concat();
    let told = fs::read_to_string(&trail.file).unwrap();
    assert_eq!(finds(told.as_bytes(), &everywhere), None);
    let (_, found) = scan(&everywhere);
    assert!(found.is_empty(), "{found:?}");
}
