//! What a root asks for is found in both syntaxes, and a module's source can be replaced without touching
//! another byte.

#![cfg(test)]

use sandbox_bundle::survey::{Namespace, Survey};
use sandbox_bundle::{Bundle, File, Limits, RootFolder, Rules};

fn survey(files: &[(&str, &str)], var_files: &[&str]) -> Survey {
    let files = files.iter().map(|(path, text)| File {
        path: path.parse().unwrap(),
        bytes: text.as_bytes().to_vec(),
    });
    let bundle = Bundle::new(files.collect(), &Limits::default()).unwrap();
    let var_files: Vec<String> = var_files.iter().map(|f| (*f).to_owned()).collect();
    bundle.survey(&var_files)
}

#[test]
fn variables_of_the_root_know_whether_they_have_a_value() {
    let native = r#"
variable "given" {}
variable "with_default" {
  default = null
}
variable "password" {
  sensitive = true
}
variable "missing" {}
"#;
    let json = r#"{"variable": {"more": {"sensitive": true}, "known": [{"default": 1}]}}"#;
    let found = survey(
        &[
            ("main.tf", native),
            ("more.tf.json", json),
            ("terraform.tfvars", "given = 1\n"),
            ("other.tfvars", "missing = 1\n"),
            ("modules/a/main.tf", "variable \"inner\" {}\n"),
        ],
        &["terraform.tfvars"],
    );
    let shown: Vec<_> = found
        .variables
        .iter()
        .map(|v| (v.name.as_str(), v.line, v.sensitive, v.has_value))
        .collect();
    assert_eq!(
        shown,
        [
            ("given", 2, false, true),
            ("with_default", 3, false, true),
            ("password", 6, true, false),
            ("missing", 9, false, false),
            ("more", 1, true, false),
            ("known", 1, false, true),
        ]
    );
    assert!(found.faults.is_empty());
    let found = survey(
        &[("main.tf", native), ("a.tfvars", "given = \n")],
        &["a.tfvars"],
    );
    assert_eq!(found.faults.len(), 1);
}

#[test]
fn resources_know_their_provider_and_their_namespace_where_it_is_written_out() {
    let main = r#"
terraform {
  required_providers {
    k8s = { source = "Registry.Example/HashiCorp/Kubernetes" }
  }
}
variable "ns" { default = "by-default" }
variable "given" { default = "hidden" }
variable "list" { default = ["x"] }
resource "kubernetes_deployment" "a" {
  metadata {
    namespace = "written"
  }
}
resource "kubernetes_deployment" "b" {
  provider = k8s.west
  metadata {
    namespace = var.ns
  }
}
resource "kubernetes_service" "c" {
  metadata {
    name = "c"
  }
}
resource "kubernetes_service" "d" {
  metadata {
    namespace = var.given
  }
}
resource "terraform_data" "e" {}
resource "kubernetes_service" "f" {
  metadata {
    namespace = "${var.ns}-x"
  }
}
check "c" {
  data "kubernetes_config_map" "g" {
    metadata {
      namespace = var.list
    }
  }
}
"#;
    let json =
        r#"{"resource": {"kubernetes_service": {"h": {"metadata": [{"namespace": "json"}]}}}}"#;
    let module =
        "resource \"kubernetes_service\" \"i\" {\n  metadata {\n    namespace = var.ns\n  }\n}\n";
    let found = survey(
        &[
            ("main.tf", main),
            ("more.tf.json", json),
            ("modules/a/main.tf", module),
            ("x.tfvars", "given = \"by-file\"\n"),
        ],
        &["x.tfvars"],
    );
    let shown: Vec<_> = found
        .resources
        .iter()
        .map(|r| {
            let namespace = match &r.namespace {
                Namespace::Named(name) => name.as_str(),
                Namespace::Absent => "absent",
                Namespace::Unseen => "unseen",
            };
            let provider = r.provider.as_deref().unwrap();
            (r.type_name.as_str(), provider, namespace, r.is_data)
        })
        .collect();
    let usual = "registry.terraform.io/hashicorp/kubernetes";
    assert_eq!(
        shown,
        [
            ("kubernetes_deployment", usual, "written", false),
            (
                "kubernetes_deployment",
                "registry.example/hashicorp/kubernetes",
                "by-default",
                false
            ),
            ("kubernetes_service", usual, "absent", false),
            ("kubernetes_service", usual, "by-file", false),
            (
                "terraform_data",
                "terraform.io/builtin/terraform",
                "unseen",
                false
            ),
            ("kubernetes_service", usual, "unseen", false),
            ("kubernetes_config_map", usual, "unseen", true),
            ("kubernetes_service", usual, "json", false),
            ("kubernetes_service", usual, "unseen", false),
        ]
    );
}

