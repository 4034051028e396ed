//! Approvals on a real file, as a crash would leave it.

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use sandbox_core::approval::{ExpiryCause, Void};
use tempfile::TempDir;
use tokio::sync::Barrier;

use super::fixture::*;
use super::*;

/// What a daemon that was killed now would leave: a copy of the files, the write-ahead log among them.
fn killed(folder: &Path) -> (TempDir, Store) {
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // The shared memory of the log is made anew by whoever opens it.
        if !path.to_str().unwrap().ends_with("-shm") {
            std::fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    let store = Store::open(copy.path()).unwrap();
    (copy, store)
}

/// A store with requests 1 to 60 of the agent's and an approval of root demo, opened by request 1.
async fn with_approval(folder: &Path, quorum: u32) -> Store {
    let store = Store::open(folder).unwrap();
    for n in 1..=60 {
        open_request(&store, n).await;
    }
    let plan = keep_plan(&store, "demo", 1, 2).await;
    let new = new_approval("demo", 1, 1, plan, quorum);
    store.open_approval(new).await.unwrap();
    store
}

async fn say(store: &Store, approver: &str, said: Said, quorum: u32, seconds: i64) -> Recorded {
    let all = approvers(&["ann", "ben"]);
    let verdict = verdict(approver, said, quorum);
    let recorded = store.record_verdict(id(1), verdict, at(seconds), all);
    recorded.await.unwrap().unwrap()
}

async fn consume(store: &Store, by: u8, seconds: i64) -> Result<Grant, ConsumeError> {
    let bound = binding("demo", 2, 1).digest();
    let when = (at(seconds), approvers(&["ann", "ben"]));
    let principal = AGENT.parse().unwrap();
    let used = store.consume_approval(id(1), principal, request(by), bound, when);
    used.await.unwrap()
}

async fn state(store: &Store) -> State {
    let stored = store.approval(id(1)).await.unwrap().unwrap();
    stored.approval.state().clone()
}

#[tokio::test]
async fn an_approval_reads_back_as_it_was_opened() {
    let folder = tempfile::tempdir().unwrap();
    let store = with_approval(folder.path(), 2).await;
    let plan = store.approval(id(1)).await.unwrap().unwrap().plan;
    let opened = new_approval("demo", 1, 1, plan, 2);
    let (_copy, store) = killed(folder.path());
    let stored = store.approval(id(1)).await.unwrap().unwrap();
    assert_eq!(stored.approval, opened.approval);
    assert_eq!(stored.binding, opened.binding);
    assert_eq!(stored.confirm, opened.confirm);
    assert_eq!(
        (stored.reason, stored.client),
        (opened.reason, opened.client)
    );
    assert_eq!(stored.request, request(1));
    assert_eq!(
        (stored.summary.as_str(), stored.dangers),
        ("1 to replace", 1)
    );
    assert_eq!(
        store.approval_shown(id(1)).await.unwrap().as_deref(),
        Some("{}")
    );
    assert!(store.approval(id(9)).await.unwrap().is_none());
}

#[tokio::test]
async fn grant_runs_once_across_restart() {
    let folder = tempfile::tempdir().unwrap();
    let store = with_approval(folder.path(), 1).await;

    let (_a, killed_before_a_verdict) = killed(folder.path());
    let waiting = consume(&killed_before_a_verdict, 2, 1).await;
    assert_eq!(waiting, Err(ConsumeError::NotGranted { missing: 1 }));

    assert_eq!(say(&store, "ann", Said::Yes, 1, 2).await, Recorded::Granted);
    let (_b, killed_after_the_verdict) = killed(folder.path());
    assert_eq!(state(&killed_after_the_verdict).await, State::Granted);
    assert!(consume(&killed_after_the_verdict, 2, 3).await.is_ok());

    let grant = consume(&store, 2, 3).await.unwrap();
    assert_eq!((grant.approval(), grant.request()), (id(1), request(2)));
    let (_c, killed_after_the_use) = killed(folder.path());
    for store in [&killed_after_the_use, &store] {
        let used = Err(ConsumeError::Used { by: request(2) });
        assert_eq!(consume(store, 3, 4).await, used);
        // The very request that had it does not get it again either.
        assert_eq!(consume(store, 2, 4).await, used);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_fifty_uses_at_once_one_wins() {
    let folder = tempfile::tempdir().unwrap();
    let first = with_approval(folder.path(), 1).await;
    say(&first, "ann", Said::Yes, 1, 1).await;
    // Five daemons' worth of connections to one file: the row decides, not the thread in front of it.
    let stores: Vec<Store> = (0..5)
        .map(|_| Store::open(folder.path()).unwrap())
        .collect();
    let begin = Arc::new(Barrier::new(50));
    let mut uses = tokio::task::JoinSet::new();
    for n in 0..50_u8 {
        let (store, begin) = (stores[usize::from(n) % 5].clone(), Arc::clone(&begin));
        uses.spawn(async move {
            begin.wait().await;
            consume(&store, n + 2, 2).await
        });
    }
    let outcomes = uses.join_all().await;
    let (won, lost): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    assert_eq!(won.len(), 1);
    let winner = won.into_iter().next().unwrap().unwrap().request();
    for other in lost {
        assert_eq!(other, Err(ConsumeError::Used { by: winner }));
    }
    assert_eq!(state(&first).await.used_by(), Some(winner));
}

#[tokio::test]
async fn a_daemon_that_was_down_across_the_expiry_finds_it_expired() {
    let folder = tempfile::tempdir().unwrap();
    let store = with_approval(folder.path(), 1).await;
    say(&store, "ann", Said::Yes, 1, 59).await;
    let (copy, store) = killed(folder.path());
    let all = approvers(&["ann"]);
    assert_eq!(
        store
            .look_at_approval(id(1), at(61), all.clone())
            .await
            .unwrap(),
        Some(Change::Expired(ExpiryCause::TimeUp))
    );
    // Set back, and started once more: an end stays.
    let (_copy, store) = killed(copy.path());
    assert_eq!(
        store.look_at_approval(id(1), at(30), all).await.unwrap(),
        None
    );
    assert!(matches!(
        consume(&store, 2, 30).await,
        Err(ConsumeError::Expired { .. })
    ));
}

#[tokio::test]
async fn the_latest_time_it_saw_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let store = with_approval(folder.path(), 1).await;
    let all = approvers(&["ann"]);
    say(&store, "ann", Said::Yes, 1, 10).await;
    assert_eq!(
        store.look_at_approval(id(1), at(50), all).await.unwrap(),
        None
    );
    let (_copy, store) = killed(folder.path());
    assert!(matches!(
        consume(&store, 2, 20).await,
        Err(ConsumeError::Expired {
            cause: ExpiryCause::ClockSetBack
        })
    ));
}

#[tokio::test]
async fn a_verdict_that_comes_too_late_is_kept_beside_an_end_that_stays() {
    let folder = tempfile::tempdir().unwrap();
    let store = with_approval(folder.path(), 1).await;
    assert_eq!(say(&store, "ann", Said::No, 1, 1).await, Recorded::Denied);
    let late = Recorded::Void(Void::AfterDenial);
    assert_eq!(say(&store, "ben", Said::Yes, 1, 2).await, late);
    let (_copy, store) = killed(folder.path());
    let stored = store.approval(id(1)).await.unwrap().unwrap();
    assert_eq!(stored.approval.state(), &State::Denied { at: at(1) });
    assert_eq!(stored.denial().unwrap().approver.as_str(), "ann");
    let late = &stored.approval.verdicts()[1];
    assert_eq!((late.said, late.time), (Said::Yes, at(2)));
    assert_eq!(late.void, Some(Void::AfterDenial));
}

#[tokio::test]
async fn a_step_that_is_refused_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = with_approval(folder.path(), 1).await;
    let all = approvers(&["ann"]);
    let stranger = verdict("eve", Said::Yes, 1);
    let refused = store.record_verdict(id(1), stranger, at(1), all.clone());
    assert_eq!(refused.await.unwrap(), Err(VerdictError::NoApprover));
    let other = "other-agent".parse().unwrap();
    let refused = store.cancel_approval(id(1), other, at(1), all);
    assert_eq!(refused.await.unwrap(), Err(CancelError::Anothers));
    let stored = store.approval(id(1)).await.unwrap().unwrap();
    assert_eq!(stored.approval.state(), &State::Pending);
    assert!(stored.approval.verdicts().is_empty());
}

#[tokio::test]
async fn a_root_has_one_open_approval_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let store = with_approval(folder.path(), 1).await;
    let plan = keep_plan(&store, "demo", 2, 3).await;
    let second = new_approval("demo", 2, 2, plan, 1);
    assert!(store.open_approval(second.clone()).await.is_err());
    say(&store, "ann", Said::Yes, 1, 1).await;
    assert!(
        store.open_approval(second.clone()).await.is_err(),
        "one that is granted is open too"
    );
    let other_plan = keep_plan(&store, "other", 3, 2).await;
    let other = new_approval("other", 3, 3, other_plan, 1);
    store.open_approval(other).await.unwrap();
    assert!(consume(&store, 4, 2).await.is_ok());
    store.open_approval(second).await.unwrap();
    let open = store.open_approval_of("demo".parse().unwrap()).await;
    assert_eq!(open.unwrap().unwrap().id(), id(2));
    let listed = store.approvals_since(at(0)).await.unwrap();
    assert_eq!(listed.len(), 3);
    assert_eq!(store.approvals_since(at(3)).await.unwrap().len(), 2);
}

