//! Progress of a call, as MCP notifications.

use sandbox_proto::agent::v1::Progress;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::escape;
use crate::reply;
use crate::stdio::Outbox;

/// Tells one call's progress to the client.
pub(super) struct ProgressReport<'a> {
    token: Box<RawValue>,
    outbox: &'a Outbox,
    told: Option<u32>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Params<'a> {
    progress_token: &'a RawValue,
    progress: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u32>,
    message: String,
}

impl<'a> ProgressReport<'a> {
    pub(super) fn new(token: Box<RawValue>, outbox: &'a Outbox) -> Self {
        Self {
            token,
            outbox,
            told: None,
        }
    }

    /// Tells where the call is, if that is further than before: MCP wants rising numbers.
    pub(super) fn tell(&mut self, progress: &Progress) {
        if self.told.is_some_and(|told| progress.done <= told) {
            return;
        }
        self.told = Some(progress.done);
        let params = Params {
            progress_token: &self.token,
            progress: progress.done,
            total: Some(progress.total).filter(|total| *total > 0),
            message: escape::for_reader(&progress.phase),
        };
        // A client that does not read misses progress; waiting for it would hold up the answer.
        self.outbox
            .try_send(reply::notification("notifications/progress", &params))
            .unwrap_or_default();
    }
}
