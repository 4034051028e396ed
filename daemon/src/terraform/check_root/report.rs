//! What `check-root` prints: for a person, or as one JSON object.

use std::collections::BTreeSet;
use std::io::Write as _;

use sandbox_core::names::{NamespaceName, PrincipalName};
use serde_json::{Value, json};

use super::Seen;
use super::fault::shown;
use super::setting::Setting;
use crate::config::{SecretVar, StateKind, VaultKv};

/// Prints it to standard output.
pub(super) fn print(seen: &Seen, setting: &Setting, as_json: bool) -> anyhow::Result<()> {
    let text = if as_json {
        let mut text = serde_json::to_string_pretty(&object(seen, setting))?;
        text.push('\n');
        text
    } else {
        text(seen, setting)
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}

fn text(seen: &Seen, setting: &Setting) -> String {
    let mut out = format!(
        "Root {} in {}, as {} reads it: {} files, {} bytes\n",
        seen.name,
        shown(&seen.folder),
        seen.user,
        seen.files,
        seen.bytes
    );
    let mut list = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            out.extend(["\n", title, "\n  ", &lines.join("\n  "), "\n"]);
        }
    };
    list(
        &format!("TO MEND: {}", seen.faults.len()),
        seen.faults.iter().map(ToString::to_string).collect(),
    );
    list("WORTH A LOOK", seen.notes.clone());
    list(
        "WHAT IT IS MADE OF",
        [
            ("kinds", words(&seen.kinds)),
            (
                "namespaces that are written out",
                words(escaped(&seen.namespaces)),
            ),
            (
                "variables without a value",
                words(seen.open.iter().map(|o| o.variable.name.escape_default())),
            ),
        ]
        .into_iter()
        .filter(|(_, words)| !words.is_empty())
        .map(|(title, words)| format!("{title}: {words}"))
        .collect(),
    );
    // One that is not whole is of no use yet.
    if seen.namespace.is_some() && !seen.kinds.is_empty() {
        list(
            &format!("FOR {}", shown(&setting.path)),
            stanza(seen).lines().map(str::to_owned).collect(),
        );
    }
    let steps = next(seen, setting);
    let steps = steps.iter().zip(1..);
    list(
        "NEXT",
        steps
            .map(|(step, number)| format!("{number}. {}", step.replace('\n', "\n     ")))
            .collect(),
    );
    out
}

fn object(seen: &Seen, setting: &Setting) -> Value {
    let modules = seen.survey.modules.iter().map(|module| {
        let edit = module.edit.as_ref().map(|edit| {
            let range = |r: &std::ops::Range<usize>| json!([r.start, r.end]);
            json!({"source": range(&edit.source), "version": edit.version.as_ref().map(range)})
        });
        json!({
            "file": module.file.as_str(), "line": module.line, "name": module.name,
            "source": module.source, "edit": edit,
        })
    });
    let open = seen.open.iter().map(|open| {
        json!({
            "name": open.variable.name, "file": open.variable.file.as_str(), "line": open.variable.line,
            "sensitive": open.variable.sensitive, "secret_file": open.secret_file,
        })
    });
    json!({
        "root": seen.name.as_str(),
        "folder": seen.folder,
        "user": seen.user,
        "ready": seen.faults.is_empty(),
        "faults": seen.faults,
        "notes": seen.notes,
        "remote_modules": modules.collect::<Vec<_>>(),
        "variables_without_value": open.collect::<Vec<_>>(),
        "kinds": seen.kinds.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "namespaces": seen.namespaces,
        "namespace": seen.namespace.as_ref().map(NamespaceName::as_str),
        "stanza": stanza(seen),
        "next": next(seen, setting),
    })
}

