//! Who may decide: nobody who is, or descends from, an agent, and only on what they saw.

use std::process::{Child, Command, Stdio};

use super::*;
use crate::peer::{Login, LoginUid};

/// What ann says of an approval, as `edit` changes it.
async fn said(
    world: &World,
    id: ApprovalId,
    judge: Judge,
    edit: impl FnOnce(&mut Spoken),
) -> Result<StoredApproval, Failure> {
    let stored = world.store().approval(id).await.unwrap().unwrap();
    let mut spoken = Spoken {
        approval: id.into(),
        seen: stored.approval.terms().digest,
        said: Said::Yes,
        reason: String::new(),
        typed: OBJECT.to_owned(),
    };
    edit(&mut spoken);
    world.approvals().record_verdict(judge, spoken).await
}

fn ann() -> Judge {
    Judge::this_process(ANN.0, ANN.1)
}

/// A process that logged in as `uid`, and is somebody else by now.
fn logged_in_as(uid: u32) -> Child {
    let login = format!("echo {uid} > /proc/self/loginuid && exec sleep 60");
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &login]).stdin(Stdio::null());
    command.spawn().unwrap()
}

/// Waits until it has.
fn login_of(child: &Child, uid: u32) -> Login {
    let pid = i32::try_from(child.id()).unwrap();
    let begun = std::time::Instant::now();
    loop {
        let login = Login::of(pid).expect("needs root: it cannot log in");
        if login.uid() == LoginUid::Of(uid) {
            return login;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "it has not");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[tokio::test]
async fn agent_uid_cannot_record_a_verdict() {
    let world = World::new().await;
    let id = world.open(1).await;
    let agent = Judge::this_process("ann", AGENT_UID);
    let refused = said(&world, id, agent, |_| ()).await;
    assert_refused(refused, Code::VerdictRefused, "uid 4001 is an agent's");
    assert_eq!(world.state(id).await, "pending");
    let heard = &world.trail()[1];
    assert_eq!(heard["event"], "approval.verdict");
    assert_eq!(heard["fields"]["counts"], false);
    assert_eq!(heard["fields"]["code"], "VERDICT_REFUSED");
}

#[tokio::test]
async fn the_requesters_name_and_strangers_decide_nothing() {
    let world = World::new().await;
    let id = world.open(1).await;
    for (who, says) in [(AGENT, "asked for themselves"), ("eve", "listed approver")] {
        let judge = Judge::this_process(who, 5_009);
        let refused = said(&world, id, judge, |_| ()).await;
        assert_refused(refused, Code::VerdictRefused, says);
    }
    assert_eq!(world.state(id).await, "pending");
}

/// It asked as an agent, and was made an approver since.
#[tokio::test]
async fn a_uid_that_asked_does_not_decide_whatever_it_is_called_now() {
    let mut world = World::new().await;
    let id = world.open(1).await;
    (world.agent_uid, world.approvers) = (4_099, vec![("ann", AGENT_UID)]);
    world.restart().await;
    let judge = Judge::this_process("ann", AGENT_UID);
    let refused = said(&world, id, judge, |_| ()).await;
    assert_refused(refused, Code::VerdictRefused, "uid 4001 asked for this");
}

#[tokio::test]
#[ignore = "needs root"]
async fn a_process_that_descends_from_an_agents_login_decides_nothing() {
    let world = World::new().await;
    let id = world.open(1).await;
    let mut sudo = logged_in_as(AGENT_UID);
    let login = login_of(&sudo, AGENT_UID);
    let refused = said(&world, id, ann().with_login(Some(login)), |_| ()).await;
    let next = "neither sudo nor su changes that. Log in anew";
    assert_refused(refused, Code::VerdictRefused, next);
    assert_eq!(world.trail()[1]["fields"]["login_uid"], "4001");
    sudo.kill().unwrap();
    sudo.wait().unwrap();

    let mut own = logged_in_as(ANN.1);
    let login = login_of(&own, ANN.1);
    said(&world, id, ann().with_login(Some(login)), |_| ())
        .await
        .unwrap();
    own.kill().unwrap();
    own.wait().unwrap();
    assert_eq!(world.state(id).await, "granted");
    assert_eq!(world.trail()[2]["fields"]["login_uid"], "5001");
}

#[tokio::test]
async fn a_process_that_is_gone_or_was_never_seen_decides_nothing() {
    let world = World::new().await;
    let id = world.open(1).await;
    let refused = said(&world, id, ann().with_login(None), |_| ()).await;
    assert_refused(refused, Code::VerdictRefused, "could not be looked at");
    let mut gone = Command::new("sleep").arg("60").spawn().unwrap();
    let login = Login::of(i32::try_from(gone.id()).unwrap()).unwrap();
    gone.kill().unwrap();
    gone.wait().unwrap();
    let refused = said(&world, id, ann().with_login(Some(login)), |_| ()).await;
    assert_refused(refused, Code::VerdictRefused, "is gone");
    assert_eq!(world.state(id).await, "pending");
}

#[tokio::test]
async fn what_destroys_is_granted_by_typing_the_live_object_alone() {
    let world = World::new().await;
    let id = world.open(1).await;
    for typed in [
        "",
        "yes",
        "kubernetes_deployment.shop",
        "Deployment/demo-app/sh\u{43e}p",
    ] {
        let refused = said(&world, id, ann(), |spoken| {
            typed.clone_into(&mut spoken.typed);
        })
        .await;
        let failure = refused.as_ref().unwrap_err();
        assert_eq!(failure.field.as_deref(), Some("typed"));
        assert_refused(refused, Code::InvalidArgument, OBJECT);
    }
    assert_eq!(world.state(id).await, "pending");
    said(&world, id, ann(), |_| ()).await.unwrap();
    assert_eq!(world.state(id).await, "granted");
}

#[tokio::test]
async fn a_no_needs_a_reason_and_no_typing() {
    let world = World::new().await;
    let id = world.open(1).await;
    let refused = said(&world, id, ann(), |spoken| {
        spoken.said = Said::No;
        spoken.typed.clear();
    })
    .await;
    assert_eq!(
        refused.as_ref().unwrap_err().field.as_deref(),
        Some("reason")
    );
    assert_refused(refused, Code::InvalidArgument, "a no needs a reason");
    said(&world, id, ann(), |spoken| {
        spoken.said = Said::No;
        spoken.typed.clear();
        "not today".clone_into(&mut spoken.reason);
    })
    .await
    .unwrap();
    let refused = world.consume(id, 2, 1).await;
    assert_refused(refused, Code::ApprovalDenied, "not today");
}

#[tokio::test]
async fn a_verdict_on_what_was_not_seen_is_refused() {
    let world = World::new().await;
    let id = world.open(1).await;
    let refused = said(&world, id, ann(), |spoken| {
        spoken.seen = BindingDigest::from_bytes([9; 32]);
    })
    .await;
    assert_refused(refused, Code::ApprovalChanged, "Look at it again");
    assert_eq!(world.state(id).await, "pending");
}
