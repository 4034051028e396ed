//! The one reason to look at a pod, if there is one.
//!
//! From the whole to the part: what is being done to the pod, what ended it, why it has no node, and
//! then its containers, the most telling one. A pod that is merely starting has no finding.

use std::borrow::Cow;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodCondition;

use super::view::{Container, PROBATION, View, termination_reason};

/// A reason, the container it is about (empty: the pod), and Kubernetes' own words for it.
pub(super) struct Finding<'a> {
    pub(super) reason: Cow<'a, str>,
    pub(super) container: &'a str,
    pub(super) message: &'a str,
}

impl<'a> Finding<'a> {
    /// What is wrong with the pod at `now`.
    pub(super) fn of(view: &View<'a>, now: Timestamp) -> Option<Self> {
        if view.reason() == "NodeLost" {
            return Some(Self::of_pod(view.reason(), view.message()));
        }
        if view.is_terminating() {
            return Some(terminating(view));
        }
        match view.phase() {
            // Whatever its sidecars were killed with on the way out.
            "Succeeded" => None,
            "Failed" => Some(failed(view)),
            "Unknown" => Some(Self::of_pod(or(view.reason(), "Unknown"), view.message())),
            _ => pod_level(view)
                .or_else(|| not_scheduled(view))
                .or_else(|| stuck_init_container(view))
                .or_else(|| worst_container(view, view.containers()))
                .or_else(|| restarted_lately(view, now))
                .or_else(|| not_ready(view)),
        }
    }

    fn of_pod(reason: &'a str, message: &'a str) -> Self {
        Self {
            reason: reason.into(),
            container: "",
            message,
        }
    }

    fn of_condition(condition: &'a PodCondition, otherwise: &'static str) -> Self {
        let reason = condition.reason.as_deref().unwrap_or_default();
        Self::of_pod(
            or(reason, otherwise),
            condition.message.as_deref().unwrap_or_default(),
        )
    }
}

fn terminating<'a>(view: &View<'a>) -> Finding<'a> {
    match disruption(view) {
        Some(condition) => Finding::of_condition(condition, "Terminating"),
        None => Finding::of_pod("Terminating", ""),
    }
}

/// Why the cluster itself is ending the pod: preemption, eviction, a node that is gone.
fn disruption<'a>(view: &View<'a>) -> Option<&'a PodCondition> {
    view.condition("DisruptionTarget")
        .filter(|condition| condition.status == "True")
}

/// A failed pod is over: containers that still say they run or wait are not believed.
fn failed<'a>(view: &View<'a>) -> Finding<'a> {
    pod_level(view)
        .or_else(|| disruption(view).map(|it| Finding::of_condition(it, "DisruptionTarget")))
        .or_else(|| worst_container(view, view.containers()))
        .or_else(|| worst_container(view, view.init_containers()))
        .unwrap_or_else(|| Finding::of_pod("Failed", view.message()))
}

/// `status.reason`: Evicted, Preempting, `DeadlineExceeded`, `UnexpectedAdmissionError`, ...
fn pod_level<'a>(view: &View<'a>) -> Option<Finding<'a>> {
    let reason = view.reason();
    (!reason.is_empty()).then(|| Finding::of_pod(reason, view.message()))
}

/// Unschedulable with the scheduler's words, or held back by a gate.
fn not_scheduled<'a>(view: &View<'a>) -> Option<Finding<'a>> {
    let scheduled = view.condition("PodScheduled")?;
    (scheduled.status == "False").then(|| Finding::of_condition(scheduled, "Unschedulable"))
}

/// The first init container that is not through, if it is failing. While it does, the containers
/// after it wait in `PodInitializing`, and that says nothing.
fn stuck_init_container<'a>(view: &View<'a>) -> Option<Finding<'a>> {
    let current = view
        .current_init_container()
        .map(|(_, container)| container);
    worst_container(view, current.into_iter())
}

/// The container with the worst trouble; of equals, the first.
fn worst_container<'a>(
    view: &View<'a>,
    containers: impl Iterator<Item = Container<'a>>,
) -> Option<Finding<'a>> {
    let ranked = containers.filter_map(|container| Some((trouble(view, container)?, container)));
    let worst = ranked.reduce(|worst, next| if next.0 > worst.0 { next } else { worst });
    let (trouble, container) = worst?;
    let (reason, message) = match (trouble, container.terminated()) {
        (Trouble::Ended | Trouble::Failed, Some(terminated)) => {
            (termination_reason(terminated).into(), &terminated.message)
        }
        _ => (
            container.waiting_reason().into(),
            &container.waiting()?.message,
        ),
    };
    Some(Finding {
        reason,
        container: container.name(),
        message: message.as_deref().unwrap_or_default(),
    })
}

/// From bad to worse.
#[derive(Clone, Copy, Eq, Ord, PartialEq, PartialOrd)]
enum Trouble {
    /// Ended well, where it should have stayed up.
    Ended,
    /// Ended badly.
    Failed,
    /// Cannot start, or is no longer started at once.
    Held,
}

fn trouble(view: &View<'_>, container: Container<'_>) -> Option<Trouble> {
    if let Some(terminated) = container.terminated() {
        let ended_well = terminated.exit_code == 0 && terminated.signal.unwrap_or(0) == 0;
        return match ended_well {
            false => Some(Trouble::Failed),
            true if view.restarts_always() && !view.has_ended() => Some(Trouble::Ended),
            true => None,
        };
    }
    match container.waiting_reason() {
        "" | "ContainerCreating" | "PodInitializing" => None,
        _ => Some(Trouble::Held),
    }
}

/// A container that is up again, but not for long enough to say that it stays up.
fn restarted_lately<'a>(view: &View<'a>, now: Timestamp) -> Option<Finding<'a>> {
    let sidecars = view
        .init_containers()
        .filter(|container| container.is_sidecar);
    let restarted = sidecars.chain(view.containers()).filter_map(|container| {
        let before = container.terminated_before()?;
        let ended = before.finished_at.as_ref()?.0;
        let up_for = now.duration_since(ended).unsigned_abs();
        (container.is_running() && up_for < PROBATION).then_some((ended, container, before))
    });
    let (_, container, before) = restarted.max_by_key(|(ended, ..)| *ended)?;
    Some(Finding {
        reason: termination_reason(before).into(),
        container: container.name(),
        message: before.message.as_deref().unwrap_or_default(),
    })
}

/// Up, but not ready: by its own probe, or because a readiness gate is missing.
fn not_ready<'a>(view: &View<'a>) -> Option<Finding<'a>> {
    if view.phase() != "Running" {
        return None;
    }
    let ready = view.condition("Ready");
    let sidecars = view
        .init_containers()
        .filter(|container| container.is_sidecar);
    let mut containers = sidecars.chain(view.containers());
    let unready = containers.find(|container| !container.status.ready);
    let container = unready.map_or("", Container::name);
    match ready {
        Some(ready) if ready.status == "True" && unready.is_none() => None,
        Some(ready) if ready.status != "True" => Some(Finding {
            container,
            ..Finding::of_condition(ready, "NotReady")
        }),
        _ => Some(Finding {
            container,
            ..Finding::of_pod("ContainersNotReady", "")
        }),
    }
}

fn or<'a>(text: &'a str, otherwise: &'static str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}
