//! `grant --wait`: the end of the apply, or that it can never come.

use sandbox_proto::approver::v1::approval::State;

use crate::plans::{ID, harmless, renamed};
use crate::scripted::{Stage, Trail};
use crate::seat::{Seat, now_ms};

/// A grant that is waited for at a terminal, up to the wait.
async fn waiting(stage: &Stage) -> Seat {
    let mut seat = Seat::sized(stage, &["grant", ID, "--wait"], (80, 80));
    seat.shows("Type yes to grant it:").await;
    seat.types("yes\n").await;
    seat.shows("Waiting for the apply. Ctrl-C ends the waiting")
        .await;
    while stage.desk.watchers() == 0 {
        tokio::task::yield_now().await;
    }
    seat
}

fn consume(stage: &Stage, outcome: &str) {
    stage.desk.change(ID, |approval| {
        approval.state = State::Consumed.into();
        approval.used_by = "019cab59-0000-7000-8000-000000000002".to_owned();
        outcome.clone_into(&mut approval.outcome);
    });
}

#[tokio::test]
async fn the_end_of_the_apply_is_told() {
    let stage = Stage::with([harmless(now_ms())]);
    let mut seat = waiting(&stage).await;
    stage.desk.put(renamed(harmless(now_ms()), "zzzzzzzzzzzz"));
    consume(&stage, "");
    seat.shows("It is used by request 019cab59-0000-7000-8000-000000000002; the apply runs.")
        .await;
    consume(&stage, "succeeded");
    seat.shows("The apply succeeded (request 019cab59-0000-7000-8000-000000000002).")
        .await;
    seat.ends_with(0).await;
}

#[tokio::test]
async fn an_apply_that_did_not_succeed_has_an_exit_code_of_its_own() {
    for (outcome, told) in [
        ("failed", "The apply FAILED"),
        ("unknown", "has an UNKNOWN outcome"),
    ] {
        let stage = Stage::with([harmless(now_ms())]);
        let mut seat = waiting(&stage).await;
        consume(&stage, outcome);
        seat.shows(told).await;
        seat.shows("approver audit --request-id").await;
        seat.ends_with(5).await;
    }
}

#[tokio::test]
async fn a_grant_that_is_never_used_ends_the_wait() {
    for (state, told) in [
        (
            State::Expired,
            "expired before it was used. Nothing was applied.",
        ),
        (State::Cancelled, "was cancelled before it was used"),
        (State::Denied, "was denied by somebody else"),
    ] {
        let stage = Stage::with([harmless(now_ms())]);
        let mut seat = waiting(&stage).await;
        stage
            .desk
            .change(ID, |approval| approval.state = state.into());
        seat.shows(told).await;
        seat.ends_with(5).await;
    }
}

#[tokio::test]
async fn ctrl_c_leaves_the_grant_in_force_and_says_so() {
    let stage = Stage::with([harmless(now_ms())]);
    let mut seat = waiting(&stage).await;
    seat.types("\u{3}").await;
    seat.shows("The grant of 7k2m9x4q8wab stays in force until it is used or expires.")
        .await;
    seat.ends_with(130).await;
    assert_eq!(stage.desk.recorded().len(), 1);
    stage
        .run(&["show", ID])
        .await
        .ended(0, &["granted and not consumed yet"]);
}

#[tokio::test]
async fn a_daemon_that_restarts_meanwhile_is_waited_for() {
    let mut stage = Stage::with([harmless(now_ms())]);
    let mut seat = waiting(&stage).await;
    stage.stop();
    seat.shows("Still waiting, and trying to connect again.")
        .await;
    // What happens while nobody watches is found.
    consume(&stage, "succeeded");
    stage.start();
    seat.shows("The apply succeeded").await;
    seat.ends_with(0).await;
}

#[tokio::test]
async fn a_trail_rolled_back_by_the_restart_is_an_alarm() {
    let long = Trail::of(3, "succeeded");
    let mut stage = Stage::set(&long);
    stage.run(&["status"]).await.ended(0, &[]);
    stage.desk.put(harmless(now_ms()));
    let mut seat = waiting(&stage).await;
    stage.stop();
    seat.shows("Still waiting").await;
    stage.change(&Trail::of(1, "succeeded"));
    stage.start();
    seat.shows("ALARM: the audit trail was ROLLED BACK").await;
    seat.ends_with(3).await;
}

#[tokio::test]
async fn a_program_gets_the_end_alone_on_standard_output() {
    let stage = Stage::with([harmless(now_ms())]);
    let mut command = stage.command(&["grant", ID, "--digest", "abababababababab", "--wait"]);
    let consumed = async {
        while stage.desk.watchers() == 0 {
            tokio::task::yield_now().await;
        }
        consume(&stage, "succeeded");
    };
    let (output, ()) = tokio::join!(command.output(), consumed);
    let ran = crate::scripted::Ran::from(output.unwrap()).ended(0, &[]);
    assert!(ran.out.ends_with("Granted. demo-agent may use approval 7k2m9x4q8wab once, for exactly this plan.\nThe apply succeeded (request 019cab59-0000-7000-8000-000000000002).\n"), "{ran:?}");
}
