//! What Terraform itself makes of files that the check has a view on: what it reads, what it runs, what it
//! takes. Run with the Terraform of the image, 1.11; another version may read more.

#![cfg(test)]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Output};

use sandbox_bundle::lock::{self, Available, LockFault};
use sandbox_bundle::{Bundle, Limits, RootFolder, Rules, SourceFault};
use tempfile::TempDir;

/// Runs Terraform in a folder, with nothing of the machine's configuration and no way to a registry.
fn terraform(dir: &Path, args: &[&str]) -> Output {
    let home = dir.parent().unwrap();
    let mirror = format!(
        "provider_installation {{\n  filesystem_mirror {{\n    path = \"{}/mirror\"\n  }}\n}}\n",
        home.display()
    );
    fs::write(home.join("terraformrc"), mirror).unwrap();
    Command::new("terraform")
        .args(args)
        .current_dir(dir)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", home)
        .env("TF_CLI_CONFIG_FILE", home.join("terraformrc"))
        .env("CHECKPOINT_DISABLE", "1")
        .output()
        .expect("terraform is on PATH")
}

fn said(output: &Output) -> String {
    let out = String::from_utf8_lossy(&output.stdout);
    format!("{out}{}", String::from_utf8_lossy(&output.stderr))
}

/// A folder `root` with these files, in a folder of its own.
fn root(files: &[(&str, &[u8])]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("root")).unwrap();
    for (path, bytes) in files {
        let path = dir.path().join("root").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    dir
}

fn pack(dir: &TempDir) -> Result<Bundle, sandbox_bundle::PackError> {
    let root = RootFolder {
        folder: dir.path().join("root").canonicalize().unwrap(),
        var_files: Vec::new(),
        data: Vec::new(),
    };
    Bundle::pack(&root, &Limits::default())
}

fn check(dir: &TempDir) -> Result<(), Vec<SourceFault>> {
    pack(dir).unwrap().check(&Rules::default())
}

#[test]
#[ignore = "needs terraform 1.11 on PATH"]
fn what_terraform_passes_over_is_not_packed_and_what_it_reads_is() {
    for (name, read) in [
        ("a.tf", true),
        ("a.tf.json", true),
        ("#a.tf", true),
        ("~a.tf", true),
        ("a#.tf", true),
        ("a~.tf.json", true),
        ("é.tf", true),
        (".a.tf", false),
        (".#a.tf", false),
        ("a.tf~", false),
        ("#a.tf#", false),
        ("a.TF", false),
        ("a.tf.bak", false),
        ("a.tf.JSON", false),
        ("a.json", false),
        ("a.tfvars", false),
        ("a.tofu", false),
        ("a.tfquery.hcl", false),
        ("a.tftest.hcl", false),
        ("tests/a.tftest.hcl", false),
        ("folder.tf/a.tf", false),
        (".terraform/a.tf", false),
    ] {
        let dir = root(&[("main.tf", b"locals {}\n"), (name, b"<<<broken>>>\n")]);
        let output = terraform(
            &dir.path().join("root"),
            &["plan", "-input=false", "-no-color"],
        );
        assert_eq!(output.status.success(), !read, "{name}: {}", said(&output));
        let bundle = pack(&dir).unwrap();
        assert_eq!(bundle.file(name).is_some(), read, "{name}");
        assert_eq!(bundle.check(&Rules::default()).is_err(), read, "{name}");
    }
}

#[test]
#[ignore = "needs terraform 1.11 on PATH"]
fn values_that_terraform_reads_unasked_are_those_that_must_be_listed() {
    for (name, read) in [
        ("terraform.tfvars", true),
        ("terraform.tfvars.json", true),
        ("a.auto.tfvars", true),
        ("a.auto.tfvars.json", true),
        (".a.auto.tfvars", true),
        ("#a.auto.tfvars", true),
        ("a.tfvars", false),
        ("a.auto.tfvars~", false),
        (".terraform.tfvars", false),
        ("TERRAFORM.TFVARS", false),
        ("env/a.auto.tfvars", false),
        ("m/terraform.tfvars", false),
    ] {
        let call = b"module \"m\" {\n  source = \"./m\"\n}\n";
        let dir = root(&[
            ("main.tf", call),
            ("m/main.tf", b""),
            (name, b"<<<broken>>>\n"),
        ]);
        let at = dir.path().join("root");
        // init reads no values and leaves behind what plan needs to find the module.
        let init = terraform(&at, &["init", "-input=false"]);
        assert!(init.status.success(), "{}", said(&init));
        let output = terraform(&at, &["plan", "-input=false", "-no-color"]);
        assert_eq!(output.status.success(), !read, "{name}: {}", said(&output));
        assert_eq!(pack(&dir).is_err(), read, "{name}");
    }
}

