//! `sandboxd verify` on the real cluster, with one part broken at a time: the lines about that part fail, in
//! words that say what is wrong, and no others do. Whole, it passes and leaves nothing.
//!
//! Each test puts back what it broke, even when it fails; should it be killed, `scripts/up` does.
#![cfg(test)]

#[path = "support/cluster_lock.rs"]
mod cluster_lock;
#[path = "support/broken.rs"]
mod broken;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use broken::{PutBack, added, kubectl, node, taken_away};
use cluster_lock::ClusterLock;
use serde::Deserialize;
use serde_json::json;

const CONFIG: &str = "/etc/sandboxd/sandboxd.toml";
/// How long what was changed may take until the API server and the node act on it.
const EFFECT_LIMIT: Duration = Duration::from_secs(40);

/// A test's turn, and its promise to leave everything whole: what was put back must be in force again before
/// the next one begins.
struct Turn(#[expect(dead_code, reason = "held until the end")] ClusterLock);

#[derive(Debug, Deserialize)]
struct Report {
    ok: bool,
    passed: usize,
    failed: usize,
    lines: Vec<Line>,
}

#[derive(Debug, Deserialize)]
struct Line {
    check: String,
    ok: bool,
    tried: String,
    came_back: String,
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn whole_it_passes_tells_no_secret_and_leaves_nothing() {
    let _turn = ClusterLock::take();
    let (report, text) = verify(&["--closed", &secrets()]);
    let failed: Vec<_> = report.lines.iter().filter(|line| !line.ok).collect();
    assert!(report.ok && failed.is_empty(), "{failed:#?}");
    let tried: BTreeSet<_> = report
        .lines
        .iter()
        .map(|line| line.check.as_str())
        .collect();
    assert_eq!(tried.len(), 12, "{tried:?}");
    // A JWT, and the tokens of OpenBao and Vault.
    for secret in ["eyJ", "hvs.", "\"s.", " s."] {
        assert!(!text.contains(secret), "there is a token in {text}");
    }
    let wait = "--timeout=60s";
    let made_by = "app.kubernetes.io/managed-by=sandboxd-verify";
    kubectl(&["wait", "--for=delete", wait, "namespaces", "-l", made_by]);
    kubectl(&["wait", "--for=delete", wait, "-A", "pods", "-l", made_by]);
    let left = kubectl(&["get", "-A", "jobs", "-l", made_by, "-o", "name"]);
    assert_eq!(left, "");
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn without_default_deny_the_way_in_is_open_and_egress_fails() {
    let _turn = Turn(ClusterLock::take());
    let _broken = taken_away(&["-n", "sandbox-jobs", "networkpolicy", "default-deny"]);
    fails(
        &["egress", "gvisor-kernel", "runc-pod"],
        &["egress"],
        &[
            ("dial the Job itself", "reached (PONG)"),
            ("compare the NetworkPolicies", "default-deny is missing"),
        ],
    );
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn with_a_policy_that_opens_every_way_out_egress_fails() {
    let _turn = Turn(ClusterLock::take());
    let _broken = added(&json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"name": "verify-test-mistake", "namespace": "sandbox-jobs"},
        "spec": {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{}]},
    }));
    fails(
        &["egress", "pod-security"],
        &["egress"],
        &[
            ("dial the egress probe", "reached (PONG)"),
            ("dial its node's kubelet", "reached"),
            ("have the runner prove", "egress is not closed"),
            ("compare the NetworkPolicies", "verify-test-mistake"),
        ],
    );
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn with_the_runtime_class_pointed_at_runc_the_kernel_fails() {
    let _turn = Turn(ClusterLock::take());
    // What the daemon started meanwhile is no sandbox; it starts others.
    let _spares = PutBack::by(|| {
        let ours = "app.kubernetes.io/managed-by=sandboxd";
        kubectl(&["-n", "sandbox-jobs", "delete", "jobs", "-l", ours]);
    });
    let _broken = taken_away(&["runtimeclass", "gvisor"]);
    let _runc = added(&json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
        "metadata": {"name": "gvisor"}, "handler": "runc",
    }));
    fails(
        &["gvisor-kernel", "runc-pod", "pod-security"],
        &["gvisor-kernel"],
        &[
            (
                "read the RuntimeClass gvisor",
                "its handler is runc, not runsc",
            ),
            (
                "read /proc/version in a Job",
                "that is the node's own kernel",
            ),
        ],
    );
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn with_the_issuer_bound_to_cluster_admin_the_issuer_fails() {
    let _turn = Turn(ClusterLock::take());
    let _broken = added(&json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "verify-test-mistake"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "issuer", "namespace": "sandbox-issuer"}],
    }));
    let report = fails(&["issuer", "daemon-rights", "revocation"], &["issuer"], &[]);
    for tried in [
        "make a Role",
        "make a ClusterRoleBinding",
        "bind a Role that is no rung",
        "list Secrets",
    ] {
        report.told(tried, "it was let through");
    }
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn with_secrets_for_the_daemon_its_rights_fail() {
    let _turn = Turn(ClusterLock::take());
    let metadata = json!({"name": "verify-test-mistake", "namespace": "sandbox-jobs"});
    let _role = added(&json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata,
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]}],
    }));
    let _bound = added(&json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": metadata,
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "verify-test-mistake"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "sandboxd"}],
    }));
    let report = fails(
        &["issuer", "daemon-rights"],
        &["daemon-rights"],
        &[(
            "list Secrets in sandbox-jobs",
            "sandbox-jobs: it was let through",
        )],
    );
    assert_eq!(report.failed, 1, "{:#?}", report.lines);
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn without_the_label_of_pod_security_that_line_fails() {
    const LABEL: &str = "pod-security.kubernetes.io/enforce";
    let _turn = Turn(ClusterLock::take());
    let _broken = PutBack::by(|| {
        let restored = format!("{LABEL}=restricted");
        kubectl(&["label", "namespace", "sandbox-jobs", &restored]);
    });
    kubectl(&["label", "namespace", "sandbox-jobs", &format!("{LABEL}-")]);
    // The admission policy still stands, and is not what was to be shown.
    fails(
        &["pod-security", "runc-pod"],
        &["pod-security"],
        &[(
            "make a privileged pod",
            "refused, but not by the gate that should",
        )],
    );
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn with_the_admission_policy_of_jobs_only_watching_what_rests_on_it_fails() {
    let _turn = Turn(ClusterLock::take());
    // Not deleted: an API server that once saw no binding to a ConfigMap reads none again until it restarts
    // (kubernetes/kubernetes#130887), and would go on with the list of images as it was.
    let _broken = PutBack::by(|| set_actions("Deny"));
    set_actions("Audit");
    let checks = ["runc-pod", "pod-security", "daemon-rights", "issuer"];
    fails(
        &checks,
        &["runc-pod", "daemon-rights"],
        &[
            ("make the same pod under runc", "it was let through"),
            (
                "make a Job under another ServiceAccount",
                "it was let through",
            ),
            ("make a Job of another image", "it was let through"),
        ],
    );
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn a_socket_open_to_others_is_a_failure() {
    let _turn = Turn(ClusterLock::take());
    let socket = Path::new("/run/sandboxd/agent/agent.sock");
    let _socket = reopened(socket, 0o666);
    let _folder = reopened(socket.parent().unwrap(), 0o2755);
    fails(
        &["sockets", "daemon"],
        &["sockets"],
        &[("(nobody), connect to /run/sandboxd/agent", "NOT_ADMITTED")],
    );
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn a_file_the_agent_can_read_is_a_failure() {
    let _turn = ClusterLock::take();
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "").unwrap();
    let closed = folder.path().to_str().unwrap();
    let only = ["--only", "agent-files,daemon-rights"];
    for (mode, open) in [(0o700, false), (0o711, true), (0o755, true)] {
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        let (report, _) = verify(&[&only[..], &["--closed", closed]].concat());
        assert_eq!(report.ok, !open, "{mode:o}: {:#?}", report.lines);
        if open {
            assert_eq!(report.failed_checks(), ["agent-files"].into());
            report.told("get at the daemon's", "secret can be read");
        }
    }
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn a_daemon_that_is_away_is_a_failure_and_nothing_is_skipped() {
    let _turn = ClusterLock::take();
    let folder = tempfile::tempdir().unwrap();
    let config = std::fs::read_to_string(CONFIG).unwrap();
    for socket in ["agent", "approver"] {
        std::fs::create_dir(folder.path().join(socket)).unwrap();
    }
    let moved = config.replace("/run/sandboxd", folder.path().to_str().unwrap());
    assert_ne!(moved, config);
    let file = folder.path().join("sandboxd.toml");
    std::fs::write(&file, moved).unwrap();
    let only = ["--only", "sockets,daemon"];
    let (report, _) = verify(&[&only[..], &["--config", file.to_str().unwrap()]].concat());
    let passed: Vec<_> = report.lines.iter().filter(|line| line.ok).collect();
    // All but that one ask the daemon.
    assert!(
        passed.len() == 1 && passed[0].tried.contains("login uid"),
        "{passed:#?}"
    );
    report.told("for health", "nobody was reached");
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn an_image_that_the_cluster_does_not_admit_is_named() {
    let _turn = ClusterLock::take();
    let config = std::fs::read_to_string(CONFIG).unwrap();
    let (before, after) = config.split_once("@sha256:").unwrap();
    let other = format!("{before}@sha256:{}{}", "1".repeat(64), &after[64..]);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(other.as_bytes()).unwrap();
    let file = file.path().to_str().unwrap();
    let (report, _) = verify(&["--only", "runc-pod", "--config", file]);
    report.told(
        "as the daemon's Jobs do",
        "another image than the cluster admits. Run scripts/up",
    );
}

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn what_needs_an_administrator_fails_without_one() {
    let _turn = ClusterLock::take();
    let (report, _) = run(&["--only", "gvisor-kernel,issuer,revocation"]);
    assert_eq!(
        (report.passed, report.failed),
        (0, 3),
        "{:#?}",
        report.lines
    );
    report.told("carry the check out", "give --admin-kubeconfig");
}

impl Drop for Turn {
    fn drop(&mut self) {
        let until = Instant::now() + EFFECT_LIMIT;
        let whole = std::panic::catch_unwind(|| {
            while !verify(&[]).0.ok {
                assert!(
                    Instant::now() < until,
                    "run scripts/verify to see what is left"
                );
            }
        });
        assert!(
            whole.is_ok() || std::thread::panicking(),
            "this test did not leave everything whole"
        );
    }
}

impl Report {
    fn failed_checks(&self) -> BTreeSet<&str> {
        let failed = self.lines.iter().filter(|line| !line.ok);
        failed.map(|line| line.check.as_str()).collect()
    }

    fn tells(&self, tried: &str, came_back: &str) -> bool {
        let with_these = |l: &Line| l.tried.contains(tried) && l.came_back.contains(came_back);
        self.lines.iter().any(|l| !l.ok && with_these(l))
    }

    /// There is a failed line with these words.
    #[track_caller]
    fn told(&self, tried: &str, came_back: &str) {
        assert!(
            self.tells(tried, came_back),
            "no failed line tells {tried:?}: {came_back:?} in {:#?}",
            self.lines
        );
    }
}

/// Verifies `checks` until exactly `expected` fail and every line of `told` is there. Changes take a moment, and
/// the API server takes one into force for one try before the next: the first failure is not all of it.
#[track_caller]
fn fails(checks: &[&str], expected: &[&str], told: &[(&str, &str)]) -> Report {
    let until = Instant::now() + EFFECT_LIMIT;
    let expected: BTreeSet<&str> = expected.iter().copied().collect();
    loop {
        let (report, _) = verify(&["--only", &checks.join(",")]);
        let failed = report.failed_checks();
        let all_told = told.iter().all(|(tried, back)| report.tells(tried, back));
        if (failed == expected && all_told) || Instant::now() > until {
            assert_eq!(failed, expected, "{:#?}", report.lines);
            for (tried, back) in told {
                report.told(tried, back);
            }
            return report;
        }
        assert!(
            failed.is_subset(&expected),
            "{failed:?}: {:#?}",
            report.lines
        );
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn verify(args: &[&str]) -> (Report, String) {
    let admin = node("KUBECONFIG_ADMIN");
    run(&[&["--admin-kubeconfig", admin.as_str()], args].concat())
}

/// The exit code must say what the report says.
fn run(args: &[&str]) -> (Report, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sandboxd"));
    command.args(["verify", "--json"]).args(args);
    let out = command.output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    let report: Report =
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}{said}"));
    assert_eq!(out.status.code(), Some(i32::from(!report.ok)), "{said}");
    assert_eq!(report.passed + report.failed, report.lines.len());
    assert_eq!(report.ok, report.failed == 0);
    (report, text + &said)
}

/// Another mode for a file, and its own again when this is dropped.
fn reopened(path: &Path, mode: u32) -> PutBack {
    let before = std::fs::metadata(path).unwrap().permissions();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    let path = path.to_owned();
    PutBack::by(move || std::fs::set_permissions(&path, before.clone()).unwrap())
}

/// What becomes of a Job that breaches the admission policy.
fn set_actions(action: &str) {
    let patch = json!({"spec": {"validationActions": [action]}}).to_string();
    let binding = ["validatingadmissionpolicybinding", "sandbox-jobs"];
    kubectl(
        &[
            &["patch"],
            &binding[..],
            &["--type", "merge", "--patch", &patch],
        ]
        .concat(),
    );
}

/// OpenBao's folder, with its unseal key and root token.
fn secrets() -> String {
    let node = std::path::PathBuf::from(node("CA_FILE"));
    let home = node.ancestors().nth(3).unwrap();
    home.join("vault").to_str().unwrap().to_owned()
}
