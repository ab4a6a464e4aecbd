//! Where a worker keeps its handler.

use crate::call::Cause;
use crate::handler::Batch;
use crate::panics::contained;

/// A handler, made by the stage's factory and replaced when it can no longer be
/// trusted.
pub(super) struct HandlerSlot<'a, H, F> {
    factory: &'a F,
    /// None if the factory panicked.
    handler: Option<H>,
}

impl<'a, H, F: Fn() -> H> HandlerSlot<'a, H, F> {
    pub(super) fn new<E: Send + 'static>(factory: &'a F, batch: &Batch<E>) -> Self {
        let mut slot = Self { factory, handler: None };
        slot.renew(batch);
        slot
    }

    /// Has another handler made.
    pub(super) fn renew<E: Send + 'static>(&mut self, batch: &Batch<E>) {
        self.clear();
        match contained(self.factory) {
            Ok(handler) => self.handler = Some(handler),
            Err(panic) => batch.core().note_failure(panic.to_string()),
        }
    }

    /// The handler for the events of `batch`; if none can be made, the next of
    /// them fails.
    pub(super) fn handler<E: Send + 'static>(&mut self, batch: &mut Batch<E>) -> Option<&mut H> {
        if self.handler.is_none() {
            self.renew(batch);
        }
        if self.handler.is_none() {
            batch.fail_next(Cause::Panicked);
        }
        self.handler.as_mut()
    }
}

impl<H, F> HandlerSlot<'_, H, F> {
    fn clear(&mut self) {
        let handler = self.handler.take();
        // It is gone, even if it went with a panic.
        let _ = contained(|| drop(handler));
    }
}

impl<H, F> Drop for HandlerSlot<'_, H, F> {
    fn drop(&mut self) {
        self.clear();
    }
}