#[test]
#[ignore = "needs terraform 1.11 on PATH"]
fn an_editors_link_to_nowhere_disturbs_neither() {
    let dir = root(&[("main.tf", b"locals {}\n")]);
    symlink("nobody@nowhere.1:2", dir.path().join("root/.#main.tf")).unwrap();
    let output = terraform(
        &dir.path().join("root"),
        &["plan", "-input=false", "-no-color"],
    );
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(check(&dir), Ok(()));
}

/// A provisioner that leaves a file behind when it runs.
const RUNS: &str = "{\"local-exec\": {\"command\": \"touch ran\"}}";

#[test]
#[ignore = "needs terraform 1.11 on PATH"]
fn every_form_of_json_in_which_terraform_runs_a_command_is_refused() {
    // The form, and whether Terraform runs the command in it.
    let forms = [
        (
            true,
            "{\"resource\": {\"terraform_data\": {\"a\": {\"provisioner\": P}}}}",
        ),
        (
            true,
            "[{}, {\"resource\": {\"terraform_data\": {\"a\": {\"provisioner\": P}}}}]",
        ),
        (
            true,
            "{\"resource\": [{}, {\"terraform_data\": {\"a\": {\"provisioner\": P}}}]}",
        ),
        (
            true,
            "{\"resource\": {\"terraform_data\": [{\"a\": {\"provisioner\": P}}]}}",
        ),
        (
            true,
            "{\"resource\": {\"terraform_data\": {\"a\": [{\"provisioner\": P}]}}}",
        ),
        (
            true,
            "{\"resource\": {\"terraform_data\": {\"a\": [[{\"input\": 1}, {\"provisioner\": P}]]}}}",
        ),
        (
            true,
            "{\"resource\": {\"terraform_data\": {\"a\": {\"provisioner\": [P]}}}}",
        ),
        (
            true,
            "{\"resource\": {\"terraform_data\": {\"a\": {\"provisioner\": {\"local-exec\": {\"command\": \"true\"}}, \"provisioner\": P}}}}",
        ),
        (
            true,
            "{\"resource\": {\"terraform_data\": {\"b\": {}}}, \"resource\": {\"terraform_data\": {\"a\": {\"provisioner\": P}}}}",
        ),
        (
            true,
            "{\"re\\u0073ource\": {\"terraform_data\": {\"a\": {\"prov\\u0069sioner\": P}}}}",
        ),
        (
            true,
            "{\"//\": 1, \"resource\": {\"terraform_data\": {\"a\": {\"//\": [], \"provisioner\": P}}}}",
        ),
        (
            false,
            "{\"resource\": {\"terraform_data\": {\"//\": {\"provisioner\": P}}}}",
        ),
        (
            false,
            "{\"resource\": {\"terraform_data\": {\"a\": {\"dynamic\": {\"provisioner\": {\"for_each\": [1], \"labels\": [\"local-exec\"], \"content\": {\"command\": \"touch ran\"}}}}}}}",
        ),
        (
            false,
            "{\"resource\": {\"terraform_data\": {\"a\": [[[{\"provisioner\": P}]]]}}}",
        ),
        (
            false,
            "{\"resource\": {\"terraform_data\": {\"a\": {\"_\": {\"provisioner\": P}}}}}",
        ),
    ];
    for (runs, json) in forms {
        let json = json.replace('P', RUNS);
        let dir = root(&[("main.tf.json", json.as_bytes())]);
        let at = dir.path().join("root");
        let faults = check(&dir).unwrap_err();
        assert!(!faults.is_empty());
        let output = terraform(
            &at,
            &["apply", "-auto-approve", "-input=false", "-no-color"],
        );
        assert_eq!(at.join("ran").exists(), runs, "{json}\n{}", said(&output));
    }
}

