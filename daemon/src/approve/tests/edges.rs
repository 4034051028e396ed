//! Verdicts and uses at the edges of time, and of who is an approver.

use super::*;

#[tokio::test]
async fn granted_at_59_s_and_launched_at_61_of_60_is_refused() {
    let world = World::new().await;
    let id = world.open(1).await;
    world.set_clock(59);
    world.yes(id, ANN).await.unwrap();
    world.set_clock(61);
    let refused = world.consume(id, 2, 1).await;
    assert_refused(refused, Code::ApprovalExpired, "not used in time");
    assert_eq!(world.told(), ["opened", "verdict", "granted", "expired"]);
}

#[tokio::test]
async fn a_verdict_after_expiry_is_kept_as_what_it_was() {
    let world = World::new().await;
    let id = world.open(1).await;
    world.set_clock(61);
    let late = world.say(id, ANN, Said::No).await;
    assert_refused(late, Code::ApprovalExpired, "kept and changes nothing");
    let late = world.yes(id, BEN).await;
    assert_refused(late, Code::ApprovalExpired, "kept and changes nothing");
    let stored = world.store().approval(id).await.unwrap().unwrap();
    assert_eq!(stored.approval.state().as_str(), "expired");
    let said: Vec<_> = stored.approval.verdicts().iter().map(|v| v.said).collect();
    assert_eq!(said, [Said::No, Said::Yes]);
    assert_eq!(world.told(), ["opened", "expired", "verdict", "verdict"]);
    let heard = &world.trail()[2]["fields"];
    assert_eq!(heard["counts"], false);
    assert_eq!(heard["reason"], "it came after the approval expired");
}

#[tokio::test]
async fn nobody_has_to_look_for_it_to_expire() {
    let world = World::new().await;
    let id = world.open(1).await;
    let mut changes = world.approvals().watch();
    world.set_clock(60);
    let seen = tokio::time::timeout(Duration::from_secs(10), changes.recv()).await;
    let seen = seen.expect("the desk ticks").unwrap();
    assert_eq!((seen.id(), seen.approval.state().as_str()), (id, "expired"));
}

#[tokio::test]
async fn a_daemon_down_across_the_expiry_starts_with_it_expired() {
    let mut world = World::new().await;
    let id = world.open(1).await;
    world.set_clock(30);
    world.yes(id, ANN).await.unwrap();
    world.stop().await;
    world.set_clock(90);
    world.start();
    let refused = world.consume(id, 2, 1).await;
    assert_refused(refused, Code::ApprovalExpired, "not used in time");
}

#[tokio::test]
async fn a_clock_set_back_does_not_revive_it() {
    let mut world = World::new().await;
    let id = world.open(1).await;
    world.yes(id, ANN).await.unwrap();
    world.set_clock(61);
    let found = world.approvals().find(&id.into()).await.unwrap();
    assert_eq!(found.approval.state().as_str(), "expired");
    world.set_clock(1);
    let refused = world.consume(id, 2, 1).await;
    assert_refused(refused, Code::ApprovalExpired, "");
    world.restart().await;
    let refused = world.consume(id, 2, 1).await;
    assert_refused(refused, Code::ApprovalExpired, "");
}

#[tokio::test]
async fn a_clock_set_back_before_the_expiry_ends_it() {
    let world = World::new().await;
    world.set_clock(3_600);
    let id = world.open(1).await;
    world.yes(id, ANN).await.unwrap();
    world.set_clock(60);
    let refused = world.consume(id, 2, 1).await;
    assert_refused(refused, Code::ApprovalExpired, "the clock was set back");
}

#[tokio::test]
async fn two_terminals_in_the_same_instant_are_two_verdicts() {
    let world = World::new().await;
    let id = world.open(2).await;
    let (ann, ben) = tokio::join!(world.yes(id, ANN), world.yes(id, BEN));
    assert!(ann.is_ok() && ben.is_ok());
    assert_eq!(world.state(id).await, "granted");

    let other = World::new().await;
    let id = other.open(1).await;
    let (yes, no) = tokio::join!(other.yes(id, ANN), other.say(id, BEN, Said::No));
    assert!(no.is_ok());
    if yes.is_err() {
        // The no came first.
        assert_refused(yes, Code::ApprovalDenied, "kept and changes nothing");
    }
    let stored = other.store().approval(id).await.unwrap().unwrap();
    assert_eq!(stored.approval.verdicts().len(), 2);
    assert_eq!(other.state(id).await, "denied");
    let refused = other.consume(id, 2, 1).await;
    assert_refused(refused, Code::ApprovalDenied, "The approver's reason: seen");
}

#[tokio::test]
async fn one_person_on_two_terminals_is_one_of_two() {
    let world = World::new().await;
    let id = world.open(2).await;
    let (first, second) = tokio::join!(world.yes(id, ANN), world.yes(id, ANN));
    assert!(first.is_ok() && second.is_ok());
    assert_eq!(world.state(id).await, "pending");
    let refused = world.consume(id, 2, 2).await;
    assert_refused(refused, Code::ApprovalNotGranted, "waits for 1 person");
    let repeated = &world.trail()[2]["fields"];
    assert_eq!(repeated["counts"], false);
    assert!(repeated["reason"].as_str().unwrap().contains("counts once"));
}

#[tokio::test]
async fn an_approver_removed_in_between_does_not_count() {
    let mut world = World::new().await;
    let id = world.open(1).await;
    world.yes(id, ANN).await.unwrap();
    world.approvers = vec![BEN];
    world.restart().await;
    let refused = world.consume(id, 2, 1).await;
    assert_refused(refused, Code::ApprovalNotGranted, "waits for 1 person");
    assert_eq!(world.told(), ["opened", "verdict", "granted", "reopened"]);
    world.yes(id, BEN).await.unwrap();
    assert!(world.consume(id, 2, 1).await.is_ok());
}

#[tokio::test]
async fn a_denied_and_a_cancelled_one_are_refused_by_name() {
    let world = World::new().await;
    let id = world.open(1).await;
    world.say(id, ANN, Said::No).await.unwrap();
    let refused = world.consume(id, 2, 1).await;
    assert_refused(refused, Code::ApprovalDenied, id.as_str());
    let late = world.yes(id, BEN).await;
    assert_refused(late, Code::ApprovalDenied, "changes nothing");

    let other = World::new().await;
    let id = other.open(1).await;
    let agent = AGENT.parse().unwrap();
    other.approvals().cancel(&agent, id).await.unwrap();
    let refused = other.consume(id, 2, 1).await;
    assert_refused(refused, Code::ApprovalCancelled, id.as_str());
    let again = other.approvals().cancel(&agent, id).await;
    assert_refused(again, Code::ApprovalCancelled, "is over");
}
