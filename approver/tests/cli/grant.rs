//! A yes: asked at a terminal, typed by name where something is lost, and for exactly what was shown.

use sandbox_proto::approver::v1 as proto;
use sandbox_proto::approver::v1::approval::State;
use tonic::Status;

use crate::desk::explained;
use crate::plans::{ID, MINUTE_MS, harmless, in_state, replacement};
use crate::scripted::{Script, Stage, Trail};
use crate::seat::{Seat, now_ms};

const NAME: &str = "Deployment/demo-app/web";
/// As a script grants.
const GRANT: [&str; 4] = ["grant", ID, "--digest", "abababababababab"];

#[tokio::test]
async fn what_replaces_is_granted_by_typing_the_name_of_the_live_object() {
    let stage = Stage::with([replacement(now_ms())]);
    let mut seat = Seat::sized(&stage, &["grant", "7k2m9x"], (60, 80));
    seat.shows("To grant it, type it, as kind/namespace/name:")
        .await;
    seat.shows("DANGERS: 1").await;
    assert_eq!(stage.desk.recorded(), []);
    seat.types(&format!("{NAME}\n")).await;
    seat.shows("Granted. demo-agent may use approval 7k2m9x4q8wab once")
        .await;
    seat.ends_with(0).await;
    let [verdict] = &stage.desk.recorded()[..] else {
        panic!("one verdict: {:?}", stage.desk.recorded());
    };
    assert_eq!(verdict.approval_id, ID);
    assert_eq!(verdict.digest, vec![0xab; 32]);
    assert!(verdict.grant);
    assert_eq!(verdict.typed, NAME);
}

#[tokio::test]
async fn nothing_but_the_name_to_the_letter_grants() {
    for typed in [
        "yes",
        "y",
        "deployment/demo-app/web",
        "Deployment/demo-app/w\u{435}b",
        "kubernetes_deployment.web",
        "web",
        ID,
    ] {
        let stage = Stage::with([replacement(now_ms())]);
        let mut seat = Seat::sized(&stage, &["grant", ID], (60, 80));
        seat.shows("type it, as kind/namespace/name").await;
        seat.types(&format!("{typed}\n")).await;
        seat.shows("is not it. Nothing was granted so far.").await;
        // Nothing typed is the way out.
        seat.types("\n").await;
        seat.shows("Nothing was granted. Approval 7k2m9x4q8wab still waits")
            .await;
        seat.ends_with(4).await;
        assert_eq!(stage.desk.recorded(), [], "{typed:?}");
    }
}

#[tokio::test]
async fn a_mistyped_name_may_be_typed_again_but_not_for_ever() {
    let stage = Stage::with([replacement(now_ms())]);
    let mut seat = Seat::sized(&stage, &["grant", ID], (60, 80));
    seat.shows("as kind/namespace/name").await;
    seat.types("a\nb\nc\n").await;
    seat.ends_with(4).await;
    assert_eq!(stage.desk.recorded(), []);
    let mut seat = Seat::sized(&stage, &["grant", ID], (60, 80));
    seat.shows("as kind/namespace/name").await;
    seat.types(&format!("a\n {NAME} \n")).await;
    seat.ends_with(0).await;
    assert_eq!(stage.desk.recorded().len(), 1);
}

#[tokio::test]
async fn without_a_terminal_what_replaces_is_refused_with_what_to_do() {
    let stage = Stage::with([replacement(now_ms())]);
    let ran = stage.run(&["grant", ID]).await;
    ran.ended(
        4,
        &[
            "Nothing was granted",
            "type a name at a terminal",
            "approver grant 7k2m9x4q8wab",
            "DANGERS: 1",
        ],
    );
    assert_eq!(stage.desk.recorded(), []);
}

#[tokio::test]
async fn output_into_a_pipe_is_no_terminal_either() {
    let stage = Stage::with([replacement(now_ms())]);
    let binary = env!("CARGO_BIN_EXE_approver");
    let socket = stage.socket();
    let piped = format!("{binary} --socket {} grant {ID} | cat", socket.display());
    let mut seat = Seat::program(&stage, &["sh", "-c", &piped], (60, 80), &[]);
    seat.shows("destroys or replaces something, so a person has to see it")
        .await;
    seat.shows("[ended").await;
    assert_eq!(stage.desk.recorded(), []);
}

