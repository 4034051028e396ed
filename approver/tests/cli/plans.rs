//! Approvals as sandboxd shows them, for tests of what a person sees.

use sandbox_proto::approver::v1 as proto;
use sandbox_proto::approver::v1::approval::State;

pub const ID: &str = "7k2m9x4q8wab";
pub const OTHER_ID: &str = "p9h3c5t7v2xz";
pub const MINUTE_MS: i64 = 60_000;
const REQUEST: &str = "019cab59-6d40-7707-8707-070707070707";

/// What every approval has: pending, opened two minutes before `now_ms`, 28 minutes left.
pub fn pending(now_ms: i64) -> proto::GetApprovalResponse {
    let approval = proto::Approval {
        id: ID.to_owned(),
        state: State::Pending.into(),
        principal: "demo-agent".to_owned(),
        action: "terraform_apply".to_owned(),
        root: "demo".to_owned(),
        request_id: REQUEST.to_owned(),
        reason: "Label the pods with their team".to_owned(),
        client: "claude-code 2.1".to_owned(),
        opened_ms: now_ms - 2 * MINUTE_MS,
        // Half a minute more, so that a slow run still finds 28 of them.
        expires_ms: now_ms + 28 * MINUTE_MS + 30_000,
        quorum: 1,
        digest: vec![0xab; 32].into(),
        rule: "ask-for-every-apply".to_owned(),
        ..proto::Approval::default()
    };
    proto::GetApprovalResponse {
        approval: Some(approval),
        plan: Some(proto::Plan {
            terraform_version: "1.11.4".to_owned(),
            ..proto::Plan::default()
        }),
        scope: vec!["Create, change and delete deployments in namespace demo-app.".to_owned()],
        bound: vec![
            binding("bundle", "sha256:1f2e"),
            binding("runner image", "sandbox-runner@sha256:aa11"),
            binding("state", "serial 4 of lineage 6f1c"),
        ],
        ..proto::GetApprovalResponse::default()
    }
}

/// The demo's: an edit of one label that forces a Deployment's replacement.
pub fn replacement(now_ms: i64) -> proto::GetApprovalResponse {
    let mut shown = pending(now_ms);
    let approval = shown.approval.as_mut().unwrap();
    approval.summary = "1 to replace".to_owned();
    approval.dangers = 1;
    let plan = shown.plan.as_mut().unwrap();
    plan.unchanged = 1;
    plan.dangers = vec![proto::Danger {
        rank: 1,
        kind: "replaces".to_owned(),
        object: "Deployment/demo-app/web".to_owned(),
        why: "It is destroyed and made anew: its pods end before the new ones run.".to_owned(),
        address: "kubernetes_deployment.web".to_owned(),
    }];
    let labels = "spec[0].selector[0].match_labels.team";
    plan.changes = vec![proto::Change {
        address: "kubernetes_deployment.web".to_owned(),
        object: "Deployment/demo-app/web".to_owned(),
        action: "replace".to_owned(),
        reason: "an attribute that cannot be changed in place has changed".to_owned(),
        replace_paths: vec![labels.to_owned()],
        attributes: vec![
            proto::Attribute {
                path: labels.to_owned(),
                before: "\"web\"".to_owned(),
                after: "\"shop\"".to_owned(),
                forces_replacement: true,
                ..proto::Attribute::default()
            },
            attribute("spec[0].replicas", "3", "(known after apply)"),
            filled_in("metadata[0].resource_version", "\"812\""),
            filled_in("metadata[0].uid", "\"0c1d\""),
            filled_in("spec[0].template[0].spec[0].node_name", "\"\""),
        ],
        ..proto::Change::default()
    }];
    shown.source = vec![proto::FileDiff {
        path: "main.tf".to_owned(),
        action: "changed".to_owned(),
        diff: "@@ -12,3 +12,3 @@\n   match_labels = {\n-    team = \"web\"\n+    team = \"shop\"\n   }\n"
            .to_owned(),
    }];
    shown.source_since = "2026-02-27T16:20:00Z".to_owned();
    shown.confirm = vec!["Deployment/demo-app/web".to_owned()];
    shown
}

/// One `ConfigMap` more, and nothing that is lost.
pub fn harmless(now_ms: i64) -> proto::GetApprovalResponse {
    let mut shown = pending(now_ms);
    shown.approval.as_mut().unwrap().summary = "1 to add".to_owned();
    let plan = shown.plan.as_mut().unwrap();
    plan.changes = vec![proto::Change {
        address: "kubernetes_config_map.settings".to_owned(),
        object: "ConfigMap/demo-app/settings".to_owned(),
        action: "create".to_owned(),
        attributes: vec![attribute("data.mode", "(none)", "\"fast\"")],
        ..proto::Change::default()
    }];
    shown
}

