//! A trail tells what happened, one line an event for any reader, and whoever touches it is found out:
//! the first bad line is named, with what is wrong.
#![cfg(test)]

use proptest::prelude::*;
use sandbox_core::audit::{
    Checkpoint, CheckpointFault, Draft, Event, EventName, Fault, FaultKind, Fields, Glance, Head,
    Malformed, PublicKey, Record, Seq, Signature, UtcMillis, Value, Verified, Verifier,
};
use sandbox_core::ids::RequestId;
use sha2::{Digest, Sha256};

const KEY: PublicKey = PublicKey([1; 32]);
const OTHER_KEY: PublicKey = PublicKey([2; 32]);

/// Stands in for Ed25519: only the bytes signed and the key used matter here.
fn sign(key: &PublicKey, message: &[u8]) -> Signature {
    let half: [u8; 32] = Sha256::new()
        .chain_update(key.0)
        .chain_update(message)
        .finalize()
        .into();
    let mut signature = [0; 64];
    signature[..32].copy_from_slice(&half);
    Signature(signature)
}

fn check(key: &PublicKey, message: &[u8], signature: &Signature) -> bool {
    sign(key, message) == *signature
}

fn checkpoint(head: Head, key: PublicKey) -> Checkpoint {
    let time = UtcMillis::from_unix_ms(1_772_357_400_000);
    Checkpoint {
        head,
        time,
        key,
        signature: sign(&key, &Checkpoint::signed_bytes(head, time)),
    }
}

/// A trail under construction.
struct Trail {
    head: Head,
    lines: Vec<Vec<u8>>,
}

impl Trail {
    fn new() -> Self {
        Self {
            head: Head::START,
            lines: Vec::new(),
        }
    }

    fn push(&mut self, event: Event) {
        let mut line = Vec::new();
        let time = UtcMillis::from_unix_ms(1_772_357_400_000 + self.head.seq.0.cast_signed());
        self.head = Draft::new(event).unwrap().seal(self.head, time, &mut line);
        self.lines.push(line);
    }

    fn push_checkpoint(&mut self, key: PublicKey) {
        self.push(checkpoint(self.head, key).to_event());
    }

    /// `events` events, and after every third a checkpoint.
    fn of(events: usize) -> Self {
        let mut trail = Self::new();
        for number in 1..=events {
            trail.push(
                Event::new(EventName::ApiCall)
                    .with("number", number)
                    .with("é", "ü\n\u{2028}"),
            );
            if number % 3 == 0 {
                trail.push_checkpoint(KEY);
            }
        }
        trail
    }

    fn bytes(&self) -> Vec<u8> {
        self.lines.concat()
    }
}

/// Reads a file's bytes as any verifier does.
fn verify(bytes: &[u8], mut verifier: Verifier) -> Result<Verified, Fault> {
    let ends = bytes
        .iter()
        .rposition(|b| *b == b'\n')
        .map_or(0, |at| at + 1);
    let (whole, torn) = bytes.split_at(ends);
    let mut lines = whole
        .split_inclusive(|b| *b == b'\n')
        .map(|line| &line[..line.len() - 1])
        .zip(1..);
    while let Some((line, _)) = lines.next() {
        if let Err(mut fault) = verifier.push(line) {
            for (later, number) in lines {
                if fault.consider(number, later) {
                    break;
                }
            }
            return Err(fault);
        }
    }
    verifier.finish(torn.len() as u64)
}

fn verify_whole(bytes: &[u8]) -> Result<Verified, Fault> {
    verify(bytes, Verifier::from_start(check))
}

fn line_of_byte(bytes: &[u8], at: usize) -> u64 {
    bytes[..at].split(|b| *b == b'\n').count() as u64
}

