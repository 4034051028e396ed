//! An agent's request, its plan, and what an approval of it is bound to.

use super::NewApproval;
use crate::store::{Envelope, MadeFrom, NewPlan, Opened, PlanKey, Store};
use sandbox_core::approval::{Approval, Approvers, Binding, Bound, NewVerdict, Said, Terms};
use sandbox_core::audit::UtcMillis;
use sandbox_core::ids::{ApprovalId, RequestId};
use sandbox_core::parameters::ActionName;
use sandbox_core::plan::{Action, Change, LiveObject, PlanFacts};

/// When the world begins, in milliseconds.
pub(crate) const BEGIN: i64 = 1_700_000_000_000;
pub(crate) const AGENT: &str = "demo-agent";
pub(crate) const AGENT_UID: u32 = 4_001;

/// So many seconds after the beginning.
pub(crate) fn at(seconds: i64) -> UtcMillis {
    UtcMillis::from_unix_ms(BEGIN + seconds * 1_000)
}

pub(crate) fn request(n: u8) -> RequestId {
    RequestId::new(1_700_000_000_000, [n; 10])
}

pub(crate) fn id(n: u8) -> ApprovalId {
    ApprovalId::new([n; 12])
}

pub(crate) fn approvers(names: &[&str]) -> Approvers {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

/// Writes a request of the agent's down.
pub(crate) async fn open_request(store: &Store, n: u8) {
    let what = (ActionName::TerraformApply, "{}".to_owned());
    let principal = AGENT.parse().unwrap();
    let opened = store.open_request(request(n), principal, what, None, 1);
    assert_eq!(opened.await.unwrap(), Opened::New);
}

/// Replaces one Deployment.
pub(crate) fn facts() -> PlanFacts {
    PlanFacts {
        changes: vec![Change {
            address: "kubernetes_deployment.shop".to_owned(),
            previous_address: None,
            object: Some(LiveObject {
                group: "apps".to_owned(),
                kind: "Deployment".to_owned(),
                resource: "deployments".to_owned(),
                namespace: Some("demo-app".parse().unwrap()),
                name: "shop".to_owned(),
            }),
            action: Action::Replace {
                create_before_destroy: false,
            },
            reason: Some("it cannot be changed in place".to_owned()),
            replace_paths: vec!["spec[0].selector".to_owned()],
            attributes: Vec::new(),
            import_id: None,
        }],
        terraform_version: "1.11.4".to_owned(),
        ..PlanFacts::default()
    }
}

/// As a row is without a key of Vault's.
pub(crate) fn plain(bytes: &[u8]) -> Envelope {
    Envelope::of_row(bytes.to_vec())
}

pub(crate) fn made_from(bundle: u8) -> MadeFrom {
    MadeFrom {
        bundle: [bundle; 32],
        inputs: [1; 32],
        lineage: "6f1c".to_owned(),
        serial: 7,
    }
}

pub(crate) fn new_plan(root: &str, by: u8, bundle: u8) -> NewPlan {
    NewPlan {
        root: root.parse().unwrap(),
        request: request(by),
        from: made_from(bundle),
        tar: vec![bundle; 8],
        digest: [5; 32],
        bytes: plain(b"a plan file"),
        facts: facts(),
        diagnostics: "[]".to_owned(),
    }
}

/// Keeps a plan of root `root`, made by request `by` from bundle `bundle`.
pub(crate) async fn keep_plan(store: &Store, root: &str, by: u8, bundle: u8) -> PlanKey {
    let now_ms = u64::try_from(BEGIN).unwrap();
    let new = new_plan(root, by, bundle);
    store.keep_plan(new, now_ms).await.unwrap()
}

pub(crate) fn binding(root: &str, bundle: u8, quorum: u32) -> Binding {
    Binding::new(&Bound {
        principal: &AGENT.parse().unwrap(),
        action: ActionName::TerraformApply,
        parameters: "{\"working_dir\":\"demo\"}",
        root: &root.parse().unwrap(),
        root_settings: [1; 32],
        bundle: [bundle; 32],
        lock_file: [3; 32],
        workspace: "default",
        variables: [4; 32],
        image: "runner@sha256:00",
        plan: [5; 32],
        state_lineage: "6f1c",
        state_serial: 7,
        scope: "apply-demo.demo-app",
        rule: &"ask-for-applies".parse().unwrap(),
        quorum,
    })
}

/// An approval of 60 seconds from the beginning on, opened by request `by`.
pub(crate) fn new_approval(root: &str, n: u8, by: u8, plan: PlanKey, quorum: u32) -> NewApproval {
    let binding = binding(root, 2, quorum);
    NewApproval {
        approval: Approval::open(Terms {
            id: id(n),
            requester: AGENT.parse().unwrap(),
            requester_uid: Some(AGENT_UID),
            digest: binding.digest(),
            quorum,
            opened: at(0),
            expires: at(60),
        }),
        root: root.parse().unwrap(),
        plan,
        request: request(by),
        action: ActionName::TerraformApply,
        reason: "a label \u{202e} changes".to_owned(),
        client: "claude 1".to_owned(),
        binding,
        summary: "1 to replace".to_owned(),
        dangers: 1,
        confirm: vec!["Deployment/demo-app/shop".to_owned()],
        shown: "{}".to_owned(),
    }
}

pub(crate) fn verdict(approver: &str, said: Said, quorum: u32) -> NewVerdict {
    NewVerdict {
        approver: approver.parse().unwrap(),
        uid: 5_000,
        said,
        reason: "seen".to_owned(),
        seen: binding("demo", 2, quorum).digest(),
    }
}
