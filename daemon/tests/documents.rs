//! The documents say what is: every test they name exists, and the reference page has every
//! configuration key, error code, audit event, field and variable there is, and no other.

#![cfg(test)]

#[path = "documents/page.rs"]
mod page;
#[path = "documents/sources.rs"]
mod sources;

use std::collections::{BTreeMap, BTreeSet};

use page::{Page, Row};
use sandbox_core::audit::EventName;
use sandbox_core::parameters::ActionName;
use sandboxd::config::Config;
use sources::{Tree, arms, between, literal_after};

/// Those with invariants. Until one of them is written, the others are held to what is.
const OF_THE_PROJECT: &[&str] = &["README.md", "DESIGN.md"];
const DOCUMENTS: &[&str] = &[
    "THREAT-MODEL.md",
    "SECURITY.md",
    "CONTRIBUTING.md",
    "docs/reference.md",
];

fn reference() -> Page {
    Page::read("docs/reference.md")
}

/// The names that a section's tables begin their rows with.
fn names(rows: &[Row]) -> BTreeSet<String> {
    rows.iter().map(|row| row.name.clone()).collect()
}

#[track_caller]
fn assert_same(what: &str, on_page: &BTreeSet<String>, there_are: &BTreeSet<String>) {
    assert!(!there_are.is_empty(), "no {what} was found in the sources");
    let missing: Vec<_> = there_are.difference(on_page).collect();
    let stale: Vec<_> = on_page.difference(there_are).collect();
    assert!(
        missing.is_empty() && stale.is_empty(),
        "{what}: missing on the page {missing:?}; on the page and nowhere else {stale:?}"
    );
}

#[test]
fn every_test_a_document_names_exists() {
    let tree = Tree::read();
    let mut named = 0;
    let mut missing = Vec::new();
    let written = OF_THE_PROJECT.iter().filter_map(|path| Page::find(path));
    for page in written.chain(DOCUMENTS.iter().map(|path| Page::read(path))) {
        for reference in page.test_references() {
            named += 1;
            if !tree.has_test(&reference) {
                missing.push(format!("{} names {reference}", page.path));
            }
        }
    }
    assert!(
        named > 60,
        "only {named} tests are named, so this shows little"
    );
    assert!(missing.is_empty(), "no such test: {missing:#?}");
}

#[test]
fn a_name_that_is_no_test_is_noticed() {
    let tree = Tree::read();
    for (reference, there) in [
        (
            "tests/documents.rs::a_name_that_is_no_test_is_noticed",
            true,
        ),
        ("cluster/base/test::jobs_policy", true),
        ("verify::egress", true),
        ("tests/documents.rs::no_such_test", false),
        // A helper, and a file that has no such test.
        ("tests/documents.rs::assert_same", false),
        ("config/tests.rs::a_name_that_is_no_test_is_noticed", false),
        ("cluster/base/test::no_such_group", false),
        ("verify::no-such-check", false),
    ] {
        assert_eq!(tree.has_test(reference), there, "{reference}");
    }
}

#[test]
fn every_abuse_case_names_a_test_or_says_that_there_is_none() {
    let model = Page::read("THREAT-MODEL.md");
    let mut cases = 0;
    for line in model.table_lines() {
        cases += 1;
        let says = line.contains("no test yet") || line.contains("**nothing**");
        let names = !page::test_references(line).is_empty();
        assert!(says || names, "{line}");
    }
    assert!(cases > 40, "only {cases} cases were found");
}

/// What is wrong with the invariants of a page: one that names no test, or a name that is none.
fn faults_of_invariants(page: &Page, tests: &BTreeSet<String>) -> Vec<String> {
    let no_tests: BTreeSet<String> = keys()
        .iter()
        .filter_map(|key| key.rsplit('.').next().map(str::to_owned))
        .chain(ActionName::ALL.iter().map(|a| a.as_str().to_owned()))
        .collect();
    let mut faults = Vec::new();
    for item in page.numbered_items_under("nvariant") {
        let bare: Vec<&str> = page::spans(&item)
            .filter(|span| page::is_sentence(span) && !no_tests.contains(*span))
            .collect();
        if bare.is_empty() && page::test_references(&item).is_empty() {
            faults.push(format!("names no test: {item}"));
        }
        let unknown = bare.iter().filter(|name| !tests.contains(**name));
        faults.extend(unknown.map(|name| format!("{name} is no test")));
    }
    faults
}