/// 60 resources that move, each worth a look, and one among them that is deleted.
pub fn moves_with_a_delete(now_ms: i64) -> proto::GetApprovalResponse {
    let mut shown = pending(now_ms);
    let approval = shown.approval.as_mut().unwrap();
    approval.summary = "1 to destroy, 60 to move".to_owned();
    approval.dangers = 61;
    let plan = shown.plan.as_mut().unwrap();
    plan.dangers = vec![proto::Danger {
        rank: 1,
        kind: "destroys".to_owned(),
        object: "PersistentVolumeClaim/demo-app/data".to_owned(),
        why: "It holds data, and the data goes with it.".to_owned(),
        address: "kubernetes_persistent_volume_claim.data".to_owned(),
    }];
    plan.changes = vec![proto::Change {
        address: "kubernetes_persistent_volume_claim.data".to_owned(),
        object: "PersistentVolumeClaim/demo-app/data".to_owned(),
        action: "delete".to_owned(),
        reason: "it is not in the configuration any more".to_owned(),
        ..proto::Change::default()
    }];
    plan.dangers.extend((0..60).map(|number| proto::Danger {
        rank: 4,
        kind: "moves".to_owned(),
        object: format!("ConfigMap/demo-app/part-{number}"),
        why: format!("It was kubernetes_config_map.part[{number}] until now."),
        address: format!("module.all.kubernetes_config_map.part[{number}]"),
    }));
    plan.changes.extend((0..60).map(|number| proto::Change {
        address: format!("module.all.kubernetes_config_map.part[{number}]"),
        previous_address: format!("kubernetes_config_map.part[{number}]"),
        object: format!("ConfigMap/demo-app/part-{number}"),
        action: "move".to_owned(),
        ..proto::Change::default()
    }));
    shown.confirm = vec!["PersistentVolumeClaim/demo-app/data".to_owned()];
    shown
}

/// So many updates.
pub fn updates(now_ms: i64, count: usize) -> proto::GetApprovalResponse {
    let mut shown = pending(now_ms);
    shown.approval.as_mut().unwrap().summary = format!("{count} to change");
    let changes = (0..count).map(|number| proto::Change {
        address: format!("kubernetes_config_map.part[{number}]"),
        object: format!("ConfigMap/demo-app/part-{number}"),
        action: "update".to_owned(),
        attributes: vec![attribute("data.mode", "\"slow\"", "\"fast\"")],
        ..proto::Change::default()
    });
    shown.plan.as_mut().unwrap().changes = changes.collect();
    shown
}

/// A value that is so long, and changes in its middle.
pub fn long_value(now_ms: i64, length: usize) -> proto::GetApprovalResponse {
    let mut shown = updates(now_ms, 1);
    let before = "x".repeat(length);
    let mut after = before.clone();
    after.replace_range(length / 2..=length / 2, "Y");
    shown.plan.as_mut().unwrap().changes[0].attributes =
        vec![attribute("data.blob", &before, &after)];
    shown
}

/// Every text that comes from elsewhere is `text`.
pub fn hostile(now_ms: i64, text: &str) -> proto::GetApprovalResponse {
    let mut shown = replacement(now_ms);
    let text = || text.to_owned();
    let approval = shown.approval.as_mut().unwrap();
    (approval.reason, approval.client) = (text(), text());
    (approval.root, approval.summary, approval.rule) = (text(), text(), text());
    approval.principal = text();
    approval.verdicts = vec![proto::Verdict {
        approver: text(),
        grant: true,
        reason: text(),
        void: text(),
        time_ms: now_ms,
    }];
    let plan = shown.plan.as_mut().unwrap();
    for danger in &mut plan.dangers {
        (danger.kind, danger.object) = (text(), text());
        (danger.why, danger.address) = (text(), text());
    }
    for change in &mut plan.changes {
        (change.address, change.previous_address) = (text(), text());
        (change.object, change.action, change.reason) = (text(), text(), text());
        (change.import_id, change.replace_paths) = (text(), vec![text()]);
        for attribute in &mut change.attributes {
            (attribute.path, attribute.before, attribute.after) = (text(), text(), text());
        }
    }
    plan.drift.clone_from(&plan.changes);
    plan.checks = vec![text()];
    plan.terraform_version = text();
    plan.outputs = vec![proto::OutputChange {
        name: text(),
        action: text(),
        before: text(),
        after: text(),
        sensitive: false,
    }];
    for file in &mut shown.source {
        (file.path, file.action, file.diff) = (text(), text(), text());
    }
    (shown.source_since, shown.scope) = (text(), vec![text()]);
    shown.bound = vec![proto::Binding {
        name: text(),
        value: text(),
    }];
    shown
}

/// One that the provider fills in.
fn filled_in(path: &str, before: &str) -> proto::Attribute {
    proto::Attribute {
        filled_in: true,
        ..attribute(path, before, "(known after apply)")
    }
}

pub fn attribute(path: &str, before: &str, after: &str) -> proto::Attribute {
    proto::Attribute {
        path: path.to_owned(),
        before: before.to_owned(),
        after: after.to_owned(),
        ..proto::Attribute::default()
    }
}

fn binding(name: &str, value: &str) -> proto::Binding {
    proto::Binding {
        name: name.to_owned(),
        value: value.to_owned(),
    }
}

/// The same approval under another id.
pub fn renamed(mut shown: proto::GetApprovalResponse, id: &str) -> proto::GetApprovalResponse {
    shown.approval.as_mut().unwrap().id = id.to_owned();
    shown
}

/// The same approval in another state.
pub fn in_state(mut shown: proto::GetApprovalResponse, state: State) -> proto::GetApprovalResponse {
    let approval = shown.approval.as_mut().unwrap();
    approval.state = state.into();
    approval.ended_ms = match state {
        State::Pending | State::Granted | State::Unspecified => 0,
        State::Consumed | State::Denied | State::Expired | State::Cancelled => {
            approval.opened_ms + MINUTE_MS
        }
    };
    shown
}