#[test]
fn one_request_reads_from_its_wish_to_its_proven_end() {
    let id = RequestId::new(1_772_357_400_000, [7; 10]);
    let agent = "demo-agent".parse().unwrap();
    let of = |name| Event::new(name).request(id).principal(&agent);
    let mut trail = Trail::new();
    trail.push(
        of(EventName::ToolRequest)
            .with("action", "k8s_get_pod_status")
            .with(
                "parameters",
                Fields::from([("namespace".to_owned(), Value::from("demo-app"))]),
            )
            .with("client", "claude-code 2.1"),
    );
    trail.push(
        of(EventName::GuardrailDecision)
            .with("effect", "allow")
            .with("rule", "agents-read-demo-app")
            .with("reason", "The first matching rule allows it."),
    );
    trail.push(
        of(EventName::CredentialIssued)
            .with(
                "lease_id",
                "kubernetes-1/creds/pod-reader-demo-app/h5Xb2kq0wEr7",
            )
            .with("scope", "get, list pods in demo-app")
            .with("ttl_seconds", 660),
    );
    trail.push(
        of(EventName::SandboxStarted)
            .with("job", "sbx-0195")
            .with("kernel", "Linux 4.4.0 (gVisor)"),
    );
    trail.push(
        of(EventName::ApiCall)
            .with("method", "GET")
            .with("path", "/api/v1/namespaces/demo-app/pods?limit=50")
            .with("status", 200),
    );
    trail.push(of(EventName::SandboxCompleted).with("outcome", "succeeded"));
    trail.push(of(EventName::CredentialRevoked).with("elapsed_ms", 20));
    trail.push(
        of(EventName::CredentialProvenDead)
            .with("status", 403)
            .with("pod_gone", true),
    );
    trail.push(
        of(EventName::ToolResult)
            .with("outcome", "succeeded")
            .with("pods", 2),
    );
    trail.push_checkpoint(KEY);

    // The bytes are the format: a change here is a new schema version.
    let golden = include_str!("golden/audit.jsonl");
    assert_eq!(String::from_utf8(trail.bytes()).unwrap(), golden);
    let verified = verify_whole(golden.as_bytes()).unwrap();
    assert_eq!(
        (verified.events, verified.checkpoints, verified.unsigned()),
        (10, 1, 0)
    );
}

#[test]
fn a_secret_given_to_an_event_is_not_in_its_line() {
    let canary = "canary0canary0canary";
    let jwt = format!("eyJhbGciOiJub25lIn0.{canary}.c2ln");
    let event = Event::new(EventName::ToolResult)
        .with("token", canary)
        .with("detail", format!("it said {jwt}"))
        .with(
            "deep",
            vec![Fields::from([(
                "clientSecret".to_owned(),
                Value::from(canary),
            )])],
        )
        .with(jwt.clone(), "in a name")
        .with("lease_id", "kubernetes-1/creds/pod-reader/h5Xb2kq0wEr7")
        .with("scope", "pods in demo-app")
        .with("ttl_seconds", 660);
    let mut trail = Trail::new();
    trail.push(event);
    let line = String::from_utf8(trail.bytes()).unwrap();
    assert!(!line.contains(canary) && !line.contains("eyJ"), "{line}");
    for stays in [
        "kubernetes-1/creds/pod-reader/h5Xb2kq0wEr7",
        "pods in demo-app",
        "\"ttl_seconds\":660",
    ] {
        assert!(line.contains(stays), "{stays} in {line}");
    }
}

#[test]
fn an_event_too_large_is_refused_unless_it_tells_of_an_end() {
    let text = "x".repeat(300 * 1024);
    let request = Event::new(EventName::ToolRequest).with("parameters", text.as_str());
    assert!(Draft::new(request).unwrap_err().bytes > 300 * 1024);
    let mut trail = Trail::new();
    trail.push(Event::new(EventName::CredentialRevoked).with("detail", text));
    assert!(trail.lines[0].len() < 1024);
    assert!(verify_whole(&trail.bytes()).is_ok());
}

#[test]
fn a_line_replaced_with_its_hash_is_named_by_the_line_after_it() {
    let mut trail = Trail::of(5);
    let mut replaced = Vec::new();
    let before = Record::read(trail.lines[1].trim_ascii_end()).unwrap();
    let head = Head {
        seq: Seq(1),
        hash: before.prev,
    };
    let _head: Head = Draft::new(Event::new(EventName::ApiCall).with("number", 99))
        .unwrap()
        .seal(head, before.time, &mut replaced);
    trail.lines[1] = replaced;
    assert_eq!(
        verify_whole(&trail.bytes()),
        Err(Fault {
            line: 3,
            kind: FaultKind::Unchained
        })
    );
}

