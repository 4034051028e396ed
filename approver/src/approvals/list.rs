//! Approvals as a table.

use sandbox_core::audit::UtcMillis;
use sandbox_proto::approver::v1::Approval;

use super::standing::{counted, is_open, left, state_word};
use crate::document::{Row, Tone};
use crate::escape::escape;

/// One row each, under a heading.
pub(super) fn rows(approvals: &[Approval], ended: bool, now_ms: i64) -> Vec<Row> {
    if approvals.is_empty() {
        let none = if ended {
            "There was no approval in the last seven days."
        } else {
            "No approval waits. Those that ended: approver list --all"
        };
        return vec![Row::words(Tone::Plain, 0, none)];
    }
    let cells: Vec<[String; 5]> = approvals.iter().map(|a| cells(a, now_ms)).collect();
    let names = ["APPROVAL", "STATE", "TIME", "ROOT", "ASKED BY"].map(str::to_owned);
    let all = || cells.iter().chain([&names]);
    let widths: [usize; 5] =
        std::array::from_fn(|column| all().map(|row| row[column].len()).max().unwrap_or(0));
    let lead = |row: &[String; 5]| {
        let padded = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:<width$}  "));
        padded.collect::<String>()
    };
    let heading = Row::hanging(Tone::Heading, &lead(&names), "WHAT");
    let approvals = approvals
        .iter()
        .zip(&cells)
        .map(|(approval, cells)| Row::hanging(tone(approval), &lead(cells), &what(approval)));
    [heading].into_iter().chain(approvals).collect()
}

/// How many wait for verdicts.
pub(crate) fn waiting(approvals: &[Approval]) -> usize {
    approvals
        .iter()
        .filter(|approval| state_word(approval) == "pending")
        .count()
}

fn cells(approval: &Approval, now_ms: i64) -> [String; 5] {
    let time = if is_open(approval) {
        left(approval, now_ms)
    } else {
        // Without seconds.
        let ended = UtcMillis::from_unix_ms(approval.ended_ms).to_string();
        format!("{}Z", &ended[..16])
    };
    [
        escape(&approval.id),
        state_word(approval).to_owned(),
        time,
        escape(&approval.root),
        escape(&approval.principal),
    ]
}

/// What it would do, the dangers first; and what came of it.
pub(crate) fn what(approval: &Approval) -> String {
    let dangers = usize::try_from(approval.dangers).unwrap_or(usize::MAX);
    let dangers = (dangers > 0).then(|| format!("{}: ", counted(dangers, "danger").to_uppercase()));
    let outcome = (!approval.outcome.is_empty()).then(|| format!("; {}", approval.outcome));
    format!(
        "{}{}{}",
        dangers.unwrap_or_default(),
        approval.summary,
        outcome.unwrap_or_default()
    )
}

fn tone(approval: &Approval) -> Tone {
    match (is_open(approval), approval.dangers) {
        (false, _) => Tone::Quiet,
        (true, 0) => Tone::Plain,
        (true, _) => Tone::Danger,
    }
}
