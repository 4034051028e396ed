//! What a human is shown of the trail, and that the daemon's word alone is not believed.

use crate::scripted::{Script, Stage, Trail, id};
use sandbox_core::audit::{Event, EventName, Fields, Seq, Value};

#[tokio::test]
async fn one_requests_events_are_printed_exactly_as_stored() {
    let trail = Trail::of(3, "succeeded");
    let stage = Stage::set(&trail);
    let ran = stage
        .run(&["audit", "--request-id", &id(1).to_string(), "--json"])
        .await;
    let stored: String = trail.text().split_inclusive('\n').skip(2).take(2).collect();
    assert_eq!(ran.ended(0, &[]).out, stored);
    let all = stage.run(&["audit", "--json"]).await;
    assert_eq!(all.ended(0, &[]).out, trail.text());
}

#[tokio::test]
async fn a_reader_sees_time_event_and_what_under_a_heading() {
    let mut trail = Trail::signed_by(1);
    let agent = "demo-agent".parse().unwrap();
    let parameters = Fields::from([("namespace".to_owned(), Value::from("demo-app"))]);
    let of = |name| Event::new(name).request(id(0)).principal(&agent);
    trail.push(
        of(EventName::ToolRequest)
            .with("action", "k8s_get_pod_status")
            .with("parameters", parameters),
    );
    trail.push(
        of(EventName::ToolResult)
            .with("outcome", "succeeded")
            .with("reason", "All went well."),
    );
    let ran = Stage::set(&trail)
        .run(&["audit", "--request-id", &id(0).to_string()])
        .await
        .ended(0, &[]);
    let id = id(0);
    assert_eq!(
        ran.out,
        format!(
            "Request {id}, by demo-agent\n\
             2026-03-01 UTC\n\
             09:30:00.000  tool.request             action=k8s_get_pod_status parameters={{\"namespace\":\"demo-app\"}}\n\
             09:30:01.000  tool.result              outcome=succeeded reason=\"All went well.\"\n"
        )
    );
}

#[tokio::test]
async fn text_an_agent_chose_cannot_act_on_the_terminal() {
    let mut trail = Trail::signed_by(1);
    let hostile = "x\n09:30:00.000  tool.result  outcome=succeeded\r\x1b[2J\u{202e}\u{2028}dеmo";
    trail.push(
        Event::new(EventName::ToolRequest)
            .with("reason", hostile)
            .with(hostile, 1),
    );
    let mut script = Script::from(&trail);
    script.detail = hostile.to_owned();
    let stage = Stage::set(script);
    for args in [&["audit"][..], &["status"], &["status", "--json"]] {
        let ran = stage.run(args).await.ended(0, &[]);
        assert!(
            ran.out
                .bytes()
                .all(|b| b == b'\n' || (b' '..=b'~').contains(&b)),
            "{ran:?}"
        );
        assert!(
            !ran.out
                .lines()
                .any(|line| line.starts_with("09:30:00.000  tool.result")),
            "{ran:?}"
        );
    }
}

#[tokio::test]
async fn a_whole_trail_passes_and_the_verdict_says_how_far_it_goes() {
    let mut trail = Trail::of(3, "succeeded");
    trail.push(Event::new(EventName::DaemonStopped));
    let stage = Stage::set(&trail);
    let ran = stage.run(&["audit", "--verify"]).await;
    let ran = ran.ended(
        0,
        &[
            "8 events",
            "covers event 6",
            "no checkpoint covers yet: 1",
            "sandboxd finds the same",
        ],
    );
    assert!(
        !ran.out.contains("tool.request"),
        "the verdict alone: {ran:?}"
    );
    let ran = stage
        .run(&[
            "audit",
            "--verify",
            "--json",
            "--request-id",
            &id(0).to_string(),
        ])
        .await;
    let ran = ran.ended(0, &[]);
    assert!(
        ran.out.lines().all(|line| line.starts_with('{')) && ran.err.contains("whole"),
        "{ran:?}"
    );
}