#[tokio::test]
async fn what_loses_nothing_takes_a_plain_yes() {
    let stage = Stage::with([harmless(now_ms())]);
    let mut seat = Seat::sized(&stage, &["grant", ID, "--reason", "Fine"], (60, 80));
    seat.shows("Type yes to grant it:").await;
    seat.types("yes\n").await;
    seat.ends_with(0).await;
    let recorded = stage.desk.recorded();
    assert_eq!((recorded.len(), recorded[0].reason.as_str()), (1, "Fine"));
    assert_eq!(recorded[0].typed, "");
}

#[tokio::test]
async fn a_script_grants_what_it_names_by_its_digest_and_nothing_else() {
    let whole = "ab".repeat(32);
    let stage = Stage::with([harmless(now_ms())]);
    stage.run(&["grant", ID]).await.ended(
        4,
        &[
            "without a terminal nobody was asked",
            "approver grant 7k2m9x4q8wab --digest HEX",
        ],
    );
    let other = format!("{}ac", "ab".repeat(31));
    for digest in ["abababababababac", &other] {
        stage
            .run(&["grant", ID, "--digest", digest])
            .await
            .ended(4, &["is for another plan than the one with the digest"]);
    }
    for digest in ["abababababababa", "abababababababax", ""] {
        stage
            .run(&["grant", ID, "--digest", digest])
            .await
            .ended(2, &["16 to 64 digits"]);
    }
    assert_eq!(stage.desk.recorded(), []);
    for digest in ["abababababababab", "ABABABABABABABABA", &whole] {
        let stage = Stage::with([harmless(now_ms())]);
        stage
            .run(&["grant", ID, "--digest", digest])
            .await
            .ended(0, &["Granted.", "1 to add"]);
        assert_eq!(stage.desk.recorded()[0].digest, vec![0xab; 32]);
    }
}

#[tokio::test]
async fn a_script_grants_no_danger_whatever_it_names() {
    let mut privileged = harmless(now_ms());
    privileged.plan.as_mut().unwrap().dangers = vec![proto::Danger {
        rank: 2,
        kind: "privileged".to_owned(),
        ..proto::Danger::default()
    }];
    for (shown, why) in [
        (privileged.clone(), "has dangers, so a person has to see it"),
        (replacement(now_ms()), "destroys or replaces something"),
    ] {
        let stage = Stage::with([shown]);
        stage
            .run(&["grant", ID, "--digest", &"ab".repeat(32)])
            .await
            .ended(4, &[why]);
        assert_eq!(stage.desk.recorded(), []);
    }
    let stage = Stage::with([privileged]);
    let mut seat = Seat::sized(&stage, &["grant", ID], (60, 80));
    seat.shows("For root demo: 1 to add (1 danger, told above). Type yes to grant it:")
        .await;
    seat.types("yes\n").await;
    seat.ends_with(0).await;
    assert_eq!(stage.desk.recorded().len(), 1);
}

#[tokio::test]
async fn a_digest_is_held_to_at_a_terminal_and_the_question_is_asked_all_the_same() {
    let stage = Stage::with([harmless(now_ms())]);
    let mut seat = Seat::sized(
        &stage,
        &["grant", ID, "--digest", "abababababababac"],
        (60, 80),
    );
    seat.shows("is for another plan").await;
    seat.ends_with(4).await;
    assert_eq!(stage.desk.recorded(), []);
    let mut seat = Seat::sized(
        &stage,
        &["grant", ID, "--digest", "abababababababab"],
        (60, 80),
    );
    seat.shows("For root demo: 1 to add. Type yes to grant it:")
        .await;
    seat.types("yes\n").await;
    seat.ends_with(0).await;
    assert_eq!(stage.desk.recorded().len(), 1);
}

