//! What must be left of calls that are over: nothing but the spares.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use crate::cluster::{kubectl, object_names};
use crate::daemon::at_rest;
use crate::openbao;
use crate::places::node;
use crate::trail::Trail;
use crate::wait::until;

/// Waits until nothing is left, for as long as a proof may take; then says what is.
pub(crate) fn assert_nothing_left(trail: &Trail) {
    let spares = at_rest(trail);
    let mut left = Vec::new();
    let looked = std::time::Instant::now();
    loop {
        left.clear();
        left.extend(of_leases(trail));
        left.extend(of_jobs(trail, spares));
        if left.is_empty() {
            return;
        }
        assert!(
            looked.elapsed() < Duration::from_secs(90),
            "left behind: {left:#?}"
        );
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Of credentials: in the cluster, in OpenBao, in the journal.
pub(crate) fn of_leases(trail: &Trail) -> Vec<String> {
    let mut left = leased_objects();
    left.extend(
        openbao::leases()
            .iter()
            .map(|lease| format!("the lease {lease}")),
    );
    left.extend(
        openbao::children()
            .iter()
            .map(|policy| format!("a token for {policy}")),
    );
    left.extend(rows(
        trail,
        "SELECT 'lease ' || id || ' ' || state FROM lease WHERE state <> 'closed'",
    ));
    left.extend(rows(
        trail,
        "SELECT 'request ' || id FROM request WHERE state = 'running'",
    ));
    left
}

/// Of Jobs, beyond so many spares: in the cluster, in the journal, and streams into them.
fn of_jobs(trail: &Trail, spares: usize) -> Vec<String> {
    let mut left = rows(
        trail,
        "SELECT 'Job ' || name || ' of ' || request FROM job WHERE state = 'open' AND request IS NOT NULL",
    );
    let jobs = object_names("/apis/batch/v1/namespaces/sandbox-jobs/jobs");
    let pods = object_names("/api/v1/namespaces/sandbox-jobs/pods");
    for (what, found) in [("Jobs", jobs), ("pods", pods)] {
        if found.len() > spares {
            left.push(format!("{} {what}: {found:?}", found.len()));
        }
    }
    left
}

/// `ServiceAccounts` and `RoleBindings` that a lease made.
pub(crate) fn leased_objects() -> Vec<String> {
    let mut left = Vec::new();
    for (what, path) in [
        (
            "ServiceAccount",
            "/api/v1/namespaces/demo-app/serviceaccounts",
        ),
        (
            "RoleBinding",
            "/apis/rbac.authorization.k8s.io/v1/namespaces/demo-app/rolebindings",
        ),
    ] {
        let leased = object_names(path)
            .into_iter()
            .filter(|name| name.starts_with("sbx-"));
        left.extend(leased.map(|name| format!("{what} {name}")));
    }
    left
}

/// Removes what OpenBao was making when a request for a credential was cut off: a daemon that is killed does
/// that. Nobody has a token of it, and OpenBao rolls it back by itself, though only after ten minutes. Gives
/// how many there were.
pub(crate) fn remove_what_was_cut_off(trail: &Trail) -> usize {
    let limit = Duration::from_mins(1);
    until("no lease in OpenBao", limit, || {
        openbao::leases().is_empty().then_some(())
    });
    let issued = rows(
        trail,
        "SELECT service_account FROM lease WHERE service_account IS NOT NULL",
    );
    let path = "/apis/rbac.authorization.k8s.io/v1/namespaces/demo-app/rolebindings";
    let bindings = object_names(path).into_iter();
    let cut_off: Vec<_> = bindings
        .filter(|name| name.starts_with("sbx-") && !issued.contains(name))
        .collect();
    for name in &cut_off {
        // The ServiceAccount is the binding's: it goes with it.
        kubectl(&["-n", "demo-app", "delete", "rolebinding", name]);
    }
    cut_off.len()
}

/// Connections of process `pid` to the API server.
pub(crate) fn connections(pid: &str) -> usize {
    let address = node("NODE_IP");
    let mut command = Command::new("ss");
    command.args(["-tnpH", "state", "established", "dst"]);
    let out = out_of(&mut command, &address);
    out.lines()
        .filter(|line| line.contains(&format!("pid={pid},")))
        .count()
}

fn out_of(command: &mut Command, last: &Path) -> String {
    let out = command.arg(last).output().unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8(out.stdout).unwrap()
}

/// The journal's answer to a query of one text column. Read from a copy: opened by root, the database
/// would get files that the daemon cannot write.
pub(crate) fn rows(trail: &Trail, query: &str) -> Vec<String> {
    let state = trail.file.parent().unwrap();
    until(
        "a readable copy of the journal",
        Duration::from_secs(30),
        || {
            let copy = TempDir::new().unwrap();
            for file in ["sandboxd.db", "sandboxd.db-wal"] {
                if state.join(file).exists() {
                    fs::copy(state.join(file), copy.path().join(file)).unwrap();
                }
            }
            read(&copy.path().join("sandboxd.db"), query).ok()
        },
    )
}

fn read(database: &Path, query: &str) -> rusqlite::Result<Vec<String>> {
    let database = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // A copy made while a page was written is no answer.
    let state: String = database.query_row("PRAGMA quick_check", (), |row| row.get(0))?;
    if state != "ok" {
        return Err(rusqlite::Error::InvalidQuery);
    }
    let mut query = database.prepare(query)?;
    query.query_map((), |row| row.get(0))?.collect()
}
