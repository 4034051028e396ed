//! The lock file against the providers of the image: what is said, and the command that mends it.

#![cfg(test)]

use sandbox_bundle::lock::{self, Available, LockFault};
use sandbox_bundle::{Bundle, File, Limits};

const MEND: &str = "terraform providers lock -platform=linux_amd64";

fn check(main: &str, lock: Option<&str>) -> Result<(), Vec<LockFault>> {
    let mut files = vec![("main.tf", main)];
    files.extend(lock.map(|lock| (".terraform.lock.hcl", lock)));
    let files = files.into_iter().map(|(path, text)| File {
        path: path.parse().unwrap(),
        bytes: text.as_bytes().to_vec(),
    });
    let bundle = Bundle::new(files.collect(), &Limits::default()).unwrap();
    let image = [Available {
        source: "registry.example/hashicorp/kubernetes".parse().unwrap(),
        version: "2.38.0".to_owned(),
        hashes: vec!["h1:linux=".to_owned(), "zh:01".to_owned()],
    }];
    lock::check(&bundle, &image, &lock::mend_by_registry("linux_amd64"))
}

fn lock_file(provider: &str, version: &str, hashes: &[&str]) -> String {
    let hashes: Vec<String> = hashes
        .iter()
        .map(|hash| format!("    \"{hash}\",\n"))
        .collect();
    let hashes = hashes.concat();
    format!(
        "# This file is maintained automatically by \"terraform init\".\n\nprovider \"{provider}\" {{\n  version     = \"{version}\"\n  constraints = \"~> 2.0\"\n  hashes = [\n{hashes}  ]\n}}\n"
    )
}

const KUBERNETES: &str = "registry.example/hashicorp/kubernetes";
const MAIN: &str = "resource \"kubernetes_namespace\" \"a\" {}\n";

#[track_caller]
fn one_fault(result: Result<(), Vec<LockFault>>) -> String {
    let faults = result.unwrap_err();
    assert_eq!(faults.len(), 1, "{faults:?}");
    faults[0].to_string()
}

#[test]
fn a_lock_file_that_fits_passes_with_any_line_ends() {
    for hashes in [
        &["h1:linux="][..],
        &["h1:mac=", "h1:linux="],
        &["h1:mac=", "zh:00", "zh:01"],
    ] {
        let text = lock_file(KUBERNETES, "2.38.0", hashes);
        assert_eq!(check(MAIN, Some(&text)), Ok(()));
        assert_eq!(check(MAIN, Some(&text.replace('\n', "\r\n"))), Ok(()));
        assert_eq!(check(MAIN, Some(&format!("\u{feff}{text}"))), Ok(()));
    }
}

#[test]
fn a_root_without_providers_needs_no_lock_file() {
    assert_eq!(
        check("resource \"terraform_data\" \"a\" {}\n", None),
        Ok(())
    );
    // What is locked and not used does not matter.
    let text = lock_file("registry.example/hashicorp/aws", "1.0.0", &["h1:x="]);
    assert_eq!(check("locals {}\n", Some(&text)), Ok(()));
}

#[test]
fn a_missing_lock_file_or_entry_gets_the_command_that_makes_it() {
    let said = one_fault(check(MAIN, None));
    assert!(
        said.contains("has no .terraform.lock.hcl") && said.contains(MEND),
        "{said}"
    );
    let said = one_fault(check(MAIN, Some("# empty\n")));
    assert!(
        said.contains("no entry for the provider hashicorp/kubernetes") && said.contains(MEND),
        "{said}"
    );
}

#[test]
fn a_lock_file_made_on_a_mac_gets_the_command_that_mends_it() {
    for hashes in [&["h1:mac="][..], &["h1:mac=", "h1:windows="], &[]] {
        let said = one_fault(check(MAIN, Some(&lock_file(KUBERNETES, "2.38.0", hashes))));
        assert!(said.starts_with(".terraform.lock.hcl:3: "), "{said}");
        assert!(
            said.contains("another platform") && said.contains(MEND),
            "{said}"
        );
    }
}

#[test]
fn a_differing_hash_is_said_louder() {
    let text = lock_file(KUBERNETES, "2.38.0", &["h1:mac=", "zh:00", "zh:02"]);
    let said = one_fault(check(MAIN, Some(&text)));
    assert!(
        said.contains("DIFFERENT CONTENT") && !said.contains(MEND),
        "{said}"
    );
}

#[test]
fn another_version_or_provider_is_named_with_what_the_image_has() {
    let said = one_fault(check(
        MAIN,
        Some(&lock_file(KUBERNETES, "2.37.0", &["h1:linux="])),
    ));
    assert!(said.contains("2.37.0, and the image has 2.38.0"), "{said}");
    let main = "resource \"aws_instance\" \"a\" {}\n";
    let text = lock_file("registry.example/hashicorp/aws", "1.0.0", &["h1:x="]);
    let said = one_fault(check(main, Some(&text)));
    assert!(said.contains("no such provider"), "{said}");
}

#[test]
fn a_lock_file_that_cannot_be_read_is_named_by_line() {
    for (text, line) in [
        ("provider \"a/b/c\" {\n", 2),
        ("\nprovider \"a/b/c\" {}\n", 2),
        ("terraform {}\n", 1),
        ("provider \"a/b/c/d\" {\n  version = \"1\"\n}\n", 1),
        (
            "provider \"a/b/c\" {\n  version = \"1\"\n  hashes = \"x\"\n}\n",
            3,
        ),
        (
            "provider \"a/b/c\" {\n  version = \"1\"\n  hashes = [x]\n}\n",
            3,
        ),
        ("<<<<<<< HEAD\n", 1),
    ] {
        let said = one_fault(check(MAIN, Some(text)));
        assert!(
            said.starts_with(&format!(".terraform.lock.hcl:{line}: ")),
            "{said}"
        );
        assert!(said.contains(MEND), "{said}");
    }
}
