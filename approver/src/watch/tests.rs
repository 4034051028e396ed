//! What stands on a screen of 80 by 24, and what the keys do there.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;
use sandbox_proto::approver::v1 as proto;
use sandbox_proto::approver::v1::approval::State;

use super::draw::{Colours, draw};
use super::keys::{self, Effect};
use super::link::News;
use super::model::Model;
use crate::failure::Failure;

#[allow(dead_code, reason = "the tests of the binary use the rest")]
#[path = "../../tests/cli/plans.rs"]
mod plans;
mod panic;

use plans::{
    ID, OTHER_ID, harmless, hostile, in_state, long_value, moves_with_a_delete, renamed,
    replacement, updates,
};

/// 2026-03-01T09:30:00Z.
const NOW_MS: i64 = 1_772_357_400_000;

/// A watch of these, with the first one shown.
fn watch(shown: &[proto::GetApprovalResponse]) -> Model {
    let mut model = Model::new(NOW_MS);
    hear(&mut model, connected(shown));
    if let Some(first) = shown.first() {
        show(&mut model, first);
    }
    model
}

fn connected(shown: &[proto::GetApprovalResponse]) -> News {
    News::Connected {
        daemon: "sandboxd 0.1.0 (uid 991)".to_owned(),
        approvals: shown.iter().map(|a| a.approval.clone().unwrap()).collect(),
    }
}

fn hear(model: &mut Model, news: News) {
    assert!(model.heard(news).is_none());
}

/// Has the detail asked for and answered.
fn show(model: &mut Model, shown: &proto::GetApprovalResponse) {
    let id = shown.approval.as_ref().unwrap().id.clone();
    assert_eq!(model.wanted(), Some(id.clone()));
    model.asked();
    let answer = Ok(Box::new(shown.clone()));
    hear(model, News::Shown { id, answer });
}

fn screen_of(model: &mut Model, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|frame| draw(model, Colours::Off, frame))
        .unwrap();
    let buffer = terminal.backend().buffer();
    let rows = (0..height).map(|y| {
        let row: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
        row.trim_end().to_owned()
    });
    rows.collect::<Vec<_>>().join("\n")
}

fn screen(model: &mut Model) -> String {
    screen_of(model, 80, 24)
}

