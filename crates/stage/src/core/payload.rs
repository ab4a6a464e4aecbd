//! The event of a stage that has a queue and workers.

use std::sync::Arc;

use super::Core;
use super::item::{DiscardReason, Item, Removal, discard};
use crate::call::{Caller, Cause, QueueOfCalls, with_cause};
use crate::panics::contained;
use crate::queue::EventMetadata;

/// An event in a queue.
pub(crate) struct Payload<E> {
    pub(crate) event: E,
    /// The caller that waits for it, if one does.
    pub(crate) caller: Option<Caller>,
}

impl<E> Payload<E> {
    /// Whether it has a caller that has left.
    pub(crate) fn has_left(&self) -> bool {
        self.caller.as_ref().is_some_and(Caller::has_left)
    }
}

/// Drops an event; a panic of its destructor is contained.
fn destroy<E>(event: E, cause: Cause) {
    // The panic has been reported by its hook; there is nothing to add.
    let _ = contained(|| with_cause(cause, || drop(event)));
}

impl<E: Send + 'static> Item for Payload<E> {
    fn on_queued(&self, core: &Arc<Core<Self>>, meta: &EventMetadata) {
        if let Some(caller) = &self.caller {
            let queue: Arc<dyn QueueOfCalls> = Arc::clone(core) as _;
            caller.on_queued(Arc::downgrade(&queue), meta);
        }
    }

    fn on_removal(&self, _how: Removal) {
        if let Some(caller) = &self.caller {
            caller.on_removal();
        }
    }

    fn discard(self, why: DiscardReason) {
        let cause = match why {
            // No caller is there to get this one.
            DiscardReason::Dropped | DiscardReason::Abandoned => Cause::Dropped,
            DiscardReason::Terminated => Cause::Terminated,
            DiscardReason::Closed => Cause::Closed,
        };
        destroy(self.event, cause);
    }

    fn is_abandoned(&self) -> bool {
        self.caller.as_ref().is_some_and(Caller::left_queue)
    }
}

impl<E: Send + 'static> QueueOfCalls for Core<Payload<E>> {
    fn abandon(&self, caller: &Caller) -> bool {
        let now = self.clock.now();
        let mut state = self.lock();
        let Some(meta) = caller.leave_queue() else { return false };
        let swept = state.abandon(now, &meta);
        self.dispatch(state, now, 1);
        discard(swept, DiscardReason::Abandoned);
        true
    }
}
