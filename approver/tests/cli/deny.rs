//! A no, and why.

use sandbox_proto::approver::v1::approval::State;

use crate::plans::{ID, in_state, replacement};
use crate::scripted::Stage;
use crate::seat::now_ms;

#[tokio::test]
async fn a_no_is_recorded_with_its_reason_and_what_it_is_about() {
    let stage = Stage::with([replacement(now_ms())]);
    let ran = stage
        .run(&["deny", "7k2m9x", "--reason", " Not on a Monday "])
        .await;
    ran.ended(
        0,
        &[
            "terraform_apply of root demo: 1 to replace",
            "Denied. Approval 7k2m9x4q8wab has ended",
        ],
    );
    let [verdict] = &stage.desk.recorded()[..] else {
        panic!("one verdict: {:?}", stage.desk.recorded());
    };
    assert!(!verdict.grant);
    assert_eq!(
        (verdict.approval_id.as_str(), verdict.reason.as_str()),
        (ID, "Not on a Monday")
    );
    assert_eq!(verdict.digest, vec![0xab; 32]);
    assert_eq!(verdict.typed, "");
}

#[tokio::test]
async fn a_no_needs_a_reason() {
    let stage = Stage::with([replacement(now_ms())]);
    stage.run(&["deny", ID]).await.ended(2, &["--reason"]);
    stage
        .run(&["deny", ID, "--reason", " "])
        .await
        .ended(2, &["the reason is empty"]);
    let long = "x".repeat(1001);
    stage
        .run(&["deny", ID, "--reason", &long])
        .await
        .ended(2, &["1000 characters and has 1001"]);
    assert_eq!(stage.desk.recorded(), []);
}

#[tokio::test]
async fn a_no_that_came_too_late_says_so() {
    let stage = Stage::with([in_state(replacement(now_ms()), State::Consumed)]);
    stage.desk.void("it came after the approval was consumed");
    let ran = stage.run(&["deny", ID, "--reason", "Too late"]).await;
    ran.ended(
        4,
        &["does not count: it came after the approval was consumed."],
    );
}