#[test]
fn every_invariant_names_a_test_that_exists() {
    let tests = Tree::read().test_names();
    for document in OF_THE_PROJECT {
        let faults = Page::find(document).map(|page| faults_of_invariants(&page, &tests));
        assert_eq!(faults.unwrap_or_default(), [""; 0], "{document}");
    }
}

#[test]
fn an_invariant_that_names_no_test_is_noticed() {
    let page = Page::of(
        "# It\n1. Not an invariant.\n\n## Invariants\n1. Held (`any_swap_of_lines_is_named`),\n   \
         in `audit.rs`.\n2. By a script: `cluster/base/test::jobs_policy`.\n3. By none, for \
         `k8s_get_pod_status`.\n4. By `no_such_test_is_there`.\n\n## More\n5. Not one either.\n",
    );
    assert_eq!(page.numbered_items_under("nvariant").len(), 4);
    let faults = faults_of_invariants(&page, &Tree::read().test_names());
    assert_eq!(
        faults,
        [
            "names no test: 3. By none, for `k8s_get_pod_status`.",
            "no_such_test_is_there is no test"
        ]
    );
}

/// The keys of `sandboxd.toml`, as the structs in `config.rs` have them.
fn keys() -> BTreeSet<String> {
    let source = sources::read("daemon/src/config.rs");
    let structs = sources::deserialized_structs(&source);
    let roots = sources::read("daemon/src/config/roots.rs");
    let root = &sources::deserialized_structs(&roots)["Root"];
    let mut keys: BTreeSet<String> = root
        .iter()
        .map(|(key, _)| format!("roots.NAME.{key}"))
        .collect();
    for (section, kind) in &structs["Config"] {
        match structs.get(kind) {
            Some(fields) => keys.extend(fields.iter().map(|(key, _)| format!("{section}.{key}"))),
            None if section == "roots" => {} // a table of tables: above
            None => drop(keys.insert(section.clone())),
        }
    }
    keys
}

#[test]
fn every_configuration_key_is_on_the_page() {
    let rows = reference().rows_under("Configuration");
    assert_same("configuration keys", &names(&rows), &keys());
}

#[test]
fn the_defaults_on_the_page_are_the_ones_in_force() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let image = format!("runner@sha256:{}", "a".repeat(64));
    let short = format!(
        "[agents]\na = [4001]\n[kubernetes]\nkubeconfig = '/k'\n[sandbox]\nimage = '{image}'\n\
         [vault]\naddress = 'https://v'\nca_file = '/c'\nrole_id_file = '/r'\nsecret_id_file = '/s'\n\
         mounts = ['m']\n"
    );
    std::fs::write(file.path(), short).unwrap();
    let (c, _) = Config::load(file.path(), 4000).unwrap();
    let (listen, k, s, l) = (&c.listen, &c.kubernetes, &c.sandbox, &c.limits);
    let in_force = BTreeMap::from([
        (
            "listen.agent_socket",
            listen.agent_socket.display().to_string(),
        ),
        (
            "listen.approver_socket",
            listen.approver_socket.display().to_string(),
        ),
        ("state.directory", c.state.directory.display().to_string()),
        ("policy.file", c.policy.file.display().to_string()),
        (
            "kubernetes.sandbox_namespace",
            k.sandbox_namespace.to_string(),
        ),
        ("kubernetes.probe_namespace", k.probe_namespace.to_string()),
        (
            "kubernetes.issuer_namespace",
            k.issuer_namespace.to_string(),
        ),
        ("kubernetes.api_server_name", k.api_server_name.clone()),
        ("vault.approle_mount", c.vault.approle_mount.to_string()),
        ("sandbox.runtime_class", s.runtime_class.clone()),
        ("sandbox.pool_read", s.pool_read.to_string()),
        ("sandbox.pool_terraform", s.pool_terraform.to_string()),
        ("sandbox.max", s.max.to_string()),
        (
            "sandbox.spare_idle_seconds",
            s.spare_idle_seconds.to_string(),
        ),
        (
            "limits.in_flight_per_principal",
            l.in_flight_per_principal.to_string(),
        ),
        ("limits.in_flight", l.in_flight.to_string()),
        (
            "limits.per_minute_per_principal",
            l.per_minute_per_principal.to_string(),
        ),
        ("limits.per_minute", l.per_minute.to_string()),
        ("limits.result_bytes", l.result_bytes.to_string()),
        ("limits.read_seconds", l.read_seconds.to_string()),
        ("limits.terraform_seconds", l.terraform_seconds.to_string()),
        ("limits.plan_changes", l.plan_changes.to_string()),
        ("limits.bundle_bytes", l.bundle_bytes.to_string()),
        ("limits.bundle_files", l.bundle_files.to_string()),
        ("roots.NAME.workspace", "default".to_owned()),
        ("roots.NAME.state", "managed".to_owned()),
        (
            "limits.audit_low_water_bytes",
            l.audit_low_water_bytes.to_string(),
        ),
    ]);
    for row in reference().rows_under("Configuration") {
        let default = &row.cells[3];
        match in_force.get(row.name.as_str()) {
            Some(value) => assert_eq!(*default, format!("`{value}`"), "{}", row.name),
            None => assert!(
                matches!(default.as_str(), "required" | "none"),
                "{}: {default}",
                row.name
            ),
        }
    }
}

