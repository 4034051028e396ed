//! One approval, all of it: dangers first.

mod changes;

use std::collections::BTreeMap;

use sandbox_proto::approver::v1::{Approval, Danger, FileDiff, GetApprovalResponse, Plan, Verdict};

pub(crate) use super::values::Lengths;

use super::standing::{counted, left, state_word, time, told_state};
use crate::document::{Row, Tone};

/// How wide labels are.
const LABEL: usize = 12;

/// Heading, body and what can be done, with nothing cut.
pub(super) fn whole(shown: &GetApprovalResponse, now_ms: i64) -> Vec<Row> {
    let Some(approval) = &shown.approval else {
        return Vec::new();
    };
    let mut rows = heading(approval, now_ms);
    rows.extend(body(shown, Lengths::Whole));
    rows.push(Row::blank());
    // A long plan has scrolled its dangers away by now.
    if approval.dangers > 0 {
        let dangers = counted(count(approval.dangers), "danger");
        rows.push(Row::words(
            Tone::Danger,
            0,
            &format!("{dangers}, told at the top."),
        ));
    }
    if waits(approval) {
        rows.push(Row::words(
            Tone::Plain,
            0,
            &format!(
                "To decide ({}): approver grant {id}, or approver deny {id} --reason TEXT",
                left(approval, now_ms),
                id = approval.id
            ),
        ));
    }
    rows
}

/// Which approval, where it stands and what it is about.
pub(crate) fn heading(approval: &Approval, now_ms: i64) -> Vec<Row> {
    let Approval {
        id,
        action,
        root,
        summary,
        ..
    } = approval;
    let stands = told_state(approval, now_ms);
    vec![
        Row::heading(&format!("Approval {id}: {stands}")),
        Row::words(
            Tone::Plain,
            0,
            &format!("{action} of root {root}: {summary}"),
        ),
    ]
}

/// All the rest.
pub(crate) fn body(shown: &GetApprovalResponse, lengths: Lengths) -> Vec<Row> {
    let mut rows = Vec::new();
    let plan = shown.plan.as_ref();
    if let Some(plan) = plan {
        dangers(&plan.dangers, &mut rows);
    }
    if !shown.last_apply.is_empty() {
        rows.push(Row::blank());
        rows.push(Row::words(Tone::Danger, 0, &shown.last_apply));
    }
    let waits = shown.approval.as_ref().is_some_and(waits);
    destroyed(&shown.confirm, waits, &mut rows);
    if let Some(approval) = &shown.approval {
        who(approval, &mut rows);
    }
    match plan {
        Some(plan) => plan_rows(plan, lengths, &mut rows),
        None => rows.extend([
            Row::blank(),
            Row::words(
                Tone::Danger,
                0,
                "THE PLAN IS NOT THERE: sandboxd did not send it.",
            ),
        ]),
    }
    source(&shown.source, &shown.source_since, &mut rows);
    credential(shown, &mut rows);
    bound(shown, &mut rows);
    rows
}

fn section(title: &str, rows: &mut Vec<Row>) {
    rows.push(Row::blank());
    rows.push(Row::heading(title));
}

fn dangers(dangers: &[Danger], rows: &mut Vec<Row>) {
    if dangers.is_empty() {
        section("DANGERS: none that sandboxd knows of", rows);
        return;
    }
    rows.push(Row::blank());
    let title = format!(
        "DANGERS: {} (1 is the worst, 4 worth a look){}",
        dangers.len(),
        by_rank(dangers)
    );
    rows.push(Row::words(Tone::Danger, 0, &title));
    for danger in dangers {
        let what = match danger.object.as_str() {
            "" => format!("{} {}", danger.kind, danger.address),
            object => format!("{} {object}", danger.kind),
        };
        let tone = if danger.rank <= 2 {
            Tone::Danger
        } else {
            Tone::Changed
        };
        rows.push(Row::hanging(tone, &format!("  {} ", danger.rank), &what));
        rows.push(Row::words(Tone::Plain, 4, &danger.why));
        if !danger.object.is_empty() && !danger.address.is_empty() {
            rows.push(Row::words(
                Tone::Quiet,
                4,
                &format!("at {}", danger.address),
            ));
        }
    }
}

/// How many there are of each rank, where there are several: sixty moves make one delete no smaller.
fn by_rank(dangers: &[Danger]) -> String {
    let mut ranks = BTreeMap::new();
    for danger in dangers {
        *ranks.entry(danger.rank).or_insert(0_usize) += 1;
    }
    if ranks.len() < 2 {
        return String::new();
    }
    let counts = ranks
        .iter()
        .map(|(rank, count)| format!("{count} of rank {rank}"));
    format!(": {}", counts.collect::<Vec<_>>().join(", "))
}

/// The objects that are destroyed or replaced, by the names a person has to type.
fn destroyed(confirm: &[String], waits: bool, rows: &mut Vec<Row>) {
    if confirm.is_empty() {
        return;
    }
    let title = if waits {
        "TO GRANT IT, a person types at a terminal one of"
    } else {
        "DESTROYS OR REPLACES"
    };
    section(title, rows);
    rows.extend(confirm.iter().map(|name| Row::words(Tone::Danger, 2, name)));
}

fn labelled(label: &str, text: &str) -> Row {
    Row::hanging(Tone::Plain, &format!("  {label:<LABEL$}"), text)
}

/// Words that nobody has checked stand in quotes, behind what they are.
fn unverified(label: &str, text: &str) -> Row {
    let told = if text.is_empty() {
        "none given".to_owned()
    } else {
        format!("unverified: \"{text}\"")
    };
    labelled(label, &told)
}

