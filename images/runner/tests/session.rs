//! The session as a state machine, over pipes in memory and a real TLS server: what has no place
//! ends it, and egress counts as closed only when it was proven.
#![cfg(test)]

mod sides;

use std::net::TcpListener;

use sandbox_proto::MAX_FRAME_BYTES;
use sandbox_proto::runner::v1::failure::Kind;
use sandbox_proto::runner::v1::{PodStatus, Prove, Start, from_runner, to_runner};
use sandbox_runner::ending::Ending;
use sandbox_runner::session::MAX_PINGS;
use sides::api_server::{Answer, Api};
use sides::daemon::{Daemon, all_pods, encoded, prove, start, with_session};
use sides::{closed_door, nobody};

fn empty_namespace() -> Api {
    Api::start(|_| Answer::pods(&[], "", None))
}

fn silent() -> Api {
    Api::start(|_| Answer::Silence)
}

/// The session's ending, however it came about.
async fn ending_of(play: impl AsyncFnOnce(&mut Daemon)) -> (Ending, String) {
    match with_session(play).await.0 {
        Ok(ending) => (ending, String::new()),
        Err(abort) => (abort.ending(), abort.to_string()),
    }
}

#[tokio::test]
async fn one_request_goes_from_prove_to_finished() {
    let api = empty_namespace();
    let (ended, run) = with_session(async |daemon| {
        let forbidden = nobody();
        let hello = daemon.prove(prove(api.described(), forbidden)).await;
        assert_eq!(hello.protocol_version, 1);
        assert_eq!(hello.runner_version, env!("CARGO_PKG_VERSION"));
        assert!(
            hello.kernel.starts_with("Linux version"),
            "{}",
            hello.kernel
        );
        assert_eq!(hello.uid, rustix::process::getuid().as_raw());
        assert_eq!(hello.gid, rustix::process::getgid().as_raw());
        let egress = hello.egress.unwrap();
        assert!(egress.closed, "{egress:?}");
        assert_eq!(egress.open_attempts, 0);
        assert!(
            egress.detail.contains(&forbidden.to_string()),
            "{}",
            egress.detail
        );
        assert!(egress.detail.contains("refused"), "{}", egress.detail);
        assert!(
            egress.detail.contains(&api.address.to_string()),
            "{}",
            egress.detail
        );
        daemon.run(start(api.described(), all_pods())).await
    })
    .await;
    assert_eq!(ended.unwrap(), Ending::Done);
    assert_eq!(run.phases, ["list"]);
    assert_eq!(run.calls.len(), 1);
    assert_eq!(run.pods().pods, []);
}

#[tokio::test]
async fn egress_that_closes_late_is_waited_for() {
    let api = empty_namespace();
    let forbidden = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = forbidden.local_addr().unwrap();
    // Takes three connections and is gone.
    let neighbour = std::thread::spawn(move || {
        for _ in 0..3 {
            forbidden.accept().unwrap();
        }
    });
    let (ended, egress) = with_session(async |daemon| {
        daemon
            .prove(prove(api.described(), address))
            .await
            .egress
            .unwrap()
    })
    .await;
    neighbour.join().unwrap();
    assert!(egress.closed, "{egress:?}");
    assert!((3..=4).contains(&egress.open_attempts), "{egress:?}");
    assert!(egress.detail.contains("open for the first"), "{egress:?}");
    assert_eq!(
        ended.unwrap_err().ending(),
        Ending::Gone,
        "the daemon hung up after Hello"
    );
}

#[tokio::test]
async fn egress_that_stays_open_ends_the_session() {
    let api = empty_namespace();
    let forbidden = TcpListener::bind("127.0.0.1:0").unwrap();
    let (ended, egress) = with_session(async |daemon| {
        let mut prove = prove(api.described(), forbidden.local_addr().unwrap());
        prove.timeout_ms = 200;
        let egress = daemon.prove(prove).await.egress.unwrap();
        // Nobody listens to a Start any more.
        daemon
            .send(to_runner::Frame::Start(start(api.described(), all_pods())))
            .await;
        assert_eq!(daemon.next().await, None);
        egress
    })
    .await;
    assert!(!egress.closed);
    assert!(egress.open_attempts > 1, "{egress:?}");
    assert!(
        egress.detail.contains("last: connected"),
        "{}",
        egress.detail
    );
    assert_eq!(ended.unwrap(), Ending::EgressOpen);
    assert_eq!(api.requests(), [], "no request was made");
}