/// `[roots.NAME]`, as far as it is known.
fn stanza(seen: &Seen) -> String {
    let text = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let list = |texts: Vec<String>| {
        let texts: Vec<_> = texts.iter().map(|t| text(t)).collect();
        format!("[{}]", texts.join(", "))
    };
    let namespaces = seen.namespace.iter().map(ToString::to_string).collect();
    let mut lines = vec![
        format!("[roots.{}]", seen.name),
        format!("folder = {}", text(&seen.folder.to_string_lossy())),
        format!("namespaces = {}", list(namespaces)),
        format!(
            "kinds = {}",
            list(seen.kinds.iter().map(ToString::to_string).collect())
        ),
    ];
    for (key, files) in [
        ("var_files", &seen.var_files),
        ("data_files", &seen.data_files),
    ] {
        if !files.is_empty() {
            lines.push(format!("{key} = {}", list(files.clone())));
        }
    }
    if !seen.secret_vars.is_empty() {
        let vars = seen.secret_vars.iter();
        let vars: Vec<_> = vars
            .map(|(name, from)| match from {
                SecretVar::File(file) => format!("{name} = {}", text(&file.to_string_lossy())),
                SecretVar::VaultKv(VaultKv { vault_kv, field }) => {
                    let path = text(&vault_kv.to_string());
                    format!("{name} = {{ vault_kv = {path}, field = {} }}", text(field))
                }
            })
            .collect();
        lines.push(format!("secret_vars = {{ {} }}", vars.join(", ")));
    }
    if seen.workspace != "default" {
        lines.push(format!("workspace = {}", text(&seen.workspace)));
    }
    if let StateKind::Snapshot(file) = &seen.state {
        lines.push(format!(
            "state = {{ snapshot = {} }}",
            text(&file.to_string_lossy())
        ));
    }
    if !seen.agent_outputs.is_empty() {
        lines.push(format!(
            "agent_outputs = {}",
            list(seen.agent_outputs.clone())
        ));
    }
    lines.push(String::new());
    lines.join("\n")
}

fn next(seen: &Seen, setting: &Setting) -> Vec<String> {
    if !seen.faults.is_empty() {
        return vec!["Mend what is told above, then run this again.".to_owned()];
    }
    let mut steps = Vec::new();
    if !setting.roots.contains_key(&seen.name) {
        let path = shown(&setting.path);
        steps.push(format!("Write what stands above into {path}."));
    }
    if let Some((file, policy)) = &setting.policy
        && !policy.roots().any(|root| *root == seen.name)
    {
        let principals: BTreeSet<_> = policy.principals().map(PrincipalName::as_str).collect();
        let mut principals = principals.into_iter();
        // Which of several it is for is not ours to say. The policy is refused while WHO stands in it.
        let (who, instead) = match (principals.next(), principals.next()) {
            (Some(only), None) => (only, String::new()),
            _ => (
                "WHO",
                format!(
                    ", with names from [agents] of {} in the place of WHO",
                    shown(&setting.path)
                ),
            ),
        };
        let rules = rules(seen.name.as_str(), who);
        steps.push(format!(
            "Write who may plan it, and that people decide over applies, into {}{instead}:\n{rules}",
            shown(file)
        ));
    }
    if let Some(namespace) = &seen.namespace {
        steps.push(format!(
            "See that its namespace is there, or make it: kubectl create namespace {namespace}"
        ));
    }
    steps.push(format!(
        "As root, for its Roles, its rungs in OpenBao and a daemon that knows it: {}",
        up(seen, setting)
    ));
    steps
}

/// For the policy.
fn rules(name: &str, who: &str) -> String {
    [
        &format!("  - name: agents-plan-{name}"),
        &format!("    principals: [{who}]"),
        "    actions: [terraform_plan]",
        &format!("    roots: [{name}]"),
        "    effect: allow",
        &format!("  - name: people-approve-{name}-applies"),
        &format!("    principals: [{who}]"),
        "    actions: [terraform_apply]",
        &format!("    roots: [{name}]"),
        "    effect:",
        "      require_approval: { quorum: 1, expires_after_minutes: 30 }",
    ]
    .join("\n")
}

/// The command, with what it would take away if it were not named.
fn up(seen: &Seen, setting: &Setting) -> String {
    let mut command = vec!["scripts/up".to_owned()];
    let mut namespaces: BTreeSet<&NamespaceName> = seen.namespace.iter().collect();
    let kinds = |kinds: &mut dyn Iterator<Item = String>| kinds.collect::<Vec<_>>().join(",");
    let mut root = |name: &str, namespace: &NamespaceName, kinds: String| {
        command.push(format!("--root {name}:{namespace}:{kinds}"));
    };
    if let Some(namespace) = &seen.namespace {
        root(
            seen.name.as_str(),
            namespace,
            kinds(&mut seen.kinds.iter().map(ToString::to_string)),
        );
    }
    for (name, other) in setting.roots.iter().filter(|(name, _)| **name != seen.name) {
        if let Some(namespace) = other.namespace() {
            root(
                name.as_str(),
                namespace,
                kinds(&mut other.kinds.iter().map(ToString::to_string)),
            );
            namespaces.insert(namespace);
        }
    }
    if let Some((_, policy)) = &setting.policy {
        namespaces.extend(policy.namespaces());
    }
    command.extend(namespaces.iter().map(ToString::to_string));
    command.join(" ")
}

fn escaped(names: &BTreeSet<String>) -> Vec<String> {
    names
        .iter()
        .map(|name| name.escape_default().to_string())
        .collect()
}

fn words<T: ToString>(words: impl IntoIterator<Item = T>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| word.to_string()).collect();
    words.join(", ")
}