/// The words on the screen, wherever they wrap.
fn words(model: &mut Model) -> String {
    screen(model)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

fn press(model: &mut Model, key: KeyCode) -> Effect {
    keys::pressed(model, KeyEvent::new(key, KeyModifiers::NONE))
}

fn enter(model: &mut Model, text: &str) -> Effect {
    for character in text.chars() {
        assert!(matches!(
            press(model, KeyCode::Char(character)),
            Effect::None
        ));
    }
    press(model, KeyCode::Enter)
}

#[track_caller]
fn assert_screen(model: &mut Model, wanted: &str) {
    let is = screen(model);
    assert_eq!(is.trim_end(), wanted.trim_end(), "\n{is}\n");
}

#[test]
fn the_dangers_of_what_waits_are_on_the_first_screen() {
    let mut model = watch(&[replacement(NOW_MS), renamed(harmless(NOW_MS), OTHER_ID)]);
    assert_screen(&mut model, include_str!("tests/choosing.txt"));
}

#[test]
fn one_that_is_read_has_the_whole_screen() {
    let mut model = watch(&[replacement(NOW_MS), renamed(harmless(NOW_MS), OTHER_ID)]);
    press(&mut model, KeyCode::Enter);
    assert_screen(&mut model, include_str!("tests/reading.txt"));
    press(&mut model, KeyCode::End);
    assert_screen(&mut model, include_str!("tests/read_to_the_end.txt"));
    press(&mut model, KeyCode::Esc);
    assert!(screen(&mut model).contains("Up/Down choose"));
}

#[test]
fn the_question_names_what_is_lost() {
    let mut model = watch(&[replacement(NOW_MS)]);
    press(&mut model, KeyCode::Char('g'));
    assert!(matches!(
        enter(&mut model, "Deployment/demo-app/we"),
        Effect::None
    ));
    assert_screen(&mut model, include_str!("tests/granting.txt"));
}

#[test]
fn nothing_that_waits_is_said_and_the_keys_do_no_harm() {
    let mut model = watch(&[]);
    assert_screen(&mut model, include_str!("tests/nothing.txt"));
    for key in "jkgda \nq".chars() {
        press(&mut model, KeyCode::Char(key));
    }
    for key in [
        KeyCode::Enter,
        KeyCode::Esc,
        KeyCode::PageDown,
        KeyCode::End,
        KeyCode::Up,
    ] {
        press(&mut model, key);
    }
    screen(&mut model);
    assert!(model.prompt.is_none() && !model.reading);
}

#[test]
fn a_delete_among_sixty_moves_is_on_the_first_screen() {
    let mut model = watch(&[moves_with_a_delete(NOW_MS)]);
    for _ in 0..2 {
        let first = screen(&mut model);
        let mut lines = first
            .lines()
            .skip_while(|line| !line.starts_with("DANGERS"));
        assert_eq!(
            lines.next(),
            Some("DANGERS: 61 (1 is the worst, 4 worth a look): 1 of rank 1, 60 of rank 4"),
            "{first}"
        );
        assert_eq!(
            lines.next(),
            Some("  1 destroys PersistentVolumeClaim/demo-app/data"),
            "{first}"
        );
        assert!(first.contains("demo: 61 DANGERS: 1 to destroy"), "{first}");
        // So it does where it is read, and where it is granted.
        press(&mut model, KeyCode::Enter);
    }
    press(&mut model, KeyCode::End);
    press(&mut model, KeyCode::Char('g'));
    let asked = screen(&mut model);
    let at = asked.find("1 destroys PersistentVolumeClaim/demo-app/data");
    assert!(at.is_some() && at < asked.find("-- GRANT"), "{asked}");
}

#[test]
fn letters_that_look_alike_are_told_apart() {
    let mut shown = replacement(NOW_MS);
    let plan = shown.plan.as_mut().unwrap();
    plan.dangers[0].address = "kubernetes_deployment.w\u{435}b".to_owned();
    let mut model = watch(&[shown]);
    let first = screen(&mut model);
    assert!(
        first.contains("    at kubernetes_deployment.w\\u{435}b"),
        "{first}"
    );
    // Nor does what looks like the name grant.
    press(&mut model, KeyCode::Char('g'));
    let sent = enter(&mut model, "Deployment/demo-app/w\u{435}b");
    assert!(matches!(sent, Effect::None));
    assert!(words(&mut model).contains("\"Deployment/demo-app/w\\u{435}b\" is not it."));
}

#[test]
fn two_hundred_and_one_changes_can_all_be_reached() {
    let mut model = watch(&[updates(NOW_MS, 201)]);
    press(&mut model, KeyCode::Enter);
    let mut read = String::new();
    for _ in 0..60 {
        read += &screen(&mut model);
        read.push('\n');
        press(&mut model, KeyCode::PageDown);
    }
    for number in 0..201 {
        assert!(
            read.contains(&format!("ConfigMap/demo-app/part-{number}\n")),
            "{number}"
        );
    }
}

#[test]
fn a_value_of_two_megabytes_is_folded_with_its_length_said() {
    let mut model = watch(&[long_value(NOW_MS, 2_000_000)]);
    press(&mut model, KeyCode::Enter);
    press(&mut model, KeyCode::PageDown);
    let screen = screen_of(&mut model, 80, 40);
    assert!(
        screen.contains("folded: 2,000,000 characters in all"),
        "{screen}"
    );
    assert!(screen.contains("xY"), "where it differs is shown: {screen}");
    assert!(model.length < 60, "{}", model.length);
}

#[test]
fn hostile_text_is_visible_ascii_everywhere() {
    let text = "x\n> 7k2m9x4q8wab\r\x1b[2J\u{202e}\u{2028}d\u{435}mo\u{0}\u{7f}\u{1f600}\t";
    let mut model = watch(&[hostile(NOW_MS, text)]);
    for _ in 0..2 {
        for _ in 0..12 {
            let shown = screen(&mut model);
            let visible = |c: char| c == '\n' || (' '..='~').contains(&c);
            assert!(shown.chars().all(visible), "{shown}");
            press(&mut model, KeyCode::PageDown);
        }
        press(&mut model, KeyCode::Enter);
        press(&mut model, KeyCode::Home);
    }
    press(&mut model, KeyCode::Char('d'));
    enter(&mut model, "\u{202e}");
    let shown = screen(&mut model);
    assert!(shown.is_ascii(), "{shown}");
}

#[test]
fn no_size_is_too_small_to_draw_on() {
    let mut model = watch(&[replacement(NOW_MS), renamed(harmless(NOW_MS), OTHER_ID)]);
    press(&mut model, KeyCode::Char('g'));
    for (width, height) in [
        (0, 0),
        (1, 1),
        (39, 24),
        (80, 11),
        (40, 12),
        (41, 13),
        (300, 5),
        (500, 200),
    ] {
        let shown = screen_of(&mut model, width, height);
        let small = width < 40 || height < 12;
        assert_eq!(
            shown.contains("GRANT"),
            !small,
            "{width}x{height}:\n{shown}"
        );
    }
}

#[test]
fn the_selection_stays_with_what_is_read() {
    let mut model = watch(&[replacement(NOW_MS)]);
    press(&mut model, KeyCode::Enter);
    press(&mut model, KeyCode::Down);
    let before = model.scroll;
    let newer = renamed(harmless(NOW_MS), OTHER_ID).approval.unwrap();
    hear(&mut model, News::Changed(Box::new(newer)));
    assert_eq!(model.selected().unwrap().id, ID);
    assert_eq!(model.scroll, before);
    assert_eq!(model.position(), 1);
    // It stays when it ends, too.
    let ended = in_state(replacement(NOW_MS), State::Expired);
    hear(
        &mut model,
        News::Changed(Box::new(ended.approval.clone().unwrap())),
    );
    assert_eq!(model.selected().unwrap().id, ID);
    let shown = screen(&mut model);
    assert!(
        shown.contains("Approval 7k2m9x4q8wab: expired at"),
        "{shown}"
    );
    // What is shown of it is asked for again.
    show(&mut model, &ended);
}

#[test]
fn what_ended_before_is_listed_when_asked_for() {
    let ended = renamed(in_state(harmless(NOW_MS), State::Denied), OTHER_ID);
    let mut model = watch(&[replacement(NOW_MS), ended]);
    assert!(!screen(&mut model).contains(OTHER_ID));
    press(&mut model, KeyCode::Char('a'));
    assert!(screen(&mut model).contains("  p9h3c5t7v2xz  denied"));
    press(&mut model, KeyCode::Down);
    assert_eq!(model.selected().unwrap().id, OTHER_ID);
    press(&mut model, KeyCode::Char('a'));
    assert_eq!(model.selected().unwrap().id, ID);
}

#[test]
fn a_long_list_scrolls_with_the_selection() {
    let all: Vec<_> = (0..20)
        .map(|n| renamed(harmless(NOW_MS), &format!("aaaaaaaaaa{n:02}")))
        .collect();
    let mut model = watch(&all);
    for _ in 0..19 {
        press(&mut model, KeyCode::Down);
        let shown = screen(&mut model);
        let selected = &model.selected().unwrap().id;
        assert!(shown.contains(&format!("> {selected}")), "{shown}");
    }
    assert!(screen(&mut model).contains(" 20 of 20 "));
    press(&mut model, KeyCode::Down);
    assert_eq!(model.position(), 19);
}

#[test]
fn only_the_name_grants_and_only_what_was_shown() {
    let mut model = watch(&[replacement(NOW_MS)]);
    press(&mut model, KeyCode::Char('g'));
    assert!(matches!(enter(&mut model, "yes"), Effect::None));
    assert!(screen(&mut model).contains("\"yes\" is not it. Nothing was granted."));
    // What changes meanwhile does not slip under the answer.
    let mut other = replacement(NOW_MS);
    other.approval.as_mut().unwrap().digest = vec![0xcd; 32].into();
    hear(
        &mut model,
        News::Changed(Box::new(other.approval.clone().unwrap())),
    );
    show(&mut model, &other);
    for _ in 0..3 {
        press(&mut model, KeyCode::Backspace);
    }
    let Effect::Send(verdict) = enter(&mut model, "Deployment/demo-app/web") else {
        panic!("{}", screen(&mut model));
    };
    assert!(verdict.grant);
    assert_eq!(
        (verdict.id.as_str(), verdict.typed.as_str()),
        (ID, "Deployment/demo-app/web")
    );
    assert_eq!(verdict.digest, vec![0xab; 32]);
    // While it is on its way no key does anything, and its end is told.
    assert!(matches!(
        press(&mut model, KeyCode::Char('q')),
        Effect::None
    ));
    assert!(model.left_open().contains("not known"));
    let granted = in_state(replacement(NOW_MS), State::Granted)
        .approval
        .unwrap();
    let answer = Ok(Box::new(granted));
    hear(
        &mut model,
        News::Recorded {
            granted: true,
            answer,
        },
    );
    assert!(screen(&mut model).contains("Granted. demo-agent may use approval 7k2m9x4q8wab once"));
    assert_eq!(model.left_open(), "");
}

#[test]
fn pasted_text_answers_and_commands_nothing() {
    let mut model = watch(&[harmless(NOW_MS)]);
    assert!(matches!(keys::pasted(&mut model, "gyes\nq"), Effect::None));
    assert!(model.prompt.is_none());
    press(&mut model, KeyCode::Char('g'));
    keys::pasted(&mut model, "yes\nq");
    assert!(screen(&mut model).contains("> yes"));
    let Effect::Send(verdict) = press(&mut model, KeyCode::Enter) else {
        panic!("{}", screen(&mut model));
    };
    assert_eq!(verdict.typed, "");
}

#[test]
fn a_no_needs_a_reason_and_escape_leaves_it() {
    let mut model = watch(&[replacement(NOW_MS)]);
    press(&mut model, KeyCode::Char('d'));
    assert!(matches!(press(&mut model, KeyCode::Enter), Effect::None));
    assert!(screen(&mut model).contains("the reason is empty"));
    press(&mut model, KeyCode::Esc);
    assert!(model.prompt.is_none());
    assert!(screen(&mut model).contains("No verdict was recorded."));
    press(&mut model, KeyCode::Char('d'));
    let Effect::Send(verdict) = enter(&mut model, "Not today") else {
        panic!("{}", screen(&mut model));
    };
    assert!(!verdict.grant);
    assert_eq!(
        (verdict.id.as_str(), verdict.reason.as_str()),
        (ID, "Not today")
    );
    assert_eq!(verdict.digest, vec![0xab; 32]);
}

#[test]
fn without_the_daemon_nothing_is_asked_and_what_was_seen_stays() {
    let mut model = watch(&[harmless(NOW_MS)]);
    hear(
        &mut model,
        News::Lost(Failure::Error("It broke.".to_owned())),
    );
    model.now_ms += 61_000;
    hear(
        &mut model,
        News::Lost(Failure::Error("There is no daemon.".to_owned())),
    );
    let shown = screen(&mut model);
    assert!(
        shown.contains("NOT CONNECTED since 09:30:00 | 09:31:01 UTC"),
        "{shown}"
    );
    assert!(shown.contains("There is no daemon."), "{shown}");
    assert!(shown.contains("ConfigMap/demo-app/settings"), "{shown}");
    assert!(shown.contains("27 min left"), "time goes on: {shown}");
    press(&mut model, KeyCode::Char('g'));
    assert!(model.prompt.is_none());
    assert!(screen(&mut model).contains("sandboxd is away, so nothing can be recorded."));
    hear(&mut model, connected(&[harmless(NOW_MS)]));
    assert!(!screen(&mut model).contains("NOT CONNECTED"));
    show(&mut model, &harmless(NOW_MS));
}

#[test]
fn what_is_told_goes_when_it_is_not_true_any_more() {
    let mut model = watch(&[harmless(NOW_MS)]);
    hear(
        &mut model,
        News::Lost(Failure::Error("It broke.".to_owned())),
    );
    press(&mut model, KeyCode::Char('d'));
    assert!(screen(&mut model).contains("sandboxd is away, so nothing can be recorded."));
    hear(&mut model, connected(&[harmless(NOW_MS)]));
    assert!(!screen(&mut model).contains("sandboxd is away"));
    show(&mut model, &harmless(NOW_MS));

    // A verdict that was lost on the way is told until somebody has seen it.
    hear(
        &mut model,
        News::Recorded {
            granted: true,
            answer: Err(Failure::Refused(
                "No verdict was recorded: it broke.".to_owned(),
            )),
        },
    );
    hear(&mut model, connected(&[harmless(NOW_MS)]));
    assert!(screen(&mut model).contains("No verdict was recorded: it broke."));

    let granted = in_state(harmless(NOW_MS), State::Granted).approval.unwrap();
    hear(
        &mut model,
        News::Recorded {
            granted: true,
            answer: Ok(Box::new(granted.clone())),
        },
    );
    hear(&mut model, News::Changed(Box::new(granted)));
    assert!(screen(&mut model).contains("Granted. demo-agent may use"));
    let consumed = in_state(harmless(NOW_MS), State::Consumed)
        .approval
        .unwrap();
    hear(&mut model, News::Changed(Box::new(consumed)));
    assert!(!screen(&mut model).contains("Granted. demo-agent may use"));
}

#[test]
fn an_alarm_is_on_the_screen_and_nothing_is_granted() {
    let mut model = watch(&[harmless(NOW_MS)]);
    model.alarm();
    press(&mut model, KeyCode::Char('g'));
    let shown = screen(&mut model);
    assert!(model.prompt.is_none());
    assert!(shown.contains("ALARM, quit to read it"), "{shown}");
    assert!(shown.contains("the audit trail does not hold"), "{shown}");
    let alarm = Failure::Alarm("rolled back".to_owned());
    assert!(matches!(
        model.heard(News::Lost(alarm)),
        Some(Failure::Alarm(_))
    ));
}

#[test]
fn a_verdict_that_was_refused_or_does_not_count_says_why() {
    let mut model = watch(&[harmless(NOW_MS)]);
    let refused = Failure::Refused("No verdict was recorded: the plan changed.".to_owned());
    hear(
        &mut model,
        News::Recorded {
            granted: true,
            answer: Err(refused),
        },
    );
    assert!(screen(&mut model).contains("No verdict was recorded: the plan changed."));
    let mut void = in_state(harmless(NOW_MS), State::Expired).approval.unwrap();
    void.verdicts = vec![proto::Verdict {
        grant: true,
        void: "it came late".to_owned(),
        ..proto::Verdict::default()
    }];
    hear(
        &mut model,
        News::Recorded {
            granted: true,
            answer: Ok(Box::new(void)),
        },
    );
    assert!(words(&mut model).contains("does not count: it came late."));
}

#[test]
fn colour_is_only_where_it_is_wanted() {
    let mut model = watch(&[replacement(NOW_MS)]);
    for (colours, some) in [(Colours::On, true), (Colours::Off, false)] {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal
            .draw(|frame| draw(&mut model, colours, frame))
            .unwrap();
        let cells = terminal.backend().buffer().content();
        assert_eq!(cells.iter().any(|cell| cell.fg != Color::Reset), some);
    }
}

#[test]
fn what_is_read_stays_when_it_cannot_be_had_again() {
    let mut model = watch(&[replacement(NOW_MS)]);
    model.want();
    model.asked();
    let answer = Err(Failure::Error("It broke.".to_owned()));
    let id = ID.to_owned();
    hear(&mut model, News::Shown { id, answer });
    let shown = screen(&mut model);
    assert!(
        shown.contains("1 replaces Deployment/demo-app/web"),
        "{shown}"
    );
    assert!(shown.contains("It broke."), "{shown}");
    // Where nothing was shown before, the reason stands in its place.
    let mut model = watch(&[]);
    hear(&mut model, connected(&[replacement(NOW_MS)]));
    model.asked();
    let answer = Err(Failure::Error("It broke.".to_owned()));
    let id = ID.to_owned();
    hear(&mut model, News::Shown { id, answer });
    assert!(screen(&mut model).contains("It broke."));
    press(&mut model, KeyCode::Char('g'));
    assert!(model.prompt.is_none());
}

#[test]
fn the_question_stands_below_the_dangers_and_the_plan_can_still_be_read() {
    let mut model = watch(&[replacement(NOW_MS)]);
    screen(&mut model);
    press(&mut model, KeyCode::End);
    assert!(!screen(&mut model).contains("DANGERS"));
    press(&mut model, KeyCode::Char('g'));
    assert!(screen(&mut model).contains("DANGERS: 1"));
    press(&mut model, KeyCode::PageDown);
    let shown = screen(&mut model);
    assert!(!shown.contains("DANGERS"), "{shown}");
    assert!(shown.contains("GRANT 7k2m9x4q8wab"), "{shown}");
    press(&mut model, KeyCode::PageUp);
    assert!(screen(&mut model).contains("DANGERS: 1"));
}