/// Who cannot see both the plan and the question was not asked.
#[tokio::test]
async fn a_terminal_that_shows_half_of_it_is_none() {
    let binary = env!("CARGO_BIN_EXE_approver");
    for away in ["> /dev/null", "2>$told", "< /dev/null"] {
        let stage = Stage::with([harmless(now_ms())]);
        let socket = stage.socket();
        let socket = socket.display();
        let line = format!(
            "told={socket}.told; : >$told; {binary} --socket {socket} grant {ID} {away}; echo code $?; cat $told"
        );
        let mut seat = Seat::program(&stage, &["sh", "-c", &line], (60, 80), &[]);
        seat.shows("code 4").await;
        seat.shows("without a terminal nobody was asked").await;
        assert_eq!(stage.desk.recorded(), [], "{away}");
    }
}

#[tokio::test]
async fn a_no_at_the_question_or_its_end_grants_nothing() {
    for keys in ["no\n", "\n", "\u{4}"] {
        let stage = Stage::with([harmless(now_ms())]);
        let mut seat = Seat::sized(&stage, &["grant", ID], (60, 80));
        seat.shows("Type yes to grant it:").await;
        seat.types(keys).await;
        seat.ends_with(4).await;
        assert_eq!(stage.desk.recorded(), [], "{keys:?}");
    }
}

#[tokio::test]
async fn ctrl_c_at_the_question_grants_nothing() {
    let stage = Stage::with([replacement(now_ms())]);
    let mut seat = Seat::sized(&stage, &["grant", ID], (60, 80));
    seat.shows("as kind/namespace/name").await;
    seat.types("\u{3}").await;
    seat.ends_with(130).await;
    assert_eq!(stage.desk.recorded(), []);
}

#[tokio::test]
async fn a_plan_that_changed_after_it_was_shown_is_refused() {
    let stage = Stage::with([replacement(now_ms())]);
    let mut seat = Seat::sized(&stage, &["grant", ID], (60, 80));
    seat.shows("as kind/namespace/name").await;
    stage
        .desk
        .change(ID, |approval| approval.digest = vec![0xcd; 32].into());
    seat.types(&format!("{NAME}\n")).await;
    seat.shows("Your yes changes nothing. The plan is not the one that was shown.")
        .await;
    seat.shows("Look at it again: approver show.").await;
    seat.ends_with(4).await;
    assert_eq!(stage.desk.recorded()[0].digest, vec![0xab; 32]);
}

#[tokio::test]
async fn a_refusal_of_the_daemon_is_told_in_its_words_with_what_to_do() {
    let stage = Stage::with([harmless(now_ms())]);
    let refused = Status::permission_denied("demo-agent asked for it, and cannot approve it.");
    stage
        .desk
        .refuse(explained(&refused, "Have another approver look at it."));
    let ran = stage.run(&GRANT).await.ended(
        4,
        &[
            "Your yes changes nothing. demo-agent asked for it, and cannot approve it.",
            "Have another approver look at it.",
        ],
    );
    assert!(
        !ran.err.contains("Only the uids under [approvers]"),
        "{ran:?}"
    );
}

#[tokio::test]
async fn a_verdict_that_does_not_count_is_not_called_a_grant() {
    let stage = Stage::with([harmless(now_ms())]);
    stage.desk.void("it came after the approval expired");
    let ran = stage.run(&GRANT).await.ended(
        4,
        &["was recorded, but does not count: it came after the approval expired."],
    );
    assert!(!ran.out.contains("Granted"), "{ran:?}");
}

#[tokio::test]
async fn one_yes_of_two_is_told_as_such() {
    let mut shown = harmless(now_ms());
    shown.approval.as_mut().unwrap().quorum = 2;
    let stage = Stage::with([shown]);
    let ran = stage.run(&GRANT).await;
    ran.ended(
        0,
        &["Your yes is recorded. Approval 7k2m9x4q8wab has 1 of 2"],
    );
}

