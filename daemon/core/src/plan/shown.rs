//! A change as people see it, and how much of it there may be.

use super::document::ResourceChange;
use super::object::Subject;
use super::refusal::PlanRefusal;
use super::source::Source;
use super::unknown;
use super::values::{self, Masks};
use super::{Action, Attribute, Change, LiveObject, PlanFacts, address, path};

/// The address, and which leftover it is about.
pub(super) fn labelled(of: &ResourceChange) -> String {
    match &of.deposed {
        None => of.address.clone(),
        Some(key) => format!("{} (deposed {key})", of.address),
    }
}

pub(super) fn shown(
    of: &ResourceChange,
    subject: Subject,
    action: Action,
    object: Option<&LiveObject>,
    source: &Source<'_>,
) -> Change {
    let raw = &of.change;
    let marked = values::any_mark(&raw.before_sensitive) || values::any_mark(&raw.after_sensitive);
    let secret = object.is_some_and(|o| o.kind == "Secret" && o.group.is_empty());
    let masks = Masks {
        // A Secret that cannot be told from its values is told by its type.
        secret_data: secret || of.type_name.starts_with("kubernetes_secret"),
        legacy: matches!(subject, Subject::Kind(_)),
        copy: match (subject, marked || secret) {
            (Subject::Manifest, true) => Some("object"),
            (Subject::Lifeless, true) if of.type_name == "terraform_data" => Some("output"),
            _ => None,
        },
    };
    let attributes = match action {
        Action::Create | Action::Update | Action::Replace { .. } | Action::Delete => {
            let filled_in = unknown::filled_in(of, subject, source);
            let mut attributes = values::differences(raw, masks);
            for attribute in &mut attributes {
                let decides = attribute.sensitive || attribute.forces_replacement;
                attribute.filled_in = !decides && filled_in.contains(&attribute.path);
            }
            attributes
        }
        Action::Forget | Action::Import | Action::Move | Action::Read => Vec::new(),
    };
    Change {
        address: labelled(of),
        previous_address: of.previous_address.clone(),
        object: object.cloned(),
        action,
        reason: of.reason.map(|reason| reason.words().to_owned()),
        replace_paths: raw
            .replace_paths
            .iter()
            .map(|steps| path::written(steps))
            .collect(),
        attributes,
        import_id: raw.importing.clone(),
    }
}

impl PlanFacts {
    /// Refuses more than people can read.
    pub(super) fn check_length(&self, limit: usize) -> Result<(), PlanRefusal> {
        let found = serde_json::to_vec(self).map_or(usize::MAX, |json| json.len());
        if found <= limit {
            return Ok(());
        }
        let length = |a: &Attribute| a.path.len() + a.before.len() + a.after.len();
        let longest = self
            .changes
            .iter()
            .chain(&self.drift)
            .flat_map(|change| change.attributes.iter().map(move |a| (change, a)))
            .max_by_key(|(_, attribute)| length(attribute));
        // The path as agents may see it: as far as the provider chose its words.
        let (longest, address) = longest.map_or_else(
            || ("an output".to_owned(), "the root".to_owned()),
            |(change, attribute)| {
                let word = attribute.path.split(['[', '.']).next().unwrap_or_default();
                (
                    format!("{word} ({} bytes)", length(attribute)),
                    address::without_keys(&change.address),
                )
            },
        );
        Err(PlanRefusal::TooLong {
            found,
            limit,
            longest,
            address,
        })
    }
}
