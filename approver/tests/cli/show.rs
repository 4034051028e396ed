//! All there is to know of one approval, the dangers first and nothing cut.

use sandbox_proto::approver::v1 as proto;
use sandbox_proto::approver::v1::approval::State;

use crate::plans::{
    ID, OTHER_ID, attribute, harmless, hostile, in_state, long_value, moves_with_a_delete, renamed,
    replacement, updates,
};
use crate::scripted::{NOW_MS, Stage};
use crate::seat::{Seat, now_ms};

#[tokio::test]
async fn the_demos_replacement_reads_as_what_it_is() {
    let stage = Stage::with([in_state(replacement(NOW_MS), State::Denied)]);
    let ran = stage.run(&["show", ID]).await.ended(0, &[]);
    let wanted = include_str!("replacement.txt");
    assert_eq!(ran.out, wanted, "---\n{}", ran.out);
}

#[tokio::test]
async fn the_beginning_of_an_id_will_do_and_an_ambiguous_one_is_refused() {
    let now = now_ms();
    let twin = renamed(harmless(now), "7k2m9xaaaaaa");
    let stage = Stage::with([replacement(now), renamed(harmless(now), OTHER_ID), twin]);
    stage.run(&["show", "P9H3C5"]).await.ended(0, &["1 to add"]);
    stage
        .run(&["show", "7k2m9x"])
        .await
        .ended(1, &["means several"]);
    stage
        .run(&["show", "7k2m9x4"])
        .await
        .ended(0, &["1 to replace"]);
    stage
        .run(&["show", "zzzzzz"])
        .await
        .ended(1, &["There is no approval zzzzzz"]);
    stage.run(&["show", "7k2m9"]).await.ended(2, &["first 6"]);
}

#[tokio::test]
async fn a_delete_among_sixty_moves_is_on_the_first_screen() {
    let stage = Stage::with([moves_with_a_delete(now_ms())]);
    let ran = stage.run(&["show", ID]).await.ended(0, &[]);
    assert!(
        ran.out.contains(
            "(0 resources unchanged)\n  -   delete   PersistentVolumeClaim/demo-app/data\n"
        ),
        "it is the first of the changes, too"
    );
    let moves = ran
        .out
        .lines()
        .filter(|line| line.starts_with("  >   move"));
    assert_eq!(moves.count(), 60);
    assert!(
        ran.out
            .contains("moved from kubernetes_config_map.part[59]")
    );
    // Who only sees the end is sent to the beginning.
    assert!(
        ran.out
            .lines()
            .rev()
            .take(3)
            .any(|line| line == "61 dangers, told at the top.")
    );

    // The first screen of a terminal, which has room for this much beside the prompt.
    let mut seat = Seat::with(&stage, &["show", ID], (24, 80), &[("NO_COLOR", "1")]);
    seat.ends_with(0).await;
    let raw = seat.raw();
    let first: Vec<&str> = raw.lines().take(23).collect();
    let at = first
        .iter()
        .position(|line| line.starts_with("DANGERS: 61"))
        .unwrap();
    assert_eq!(
        first[at..at + 5],
        [
            "DANGERS: 61 (1 is the worst, 4 worth a look): 1 of rank 1, 60 of rank 4",
            "  1 destroys PersistentVolumeClaim/demo-app/data",
            "    It holds data, and the data goes with it.",
            "    at kubernetes_persistent_volume_claim.data",
            "  4 moves ConfigMap/demo-app/part-0",
        ]
    );
}

#[tokio::test]
async fn two_hundred_and_one_changes_are_all_shown() {
    let stage = Stage::with([updates(now_ms(), 201)]);
    let ran = stage.run(&["show", ID]).await.ended(0, &["CHANGES: 201"]);
    for number in 0..201 {
        let line = format!("  ~   update   ConfigMap/demo-app/part-{number}\n");
        assert!(ran.out.contains(&line), "{number}");
    }
}

