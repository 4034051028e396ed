//! What the pods in the sandbox namespace look like right now: one watch, shared by all who wait.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use tokio::sync::watch;

use super::job::{JobName, MANAGED_BY};
use crate::lifetime::Lifetime;
use crate::report::chain;

/// Pods of ours by the Job that owns them.
pub(super) type ByJob = Arc<BTreeMap<JobName, Arc<Pod>>>;

/// The view. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Pods(watch::Receiver<ByJob>);

impl Pods {
    /// Starts to watch.
    pub(super) fn watch(client: Client, namespace: &str, lifetime: &Lifetime) -> Self {
        let (sender, receiver) = watch::channel(ByJob::default());
        let api: Api<Pod> = Api::namespaced(client, namespace);
        let stop = lifetime.stop.clone();
        lifetime.spawn(async move {
            let selector = format!("{}={}", MANAGED_BY.0, MANAGED_BY.1);
            let config = watcher::Config::default().labels(&selector);
            let mut events = Box::pin(watcher::watcher(api, config));
            // A relist is collected apart and swapped in whole.
            let mut listing = BTreeMap::new();
            loop {
                let event = tokio::select! {
                    () = stop.cancelled() => return,
                    event = events.next() => event,
                };
                match event {
                    Some(Ok(Event::Init)) => listing.clear(),
                    Some(Ok(Event::InitApply(pod))) => {
                        if let Some(job) = owner(&pod) {
                            listing.insert(job, Arc::new(pod));
                        }
                    }
                    Some(Ok(Event::InitDone)) => {
                        sender.send_replace(Arc::new(std::mem::take(&mut listing)));
                    }
                    Some(Ok(Event::Apply(pod))) => {
                        if let Some(job) = owner(&pod) {
                            sender.send_modify(|all| {
                                Arc::make_mut(all).insert(job, Arc::new(pod));
                            });
                        }
                    }
                    Some(Ok(Event::Delete(pod))) => {
                        if let Some(job) = owner(&pod) {
                            sender.send_modify(|all| {
                                Arc::make_mut(all).remove(&job);
                            });
                        }
                    }
                    Some(Err(error)) => {
                        tracing::warn!(
                            error = chain(&error),
                            "the watch of the sandbox's pods broke; it starts again"
                        );
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    }
                    None => return,
                }
            }
        });
        Self(receiver)
    }

    /// Waits until `found` makes something of the Job's pod, or of its absence.
    pub(super) async fn wait<T>(
        &self,
        job: &JobName,
        mut found: impl FnMut(Option<&Arc<Pod>>) -> Option<T>,
    ) -> Option<T> {
        let mut view = self.0.clone();
        loop {
            if let Some(answer) = found(view.borrow_and_update().get(job)) {
                return Some(answer);
            }
            // The sender goes only when the daemon stops.
            view.changed().await.ok()?;
        }
    }
}

fn owner(pod: &Pod) -> Option<JobName> {
    let owner = pod
        .metadata
        .owner_references
        .iter()
        .flatten()
        .find(|o| o.kind == "Job")?;
    Some(JobName::existing(&owner.name))
}
