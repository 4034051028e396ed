//! Reasons to look twice, and which of them come first.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::document::{RawChange, ResourceChange};
use super::object::Subject;
use super::{Action, Change, Danger, LiveObject, kinds, pods};

/// The kinds of danger, the worst first among those of one rank.
const KINDS: &[&str] = &[
    "same-object",
    "destroys",
    "replaces",
    "service-account-changes",
    "secret-mounted",
    "host-access",
    "privileged",
    "network-policy-changes",
    "scales-to-zero",
    "known-after-apply",
    "nothing-to-see",
    "forgets",
    "imports",
    "moves",
];

/// Where a danger stands among the others.
pub(super) fn place(danger: &Danger) -> (u8, usize) {
    let kind = KINDS.iter().position(|kind| *kind == danger.kind);
    (danger.rank, kind.unwrap_or(KINDS.len()))
}

/// A change that is ready to be shown, with what it was made from.
pub(super) struct Seen<'a> {
    pub(super) of: &'a ResourceChange,
    pub(super) subject: Subject,
    pub(super) change: &'a Change,
    /// The object it will be, where that is another one than `change.object`.
    pub(super) becomes: Option<&'a LiveObject>,
    /// Attributes that are set to something known only after apply.
    pub(super) late: &'a [String],
}

/// What is dangerous about one change.
pub(super) fn of_change(seen: &Seen<'_>) -> Vec<Danger> {
    let change = seen.change;
    let mut found = Found {
        change,
        dangers: Vec::new(),
    };
    let rank = match (seen.subject, &change.object) {
        (Subject::Lifeless, _) | (_, None) => 4,
        (_, Some(object)) if holds_data(object) => 1,
        (_, Some(_)) => 2,
    };
    match change.action {
        Action::Delete => found.add(rank, "destroys", destroys(seen)),
        Action::Replace { .. } => found.add(rank, "replaces", replaces(seen)),
        Action::Forget => found.add(
            4,
            "forgets",
            "Terraform lets go of it: it goes on living, and nobody manages it.".to_owned(),
        ),
        Action::Import if change.object.is_none() => {}
        Action::Create | Action::Update | Action::Import | Action::Move | Action::Read => {}
    }
    if let Some(id) = &change.import_id {
        let why = format!(
            "The object with the id \"{}\" exists already and becomes Terraform's.",
            id.escape_debug()
        );
        found.add(4, "imports", why);
    }
    if let Some(previous) = &change.previous_address {
        let why = format!("It was {} until now.", previous.escape_debug());
        found.add(4, "moves", why);
    }
    let writes = matches!(
        change.action,
        Action::Create | Action::Update | Action::Replace { .. }
    );
    if writes && seen.subject != Subject::Lifeless {
        of_values(&seen.of.change, change.action, &mut found);
        if !seen.late.is_empty() {
            let why = format!("Known only after apply: {}.", seen.late.join(", "));
            found.add(4, "known-after-apply", why);
        }
    }
    if change.action == Action::Update && change.attributes.is_empty() {
        let why = "Terraform changes it, and no value of it differs.".to_owned();
        found.add(4, "nothing-to-see", why);
    }
    found.dangers
}

struct Found<'a> {
    change: &'a Change,
    dangers: Vec<Danger>,
}

impl Found<'_> {
    fn add(&mut self, rank: u8, kind: &str, why: String) {
        self.dangers.push(Danger {
            rank,
            kind: kind.to_owned(),
            object: self.change.object.clone(),
            address: self.change.address.clone(),
            why,
        });
    }
}

fn holds_data(object: &LiveObject) -> bool {
    kinds::of_manifest(&object.group, &object.kind).is_none_or(|kind| kind.holds_data)
}

fn destroys(seen: &Seen<'_>) -> String {
    let reason = reason(seen.change);
    match &seen.change.object {
        None => format!("It is taken out of the state, with the value it holds{reason}."),
        Some(object) if object.resource == "namespaces" && object.group.is_empty() => {
            format!("The Namespace is deleted, and everything that lives in it{reason}.")
        }
        Some(object) if holds_data(object) => {
            format!(
                "The {} is deleted, and what it holds is lost{reason}.",
                object.kind
            )
        }
        Some(object) => format!("The {} is deleted{reason}.", object.kind),
    }
}