#[tokio::test]
async fn a_value_of_two_megabytes_is_never_cut() {
    let shown = long_value(now_ms(), 2 * 1024 * 1024);
    let after = shown.plan.as_ref().unwrap().changes[0].attributes[0]
        .after
        .clone();
    let stage = Stage::with([shown]);
    let ran = stage.run(&["show", ID]).await.ended(0, &[]);
    assert!(
        ran.out.contains(&format!("        + {after}\n")),
        "the whole value is there"
    );
    assert!(
        ran.out.contains(
            "the first 1,048,576 characters and the last 1,048,575 characters are the same"
        )
    );

    // At a terminal it wraps, and still nothing is lost.
    let mut seat = Seat::take(&stage, &["show", ID]);
    seat.ends_with(0).await;
    let xs = seat.raw().bytes().filter(|b| *b == b'x').count();
    assert!(xs >= 2 * after.len() - 1, "{xs} of {}", 2 * after.len());
}

#[tokio::test]
async fn letters_that_look_alike_are_told_apart() {
    let mut shown = replacement(now_ms());
    let change = &mut shown.plan.as_mut().unwrap().changes[0];
    change.address = "kubernetes_deployment.w\u{435}b".to_owned();
    change.attributes = vec![attribute("metadata[0].name", "\"web\"", "\"w\u{435}b\"")];
    let stage = Stage::with([shown]);
    let ran = stage.run(&["show", ID]).await.ended(0, &[]);
    assert!(
        ran.out.contains("      kubernetes_deployment.w\\u{435}b\n"),
        "{}",
        ran.out
    );
    assert!(
        ran.out
            .contains("~ metadata[0].name: \"web\" -> \"w\\u{435}b\"\n")
    );
}

#[tokio::test]
async fn a_masked_value_says_that_it_is_one_and_that_it_changes() {
    let mut shown = replacement(now_ms());
    let masked = proto::Attribute {
        sensitive: true,
        ..attribute("data.password", "(sensitive)", "(sensitive)")
    };
    let plan = shown.plan.as_mut().unwrap();
    plan.changes[0].attributes = vec![masked];
    plan.outputs = vec![proto::OutputChange {
        name: "token".to_owned(),
        action: "create".to_owned(),
        before: "(none)".to_owned(),
        after: "(sensitive)".to_owned(),
        sensitive: true,
    }];
    let stage = Stage::with([shown]);
    let said = "(it changes; its value is sensitive and masked)";
    stage.run(&["show", ID]).await.ended(
        0,
        &[
            &format!("~ data.password: (sensitive) -> (sensitive)  {said}"),
            &format!("+ token: (sensitive)  {said}"),
        ],
    );
}

#[tokio::test]
async fn everything_else_of_a_plan_is_there() {
    let mut shown = replacement(now_ms());
    let approval = shown.approval.as_mut().unwrap();
    approval.quorum = 2;
    approval.verdicts = vec![proto::Verdict {
        approver: "bob".to_owned(),
        grant: true,
        reason: "Seen with the team".to_owned(),
        time_ms: NOW_MS,
        void: "bob is no approver any more".to_owned(),
    }];
    let plan = shown.plan.as_mut().unwrap();
    plan.checks = vec!["check.health: the page does not answer".to_owned()];
    plan.drift = vec![proto::Change {
        address: "kubernetes_config_map.a".to_owned(),
        object: "ConfigMap/demo-app/a".to_owned(),
        action: "update".to_owned(),
        attributes: vec![attribute("data.k", "\"1\"", "\"2\"")],
        ..proto::Change::default()
    }];
    plan.changes.push(proto::Change {
        address: "kubernetes_namespace.old".to_owned(),
        object: "Namespace/old".to_owned(),
        action: "forget".to_owned(),
        ..proto::Change::default()
    });
    plan.changes.push(proto::Change {
        address: "kubernetes_service.web".to_owned(),
        object: "Service/demo-app/web".to_owned(),
        action: "import".to_owned(),
        import_id: "demo-app/web".to_owned(),
        ..proto::Change::default()
    });
    plan.changes.push(proto::Change {
        address: "kubernetes_job.x".to_owned(),
        object: "Job/demo-app/x".to_owned(),
        action: "explode".to_owned(),
        ..proto::Change::default()
    });
    plan.changes[0].create_before_destroy = true;
    shown.source.push(proto::FileDiff {
        path: "logo.png".to_owned(),
        action: "added".to_owned(),
        diff: String::new(),
    });
    let stage = Stage::with([shown]);
    stage.run(&["show", ID]).await.ended(
        0,
        &[
            "verdicts    0 of 2 yes, asked for by the rule ask-for-every-apply",
            "yes by bob at 2026-03-01T09:30:00Z: \"Seen with the team\" (does not count: bob is no approver any more)",
            "+/- replace  Deployment/demo-app/web",
            "made anew first, then the old one is destroyed",
            "x   forget   Namespace/old",
            "Terraform lets go of it, and it goes on living",
            "<=  import   Service/demo-app/web",
            "imported by the id demo-app/web",
            "?   explode  Job/demo-app/x",
            "this approver does not know this action",
            "DRIFT: 1 changed behind Terraform's back",
            "~ data.k: \"1\" -> \"2\"",
            "CHECKS that fail or are unknown: 1",
            "! check.health: the page does not answer",
            "added logo.png",
            "not text",
            "28 min left",
        ],
    );
}

