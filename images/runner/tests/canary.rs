//! The credential leaves the runner in one header and in nothing else: no frame, no error, no panic,
//! no log, whatever the API server does with it.
#![cfg(test)]

mod sides;

use std::process::Command;

use memchr::memmem::find;
use sandbox_proto::runner::v1::PodList;
use sandbox_runner::harden;
use serde_json::json;
use sides::api_server::{Answer, Api, Request};
use sides::daemon::{all_pods, prove, start, with_session};
use sides::{CANARY, nobody};

/// The token that came with a request.
fn echo(request: &Request) -> &str {
    request
        .authorization
        .strip_prefix("Bearer ")
        .expect("a bearer token")
}

/// No 12 bytes of the canary in a row, anywhere in `bytes`.
fn assert_free(bytes: &[u8], what: &str) {
    for part in CANARY.as_bytes().windows(12) {
        let found = find(bytes, part).is_some();
        assert!(!found, "{what} has {:?}", String::from_utf8_lossy(part));
    }
}

/// A server that says the token wherever a server can say something.
fn parrot(request: &Request, manner: usize) -> Answer {
    let token = echo(request);
    // The token across every limit at which text is clipped: none may leave half of it.
    let across = |limit: usize| format!("{}{token}", "x".repeat(limit - 20));
    match manner {
        0 => Answer::refusal(403, &format!("token {token} may not")),
        1 => Answer::refusal(500, &across(960)),
        2 => Answer::Http(
            200,
            Vec::new(),
            format!("{{\"kind\": \"{token}\"}}").into_bytes(),
        ),
        3 => Answer::Http(200, Vec::new(), token.as_bytes().to_vec()),
        4 => Answer::json(
            200,
            &json!({ "kind": "PodList", "metadata": { "continue": token } }),
        ),
        5 => Answer::pods(
            &[json!({ "metadata": { "name": 7, "uid": token } })],
            "",
            None,
        ),
        6 => Answer::pods(&[json!({ "status": { "phase": [token] } })], "", None),
        7 => Answer::Raw(format!("HTTP/1.1 200 {token}\r\n{token}").into_bytes()),
        8 => {
            // Escaped, it is not in the body but in what is read from it.
            let escaped = token.replacen('e', "\\u0065", 1);
            let body = format!(r#"{{"kind":"Status","message":"token {escaped} may not"}}"#);
            assert_eq!(find(body.as_bytes(), token.as_bytes()), None);
            Answer::Http(403, Vec::new(), body.into_bytes())
        }
        9 => Answer::Http(
            401,
            vec![("WWW-Authenticate", token.to_owned())],
            Vec::new(),
        ),
        _ => {
            let container = json!({
                "name": token, "image": "", "imageID": "", "ready": false, "restartCount": 1,
                "state": { "waiting": { "reason": across(253), "message": across(512) } },
                "lastState": { "terminated": { "exitCode": 1, "reason": token } },
            });
            let pod = json!({
                "metadata": { "name": token },
                "spec": { "containers": [], "nodeName": token },
                "status": { "phase": token, "containerStatuses": [container] },
            });
            Answer::pods(&[pod], "", None)
        }
    }
}

#[tokio::test]
async fn an_api_server_that_repeats_the_token_does_not_get_it_out() {
    for manner in 0..11 {
        let api = Api::start(move |request| parrot(request, manner));
        let (ended, (run, received)) = with_session(async |daemon| {
            daemon.prove(prove(api.described(), nobody())).await;
            let run = daemon.run(start(api.described(), all_pods())).await;
            (run, std::mem::take(&mut daemon.received))
        })
        .await;
        let requests = api.requests();
        assert_eq!(echo(&requests[0]), CANARY, "the server did get it");
        assert_free(&received, "a frame");
        assert_free(format!("{ended:?} {run:?}").as_bytes(), "what is told");
        if manner == 10 {
            // Masked, not dropped: the rest of the pod is told.
            let PodList { pods, .. } = run.pods();
            assert_eq!(pods[0].name, "*".repeat(CANARY.len()));
            assert_eq!(pods[0].restarts, 1);
        }
    }
}

#[tokio::test]
async fn a_protocol_violation_does_not_quote_the_frame() {
    let api = Api::start(|_| Answer::Silence);
    let (ended, ()) = with_session(async |daemon| {
        daemon
            .send(sandbox_proto::runner::v1::to_runner::Frame::Start(start(
                api.described(),
                all_pods(),
            )))
            .await;
    })
    .await;
    let abort = ended.unwrap_err();
    assert_free(format!("{abort} {abort:?}").as_bytes(), "an error");

    let (ended, ()) = with_session(async |daemon| {
        // Decodes as far as the token and breaks after it.
        let mut bytes = vec![0x1a, 0x7f, 0x12, u8::try_from(CANARY.len()).unwrap()];
        bytes.extend_from_slice(CANARY.as_bytes());
        let length = u32::try_from(bytes.len()).unwrap().to_be_bytes();
        daemon.send_bytes(&length).await;
        daemon.send_bytes(&bytes).await;
    })
    .await;
    let abort = ended.unwrap_err();
    assert_free(format!("{abort} {abort:?}").as_bytes(), "an error");
}

/// Runs itself again as a process of its own, to see what a panic prints.
#[test]
fn a_panic_says_where_and_not_what() {
    const CHILD: &str = "RUNNER_TEST_PANICS";
    if std::env::var_os(CHILD).is_some() {
        harden::quiet_panics();
        panic!("could not handle {CANARY}");
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_panic_says_where_and_not_what", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    assert!(!child.status.success());
    let printed = [child.stdout, child.stderr].concat();
    assert!(
        find(&printed, b"runner: internal fault at ").is_some(),
        "it did panic, quietly"
    );
    assert_free(&printed, "a panic");
}
