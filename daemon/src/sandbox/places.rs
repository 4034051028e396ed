//! How many sandboxes there may be at once, whatever they are for, and who queues for room.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::job::Class;

/// As many reads as one Terraform has the memory of: so of the room there is, and of the cluster's quota.
pub(crate) const TERRAFORM_PLACES: usize = 4;

/// The room there is. Callers queue for it, in the order they came; spares never do.
pub(super) struct Places {
    max: usize,
    free: Arc<Semaphore>,
    queued: watch::Sender<Queued>,
}

/// Places that callers queue for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Queued {
    reads: u32,
    terraform: u32,
}

impl Queued {
    fn of(&mut self, class: Class) -> &mut u32 {
        match class {
            Class::Read => &mut self.reads,
            Class::Terraform => &mut self.terraform,
        }
    }
}

impl Places {
    pub(super) fn new(max: usize) -> Self {
        Self {
            max,
            free: Arc::new(Semaphore::new(max)),
            queued: watch::Sender::default(),
        }
    }

    /// Places that one of a class takes.
    pub(super) fn of(&self, class: Class) -> u32 {
        let places = match class {
            Class::Read => 1,
            Class::Terraform => TERRAFORM_PLACES.min(self.max),
        };
        u32::try_from(places).unwrap_or(u32::MAX)
    }

    /// How many of a class there is room for when there is nothing else.
    pub(super) fn most(&self, class: Class) -> usize {
        self.max / usize::try_from(self.of(class)).unwrap_or(usize::MAX)
    }

    /// The places of one sandbox, if they are free and nobody queues for them.
    pub(super) fn take_free(&self, class: Class) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.free)
            .try_acquire_many_owned(self.of(class))
            .ok()
    }

    /// The same, once they are free. Dropping it leaves the queue.
    pub(super) async fn wait(&self, class: Class) -> Option<OwnedSemaphorePermit> {
        if let Some(free) = self.take_free(class) {
            return Some(free);
        }
        let _queued = InQueue::enter(self, class);
        let wanted = Arc::clone(&self.free).acquire_many_owned(self.of(class));
        wanted.await.ok()
    }

    /// Places that callers of the other class queue for: those that idle spares of this one should leave.
    pub(super) fn asked_of(&self, class: Class) -> u32 {
        let queued = self.queued.borrow();
        match class {
            Class::Read => queued.terraform,
            Class::Terraform => queued.reads,
        }
    }

    /// Changes whenever somebody begins or ceases to queue.
    pub(super) fn queue(&self) -> watch::Receiver<Queued> {
        self.queued.subscribe()
    }
}

/// One caller in the queue, counted until it is dropped.
struct InQueue<'a> {
    places: &'a Places,
    class: Class,
}

impl<'a> InQueue<'a> {
    fn enter(places: &'a Places, class: Class) -> Self {
        let count = places.of(class);
        places
            .queued
            .send_modify(|queued| *queued.of(class) += count);
        Self { places, class }
    }
}

impl Drop for InQueue<'_> {
    fn drop(&mut self) {
        let count = self.places.of(self.class);
        let queued = &self.places.queued;
        queued.send_modify(|queued| *queued.of(self.class) -= count);
    }
}
