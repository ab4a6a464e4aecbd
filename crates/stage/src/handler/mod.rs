//! Handlers: the user's code that runs inside a stage.

mod batch;
mod context;
mod functions;
mod test_context;

use std::future::Future;

use crate::call::BoxError;

pub use batch::Batch;
pub use context::{Context, Shield};
pub(crate) use functions::{AnswerFn, EventFn};
pub use functions::{StageFn, blocking_fn, stage_fn};
pub use test_context::TestContext;

/// Events that a worker takes at once where they are handled in batches: enough to share the cost
/// of a lock and a wake-up, few enough that one worker does not hoard a queue.
const DEFAULT_BATCH: u32 = 32;

/// Async work on the events of a stage that runs `tasks`.
///
/// Each worker has a handler of its own, made by the stage's factory, so `self`
/// is private state that needs no lock. A handler sees events, and never threads,
/// queues or settings.
///
/// At an await the event that runs may be terminated: the future returned by
/// [`handle`](Self::handle) is then dropped, and called anew for the rest of the batch. It is when it
/// is overdue, and when its caller has left.
/// What must not be torn by that is held behind [`Context::shield`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no handler of tasks for events of type `{E}`",
    label = "does not implement `Handler<{E}>`",
    note = "`tasks` takes a function that makes a handler for each worker; for an async function of \
            one request use `StageBuilder::handler`, of one event `StageBuilder::event_handler`",
    note = "blocking work implements `BlockingHandler`, and runs in `StageBuilder::threads`"
)]
pub trait Handler<E: Send + 'static>: Send + 'static {
    /// Events that a worker takes at once, unless its stage states it: 32. What hands each to a
    /// function that may take long takes 1.
    fn batch() -> u32
    where
        Self: Sized,
    {
        DEFAULT_BATCH
    }

    /// Takes events from `batch`, normally until it is empty.
    ///
    /// # Errors
    /// What the event that was taken last failed of; the events not yet taken are
    /// offered again.
    fn handle(&mut self, batch: &mut Batch<E>)
    -> impl Future<Output = Result<(), BoxError>> + Send;
}

/// Blocking or CPU-bound work on the events of a stage that runs on `threads`.
///
/// As [`Handler`], but an event is terminated only where the handler asks
/// [`Context::checkpoint`] whether it should be. The caller of an event that is overdue gets
/// [`CallError::Terminated`](crate::CallError::Terminated) at once, whatever the handler does, also
/// within a [shield](Context::shield). The event counts as running, and its thread as busy, until the
/// handler is done with it, and as terminated then.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no blocking handler for events of type `{E}`",
    label = "does not implement `BlockingHandler<{E}>`",
    note = "`threads` takes a function that makes a handler for each worker; for a function of one \
            request use `StageBuilder::blocking_handler`",
    note = "async work implements `Handler`, and runs in `StageBuilder::tasks`"
)]
pub trait BlockingHandler<E: Send + 'static>: Send + 'static {
    /// Events that a worker takes at once, unless its stage states it: 32. What hands each to a
    /// function that may take long takes 1.
    fn batch() -> u32
    where
        Self: Sized,
    {
        DEFAULT_BATCH
    }

    /// Takes events from `batch`, normally until it is empty.
    ///
    /// # Errors
    /// What the event that was taken last failed of; the events not yet taken are
    /// offered again.
    fn handle(&mut self, batch: &mut Batch<E>) -> Result<(), BoxError>;
}