#[tokio::test]
async fn nobody_can_edit_an_end_or_what_was_approved() {
    let folder = tempfile::tempdir().unwrap();
    let store = with_approval(folder.path(), 1).await;
    say(&store, "ann", Said::Yes, 1, 1).await;
    let connection = Connection::open(folder.path().join("sandboxd.db")).unwrap();
    for edit in [
        "UPDATE approval SET digest = zeroblob(32)",
        "UPDATE approval SET binding = '{}'",
        "UPDATE approval SET expires_ms = expires_ms + 1",
        "UPDATE approval SET quorum = 0",
        "UPDATE approval SET principal = 'other-agent'",
        "UPDATE approval SET confirm = '[]'",
    ] {
        let refused = connection.execute(edit, ()).unwrap_err().to_string();
        assert!(refused.contains("never changes"), "{edit}: {refused}");
    }
    assert!(consume(&store, 2, 2).await.is_ok());
    let again = "UPDATE approval SET state = 'granted', used_by = NULL, ended_ms = NULL";
    let refused = connection.execute(again, ()).unwrap_err().to_string();
    assert!(refused.contains("has ended"), "{refused}");
}

#[tokio::test]
async fn a_row_that_was_edited_all_the_same_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let store = with_approval(folder.path(), 1).await;
    let connection = Connection::open(folder.path().join("sandboxd.db")).unwrap();
    let edit = "DROP TRIGGER approval_terms_stay; \
         UPDATE approval SET binding = replace(binding, 'runner@sha256:00', 'runner@sha256:11')";
    connection.execute_batch(edit).unwrap();
    let error = store.approval(id(1)).await.unwrap_err().to_string();
    assert!(error.contains("not the one of its binding"), "{error}");
}

