//! Plans, sources and states on a real file.

use std::time::{Duration, Instant};

use sandbox_core::approval::Said;

use super::super::fixture::*;
use super::super::{DataKey, EnvelopeError, KEPT_STATES, NewState};
use super::*;

const NOW_MS: u64 = 1_700_000_000_000;
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

async fn store(folder: &std::path::Path) -> Store {
    let store = Store::open(folder).unwrap();
    for n in 1..=9 {
        open_request(&store, n).await;
    }
    store
}

fn demo() -> RootName {
    "demo".parse().unwrap()
}

fn bytes(plan: &StoredPlan) -> Option<&[u8]> {
    plan.bytes.as_ref().map(Envelope::as_row)
}

#[tokio::test]
async fn a_plan_is_found_for_just_what_it_was_made_from() {
    let folder = tempfile::tempdir().unwrap();
    let key = keep_plan(&store(folder.path()).await, "demo", 1, 2).await;
    let store = Store::open(folder.path()).unwrap();
    let found = store
        .find_plan(demo(), made_from(2))
        .await
        .unwrap()
        .unwrap();
    assert_eq!((found.key, found.request), (key, request(1)));
    assert_eq!(found.facts, facts());
    assert_eq!(bytes(&found), Some(&b"a plan file"[..]));
    assert_eq!(store.bundle([2; 32]).await.unwrap(), Some(vec![2; 8]));
    for other in [
        made_from(3),
        MadeFrom {
            inputs: [9; 32],
            ..made_from(2)
        },
        MadeFrom {
            lineage: "other".to_owned(),
            ..made_from(2)
        },
        MadeFrom {
            serial: 8,
            ..made_from(2)
        },
    ] {
        assert!(store.find_plan(demo(), other).await.unwrap().is_none());
    }
    let other_root = store.find_plan("other".parse().unwrap(), made_from(2));
    assert!(other_root.await.unwrap().is_none());
}

#[tokio::test]
async fn a_plan_file_stays_while_it_may_be_applied() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path()).await;
    let first = keep_plan(&store, "demo", 1, 2).await;
    let approval = new_approval("demo", 1, 1, first, 1);
    store.open_approval(approval).await.unwrap();
    keep_plan(&store, "demo", 2, 3).await;
    let kept = async |key| bytes(&store.plan(key).await.unwrap().unwrap()).is_some();
    assert!(kept(first).await, "a human is reading it");
    let no = verdict("ann", Said::No, 1);
    let denied = store.record_verdict(id(1), no, at(1), approvers(&["ann"]));
    assert!(denied.await.unwrap().is_ok());
    let third = keep_plan(&store, "demo", 3, 4).await;
    assert!(!kept(first).await && kept(third).await);
    assert_eq!(store.plan_facts(first).await.unwrap(), Some(facts()));
    store.drop_plan_bytes(third).await.unwrap();
    assert!(!kept(third).await);
    let gone = store.find_plan(demo(), made_from(4)).await.unwrap();
    assert!(gone.is_none());
}

#[tokio::test]
async fn a_plan_file_that_was_let_go_of_is_not_in_the_database_any_more() {
    let canary = b"the-password-in-a-plan-1f8b";
    let folder = tempfile::tempdir().unwrap();
    let holds_it = || {
        let file = std::fs::read(folder.path().join("sandboxd.db")).unwrap();
        file.windows(canary.len()).any(|window| window == canary)
    };
    // The last connection to a database, when it is closed, moves the log into it.
    let closed = || {
        let begun = Instant::now();
        while folder.path().join("sandboxd.db-wal").exists() {
            assert!(begun.elapsed() < Duration::from_secs(10), "it stays open");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let key = {
        let store = store(folder.path()).await;
        let plan = NewPlan {
            bytes: plain(canary),
            ..new_plan("demo", 1, 2)
        };
        store.keep_plan(plan, NOW_MS).await.unwrap()
    };
    closed();
    assert!(holds_it(), "else this shows nothing");
    let store = Store::open(folder.path()).unwrap();
    store.drop_plan_bytes(key).await.unwrap();
    drop(store);
    closed();
    assert!(!holds_it());
}

#[tokio::test]
async fn the_applied_source_stays_and_others_go_with_time() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path()).await;
    assert_eq!(store.applied_bundle(demo()).await.unwrap(), None);
    let unknown = store.bundle_applied(demo(), [8; 32], request(1), NOW_MS);
    assert!(unknown.await.is_err(), "a source that is not kept");
    for (n, days) in [(2_u8, 0), (3, 1), (4, 10)] {
        let now_ms = NOW_MS + days * DAY_MS;
        let plan = new_plan("demo", n, n);
        store.keep_plan(plan, now_ms).await.unwrap();
        if n == 2 {
            let applied = store.bundle_applied(demo(), [n; 32], request(n), now_ms);
            applied.await.unwrap();
        }
    }
    let last = store.applied_bundle(demo()).await.unwrap().unwrap();
    assert_eq!((last.digest, last.tar), ([2; 32], vec![2; 8]));
    assert_eq!(store.bundle([3; 32]).await.unwrap(), None);
    assert!(store.bundle([4; 32]).await.unwrap().is_some());
}

