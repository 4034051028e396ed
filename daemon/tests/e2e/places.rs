//! Where `scripts/up` put things, and how to run them as somebody else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const AGENT: &str = "sandbox-agent";
pub(crate) const APPROVER: &str = "sandbox-approver";
pub(crate) const DAEMON: &str = "sandboxd";

/// Everything that was brought up, but for the daemon's own folders.
pub(crate) fn home() -> PathBuf {
    let home = std::env::var("AGENT_SANDBOX_HOME");
    PathBuf::from(home.unwrap_or_else(|_| "/var/lib/agent-sandbox".to_owned()))
}

pub(crate) fn installed(binary: &str) -> PathBuf {
    home().join("bin").join(binary)
}

/// What the node left word of, such as `KUBECONFIG_ADMIN`.
pub(crate) fn node(key: &str) -> PathBuf {
    let text = fs::read_to_string(home().join("node/env")).expect("a node: run scripts/up");
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    PathBuf::from(value.unwrap_or_else(|| panic!("node/env does not name {key}")))
}

/// Runs one of the project's scripts to its end.
pub(crate) fn script(path: &str, args: &[&str]) {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let out = Command::new(repository.join(path)).args(args).output();
    let out = out.unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{path} {args:?}: {said}");
}

/// `program` with the rights of `user` and one group, names or numbers, and a clean environment.
pub(crate) fn run_as(user: &str, group: &str, program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", user, "--regid", group, "--clear-groups"])
        .args(["--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"])
        .arg(program)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", home().join("home").join(user));
    command
}
