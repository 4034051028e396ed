//! `approver watch` at a terminal of 80 by 24: live, through restarts, and the terminal as it was at the end.

use rustix::process::Signal;
use sandbox_proto::approver::v1::approval::State;

use crate::plans::{
    ID, OTHER_ID, harmless, hostile, in_state, long_value, moves_with_a_delete, renamed,
    replacement,
};
use crate::scripted::{Stage, Trail};
use crate::seat::{Seat, now_ms};

const NAME: &str = "Deployment/demo-app/web";

#[tokio::test]
async fn what_comes_and_changes_is_seen_as_it_happens() {
    let now = now_ms();
    let stage = Stage::with([replacement(now)]);
    let mut seat = Seat::take(&stage, &["watch"]);
    seat.shows("approver watch | 1 waits | sandboxd 0.1.0 (uid")
        .await;
    seat.shows("> 7k2m9x4q8wab pending 28 min left demo: 1 DANGER: 1 to replace")
        .await;
    seat.shows("1 replaces Deployment/demo-app/web").await;
    assert!(seat.has_whole_screen());
    stage.desk.put(renamed(harmless(now), OTHER_ID));
    seat.shows("approver watch | 2 wait").await;
    seat.shows("p9h3c5t7v2xz pending 28 min left demo: 1 to add")
        .await;
    seat.shows("> 7k2m9x4q8wab").await;
    stage.desk.put(in_state(replacement(now), State::Cancelled));
    seat.shows("Approval 7k2m9x4q8wab: cancelled at").await;
    seat.types("k").await;
    seat.shows("> p9h3c5t7v2xz").await;
    seat.shows("ConfigMap/demo-app/settings").await;
    seat.types("q").await;
    seat.ends_with(0).await;
}

#[tokio::test]
async fn the_first_approval_comes_to_an_empty_screen() {
    let stage = Stage::with([]);
    let mut seat = Seat::take(&stage, &["watch"]);
    seat.shows("No approval waits. This screen shows the next one as it comes.")
        .await;
    seat.shows("0 wait").await;
    stage.desk.put(moves_with_a_delete(now_ms()));
    seat.shows("1 destroys PersistentVolumeClaim/demo-app/data")
        .await;
    seat.types("q").await;
    seat.ends_with(0).await;
}

#[tokio::test]
async fn it_is_granted_by_typing_the_name() {
    let stage = Stage::with([replacement(now_ms())]);
    let mut seat = Seat::take(&stage, &["watch"]);
    seat.shows("1 replaces Deployment/demo-app/web").await;
    seat.types("g").await;
    seat.shows("To grant it, type it, as kind/namespace/name:")
        .await;
    seat.types("yes\r").await;
    seat.shows("\"yes\" is not it. Nothing was granted.").await;
    assert_eq!(stage.desk.recorded(), []);
    seat.types("\u{15}").await;
    seat.types(NAME).await;
    seat.shows(&format!("> {NAME}")).await;
    seat.types("\r").await;
    seat.shows("Granted. demo-agent may use approval 7k2m9x4q8wab once")
        .await;
    seat.shows("granted and not consumed yet").await;
    let recorded = stage.desk.recorded();
    assert_eq!(recorded.len(), 1);
    assert!(recorded[0].grant);
    assert_eq!(recorded[0].typed, NAME);
    assert_eq!(recorded[0].digest, vec![0xab; 32]);
    seat.types("q").await;
    seat.ends_with(0).await;
}

#[tokio::test]
async fn it_is_denied_with_a_reason() {
    let stage = Stage::with([replacement(now_ms())]);
    let mut seat = Seat::take(&stage, &["watch"]);
    seat.shows("1 replaces Deployment/demo-app/web").await;
    seat.types("d").await;
    seat.shows("DENY 7k2m9x4q8wab: why? The agent is told.")
        .await;
    // Pasted as a terminal pastes: its line ends send nothing.
    seat.types("\u{1b}[200~Not on a Monday\nq\u{1b}[201~").await;
    seat.shows("> Not on a Monday").await;
    assert_eq!(stage.desk.recorded(), []);
    seat.types("\r").await;
    seat.shows("Denied. Approval 7k2m9x4q8wab has ended; nothing was applied.")
        .await;
    let recorded = stage.desk.recorded();
    assert_eq!(
        (recorded.len(), recorded[0].reason.as_str()),
        (1, "Not on a Monday")
    );
    seat.types("q").await;
    seat.ends_with(0).await;
}

