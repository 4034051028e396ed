//! JSON-RPC as it comes in: what one line says, before anyone knows what its method means.
//!
//! Ids and parameters stay the text the client wrote. An id beyond 2^53, or arguments with a number
//! beyond 64 bits, come back and go on exactly as they came; a parsed value would have changed them.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// The id of a request: JSON text of a string or a number, echoed byte for byte.
#[derive(Clone, Debug)]
pub(crate) struct Id(Arc<RawValue>);

impl Id {
    /// Reads an id from its JSON text; nothing but a string or a number is one.
    pub fn parse(json: &str) -> Option<Self> {
        serde_json::from_str::<&RawValue>(json)
            .ok()
            .and_then(Self::of)
    }

    fn of(value: &RawValue) -> Option<Self> {
        is_string_or_number(value).then(|| Self(Arc::from(value.to_owned())))
    }
}

impl PartialEq for Id {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// Whether JSON text is that of a string or a number: what ids and progress tokens may be.
pub(crate) fn is_string_or_number(json: &RawValue) -> bool {
    json.get()
        .starts_with(|c: char| c == '"' || c == '-' || c.is_ascii_digit())
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.get())
    }
}

/// What one line holds.
#[derive(Debug)]
pub(crate) enum Message {
    /// One message.
    One(Incoming),
    /// An array of them, as JSON-RPC and MCP 2025-03-26 have it.
    Batch(Vec<Incoming>),
    /// Not JSON; what the parser said.
    NotJson(String),
}

/// One JSON-RPC message.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// Something to answer.
    Request(Request),
    /// Something that gets no answer, whatever it says.
    Notification(Notification),
    /// An answer. We ask clients nothing, so it is none of ours.
    Response,
    /// JSON, but no message; the id if it has a usable one.
    Invalid(Option<Id>, &'static str),
}

/// A request.
#[derive(Debug)]
pub(crate) struct Request {
    pub id: Id,
    pub method: String,
    pub params: Option<Box<RawValue>>,
}

/// A notification.
#[derive(Debug)]
pub(crate) struct Notification {
    pub method: String,
    pub params: Option<Box<RawValue>>,
}

impl Message {
    /// Reads one line.
    pub fn parse(line: &str) -> Self {
        let value = match serde_json::from_str::<&RawValue>(line) {
            Ok(value) => value,
            Err(error) => return Self::NotJson(error.to_string()),
        };
        if !value.get().starts_with('[') {
            return Self::One(Incoming::of(value));
        }
        match serde_json::from_str::<Vec<&RawValue>>(value.get()) {
            Ok(entries) => Self::Batch(entries.into_iter().map(Incoming::of).collect()),
            Err(error) => Self::NotJson(error.to_string()),
        }
    }
}

impl Incoming {
    fn of(value: &RawValue) -> Self {
        // Members the envelope does not know are ignored; the same member twice is an error.
        let Ok(envelope) = serde_json::from_str::<Envelope<'_>>(value.get()) else {
            return Self::Invalid(None, "a message is one JSON object with each member once");
        };
        let id = envelope.id.and_then(Id::of);
        if envelope
            .jsonrpc
            .is_none_or(|version| version.get() != "\"2.0\"")
        {
            return Self::Invalid(id, "\"jsonrpc\" must be \"2.0\"");
        }
        let Some(method) = envelope.method else {
            if envelope.result.is_some() || envelope.error.is_some() {
                return Self::Response;
            }
            return Self::Invalid(id, "a request or notification has a \"method\"");
        };
        let Ok(method) = serde_json::from_str(method.get()) else {
            return Self::Invalid(id, "\"method\" must be a string");
        };
        let params = envelope
            .params
            .filter(|p| p.get() != "null")
            .map(ToOwned::to_owned);
        match (envelope.id, id) {
            (None, _) => Self::Notification(Notification { method, params }),
            (Some(_), Some(id)) => Self::Request(Request { id, method, params }),
            (Some(_), None) => Self::Invalid(None, "\"id\" must be a string or a number"),
        }
    }
}

/// The members of a message; one that is there and null is `Some("null")`.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default, deserialize_with = "there")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "there")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "there")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "there")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "there")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "there")]
    error: Option<&'a RawValue>,
}

fn there<'de, D: Deserializer<'de>>(value: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(value).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> Incoming {
        let message = Message::parse(line);
        let Message::One(incoming) = message else {
            panic!("{line}: {message:?}")
        };
        incoming
    }

    #[test]
    fn an_id_keeps_its_very_text() {
        for id in [
            "0",
            "-1",
            "9007199254740993",
            "1e3",
            "123456789012345678901234567890",
            r#""\u0061""#,
        ] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
            let Incoming::Request(request) = one(&line) else {
                panic!("{line}")
            };
            assert_eq!(request.id.to_string(), id);
        }
    }

    #[test]
    fn null_and_odd_ids_are_invalid_and_no_id_is_a_notification() {
        for id in ["null", "true", "{}", "[1]"] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
            assert!(matches!(one(&line), Incoming::Invalid(None, _)), "{line}");
        }
        assert!(matches!(
            one(r#"{"jsonrpc":"2.0","method":"x","params":null}"#),
            Incoming::Notification(Notification { params: None, .. })
        ));
    }

    #[test]
    fn an_invalid_message_keeps_its_id_so_that_its_sender_hears_of_it() {
        for line in [
            r#"{"id":7,"method":"ping"}"#,
            r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":7}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":5}"#,
        ] {
            let Incoming::Invalid(Some(id), _) = one(line) else {
                panic!("{line}")
            };
            assert_eq!(id, Id::parse("7").unwrap());
        }
        assert!(matches!(
            one(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}"#),
            Incoming::Invalid(None, _)
        ));
        assert!(matches!(one("3"), Incoming::Invalid(None, _)));
    }

    #[test]
    fn answers_are_told_apart_from_requests() {
        assert!(matches!(
            one(r#"{"jsonrpc":"2.0","id":1,"result":null}"#),
            Incoming::Response
        ));
        assert!(matches!(
            one(r#"{"jsonrpc":"2.0","id":null,"error":{}}"#),
            Incoming::Response
        ));
    }

    #[test]
    fn parameters_are_not_read_on_the_way() {
        let Incoming::Request(request) = one(
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"n":123456789012345678901234567890,"n":10.0}}"#,
        ) else {
            panic!()
        };
        assert_eq!(
            request.params.unwrap().get(),
            r#"{"n":123456789012345678901234567890,"n":10.0}"#
        );
    }

    #[test]
    fn garbage_is_not_json_and_an_array_is_a_batch() {
        for line in ["nonsense", "{", r#"{"a":1}{"b":2}"#, "\u{0}"] {
            assert!(
                matches!(Message::parse(line), Message::NotJson(_)),
                "{line}"
            );
        }
        let Message::Batch(entries) = Message::parse(r#"[{"jsonrpc":"2.0","method":"x"},1,[]]"#)
        else {
            panic!()
        };
        assert!(matches!(
            entries[..],
            [
                Incoming::Notification(_),
                Incoming::Invalid(None, _),
                Incoming::Invalid(None, _)
            ]
        ));
    }

    #[test]
    fn deep_nesting_does_not_exhaust_the_stack() {
        let deep = "[".repeat(300_000);
        assert!(matches!(Message::parse(&deep), Message::NotJson(_)));
        let params = format!("{}{}", "[".repeat(300_000), "]".repeat(300_000));
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{params}}}"#);
        assert!(matches!(one(&line), Incoming::Request(_)));
    }
}