/// The trail as somebody without the key would write it anew from line `from` on.
fn rewritten(trail: &Trail, from: usize, as_signer: PublicKey) -> Trail {
    let mut forged = Trail::new();
    for (index, line) in trail.lines.iter().enumerate() {
        let record = Record::read(line.trim_ascii_end()).unwrap();
        let event = match (record.event, index < from) {
            (EventName::AuditCheckpoint, false) => {
                let mut own = checkpoint(forged.head, OTHER_KEY);
                own.key = as_signer;
                own.to_event()
            }
            (name, true) => record
                .fields
                .into_iter()
                .fold(Event::new(name), |e, (k, v)| e.with(k, v)),
            (name, false) => Event::new(name).with("number", "forged"),
        };
        forged.push(event);
    }
    forged
}

#[test]
fn a_trail_written_anew_is_named_by_the_next_checkpoint() {
    let trail = Trail::of(9);
    let bad_signature = FaultKind::Checkpoint(CheckpointFault::BadSignature);
    assert_eq!(
        verify_whole(&rewritten(&trail, 5, KEY).bytes()),
        Err(Fault {
            line: 8,
            kind: bad_signature
        })
    );
    let other_key = FaultKind::Checkpoint(CheckpointFault::OtherKey {
        known: KEY,
        found: OTHER_KEY,
    });
    assert_eq!(
        verify_whole(&rewritten(&trail, 5, OTHER_KEY).bytes()),
        Err(Fault {
            line: 8,
            kind: other_key
        })
    );
}

#[test]
fn a_checkpoint_kept_elsewhere_shows_a_fork_a_rollback_and_another_key() {
    let trail = Trail::of(9);
    let kept = checkpoint(
        Head {
            seq: Seq(7),
            hash: Record::read(trail.lines[6].trim_ascii_end()).unwrap().hash,
        },
        KEY,
    );
    let against = |bytes: &[u8]| verify(bytes, Verifier::from_start(check).against(kept));
    assert!(against(&trail.bytes()).is_ok());

    let rewritten = rewritten(&trail, 0, OTHER_KEY);
    let other_key = FaultKind::Checkpoint(CheckpointFault::OtherKey {
        known: KEY,
        found: OTHER_KEY,
    });
    assert_eq!(
        against(&rewritten.bytes()),
        Err(Fault {
            line: 4,
            kind: other_key
        })
    );

    let mut without_checkpoints = Trail::new();
    for number in 0..9 {
        without_checkpoints.push(Event::new(EventName::ApiCall).with("number", number));
    }
    let forked = FaultKind::Forked {
        kept: Box::new(kept),
    };
    assert_eq!(
        against(&without_checkpoints.bytes()),
        Err(Fault {
            line: 7,
            kind: forked
        })
    );

    let rolled_back = FaultKind::RolledBack {
        kept: Box::new(kept),
    };
    assert_eq!(
        against(&trail.lines[..6].concat()),
        Err(Fault {
            line: 7,
            kind: rolled_back.clone()
        })
    );
    assert!(against(&trail.lines[..7].concat()).is_ok());
    assert_eq!(
        against(b""),
        Err(Fault {
            line: 1,
            kind: rolled_back
        })
    );
}

#[test]
fn a_checkpoint_moved_to_another_place_does_not_hold() {
    let mut trail = Trail::of(2);
    let elsewhere = checkpoint(trail.head, KEY);
    trail.push(Event::new(EventName::ApiCall));
    trail.push(elsewhere.to_event());
    let kind = FaultKind::Checkpoint(CheckpointFault::NotTheLineBefore);
    assert_eq!(verify_whole(&trail.bytes()), Err(Fault { line: 4, kind }));
}

#[test]
fn the_rest_of_a_trail_is_checked_from_where_it_is_known_to_be_good() {
    let trail = Trail::of(9);
    let known = Record::read(trail.lines[4].trim_ascii_end()).unwrap();
    let after = Verifier::after(
        Head {
            seq: known.seq,
            hash: known.hash,
        },
        check,
    );
    let verified = verify(&trail.lines[5..].concat(), after.clone()).unwrap();
    assert_eq!(
        (verified.events, verified.head),
        (trail.lines.len() as u64 - 5, trail.head)
    );
    let gap = FaultKind::Missing {
        first: Seq(6),
        last: Seq(6),
    };
    assert_eq!(
        verify(&trail.lines[6..].concat(), after),
        Err(Fault { line: 6, kind: gap })
    );
}

