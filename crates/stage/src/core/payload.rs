//! The event of a stage that has a queue and workers.

use super::item::{DiscardReason, Item};
use crate::call::{Cause, with_cause};
use crate::panics::contained;

/// An event in a queue.
pub(crate) struct Payload<E>(pub(crate) E);

/// Drops an event; a panic of its destructor is contained.
pub(crate) fn destroy<E>(event: E, cause: Cause) {
    // The panic has been reported by its hook; there is nothing to add.
    let _ = contained(|| with_cause(cause, || drop(event)));
}

impl<E: Send> Item for Payload<E> {
    fn discard(self, why: DiscardReason) {
        let cause = match why {
            DiscardReason::Dropped => Cause::Dropped,
            DiscardReason::Terminated => Cause::Terminated,
            DiscardReason::Closed => Cause::Closed,
        };
        destroy(self.0, cause);
    }
}
