//! What the approvers' service gives of approvals, as `approver` gets it.

use futures_util::StreamExt as _;
use sandbox_core::approval::Approval;
use tonic_types::StatusExt as _;

use super::*;
use crate::approve::trial::{ANN, BEN, OBJECT, World};

fn code(status: &Status) -> String {
    status
        .get_error_details()
        .error_info()
        .unwrap()
        .reason
        .clone()
}

fn verdict(id: &str, digest: &[u8], grant: bool) -> proto::RecordVerdictRequest {
    proto::RecordVerdictRequest {
        protocol_version: sandbox_proto::PROTOCOL_VERSION,
        approval_id: id.to_owned(),
        digest: digest.to_vec().into(),
        grant,
        reason: "seen".to_owned(),
        typed: OBJECT.to_owned(),
    }
}

#[tokio::test]
async fn an_approval_is_listed_shown_granted_and_shown_as_granted() {
    let world = World::new().await;
    let id = world.open(2).await;
    let approvals = world.approvals();
    let listed = list(approvals, false).await.unwrap().into_inner().approvals;
    assert_eq!(listed.len(), 1);
    let shown = get(approvals, &id.as_str()[..6])
        .await
        .unwrap()
        .into_inner();
    assert_eq!(shown.approval.as_ref(), Some(&listed[0]));
    assert_eq!(shown.confirm, [OBJECT]);
    let plan = shown.plan.unwrap();
    assert_eq!(plan.changes[0].object, OBJECT);
    assert_eq!(plan.changes[0].action, "replace");
    assert_eq!(plan.changes[0].replace_paths, ["spec[0].selector"]);
    let image = shown.bound.iter().find(|b| b.name == "runner image");
    assert_eq!(image.unwrap().value, "runner@sha256:00");
    assert_eq!(shown.source[0].path, "main.tf");
    assert_eq!(shown.source_since, "2023-11-14T22:13:20.000Z");
    assert!(shown.last_apply.contains("failed"));
    assert_eq!(shown.scope, ["It may change Deployments in demo-app."]);

    let listed = &listed[0];
    assert_eq!(listed.state(), proto::approval::State::Pending);
    assert_eq!(
        (listed.rule.as_str(), listed.quorum),
        ("ask-for-applies", 2)
    );
    assert_eq!(listed.expires_ms - listed.opened_ms, 60_000);
    assert_eq!(listed.digest.len(), 32);
    let after = record_verdict(
        approvals,
        world.judge(ANN),
        verdict(id.as_str(), &listed.digest, true),
    );
    let after = after.await.unwrap().into_inner().approval.unwrap();
    assert_eq!(after.state(), proto::approval::State::Pending);
    assert_eq!(after.verdicts[0].approver, "ann");
    assert!(after.verdicts[0].grant && after.verdicts[0].void.is_empty());
    let after = record_verdict(
        approvals,
        world.judge(BEN),
        verdict(&id.as_str().to_uppercase(), &listed.digest, true),
    );
    let after = after.await.unwrap().into_inner().approval.unwrap();
    assert_eq!(after.state(), proto::approval::State::Granted);
}

#[tokio::test]
async fn refusals_have_their_codes_and_fields() {
    let world = World::new().await;
    let id = world.open(1).await;
    let digest = world.digest(id).await;
    let say = async |ask| {
        let said = record_verdict(world.approvals(), world.judge(ANN), ask).await;
        said.unwrap_err()
    };
    for (ask, says, field) in [
        (
            verdict("short", &digest, true),
            "INVALID_ARGUMENT",
            "approval_id",
        ),
        (verdict("zzzzzz", &digest, true), "NO_SUCH_APPROVAL", ""),
        (
            verdict(id.as_str(), &digest[1..], true),
            "INVALID_ARGUMENT",
            "digest",
        ),
        (verdict(id.as_str(), &[9; 32], true), "APPROVAL_CHANGED", ""),
        (
            proto::RecordVerdictRequest {
                typed: "yes".to_owned(),
                ..verdict(id.as_str(), &digest, true)
            },
            "INVALID_ARGUMENT",
            "typed",
        ),
        (
            proto::RecordVerdictRequest {
                reason: "x".repeat(MAX_VERDICT_REASON + 1),
                ..verdict(id.as_str(), &digest, false)
            },
            "INVALID_ARGUMENT",
            "reason",
        ),
    ] {
        let status = say(ask).await;
        assert_eq!(code(&status), says, "{status}");
        let details = status.get_error_details();
        let violations = details
            .bad_request()
            .map(|b| b.field_violations[0].field.as_str());
        assert_eq!(violations.unwrap_or_default(), field);
    }
    world.set_clock(61);
    let status = say(verdict(id.as_str(), &digest, true)).await;
    assert_eq!(code(&status), "APPROVAL_EXPIRED");
    let ended = list(world.approvals(), true).await.unwrap().into_inner();
    let late = &ended.approvals[0].verdicts[0];
    assert_eq!(late.void, "came after the approval expired");
    let open = list(world.approvals(), false).await.unwrap().into_inner();
    assert!(open.approvals.is_empty());
}