#[tokio::test]
async fn a_prefix_finds_what_it_begins_and_no_pattern() {
    let folder = tempfile::tempdir().unwrap();
    let store = with_approval(folder.path(), 1).await;
    let plan = keep_plan(&store, "other", 2, 2).await;
    let mut twin = new_approval("other", 1, 2, plan, 1);
    let mut symbols = [1; 12];
    symbols[11] = 2;
    let terms = twin.approval.terms().clone();
    twin.approval = Approval::open(sandbox_core::approval::Terms {
        id: ApprovalId::new(symbols),
        ..terms
    });
    store.open_approval(twin).await.unwrap();
    for (prefix, finds) in [
        ("111111", 2),
        ("11111111111", 2),
        ("111111111111", 1),
        ("111111111112", 1),
        ("111112", 0),
    ] {
        let found = store.approvals_with_prefix(prefix.parse().unwrap()).await;
        assert_eq!(found.unwrap().len(), finds, "{prefix}");
    }
}

#[tokio::test]
async fn how_the_apply_ended_is_read_from_its_request() {
    let folder = tempfile::tempdir().unwrap();
    let store = with_approval(folder.path(), 1).await;
    say(&store, "ann", Said::Yes, 1, 1).await;
    drop(consume(&store, 2, 2).await.unwrap());
    let outcome = async || store.approval(id(1)).await.unwrap().unwrap().outcome;
    assert_eq!(outcome().await, None);
    store.end_request(request(2), "unknown", 3).await.unwrap();
    assert_eq!(outcome().await.as_deref(), Some("unknown"));
}

