//! Reading pods from a real TLS server that answers well, badly, late, too much or not at all.
#![cfg(test)]

mod sides;

use std::sync::atomic::{AtomicBool, Ordering};

use prost::Message as _;
use sandbox_proto::runner::v1::PodStatus;
use sandbox_proto::runner::v1::failure::Kind;
use sandbox_runner::api::MAX_RESPONSE_BYTES;
use sandbox_runner::ending::Ending;
use serde_json::{Value, json};
use sides::api_server::{Answer, Api, Request};
use sides::daemon::{Run, all_pods, prove, start, with_session};
use sides::{CANARY, nobody};

/// One whole session against `api`.
async fn read(api: &Api, work: PodStatus) -> Run {
    let (ended, run) = with_session(async |daemon| {
        let hello = daemon.prove(prove(api.described(), nobody())).await;
        assert!(hello.egress.as_ref().unwrap().closed, "{hello:?}");
        daemon.run(start(api.described(), work)).await
    })
    .await;
    let expected = match run.failure {
        None => Ending::Done,
        Some(_) => Ending::Failed,
    };
    assert_eq!(ended.unwrap(), expected);
    run
}

/// Method, path and status of each reported call.
fn calls(run: &Run) -> Vec<(&str, &str, u32)> {
    let calls = run.calls.iter();
    calls
        .map(|call| (call.method.as_str(), call.path.as_str(), call.status))
        .collect()
}

fn pod(name: &str) -> Value {
    json!({
        "metadata": { "name": name, "creationTimestamp": "2026-03-01T11:00:00Z" },
        "spec": { "containers": [{ "name": "app" }] },
        "status": {
            "phase": "Failed", "reason": "Evicted",
            "message": format!("{name} used too much memory"),
        },
    })
}

/// Pods `from..` as a server with `total` of them pages them: the continue token is the next index.
fn paged(request: &Request, total: usize) -> Answer {
    let number = |name| {
        request
            .query(name)
            .map(|value| value.parse::<usize>().unwrap())
    };
    let from = number("continue").unwrap_or(0);
    let to = total.min(from + number("limit").unwrap());
    let items: Vec<_> = (from..to)
        .map(|index| pod(&format!("pod-{index:04}")))
        .collect();
    let next = if to < total {
        to.to_string()
    } else {
        String::new()
    };
    Answer::pods(&items, &next, (to < total).then_some((total - to) as u64))
}

#[tokio::test]
async fn a_page_of_pods_comes_back_summarised() {
    let api = Api::start(|request| {
        let Answer::Http(status, _, body) = paged(request, 3) else {
            unreachable!("a page is HTTP");
        };
        let date = ("Date", "Sun, 01 Mar 2026 12:00:00 GMT".to_owned());
        Answer::Http(status, vec![date], body)
    });
    let work = PodStatus {
        label_selector: "app=shop,tier in (a,b)".to_owned(),
        limit: 2,
        ..all_pods()
    };
    let run = read(&api, work).await;
    let path = "/api/v1/namespaces/demo-app/pods?limit=2\
                &labelSelector=app%3Dshop%2Ctier%20in%20%28a%2Cb%29";
    assert_eq!(calls(&run), [("GET", path, 200)]);
    assert_eq!(run.phases, ["list"], "the connection of the proof was used");
    let pods = run.pods();
    assert_eq!(
        (pods.continue_token.as_str(), pods.remaining),
        ("2", Some(1))
    );
    let names: Vec<_> = pods.pods.iter().map(|pod| pod.name.as_str()).collect();
    assert_eq!(names, ["pod-0000", "pod-0001"]);
    assert_eq!(pods.pods[0].reason, "Evicted");
    assert_eq!(pods.pods[0].age_seconds, 3600, "by the server's clock");
    assert_eq!(api.connections(), 1);
    let sent = api.requests().remove(0);
    assert_eq!((sent.method.as_str(), sent.path.as_str()), ("GET", path));
    assert_eq!(sent.authorization, format!("Bearer {CANARY}"));
}

