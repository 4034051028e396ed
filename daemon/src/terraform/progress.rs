//! How far an apply came, operation by operation: in words for its agent, by address for the trail.

use sandbox_core::plan::{Action, Change, without_keys};
use sandbox_proto::runner::v1::Operation;
use sandbox_proto::runner::v1::operation::State;

use crate::actions::{count, visible};

/// The operations of an apply beside what was planned.
#[derive(Clone, Copy)]
pub(super) struct Progress<'a> {
    planned: &'a [Change],
    operations: &'a [Operation],
}

/// How much was heard of an apply.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum Heard {
    /// Everything: Terraform ended and said how.
    All,
    /// What came before nothing came any more.
    Part,
}

impl<'a> Progress<'a> {
    pub(super) fn new(planned: &'a [Change], operations: &'a [Operation]) -> Self {
        Self {
            planned,
            operations,
        }
    }

    /// Whether every operation that began has an end.
    pub(super) fn is_whole(self) -> bool {
        self.operations.iter().all(|o| has_ended(o.state()))
    }

    /// What was applied, failed and not started.
    pub(super) fn words(self, heard: Heard) -> String {
        let of = |state: State| {
            let found = self.operations.iter().filter(|o| o.state() == state);
            list(found.map(|o| (o.action.as_str(), o.address.as_str())))
        };
        let rest = self.planned.iter().flat_map(|c| {
            let actions = operations_of(c.action).iter();
            actions.map(|action| (*action, c.address.as_str()))
        });
        let rest = list(rest.filter(|(action, address)| {
            let begun = |o: &Operation| o.action == *action && o.address == *address;
            !self.operations.iter().any(begun)
        }));
        let not_started = match heard {
            Heard::All => "Not started",
            Heard::Part => "Not seen to start",
        };
        [
            ("Applied", of(State::Applied)),
            ("Failed", of(State::Failed)),
            ("Begun, without an end", of(State::Started)),
            (not_started, rest),
        ]
        .into_iter()
        .filter(|(_, list)| !list.is_empty())
        .map(|(what, list)| format!("{what}: {list}."))
        .collect::<Vec<_>>()
        .join(" ")
    }

    /// What to look out for when something was being made and no state may have it.
    pub(super) fn warning(self) -> Option<&'static str> {
        let lost = |o: &Operation| o.action == "create" && !has_ended(o.state());
        self.operations.iter().any(lost).then_some(
            "What was being created may be there though no state has it. Then the next plan adds it again, and its \
             apply says that it exists already: bring it in with an import block, or have it deleted.",
        )
    }

    /// By address, with how long each took.
    pub(super) fn for_trail(self) -> String {
        let all: Vec<String> = self.operations.iter().map(operation).collect();
        all.join("; ")
    }
}

fn has_ended(state: State) -> bool {
    match state {
        State::Applied | State::Failed => true,
        State::Started | State::Unspecified => false,
    }
}

/// What Terraform tells of while it applies such a change.
const fn operations_of(action: Action) -> &'static [&'static str] {
    match action {
        Action::Create => &["create"],
        Action::Update => &["update"],
        Action::Replace { .. } => &["delete", "create"],
        Action::Delete => &["delete"],
        Action::Forget | Action::Import | Action::Move | Action::Read => &[],
    }
}

/// As an agent may see them, so without keys; what looks the same is counted.
fn list<'o>(operations: impl Iterator<Item = (&'o str, &'o str)>) -> String {
    let mut told: Vec<(String, u64)> = Vec::new();
    for (action, address) in operations {
        let text = format!("{action} {}", visible(&without_keys(address)));
        match told.iter_mut().find(|(known, _)| *known == text) {
            Some((_, times)) => *times += 1,
            None => told.push((text, 1)),
        }
    }
    let told = told.into_iter().map(|(text, times)| match times {
        1 => text,
        _ => format!("{text} ({})", count(times, "time")),
    });
    told.collect::<Vec<_>>().join(", ")
}

fn operation(operation: &Operation) -> String {
    let state = match operation.state() {
        State::Applied => "applied",
        State::Failed => "failed",
        State::Started | State::Unspecified => "begun",
    };
    format!(
        "{} {} {state} ({} ms)",
        operation.action,
        visible(&without_keys(&operation.address)),
        operation.elapsed_ms
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(address: &str, action: Action) -> Change {
        Change {
            address: address.to_owned(),
            previous_address: None,
            object: None,
            action,
            reason: None,
            replace_paths: Vec::new(),
            attributes: Vec::new(),
            import_id: None,
        }
    }

    fn seen(address: &str, action: &str, state: State) -> Operation {
        Operation {
            address: address.to_owned(),
            action: action.to_owned(),
            state: state.into(),
            elapsed_ms: 7,
        }
    }

    #[test]
    fn what_was_applied_failed_and_not_started_is_told_with_each_half_of_a_replacement() {
        let planned = [
            planned("a[\"x\"]", Action::Create),
            planned("a[\"y\"]", Action::Create),
            planned(
                "b",
                Action::Replace {
                    create_before_destroy: false,
                },
            ),
            planned("c", Action::Update),
            planned("d", Action::Move),
        ];
        let mut operations = vec![
            seen("a[\"x\"]", "create", State::Applied),
            seen("a[\"y\"]", "create", State::Applied),
            seen("b", "delete", State::Failed),
        ];
        let progress = Progress::new(&planned, &operations);
        assert!(progress.is_whole());
        assert_eq!(progress.warning(), None);
        assert_eq!(
            progress.words(Heard::All),
            "Applied: create a[*] (2 times). Failed: delete b. Not started: create b, update c."
        );
        operations.push(seen("b", "create", State::Started));
        let progress = Progress::new(&planned, &operations);
        assert!(!progress.is_whole());
        assert!(progress.warning().unwrap().contains("import block"));
        assert_eq!(
            progress.words(Heard::Part),
            "Applied: create a[*] (2 times). Failed: delete b. Begun, without an end: create b. Not seen to start: \
             update c."
        );
        assert_eq!(
            progress.for_trail(),
            "create a[*] applied (7 ms); create a[*] applied (7 ms); delete b failed (7 ms); create b begun (7 ms)"
        );
    }

    #[test]
    fn nothing_planned_and_nothing_seen_has_no_words() {
        assert_eq!(Progress::new(&[], &[]).words(Heard::Part), "");
    }
}