#[test]
fn other_spellings_of_the_same_event_are_refused_even_with_a_fitting_hash() {
    // What only somebody with a program of their own can make: hashed, chained, but not as we write.
    let trail = Trail::of(1);
    let line = String::from_utf8(trail.lines[0].clone()).unwrap();
    let body = line.split_once(",\"hash\":").unwrap().0;
    let rehashed = |body: String| {
        let domain = b"agent-sandbox audit line v1\n";
        let hash = hex::encode(
            Sha256::new()
                .chain_update(domain)
                .chain_update(&body)
                .finalize(),
        );
        format!("{body},\"hash\":\"{hash}\"}}").into_bytes()
    };
    assert!(
        Record::read(&rehashed(body.to_owned())).is_ok(),
        "the layout is the one written down"
    );
    for (from, to) in [
        ("\"seq\":1", "\"seq\": 1"),
        ("\"seq\":1", "\"seq\":1.0"),
        ("\"seq\":1", "\"seq\":0"),
        ("\"seq\":1", "\"seq\":18446744073709551615,\"seq\":1"),
        ("\"v\":1", "\"v\":2"),
        ("api.call", "api.kall"),
        ("\\u00fc", "ü"),
        ("\\u00fc", "\\u00FC"),
        ("\"number\":1", "\"number\":2,\"number\":1"),
        ("\"number\":1", "\"number\":1.5"),
        ("\"event\"", "\"principal\":null,\"event\""),
        ("\"event\"", "\"extra\":1,\"event\""),
        (
            "{\"number\":1,\"\\u00e9\":\"\\u00fc\\n\\u2028\"}",
            "{\"\\u00e9\":\"\\u00fc\\n\\u2028\",\"number\":1}",
        ),
    ] {
        assert!(body.contains(from), "{from} in {body}");
        let changed = rehashed(body.replacen(from, to, 1));
        let error = Record::read(&changed).expect_err(to);
        assert_ne!(error, Malformed::Edited, "{to}");
    }
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Integer),
        any::<String>().prop_map(Value::Text),
        proptest::collection::vec(
            proptest::sample::select(vec![
                '\n', '\r', '\u{85}', '\u{2028}', '\u{2029}', '\u{1c}', '\u{b}', '\u{202e}', 'a',
                '\\', '"'
            ]),
            0..8
        )
        .prop_map(|chars| Value::Text(chars.into_iter().collect())),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::List),
            proptest::collection::btree_map(any::<String>(), inner, 0..6).prop_map(Value::Object),
        ]
    })
}