fn who(approval: &Approval, rows: &mut Vec<Row>) {
    section("WHO ASKS", rows);
    let asked = time(approval.opened_ms);
    rows.push(labelled("principal", &approval.principal));
    rows.push(unverified("reason", &approval.reason));
    rows.push(unverified("client", &approval.client));
    rows.push(labelled(
        "asked",
        &format!("{asked}, request {}", approval.request_id),
    ));
    if !approval.used_by.is_empty() {
        rows.push(labelled(
            "used by",
            &format!("request {}", approval.used_by),
        ));
    }
    let yes = approval.verdicts.iter();
    let yes = yes.filter(|v| v.grant && v.void.is_empty()).count();
    let needed = format!(
        "{yes} of {} yes, asked for by the rule {}",
        approval.quorum, approval.rule
    );
    rows.push(labelled("verdicts", &needed));
    rows.extend(approval.verdicts.iter().map(verdict));
}

fn verdict(verdict: &Verdict) -> Row {
    let (word, tone) = if verdict.grant {
        ("yes", Tone::Added)
    } else {
        ("no", Tone::Removed)
    };
    let mut told = format!(
        "{word} by {} at {}",
        verdict.approver,
        time(verdict.time_ms)
    );
    if !verdict.reason.is_empty() {
        told = format!("{told}: \"{}\"", verdict.reason);
    }
    if !verdict.void.is_empty() {
        told = format!("{told} (does not count: {})", verdict.void);
    }
    Row::hanging(tone, &" ".repeat(LABEL + 2), &told)
}

fn plan_rows(plan: &Plan, lengths: Lengths, rows: &mut Vec<Row>) {
    let unchanged = counted(count(plan.unchanged), "resource");
    section(
        &format!("CHANGES: {} ({unchanged} unchanged)", plan.changes.len()),
        rows,
    );
    for change in &plan.changes {
        changes::change(change, lengths, rows);
    }
    if plan.changes.is_empty() {
        rows.push(Row::words(Tone::Plain, 2, "no resource changes"));
    }
    if !plan.outputs.is_empty() {
        section(&format!("OUTPUTS: {}", plan.outputs.len()), rows);
        for output in &plan.outputs {
            changes::output(output, lengths, rows);
        }
    }
    if !plan.drift.is_empty() {
        section(
            &format!(
                "DRIFT: {} changed behind Terraform's back since the state was written",
                plan.drift.len()
            ),
            rows,
        );
        for change in &plan.drift {
            changes::change(change, lengths, rows);
        }
    }
    if !plan.checks.is_empty() {
        section(
            &format!("CHECKS that fail or are unknown: {}", plan.checks.len()),
            rows,
        );
        rows.extend(
            plan.checks
                .iter()
                .map(|check| Row::hanging(Tone::Changed, "  ! ", check)),
        );
    }
}

fn source(files: &[FileDiff], since: &str, rows: &mut Vec<Row>) {
    let against = match since {
        "" => "nothing was applied before".to_owned(),
        since => format!("against the apply of {since}"),
    };
    if files.is_empty() {
        section(&format!("SOURCE: unchanged, {against}"), rows);
        return;
    }
    let title = format!(
        "SOURCE: {} changed, {against}",
        counted(files.len(), "file")
    );
    section(&title, rows);
    for file in files {
        rows.push(Row::words(
            Tone::Heading,
            2,
            &format!("{} {}", file.action, file.path),
        ));
        if file.diff.is_empty() {
            rows.push(Row::words(
                Tone::Changed,
                4,
                "not text, so not shown line by line",
            ));
        }
        rows.extend(file.diff.split_terminator('\n').map(diff_line));
    }
}

fn diff_line(line: &str) -> Row {
    let (tone, mark) = match line.as_bytes().first() {
        Some(b'+') => (Tone::Added, '+'),
        Some(b'-') => (Tone::Removed, '-'),
        Some(b'@') => return Row::exact(Tone::Quiet, "    ", line),
        Some(_) | None => (Tone::Plain, ' '),
    };
    // The mark goes to the lead: a line that wraps has it on each of its lines.
    let text = line.strip_prefix(mark).unwrap_or(line);
    Row::exact(tone, &format!("    {mark}"), text)
}

fn credential(shown: &GetApprovalResponse, rows: &mut Vec<Row>) {
    section("THE CREDENTIAL of the apply is good for", rows);
    if shown.scope.is_empty() {
        rows.push(Row::words(Tone::Danger, 2, "sandboxd does not say"));
    }
    rows.extend(
        shown
            .scope
            .iter()
            .map(|what| Row::hanging(Tone::Plain, "  - ", what)),
    );
}

fn bound(shown: &GetApprovalResponse, rows: &mut Vec<Row>) {
    section("A GRANT HOLDS for exactly this", rows);
    let width = shown.bound.iter().map(|b| b.name.len()).max().unwrap_or(0);
    let width = width.clamp(LABEL, 24);
    for binding in &shown.bound {
        let lead = format!("  {:<width$}  ", crate::escape::escape(&binding.name));
        rows.push(Row::hanging(Tone::Plain, &lead, &binding.value));
    }
    if let Some(plan) = &shown.plan {
        let lead = format!("  {:<width$}  ", "terraform");
        rows.push(Row::hanging(Tone::Plain, &lead, &plan.terraform_version));
    }
    if let Some(approval) = &shown.approval {
        let lead = format!("  {:<width$}  ", "digest");
        rows.push(Row::hanging(Tone::Plain, &lead, &hex(&approval.digest)));
    }
}

fn waits(approval: &Approval) -> bool {
    state_word(approval) == "pending"
}

pub(super) fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    digits.collect::<Vec<_>>().concat()
}

fn count(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