#[tokio::test]
async fn a_plan_that_did_not_come_is_said_to_be_missing() {
    let mut shown = replacement(now_ms());
    shown.plan = None;
    shown.scope.clear();
    let stage = Stage::with([shown]);
    stage
        .run(&["show", ID])
        .await
        .ended(0, &["THE PLAN IS NOT THERE", "sandboxd does not say"]);
}

#[tokio::test]
async fn a_line_of_source_that_wraps_keeps_its_sign() {
    let mut shown = replacement(now_ms());
    let padded = format!("+{}-   team = \"web\"\n", " ".repeat(73));
    shown.source[0].diff = format!("{padded} same\n");
    let stage = Stage::with([shown]);
    let mut seat = Seat::sized(&stage, &["show", ID], (60, 80));
    seat.ends_with(0).await;
    let screen = seat.shown();
    let at = screen
        .lines()
        .position(|line| line.starts_with("    +   "))
        .unwrap();
    let lines: Vec<&str> = screen.lines().skip(at).take(3).collect();
    assert!(lines[0].ends_with('\\'), "{lines:#?}");
    assert!(lines[1].starts_with("    +"), "{lines:#?}");
    assert_eq!(lines[2], "     same");
}

#[tokio::test]
async fn colour_comes_at_a_terminal_only_and_carries_nothing_alone() {
    let now = now_ms();
    let stage = Stage::with([replacement(now)]);
    let plain = stage.run(&["show", ID]).await.ended(0, &[]).out;
    assert!(!plain.contains('\x1b'));
    let size = (80, 200);
    for (variables, coloured) in [
        (&[][..], true),
        (&[("NO_COLOR", "1")][..], false),
        (&[("NO_COLOR", "")][..], true),
        (&[("TERM", "dumb")][..], false),
    ] {
        let mut seat = Seat::with(&stage, &["show", ID], size, variables);
        seat.ends_with(0).await;
        assert_eq!(seat.raw().contains("\x1b["), coloured, "{variables:?}");
        for line in plain.lines().filter(|line| !line.contains(" left")) {
            assert!(seat.shown().contains(line), "{line:?} in {}", seat.shown());
        }
    }
}

#[tokio::test]
async fn no_line_is_wider_than_the_terminal() {
    let long = "word ".repeat(40) + &"x".repeat(300);
    let stage = Stage::with([hostile(now_ms(), &long)]);
    for width in [40, 80, 133] {
        let variables = [("NO_COLOR", "1")];
        let mut seat = Seat::with(&stage, &["show", ID], (24, width), &variables);
        seat.ends_with(0).await;
        let raw = seat.raw();
        let shown = raw.split("[ended").next().unwrap();
        assert!(shown.lines().count() > 60, "{shown}");
        for line in shown.lines() {
            assert!(line.len() <= usize::from(width), "{line:?} at {width}");
        }
    }
}

#[tokio::test]
async fn a_program_gets_all_of_it() {
    let stage = Stage::with([replacement(now_ms())]);
    let ran = stage.run(&["show", ID, "--json"]).await.ended(0, &[]);
    let shown: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(shown["approval"]["id"], ID);
    assert_eq!(shown["confirm"][0], "Deployment/demo-app/web");
    let change = &shown["plan"]["changes"][0];
    assert_eq!(change["action"], "replace");
    assert_eq!(change["attributes"][0]["forces_replacement"], true);
    assert_eq!(shown["plan"]["dangers"][0]["rank"], 1);
    assert_eq!(shown["source"][0]["path"], "main.tf");
    assert_eq!(shown["bound"][2]["name"], "state");
}