proptest! {
    #[test]
    fn any_event_comes_back_as_it_went_in(
        fields in proptest::collection::btree_map(any::<String>(), value(), 0..6),
        name in proptest::sample::select(EventName::ALL),
        ms in 0..253_402_300_799_999_i64,
        id in proptest::option::of(any::<[u8; 10]>()),
        principal in proptest::option::of("[a-z][a-z0-9]{0,20}"),
    ) {
        let time = UtcMillis::from_unix_ms(ms);
        let id = id.map(|random| RequestId::new(ms.cast_unsigned(), random));
        let principal = principal.map(|name| name.parse().unwrap());
        let mut event = fields.iter().fold(Event::new(name), |e, (k, v)| e.with(k.clone(), v.clone()));
        event = id.into_iter().fold(event, Event::request);
        event = principal.iter().fold(event, Event::principal);
        let mut line = Vec::new();
        let head = Draft::new(event).unwrap().seal(Head::START, time, &mut line);

        // One line for every reader: visible ASCII, and one LF at its end.
        prop_assert_eq!(line.pop(), Some(b'\n'));
        prop_assert!(line.iter().all(|b| (b' '..=b'~').contains(b)));

        prop_assert_eq!(Glance::at(&line), Some(Glance { seq: Seq(1), request_id: id }));
        let record = Record::read(&line).unwrap();
        prop_assert_eq!(Head { seq: record.seq, hash: record.hash }, head);
        prop_assert_eq!(
            (record.time, record.request_id, record.principal, record.event, record.fields),
            (time, id, principal, name, fields)
        );
    }

    #[test]
    fn any_edit_of_one_byte_is_named(events in 1..12_usize, at in any::<prop::sample::Index>(), flip in 1..=255_u8) {
        let whole = Trail::of(events).bytes();
        let mut edited = whole.clone();
        let at = at.index(whole.len());
        edited[at] ^= flip;
        let fault = verify_whole(&edited).unwrap_err();
        prop_assert_eq!(fault.line, line_of_byte(&whole, at), "{}", fault);
    }

    #[test]
    fn any_byte_put_in_or_taken_out_is_named(
        events in 1..12_usize, at in any::<prop::sample::Index>(), extra in proptest::option::of(any::<u8>()),
    ) {
        let whole = Trail::of(events).bytes();
        let mut edited = whole.clone();
        let at = at.index(whole.len());
        if let Some(extra) = extra {
            edited.insert(at, extra);
        } else {
            edited.remove(at);
        }
        // A byte put beside its like is the same edit further on.
        let at = whole.iter().zip(&edited).take_while(|(was, is)| was == is).count();
        let fault = verify_whole(&edited).unwrap_err();
        prop_assert_eq!(fault.line, line_of_byte(&whole, at), "{}", fault);
    }

    #[test]
    fn any_cut_of_lines_is_named(events in 2..20_usize, from in any::<prop::sample::Index>(), count in 1..5_usize) {
        let mut trail = Trail::of(events);
        let from = from.index(trail.lines.len() - 1);
        let to = (from + count).min(trail.lines.len() - 1);
        trail.lines.drain(from..to);
        let fault = verify_whole(&trail.bytes()).unwrap_err();
        let (first, last) = (Seq(from as u64 + 1), Seq(to as u64));
        prop_assert_eq!(fault, Fault { line: first.0, kind: FaultKind::Missing { first, last } });
    }

    #[test]
    fn any_swap_of_lines_is_named(events in 2..20_usize, a in any::<prop::sample::Index>(), b in any::<prop::sample::Index>()) {
        let mut trail = Trail::of(events);
        let (a, b) = (a.index(trail.lines.len()), b.index(trail.lines.len()));
        prop_assume!(a != b);
        let (first, second) = (a.min(b), a.max(b));
        trail.lines.swap(first, second);
        let kind = FaultKind::Moved { seq: Seq(first as u64 + 1), found: second as u64 + 1 };
        prop_assert_eq!(verify_whole(&trail.bytes()), Err(Fault { line: first as u64 + 1, kind }));
    }

    #[test]
    fn any_repeated_line_is_named(events in 1..20_usize, which in any::<prop::sample::Index>(), to in any::<prop::sample::Index>()) {
        let mut trail = Trail::of(events);
        let which = which.index(trail.lines.len());
        let to = which + 1 + to.index(trail.lines.len() - which);
        trail.lines.insert(to, trail.lines[which].clone());
        let kind = FaultKind::Repeated { seq: Seq(which as u64 + 1) };
        prop_assert_eq!(verify_whole(&trail.bytes()), Err(Fault { line: to as u64 + 1, kind }));
    }

    #[test]
    fn a_trail_cut_short_in_a_line_is_torn_there(events in 1..12_usize, keep in any::<prop::sample::Index>()) {
        let whole = Trail::of(events).bytes();
        let keep = 1 + keep.index(whole.len() - 1);
        prop_assume!(whole[keep - 1] != b'\n');
        let fault = verify_whole(&whole[..keep]).unwrap_err();
        prop_assert_eq!(fault.line, line_of_byte(&whole, keep));
        prop_assert!(matches!(fault.kind, FaultKind::Torn { .. }), "{}", fault);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _glance = Glance::at(&bytes);
        prop_assert!(Record::read(&bytes).is_err());
    }

    #[test]
    fn a_rewritten_end_never_passes_a_kept_checkpoint(events in 3..15_usize, from in any::<prop::sample::Index>()) {
        let trail = Trail::of(events);
        let kept = checkpoint(trail.head, KEY);
        let forged = rewritten(&trail, from.index(trail.lines.len()), KEY);
        let verdict = verify(&forged.bytes(), Verifier::from_start(check).against(kept));
        prop_assert!(verdict.is_err());
    }
}
