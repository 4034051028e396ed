//! An approval at the edges of its time, by the daemon's wall clock: in a second it is good, in the next it is not,
//! and no clock makes it good again.

use crate::bridge::Bridge;
use crate::cluster_lock::ClusterLock;
use crate::ground::assert_nothing_left;
use crate::human::Terminal;
use crate::root::Root;
use crate::trail::{Mark, only};

const NOT_IN_TIME: (&str, &str) = ("APPROVAL_EXPIRED", "it was not used in time");

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn an_approval_of_a_minute_is_good_at_59_seconds_and_never_again_from_60_on() {
    let _lock = ClusterLock::take();
    let mut root = Root::by_a_held_clock("e2e-clock");
    root.have_policy("expires_after_minutes: 30", "expires_after_minutes: 1");
    let (trail, mut bridge) = (root.trail(), root.bridge());
    // What follows asks for approvals of this plan, one after the other.
    Root::plan(&mut bridge);
    granted_at_59_and_launched_at_61(&mut root, &mut bridge);
    said_after_it_had_expired(&mut root, &mut bridge);
    expired_while_the_daemon_was_down(&mut root, &mut bridge);
    expired_by_a_clock_that_was_set_back(&mut root, &mut bridge);
    assert_eq!(root.uid(), "");
    launched_at_59(&mut root, &mut bridge);
    trail.assert_whole();
    assert_nothing_left(&trail);
}

fn ask(root: &mut Root, bridge: &mut Bridge) -> String {
    root.daemon.clock().move_on();
    Root::ask(bridge)
}

/// The daemon saw it expire, with nobody having asked.
fn assert_expired(root: &Root, mark: Mark, approval: &str, why: &str) {
    let trail = root.trail();
    let expired = trail.wait_for(mark, "the expiry", |e| e.name == "approval.expired");
    assert_eq!(expired.text("approval"), approval);
    assert!(expired.text("reason").contains(why), "{expired:?}");
    assert_eq!(root.shown(approval)["state"], "expired");
}

fn granted_at_59_and_launched_at_61(root: &mut Root, bridge: &mut Bridge) {
    let approval = ask(root, bridge);
    root.daemon.clock().shift(59);
    root.grant(&approval, "yes");
    assert_eq!(root.shown(&approval)["state"], "granted");
    let mark = root.trail().mark();
    root.daemon.clock().shift(2);
    root.assert_not_used(bridge, &approval, NOT_IN_TIME);
    assert_expired(root, mark, &approval, "not used in time");
}

/// By somebody who had it on the screen before, and by somebody who says no without looking.
fn said_after_it_had_expired(root: &mut Root, bridge: &mut Bridge) {
    let trail = root.trail();
    let approval = ask(root, bridge);
    let mut terminal = Terminal::at_the_question(&trail, &approval);
    let mark = trail.mark();
    root.daemon.clock().shift(60);
    assert_expired(root, mark, &approval, "not used in time");
    let told =
        format!("Approval {approval} has expired. What you said is kept and changes nothing.");
    terminal.answer("yes");
    let (status, shown) = terminal.end();
    assert!(!status.success() && shown.contains(&told), "{shown}");
    let no = trail.approver(&["deny", &approval, "--reason", "late"]);
    assert!(no.as_ref().is_err_and(|e| e.contains(&told)), "{no:?}");

    let after = root.shown(&approval);
    assert_eq!(after["state"], "expired", "{after}");
    let [yes, no] = &after["verdicts"].as_array().unwrap()[..] else {
        panic!("{after}");
    };
    for (verdict, granted, reason) in [(yes, true, ""), (no, false, "late")] {
        assert_eq!(verdict["grant"], granted, "{after}");
        assert_eq!(verdict["reason"], reason, "{after}");
        assert_eq!(
            verdict["void"], "came after the approval expired",
            "{after}"
        );
    }
    let events = trail.since(mark);
    let heard = events.iter().filter(|e| e.name == "approval.verdict");
    let counted: Vec<_> = heard.map(|e| &e.fields["counts"]).collect();
    assert_eq!(counted, [false, false]);
    root.assert_not_used(bridge, &approval, NOT_IN_TIME);
}

fn expired_while_the_daemon_was_down(root: &mut Root, bridge: &mut Bridge) {
    let approval = ask(root, bridge);
    root.daemon.clock().shift(30);
    root.grant(&approval, "yes");
    assert!(root.daemon.terminate().success());
    let mark = root.trail().mark();
    root.daemon.clock().shift(60);
    root.daemon.start();
    assert_expired(root, mark, &approval, "not used in time");
    root.assert_not_used(bridge, &approval, NOT_IN_TIME);
}

/// How long it has waited is not known then, so that it ends; putting the clock right does not bring it back.
fn expired_by_a_clock_that_was_set_back(root: &mut Root, bridge: &mut Bridge) {
    let approval = ask(root, bridge);
    root.daemon.clock().shift(30);
    root.grant(&approval, "yes");
    let mark = root.trail().mark();
    root.daemon.clock().shift(-20);
    let set_back = ("APPROVAL_EXPIRED", "the clock was set back");
    root.assert_not_used(bridge, &approval, set_back);
    assert_expired(root, mark, &approval, "the clock was set back");
    root.daemon.clock().shift(20);
    root.assert_not_used(bridge, &approval, set_back);
}

fn launched_at_59(root: &mut Root, bridge: &mut Bridge) {
    let approval = ask(root, bridge);
    root.daemon.clock().shift(59);
    root.grant(&approval, "yes");
    let applied = Root::use_up(bridge, &approval);
    assert_eq!(applied.field("outcome"), "finished", "{}", applied.text());
    assert!(!root.uid().is_empty());
    let events = root.trail().of(applied.request_id());
    assert_eq!(
        only(&events, "approval.consumed").text("approval"),
        approval
    );
}