#[test]
fn every_error_code_is_on_the_page_with_what_to_do_next() {
    let source = sources::read("daemon/src/report.rs");
    let wire = arms(between(&source, "const fn as_str", "const fn next"));
    let next = arms(between(&source, "const fn next", "const fn status"));
    let status = sources::statuses(between(&source, "const fn status", "pub struct Failure"));
    let variants = sources::variants(&source, "pub enum Code {");
    assert_eq!(wire.keys().cloned().collect::<BTreeSet<_>>(), variants);

    let rows = reference().rows_under("Of the daemon");
    assert_same(
        "error codes",
        &names(&rows),
        &wire.values().cloned().collect(),
    );
    for (variant, code) in &wire {
        let row = rows.iter().find(|row| row.name == *code).unwrap();
        assert_eq!(row.cells[2], next[variant], "{code}");
        assert_eq!(row.cells[3], status[variant], "{code}");
    }
}

#[test]
fn every_code_of_the_bridge_is_on_the_page() {
    let source = sources::read("mcp-bridge/src/refusal.rs");
    let is_code = |text: &String| text.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
    let codes = source
        .lines()
        .filter(|line| line.contains("const"))
        .filter_map(|line| literal_after(line, ": &str ="))
        .filter(is_code)
        .collect();
    let mut on_page = names(&reference().rows_under("Of the bridge itself"));
    let of_daemon = names(&reference().rows_under("Of the daemon"));
    for shared in ["PROTOCOL_MISMATCH", "RESULT_TOO_LARGE"] {
        assert!(of_daemon.contains(shared), "{shared} has its row elsewhere");
        on_page.insert(shared.to_owned());
    }
    assert_same("codes of the bridge", &on_page, &codes);
}

#[test]
fn every_audit_event_and_field_is_on_the_page() {
    let rows = reference().rows_under("Audit events");
    let events = EventName::ALL.iter().map(ToString::to_string).collect();
    assert_same("audit events", &names(&rows), &events);
    for row in &rows {
        let event: EventName = row.name.parse().unwrap();
        let reserve = if event.may_use_reserve() { "yes" } else { "no" };
        assert_eq!(row.cells[3], reserve, "{event}");
    }
    let on_page = rows
        .iter()
        .flat_map(|row| page::spans(&row.cells[2]).map(str::to_owned))
        .collect();
    assert_same("fields of events", &on_page, &Tree::read().event_fields());
}

#[test]
fn every_variable_of_the_scripts_is_on_the_page() {
    let rows = reference().rows_under("Environment variables");
    assert_same("variables", &names(&rows), &Tree::read().variables());
}

#[test]
fn every_check_of_verify_is_on_the_page() {
    let rows = reference().rows_under("Checks of `sandboxd verify`");
    assert_same(
        "checks",
        &names(&rows),
        &Tree::read().checks().iter().cloned().collect(),
    );
}

#[test]
fn every_exit_code_of_the_runner_is_on_the_page() {
    let source = sources::read("images/runner/src/ending.rs");
    let codes: BTreeSet<String> = between(&source, "const fn code", "pub fn from_code")
        .lines()
        .filter_map(|line| {
            let (_, code) = line.trim().strip_suffix(',')?.split_once("=> ")?;
            Some(code.to_owned())
        })
        .collect();
    let rows = reference().rows_under("Exit codes");
    let runner = rows.iter().find(|row| row.name == "runner").unwrap();
    let on_page = runner.cells[1]
        .split(|c: char| !c.is_ascii_digit())
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect();
    assert_same("exit codes of the runner", &on_page, &codes);
}