#[test]
#[ignore = "needs terraform 1.11 on PATH"]
fn every_form_of_text_in_which_terraform_runs_a_command_is_refused() {
    let native = [
        (
            true,
            "\u{feff}resource \"terraform_data\" \"a\" {\r\n  provisioner local-exec {\r\n    command = \"touch ran\"\r\n  }\r\n}",
        ),
        (
            true,
            "resource terraform_data \"\\u0061\" {\n  provisioner \"local\\u002dexec\" { command = \"touch ran\" }\n}\n",
        ),
        (
            true,
            "locals {\n  a = <<EOT\n$EOT\n%\nEOT x\n EOT\t\n}\nresource \"terraform_data\" \"a\" {\n  provisioner \"local-exec\" { command = \"touch ran\" }\n}\n",
        ),
        (
            true,
            "locals { a = \"$$${ # \" } # \"\nresource /* { \n */ \"terraform_data\" \"a\" {\n  provisioner \"local-exec\" { command = \"touch ran\" }\n}\n",
        ),
        (
            false,
            "resource \"terraform_data\" \"a\" {\n  dynamic \"provisioner\" {\n    for_each = [1]\n    labels   = [\"local-exec\"]\n    content {\n      command = \"touch ran\"\n    }\n  }\n}\n",
        ),
        (
            false,
            "resource \"terraform_data\" \"a\" {\n  lifecycle {\n    provisioner \"local-exec\" { command = \"touch ran\" }\n  }\n}\n",
        ),
        (
            false,
            "# x\rresource \"terraform_data\" \"a\" {\r  provisioner \"local-exec\" { command = \"touch ran\" }\r}\n",
        ),
    ];
    for (runs, text) in native {
        let dir = root(&[("main.tf", text.as_bytes())]);
        let at = dir.path().join("root");
        assert!(!runs || check(&dir).is_err(), "{text}");
        let output = terraform(
            &at,
            &["apply", "-auto-approve", "-input=false", "-no-color"],
        );
        assert_eq!(at.join("ran").exists(), runs, "{text}\n{}", said(&output));
    }
}

#[test]
#[ignore = "needs terraform 1.11 on PATH"]
fn a_removed_block_runs_its_provisioner_and_is_refused() {
    let dir = root(&[("main.tf", b"resource \"terraform_data\" \"a\" {}\n")]);
    let at = dir.path().join("root");
    let apply = ["apply", "-auto-approve", "-input=false", "-no-color"];
    assert!(terraform(&at, &apply).status.success());
    let removed = "removed {\n  from = terraform_data.a\n  lifecycle {\n    destroy = true\n  }\n  provisioner \"local-exec\" {\n    when    = destroy\n    command = \"touch ran\"\n  }\n}\n";
    fs::write(at.join("main.tf"), removed).unwrap();
    let faults = check(&dir).unwrap_err();
    assert_eq!(
        (faults[0].line, faults[0].what.as_str()),
        (6, "a provisioner")
    );
    let output = terraform(&at, &apply);
    assert!(at.join("ran").exists(), "{}", said(&output));
}

#[test]
#[ignore = "needs terraform 1.11 on PATH"]
fn encodings_are_taken_as_terraform_takes_them() {
    let utf16: Vec<u8> = "\u{feff}locals {}\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let files: [(&str, &[u8], bool); 9] = [
        ("main.tf", b"\xef\xbb\xbflocals {}\r\n", true),
        (
            "main.tf",
            b"locals {\r\n  a = <<EOT\r\nx\r\nEOT\r\n}\r\n",
            true,
        ),
        ("main.tf", "locals {\n  größe = 1\n}\n".as_bytes(), true),
        ("main.tf.json", b"\r\n{\t}\r\n", true),
        ("main.tf.json", b"\xef\xbb\xbf{}", false),
        ("main.tf", &utf16, false),
        ("main.tf", b"locals {\n  a = \"\xe9\"\n}\n", false),
        ("main.tf.json", b"null", false),
        ("main.tf", b"locals {\r  a = 1\r}\r", false),
    ];
    for (name, bytes, taken) in files {
        let dir = root(&[(name, bytes)]);
        let output = terraform(
            &dir.path().join("root"),
            &["plan", "-input=false", "-no-color"],
        );
        assert_eq!(
            output.status.success(),
            taken,
            "{name} {bytes:?}: {}",
            said(&output)
        );
        assert_eq!(
            check(&dir).is_ok(),
            taken,
            "{name} {bytes:?}: {:?}",
            check(&dir)
        );
        if taken {
            assert_eq!(pack(&dir).unwrap().file(name), Some(bytes));
        }
    }
}