#[tokio::test]
async fn a_continue_token_is_sent_and_not_reported() {
    let api = Api::start(|_| Answer::pods(&[], "", None));
    let work = PodStatus {
        continue_token: "eyJ2Ij+/==".to_owned(),
        ..all_pods()
    };
    let run = read(&api, work).await;
    assert_eq!(
        calls(&run),
        [("GET", "/api/v1/namespaces/demo-app/pods?limit=500", 200)]
    );
    let sent = api.requests().remove(0);
    assert_eq!(sent.query("continue"), Some("eyJ2Ij%2B%2F%3D%3D"));
}

#[tokio::test]
async fn a_page_that_is_too_long_is_asked_for_again_with_as_many_as_fit() {
    let api = Api::start(|request| paged(request, 2_000));
    let work = |continue_token| PodStatus {
        limit: 500,
        max_bytes: 8 * 1024,
        continue_token,
        ..all_pods()
    };
    let mut names = Vec::new();
    let mut continue_token = String::new();
    let mut pages = 0;
    loop {
        let run = read(&api, work(continue_token)).await;
        assert!(run.calls.len() <= 3, "{:?}", run.calls);
        let pods = run.pods();
        assert!(
            pods.encoded_len() <= 8 * 1024,
            "{} bytes",
            pods.encoded_len()
        );
        let left = 2_000 - names.len() - pods.pods.len();
        let last = pods.continue_token.is_empty();
        assert!(
            last || pods.encoded_len() > 7 * 1024,
            "a full page, {} bytes",
            pods.encoded_len()
        );
        assert_eq!(pods.remaining, (!last).then_some(left as u64));
        names.extend(pods.pods.into_iter().map(|pod| pod.name));
        pages += 1;
        continue_token = pods.continue_token;
        if continue_token.is_empty() {
            break;
        }
    }
    let all: Vec<_> = (0..2_000).map(|index| format!("pod-{index:04}")).collect();
    assert_eq!(names, all, "each pod once, in order");
    assert!(pages > 10, "{pages} pages");
}

#[tokio::test]
async fn a_pod_that_does_not_fit_by_itself_is_a_failure() {
    let api = Api::start(|request| paged(request, 5));
    let work = PodStatus {
        max_bytes: 40,
        ..all_pods()
    };
    let (kind, detail) = read(&api, work).await.failure();
    assert_eq!(kind, Kind::TooLarge);
    assert_eq!(detail, "not even one pod fits the limit of 40 bytes");
}

#[tokio::test]
async fn an_answer_over_the_limit_is_not_read_but_asked_for_again_smaller() {
    let api = Api::start(|request| {
        let limit: usize = request.query("limit").unwrap().parse().unwrap();
        if limit > 2 {
            return Answer::Http(200, Vec::new(), vec![b' '; MAX_RESPONSE_BYTES + 1]);
        }
        paged(request, 9)
    });
    let run = read(
        &api,
        PodStatus {
            limit: 9,
            ..all_pods()
        },
    )
    .await;
    let limits: Vec<_> = api
        .requests()
        .iter()
        .map(|sent| sent.query("limit").unwrap().to_owned())
        .collect();
    assert_eq!(limits, ["9", "4", "2"]);
    assert_eq!(run.calls.len(), 3, "each of them is reported");
    assert_eq!(run.pods().pods.len(), 2);

    let api = Api::start(|_| Answer::Http(200, Vec::new(), vec![b' '; MAX_RESPONSE_BYTES + 1]));
    let (kind, _) = read(
        &api,
        PodStatus {
            limit: 2,
            ..all_pods()
        },
    )
    .await
    .failure();
    assert_eq!(kind, Kind::TooLarge);
    assert_eq!(api.requests().len(), 2);
}