fn state(lineage: &str, serial: u64) -> NewState {
    NewState {
        root: demo(),
        lineage: lineage.to_owned(),
        serial,
        bytes: plain(format!("{lineage} {serial}").as_bytes()),
        request: Some(request(1)),
    }
}

#[tokio::test]
async fn a_state_follows_its_own_lineage_and_rises() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path()).await;
    assert!(store.newest_state(demo()).await.unwrap().is_none());
    store.add_state(state("a", 3), NOW_MS).await.unwrap();
    store.add_state(state("a", 5), NOW_MS).await.unwrap();
    for (lineage, serial) in [("a", 5), ("a", 4), ("b", 6)] {
        let refused = store.add_state(state(lineage, serial), NOW_MS).await;
        assert!(
            matches!(
                refused,
                Err(StoreError::StateDoesNotFollow { kept_serial: 5, .. })
            ),
            "{lineage} {serial}"
        );
    }
    let newest = store.newest_state(demo()).await.unwrap().unwrap();
    assert_eq!((newest.lineage.as_str(), newest.serial), ("a", 5));
    let by_hand = NewState {
        request: None,
        ..state("b", 1)
    };
    store.replace_state(by_hand, NOW_MS).await.unwrap();
    store.add_state(state("b", 2), NOW_MS).await.unwrap();
    let other = NewState {
        root: "other".parse().unwrap(),
        ..state("c", 1)
    };
    store.add_state(other, NOW_MS).await.unwrap();
    let newest = store.newest_state(demo()).await.unwrap().unwrap();
    assert_eq!((newest.lineage.as_str(), newest.serial), ("b", 2));
}

#[tokio::test]
async fn an_encrypted_row_that_somebody_put_in_anothers_place_does_not_open() {
    let key = DataKey::new(&[7; 32], "vault:v1:a".to_owned()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path()).await;
    let roots: [RootName; 2] = ["demo", "other"].map(|name| name.parse().unwrap());
    for root in &roots {
        let of = Of::State {
            root,
            lineage: "a",
            serial: 3,
        };
        let new = NewState {
            root: root.clone(),
            bytes: Envelope::close(root.as_str().as_bytes(), of, Some(&key)).unwrap(),
            ..state("a", 3)
        };
        store.add_state(new, NOW_MS).await.unwrap();
    }
    let open = async |root: &RootName| {
        let kept = store.newest_state(root.clone()).await.unwrap().unwrap();
        kept.bytes.open(kept.of(root), Some(&key)).err()
    };
    assert_eq!(open(&roots[0]).await, None);
    let swap = "UPDATE state_version SET root = CASE root WHEN 'demo' THEN 'other' ELSE 'demo' END";
    let swapped = store.write(move |tx| Ok(tx.execute(swap, ())?)).await;
    assert_eq!(swapped.unwrap(), 2);
    for root in &roots {
        assert_eq!(open(root).await, Some(EnvelopeError::Changed));
    }
}

#[tokio::test]
async fn old_versions_of_a_state_go() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path()).await;
    for serial in 1..=u64::from(KEPT_STATES) + 5 {
        store.add_state(state("a", serial), NOW_MS).await.unwrap();
    }
    let count = "SELECT count(*), min(serial) FROM state_version";
    let kept = store
        .run(move |connection| {
            Ok(connection.query_row(count, (), |row| {
                Ok((row.get::<_, u32>(0)?, row.get::<_, u32>(1)?))
            })?)
        })
        .await
        .unwrap();
    assert_eq!(kept, (KEPT_STATES, 6));
}
