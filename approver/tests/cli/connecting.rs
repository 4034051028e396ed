//! When there is nothing to talk to, or it will not talk to us, a person learns which socket was tried
//! as which uid, and what to do.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::scripted::{Ran, Script, Stage, Trail};

fn own_uid() -> String {
    format!("uid {}", rustix::process::geteuid().as_raw())
}

#[tokio::test]
async fn no_daemon_says_which_socket_was_looked_for_by_whom() {
    let stage = Stage::set(&Trail::of(1, "succeeded"));
    let socket = stage.socket();
    fs::remove_file(&socket).unwrap();
    let ran = stage.run(&["audit"]).await;
    ran.ended(
        1,
        &[
            "no daemon",
            "does not exist",
            socket.to_str().unwrap(),
            &own_uid(),
            "Start sandboxd",
        ],
    );
}

#[tokio::test]
async fn a_socket_left_behind_is_told_from_none() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("approver.sock");
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let output = crate::scripted::approver(&socket, &folder.path().join("state"))
        .arg("status")
        .output();
    Ran::from(output.await.unwrap()).ended(1, &["no daemon", "nobody listens", &own_uid()]);
}

#[tokio::test]
async fn a_uid_that_is_not_listed_is_told_so() {
    let refused = "uid 1000 is not listed in [approvers] of sandboxd.toml";
    let script = Script {
        refusal: Some(tonic::Status::unauthenticated(refused)),
        ..Script::default()
    };
    let stage = Stage::set(script);
    let ran = stage.run(&["status"]).await;
    ran.ended(
        1,
        &[
            "refused",
            refused,
            &own_uid(),
            stage.socket().to_str().unwrap(),
            "logged in by itself, by ssh or at a console",
        ],
    );
}

#[tokio::test]
#[ignore = "needs root"]
async fn a_folder_closed_to_us_is_told_from_no_daemon() {
    const NOBODY: u32 = 65_534;
    let stage = Stage::set(&Trail::of(1, "succeeded"));
    let own = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(own.path(), Some(NOBODY), None).unwrap();
    let folder = stage.socket().parent().unwrap().to_owned();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o750)).unwrap();
    // The binary itself may lie where only root can go.
    let binary = own.path().join("approver");
    fs::copy(env!("CARGO_BIN_EXE_approver"), &binary).unwrap();
    let mut command = tokio::process::Command::new(binary);
    command
        .env_clear()
        .env("XDG_STATE_HOME", own.path())
        .uid(NOBODY)
        .gid(NOBODY)
        .current_dir("/");
    let output = command
        .arg("--socket")
        .arg(stage.socket())
        .arg("status")
        .output();
    Ran::from(output.await.unwrap()).ended(1, &["closed to uid 65534", "logged in by itself"]);
}

#[tokio::test]
async fn another_version_of_the_contract_is_told_so() {
    let script = Script {
        protocol_version: Some(99),
        ..Script::from(&Trail::of(1, "succeeded"))
    };
    Stage::set(script)
        .run(&["status"])
        .await
        .ended(1, &["version 99", "same release"]);
}

#[tokio::test]
async fn something_else_on_the_socket_is_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("approver.sock");
    let listener = tokio::net::UnixListener::bind(&socket).unwrap();
    let mut command = crate::scripted::approver(&socket, &folder.path().join("state"));
    let closes = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .await
            .unwrap();
    };
    let (output, ()) = tokio::join!(command.arg("status").output(), closes);
    Ran::from(output.unwrap()).ended(1, &["broke", socket.to_str().unwrap(), &own_uid()]);
}

#[tokio::test]
async fn status_says_who_listens_by_the_kernels_word_and_what_is_wrong() {
    let mut script = Script::from(&Trail::of(2, "succeeded"));
    script.detail = "It is sealed.".to_owned();
    let stage = Stage::set(script);
    let ran = stage.run(&["status"]).await;
    ran.ended(
        0,
        &[
            &own_uid(),
            "vault",
            "NOT OK",
            "It is sealed.",
            "3 of 4",
            "event 4",
        ],
    );
    let ran = stage.run(&["status", "--json"]).await.ended(0, &[]);
    let status: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(status["uid"], rustix::process::geteuid().as_raw());
    assert_eq!(status["parts"][0]["ok"], false);
    assert_eq!(status["checkpoint"]["seq"], 4);
    assert_eq!(status["started"], "2026-03-01T09:30:00.000Z");
}
