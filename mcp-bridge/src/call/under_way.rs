//! Which calls are under way, so that a cancellation finds its call.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::message::Id;

/// The calls under way. Clones share the list.
///
/// A list and not a map: it is short, and a client that uses an id twice at once has both its calls
/// answered, and both cancelled.
#[derive(Clone, Debug, Default)]
pub(super) struct UnderWay(Arc<Mutex<List>>);

#[derive(Debug, Default)]
struct List {
    calls: Vec<Call>,
    /// Entries made so far.
    made: u64,
}

#[derive(Debug)]
struct Call {
    number: u64,
    id: Id,
    cancelled: CancellationToken,
}

/// One call's place in the list; dropping it ends it.
#[derive(Debug)]
pub(super) struct Entry {
    list: UnderWay,
    number: u64,
    cancelled: CancellationToken,
}

impl UnderWay {
    pub(super) fn enter(&self, id: Id) -> Entry {
        let cancelled = CancellationToken::new();
        let mut list = self.lock();
        list.made += 1;
        let number = list.made;
        list.calls.push(Call {
            number,
            id,
            cancelled: cancelled.clone(),
        });
        Entry {
            list: self.clone(),
            number,
            cancelled,
        }
    }

    pub(super) fn cancel(&self, id: &Id) {
        for call in self.lock().calls.iter().filter(|call| call.id == *id) {
            call.cancelled.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        // Nothing that can panic happens under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    pub(super) async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled.is_cancelled()
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.list
            .lock()
            .calls
            .retain(|call| call.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(json: &str) -> Id {
        Id::parse(json).unwrap()
    }

    #[test]
    fn a_cancellation_reaches_its_call_and_no_other_and_none_that_has_ended() {
        let calls = UnderWay::default();
        let (one, text) = (calls.enter(id("1")), calls.enter(id("\"1\"")));
        let twin = calls.enter(id("1"));
        drop(calls.enter(id("2")));
        calls.cancel(&id("2"));
        calls.cancel(&id("1"));
        calls.cancel(&id("1"));
        assert!(one.is_cancelled() && twin.is_cancelled() && !text.is_cancelled());
        drop((one, twin, text));
        assert!(calls.lock().calls.is_empty());
    }
}
