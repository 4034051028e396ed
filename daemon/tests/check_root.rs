//! `sandboxd check-root` tells everything that keeps a folder from being a root, and is content only when nothing
//! does. It needs no daemon.

#![cfg(test)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

struct Ground {
    folder: tempfile::TempDir,
}

impl Ground {
    /// A folder with these files, beneath a configuration whose image has the Kubernetes provider.
    fn make(files: &[(&str, &str)]) -> Self {
        let ground = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        ground.configure("");
        for (name, text) in files {
            ground.write(name, text);
        }
        ground
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path("shop").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn configure(&self, root: &str) {
        let config = format!(
            "[agents]\na = [4001]\n[kubernetes]\nkubeconfig = '/k'\n[vault]\naddress = 'https://v'\nca_file = '/c'\n\
             role_id_file = '/r'\nsecret_id_file = '/s'\nmounts = ['m']\n[policy]\nfile = '{}'\n[sandbox]\n\
             image = 'runner@sha256:{}'\nproviders = [{{ source = 'hashicorp/kubernetes', version = '1.13.4', \
             hash = 'h1:right=' }}]\n[roots.demo]\nfolder = '/srv/demo'\nnamespaces = ['demo-app']\n\
             kinds = ['deployments.apps']\n{root}",
            self.path("policy.yaml").display(),
            "a".repeat(64)
        );
        fs::write(self.path("sandboxd.toml"), config).unwrap();
        self.allow_reads("[a]");
    }

    /// A policy that lets these principals read.
    fn allow_reads(&self, principals: &str) {
        let policy = format!(
            "version: 1\nrules:\n  - name: reads\n    principals: {principals}\n    \
             actions: [k8s_get_pod_status]\n    namespaces: [other]\n    effect: allow\n"
        );
        fs::write(self.path("policy.yaml"), policy).unwrap();
    }

    fn run(&self, more: &[&str]) -> (i32, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_sandboxd"))
            .arg("check-root")
            .arg(self.path("shop"))
            .arg("--config")
            .arg(self.path("sandboxd.toml"))
            .args(more)
            .output()
            .unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(error, "");
        let said = String::from_utf8(output.stdout).unwrap();
        (output.status.code().unwrap(), said)
    }

    /// What `check-config` has against it.
    fn check_config(&self) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_sandboxd"))
            .args(["check-config", "--config"])
            .arg(self.path("sandboxd.toml"))
            .output()
            .unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.success(), error.is_empty(), "{error}");
        error
    }

    fn json(&self, more: &[&str]) -> (i32, Value) {
        let (code, said) = self.run(&[&["--json"], more].concat());
        (code, serde_json::from_str(&said).unwrap())
    }
}

const LOCK: &str = "provider \"registry.terraform.io/hashicorp/kubernetes\" {\n  version = \"1.13.4\"\n  hashes = [\"h1:right=\"]\n}\n";

/// What is told, as `file:line` and the beginning of what.
#[track_caller]
fn assert_faults(said: &Value, expected: &[(&str, &str)]) {
    let faults: Vec<(String, &str)> = said["faults"]
        .as_array()
        .unwrap()
        .iter()
        .map(|fault| {
            let line = fault["line"]
                .as_u64()
                .map_or(String::new(), |n| format!(":{n}"));
            let file = fault["file"].as_str().unwrap_or_default();
            let file = file
                .rsplit_once('/')
                .filter(|_| file.starts_with('/'))
                .map_or(file, |f| f.1);
            (format!("{file}{line}"), fault["what"].as_str().unwrap())
        })
        .collect();
    assert_eq!(faults.len(), expected.len(), "{faults:#?}");
    for ((place, what), (at, part)) in faults.iter().zip(expected) {
        assert!(place == at && what.contains(part), "{faults:#?}");
    }
}

const MAIN: &str = r#"terraform {
  backend "s3" {
    bucket = "states"
  }
}
provider "kubernetes" {
  host = "https://api.example"
}
module "net" {
  source  = "acme/net/kubernetes"
  version = "~> 1.0"
}
module "web" {
  source   = "./modules/web"
  password = var.password
}
variable "password" {
  sensitive = true
}
variable "replicas" {}
resource "kubernetes_deployment" "a" {
  metadata {
    name      = "a"
    namespace = var.namespace
  }
}
variable "namespace" {}
resource "kubernetes_role" "b" {}
resource "kubernetes_secret" "c" {
  metadata {
    name = "c"
  }
}
"#;
const WEB: &str = r#"variable "password" {}
data "kubernetes_service" "a" {
  metadata {
    name      = "a"
    namespace = "elsewhere"
  }
}
locals {
  script = templatefile("${path.module}/files/start.sh.tpl", {})
}
"#;

