//! What the configuration refuses, and that it names all of it at once.

use super::*;

const GOOD: &str = r#"
[agents]
demo-agent = [4001]
[approvers]
demo-approver = [4002]
[kubernetes]
kubeconfig = "/etc/sandboxd/kubeconfig"
[vault]
address = "https://127.0.0.1:8200"
ca_file = "/etc/sandboxd/vault-ca.pem"
role_id_file = "/etc/sandboxd/vault-role-id"
secret_id_file = "/etc/sandboxd/vault-secret-id"
mounts = ["sandbox-k8s-0"]
[sandbox]
image = "localhost/agent-sandbox/runner@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
"#;

fn load(text: &str) -> Result<(Config, Principals), String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    Config::load(file.path(), 4000).map_err(|e| e.to_string())
}

#[test]
fn a_short_configuration_is_enough_and_has_the_documented_defaults() {
    let (config, principals) = load(GOOD).unwrap();
    assert_eq!(
        config.listen.agent_socket,
        Path::new("/run/sandboxd/agent/agent.sock")
    );
    assert_eq!(config.kubernetes.sandbox_namespace.as_str(), "sandbox-jobs");
    assert_eq!(config.sandbox.pool_read, 2);
    assert_eq!(
        principals.find(Role::Agent, 4001).unwrap().as_str(),
        "demo-agent"
    );
}

#[test]
fn a_root_says_where_it_is_and_what_it_may_touch() {
    let root = "[roots.demo]\nfolder = '/srv/demo'\nnamespaces = ['demo-app']\nkinds = ['deployments.apps']\n";
    let (config, _) = load(&format!("{GOOD}{root}")).unwrap();
    let demo = &config.roots[&"demo".parse().unwrap()];
    assert_eq!(demo.state, StateKind::Managed);
    assert_eq!(demo.workspace, "default");
    for (from, to, word) in [
        ("'/srv/demo'", "'srv/demo'", "absolute"),
        ("['demo-app']", "['demo-app', 'b']", "one namespace"),
        ("['demo-app']", "['kube-system']", "never be a target"),
        ("['demo-app']", "['sandbox-jobs']", "never be a target"),
        ("['deployments.apps']", "[]", "at least one kind"),
        ("['deployments.apps']", "['secrets']", "no kind"),
        ("[roots.demo]", "[roots.delete-demo]", "delete-"),
        (
            "folder",
            "var_files = ['../a.tfvars']\nfolder",
            "inside the folder",
        ),
        (
            "folder",
            "data_files = ['/etc/passwd']\nfolder",
            "inside the folder",
        ),
        (
            "folder",
            "secret_vars = { 'a b' = '/x' }\nfolder",
            "no name of a variable",
        ),
        ("folder", "secret_vars = { a = 'x' }\nfolder", "absolute"),
        (
            "folder",
            "secret_vars = { a = { vault_kv = 'kv/../sys', field = 'b' } }\nfolder",
            "with a path of letters",
        ),
        (
            "folder",
            "secret_vars = { a = { vault_kv = 'kv/a' } }\nfolder",
            "vault_kv = \"MOUNT/PATH\"",
        ),
        (
            "folder",
            "secret_vars = { a = { vault_kv = 'kv/a', field = '' } }\nfolder",
            "name a field",
        ),
        (
            "folder",
            "agent_outputs = ['a b']\nfolder",
            "no name of an output",
        ),
        ("folder", "agent_outputs = ['a', 'a']\nfolder", "twice"),
        ("folder", "workspace = 'a/b'\nfolder", "workspace"),
        ("folder", "state = { snapshot = 'x' }\nfolder", "absolute"),
        ("folder", "colour = 'red'\nfolder", "colour"),
    ] {
        let e = load(&format!("{GOOD}{}", root.replacen(from, to, 1))).unwrap_err();
        assert!(e.contains(word), "{to}: {e}");
    }
}

#[test]
fn a_uid_is_admitted_on_its_own_socket_alone() {
    let (_, principals) = load(GOOD).unwrap();
    assert!(principals.find(Role::Approver, 4001).is_none());
    assert!(principals.find(Role::Agent, 4002).is_none());
    assert!(principals.find(Role::Agent, 4003).is_none());
}

#[test]
fn root_nobody_and_the_daemon_itself_cannot_be_principals() {
    for (uid, word) in [(0, "root"), (65534, "unmapped"), (4000, "daemon's own")] {
        for section in ["demo-agent = [4001]", "demo-approver = [4002]"] {
            let (key, _) = section.split_once(" = ").unwrap();
            let e = load(&GOOD.replace(section, &format!("{key} = [{uid}]"))).unwrap_err();
            assert!(e.contains(word), "{e}");
        }
    }
}

