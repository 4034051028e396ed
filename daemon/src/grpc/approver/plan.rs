//! What a plan does, as the contract has it.

use sandbox_core::plan::{self, Action, PlanFacts};
use sandbox_proto::approver::v1 as proto;

pub(super) fn plan(facts: &PlanFacts) -> proto::Plan {
    proto::Plan {
        dangers: facts.dangers.iter().map(danger).collect(),
        changes: facts.changes.iter().map(change).collect(),
        unchanged: facts.unchanged,
        outputs: facts.outputs.iter().map(output).collect(),
        drift: facts.drift.iter().map(change).collect(),
        checks: facts.checks.clone(),
        terraform_version: facts.terraform_version.clone(),
    }
}

fn danger(danger: &plan::Danger) -> proto::Danger {
    proto::Danger {
        rank: danger.rank.into(),
        kind: danger.kind.clone(),
        object: object(danger.object.as_ref()),
        why: danger.why.clone(),
        address: danger.address.clone(),
    }
}

fn change(change: &plan::Change) -> proto::Change {
    let (action, create_before_destroy) = match change.action {
        Action::Create => ("create", false),
        Action::Update => ("update", false),
        Action::Replace {
            create_before_destroy,
        } => ("replace", create_before_destroy),
        Action::Delete => ("delete", false),
        Action::Forget => ("forget", false),
        Action::Import => ("import", false),
        Action::Move => ("move", false),
        Action::Read => ("read", false),
    };
    proto::Change {
        address: change.address.clone(),
        previous_address: change.previous_address.clone().unwrap_or_default(),
        object: object(change.object.as_ref()),
        action: action.to_owned(),
        create_before_destroy,
        reason: change.reason.clone().unwrap_or_default(),
        replace_paths: change.replace_paths.clone(),
        attributes: change.attributes.iter().map(attribute).collect(),
        import_id: change.import_id.clone().unwrap_or_default(),
    }
}

fn attribute(attribute: &plan::Attribute) -> proto::Attribute {
    proto::Attribute {
        path: attribute.path.clone(),
        before: attribute.before.clone(),
        after: attribute.after.clone(),
        sensitive: attribute.sensitive,
        forces_replacement: attribute.forces_replacement,
        filled_in: attribute.filled_in,
    }
}

fn output(output: &plan::OutputChange) -> proto::OutputChange {
    proto::OutputChange {
        name: output.name.clone(),
        action: output.action.clone(),
        before: output.before.clone(),
        after: output.after.clone(),
        sensitive: output.sensitive,
    }
}

fn object(object: Option<&plan::LiveObject>) -> String {
    object.map(ToString::to_string).unwrap_or_default()
}
