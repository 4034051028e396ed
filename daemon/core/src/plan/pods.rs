//! What the pods of a workload may do beyond running in a container: read from the values of the provider
//! (`host_network`, blocks as lists) and of manifests (`hostNetwork`, blocks as objects) alike.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// One thing that pods may do.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Power {
    /// Which kind of danger it is.
    pub(super) kind: &'static str,
    /// A clause about the pods.
    pub(super) what: String,
    /// The provider gives it unless told otherwise, so it means less in something new.
    pub(super) by_default: bool,
}

/// What the pods in `values` may do.
pub(super) fn powers(values: &Value) -> BTreeSet<Power> {
    let mut found = BTreeSet::new();
    find_pods(values, &mut |pod| of_pod(pod, &mut found));
    found
}

/// The `ServiceAccounts` that the pods in `values` run as.
pub(super) fn accounts(values: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    find_pods(values, &mut |pod| {
        let name = text(pod, "service_account_name").or_else(|| text(pod, "service_account"));
        found.insert(name.unwrap_or("default").to_owned());
    });
    found
}

/// A pod's spec is whatever has a list of containers.
fn find_pods<'a>(values: &'a Value, visit: &mut impl FnMut(&'a Map<String, Value>)) {
    match values {
        Value::Object(map) => {
            if ["container", "containers"]
                .iter()
                .any(|key| map.get(*key).is_some_and(Value::is_array))
            {
                visit(map);
            }
            map.values().for_each(|part| find_pods(part, visit));
        }
        Value::Array(items) => items.iter().for_each(|part| find_pods(part, visit)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn of_pod(pod: &Map<String, Value>, found: &mut BTreeSet<Power>) {
    let mut add = |kind, what: String| {
        found.insert(Power {
            kind,
            what,
            by_default: false,
        });
    };
    for (key, what) in [
        ("host_network", "share the node's network"),
        ("host_pid", "see the node's processes"),
        ("host_ipc", "share the node's IPC"),
    ] {
        if is_true(pod, key) {
            add("host-access", what.to_owned());
        }
    }
    if is_true(pod, "automount_service_account_token") {
        add(
            "service-account-changes",
            "hold a token of their ServiceAccount".to_owned(),
        );
    }
    for volume in each(pod, &["volume", "volumes"]) {
        for path in each(volume, &["host_path"]) {
            add(
                "host-access",
                format!("get {} of the node", quoted(text(path, "path"))),
            );
        }
        for secret in each(volume, &["secret"]) {
            let name = text(secret, "secret_name").or_else(|| text(secret, "name"));
            add("secret-mounted", format!("get the Secret {}", quoted(name)));
        }
        for projected in each(volume, &["projected"]) {
            for part in each(projected, &["sources"]) {
                for secret in each(part, &["secret"]) {
                    add(
                        "secret-mounted",
                        format!("get the Secret {}", quoted(text(secret, "name"))),
                    );
                }
                if !each(part, &["service_account_token"]).is_empty() {
                    add(
                        "service-account-changes",
                        "hold a token of their ServiceAccount".to_owned(),
                    );
                }
            }
        }
    }
    for part in pod.values() {
        secret_references(part, &mut |name| {
            add("secret-mounted", format!("get the Secret {}", quoted(name)));
        });
    }
    for context in each(pod, &["security_context"]) {
        of_context(context, "all containers", found);
    }
    for container in each(
        pod,
        &[
            "container",
            "containers",
            "init_container",
            "initContainers",
        ],
    ) {
        let name = format!("container {}", quoted(text(container, "name")));
        for port in each(container, &["port", "ports"]) {
            if let Some(port) = number(port, "host_port").filter(|n| n != "0") {
                let what = format!("take port {port} of the node");
                found.insert(Power {
                    kind: "host-access",
                    what,
                    by_default: false,
                });
            }
        }
        for context in each(container, &["security_context"]) {
            of_context(context, &name, found);
        }
    }
}

fn of_context(context: &Map<String, Value>, whose: &str, found: &mut BTreeSet<Power>) {
    let mut add = |what: String, by_default| {
        found.insert(Power {
            kind: "privileged",
            what,
            by_default,
        });
    };
    if is_true(context, "privileged") {
        add(
            format!("run {whose} privileged: it is root on the node"),
            false,
        );
    }
    if is_true(context, "allow_privilege_escalation") {
        add(format!("let {whose} gain privileges"), true);
    }
    if number(context, "run_as_user").as_deref() == Some("0") {
        add(format!("run {whose} as root"), false);
    }
    if text(context, "proc_mount").is_some_and(|mount| mount != "Default") {
        add(format!("show {whose} all of /proc"), false);
    }
    for capabilities in each(context, &["capabilities"]) {
        for capability in field(capabilities, "add")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            add(
                format!(
                    "give {whose} the capability {}",
                    quoted(capability.as_str())
                ),
                false,
            );
        }
    }
    for profile in each(context, &["seccomp_profile"]) {
        if text(profile, "type") == Some("Unconfined") {
            add(format!("let {whose} make every system call"), false);
        }
    }
}

/// Secrets named by references at any depth: the environment's and those of volumes.
fn secret_references<'a>(values: &'a Value, add: &mut impl FnMut(Option<&'a str>)) {
    match values {
        Value::Object(map) => {
            for (key, part) in map {
                let plain = key.replace('_', "").to_ascii_lowercase();
                if plain.ends_with("secretref") || plain == "secretkeyref" {
                    for reference in objects(part) {
                        add(text(reference, "name"));
                    }
                }
                secret_references(part, add);
            }
        }
        Value::Array(items) => items.iter().for_each(|part| secret_references(part, add)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A field by its name in the provider, or in the API.
fn field<'a>(map: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    map.get(name).filter(|v| !v.is_null()).or_else(|| {
        let plain = name.replace('_', "");
        map.iter()
            .find(|(key, _)| !key.contains('_') && key.to_ascii_lowercase() == plain)
            .map(|(_, value)| value)
    })
}

/// The blocks of any of these names.
fn each<'a>(map: &'a Map<String, Value>, names: &[&str]) -> Vec<&'a Map<String, Value>> {
    names
        .iter()
        .filter_map(|name| field(map, name))
        .flat_map(objects)
        .collect()
}

