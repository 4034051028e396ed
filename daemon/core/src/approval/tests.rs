//! The cases people ask about, by name. Times are seconds after the approval was opened.

use super::*;

const AGENT: &str = "demo-agent";

fn at(seconds: i64) -> UtcMillis {
    UtcMillis::from_unix_ms(1_700_000_000_000 + seconds * 1_000)
}

fn who(name: &str) -> PrincipalName {
    name.parse().unwrap()
}

fn approvers(names: &[&str]) -> Approvers {
    names.iter().map(|name| who(name)).collect()
}

fn right() -> BindingDigest {
    BindingDigest::from_bytes([1; 32])
}

fn by() -> RequestId {
    RequestId::new(1_700_000_000_000, [1; 10])
}

/// Lives 60 seconds.
fn open(quorum: u32) -> Approval {
    Approval::open(Terms {
        id: ApprovalId::new([3; 12]),
        requester: who(AGENT),
        requester_uid: Some(4_000),
        digest: right(),
        quorum,
        opened: at(0),
        expires: at(60),
    })
}

fn verdict(approver: &str, said: Said) -> NewVerdict {
    NewVerdict {
        approver: who(approver),
        uid: 5_000,
        said,
        reason: "seen".to_owned(),
        seen: right(),
    }
}

fn yes(approval: &mut Approval, approver: &str, time: UtcMillis) -> Recorded {
    let all = approvers(&["ann", "ben"]);
    approval
        .record_verdict(verdict(approver, Said::Yes), time, &all)
        .unwrap()
}

fn consume(
    approval: &mut Approval,
    time: UtcMillis,
    approvers: &Approvers,
) -> Result<Grant, ConsumeError> {
    approval.consume(&who(AGENT), by(), right(), (time, approvers))
}

#[test]
fn a_grant_at_59_s_of_60_is_no_good_at_61() {
    let all = approvers(&["ann"]);
    let mut approval = open(1);
    assert_eq!(yes(&mut approval, "ann", at(59)), Recorded::Granted);
    let mut in_time = approval.clone();
    assert!(consume(&mut in_time, at(59), &all).is_ok());
    assert_eq!(
        consume(&mut approval, at(61), &all),
        Err(ConsumeError::Expired {
            cause: ExpiryCause::TimeUp
        })
    );
}

#[test]
fn the_instant_of_expiry_is_too_late() {
    let mut approval = open(1);
    assert_eq!(
        yes(&mut approval, "ann", at(60)),
        Recorded::Void(Void::AfterExpiry)
    );
    assert_eq!(approval.state().as_str(), "expired");
}

#[test]
fn a_denial_after_expiry_is_kept_as_what_it_was_and_changes_nothing() {
    let all = approvers(&["ann"]);
    let mut approval = open(1);
    let recorded = approval.record_verdict(verdict("ann", Said::No), at(70), &all);
    assert_eq!(recorded, Ok(Recorded::Void(Void::AfterExpiry)));
    assert_eq!(approval.state().as_str(), "expired");
    let kept = &approval.verdicts()[0];
    assert_eq!((kept.said, kept.time), (Said::No, at(70)));
    assert_eq!(
        approval.why_void(kept, &all).unwrap(),
        "came after the approval expired"
    );
}

#[test]
fn a_clock_set_back_revives_nothing_and_lengthens_nothing() {
    let all = approvers(&["ann"]);
    let mut expired = open(1);
    yes(&mut expired, "ann", at(30));
    assert_eq!(
        expired.look(at(60), &all),
        Some(Change::Expired(ExpiryCause::TimeUp))
    );
    assert!(consume(&mut expired, at(40), &all).is_err());

    let mut granted = open(1);
    yes(&mut granted, "ann", at(50));
    assert_eq!(
        consume(&mut granted, at(10), &all),
        Err(ConsumeError::Expired {
            cause: ExpiryCause::ClockSetBack
        })
    );
}

#[test]
fn a_clock_that_is_a_little_behind_is_taken_to_stand_still() {
    let all = approvers(&["ann"]);
    let mut approval = open(1);
    yes(&mut approval, "ann", at(50));
    assert_eq!(approval.look(at(48), &all), None);
    assert_eq!(approval.seen(), at(50));
    assert!(consume(&mut approval, at(49), &all).is_ok());
}

#[test]
fn one_person_twice_is_no_quorum_of_two() {
    let mut approval = open(2);
    assert_eq!(yes(&mut approval, "ann", at(1)), Recorded::Counted);
    assert_eq!(
        yes(&mut approval, "ann", at(2)),
        Recorded::Void(Void::CountsAlready)
    );
    assert_eq!(approval.missing(&approvers(&["ann", "ben"])), 1);
    assert_eq!(yes(&mut approval, "ben", at(3)), Recorded::Granted);
}