#[tokio::test]
async fn being_blocked_before_the_api_server_answers_is_no_proof() {
    // The listener is away at first, and is there from the API server's first connection on: what
    // a pod sees whose network came up between the two.
    let (door, forbidden) = closed_door();
    let open = move || rustix::net::listen(&door, 16).unwrap();
    let api = Api::start_with(open, |_| Answer::Silence);
    let (ended, egress) = with_session(async |daemon| {
        let mut prove = prove(api.described(), forbidden);
        prove.timeout_ms = 300;
        daemon.prove(prove).await.egress.unwrap()
    })
    .await;
    assert!(!egress.closed, "{egress:?}");
    // Which it can have been only after the API server was connected to.
    assert!(egress.open_attempts > 0, "{egress:?}");
    assert_eq!(ended.unwrap(), Ending::EgressOpen);
}

#[tokio::test]
async fn nothing_reachable_at_all_is_no_proof() {
    let away = nobody();
    let mut api_server = empty_namespace().described();
    api_server.endpoints = vec![away.to_string()];
    let (ended, egress) = with_session(async |daemon| {
        let mut prove = prove(api_server, nobody());
        prove.timeout_ms = 200;
        daemon.prove(prove).await.egress.unwrap()
    })
    .await;
    assert!(!egress.closed);
    let said = format!("the API server did not answer: {away}: Connection refused");
    assert!(egress.detail.contains(&said), "{}", egress.detail);
    assert_eq!(ended.unwrap(), Ending::EgressOpen);
}

#[tokio::test]
async fn an_api_server_with_another_certificate_is_no_proof() {
    let api = empty_namespace();
    let mut other_authority = api.described();
    other_authority.ca_pem = empty_namespace().ca_pem;
    let mut other_name = api.described();
    other_name.server_name = "kubernetes.default.svc.evil".to_owned();
    for api_server in [other_authority, other_name] {
        let (_, egress) = with_session(async |daemon| {
            let mut prove = prove(api_server, nobody());
            prove.timeout_ms = 200;
            daemon.prove(prove).await.egress.unwrap()
        })
        .await;
        assert!(!egress.closed);
        assert!(egress.detail.contains("certificate"), "{}", egress.detail);
    }
}

#[tokio::test]
async fn endpoints_are_tried_in_order() {
    let api = empty_namespace();
    let mut api_server = api.described();
    api_server.endpoints.insert(0, nobody().to_string());
    let (_, egress) = with_session(async |daemon| {
        daemon
            .prove(prove(api_server, nobody()))
            .await
            .egress
            .unwrap()
    })
    .await;
    assert!(egress.closed, "{egress:?}");
    assert!(
        egress.detail.contains(&api.address.to_string()),
        "{egress:?}"
    );
}

#[tokio::test]
async fn a_prove_that_makes_no_sense_proves_nothing_and_says_why() {
    let api = empty_namespace();
    let good = || prove(api.described(), nobody());
    let without = |change: fn(&mut Prove)| {
        let mut prove = good();
        change(&mut prove);
        prove
    };
    for (prove, says) in [
        (without(|it| it.protocol_version = 2), "version 2"),
        (
            without(|it| it.forbidden_target = "egress-probe:7777".to_owned()),
            "no IP:port",
        ),
        (without(|it| it.api_server = None), "no endpoint"),
        (
            without(|it| {
                it.api_server.as_mut().unwrap().endpoints[0] = "kubernetes:443".to_owned();
            }),
            "no IP:port",
        ),
        (
            without(|it| it.api_server.as_mut().unwrap().server_name.clear()),
            "name",
        ),
        (
            without(|it| it.api_server.as_mut().unwrap().ca_pem.truncate(60)),
            "authority",
        ),
    ] {
        let (ended, hello) = with_session(async |daemon| daemon.prove(prove).await).await;
        let egress = hello.egress.unwrap();
        assert!(!egress.closed);
        assert!(egress.detail.contains(says), "{}", egress.detail);
        assert_eq!(hello.protocol_version, 1);
        assert_eq!(ended.unwrap(), Ending::EgressOpen);
    }
}