#[tokio::test]
async fn a_plan_that_changed_under_the_question_is_refused() {
    let stage = Stage::with([replacement(now_ms())]);
    let mut seat = Seat::take(&stage, &["watch"]);
    seat.shows("1 replaces Deployment/demo-app/web").await;
    seat.types("g").await;
    seat.shows("kind/namespace/name:").await;
    stage
        .desk
        .change(ID, |approval| approval.digest = vec![0xcd; 32].into());
    seat.types(&format!("{NAME}\r")).await;
    seat.shows("Your yes changes nothing. The plan is not the one that was shown.")
        .await;
    seat.types("q").await;
    seat.ends_with(0).await;
}

#[tokio::test]
async fn a_daemon_that_restarts_is_found_again_with_what_changed_meanwhile() {
    let now = now_ms();
    let mut stage = Stage::with([replacement(now)]);
    let mut seat = Seat::take(&stage, &["watch"]);
    seat.shows("1 replaces Deployment/demo-app/web").await;
    stage.stop();
    seat.shows("NOT CONNECTED since").await;
    seat.shows("There is no daemon").await;
    seat.shows("Trying again every second.").await;
    seat.shows("1 replaces Deployment/demo-app/web").await;
    seat.types("g").await;
    seat.shows("sandboxd is away, so nothing can be recorded.")
        .await;
    stage.desk.put(in_state(replacement(now), State::Expired));
    stage.desk.put(renamed(harmless(now), OTHER_ID));
    stage.start();
    seat.shows_no_more("NOT CONNECTED").await;
    seat.shows("Approval 7k2m9x4q8wab: expired at").await;
    seat.shows("p9h3c5t7v2xz pending").await;
    // And it is live again.
    stage
        .desk
        .change(OTHER_ID, |approval| approval.state = State::Granted.into());
    seat.shows("p9h3c5t7v2xz granted").await;
    seat.types("q").await;
    seat.ends_with(0).await;
}

#[tokio::test]
async fn a_trail_rolled_back_by_a_restart_ends_it_with_an_alarm() {
    let mut stage = Stage::set(&Trail::of(3, "succeeded"));
    stage.run(&["status"]).await.ended(0, &[]);
    let mut seat = Seat::take(&stage, &["watch"]);
    seat.shows("No approval waits").await;
    stage.stop();
    seat.shows("NOT CONNECTED since").await;
    stage.change(&Trail::of(1, "succeeded"));
    stage.start();
    seat.shows("ALARM: the audit trail was ROLLED BACK").await;
    seat.ends_with(3).await;
}

#[tokio::test]
async fn nothing_is_granted_on_a_trail_that_does_not_hold() {
    let stage = Stage::set(&Trail::of(3, "succeeded"));
    stage.run(&["status"]).await.ended(0, &[]);
    stage.change(&Trail::of(1, "succeeded"));
    stage.desk.put(harmless(now_ms()));
    let mut seat = Seat::take(&stage, &["watch"]);
    seat.shows("ALARM, quit to read it").await;
    seat.shows("ConfigMap/demo-app/settings").await;
    seat.types("g").await;
    seat.shows("the audit trail does not hold").await;
    seat.types("q").await;
    seat.ends_with(3).await;
    assert_eq!(stage.desk.recorded(), []);
}

#[tokio::test]
async fn the_terminal_is_as_it_was_whichever_way_it_ends() {
    let stage = Stage::with([replacement(now_ms())]);
    for (keys, code) in [("q", 0), ("\u{3}", 130), ("g\u{3}", 130)] {
        let mut seat = Seat::take(&stage, &["watch"]);
        seat.shows("1 replaces Deployment/demo-app/web").await;
        seat.types(keys).await;
        seat.ends_with(code).await;
    }
    for (signal, code) in [
        (Signal::TERM, 143),
        (Signal::INT, 130),
        (Signal::QUIT, 131),
        (Signal::HUP, 129),
    ] {
        let mut seat = Seat::take(&stage, &["watch"]);
        seat.shows("1 replaces Deployment/demo-app/web").await;
        seat.signal(signal);
        seat.ends_with(code).await;
    }
}

#[tokio::test]
async fn a_terminal_that_goes_away_ends_it_in_order() {
    let stage = Stage::with([replacement(now_ms())]);
    let code = stage.state().with_extension("code");
    let script = format!(
        "trap : HUP; {} --socket {} watch; echo $? > {}",
        env!("CARGO_BIN_EXE_approver"),
        stage.socket().display(),
        code.display()
    );
    let mut seat = Seat::program(&stage, &["sh", "-c", &script], (24, 80), &[]);
    seat.shows("1 replaces Deployment/demo-app/web").await;
    seat.hangs_up().await;
    // By the signal or by what it could not read or write any more, whichever came first; not by a panic.
    let code = std::fs::read_to_string(code).unwrap();
    assert!(["129\n", "1\n"].contains(&code.as_str()), "{code}");
}

