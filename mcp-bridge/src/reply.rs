//! What goes out: one answer for each request, and notifications.

use rmcp::model::ErrorData;
use serde::Serialize;

use crate::escape;
use crate::message::Id;
use crate::stdio::Outbox;

/// The duty to answer one request, once.
///
/// Dropped without an answer, which only a bug or a panic does, it says so to the client: a request
/// without an answer leaves the client waiting for its time-out.
#[must_use = "a request is answered or withdrawn"]
#[derive(Debug)]
pub(crate) struct Reply {
    id: Id,
    to: Outbox,
    owed: bool,
}

impl Reply {
    /// The duty to answer request `id` on `to`.
    pub fn new(id: Id, to: Outbox) -> Self {
        Self { id, to, owed: true }
    }

    /// The request's id.
    pub fn id(&self) -> &Id {
        &self.id
    }

    /// Answers with a result.
    pub async fn result(self, result: &impl Serialize) {
        let line = answer(&self.id, "result", result);
        self.send(line).await;
    }

    /// Answers with a protocol error.
    pub async fn error(self, error: &ErrorData) {
        let line = answer(&self.id, "error", error);
        self.send(line).await;
    }

    /// Lets it go unanswered: the client has cancelled the request.
    pub fn withdraw(mut self) {
        self.owed = false;
    }

    async fn send(mut self, line: String) {
        self.owed = false;
        // It fails only when the client has closed its end, and then nobody waits.
        self.to.send(line).await.unwrap_or_default();
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if self.owed {
            let error = ErrorData::internal_error("The bridge failed to work out an answer.", None);
            // `Drop` cannot wait for room; without any the client has stopped reading as well.
            self.to
                .try_send(answer(&self.id, "error", &error))
                .unwrap_or_default();
        }
    }
}

/// An error about a message whose id is not known.
pub(crate) fn error_without_id(error: &ErrorData) -> String {
    escape::for_wire(format!(
        r#"{{"jsonrpc":"2.0","id":null,"error":{}}}"#,
        json(error)
    ))
}

/// A notification.
pub(crate) fn notification(method: &str, params: &impl Serialize) -> String {
    let params = json(params);
    escape::for_wire(format!(
        r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#
    ))
}

fn answer(id: &Id, kind: &str, body: &impl Serialize) -> String {
    escape::for_wire(format!(
        r#"{{"jsonrpc":"2.0","id":{id},"{kind}":{}}}"#,
        json(body)
    ))
}

/// JSON text of one of our own messages, on one line.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("messages have string keys and no failing serializers")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc;

    fn reply(id: &str) -> (Reply, mpsc::Receiver<String>) {
        let (outbox, lines) = mpsc::channel(4);
        (Reply::new(Id::parse(id).unwrap(), outbox), lines)
    }

    #[tokio::test]
    async fn an_answer_echoes_the_id_and_escapes_what_is_hidden() {
        let (reply, mut lines) = reply("9007199254740993");
        reply
            .result(&serde_json::json!({"text": "a\u{2028}b\nc"}))
            .await;
        assert_eq!(
            lines.recv().await.unwrap(),
            r#"{"jsonrpc":"2.0","id":9007199254740993,"result":{"text":"a\u2028b\nc"}}"#
        );
        assert_eq!(lines.recv().await, None);
    }

    #[test]
    fn a_forgotten_reply_answers_and_a_withdrawn_one_does_not() {
        let (forgotten, mut lines) = reply("\"a\"");
        drop(forgotten);
        let line = lines.try_recv().unwrap();
        assert!(
            line.contains(r#""id":"a""#) && line.contains("-32603"),
            "{line}"
        );

        let (cancelled, mut lines) = reply("1");
        cancelled.withdraw();
        assert!(lines.try_recv().is_err());
    }
}