#[test]
fn one_uid_in_both_roles_is_refused() {
    let e = load(&GOOD.replace("4002", "4001")).unwrap_err();
    assert!(e.contains("uid 4001 is listed for both"), "{e}");
    let e = load(&GOOD.replace("demo-approver", "demo-agent")).unwrap_err();
    assert!(e.contains("both an agent and an approver"), "{e}");
}

#[test]
fn unknown_users_and_unknown_keys_are_named() {
    let e = load(&GOOD.replace("[4001]", "[\"no-such-user-here\"]")).unwrap_err();
    assert!(e.contains("no-such-user-here"), "{e}");
    let e = load(&GOOD.replace("kubeconfig =", "kubekonfig =")).unwrap_err();
    assert!(e.contains("kubekonfig"), "{e}");
}

#[test]
fn the_spares_of_both_classes_fit_into_the_places_together() {
    let of = |read, terraform, max| {
        load(&format!(
            "{GOOD}pool_read = {read}\npool_terraform = {terraform}\nmax = {max}\n"
        ))
    };
    for (read, terraform, max) in [(16, 0, 16), (0, 4, 16), (8, 2, 16), (3, 1, 7), (1, 0, 1)] {
        assert!(of(read, terraform, max).is_ok(), "{read} {terraform} {max}");
    }
    for (read, terraform, max) in [(17, 0, 16), (0, 5, 16), (16, 4, 16), (4, 1, 7), (0, 1, 3)] {
        let e = of(read, terraform, max).unwrap_err();
        assert!(e.contains("4 times sandbox.pool_terraform"), "{e}");
    }
}

#[test]
fn every_fault_is_told_at_once() {
    let text = GOOD
        .replace("https://", "http://")
        .replace("@sha256:", ":latest-")
        .replace("[\"sandbox-k8s-0\"]", "[]");
    let e = load(&text).unwrap_err();
    for word in ["vault.address", "sandbox.image", "vault.mounts"] {
        assert!(e.contains(word), "{e}");
    }
}

#[test]
fn a_socket_path_that_no_address_holds_is_refused() {
    let long = format!("[listen]\nagent_socket = \"/{}\"\n", "a".repeat(120));
    assert!(
        load(&format!("{GOOD}{long}"))
            .unwrap_err()
            .contains("103 bytes")
    );
    let same = "[listen]\nagent_socket = \"/a/b\"\napprover_socket = \"/a/c\"\n";
    assert!(
        load(&format!("{GOOD}{same}"))
            .unwrap_err()
            .contains("different folders")
    );
}

#[test]
fn a_read_that_could_outlive_its_lease_is_refused() {
    let text = format!("{GOOD}[limits]\nread_seconds = 600\n");
    assert!(load(&text).unwrap_err().contains("read_seconds"));
}

#[test]
fn a_command_to_notify_is_named_by_its_absolute_path() {
    let with = |command: &str| load(&format!("{GOOD}[notify]\ncommand = {command}\n"));
    let (config, _) = with("['/usr/bin/notify', '--to', 'ops']").unwrap();
    assert_eq!(config.notify.command, ["/usr/bin/notify", "--to", "ops"]);
    assert!(load(GOOD).unwrap().0.notify.command.is_empty());
    for bad in ["['notify']", "['']", "['./notify']"] {
        let e = with(bad).unwrap_err();
        assert!(
            e.contains("notify.command must begin with the absolute path"),
            "{e}"
        );
    }
    assert!(
        with("'/usr/bin/notify --to ops'").is_err(),
        "a list, not a line"
    );
}

#[test]
fn a_rule_that_asks_for_more_people_than_there_are_is_named() {
    let policy = tempfile::NamedTempFile::new().unwrap();
    let rule = |quorum: u32| {
        format!(
            "version: 1\nrules:\n  - name: two-look\n    principals: [demo-agent]\n    actions: [terraform_apply]\n    \
             roots: [demo]\n    effect:\n      require_approval: {{ quorum: {quorum}, expires_after_minutes: 30 }}\n"
        )
    };
    let with = |text: &str, quorum: u32| {
        std::fs::write(policy.path(), rule(quorum)).unwrap();
        let text = format!("{text}[policy]\nfile = '{}'\n", policy.path().display());
        let (config, principals) = load(&text).unwrap();
        crate::run::load_policy(&config, &principals).map_err(|e| e.to_string())
    };
    // Two uids of one person are one.
    let one = GOOD.replace("[4002]", "[4002, 4003]");
    assert!(with(&one, 1).is_ok());
    let e = with(&one, 2).unwrap_err();
    assert!(
        e.contains("rule two-look") && e.contains("asks for 2 people"),
        "{e}"
    );
    let two = GOOD.replace(
        "demo-approver = [4002]",
        "demo-approver = [4002]\nann = [4003]",
    );
    assert!(with(&two, 2).is_ok());
    let none = GOOD.replace("demo-approver = [4002]", "");
    assert!(with(&none, 1).unwrap_err().contains("names 0"));
}
