//! A full disk: new calls are refused, ends still get through, nothing is lost and nothing torn.
//!
//! Each test fills a small tmpfs of its own, so it runs as root:
//! `cargo test -p sandboxd --test audit_full_disk -- --ignored`.
#![cfg(test)]

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sandbox_core::audit::{Event, EventName, Record};
use sandboxd::audit::{Audit, AuditError, OpenReport, Settings, verify_file};
use sandboxd::clock::Clock;
use tempfile::TempDir;

/// A mounted tmpfs of one MiB.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn mount() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m,mode=0700", "audit-test"])
            .arg(folder.path())
            .output()
            .unwrap();
        assert!(
            mount.status.success(),
            "{}",
            String::from_utf8_lossy(&mount.stderr)
        );
        Self(folder)
    }

    fn state(&self) -> PathBuf {
        let state = self.0.path().join("state");
        if fs::create_dir(&state).is_ok() {
            fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).unwrap();
        }
        state
    }

    /// Takes every byte that is left.
    fn fill(&self) {
        let mut filler = fs::File::options()
            .append(true)
            .create(true)
            .open(self.filler())
            .unwrap();
        for block in [64 * 1024, 4096] {
            while filler.write_all(&vec![0; block]).is_ok() {}
        }
    }

    fn empty(&self) {
        fs::remove_file(self.filler()).unwrap();
    }

    fn filler(&self) -> PathBuf {
        self.0.path().join("filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmount = Command::new("umount")
            .arg("--lazy")
            .arg(self.0.path())
            .status();
        assert!(std::thread::panicking() || unmount.is_ok_and(|status| status.success()));
    }
}

fn open(state: &Path, reserve_bytes: u64) -> (Audit, OpenReport) {
    let settings = Settings {
        low_water_bytes: 0,
        reserve_bytes,
        checkpoint_every: u64::MAX,
        checkpoint_idle: Duration::from_hours(1),
    };
    Audit::open(state, settings, Clock::from_fn(|| 1_772_357_400_000)).unwrap()
}

fn request() -> Event {
    Event::new(EventName::ToolRequest).with("parameters", "x".repeat(300))
}

fn revoked() -> Event {
    Event::new(EventName::CredentialRevoked).with("reason", "x".repeat(300))
}

/// Every line in the file is whole; how many there are.
fn whole_lines(state: &Path) -> u64 {
    let bytes = fs::read(state.join("audit.jsonl")).unwrap();
    assert!(bytes.ends_with(b"\n"), "a torn end");
    let lines = bytes[..bytes.len() - 1].split(|b| *b == b'\n');
    lines
        .map(|line| assert!(Record::read(line).is_ok()))
        .count() as u64
}

#[tokio::test]
#[ignore = "needs root"]
async fn on_a_full_disk_new_calls_are_refused_and_ends_get_through_until_the_reserve_is_used_up() {
    let disk = SmallDisk::mount();
    let state = disk.state();
    let (audit, report) = open(&state, 64 * 1024);
    assert!(report.holds_reserve);
    audit.record(request()).await.unwrap();
    disk.fill();

    let mut written = 1;
    let refused = audit.record(request()).await;
    // The room asked for ahead may still take some; then it is over.
    let mut refused = refused.inspect(|_| written += 1);
    while refused.is_ok() {
        refused = audit.record(request()).await.inspect(|_| written += 1);
    }
    assert!(
        matches!(refused, Err(AuditError::LowSpace { .. })),
        "{refused:?}"
    );

    let mut ends = 0;
    let over = loop {
        match audit.record_closing(revoked()).await {
            Ok(_) => ends += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(over, AuditError::Full), "{over:?}");
    assert!(ends * 600 >= 64 * 1024 / 2, "only {ends} ends fitted");
    assert_eq!(
        whole_lines(&state),
        written + ends,
        "all that was confirmed, and nothing else"
    );

    disk.empty();
    audit.record(request()).await.unwrap();
    audit.close().await.unwrap();
    let verified = verify_file(&state.join("audit.jsonl"), None).unwrap();
    assert_eq!(verified.events, written + ends + 2);
    assert_eq!(verified.unsigned(), 0);
}

#[tokio::test]
#[ignore = "needs root"]
async fn a_write_that_does_not_fit_is_taken_back_whole_and_the_trail_goes_on_after_it() {
    let disk = SmallDisk::mount();
    let state = disk.state();
    let (audit, _) = open(&state, 0);
    audit.record(request()).await.unwrap();
    disk.fill();
    let big = || Event::new(EventName::ToolResult).with("text", "x".repeat(100 * 1024));
    for _ in 0..3 {
        assert!(matches!(
            audit.record_closing(big()).await,
            Err(AuditError::Full)
        ));
        assert_eq!(whole_lines(&state), 1);
    }
    disk.empty();
    audit.record_closing(big()).await.unwrap();
    audit.record(request()).await.unwrap();
    assert_eq!(audit.verify().await.unwrap().events, 3);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root"]
async fn when_the_disk_fills_up_under_many_writers_what_was_confirmed_is_what_is_there() {
    let disk = SmallDisk::mount();
    let state = disk.state();
    let (audit, _) = open(&state, 32 * 1024);
    let tasks = (0..32).map(|task| {
        let audit = audit.clone();
        async move {
            let mut confirmed = 0;
            for number in 0..200 {
                let event = if (task + number) % 2 == 0 {
                    request()
                } else {
                    revoked()
                };
                match audit.record(event).await {
                    Ok(_) => confirmed += 1,
                    Err(AuditError::LowSpace { .. } | AuditError::Full) => {}
                    Err(other) => panic!("{other:?}"),
                }
            }
            confirmed
        }
    });
    let confirmed: u64 = futures_util::future::join_all(tasks).await.iter().sum();
    assert!(
        (500..6_400).contains(&confirmed),
        "{confirmed} events on a disk of one MiB"
    );
    assert_eq!(whole_lines(&state), confirmed);
    assert_eq!(audit.verify().await.unwrap().events, confirmed);
}

#[tokio::test]
#[ignore = "needs root"]
async fn a_daemon_that_starts_on_a_full_disk_can_still_tell_what_it_cleans_up() {
    let disk = SmallDisk::mount();
    let state = disk.state();
    let (audit, _) = open(&state, 64 * 1024);
    audit.record(request()).await.unwrap();
    disk.fill();
    audit.close().await.unwrap();

    // Blocks behind the end of the file are still its own, far more than what a started page has left.
    let (audit, report) = open(&state, 64 * 1024);
    assert!(report.head.seq.0 >= 2);
    while audit.record(request()).await.is_ok() {}
    let refused = audit.record(request()).await;
    assert!(matches!(refused, Err(AuditError::LowSpace { .. })));
    let started = Event::new(EventName::DaemonStarted);
    audit.record_closing(started).await.unwrap();
    for _ in 0..40 {
        let left_over =
            Event::new(EventName::ReconcileLeaseRevoked).with("reason", "x".repeat(300));
        audit.record_closing(left_over).await.unwrap();
    }
    audit.close().await.unwrap();
}