#[tokio::test]
async fn what_does_not_wait_any_more_cannot_be_granted() {
    let now = now_ms();
    for state in [
        State::Granted,
        State::Consumed,
        State::Denied,
        State::Expired,
        State::Cancelled,
    ] {
        let stage = Stage::with([in_state(harmless(now), state)]);
        stage
            .run(&GRANT)
            .await
            .ended(4, &["There is nothing to grant"]);
        assert_eq!(stage.desk.recorded(), [], "{state:?}");
    }
    let stage = Stage::with([harmless(now - 29 * MINUTE_MS)]);
    stage
        .run(&GRANT)
        .await
        .ended(4, &["nothing to grant", "time is up"]);
    assert_eq!(stage.desk.recorded(), []);
}

#[tokio::test]
async fn what_is_not_shown_in_full_cannot_be_granted() {
    let stage = Stage::with([]);
    let mut no_plan = harmless(now_ms());
    no_plan.plan = None;
    let mut no_digest = harmless(now_ms());
    no_digest.approval.as_mut().unwrap().digest = Vec::new().into();
    for shown in [no_plan, no_digest] {
        stage.desk.put(shown);
        stage
            .run(&GRANT)
            .await
            .ended(4, &["did not show approval 7k2m9x4q8wab in full"]);
    }
    assert_eq!(stage.desk.recorded(), []);
}

#[tokio::test]
async fn what_destroys_without_a_name_takes_the_approvals_id() {
    let mut shown = replacement(now_ms());
    shown.confirm.clear();
    let stage = Stage::with([shown]);
    stage.run(&GRANT).await.ended(4, &["at a terminal"]);
    let mut seat = Seat::sized(&stage, &["grant", ID], (60, 80));
    seat.shows("type the approval's id, 7k2m9x4q8wab").await;
    seat.types(&format!("{ID}\n")).await;
    seat.ends_with(0).await;
    assert_eq!(stage.desk.recorded().len(), 1);
}

#[tokio::test]
async fn many_names_are_told_at_the_question_in_part_and_above_in_full() {
    let mut shown = replacement(now_ms());
    shown.confirm = (0..9)
        .map(|n| format!("Deployment/demo-app/web-{n}"))
        .collect();
    let stage = Stage::with([shown]);
    let mut seat = Seat::sized(&stage, &["grant", ID], (100, 80));
    seat.shows("This destroys or replaces 9 objects:").await;
    seat.shows("and 3 more, all named above").await;
    seat.shows("To grant it, type one of them, as kind/namespace/name:")
        .await;
    assert_eq!(seat.shown().matches("Deployment/demo-app/web-8").count(), 1);
    seat.types("Deployment/demo-app/web-8\n").await;
    seat.ends_with(0).await;
    assert_eq!(stage.desk.recorded()[0].typed, "Deployment/demo-app/web-8");
}

#[tokio::test]
async fn nothing_is_granted_where_the_trail_does_not_hold() {
    let before = Trail::of(3, "succeeded");
    let stage = Stage::set(&before);
    stage.run(&["status"]).await.ended(0, &[]);
    stage.desk.put(harmless(now_ms()));
    stage.change(&Trail::of(2, "succeeded"));
    stage
        .run(&GRANT)
        .await
        .ended(3, &["Nothing was granted", "ALARM", "ROLLED BACK"]);
    assert_eq!(stage.desk.recorded(), []);
    // A no does no harm.
    stage
        .run(&["deny", ID, "--reason", "Odd"])
        .await
        .ended(3, &["Denied.", "ALARM"]);
}

#[tokio::test]
async fn a_verdict_whose_answer_is_lost_is_not_guessed() {
    let stage = Stage::with([harmless(now_ms())]);
    stage
        .desk
        .refuse(Status::unavailable("the connection broke"));
    stage.run(&GRANT).await.ended(
        1,
        &[
            "Whether your verdict was recorded is not known",
            "approver show 7k2m9x4q8wab",
        ],
    );
    let refusal = Script {
        refusal: Some(Status::unauthenticated("uid 7 is not listed")),
        ..Script::default()
    };
    stage.change(refusal);
    stage
        .run(&GRANT)
        .await
        .ended(1, &["Only the uids under [approvers]"]);
}