#[tokio::test]
async fn a_refusal_has_its_kind_and_the_api_servers_own_words() {
    for (status, kind) in [
        (400, Kind::BadRequest),
        (401, Kind::Forbidden),
        (403, Kind::Forbidden),
        (404, Kind::NotFound),
        (410, Kind::ExpiredPage),
        (429, Kind::Server),
        (500, Kind::Server),
        (503, Kind::Server),
        (302, Kind::Server),
        (204, Kind::Server),
    ] {
        let api = Api::start(move |_| Answer::refusal(status, "pods is forbidden: because"));
        let run = read(&api, all_pods()).await;
        let path = "/api/v1/namespaces/demo-app/pods?limit=500";
        assert_eq!(calls(&run), [("GET", path, status.into())], "one try");
        let said = match status {
            // Has no body, by HTTP's rules.
            204 => "the API server answered 204 without saying why".to_owned(),
            _ => format!("the API server answered {status}: pods is forbidden: because"),
        };
        assert_eq!(run.failure(), (kind, said));
    }
}

#[tokio::test]
async fn a_long_refusal_is_clipped_to_a_kibibyte() {
    let api = Api::start(|_| Answer::refusal(500, &"ß".repeat(5_000)));
    let (kind, detail) = read(&api, all_pods()).await.failure();
    assert_eq!(kind, Kind::Server);
    assert!(detail.len() <= 1024, "{} bytes", detail.len());
    assert!(detail.ends_with("bytes in all)"), "{detail}");
}

#[tokio::test]
async fn an_answer_that_is_no_page_of_pods_is_the_servers_failure() {
    let list = |kind: &str, items: Value| {
        json!({ "kind": kind, "apiVersion": "v1", "metadata": {}, "items": items }).to_string()
    };
    for (body, says) in [
        (String::new(), "EOF"),
        ("<html>".to_owned(), "expected value"),
        ("[]".to_owned(), "kind is \"\""),
        (list("SecretList", json!([])), "kind is \"SecretList\""),
        ("{}".to_owned(), "kind is \"\""),
        (list("PodList", json!([pod("a"), 7])), "item 1"),
        (
            list("PodList", json!([{ "status": { "phase": 7 } }])),
            "item 0",
        ),
        (list("PodList", json!([pod("a")]))[..200].to_owned(), "EOF"),
        ("[".repeat(10_000), "invalid"),
    ] {
        let shown = body.clone();
        let api = Api::start(move |_| Answer::Http(200, Vec::new(), body.clone().into_bytes()));
        let (kind, detail) = read(&api, all_pods()).await.failure();
        assert_eq!(kind, Kind::Server, "{shown:?}");
        assert!(
            detail.contains("no page of pods") && detail.contains(says),
            "{shown:?}: {detail}"
        );
    }
}

