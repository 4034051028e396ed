//! Several people decide, at the same instant or one after the other: one outcome, and each is told what theirs came
//! to.

use std::thread;
use std::time::Duration;

use toml::Table;

use crate::bridge::Bridge;
use crate::cluster_lock::ClusterLock;
use crate::ground::assert_nothing_left;
use crate::human::{self, Terminal};
use crate::own_daemon::set;
use crate::root::Root;
use crate::trail::{Event, Trail};

/// Another approver than those that every root has: a uid of nobody.
const SECOND: u32 = 100_079;

const COUNTS_ONCE: &str = "repeats a yes of the same approver, and one person counts once";

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn of_several_people_each_counts_once_and_while_they_are_approvers_and_a_no_ends_it() {
    let _lock = ClusterLock::take();
    let mut root = Root::not_started("e2e-people");
    root.daemon.hold_clock();
    root.configure(with_the_second);
    root.daemon.start();
    let (trail, mut bridge) = (root.trail(), root.bridge());
    let second = root.daemon.trail_of(SECOND);
    Root::plan(&mut bridge);
    one_person_twice_is_one_of_two(&mut root, &second, &mut bridge);
    for pause in [0, 5, 15, 30, 60].map(Duration::from_millis) {
        a_yes_and_a_no_at_the_same_instant(&mut root, &second, &mut bridge, pause);
    }
    assert_eq!(root.uid(), "");
    two_at_the_same_instant(&mut root, &second, &mut bridge);
    assert!(!root.uid().is_empty());
    trail.assert_whole();
    assert_nothing_left(&trail);
}

fn with_the_second(config: &mut Table) {
    set(config, "approvers", "second", vec![i64::from(SECOND)]);
}

fn ask(root: &mut Root, bridge: &mut Bridge) -> String {
    root.daemon.clock().move_on();
    Root::ask(bridge)
}

/// A yes that counted for nothing, as its terminal tells it.
fn assert_repeated(terminal: Terminal) {
    let (status, shown) = terminal.end();
    let told = format!("was recorded, but does not count: {COUNTS_ONCE}.");
    assert!(!status.success() && shown.contains(&told), "{shown}");
}

/// Nor does it count any more once that person is no approver.
fn one_person_twice_is_one_of_two(root: &mut Root, second: &Trail, bridge: &mut Bridge) {
    root.have_policy("quorum: 1", "quorum: 2");
    let first = root.trail();
    let approval = ask(root, bridge);
    let waits = ("APPROVAL_NOT_GRANTED", "waits for 1 person to say yes");
    // On the screen before the first yes, and answered after it.
    let mut again = Terminal::at_the_question(&first, &approval);
    root.grant(&approval, "yes");
    again.answer("yes");
    assert_repeated(again);
    assert_eq!(root.shown(&approval)["state"], "pending");
    root.assert_not_used(bridge, &approval, waits);

    human::grant(second, &approval, "yes");
    assert_eq!(root.shown(&approval)["state"], "granted");
    root.configure(|_| ());
    let mark = first.mark();
    root.daemon.restart();
    first.wait_for(mark, "the reopening", |e| e.name == "approval.reopened");
    root.assert_not_used(bridge, &approval, waits);
    let shown = root.shown(&approval);
    assert_eq!(shown["state"], "pending", "{shown}");
    let void = shown["verdicts"][2]["void"].as_str().unwrap();
    assert_eq!(void, "is of somebody who is no approver any more");
    let away = second.approver(&["list"]);
    assert!(
        away.as_ref()
            .is_err_and(|e| e.contains("is not listed in [approvers]")),
        "{away:?}"
    );

    root.configure(with_the_second);
    root.have_policy("", "");
    root.daemon.restart();
    first
        .approver(&["deny", &approval, "--reason", "enough"])
        .unwrap();
}

/// Whichever comes first, the no stands, and no use of the yes.
fn a_yes_and_a_no_at_the_same_instant(
    root: &mut Root,
    second: &Trail,
    bridge: &mut Bridge,
    pause: Duration,
) {
    let trail = root.trail();
    let approval = ask(root, bridge);
    let mut terminal = Terminal::at_the_question(&trail, &approval);
    let mark = trail.mark();
    let no = thread::scope(|scope| {
        let no = scope.spawn(|| second.approver(&["deny", &approval, "--reason", "rather not"]));
        thread::sleep(pause);
        terminal.answer("yes");
        no.join().unwrap()
    });
    let (status, shown) = terminal.end();
    let no = no.unwrap();
    assert!(
        no.contains(&format!("Denied. Approval {approval} has ended")),
        "{no}"
    );

    let events = trail.since(mark);
    let verdicts = of(&events, "approval.verdict");
    let said: Vec<_> = verdicts.iter().map(|e| e.text("said")).collect();
    let counted: Vec<_> = verdicts
        .iter()
        .map(|e| e.fields["counts"] == true)
        .collect();
    let granted = of(&events, "approval.granted").len();
    if said == ["yes", "no"] {
        assert!(status.success() && shown.contains("Granted."), "{shown}");
        assert_eq!((&counted[..], granted), (&[true, true][..], 1));
    } else {
        assert_eq!(said, ["no", "yes"]);
        let told = "was denied. What you said is kept and changes nothing.";
        assert!(!status.success() && shown.contains(told), "{shown}");
        assert_eq!((&counted[..], granted), (&[true, false][..], 0));
    }
    assert_eq!(of(&events, "approval.denied").len(), 1, "{events:?}");
    assert_eq!(root.shown(&approval)["state"], "denied");
    root.assert_not_used(bridge, &approval, ("APPROVAL_DENIED", "rather not"));
}

/// Two people, and one of them at a second terminal: it is granted once, and good for one apply.
fn two_at_the_same_instant(root: &mut Root, second: &Trail, bridge: &mut Bridge) {
    let first = root.trail();
    let approval = ask(root, bridge);
    let mut terminals =
        [&first, second, &first].map(|who| Terminal::at_the_question(who, &approval));
    let mark = first.mark();
    for terminal in &mut terminals {
        terminal.answer("yes");
    }
    let ends = terminals.map(Terminal::end);
    let granted = |(status, shown): &(_, String)| {
        std::process::ExitStatus::success(status) && shown.contains("Granted.")
    };
    let events = first.since(mark);
    assert!(granted(&ends[1]), "{ends:?}");
    let (of_first, told) = (granted(&ends[0]), format!("does not count: {COUNTS_ONCE}."));
    let other = if of_first { &ends[2] } else { &ends[0] };
    assert!(of_first || granted(&ends[2]), "{ends:?}");
    assert!(!other.0.success() && other.1.contains(&told), "{other:?}");
    let verdicts = of(&events, "approval.verdict");
    let counted = verdicts.iter().filter(|e| e.fields["counts"] == true);
    assert_eq!((verdicts.len(), counted.count()), (3, 2), "{events:?}");
    assert_eq!(of(&events, "approval.granted").len(), 1, "{events:?}");

    let applied = Root::use_up(bridge, &approval);
    assert_eq!(applied.field("outcome"), "finished", "{}", applied.text());
    root.assert_not_used(bridge, &approval, ("APPROVAL_USED", applied.request_id()));
}

fn of<'a>(events: &'a [Event], name: &str) -> Vec<&'a Event> {
    events.iter().filter(|e| e.name == name).collect()
}
