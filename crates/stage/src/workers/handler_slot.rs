//! Where a worker keeps its handler.

use std::time::Duration;

use tokio::time::Instant;

use crate::call::{BoxError, CallError, destroy_returned, share};
use crate::handler::Batch;
use crate::panics::contained;

/// After a factory has failed, its worker takes nothing for so long, and then one event, for which
/// it tries again: what the factory needs (a database, say) is not asked for it more often, and each
/// attempt costs one event at most.
const RETRY: Duration = Duration::from_secs(1);

/// A handler, made by the stage's factory and replaced when it can no longer be
/// trusted.
pub(super) struct HandlerSlot<'a, H, F> {
    factory: &'a F,
    made: Result<H, NoHandler>,
}

/// Why there is none.
struct NoHandler {
    error: CallError,
    since: Instant,
}

impl<'a, H, F: Fn() -> Result<H, BoxError>> HandlerSlot<'a, H, F> {
    pub(super) fn new<E: Send + 'static>(factory: &'a F, batch: &Batch<E>) -> Self {
        Self { factory, made: make(factory, batch) }
    }

    /// Has another handler made.
    pub(super) fn renew<E: Send + 'static>(&mut self, batch: &Batch<E>) {
        self.clear();
        self.made = make(self.factory, batch);
    }

    /// The handler for the events of `batch`; if none can be made, the next of
    /// them fails.
    pub(super) fn handler<E: Send + 'static>(&mut self, batch: &mut Batch<E>) -> Option<&mut H> {
        if self.made.is_err() {
            self.renew(batch);
        }
        match &mut self.made {
            Ok(handler) => Some(handler),
            Err(NoHandler { error, .. }) => {
                batch.fail_next(error.clone());
                None
            }
        }
    }
}

impl<H, F> HandlerSlot<'_, H, F> {
    /// How long the worker is to wait before it takes events, and how many it may take at most.
    pub(super) fn pace(&self) -> (Duration, u32) {
        match &self.made {
            Ok(_) => (Duration::ZERO, u32::MAX),
            Err(NoHandler { since, .. }) => (RETRY.saturating_sub(since.elapsed()), 1),
        }
    }

    fn clear(&mut self) {
        let none = NoHandler { error: CallError::Panicked, since: Instant::now() };
        let handler = std::mem::replace(&mut self.made, Err(none));
        // It is gone, even if it went with a panic.
        let _ = contained(|| drop(handler));
    }
}

impl<H, F> Drop for HandlerSlot<'_, H, F> {
    fn drop(&mut self) {
        self.clear();
    }
}

fn make<H, E: Send + 'static>(
    factory: impl Fn() -> Result<H, BoxError>,
    batch: &Batch<E>,
) -> Result<H, NoHandler> {
    let error = match contained(factory) {
        Ok(Ok(handler)) => return Ok(handler),
        Ok(Err(error)) => {
            let error = share(error, |_| false);
            let returned = CallError::returned(&error);
            batch.core().note_failure(returned.shown());
            destroy_returned(error);
            returned
        }
        Err(panic) => {
            batch.core().note_failure(panic.to_string());
            CallError::Panicked
        }
    };
    Err(NoHandler { error, since: Instant::now() })
}