#[tokio::test]
async fn stopped_it_gives_the_terminal_back_and_takes_it_again() {
    let stage = Stage::with([replacement(now_ms())]);
    let mut seat = Seat::take(&stage, &["watch"]);
    seat.shows("1 replaces Deployment/demo-app/web").await;
    for stop in 0..2 {
        if stop == 0 {
            seat.types("\u{1a}").await;
        } else {
            seat.signal(Signal::TSTP);
        }
        seat.until("the screen as it was", |seat| !seat.has_whole_screen())
            .await;
        seat.is_stopped().await;
        seat.signal(Signal::CONT);
        seat.until("the whole screen", Seat::has_whole_screen).await;
        seat.shows("1 replaces Deployment/demo-app/web").await;
        seat.shows("q quit").await;
    }
    seat.types("q").await;
    seat.ends_with(0).await;
}

#[tokio::test]
async fn another_size_is_filled_anew() {
    let stage = Stage::with([replacement(now_ms())]);
    let mut seat = Seat::take(&stage, &["watch"]);
    seat.shows("lines 1 to 20 of").await;
    seat.resize(50, 120);
    seat.shows("digest abababab").await;
    let last = seat.shown().lines().last().unwrap().to_owned();
    assert!(last.starts_with("Up/Down choose"), "{last}");
    seat.resize(10, 30);
    seat.shows("Too small: 40x12 at least.").await;
    seat.resize(24, 80);
    seat.shows("lines 1 to 20 of").await;
    seat.types("q").await;
    seat.ends_with(0).await;
}

#[tokio::test]
async fn a_value_of_two_megabytes_is_folded_and_its_length_said() {
    let stage = Stage::with([long_value(now_ms(), 2 * 1024 * 1024)]);
    let mut seat = Seat::sized(&stage, &["watch"], (50, 80));
    seat.shows("folded: 2,097,152 characters in all, whole in approver show")
        .await;
    seat.types("q").await;
    seat.ends_with(0).await;
}

#[tokio::test]
async fn text_of_an_agent_does_nothing_to_the_screen() {
    let text = "x\r\n\u{1b}[2J\u{1b}]0;gotcha\u{7}\u{9b}31m\u{202e}d\u{435}mo";
    let stage = Stage::with([hostile(now_ms(), text)]);
    let mut seat = Seat::take(&stage, &["watch"]);
    seat.shows("WHO ASKS").await;
    seat.types(" ").await;
    seat.shows("CHANGES").await;
    assert!(seat.shown().is_ascii(), "{}", seat.shown());
    assert!(!seat.raw().contains("\u{1b}]0;"), "no title was set");
    seat.types("q").await;
    seat.ends_with(0).await;
}

#[tokio::test]
async fn colour_is_left_off_where_it_is_not_wanted() {
    let stage = Stage::with([replacement(now_ms())]);
    for (variables, coloured) in [(&[][..], true), (&[("NO_COLOR", "1")], false)] {
        let mut seat = Seat::with(&stage, &["watch"], (24, 80), variables);
        seat.shows("1 replaces Deployment/demo-app/web").await;
        assert_eq!(seat.is_coloured(), coloured, "{variables:?}");
        seat.types("q").await;
        seat.ends_with(0).await;
    }
}

#[tokio::test]
async fn without_a_terminal_it_does_not_begin() {
    let stage = Stage::with([replacement(now_ms())]);
    let ran = stage.run(&["watch"]).await;
    let ran = ran.ended(1, &["approver watch needs a terminal", "approver list"]);
    assert_eq!(ran.out, "");
    // One that knows no escape sequences gets none.
    let mut seat = Seat::with(&stage, &["watch"], (24, 80), &[("TERM", "dumb")]);
    seat.ends_with(1).await;
    assert!(!seat.raw().contains('\u{1b}'), "{}", seat.raw());
}

#[tokio::test]
async fn without_a_daemon_it_does_not_begin_either() {
    let mut stage = Stage::with([]);
    stage.stop();
    let mut seat = Seat::take(&stage, &["watch"]);
    seat.shows("There is no daemon").await;
    seat.ends_with(1).await;
    assert!(!seat.raw().contains("\u{1b}[?1049h"));
}
