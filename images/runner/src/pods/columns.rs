//! The columns of `kubectl get pods`: READY, STATUS and RESTARTS, value for value.
//!
//! The API server itself fills them when a client asks for a Table, so the rules are its own; the
//! cluster test compares with that Table. People know these words, and search for them.

use super::view::{Container, View, termination_reason};

/// READY (two numbers), STATUS and RESTARTS.
pub(super) struct Columns {
    pub(super) status: String,
    pub(super) ready: u32,
    pub(super) containers: u32,
    pub(super) restarts: u32,
}

impl Columns {
    pub(super) fn of(view: &View<'_>) -> Self {
        let mut columns = Self {
            status: before_any_container(view).to_owned(),
            ready: 0,
            containers: view.container_count().try_into().unwrap_or(u32::MAX),
            restarts: 0,
        };
        let initialising = columns.add_init_containers(view);
        if !initialising || view.is_initialised() {
            columns.add_containers(view);
        }
        if let Some(status) = deleted(view) {
            status.clone_into(&mut columns.status);
        }
        columns
    }

    /// Goes through the init containers up to the first that is not through, which sets the status.
    /// Returns whether there is one.
    fn add_init_containers(&mut self, view: &View<'_>) -> bool {
        for (index, container) in view.init_containers().enumerate() {
            self.restarts = self.restarts.saturating_add(container.restarts());
            let terminated = container.terminated();
            if terminated.is_some_and(|terminated| terminated.exit_code == 0) {
                continue;
            }
            if container.is_sidecar && container.has_started() {
                self.ready += u32::from(container.status.ready);
                continue;
            }
            self.status = match (terminated, container.waiting_reason()) {
                (Some(terminated), _) => format!("Init:{}", termination_reason(terminated)),
                (None, "" | "PodInitializing") => {
                    format!("Init:{index}/{}", view.init_container_count())
                }
                (None, reason) => format!("Init:{reason}"),
            };
            return true;
        }
        false
    }

    /// Goes through the containers. The first of them with something to tell sets the status.
    fn add_containers(&mut self, view: &View<'_>) {
        // Once they are through, restarts of plain init containers are history.
        let sidecars = view
            .init_containers()
            .filter(|container| container.is_sidecar);
        self.restarts = sum_of_restarts(sidecars.chain(view.containers()));
        let mut any_ready = false;
        for container in view.containers().rev() {
            match (container.terminated(), container.waiting_reason()) {
                (Some(terminated), "") => self.status = termination_reason(terminated),
                (None, "") if container.status.ready && container.is_running() => {
                    any_ready = true;
                    self.ready += 1;
                }
                (None, "") => {}
                (_, reason) => reason.clone_into(&mut self.status),
            }
        }
        if self.status == "Completed" && any_ready {
            let is_ready = view
                .condition("Ready")
                .is_some_and(|ready| ready.status == "True");
            let status = if is_ready { "Running" } else { "NotReady" };
            status.clone_into(&mut self.status);
        }
    }
}

fn before_any_container<'a>(view: &View<'a>) -> &'a str {
    let scheduled = view.condition("PodScheduled");
    if scheduled.is_some_and(|scheduled| scheduled.reason.as_deref() == Some("SchedulingGated")) {
        return "SchedulingGated";
    }
    match view.reason() {
        "" => view.phase(),
        reason => reason,
    }
}

fn deleted(view: &View<'_>) -> Option<&'static str> {
    if view.pod.metadata.deletion_timestamp.is_some() && view.reason() == "NodeLost" {
        return Some("Unknown");
    }
    view.is_terminating().then_some("Terminating")
}

fn sum_of_restarts<'a>(containers: impl Iterator<Item = Container<'a>>) -> u32 {
    containers.fold(0, |sum, container| sum.saturating_add(container.restarts()))
}