#[tokio::test]
async fn the_last_refusal_of_a_root_is_a_denial_or_a_cancellation() {
    let folder = tempfile::tempdir().unwrap();
    let store = with_approval(folder.path(), 1).await;
    let demo = || "demo".parse().unwrap();
    assert_eq!(store.last_refusal(demo()).await.unwrap(), None);
    say(&store, "ann", Said::No, 1, 5).await;
    assert_eq!(store.last_refusal(demo()).await.unwrap(), Some(at(5)));
    let other = store.last_refusal("other".parse().unwrap()).await;
    assert_eq!(other.unwrap(), None);
}

/// Opens, grants and uses approval `n` of root demo by request `by`, which ends so.
async fn applied(store: &Store, n: u8, by: u8, outcome: &'static str) {
    if n > 1 {
        let plan = keep_plan(store, "demo", 1, 2).await;
        let new = new_approval("demo", n, 1, plan, 1);
        store.open_approval(new).await.unwrap();
    }
    let all = approvers(&["ann"]);
    let yes = verdict("ann", Said::Yes, 1);
    let granted = store.record_verdict(id(n), yes, at(1), all.clone());
    assert_eq!(granted.await.unwrap().unwrap(), Recorded::Granted);
    let bound = binding("demo", 2, 1).digest();
    let principal = AGENT.parse().unwrap();
    let used = store.consume_approval(id(n), principal, request(by), bound, (at(2), all));
    drop(used.await.unwrap().unwrap());
    if outcome == "succeeded" {
        let done = store.bundle_applied("demo".parse().unwrap(), [2; 32], request(by), 3);
        done.await.unwrap();
    }
    store.end_request(request(by), outcome, 3).await.unwrap();
}

#[tokio::test]
async fn an_apply_that_did_not_succeed_marks_its_root_until_one_does() {
    let folder = tempfile::tempdir().unwrap();
    let store = with_approval(folder.path(), 1).await;
    let mark = async || {
        let last = store.unfinished_apply("demo".parse().unwrap()).await;
        last.unwrap().map(|last| (last.request, last.to_string()))
    };
    assert_eq!(mark().await, None, "nothing was applied");
    applied(&store, 1, 10, "failed").await;
    let (by, told) = mark().await.unwrap();
    assert_eq!(by, request(10));
    assert!(
        told.contains("this root did not succeed (request "),
        "{told}"
    );

    applied(&store, 2, 11, "unknown").await;
    let (by, told) = mark().await.unwrap();
    assert_eq!(by, request(11));
    assert!(told.contains("end unseen"), "{told}");
    let other = store.unfinished_apply("other".parse().unwrap()).await;
    assert_eq!(other.unwrap(), None);

    applied(&store, 3, 12, "succeeded").await;
    assert_eq!(mark().await, None);
}