#[tokio::test]
async fn a_line_edited_cut_swapped_or_repeated_on_the_way_is_an_alarm_with_its_number() {
    type Tamper = fn(&mut Vec<Vec<u8>>);
    let whole = Trail::of(4, "succeeded");
    for (tamper, words) in [
        ((|lines| lines[2][60] ^= 1) as Tamper, ["line 3", "edited"]),
        (|lines| drop(lines.remove(3)), ["line 4", "cut"]),
        (|lines| lines.swap(1, 4), ["line 2", "swapped"]),
        (
            |lines| lines.insert(5, lines[4].clone()),
            ["line 6", "repeated"],
        ),
        (|lines| lines.truncate(6), ["line 7", "rolled back"]),
    ] {
        let mut script = Script::from(&whole);
        tamper(&mut script.lines);
        // The status still says what the daemon wants us to believe.
        let stage = Stage::set(script);
        stage
            .run(&["audit", "--verify"])
            .await
            .ended(3, &["ALARM", words[0], words[1]]);
    }
}

#[tokio::test]
async fn a_daemon_that_finds_damage_in_its_file_is_heard_even_if_it_sends_whole_lines() {
    let mut script = Script::from(&Trail::of(2, "succeeded"));
    script.fault = "line 3: it does not fit its own hash".to_owned();
    Stage::set(script)
        .run(&["audit", "--verify"])
        .await
        .ended(3, &["ALARM", "the file is not", "line 3"]);
}

#[tokio::test]
async fn an_event_left_out_of_a_requests_answer_is_found_in_the_whole_trail() {
    let mut script = Script::from(&Trail::of(2, "succeeded"));
    script.hidden = Some(Seq(1));
    let stage = Stage::set(script);
    let request = id(0).to_string();
    stage
        .run(&["audit", "--request-id", &request])
        .await
        .ended(0, &[]);
    let ran = stage
        .run(&["audit", "--request-id", &request, "--verify"])
        .await;
    ran.ended(3, &["ALARM", "other events of this request"]);
}

#[tokio::test]
async fn a_line_that_does_not_fit_its_hash_is_not_shown() {
    let mut script = Script::from(&Trail::of(2, "succeeded"));
    let edited = String::from_utf8(script.lines[1].clone())
        .unwrap()
        .replace("succeeded", "failed");
    script.lines[1] = edited.into_bytes();
    let ran = Stage::set(script)
        .run(&["audit", "--json"])
        .await
        .ended(3, &["ALARM", "event 2", "edited"]);
    assert!(!ran.out.contains("failed"), "{ran:?}");
}

#[tokio::test]
async fn the_daemons_refusals_are_passed_on_whole() {
    let mut script = Script::from(&Trail::of(1, "succeeded"));
    let stage = Stage::set(script.clone());
    stage
        .run(&["audit", "--request-id", "019ca"])
        .await
        .ended(2, &["at least 6 hexadecimal digits"]);
    let list = format!(
        "The audit trail cannot answer: several requests begin so: {}, {}.",
        id(1),
        id(2)
    );
    script.refusal = Some(tonic::Status::invalid_argument(&list));
    stage.change(script);
    stage
        .run(&["audit", "--request-id", "019ca8"])
        .await
        .ended(1, &[&list]);
}

#[tokio::test]
async fn a_reader_that_has_enough_ends_it_quietly() {
    let mut trail = Trail::signed_by(1);
    for _ in 0..500 {
        trail.push(Event::new(EventName::ApiCall).with("path", "x".repeat(500)));
    }
    let stage = Stage::set(&trail);
    let mut child = stage
        .command(&["audit", "--json"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().await.unwrap();
    assert_eq!(
        (output.status.code(), &output.stderr[..]),
        (Some(0), &b""[..])
    );
}