#[tokio::test]
async fn a_watcher_gets_what_is_open_then_every_change_and_an_end_when_the_daemon_stops() {
    let mut world = World::new().await;
    let id = world.open(1).await;
    let lifetime = world.lifetime();
    let stream = watch(world.approvals(), &lifetime).await.unwrap();
    let mut stream = stream.into_inner();
    let first = stream.next().await.unwrap().unwrap();
    assert_eq!(
        (first.id.as_str(), first.state()),
        (id.as_str(), proto::approval::State::Pending)
    );
    world.yes(id, ANN).await.unwrap();
    let next = stream.next().await.unwrap().unwrap();
    assert_eq!(next.state(), proto::approval::State::Granted);
    // Stopping waits for streams, so they have to end.
    world.stop().await;
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn a_watcher_that_fell_behind_gets_everything_as_it_stands() {
    let world = World::new().await;
    let id = world.open(1).await;
    let lifetime = world.lifetime();
    let stream = watch(world.approvals(), &lifetime).await.unwrap();
    let mut stream = stream.into_inner();
    // More than a watcher may be behind.
    for _ in 0..1_000 {
        world.approvals().tell_outcome(id).await;
    }
    world.yes(id, ANN).await.unwrap();
    let granted = async {
        loop {
            let seen = stream.next().await.unwrap().unwrap();
            if seen.state() == proto::approval::State::Granted {
                return;
            }
        }
    };
    let limit = std::time::Duration::from_secs(20);
    tokio::time::timeout(limit, granted)
        .await
        .expect("it is told");
}

#[test]
fn every_state_has_its_own_word() {
    let at = UtcMillis::from_unix_ms(0);
    let by = crate::store::fixture::request(1);
    let cause = sandbox_core::approval::ExpiryCause::TimeUp;
    let states = [
        State::Pending,
        State::Granted,
        State::Consumed { at, by },
        State::Denied { at },
        State::Expired { at, cause },
        State::Cancelled { at },
    ];
    for state in states {
        let word = proto_state(&state).as_str_name();
        assert_eq!(word, format!("STATE_{}", state.as_str().to_uppercase()));
    }
}

/// A yes of somebody who is no approver any more is shown as what it is.
#[test]
fn a_yes_that_does_not_count_any_more_says_so() {
    let all = crate::store::fixture::approvers(&["ben"]);
    let binding = crate::store::fixture::binding("demo", 2, 2);
    let terms = sandbox_core::approval::Terms {
        id: crate::store::fixture::id(1),
        requester: "demo-agent".parse().unwrap(),
        requester_uid: None,
        digest: binding.digest(),
        quorum: 2,
        opened: UtcMillis::from_unix_ms(0),
        expires: UtcMillis::from_unix_ms(60_000),
    };
    let mut approval = Approval::open(terms);
    let yes = crate::store::fixture::verdict("ann", Said::Yes, 2);
    let both = crate::store::fixture::approvers(&["ann", "ben"]);
    let now = UtcMillis::from_unix_ms(1);
    approval.record_verdict(yes, now, &both).unwrap();
    let kept = &approval.verdicts()[0];
    assert!(
        approval
            .why_void(kept, &all)
            .unwrap()
            .contains("no approver any more")
    );
}