#[tokio::test]
async fn a_frame_out_of_place_ends_the_session() {
    let api = silent();
    let a_prove = || to_runner::Frame::Prove(prove(api.described(), nobody()));
    let a_start = || to_runner::Frame::Start(start(api.described(), all_pods()));

    let ended = ending_of(async |daemon| daemon.send(a_start()).await).await;
    let said = "the daemon sent Start while it waited for Prove";
    assert_eq!(ended, (Ending::Violation, said.to_owned()));

    let ended = ending_of(async |daemon| {
        // An open neighbour keeps the proof going.
        let neighbour = TcpListener::bind("127.0.0.1:0").unwrap();
        let open = neighbour.local_addr().unwrap();
        daemon
            .send(to_runner::Frame::Prove(prove(api.described(), open)))
            .await;
        daemon.send(a_prove()).await;
        assert_eq!(daemon.next().await, None);
    })
    .await;
    let said = "the daemon sent Prove while it proved its egress";
    assert_eq!(ended, (Ending::Violation, said.to_owned()));

    let ended = ending_of(async |daemon| {
        daemon.prove(prove(api.described(), nobody())).await;
        daemon.send(a_prove()).await;
    })
    .await;
    let said = "the daemon sent Prove while it waited for Start";
    assert_eq!(ended, (Ending::Violation, said.to_owned()));

    for frame in [a_start(), a_prove()] {
        let (ending, said) = ending_of(async |daemon| {
            daemon.prove(prove(api.described(), nobody())).await;
            daemon.send(a_start()).await;
            daemon.send(frame).await;
            while let Some(frame) = daemon.next().await {
                assert!(
                    !matches!(frame, from_runner::Frame::Finished(_)),
                    "{frame:?}"
                );
            }
        })
        .await;
        assert_eq!(ending, Ending::Violation);
        assert!(said.ends_with("while it worked"), "{said}");
    }
}

#[tokio::test]
async fn what_is_no_frame_ends_the_session() {
    let too_long = u32::try_from(MAX_FRAME_BYTES + 1).unwrap().to_be_bytes();
    for (bytes, ending, says) in [
        (&too_long[..], Ending::Violation, "over the limit"),
        (&[0xff; 4], Ending::Violation, "over the limit"),
        (&[0, 0, 0, 0], Ending::Violation, "does not decode"),
        (
            &[0, 0, 0, 2, 0xff, 0xff],
            Ending::Violation,
            "does not decode",
        ),
        // Field 9 is no frame we know.
        (&[0, 0, 0, 2, 0x4a, 0], Ending::Violation, "does not decode"),
        (&[0, 0], Ending::Gone, "inside a frame"),
        (&[0, 0, 0, 9, 0x0a], Ending::Gone, "inside a frame"),
        (
            &[],
            Ending::Gone,
            "closed the stream while it waited for Prove",
        ),
    ] {
        let (ended, said) = ending_of(async |daemon| daemon.send_bytes(bytes).await).await;
        assert_eq!(ended, ending, "{bytes:?}");
        assert!(said.contains(says), "{bytes:?}: {said}");
    }
}

#[tokio::test]
async fn a_daemon_that_leaves_ends_the_session_in_every_state() {
    let api = silent();
    let neighbour = TcpListener::bind("127.0.0.1:0").unwrap();
    let open = neighbour.local_addr().unwrap();
    let proving = ending_of(async |daemon| {
        daemon
            .send(to_runner::Frame::Prove(prove(api.described(), open)))
            .await;
    });
    assert_eq!(proving.await.0, Ending::Gone);
    let proven = ending_of(async |daemon| {
        daemon.prove(prove(api.described(), nobody())).await;
    });
    assert_eq!(proven.await.0, Ending::Gone);
    let working = ending_of(async |daemon| {
        daemon.prove(prove(api.described(), nobody())).await;
        daemon
            .send(to_runner::Frame::Start(start(api.described(), all_pods())))
            .await;
    });
    assert_eq!(working.await.0, Ending::Gone);
}

