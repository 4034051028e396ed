//! A Pod without its Options: what is missing reads as empty, as it does to Kubernetes.

use std::time::Duration;

use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, Pod,
    PodCondition,
};

/// A borrowed Pod, with the questions the summary asks of it.
pub(super) struct View<'a> {
    pub(super) pod: &'a Pod,
}

impl<'a> View<'a> {
    pub(super) fn new(pod: &'a Pod) -> Self {
        Self { pod }
    }

    pub(super) fn phase(&self) -> &'a str {
        self.status_text(|status| &status.phase)
    }

    /// `status.reason`, set by whoever ended the pod as a whole.
    pub(super) fn reason(&self) -> &'a str {
        self.status_text(|status| &status.reason)
    }

    pub(super) fn message(&self) -> &'a str {
        self.status_text(|status| &status.message)
    }

    pub(super) fn node(&self) -> &'a str {
        let spec = self.pod.spec.as_ref();
        spec.and_then(|spec| spec.node_name.as_deref())
            .unwrap_or_default()
    }

    /// Deletion was asked for and the pod has not ended by itself.
    pub(super) fn is_terminating(&self) -> bool {
        self.pod.metadata.deletion_timestamp.is_some() && !self.has_ended()
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.phase(), "Succeeded" | "Failed")
    }

    /// Succeeded, or up: the two states of a pod that nobody needs to look at.
    pub(super) fn is_doing_its_work(&self) -> bool {
        matches!(self.phase(), "Succeeded" | "Running")
    }

    /// Whether containers that end are started again whatever they ended with.
    pub(super) fn restarts_always(&self) -> bool {
        let spec = self.pod.spec.as_ref();
        let policy = spec.and_then(|spec| spec.restart_policy.as_deref());
        policy.unwrap_or("Always") == "Always"
    }

    pub(super) fn condition(&self, kind: &str) -> Option<&'a PodCondition> {
        let conditions = self.pod.status.as_ref()?.conditions.as_ref()?;
        conditions.iter().find(|condition| condition.type_ == kind)
    }

    pub(super) fn is_initialised(&self) -> bool {
        self.condition("Initialized")
            .is_some_and(|condition| condition.status == "True")
    }

    /// How many containers stay: those of the spec, and sidecars.
    pub(super) fn container_count(&self) -> usize {
        let Some(spec) = &self.pod.spec else {
            return 0;
        };
        let sidecars = spec.init_containers.iter().flatten();
        let sidecars = sidecars.filter(|container| is_always(container.restart_policy.as_deref()));
        spec.containers.len() + sidecars.count()
    }

    pub(super) fn init_container_count(&self) -> usize {
        let spec = self.pod.spec.as_ref();
        spec.and_then(|spec| spec.init_containers.as_ref())
            .map_or(0, Vec::len)
    }

    /// What the kubelet says of the init containers, sidecars among them, in order.
    pub(super) fn init_containers(&self) -> impl Iterator<Item = Container<'a>> {
        let spec = self.pod.spec.as_ref();
        let status = self.pod.status.as_ref();
        let statuses = status.and_then(|status| status.init_container_statuses.as_ref());
        statuses.into_iter().flatten().map(move |status| {
            let mut init = spec
                .into_iter()
                .flat_map(|spec| spec.init_containers.iter().flatten());
            let policy = init.find(|init| init.name == status.name);
            let policy = policy.and_then(|init| init.restart_policy.as_deref());
            Container {
                status,
                is_sidecar: is_always(policy),
            }
        })
    }

    /// The first init container that is not through, with its place: neither done nor, as a sidecar,
    /// up. `None` when all are through.
    pub(super) fn current_init_container(&self) -> Option<(usize, Container<'a>)> {
        let mut containers = self.init_containers().enumerate();
        containers.find(|(_, container)| !container.is_done() && !container.is_up_beside())
    }

    /// What the kubelet says of the containers, in order. Ephemeral ones are debugging aids: they
    /// are no part of the pod's work, and not asked about anywhere here.
    pub(super) fn containers(&self) -> impl DoubleEndedIterator<Item = Container<'a>> {
        let status = self.pod.status.as_ref();
        let statuses = status.and_then(|status| status.container_statuses.as_ref());
        statuses.into_iter().flatten().map(|status| Container {
            status,
            is_sidecar: false,
        })
    }

    fn status_text(
        &self,
        field: impl Fn(&'a k8s_openapi::api::core::v1::PodStatus) -> &'a Option<String>,
    ) -> &'a str {
        let status = self.pod.status.as_ref();
        status
            .and_then(|status| field(status).as_deref())
            .unwrap_or_default()
    }
}

fn is_always(policy: Option<&str>) -> bool {
    policy == Some("Always")
}

/// One container's status.
#[derive(Clone, Copy)]
pub(super) struct Container<'a> {
    pub(super) status: &'a ContainerStatus,
    /// An init container that stays up beside the others.
    pub(super) is_sidecar: bool,
}

impl<'a> Container<'a> {
    pub(super) fn name(self) -> &'a str {
        &self.status.name
    }

    /// Restarts so far; the API has a signed number that is never negative.
    pub(super) fn restarts(self) -> u32 {
        self.status.restart_count.try_into().unwrap_or(0)
    }

    pub(super) fn waiting(self) -> Option<&'a ContainerStateWaiting> {
        self.state()?.waiting.as_ref()
    }

    pub(super) fn waiting_reason(self) -> &'a str {
        let waiting = self.waiting();
        waiting
            .and_then(|waiting| waiting.reason.as_deref())
            .unwrap_or_default()
    }

    pub(super) fn terminated(self) -> Option<&'a ContainerStateTerminated> {
        self.state()?.terminated.as_ref()
    }

    pub(super) fn is_running(self) -> bool {
        self.state().is_some_and(|state| state.running.is_some())
    }

    /// Ended well.
    pub(super) fn is_done(self) -> bool {
        self.terminated()
            .is_some_and(|terminated| terminated.exit_code == 0)
    }

    /// A sidecar that has started and did not end well.
    pub(super) fn is_up_beside(self) -> bool {
        self.is_sidecar && self.status.started == Some(true) && !self.is_done()
    }

    /// How the run before this one ended.
    pub(super) fn terminated_before(self) -> Option<&'a ContainerStateTerminated> {
        self.status.last_state.as_ref()?.terminated.as_ref()
    }

    fn state(self) -> Option<&'a ContainerState> {
        self.status.state.as_ref()
    }
}

/// The reason of a termination; without one, the signal or exit code stands in.
pub(super) fn termination_reason(terminated: &ContainerStateTerminated) -> String {
    match terminated.reason.as_deref() {
        Some(reason) if !reason.is_empty() => reason.to_owned(),
        _ => match terminated.signal.unwrap_or(0) {
            0 => format!("ExitCode:{}", terminated.exit_code),
            signal => format!("Signal:{signal}"),
        },
    }
}

/// For how long after a restart a container is still on probation: the kubelet forgets a container's
/// crashes, and with them its back-off, once it has run for ten minutes (Kubernetes documentation,
/// "Pod Lifecycle", container restarts).
pub(super) const PROBATION: Duration = Duration::from_mins(10);