#[tokio::test]
async fn a_slow_api_server_is_a_timeout_and_the_call_is_reported() {
    let api = Api::start(|_| Answer::Silence);
    let (ended, run) = with_session(async |daemon| {
        daemon.prove(prove(api.described(), nobody())).await;
        let mut start = start(api.described(), all_pods());
        start.timeout_ms = 150;
        daemon.run(start).await
    })
    .await;
    assert_eq!(ended.unwrap(), Ending::Failed);
    let path = "/api/v1/namespaces/demo-app/pods?limit=500";
    assert_eq!(calls(&run), [("GET", path, 0)]);
    assert!(run.calls[0].elapsed_ms >= 150, "{:?}", run.calls);
    assert_eq!(
        run.failure(),
        (Kind::Timeout, "it took longer than 150 ms".to_owned())
    );
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_unreachable() {
    let cut = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"kind\":".to_vec();
    let api = Api::start(move |_| Answer::Raw(cut.clone()));
    let run = read(&api, all_pods()).await;
    assert_eq!(run.calls[0].status, 200, "its head did arrive");
    let (kind, detail) = run.failure();
    assert_eq!(kind, Kind::Unreachable);
    assert!(detail.contains("the answer broke off"), "{detail}");
}

#[tokio::test]
async fn a_connection_that_went_stale_is_replaced_once() {
    // The first request on the proof's connection is met with a close, as a server does that had
    // given up waiting; on the next connection it is answered.
    let api = Api::start(|request| match request.connection {
        0 => Answer::Close,
        _ => paged(request, 1),
    });
    let run = read(&api, all_pods()).await;
    let path = "/api/v1/namespaces/demo-app/pods?limit=500";
    assert_eq!(
        calls(&run),
        [("GET", path, 0), ("GET", path, 200)],
        "both are reported"
    );
    assert_eq!(run.phases, ["list", "connect"]);
    assert_eq!(run.pods().pods.len(), 1);
    assert_eq!(api.connections(), 2);
}

#[tokio::test]
async fn an_api_server_that_hangs_up_again_is_unreachable() {
    let api = Api::start(|_| Answer::Close);
    let run = read(&api, all_pods()).await;
    assert_eq!(run.calls.len(), 2);
    let (kind, detail) = run.failure();
    assert_eq!(kind, Kind::Unreachable);
    assert!(detail.contains("closed without an answer"), "{detail}");
}

#[tokio::test]
async fn an_answer_that_is_no_http_is_unreachable() {
    let api = Api::start(|_| Answer::Raw(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec()));
    let (kind, _) = read(&api, all_pods()).await.failure();
    assert_eq!(kind, Kind::Unreachable);
}

#[tokio::test]
async fn a_start_that_names_another_server_gets_a_connection_to_that() {
    let proven = Api::start(|_| Answer::pods(&[], "", None));
    let other = Api::start(|request| paged(request, 1));
    let (ended, run) = with_session(async |daemon| {
        daemon.prove(prove(proven.described(), nobody())).await;
        daemon.run(start(other.described(), all_pods())).await
    })
    .await;
    assert_eq!(ended.unwrap(), Ending::Done);
    assert_eq!(run.phases, ["list", "connect"]);
    assert_eq!(run.pods().pods.len(), 1);
    assert_eq!(
        proven.requests(),
        [],
        "the credential went to the server that Start names, alone"
    );
}

#[tokio::test]
async fn the_credential_is_not_sent_to_a_server_with_another_certificate() {
    let proven = Api::start(|_| Answer::pods(&[], "", None));
    let impostor = Api::start(|_| Answer::pods(&[], "", None));
    let (_, run) = with_session(async |daemon| {
        daemon.prove(prove(proven.described(), nobody())).await;
        let mut api_server = proven.described();
        api_server.endpoints = impostor.described().endpoints;
        daemon.run(start(api_server, all_pods())).await
    })
    .await;
    let (kind, detail) = run.failure();
    assert_eq!(kind, Kind::Unreachable);
    assert!(detail.contains("certificate"), "{detail}");
    assert_eq!(impostor.requests(), []);
}

#[tokio::test]
async fn a_server_that_ignores_the_limit_does_not_keep_the_runner_busy() {
    let items: Vec<_> = (0..40).map(|index| pod(&format!("pod-{index}"))).collect();
    let api = Api::start(move |_| Answer::pods(&items, "", None));
    let work = PodStatus {
        limit: 10,
        max_bytes: 300,
        ..all_pods()
    };
    let run = read(&api, work).await;
    assert!(run.calls.len() <= 10, "{}", run.calls.len());
    assert_eq!(run.failure().0, Kind::TooLarge);
}

#[tokio::test]
async fn hanging_up_in_mid_call_ends_the_call() {
    static ASKED: AtomicBool = AtomicBool::new(false);
    let api = Api::start(|_| {
        ASKED.store(true, Ordering::SeqCst);
        Answer::Silence
    });
    let (ended, ()) = with_session(async |daemon| {
        daemon.prove(prove(api.described(), nobody())).await;
        let start = start(api.described(), all_pods());
        daemon
            .send(sandbox_proto::runner::v1::to_runner::Frame::Start(start))
            .await;
        while !ASKED.load(Ordering::SeqCst) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(ended.unwrap_err().ending(), Ending::Gone);
}
