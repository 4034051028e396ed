//! What waits, in a table and as JSON.

use sandbox_proto::approver::v1::approval::State;

use crate::plans::{ID, OTHER_ID, harmless, hostile, in_state, renamed, replacement};
use crate::scripted::Stage;
use crate::seat::{Seat, now_ms};

#[tokio::test]
async fn what_waits_is_listed_the_newest_first_with_its_dangers() {
    let now = now_ms();
    let stage = Stage::with([replacement(now), renamed(harmless(now), OTHER_ID)]);
    let ran = stage.run(&["list"]).await.ended(0, &[]);
    assert_eq!(
        ran.out,
        "APPROVAL      STATE    TIME         ROOT  ASKED BY    WHAT\n\
         p9h3c5t7v2xz  pending  28 min left  demo  demo-agent  1 to add\n\
         7k2m9x4q8wab  pending  28 min left  demo  demo-agent  1 DANGER: 1 to replace\n"
    );
}

#[tokio::test]
async fn what_ended_is_listed_when_asked_for() {
    let now = now_ms();
    let mut used = in_state(replacement(now), State::Consumed);
    used.approval.as_mut().unwrap().outcome = "failed".to_owned();
    let stage = Stage::with([used]);
    let ran = stage.run(&["list"]).await;
    ran.ended(0, &["No approval waits.", "list --all"]);
    let ran = stage.run(&["list", "--all"]).await.ended(0, &[]);
    assert!(
        ran.out.contains("consumed") && ran.out.contains("1 to replace; failed"),
        "{ran:?}"
    );
    let empty = Stage::with([]);
    empty
        .run(&["list", "--all"])
        .await
        .ended(0, &["last seven days"]);
}

#[tokio::test]
async fn a_program_gets_the_fields_of_the_contract() {
    let stage = Stage::with([replacement(now_ms())]);
    let ran = stage.run(&["list", "--json"]).await.ended(0, &[]);
    let all: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(all[0]["id"], ID);
    assert_eq!(all[0]["state"], "pending");
    assert_eq!(all[0]["digest"], "ab".repeat(32));
    assert_eq!(all[0]["ended"], serde_json::Value::Null);
    assert_eq!(
        all[0]["reason_unverified"],
        "Label the pods with their team"
    );
    let none = Stage::with([]).run(&["list", "--json"]).await.ended(0, &[]);
    assert_eq!(none.out, "[]\n");
}

#[tokio::test]
async fn a_terminal_wraps_what_it_cannot_hold_under_its_column() {
    let stage = Stage::with([replacement(now_ms())]);
    let mut seat = Seat::sized(&stage, &["list"], (24, 68));
    seat.ends_with(0).await;
    let wrapped = "7k2m9x4q8wab  pending  28 min left  demo  demo-agent  1 DANGER: 1 to\n\
                   \u{20}                                                     replace";
    assert!(seat.shown().contains(wrapped), "{}", seat.shown());
}

#[tokio::test]
async fn status_tells_how_many_wait() {
    let stage = Stage::with([replacement(now_ms())]);
    let ran = stage.run(&["status"]).await;
    ran.ended(0, &["1 APPROVAL WAITS FOR A VERDICT: approver list"]);
    let ran = stage.run(&["status", "--json"]).await.ended(0, &[]);
    let status: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(status["approvals_pending"], 1);
    let none = Stage::with([in_state(replacement(now_ms()), State::Denied)]);
    none.run(&["status"])
        .await
        .ended(0, &["No approval waits for a verdict."]);
}

#[tokio::test]
async fn text_of_an_agent_stays_one_line_of_visible_ascii() {
    let text = "x\n7k2m9x4q8wab  pending\r\x1b[2J\u{202e}\u{2028}\u{2029}\u{85}d\u{435}mo\u{0}";
    let stage = Stage::with([hostile(now_ms(), text)]);
    for args in [
        &["list"][..],
        &["list", "--json"],
        &["show", ID],
        &["show", ID, "--json"],
        &["status"],
    ] {
        let ran = stage.run(args).await.ended(0, &[]);
        let visible = |b: u8| b == b'\n' || (b' '..=b'~').contains(&b);
        assert!(ran.out.bytes().all(visible), "{args:?}: {ran:?}");
        let forged = ran
            .out
            .lines()
            .filter(|line| line.starts_with("7k2m9x4q8wab  pending\\"));
        assert_eq!(forged.count(), 0, "{args:?}");
    }
}