fn replaces(seen: &Seen<'_>) -> String {
    let reason = reason(seen.change);
    let Some(object) = &seen.change.object else {
        return format!("It gets a new value{reason}.");
    };
    let first = matches!(
        seen.change.action,
        Action::Replace {
            create_before_destroy: true
        }
    );
    let mut why = match (seen.becomes, first) {
        (Some(other), _) => format!(
            "The {} is deleted, and {other} is made{reason}.",
            object.kind
        ),
        (None, false) => format!("The {} is deleted and made anew{reason}.", object.kind),
        (None, true) => format!(
            "The {} is made anew before the old one of the same name is deleted, which Kubernetes refuses{reason}.",
            object.kind
        ),
    };
    if !seen.change.replace_paths.is_empty() {
        why.extend([" Forced by ", &seen.change.replace_paths.join(", "), "."]);
    }
    if holds_data(object) {
        why.push_str(" What it holds is lost.");
    }
    why
}

fn reason(change: &Change) -> String {
    change
        .reason
        .as_ref()
        .map(|reason| format!(", because {reason}"))
        .unwrap_or_default()
}

/// What the values themselves say.
fn of_values(raw: &RawChange, action: Action, found: &mut Found<'_>) {
    let kind = found.change.object.as_ref().map(|o| o.kind.clone());
    let new = raw.before.is_null();
    let before = pods::powers(&raw.before);
    for power in pods::powers(&raw.after).difference(&before) {
        let rank = if power.by_default && new { 4 } else { 3 };
        found.add(rank, power.kind, format!("Its pods will {}.", power.what));
    }
    let (was, is) = (pods::accounts(&raw.before), pods::accounts(&raw.after));
    let default: BTreeSet<String> = ["default".to_owned()].into();
    if is != was && !(new && is == default) && !is.is_empty() {
        let names = |set: &BTreeSet<String>| {
            let names: Vec<String> = set
                .iter()
                .map(|n| format!("\"{}\"", n.escape_debug()))
                .collect();
            names.join(", ")
        };
        let why = if was.is_empty() {
            format!("Its pods will run as the ServiceAccount {}.", names(&is))
        } else {
            format!(
                "Its pods ran as the ServiceAccount {} and will run as {}.",
                names(&was),
                names(&is)
            )
        };
        found.add(3, "service-account-changes", why);
    }
    if kind.as_deref() == Some("ServiceAccount") {
        let annotations = ["/metadata/0/annotations", "/manifest/metadata/annotations"]
            .iter()
            .any(|at| {
                raw.after
                    .pointer(at)
                    .and_then(Value::as_object)
                    .is_some_and(|m| !m.is_empty())
            });
        if !new {
            let why = "The ServiceAccount changes, and with it what runs as it.".to_owned();
            found.add(3, "service-account-changes", why);
        } else if annotations {
            let why = "The ServiceAccount has annotations; they may give it rights outside of the cluster.";
            found.add(3, "service-account-changes", why.to_owned());
        }
    }
    if kind.as_deref() == Some("NetworkPolicy") && action == Action::Update {
        let why = "Who may reach whom changes.".to_owned();
        found.add(3, "network-policy-changes", why);
    }
    let replicas = |values: &Value| {
        let at = ["/spec/0/replicas", "/manifest/spec/replicas"];
        at.iter().find_map(|at| match values.pointer(at)? {
            Value::Number(n) => Some(n.to_string()),
            Value::String(text) => Some(text.clone()),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        })
    };
    if replicas(&raw.after).as_deref() == Some("0")
        && replicas(&raw.before).is_some_and(|n| n != "0")
    {
        found.add(3, "scales-to-zero", "No pod of it will be left.".to_owned());
    }
}

/// Who holds an object, and what happens to it there.
pub(super) type Holders = BTreeMap<LiveObject, Vec<(String, &'static str)>>;

/// Objects that more than one resource stands for, of which one changes: the order decides whether it lives.
pub(super) fn of_holders(holders: &Holders) -> Vec<Danger> {
    let mut dangers = Vec::new();
    for (object, holders) in holders {
        let changes = holders.iter().any(|(_, what)| *what != "keeps");
        if holders.len() < 2 || !changes {
            continue;
        }
        let told: Vec<String> = holders
            .iter()
            .map(|(address, what)| format!("{} {what} it", address.escape_debug()))
            .collect();
        dangers.push(Danger {
            rank: 1,
            kind: "same-object".to_owned(),
            object: Some(object.clone()),
            address: holders[0].0.clone(),
            why: format!(
                "More than one resource stands for this object: {}. What comes last decides what is left of it.",
                told.join(", ")
            ),
        });
    }
    dangers
}