/// Two packages of a provider that does nothing, for two platforms. `init` runs neither.
fn provider_mirror(dir: &TempDir) {
    for platform in ["linux_amd64", "darwin_arm64"] {
        let at = dir
            .path()
            .join("mirror/registry.example/acme/dummy/1.0.0")
            .join(platform);
        fs::create_dir_all(&at).unwrap();
        let program = at.join("terraform-provider-dummy_v1.0.0");
        fs::write(&program, platform).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
#[ignore = "needs terraform 1.11 on PATH, on x86-64 Linux"]
fn lock_files_pass_where_terraform_takes_them() {
    let main = b"terraform {\n  required_providers {\n    dummy = { source = \"registry.example/acme/dummy\" }\n  }\n}\n";
    let dir = root(&[("main.tf", main)]);
    provider_mirror(&dir);
    let at = dir.path().join("root");
    let lock_path = at.join(".terraform.lock.hcl");
    let lock_for = |platform: &str| {
        drop(fs::remove_file(&lock_path));
        let platform = format!("-platform={platform}");
        let output = terraform(
            &at,
            &["providers", "lock", "-fs-mirror=../mirror", &platform],
        );
        assert!(output.status.success(), "{}", said(&output));
        fs::read_to_string(&lock_path).unwrap()
    };
    let (linux, mac) = (lock_for("linux_amd64"), lock_for("darwin_arm64"));
    let hash = |lock: &str| {
        let found = lock.split('"').find(|part| part.starts_with("h1:"));
        found.unwrap().to_owned()
    };
    let mac_hash = hash(&mac);
    let image = [Available {
        source: "registry.example/acme/dummy".parse().unwrap(),
        version: "1.0.0".to_owned(),
        hashes: vec![hash(&linux)],
    }];
    let checked = || {
        lock::check(
            &pack(&dir).unwrap(),
            &image,
            &lock::mend_by_registry("linux_amd64"),
        )
    };
    for (name, text, taken) in [
        ("as it is", Some(linux.clone()), true),
        ("with CRLF", Some(linux.replace('\n', "\r\n")), true),
        (
            "with a byte order mark",
            Some(format!("\u{feff}{linux}")),
            true,
        ),
        (
            "for both",
            Some(linux.replace("    \"h1:", &format!("    \"{mac_hash}\",\n    \"h1:"))),
            true,
        ),
        ("of a Mac", Some(mac.clone()), false),
        (
            "of another version",
            Some(linux.replace("1.0.0", "1.0.1")),
            false,
        ),
        ("empty", Some(String::new()), false),
        ("damaged", Some(linux.replace('}', "")), false),
        ("missing", None, false),
    ] {
        match text {
            Some(text) => fs::write(&lock_path, text).unwrap(),
            None => fs::remove_file(&lock_path).unwrap(),
        }
        drop(fs::remove_dir_all(at.join(".terraform")));
        let output = terraform(
            &at,
            &["init", "-input=false", "-lockfile=readonly", "-no-color"],
        );
        assert_eq!(output.status.success(), taken, "{name}: {}", said(&output));
        assert_eq!(checked().is_ok(), taken, "{name}: {:?}", checked());
    }
    // And the command that is told mends it, with a mirror in the registry's place.
    fs::write(&lock_path, &mac).unwrap();
    let faults = checked().unwrap_err();
    let [LockFault::Platform { mend, .. }] = &faults[..] else {
        panic!("{faults:?}")
    };
    let mut mend: Vec<&str> = mend.split(' ').skip(1).collect();
    mend.push("-fs-mirror=../mirror");
    assert!(terraform(&at, &mend).status.success());
    assert_eq!(checked(), Ok(()));
}