#[test]
fn an_approver_removed_in_between_does_not_count() {
    let (both, ben) = (approvers(&["ann", "ben"]), approvers(&["ben"]));
    let mut approval = open(1);
    yes(&mut approval, "ann", at(1));
    assert_eq!(
        consume(&mut approval, at(2), &ben),
        Err(ConsumeError::NotGranted { missing: 1 })
    );
    assert_eq!(approval.state(), &State::Pending);
    let kept = &approval.verdicts()[0];
    assert!(
        approval
            .why_void(kept, &ben)
            .unwrap()
            .contains("no approver")
    );
    assert_eq!(approval.why_void(kept, &both), None);
    // Another's yes does.
    yes(&mut approval, "ben", at(3));
    assert!(consume(&mut approval, at(4), &ben).is_ok());
}

#[test]
fn requester_cannot_approve_own_request() {
    let all = approvers(&["ann", AGENT]);
    let mut approval = open(1);
    assert_eq!(
        approval.record_verdict(verdict(AGENT, Said::Yes), at(1), &all),
        Err(VerdictError::OwnRequest)
    );
    let from_the_agents_uid = NewVerdict {
        uid: 4_000,
        ..verdict("ann", Said::Yes)
    };
    assert_eq!(
        approval.record_verdict(from_the_agents_uid, at(1), &all),
        Err(VerdictError::RequestersUid { uid: 4_000 })
    );
    assert!(approval.verdicts().is_empty());
}

#[test]
fn a_verdict_on_another_plan_by_a_stranger_or_without_a_reason_is_not_taken() {
    let all = approvers(&["ann"]);
    let mut approval = open(1);
    let mut refused = |new| approval.record_verdict(new, at(1), &all).unwrap_err();
    assert_eq!(
        refused(NewVerdict {
            seen: BindingDigest::from_bytes([2; 32]),
            ..verdict("ann", Said::Yes)
        }),
        VerdictError::AnotherPlan
    );
    assert_eq!(refused(verdict("eve", Said::Yes)), VerdictError::NoApprover);
    assert_eq!(
        refused(NewVerdict {
            reason: " ".to_owned(),
            ..verdict("ann", Said::No)
        }),
        VerdictError::NoReason
    );
    assert_eq!(
        refused(NewVerdict {
            reason: "\u{e4}".repeat(MAX_VERDICT_REASON + 1),
            ..verdict("ann", Said::Yes)
        }),
        VerdictError::LongReason
    );
}

#[test]
fn a_no_ends_even_what_is_granted() {
    let all = approvers(&["ann", "ben"]);
    let mut approval = open(1);
    yes(&mut approval, "ann", at(1));
    assert_eq!(
        approval.record_verdict(verdict("ben", Said::No), at(2), &all),
        Ok(Recorded::Denied)
    );
    assert_eq!(
        consume(&mut approval, at(3), &all),
        Err(ConsumeError::Denied)
    );
}

#[test]
fn a_grant_is_given_once_and_to_its_owner_for_what_was_approved() {
    let all = approvers(&["ann"]);
    let mut approval = open(1);
    assert_eq!(
        consume(&mut approval, at(1), &all),
        Err(ConsumeError::NotGranted { missing: 1 })
    );
    yes(&mut approval, "ann", at(2));
    assert_eq!(
        approval.consume(&who("other-agent"), by(), right(), (at(3), &all)),
        Err(ConsumeError::Anothers)
    );
    let changed = BindingDigest::from_bytes([2; 32]);
    assert_eq!(
        approval.consume(&who(AGENT), by(), changed, (at(3), &all)),
        Err(ConsumeError::Changed)
    );
    let grant = consume(&mut approval, at(4), &all).unwrap();
    assert_eq!((grant.request(), grant.digest()), (by(), right()));
    assert_eq!(
        consume(&mut approval, at(5), &all),
        Err(ConsumeError::Used { by: by() })
    );
    assert_eq!(
        yes(&mut approval, "ann", at(6)),
        Recorded::Void(Void::AfterUse)
    );
}

#[test]
fn its_owner_alone_takes_it_back_and_only_while_it_is_open() {
    let all = approvers(&["ann"]);
    let mut approval = open(1);
    assert_eq!(
        approval.cancel(&who("other-agent"), at(1), &all),
        Err(CancelError::Anothers)
    );
    assert_eq!(approval.cancel(&who(AGENT), at(1), &all), Ok(()));
    assert_eq!(
        approval.cancel(&who(AGENT), at(2), &all),
        Err(CancelError::Over)
    );
    assert_eq!(
        yes(&mut approval, "ann", at(2)),
        Recorded::Void(Void::AfterCancel)
    );
    assert_eq!(
        consume(&mut approval, at(3), &all),
        Err(ConsumeError::Cancelled)
    );
}
