//! What waits in a stage's queue.

use tamarisk_control::Timestamp;

use super::in_service::ServiceSlot;
use crate::queue::Queued;

/// Something that waits in a stage's queue.
pub(crate) trait Item: Send + Sized {
    /// Whether it is itself what runs (the caller at a gate), so that the stage
    /// starts it as soon as there is a place, rather than hand it to a worker.
    const BRINGS_WORKER: bool = false;

    /// It leaves the queue. Called under the stage's lock, so that it is never
    /// both in the queue and accounted for as something else.
    fn leaving(&self, _how: Leaving) {}

    /// It may run; called after the lock, for items that bring their worker.
    fn start(self) {}

    /// It will not run: tells whoever waits for it, after the lock.
    fn discard(self, why: Discard);

    /// Whether its sender has left and it has been accounted for already.
    fn is_gone(&self) -> bool {
        false
    }
}

/// How an item leaves the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// To run; under a permit, in this slot.
    Started(Timestamp, Option<ServiceSlot>),
    Discarded(Discard),
}

/// Why an event is taken out without an answer from its handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Discard {
    Dropped,
    Terminated,
    Closed,
}

pub(crate) fn discard<T: Item>(items: impl IntoIterator<Item = Queued<T>>, why: Discard) {
    for queued in items {
        queued.item.discard(why);
    }
}
