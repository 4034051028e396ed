//! What happens to one resource or output.

use sandbox_proto::approver::v1::{Attribute, Change, OutputChange};

use super::{Lengths, Row, Tone};
use crate::approvals::values::Pair;

/// A heading that names the live object, the address below it, and every attribute that changes.
pub(super) fn change(change: &Change, lengths: Lengths, rows: &mut Vec<Row>) {
    let look = Look::of(change);
    let what = match change.object.as_str() {
        "" => &change.address,
        object => object,
    };
    rows.push(Row::hanging(
        look.tone,
        &format!("  {:<4}", look.sign),
        &format!("{:<8} {what}", change.action),
    ));
    if !change.object.is_empty() {
        rows.push(Row::words(Tone::Quiet, 6, &change.address));
    }
    if !change.previous_address.is_empty() {
        let was = format!("moved from {}", change.previous_address);
        rows.push(Row::words(Tone::Quiet, 6, &was));
    }
    if !look.means.is_empty() {
        rows.push(Row::words(Tone::Plain, 6, look.means));
    }
    if !change.import_id.is_empty() {
        rows.push(Row::words(
            Tone::Plain,
            6,
            &format!("imported by the id {}", change.import_id),
        ));
    }
    if !change.reason.is_empty() {
        rows.push(Row::words(
            Tone::Plain,
            6,
            &format!("why: {}", change.reason),
        ));
    }
    if !change.replace_paths.is_empty() {
        let paths = change.replace_paths.join(", ");
        rows.push(Row::words(Tone::Danger, 6, &format!("forced by: {paths}")));
    }
    for attribute in &change.attributes {
        pair(attribute).rows(6, lengths, rows);
    }
}

/// An output before and after.
pub(super) fn output(output: &OutputChange, lengths: Lengths, rows: &mut Vec<Row>) {
    let pair = Pair {
        name: &output.name,
        before: &output.before,
        after: &output.after,
        note: note(output.sensitive, false),
        alarming: false,
    };
    pair.rows(2, lengths, rows);
}

fn pair(attribute: &Attribute) -> Pair<'_> {
    Pair {
        name: &attribute.path,
        before: &attribute.before,
        after: &attribute.after,
        note: note(attribute.sensitive, attribute.forces_replacement),
        alarming: attribute.forces_replacement,
    }
}

fn note(sensitive: bool, forces_replacement: bool) -> &'static str {
    match (sensitive, forces_replacement) {
        (false, false) => "",
        (true, false) => "  (it changes; its value is sensitive and masked)",
        (false, true) => "  (FORCES THE REPLACEMENT)",
        (true, true) => "  (FORCES THE REPLACEMENT; it changes; its value is sensitive and masked)",
    }
}

struct Look {
    sign: &'static str,
    tone: Tone,
    means: &'static str,
}

impl Look {
    fn of(change: &Change) -> Self {
        let (sign, tone, means) = match change.action.as_str() {
            "create" => ("+", Tone::Added, ""),
            "update" => ("~", Tone::Changed, ""),
            "replace" if change.create_before_destroy => (
                "+/-",
                Tone::Danger,
                "made anew first, then the old one is destroyed",
            ),
            "replace" => ("-/+", Tone::Danger, "destroyed first, then made anew"),
            "delete" => ("-", Tone::Danger, ""),
            "forget" => (
                "x",
                Tone::Danger,
                "Terraform lets go of it, and it goes on living",
            ),
            "import" => (
                "<=",
                Tone::Changed,
                "an object that exists becomes Terraform's",
            ),
            "move" => (">", Tone::Plain, ""),
            "read" => ("r", Tone::Plain, ""),
            _ => ("?", Tone::Danger, "this approver does not know this action"),
        };
        Self { sign, tone, means }
    }
}