fn as_people_have_it() -> Ground {
    Ground::make(&[
        ("main.tf", MAIN),
        ("terraform.tfvars", "namespace = \"shop\"\n"),
        ("prod.tfvars", "replicas = 3\n"),
        ("modules/web/main.tf", WEB),
        ("modules/web/files/start.sh.tpl", "#!/bin/sh\n"),
        ("modules/web/README.md", "read me\n"),
    ])
}

#[test]
fn everything_that_is_wrong_is_told_at_once_with_its_place() {
    let ground = as_people_have_it();
    let (code, said) = ground.json(&["--namespace", "shop"]);
    assert_eq!((code, &said["ready"]), (1, &Value::Bool(false)));
    assert_faults(
        &said,
        &[
            (
                ".terraform.lock.hcl",
                "run `images/mirror --lock .` in its folder",
            ),
            ("main.tf:2", "backend \"s3\" is refused"),
            (
                "main.tf:7",
                "\"host\" in provider \"kubernetes\" is refused",
            ),
            (
                "main.tf:10",
                "module \"net\" with the source \"acme/net/kubernetes\"",
            ),
            ("main.tf:17", "the sensitive variable password has no value"),
            ("main.tf:20", "the variable replicas has no value"),
            (
                "main.tf:28",
                "resource \"kubernetes_role\" is refused: it gives out rights",
            ),
            ("main.tf:29", "it names no namespace"),
            ("main.tf:29", "no credential of Terraform's reads Secrets"),
            ("modules/web/main.tf:2", "it is in the namespace elsewhere"),
        ],
    );
    let fault = |at: usize| {
        said["faults"][at]["next"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    assert!(fault(4).contains("secrets/shop.password"), "{}", fault(4));
    assert!(fault(3).contains("scripts/connect root"), "{}", fault(3));
    assert_eq!(
        said["kinds"],
        serde_json::json!(["deployments.apps", "services"])
    );
    assert_eq!(said["namespaces"], serde_json::json!(["elsewhere", "shop"]));
    let module = &said["remote_modules"][0];
    let range = |edit: &Value| {
        let at = |n: usize| usize::try_from(edit[n].as_u64().unwrap()).unwrap();
        &MAIN[at(0)..at(1)]
    };
    assert_eq!(range(&module["edit"]["source"]), "\"acme/net/kubernetes\"");
    assert_eq!(
        range(&module["edit"]["version"]),
        "  version = \"~> 1.0\"\n"
    );

    let next = fault(5);
    assert!(
        next.contains("name the file that has it with --var-file (prod.tfvars)"),
        "{next}"
    );
    let (_, named) = ground.json(&["--namespace", "shop", "--var-file", "prod.tfvars"]);
    assert_eq!(named["faults"].as_array().unwrap().len(), 9, "{named:#}");
    let stanza = named["stanza"].as_str().unwrap();
    assert!(
        stanza.contains("var_files = [\"terraform.tfvars\", \"prod.tfvars\"]"),
        "{stanza}"
    );

    // The same for a person.
    let (code, text) = ground.run(&["--namespace", "shop"]);
    assert_eq!(code, 1);
    assert!(text.contains("\nTO MEND: 10\n"), "{text}");
    assert!(
        text.contains("  main.tf:2: backend \"s3\" is refused: "),
        "{text}"
    );
}

/// The same folder with all of it mended.
fn mended() -> Ground {
    let ground = as_people_have_it();
    let main = MAIN
        .replace("\"s3\" {\n    bucket = \"states\"\n  }", "\"local\" {}")
        .replace("  host = \"https://api.example\"\n", "")
        .replace(
            "  source  = \"acme/net/kubernetes\"\n  version = \"~> 1.0\"\n",
            "  source = \"./modules/web\"\n",
        );
    ground.write(
        "main.tf",
        main.split_once("resource \"kubernetes_role\"").unwrap().0,
    );
    ground.write("modules/web/main.tf", &WEB.replace("elsewhere", "shop"));
    ground.write("ä.auto.tfvars.json", "{\"replicas\": 3}");
    ground.write(".terraform.lock.hcl", LOCK);
    fs::create_dir(ground.path("secrets")).unwrap();
    let secret = ground.path("secrets/shop.password");
    fs::write(&secret, "canary-5d1f\n").unwrap();
    fs::set_permissions(secret, fs::Permissions::from_mode(0o600)).unwrap();
    ground
}

#[test]
fn a_folder_that_is_mended_gets_what_to_configure_and_the_next_command() {
    let ground = mended();
    let (code, said) = ground.json(&[]);
    assert_faults(&said, &[]);
    assert_eq!((code, &said["ready"]), (0, &Value::Bool(true)));
    let stanza = said["stanza"].as_str().unwrap();
    let expected = format!(
        "[roots.shop]\nfolder = \"{}\"\nnamespaces = [\"shop\"]\nkinds = [\"deployments.apps\", \"services\"]\n\
         var_files = [\"terraform.tfvars\", \"ä.auto.tfvars.json\"]\ndata_files = [\"modules/web/files/start.sh.tpl\"]\n\
         secret_vars = {{ password = \"{}\" }}\n",
        ground.path("shop").display(),
        ground.path("secrets/shop.password").display(),
    );
    assert_eq!(stanza, expected);
    let next: Vec<&str> = said["next"]
        .as_array()
        .unwrap()
        .iter()
        .map(|n| n.as_str().unwrap())
        .collect();
    // What scripts/up would take away if it were not named is named.
    let up = "scripts/up --root shop:shop:deployments.apps,services --root demo:demo-app:deployments.apps demo-app other shop";
    assert!(next.last().unwrap().ends_with(up), "{next:#?}");
    let policy = next
        .iter()
        .find(|line| line.contains("name: people-approve-shop-applies"));
    assert_eq!(
        policy.unwrap().matches("principals: [a]").count(),
        2,
        "{next:#?}"
    );
    assert!(!said.to_string().contains("canary"));

    // It is what the daemon takes, and then nothing is left to say.
    ground.configure(stanza);
    assert_eq!(ground.check_config(), "");
    let (code, again) = ground.json(&[]);
    assert_eq!((code, &again["stanza"]), (0, &said["stanza"]));
}

#[test]
fn whom_a_root_is_for_is_left_open_where_the_policy_does_not_name_exactly_one() {
    let ground = mended();
    let path = ground.path("sandboxd.toml");
    let config = fs::read_to_string(&path).unwrap();
    fs::write(path, config.replace("a = [4001]", "a = [4001]\nb = [4002]")).unwrap();
    for principals in ["[a, b]", "['*']"] {
        ground.allow_reads(principals);
        let (_, said) = ground.json(&[]);
        let next = said["next"].to_string();
        assert!(next.contains("in the place of WHO"), "{next}");
        assert_eq!(next.matches("principals: [WHO]").count(), 2, "{next}");
    }
    // Nobody gets in by forgetting it.
    ground.allow_reads("[WHO]");
    let error = ground.check_config();
    assert!(
        error.contains("line 4, column 18: the principal"),
        "{error}"
    );
}

#[test]
fn a_value_in_vault_and_the_outputs_of_a_root_stay_as_they_are_configured() {
    let ground = mended();
    let (_, said) = ground.json(&[]);
    let file = format!("\"{}\"", ground.path("secrets/shop.password").display());
    let vault = "{ vault_kv = \"kv/agent-sandbox/shop\", field = \"password\" }";
    let stanza = said["stanza"].as_str().unwrap();
    assert!(stanza.contains(&file), "{stanza}");
    let stanza = stanza.replace(&file, vault) + "agent_outputs = [\"url\"]\n";
    ground.configure(&stanza);
    let (code, said) = ground.json(&[]);
    assert_faults(&said, &[]);
    assert_eq!((code, said["stanza"].as_str()), (0, Some(stanza.as_str())));
    let notes = said["notes"].to_string();
    assert!(
        notes.contains("in Vault at kv/agent-sandbox/shop"),
        "{notes}"
    );
}

#[test]
fn a_configuration_that_lacks_what_the_folder_needs_is_told() {
    let ground = mended();
    let folder = ground.path("shop");
    let root = |name: &str, folder: &Path| {
        format!(
            "[roots.{name}]\nfolder = '{}'\nnamespaces = ['store']\nkinds = ['services']\nvar_files = ['ä.auto.tfvars.json']\n",
            folder.display()
        )
    };
    ground.configure(&root("other", &folder));
    let (code, said) = ground.json(&["--namespace", "shop"]);
    assert_eq!((code, said["root"].as_str()), (1, Some("other")));
    assert_faults(
        &said,
        &[
            ("sandboxd.toml", "roots.other.kinds lacks deployments.apps"),
            (
                "sandboxd.toml",
                "roots.other.namespaces names store, and not shop",
            ),
            ("sandboxd.toml", "roots.other.secret_vars lacks password"),
            (
                "sandboxd.toml",
                "roots.other.var_files lacks terraform.tfvars",
            ),
            ("main.tf:13", "the sensitive variable password has no value"),
        ],
    );
    ground.configure(&root("shop", Path::new("/srv/elsewhere")));
    let (_, said) = ground.json(&["--name", "shop"]);
    let what = said["faults"].to_string();
    assert!(what.contains("roots.shop is /srv/elsewhere"), "{what}");
}

#[test]
fn what_the_user_may_not_read_is_told_with_the_command_that_lets_it() {
    let ground = mended();
    let close = |name: &str, mode| {
        fs::set_permissions(ground.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    close("", 0o755);
    let binary = ground.path("sandboxd");
    fs::copy(env!("CARGO_BIN_EXE_sandboxd"), &binary).unwrap();
    let look = |folder: &str| {
        let mut command = Command::new(&binary);
        command.args(["check-root", "--json", "--config"]);
        command
            .arg(ground.path("sandboxd.toml"))
            .arg(ground.path(folder));
        // Root reads everything, so somebody else looks.
        if rustix::process::geteuid().is_root() {
            command.uid(4242).gid(4242);
        }
        let said: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        let user = said["user"].as_str().unwrap().to_owned();
        (said, user)
    };
    let next = |said: &Value, name: Value| {
        let faults = said["faults"].as_array().unwrap();
        let fault = faults.iter().find(|fault| fault["file"] == name);
        let fault = fault.unwrap_or_else(|| panic!("{name}: {said:#}"));
        fault["next"].as_str().unwrap_or_default().to_owned()
    };
    close("shop/main.tf", 0o000);
    let (said, user) = look("shop");
    let grant = format!(
        "{user} may not read it: setfacl -R -m u:{user}:rX -m d:u:{user}:rX '{}'",
        ground.path("shop").display()
    );
    let told = next(&said, "main.tf".into());
    assert!(told.starts_with(&grant), "{told}");

    // A folder above it is closed.
    fs::create_dir(ground.path("home")).unwrap();
    fs::rename(ground.path("shop"), ground.path("home/shop")).unwrap();
    close("home", 0o000);
    let (said, user) = look("home/shop");
    let home = ground.path("home").display().to_string();
    let told = next(&said, Value::Null);
    close("home", 0o755);
    assert!(
        told.contains(&format!(
            "setfacl -m u:{user}:x '{home}', or chmod o+x '{home}'"
        )),
        "{said:#}"
    );
}

#[test]
fn without_a_configuration_it_says_so_and_looks_at_the_rest() {
    let ground = mended();
    fs::remove_file(ground.path("sandboxd.toml")).unwrap();
    ground.write("more.tf", "ephemeral \"a\" \"b\" {}\n");
    let (code, said) = ground.json(&[]);
    assert_eq!(code, 1);
    assert_faults(
        &said,
        &[
            ("", "could not read the configuration"),
            ("more.tf:1", "\"ephemeral\" is refused"),
        ],
    );
    assert_eq!(
        said["kinds"],
        serde_json::json!(["deployments.apps", "services"])
    );
    let (code, said) = {
        let nothing = Ground::make(&[]);
        fs::create_dir(nothing.path("shop")).unwrap();
        nothing.json(&[])
    };
    assert_eq!(code, 1);
    assert_faults(&said, &[("", "has no *.tf or *.tf.json file")]);
}

#[test]
fn what_an_agent_wrote_cannot_draw_on_a_terminal() {
    let ground = Ground::make(&[
        (
            "main.tf",
            "variable \"a\\u001b[31m\" {}\nresource \"x\\u001b\" \"a\" {\n  metadata {\n    namespace = \"\\u202e\"\n  }\n}\n",
        ),
        ("\u{1b}.tf", ""),
        ("b\n.auto.tfvars", ""),
        ("c\u{202e}.auto.tfvars", ""),
    ]);
    let (_, text) = ground.run(&[]);
    let plain = |c: char| c == '\n' || (' '..='~').contains(&c);
    assert!(text.contains("[31m") && text.chars().all(plain), "{text:?}");
}
