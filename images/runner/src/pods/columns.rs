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
        columns.add_init_containers(view);
        if view.current_init_container().is_none() || view.is_initialised() {
            columns.add_containers(view);
        }
        if let Some(status) = deleted(view) {
            status.clone_into(&mut columns.status);
        }
        columns
    }

    fn add_init_containers(&mut self, view: &View<'_>) {
        let ready = |container: &Container<'_>| container.is_up_beside() && container.status.ready;
        self.ready = count(reached(view).filter(ready));
        self.restarts = sum_of_restarts(reached(view));
        if let Some((index, container)) = view.current_init_container() {
            self.status = match (container.terminated(), container.waiting_reason()) {
                (Some(terminated), _) => format!("Init:{}", termination_reason(terminated)),
                (None, "" | "PodInitializing") => {
                    format!("Init:{index}/{}", view.init_container_count())
                }
                (None, reason) => format!("Init:{reason}"),
            };
        }
    }

    /// The first container with something to tell sets the status.
    fn add_containers(&mut self, view: &View<'_>) {
        // Restarts of plain init containers are history by now.
        let sidecars = reached(view).filter(|container| container.is_sidecar);
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
            let ready = view.condition("Ready");
            let is_ready = ready.is_some_and(|ready| ready.status == "True");
            let status = if is_ready { "Running" } else { "NotReady" };
            status.clone_into(&mut self.status);
        }
    }
}

/// The init containers up to the one that is not through yet. Those after it are not looked at.
fn reached<'a>(view: &View<'a>) -> impl Iterator<Item = Container<'a>> {
    let current = view.current_init_container();
    let last = current.map_or(usize::MAX, |(index, _)| index);
    view.init_containers().take(last.saturating_add(1))
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

fn count<'a>(containers: impl Iterator<Item = Container<'a>>) -> u32 {
    containers.count().try_into().unwrap_or(u32::MAX)
}
