//! Approvals for programs: the fields of the contract, with times as text and digests as hex, in the
//! trail's own spelling of JSON, which is ASCII on one line.

use sandbox_core::audit::{Fields, UtcMillis, Value};
use sandbox_proto::approver::v1 as proto;

use super::describe::hex;
use super::standing::state_word;

/// One approval without its plan.
pub(super) fn approval(approval: &proto::Approval) -> Value {
    let verdicts: Vec<Fields> = approval.verdicts.iter().map(verdict).collect();
    object([
        ("id", text(&approval.id)),
        ("state", state_word(approval).into()),
        ("principal", text(&approval.principal)),
        ("action", text(&approval.action)),
        ("root", text(&approval.root)),
        ("request_id", text(&approval.request_id)),
        ("reason_unverified", text(&approval.reason)),
        ("client_unverified", text(&approval.client)),
        ("opened", time(approval.opened_ms)),
        ("expires", time(approval.expires_ms)),
        ("ended", time(approval.ended_ms)),
        ("quorum", approval.quorum.into()),
        ("verdicts", verdicts.into()),
        ("digest", hex(&approval.digest).into()),
        ("summary", text(&approval.summary)),
        ("dangers", approval.dangers.into()),
        ("rule", text(&approval.rule)),
        ("outcome", text(&approval.outcome)),
        ("used_by", text(&approval.used_by)),
    ])
    .into()
}

/// One approval and all there is to know of it.
pub(super) fn everything(shown: &proto::GetApprovalResponse) -> Value {
    let source: Vec<Fields> = shown.source.iter().map(file).collect();
    let bound: Vec<Fields> = shown.bound.iter().map(binding).collect();
    object([
        ("approval", shown.approval.as_ref().map(approval).into()),
        ("plan", shown.plan.as_ref().map(plan).into()),
        ("source", source.into()),
        ("source_since", text(&shown.source_since)),
        ("scope", texts(&shown.scope)),
        ("bound", bound.into()),
        ("confirm", texts(&shown.confirm)),
        ("last_apply", text(&shown.last_apply)),
    ])
    .into()
}

fn verdict(verdict: &proto::Verdict) -> Fields {
    object([
        ("approver", text(&verdict.approver)),
        ("grant", verdict.grant.into()),
        ("reason", text(&verdict.reason)),
        ("time", time(verdict.time_ms)),
        ("void", text(&verdict.void)),
    ])
}

fn plan(plan: &proto::Plan) -> Fields {
    let dangers: Vec<Fields> = plan.dangers.iter().map(danger).collect();
    let changes: Vec<Fields> = plan.changes.iter().map(change).collect();
    let outputs: Vec<Fields> = plan.outputs.iter().map(output).collect();
    let drift: Vec<Fields> = plan.drift.iter().map(change).collect();
    object([
        ("dangers", dangers.into()),
        ("changes", changes.into()),
        ("unchanged", plan.unchanged.into()),
        ("outputs", outputs.into()),
        ("drift", drift.into()),
        ("checks", texts(&plan.checks)),
        ("terraform_version", text(&plan.terraform_version)),
    ])
}

fn danger(danger: &proto::Danger) -> Fields {
    object([
        ("rank", danger.rank.into()),
        ("kind", text(&danger.kind)),
        ("object", text(&danger.object)),
        ("why", text(&danger.why)),
        ("address", text(&danger.address)),
    ])
}

fn change(change: &proto::Change) -> Fields {
    let attributes: Vec<Fields> = change.attributes.iter().map(attribute).collect();
    object([
        ("address", text(&change.address)),
        ("previous_address", text(&change.previous_address)),
        ("object", text(&change.object)),
        ("action", text(&change.action)),
        ("create_before_destroy", change.create_before_destroy.into()),
        ("reason", text(&change.reason)),
        ("replace_paths", texts(&change.replace_paths)),
        ("attributes", attributes.into()),
        ("import_id", text(&change.import_id)),
    ])
}

fn attribute(attribute: &proto::Attribute) -> Fields {
    object([
        ("path", text(&attribute.path)),
        ("before", text(&attribute.before)),
        ("after", text(&attribute.after)),
        ("sensitive", attribute.sensitive.into()),
        ("forces_replacement", attribute.forces_replacement.into()),
        ("filled_in", attribute.filled_in.into()),
    ])
}

fn output(output: &proto::OutputChange) -> Fields {
    object([
        ("name", text(&output.name)),
        ("action", text(&output.action)),
        ("before", text(&output.before)),
        ("after", text(&output.after)),
        ("sensitive", output.sensitive.into()),
    ])
}

fn file(file: &proto::FileDiff) -> Fields {
    object([
        ("path", text(&file.path)),
        ("action", text(&file.action)),
        ("diff", text(&file.diff)),
    ])
}

fn binding(binding: &proto::Binding) -> Fields {
    object([
        ("name", text(&binding.name)),
        ("value", text(&binding.value)),
    ])
}

fn text(text: &str) -> Value {
    text.into()
}

fn texts(texts: &[String]) -> Value {
    let texts: Vec<Value> = texts.iter().map(|one| text(one)).collect();
    texts.into()
}

/// `null` for a time that has not come.
fn time(ms: i64) -> Value {
    (ms != 0)
        .then(|| UtcMillis::from_unix_ms(ms).to_string())
        .into()
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Fields {
    members
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
