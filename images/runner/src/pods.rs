//! From a Pod as Kubernetes writes it to what people ask about one.
//!
//! `phase`, `status`, `ready` and `restarts` say what `kubectl get pods` says; `reason` says what to
//! look at, which its STATUS column often hides (behind a finished neighbour, or between two
//! crashes). Pure: the same pod at the same time gives the same summary.

mod view;
mod columns;
mod finding;
mod termination;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sandbox_proto::runner::v1 as proto;

use crate::text::clip;
use columns::Columns;
use finding::Finding;
use view::View;

/// The longest message before what clipping adds, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 512;

/// The longest name, status or reason before that. Kubernetes' own names have 253 at most; reasons
/// are free text.
pub const MAX_WORD_BYTES: usize = 253;

/// What people ask about `pod`, at `now`.
#[must_use]
pub fn summarise(pod: &Pod, now: Timestamp) -> proto::Pod {
    let view = View::new(pod);
    let columns = Columns::of(&view);
    let finding = Finding::of(&view, now);
    let word = |text: &str| clip(text, MAX_WORD_BYTES);
    let metadata = &pod.metadata;
    proto::Pod {
        name: word(metadata.name.as_deref().unwrap_or_default()),
        phase: word(view.phase()),
        status: word(&columns.status),
        ready: columns.ready,
        containers: columns.containers,
        restarts: columns.restarts,
        healthy: finding.is_none() && view.is_doing_its_work(),
        last_termination: termination::last(&view),
        node: word(view.node()),
        age_seconds: metadata
            .creation_timestamp
            .as_ref()
            .map_or(0, |time| since(time, now)),
        terminating_seconds: terminating_since(&view)
            .map(|asked| now.as_second().saturating_sub(asked).max(0)),
        reason: finding
            .as_ref()
            .map(|found| word(&found.reason))
            .unwrap_or_default(),
        container: finding
            .as_ref()
            .map(|found| word(found.container))
            .unwrap_or_default(),
        message: finding
            .map(|found| clip(found.message, MAX_MESSAGE_BYTES))
            .unwrap_or_default(),
    }
}

fn since(time: &Time, now: Timestamp) -> i64 {
    (now.as_second() - time.0.as_second()).max(0)
}

/// The second at which deletion was asked for: Kubernetes notes when the grace period will be over.
fn terminating_since(view: &View<'_>) -> Option<i64> {
    let metadata = &view.pod.metadata;
    let over = metadata.deletion_timestamp.as_ref()?.0.as_second();
    let grace = metadata.deletion_grace_period_seconds.unwrap_or(0);
    Some(over.saturating_sub(grace))
}