/// The file after the one edit that its only remote module asks for.
fn edited(text: &str) -> Option<String> {
    let found = survey(&[("main.tf", text)], &[]);
    let [module] = &found.modules[..] else {
        panic!("{:?}", found.modules)
    };
    let edit = module.edit.clone()?;
    let mut text = text.as_bytes().to_vec();
    let mut cuts = vec![(edit.source, "\"./m\"")];
    cuts.extend(edit.version.map(|lines| (lines, "")));
    cuts.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
    for (range, with) in cuts {
        text.splice(range, with.bytes());
    }
    Some(String::from_utf8(text).unwrap())
}

#[test]
fn another_source_changes_those_bytes_and_no_others() {
    for (before, after) in [
        (
            "module \"a\" {\n  source  = \"x/y/z\" # why\n  version = \"~> 1.0\" # pinned\n  n = 1\n}\n",
            "module \"a\" {\n  source  = \"./m\" # why\n  n = 1\n}\n",
        ),
        (
            "\u{feff}# é\r\nmodule a {\r\n\tversion = \"1\"\r\n\tsource=\"git::file:///x?ref=\\u0061\"\r\n}\r\n",
            "\u{feff}# é\r\nmodule a {\r\n\tsource=\"./m\"\r\n}\r\n",
        ),
        (
            "module \"a\" { source = \"x/y/z\" }",
            "module \"a\" { source = \"./m\" }",
        ),
        (
            "module \"a\" {\n  source = \"../outside\"\n}\n",
            "module \"a\" {\n  source = \"./m\"\n}\n",
        ),
        (
            "module \"b\" {\n  source = \"./b\"\n  version = 1\n}\nmodule \"a\" {\n  version = (\n    \"1\"\n  )\n  source = \"x/y/z\"\n}\n",
            "module \"b\" {\n  source = \"./b\"\n  version = 1\n}\nmodule \"a\" {\n  source = \"./m\"\n}\n",
        ),
    ] {
        assert_eq!(edited(before).as_deref(), Some(after), "{before}");
    }
}

#[test]
fn what_cannot_be_replaced_for_certain_has_no_edit() {
    for text in [
        "module \"a\" {\n  source = \"x/y/${z}\"\n}\n",
        "module \"a\" {\n  source = \"x/y/z\"\n  source = \"x/y/z\"\n}\n",
        "module \"a\" {\n  source = \"x/y/z\"\n  /* so */ version = \"1\"\n}\n",
        "module \"a\" {\n  source = \"x/y/z\"\n  version = \"1\" /* so\n*/\n}\n",
    ] {
        assert_eq!(edited(text), None, "{text}");
    }
    let json = r#"{"module": {"a": {"source": "x/y/z"}, "b": {"source": "./b"}}}"#;
    let found = survey(&[("main.tf.json", json)], &[]);
    assert_eq!(found.modules.len(), 1);
    assert_eq!(found.modules[0].source.as_deref(), Some("x/y/z"));
    assert_eq!(found.modules[0].edit, None);
}

#[test]
fn every_fault_is_told_however_many_there_are() {
    let blocks = "ephemeral \"a\" \"b\" {}\n".repeat(150);
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().canonicalize().unwrap();
    std::fs::write(at.join("main.tf"), blocks).unwrap();
    std::fs::write(at.join("a.auto.tfvars"), "").unwrap();
    std::os::unix::fs::symlink("main.tf", at.join("link.tf")).unwrap();
    let root = RootFolder {
        folder: at,
        var_files: vec!["gone.tfvars".to_owned()],
        data: Vec::new(),
    };
    let (bundle, faults) = Bundle::pack_all(&root, &Limits::default());
    let mut faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
    faults.sort();
    assert_eq!(faults.len(), 3, "{faults:?}");
    for (fault, part) in faults
        .iter()
        .zip(["a.auto.tfvars", "gone.tfvars", "link.tf"])
    {
        assert!(fault.contains(part), "{fault}");
    }
    assert_eq!(bundle.unwrap().check_all(&Rules::default()).len(), 150);
    // One of them is enough to keep it from being planned.
    assert!(Bundle::pack(&root, &Limits::default()).is_err());
}
