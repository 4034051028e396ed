//! A plan file that is not the one it is kept as, in the daemon's own journal: after a review the binding tells it,
//! before one the runner does, by the configuration that a plan file carries.

use rusqlite::Connection;

use crate::cluster_lock::ClusterLock;
use crate::ground::assert_nothing_left;
use crate::root::{Root, writes};
use crate::trail::names;

#[test]
#[ignore = "needs a cluster: scripts/up"]
fn another_plan_file_than_the_reviewed_one_is_never_applied() {
    let _lock = ClusterLock::take();
    let mut root = Root::by_a_held_clock("e2e-plan-file");
    let (trail, mut bridge) = (root.trail(), root.bridge());
    let approval = Root::ask(&mut bridge);
    root.grant(&approval, "yes");
    let (reviewed, other) = (root.source("shop", 0), root.source("storefront", 0));
    root.write("main.tf", &other);
    Root::plan(&mut bridge);
    root.write("main.tf", &reviewed);
    assert!(root.daemon.terminate().success());
    exchange_plan_files(&root);
    root.daemon.start();
    let changed = ("APPROVAL_CHANGED", "Changed since: plan file.");
    root.assert_not_used(&mut bridge, &approval, changed);
    let no = trail.approver(&["deny", &approval, "--reason", "e2e"]);
    no.unwrap();

    // Now the exchanged file is what people are asked for.
    root.daemon.clock().move_on();
    root.write("main.tf", &other);
    let mark = trail.mark();
    let approval = Root::ask(&mut bridge);
    assert!(!names(&trail.since(mark)).contains(&"sandbox.started"));
    root.grant(&approval, "yes");
    let applied = Root::use_up(&mut bridge, &approval);
    applied.assert_refused("PLAN_REFUSED", "the plan was made with another");
    let events = trail.of_once(applied.request_id(), "credential.proven_dead");
    assert_eq!(writes(&events), Vec::<String>::new());
    assert_eq!(root.uid(), "");
    trail.assert_whole();
    assert_nothing_left(&trail);
}

/// Of the two plans that may still be applied each gets the other's file, and the digest beside it.
fn exchange_plan_files(root: &Root) {
    let journal = Connection::open(root.daemon.path("state/sandboxd.db")).unwrap();
    let both =
        "CREATE TEMP TABLE kept AS SELECT id, bytes, digest FROM plan WHERE bytes IS NOT NULL";
    journal.execute(both, ()).unwrap();
    let exchange = "UPDATE plan SET (bytes, digest) = \
         (SELECT bytes, digest FROM kept WHERE kept.id <> plan.id) \
         WHERE id IN (SELECT id FROM kept)";
    assert_eq!(journal.execute(exchange, ()), Ok(2));
}
