//! `sandboxd state` moves a root's state in and out, refuses what would lose one, and leaves it in the trail.
#![cfg(test)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

struct Ground {
    folder: tempfile::TempDir,
}

impl Ground {
    fn make() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        fs::create_dir(&state).unwrap();
        fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).unwrap();
        let config = format!(
            "[agents]\na = [4001]\n[state]\ndirectory = '{}'\n[kubernetes]\nkubeconfig = '/k'\n[vault]\n\
             address = 'https://v'\nca_file = '/c'\nrole_id_file = '/r'\nsecret_id_file = '/s'\nmounts = ['m']\n\
             [sandbox]\nimage = 'runner@sha256:{}'\n[roots.demo]\nfolder = '/srv/demo'\n\
             namespaces = ['demo-app']\nkinds = ['deployments.apps']\n",
            state.display(),
            "a".repeat(64)
        );
        fs::write(folder.path().join("sandboxd.toml"), config).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, verb: &str, file: &Path, more: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_sandboxd"))
            .args(["state", verb, "demo"])
            .arg(file)
            .arg("--config")
            .arg(self.path("sandboxd.toml"))
            .args(more)
            .output()
            .unwrap()
    }

    fn import(&self, lineage: &str, serial: u32, more: &[&str]) -> Result<(), String> {
        let file = self.path("given.tfstate");
        fs::write(&file, state(lineage, serial)).unwrap();
        let said = self.run("import", &file, more);
        if said.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8(said.stderr).unwrap())
        }
    }
}

fn state(lineage: &str, serial: u32) -> String {
    format!(
        r#"{{"version":4,"terraform_version":"1.11.4","serial":{serial},"lineage":"{lineage}","outputs":{{}},"resources":[]}}"#
    )
}

#[test]
fn a_state_goes_in_and_comes_out_as_it_was_and_no_older_one_takes_its_place() {
    let ground = Ground::make();
    ground.import("one", 3, &[]).unwrap();
    for (lineage, serial, word) in [
        ("one", 3, "serial"),
        ("one", 2, "serial"),
        ("two", 9, "lineage"),
    ] {
        let why = ground.import(lineage, serial, &[]).unwrap_err();
        assert!(why.contains(word), "{lineage} {serial}: {why}");
    }
    let out = ground.path("out.tfstate");
    assert!(ground.run("export", &out, &[]).status.success());
    assert_eq!(fs::read_to_string(&out).unwrap(), state("one", 3));
    let mode = fs::metadata(&out).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // What is there is not written over.
    assert!(!ground.run("export", &out, &[]).status.success());

    ground.import("one", 4, &[]).unwrap();
    ground.import("two", 1, &["--new-lineage"]).unwrap();
    let trail = fs::read_to_string(ground.path("state/audit.jsonl")).unwrap();
    let count = |event: &str| trail.matches(&format!("\"event\":\"{event}\"")).count();
    assert_eq!((count("state.imported"), count("state.exported")), (3, 1));
    let database = fs::metadata(ground.path("state/sandboxd.db")).unwrap();
    assert_eq!(database.permissions().mode() & 0o777, 0o600);
}
