//! What waits in a stage's queue.

use std::sync::Arc;

use tamarisk_control::{Change, Timestamp};

use super::Core;
use super::in_service::ServiceSlot;
use crate::observe::Outcome;
use crate::queue::{EventMetadata, Queued};

/// Something that waits in a stage's queue.
pub(crate) trait Item: Send + Sized {
    /// Whether it is itself what runs (the caller at a gate), so that the stage
    /// starts it as soon as there is a place, instead of giving it to a worker.
    const BRINGS_WORKER: bool = false;

    /// It enters the queue of `core`, under the stage's lock.
    fn on_queued(&self, _core: &Arc<Core<Self>>, _meta: &EventMetadata) {}

    /// It leaves the queue. Called under the stage's lock, so that it is never
    /// both in the queue and accounted for as something else.
    fn on_removal(&self, _how: Removal) {}

    /// It may run; called after the lock, for items that bring their worker.
    fn start(self) {}

    /// It will not run: notifies what waits for it. Called without the lock.
    fn discard(self, why: DiscardReason);

    /// Whether its caller left while it was queued: it is accounted for already.
    fn is_abandoned(&self) -> bool {
        false
    }
}

/// How an item leaves the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    /// To run; under a permit, in this slot.
    Started(Timestamp, Option<ServiceSlot>),
    Discarded(DiscardReason),
}

/// Why an event is taken out without an answer from its handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiscardReason {
    Dropped,
    Terminated,
    Closed,
    /// Its caller has left.
    Abandoned,
}

impl DiscardReason {
    /// The outcome of an event that had not begun.
    pub(super) fn outcome(self) -> Outcome {
        match self {
            Self::Dropped | Self::Terminated | Self::Closed => Outcome::Dropped,
            Self::Abandoned => Outcome::Abandoned,
        }
    }

    /// What the law is told of it.
    pub(super) fn change(self) -> Change {
        match self {
            Self::Dropped | Self::Terminated | Self::Closed => Change::Dropped,
            Self::Abandoned => Change::Abandoned,
        }
    }
}

pub(crate) fn discard<T: Item>(items: impl IntoIterator<Item = Queued<T>>, why: DiscardReason) {
    for queued in items {
        queued.item.discard(why);
    }
}
