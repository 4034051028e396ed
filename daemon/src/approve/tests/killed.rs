//! A daemon that is killed at any moment: what its journal says has happened is in its trail.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempDir;

use super::*;

/// What a power cut now would leave: the journal first, so that the trail in the copy is not behind it by
/// the copying.
fn killed(folder: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for name in ["sandboxd.db", "sandboxd.db-wal", "audit.jsonl"] {
        std::fs::copy(folder.join(name), copy.path().join(name)).unwrap();
    }
    copy
}

/// The events that have to be there for an approval in that state.
fn needs(state: &str) -> &'static [&'static str] {
    match state {
        "pending" => &["opened"],
        "granted" => &["opened", "verdict", "granted"],
        "consumed" => &["opened", "verdict", "granted", "consumed"],
        "denied" => &["opened", "verdict", "denied"],
        other => panic!("{other}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whenever_it_is_killed_the_trail_has_what_the_journal_has() {
    let world = World::new().await;
    let (folder, over) = (
        world.folder.path().to_owned(),
        Arc::new(AtomicBool::new(false)),
    );
    let taking = {
        let over = Arc::clone(&over);
        std::thread::spawn(move || {
            let mut copies = Vec::new();
            while !over.load(Ordering::SeqCst) {
                copies.push(killed(&folder));
            }
            copies
        })
    };
    for n in 0..6 {
        let Opened::New(opened) = world.try_open(n * 2 + 1, 2, 1).await.unwrap() else {
            panic!("not new");
        };
        world.yes(opened.id(), ANN).await.unwrap();
        drop(world.consume(opened.id(), n * 2 + 2, 1).await.unwrap());
    }
    let last = world.try_open(13, 2, 1).await.unwrap();
    let (Opened::New(last) | Opened::Same(last)) = last;
    world.say(last.id(), BEN, Said::No).await.unwrap();
    over.store(true, Ordering::SeqCst);
    let copies = taking.join().unwrap();

    let mut states = std::collections::BTreeSet::new();
    for copy in &copies {
        let trail = std::fs::read_to_string(copy.path().join("audit.jsonl")).unwrap();
        let store = Store::open(copy.path()).unwrap();
        for stored in store
            .approvals_since(UtcMillis::from_unix_ms(0))
            .await
            .unwrap()
        {
            let state = stored.approval.state().as_str();
            states.insert(state);
            let of_it: Vec<&str> = trail
                .lines()
                .filter(|line| line.contains(stored.id().as_str()))
                .collect();
            for event in needs(state) {
                let name = format!("\"event\":\"approval.{event}\"");
                assert!(
                    of_it.iter().any(|line| line.contains(&name)),
                    "{} is {state}, and the trail has no {event}",
                    stored.id()
                );
            }
        }
    }
    assert!(states.len() >= 2, "{} copies show {states:?}", copies.len());
}
