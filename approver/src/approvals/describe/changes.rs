//! What happens to one resource or output.

use sandbox_proto::approver::v1::{Attribute, Change, OutputChange};

use super::{Lengths, Row, Tone};
use crate::approvals::values::{LONGEST, NONE, Pair, UNKNOWN};

/// A heading that names the live object, the address below it, and every attribute that changes: a line for
/// each that somebody chose, then all that the provider fills in together.
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
    let (filled_in, chosen): (Vec<_>, Vec<_>) =
        change.attributes.iter().partition(|a| is_filled_in(a));
    for attribute in &chosen {
        pair(attribute).rows(6, lengths, rows);
    }
    if !filled_in.is_empty() {
        let told = told_filled_in(&filled_in, chosen.len());
        rows.push(Row::hanging(Tone::Quiet, "      ", &told));
    }
}

/// What does not get a line of its own: what sandboxd says nobody chose, as long as it looks like that.
fn is_filled_in(attribute: &Attribute) -> bool {
    attribute.filled_in
        && attribute.after == UNKNOWN
        && !attribute.sensitive
        && !attribute.forces_replacement
        && attribute.before.len() <= LONGEST
}

/// All of them by name, with what they were; neighbours of one block in braces behind its name.
fn told_filled_in(attributes: &[&Attribute], others: usize) -> String {
    let mut blocks: Vec<(&str, Vec<String>)> = Vec::new();
    for Attribute { path, before, .. } in attributes {
        let (block, name) = match path.rsplit_once('.') {
            // A key in quotes can have points of its own.
            Some((block, name)) if !path.contains('"') => (block, name),
            Some(_) | None => ("", path.as_str()),
        };
        let told = match before.as_str() {
            NONE | "\"\"" | "[]" | "{}" => name.to_owned(),
            before => format!("{name} (was {before})"),
        };
        match blocks.last_mut().filter(|last| last.0 == block) {
            Some((_, names)) => names.push(told),
            None => blocks.push((block, vec![told])),
        }
    }
    let blocks: Vec<String> = blocks
        .iter()
        .map(|(block, names)| match (*block, &names[..]) {
            ("", names) => names.join(", "),
            (block, [name]) => format!("{block}.{name}"),
            (block, names) => format!("{block}.{{{}}}", names.join(", ")),
        })
        .collect();
    let more = if others > 0 { " more" } else { "" };
    let attributes = match attributes.len() {
        1 => format!("1{more} attribute is"),
        some => format!("{some}{more} attributes are"),
    };
    format!(
        "{attributes} known only after the apply: {}",
        blocks.join(", ")
    )
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::lay_out;

    fn shown(attributes: Vec<Attribute>) -> Vec<String> {
        let replaced = Change {
            object: "Deployment/demo-app/web".to_owned(),
            action: "replace".to_owned(),
            attributes,
            ..Change::default()
        };
        let mut rows = Vec::new();
        change(&replaced, Lengths::Whole, &mut rows);
        // Behind the heading, the address and what a replacement means.
        let lines = lay_out(&rows, None).into_iter().skip(3);
        lines.map(|line| line.text.trim().to_owned()).collect()
    }

    fn late(path: &str, before: &str) -> Attribute {
        Attribute {
            path: path.to_owned(),
            before: before.to_owned(),
            after: UNKNOWN.to_owned(),
            filled_in: true,
            ..Attribute::default()
        }
    }

    #[test]
    fn what_is_filled_in_stands_together_at_the_end_all_by_name() {
        let chosen = Attribute {
            filled_in: false,
            ..late("spec[0].replicas", "3")
        };
        let attributes = vec![
            late("id", "\"demo-app/web\""),
            chosen.clone(),
            late("metadata[0].generation", "1"),
            late("metadata[0].u\u{456}d", NONE),
            late("spec[0].volume", "[]"),
            late("x[\"a.b\"]", NONE),
            late("x[\"a.c\"]", NONE),
        ];
        assert_eq!(
            shown(attributes),
            [
                "~ spec[0].replicas: 3 -> (known after apply)",
                "6 more attributes are known only after the apply: id (was \"demo-app/web\"), \
                 metadata[0].{generation (was 1), u\\u{456}d}, spec[0].volume, x[\"a.b\"], x[\"a.c\"]",
            ]
        );
        assert_eq!(
            shown(vec![late("id", "\"\"")]),
            ["1 attribute is known only after the apply: id"]
        );
        assert_eq!(
            shown(vec![chosen]),
            ["~ spec[0].replicas: 3 -> (known after apply)"]
        );
    }

    /// Whatever the rest says: a value that is there, that is masked, that forces the replacement, or that
    /// sandboxd does not call filled in has a line of its own.
    #[test]
    fn nothing_else_is_ever_taken_together() {
        let long = format!("\"{}\"", "x".repeat(LONGEST));
        let values = [NONE, UNKNOWN, "(sensitive)", "\"\"", "3", &long];
        let mut together = 0;
        for case in 0..values.len() * values.len() * 8 {
            let (flags, case) = (case % 8, case / 8);
            let one = Attribute {
                after: values[case % values.len()].to_owned(),
                sensitive: flags & 1 != 0,
                forces_replacement: flags & 2 != 0,
                filled_in: flags & 4 != 0,
                ..late("spec[0].one", values[case / values.len()])
            };
            let lines = shown(vec![late("id", NONE), one.clone()]);
            let folded = flags == 4 && one.after == UNKNOWN && one.before != long;
            let (last, own) = lines.split_last().unwrap();
            assert_eq!(last.contains("spec[0].one"), folded, "{one:?}: {lines:#?}");
            assert_eq!(!own.is_empty(), !folded, "{one:?}: {lines:#?}");
            assert!(own.iter().all(|line| !line.contains("id")), "{lines:#?}");
            let told = if folded { last } else { &own.join("\n") };
            if !["\"\"", NONE].contains(&one.before.as_str()) {
                assert!(told.contains(&one.before), "{one:?}: {lines:#?}");
            }
            together += usize::from(folded);
        }
        assert_eq!(together, values.len() - 1);
    }
}
