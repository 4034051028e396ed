//! Every run holds the daemon to the last checkpoint it saw, and says loudly when it does not hold.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::scripted::{Script, Stage, Trail};
use sandbox_core::audit::{Event, EventName, Seq, Signature};

#[tokio::test]
async fn the_first_checkpoint_is_kept_privately_and_a_newer_one_takes_its_place() {
    let mut trail = Trail::of(2, "succeeded");
    let stage = Stage::set(&trail);
    stage.run(&["status"]).await.ended(0, &["first checkpoint"]);
    assert_eq!(Some(stage.kept()), trail.newest);
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(stage.kept_file()), 0o600);
    assert_eq!(mode(stage.state().join("agent-sandbox")), 0o700);

    trail.push(Event::new(EventName::DaemonStarted));
    trail.sign();
    stage.change(&trail);
    let ran = stage.run(&["audit"]).await.ended(0, &[]);
    assert_eq!(ran.err, "");
    assert_eq!(Some(stage.kept()), trail.newest);
    stage
        .run(&["audit", "--verify"])
        .await
        .ended(0, &["every checkpoint known here (2)"]);
}

/// Keeps a checkpoint of `before`, then meets `after`: every command alarms, and keeps what it had.
async fn meets(before: &Trail, after: impl Into<Script>, words: &[&str]) {
    let stage = Stage::set(before);
    stage.run(&["status"]).await.ended(0, &[]);
    stage.change(after.into());
    for args in [
        &["status"][..],
        &["status", "--json"],
        &["audit"],
        &["audit", "--json"],
        &["audit", "--verify"],
    ] {
        let ran = stage.run(args).await.ended(3, &["ALARM"]);
        for word in words {
            assert!(ran.err.contains(word), "{word:?} in {ran:?}");
        }
        assert_eq!(Some(stage.kept()), before.newest, "the evidence stays");
    }
}

#[tokio::test]
async fn a_rollback_is_an_alarm() {
    let before = Trail::of(3, "succeeded");
    meets(
        &before,
        &Trail::of(2, "succeeded"),
        &["ROLLED BACK", "event 6", "event 4"],
    )
    .await;
    meets(
        &before,
        &Trail::signed_by(1),
        &["ROLLED BACK", "no checkpoint at all"],
    )
    .await;
}

#[tokio::test]
async fn a_trail_cut_behind_a_true_checkpoint_is_an_alarm() {
    let before = Trail::of(3, "succeeded");
    let mut cut = Script::from(&before);
    cut.lines.truncate(4);
    meets(&before, cut, &["ROLLED BACK"]).await;
}

#[tokio::test]
async fn a_fork_is_an_alarm_even_when_it_is_longer_and_signed_with_the_same_key() {
    let before = Trail::of(3, "succeeded");
    meets(&before, &Trail::of(3, "failed"), &["FORKED", "event 6"]).await;
    meets(&before, &Trail::of(5, "failed"), &["FORKED", "event 10"]).await;
}

#[tokio::test]
async fn another_key_is_an_alarm() {
    let before = Trail::of(3, "succeeded");
    let mut other = Trail::signed_by(2);
    for _ in 0..9 {
        other.push(Event::new(EventName::DaemonStarted));
    }
    other.sign();
    meets(&before, &other, &["ANOTHER KEY"]).await;
}

#[tokio::test]
async fn a_checkpoint_nobody_signed_is_an_alarm_and_is_not_kept() {
    let mut script = Script::from(&Trail::of(3, "succeeded"));
    if let Some(checkpoint) = &mut script.checkpoint {
        checkpoint.signature = Signature([0; 64]);
    }
    let stage = Stage::set(script);
    stage
        .run(&["status"])
        .await
        .ended(3, &["ALARM", "not signed"]);
    assert_eq!(
        fs::read_dir(stage.state().join("agent-sandbox"))
            .unwrap()
            .count(),
        0
    );
}

#[tokio::test]
async fn a_trail_that_fails_its_check_leaves_no_checkpoint_behind() {
    let mut script = Script::from(&Trail::of(3, "succeeded"));
    script.lines[1][60] ^= 1;
    let stage = Stage::set(script);
    stage
        .run(&["audit", "--verify"])
        .await
        .ended(3, &["ALARM", "line 2"]);
    assert_eq!(
        fs::read_dir(stage.state().join("agent-sandbox"))
            .unwrap()
            .count(),
        0
    );
}

#[tokio::test]
async fn a_checkpoint_from_elsewhere_is_held_against_too() {
    let ours = Trail::of(3, "succeeded");
    let stage = Stage::set(&ours);
    let given = stage.socket().with_file_name("given");
    let path = given.to_str().unwrap();
    fs::write(&given, ours.newest.unwrap().to_file()).unwrap();
    stage.run(&["audit", "--since", path]).await.ended(0, &[]);

    fs::write(&given, Trail::of(3, "failed").newest.unwrap().to_file()).unwrap();
    let ran = stage
        .run(&["audit", "--since", path])
        .await
        .ended(3, &["ALARM", "FORKED"]);
    assert!(ran.err.contains(path), "{ran:?}");
    stage
        .run(&["audit", "--since", path, "--verify"])
        .await
        .ended(3, &["line 6", "forked"]);
    fs::write(&given, Trail::of(4, "succeeded").newest.unwrap().to_file()).unwrap();
    stage
        .run(&["audit", "--since", path])
        .await
        .ended(3, &["ALARM", "ROLLED BACK"]);

    let mut unsigned = ours.newest.unwrap();
    unsigned.head.seq = Seq(1);
    fs::write(&given, unsigned.to_file()).unwrap();
    stage
        .run(&["audit", "--since", path])
        .await
        .ended(1, &["signature is not its key's"]);
    fs::remove_file(&given).unwrap();
    stage
        .run(&["audit", "--since", path])
        .await
        .ended(1, &["no checkpoint at"]);
}

#[tokio::test]
async fn a_kept_checkpoint_that_somebody_touched_is_not_used_and_not_replaced() {
    let stage = Stage::set(&Trail::of(3, "succeeded"));
    stage.run(&["status"]).await.ended(0, &[]);
    let (path, good) = (stage.kept_file(), fs::read(stage.kept_file()).unwrap());

    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    stage.run(&["status"]).await.ended(1, &["mode 0600"]);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();

    for bad in [
        &b"junk"[..],
        b"",
        &String::from_utf8(good.clone())
            .unwrap()
            .replace(":6,", ":5,")
            .into_bytes(),
    ] {
        fs::write(&path, bad).unwrap();
        stage
            .run(&["status"])
            .await
            .ended(1, &["cannot be used", path.to_str().unwrap()]);
        assert_eq!(fs::read(&path).unwrap(), bad);
    }
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/dev/null", &path).unwrap();
    stage
        .run(&["status"])
        .await
        .ended(1, &["could not be opened"]);
}

#[tokio::test]
async fn a_folder_that_others_can_write_keeps_nothing() {
    let stage = Stage::set(&Trail::of(3, "succeeded"));
    let folder = stage.state().join("agent-sandbox");
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    stage
        .run(&["status"])
        .await
        .ended(1, &["others can write", "XDG_STATE_HOME"]);
}