#[tokio::test]
async fn a_ping_is_answered_in_every_state() {
    let api = silent();
    let neighbour = TcpListener::bind("127.0.0.1:0").unwrap();
    let open = neighbour.local_addr().unwrap();
    let (ended, ()) = with_session(async |daemon| {
        daemon.ping_pong(1).await;
        let mut long = prove(api.described(), open);
        long.timeout_ms = 300;
        daemon.send(to_runner::Frame::Prove(long)).await;
        daemon.ping_pong(2).await;
    })
    .await;
    assert_eq!(ended.unwrap_err().ending(), Ending::Gone);

    let (_, ()) = with_session(async |daemon| {
        daemon.prove(prove(api.described(), nobody())).await;
        daemon.ping_pong(u64::MAX).await;
        daemon
            .send(to_runner::Frame::Start(start(api.described(), all_pods())))
            .await;
        let Some(from_runner::Frame::Progress(_)) = daemon.next().await else {
            panic!("the call begins");
        };
        daemon.ping_pong(4).await;
    })
    .await;
}

#[tokio::test]
async fn more_pings_than_a_daemon_sends_end_the_session() {
    let ended = ending_of(async |daemon| {
        for nonce in 0..MAX_PINGS {
            daemon.ping_pong(nonce.into()).await;
        }
        daemon.ping(0).await;
        assert_eq!(daemon.next().await, None);
    })
    .await;
    assert_eq!(ended.0, Ending::Violation);
}

#[tokio::test]
async fn frames_may_arrive_byte_by_byte() {
    let api = empty_namespace();
    let (ended, run) = with_session(async |daemon| {
        for byte in encoded(to_runner::Frame::Prove(prove(api.described(), nobody()))) {
            daemon.send_bytes(&[byte]).await;
            tokio::task::yield_now().await;
        }
        let Some(from_runner::Frame::Hello(_)) = daemon.next().await else {
            panic!("Hello");
        };
        for byte in encoded(to_runner::Frame::Start(start(api.described(), all_pods()))) {
            daemon.send_bytes(&[byte]).await;
            tokio::task::yield_now().await;
        }
        daemon.collect().await
    })
    .await;
    assert_eq!(ended.unwrap(), Ending::Done);
    assert_eq!(run.failure, None);
}

#[tokio::test]
async fn a_start_that_makes_no_sense_finishes_with_an_internal_failure() {
    let api = empty_namespace();
    let good = || start(api.described(), all_pods());
    let changed = |change: fn(&mut Start)| {
        let mut start = good();
        change(&mut start);
        start
    };
    let with_work = |change: fn(&mut PodStatus)| {
        let mut work = all_pods();
        change(&mut work);
        start(api.described(), work)
    };
    for (start, says) in [
        (
            changed(|it| it.credential.clear()),
            "credential has 0 bytes",
        ),
        (
            changed(|it| it.credential = "eyJ.tok\r\nen.with.a.break".into()),
            "characters",
        ),
        (changed(|it| it.api_server = None), "no endpoint"),
        (changed(|it| it.work = None), "no work this runner knows"),
        (
            with_work(|it| it.namespace = "../nodes".to_owned()),
            "DNS label",
        ),
        (with_work(|it| it.limit = 0), "no pods"),
    ] {
        let (ended, run) = with_session(async |daemon| {
            daemon.prove(prove(api.described(), nobody())).await;
            daemon.run(start).await
        })
        .await;
        let (kind, detail) = run.failure();
        assert_eq!(kind, Kind::Internal);
        assert!(detail.contains(says), "{detail}");
        assert_eq!(ended.unwrap(), Ending::Failed);
    }
    assert_eq!(api.requests(), []);
}
