//! The last time a container of the pod ended. Told always: a pod that is up right now may have been
//! down a second ago.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ContainerStateTerminated;
use sandbox_proto::runner::v1::LastTermination;

use super::MAX_WORD_BYTES;
use super::view::{Container, View, termination_reason};
use crate::text::clip;

/// The latest termination of any container; of two without a time, the later in the pod's order.
pub(super) fn last(view: &View<'_>) -> Option<LastTermination> {
    let containers = view
        .init_containers()
        .filter(|container| !went_as_planned(container));
    let containers = containers.chain(view.containers());
    let ended = containers.flat_map(|container| {
        let both = [container.terminated_before(), container.terminated()];
        both.into_iter()
            .flatten()
            .map(move |terminated| (container, terminated))
    });
    let (container, terminated) = ended.max_by_key(|(_, terminated)| finished_at(terminated))?;
    Some(LastTermination {
        container: clip(container.name(), MAX_WORD_BYTES),
        reason: clip(&termination_reason(terminated), MAX_WORD_BYTES),
        exit_code: terminated.exit_code,
        signal: terminated.signal.unwrap_or(0),
        finished_at: finished_at(terminated)
            .map(|time| time.to_string())
            .unwrap_or_default(),
    })
}

/// An init container that did its part at the first try. That it ended is how it should be, and
/// says nothing about the pod.
fn went_as_planned(container: &Container<'_>) -> bool {
    container.is_done() && container.terminated_before().is_none()
}

fn finished_at(terminated: &ContainerStateTerminated) -> Option<Timestamp> {
    terminated.finished_at.as_ref().map(|time| time.0)
}
