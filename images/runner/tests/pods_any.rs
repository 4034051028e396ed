//! Whatever shape a Pod has, summarising it neither panics nor makes it long.
#![cfg(test)]

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use prost::Message as _;
use sandbox_runner::page;
use sandbox_runner::pods::summarise;
use serde_json::{Value, json};

/// Every text at its longest, with what clipping adds, and every number at its widest.
const MAX_SUMMARY_BYTES: usize = 8 * (253 + 40) + (512 + 40) + 120;

/// Words that mean something to the summary, and some that mean nothing or are far too long.
fn word() -> impl Strategy<Value = Value> {
    let known = [
        "",
        "Running",
        "Pending",
        "Failed",
        "Succeeded",
        "Unknown",
        "True",
        "False",
        "Always",
        "Never",
        "PodInitializing",
        "ContainerCreating",
        "CrashLoopBackOff",
        "Completed",
        "Error",
        "NodeLost",
        "SchedulingGated",
        "Ready",
        "Initialized",
        "PodScheduled",
        "DisruptionTarget",
        "app",
        "init",
    ];
    prop_oneof![
        8 => prop::sample::select(known.to_vec()).prop_map(Value::from),
        1 => "\\PC{0,8}".prop_map(Value::from),
        1 => (0_usize..9_000).prop_map(|n| Value::from("ß\n\u{202e}".repeat(n))),
    ]
}

fn time() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!("2026-03-01T12:00:00Z")),
        Just(json!("0001-01-01T00:00:00Z")),
        Just(json!("9999-12-30T00:00:00Z")),
    ]
}

/// Any of the fields, each with its value or absent.
fn object(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let fields = fields.into_iter().map(|(name, value)| {
        prop::option::of(value).prop_map(move |value| value.map(|value| (name.to_owned(), value)))
    });
    let fields: Vec<_> = fields.collect();
    fields
        .prop_map(|fields| Value::Object(fields.into_iter().flatten().collect()))
        .boxed()
}

fn list(item: BoxedStrategy<Value>, most: usize) -> BoxedStrategy<Value> {
    prop_oneof![
        1 => Just(Value::Null),
        5 => prop::collection::vec(item, 0..=most).prop_map(Value::Array),
    ]
    .boxed()
}

fn state() -> BoxedStrategy<Value> {
    let words = || word().boxed();
    let terminated = object(vec![
        ("exitCode", any::<i32>().prop_map(Value::from).boxed()),
        ("signal", any::<i32>().prop_map(Value::from).boxed()),
        ("reason", words()),
        ("message", words()),
        ("finishedAt", time().boxed()),
    ]);
    object(vec![
        (
            "waiting",
            object(vec![("reason", words()), ("message", words())]),
        ),
        ("running", Just(json!({})).boxed()),
        ("terminated", terminated),
    ])
}

fn pod() -> BoxedStrategy<Value> {
    let words = || word().boxed();
    let status = object(vec![
        ("name", words()),
        ("ready", any::<bool>().prop_map(Value::from).boxed()),
        ("started", any::<bool>().prop_map(Value::from).boxed()),
        ("restartCount", any::<i32>().prop_map(Value::from).boxed()),
        ("state", state()),
        ("lastState", state()),
    ]);
    let condition = object(vec![
        ("type", words()),
        ("status", words()),
        ("reason", words()),
        ("message", words()),
    ]);
    let container = object(vec![("name", words()), ("restartPolicy", words())]);
    object(vec![
        (
            "metadata",
            object(vec![
                ("name", words()),
                ("creationTimestamp", time().boxed()),
                ("deletionTimestamp", time().boxed()),
                (
                    "deletionGracePeriodSeconds",
                    any::<i64>().prop_map(Value::from).boxed(),
                ),
            ]),
        ),
        (
            "spec",
            object(vec![
                ("containers", list(container.clone(), 3)),
                ("initContainers", list(container, 3)),
                ("nodeName", words()),
                ("restartPolicy", words()),
            ]),
        ),
        (
            "status",
            object(vec![
                ("phase", words()),
                ("reason", words()),
                ("message", words()),
                ("conditions", list(condition, 4)),
                ("containerStatuses", list(status.clone(), 3)),
                ("initContainerStatuses", list(status.clone(), 3)),
                ("ephemeralContainerStatuses", list(status, 1)),
            ]),
        ),
    ])
}

/// JSON of any shape, in which a Pod or a list is unlikely.
fn json_of_any_shape() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        word(),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let key = prop::sample::select(vec!["kind", "metadata", "items", "spec", "status", "x"]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((key, inner), 0..4).prop_map(|pairs| {
                let pairs = pairs
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value));
                Value::Object(pairs.collect())
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_pod_has_a_summary_of_bounded_size(pod in pod(), now in -377_705_023_201..=253_402_207_200_i64) {
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let now = Timestamp::from_second(now).unwrap();
        let summary = summarise(&pod, now);
        prop_assert!(summary.encoded_len() <= MAX_SUMMARY_BYTES, "{} bytes", summary.encoded_len());
        prop_assert!(summary.age_seconds >= 0);
        prop_assert!(!summary.healthy || summary.reason.is_empty(), "{summary:?}");
        prop_assert_eq!(summary, summarise(&pod, now));
    }

    #[test]
    fn json_of_any_shape_is_read_or_refused(body in json_of_any_shape()) {
        let list = json!({ "kind": "PodList", "items": [body] });
        for body in [body, list] {
            let body = body.to_string();
            page::read(body.as_bytes(), Timestamp::UNIX_EPOCH).ok();
            let message = page::refusal_message(body.as_bytes());
            prop_assert!(message.is_none_or(|message| !message.trim().is_empty()));
        }
    }

    #[test]
    fn bytes_of_any_kind_are_read_or_refused(body in prop::collection::vec(any::<u8>(), 0..64)) {
        prop_assert!(page::read(&body, Timestamp::UNIX_EPOCH).is_err());
        prop_assert_eq!(page::refusal_message(&body), None);
    }
}