fn objects(value: &Value) -> Vec<&Map<String, Value>> {
    match value {
        Value::Object(map) => vec![map],
        Value::Array(items) => items.iter().filter_map(Value::as_object).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

fn text<'a>(map: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    field(map, name)
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty())
}

/// The provider has some booleans and numbers as texts.
fn is_true(map: &Map<String, Value>, name: &str) -> bool {
    matches!(field(map, name), Some(Value::Bool(true)))
        || text(map, name).is_some_and(|text| text == "true")
}

fn number(map: &Map<String, Value>, name: &str) -> Option<String> {
    match field(map, name)? {
        Value::Number(n) => Some(n.to_string()),
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            None
        }
    }
}

fn quoted(name: Option<&str>) -> String {
    name.map_or_else(
        || "(not named)".to_owned(),
        |name| format!("\"{}\"", name.escape_debug()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(values: &Value) -> Vec<(&'static str, String)> {
        powers(values)
            .into_iter()
            .map(|p| (p.kind, p.what))
            .collect()
    }

    #[test]
    fn the_providers_values_and_a_manifest_say_the_same() {
        let provider = json!({"spec": [{"template": [{"spec": [{
            "host_network": true, "host_pid": false, "host_ipc": null, "service_account_name": "admin",
            "automount_service_account_token": true,
            "volume": [
                {"name": "a", "host_path": [{"path": "/etc"}], "secret": []},
                {"name": "b", "secret": [{"secret_name": "tls"}]},
                {"name": "c", "projected": [{"sources": [{"secret": [{"name": "p"}], "service_account_token": []}]}]},
            ],
            "container": [{
                "name": "app", "port": [{"host_port": 80}, {"host_port": 0}],
                "env": [{"value_from": [{"secret_key_ref": [{"name": "db", "key": "k"}]}]}],
                "env_from": [{"secret_ref": [{"name": "all"}]}],
                "security_context": [{
                    "privileged": true, "allow_privilege_escalation": true, "run_as_user": "0",
                    "capabilities": [{"add": ["NET_ADMIN"], "drop": ["ALL"]}],
                }],
            }],
            "init_container": [{"name": "init", "security_context": [{"run_as_user": "0"}]}],
        }]}]}]});
        let manifest = json!({"manifest": {"spec": {"template": {"spec": {
            "hostNetwork": true, "serviceAccountName": "admin", "automountServiceAccountToken": true,
            "volumes": [
                {"name": "a", "hostPath": {"path": "/etc"}},
                {"name": "b", "secret": {"secretName": "tls"}},
                {"name": "c", "projected": {"sources": [{"secret": {"name": "p"}}]}},
            ],
            "containers": [{
                "name": "app", "ports": [{"hostPort": 80}],
                "env": [{"valueFrom": {"secretKeyRef": {"name": "db", "key": "k"}}}],
                "envFrom": [{"secretRef": {"name": "all"}}],
                "securityContext": {
                    "privileged": true, "allowPrivilegeEscalation": true, "runAsUser": 0,
                    "capabilities": {"add": ["NET_ADMIN"]},
                },
            }],
            "initContainers": [{"name": "init", "securityContext": {"runAsUser": 0}}],
        }}}}});
        let expected: Vec<(&str, String)> = [
            ("host-access", "get \"/etc\" of the node"),
            ("host-access", "share the node's network"),
            ("host-access", "take port 80 of the node"),
            (
                "privileged",
                "give container \"app\" the capability \"NET_ADMIN\"",
            ),
            ("privileged", "let container \"app\" gain privileges"),
            ("privileged", "run container \"app\" as root"),
            (
                "privileged",
                "run container \"app\" privileged: it is root on the node",
            ),
            ("privileged", "run container \"init\" as root"),
            ("secret-mounted", "get the Secret \"all\""),
            ("secret-mounted", "get the Secret \"db\""),
            ("secret-mounted", "get the Secret \"p\""),
            ("secret-mounted", "get the Secret \"tls\""),
            (
                "service-account-changes",
                "hold a token of their ServiceAccount",
            ),
        ]
        .map(|(kind, what)| (kind, what.to_owned()))
        .to_vec();
        assert_eq!(told(&provider), expected);
        assert_eq!(told(&manifest), expected);
        assert_eq!(accounts(&provider), ["admin".to_owned()].into());
        assert_eq!(accounts(&manifest), ["admin".to_owned()].into());
    }

    #[test]
    fn an_ordinary_pod_has_no_powers_and_the_default_account() {
        let values = json!({"spec": [{"container": [{"name": "a", "security_context": [{
            "allow_privilege_escalation": false, "privileged": false, "run_as_user": "65532"}]}],
            "host_network": false}]});
        assert_eq!(told(&values), []);
        assert_eq!(accounts(&values), ["default".to_owned()].into());
        assert!(accounts(&json!({"data": {"a": "b"}})).is_empty());
    }
}
