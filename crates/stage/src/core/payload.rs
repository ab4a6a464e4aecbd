//! The event of a stage that has a queue and workers.

use super::item::{Discard, Item};
use crate::call::{Cause, with_cause};
use crate::panics::contained;

/// An event in a queue.
pub(crate) struct Payload<E>(pub(crate) E);

/// Drops an event; a destructor that panics harms nobody else.
pub(crate) fn destroy<E>(event: E, cause: Cause) {
    // The panic has been reported by its hook; there is nothing to add.
    let _ = contained(|| with_cause(cause, || drop(event)));
}

impl<E: Send> Item for Payload<E> {
    fn discard(self, why: Discard) {
        let cause = match why {
            Discard::Dropped => Cause::Dropped,
            Discard::Terminated => Cause::Terminated,
            Discard::Closed => Cause::Closed,
        };
        destroy(self.0, cause);
    }
}
