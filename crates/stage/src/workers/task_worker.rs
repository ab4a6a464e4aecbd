//! A worker on the async runtime.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use tamarisk_control::Timestamp;
use tokio::time::Sleep;

use super::handler_slot::HandlerSlot;
use super::{HandlerEnd, PoolWorker, record_end};
use crate::call::{BoxError, CallError, Cause, watch_replies, with_cause};
use crate::handler::{Batch, Handler};
use crate::panics::{Panic, contained};
use crate::worker::Worker;

pub(super) async fn serve<E, H, F>(mut this: PoolWorker<E>, factory: Arc<F>)
where
    E: Send + 'static,
    H: Handler<E>,
    F: Fn() -> Result<H, BoxError> + Send + Sync,
{
    let mut batch = this.batch();
    let mut slot = HandlerSlot::new(&*factory, &batch);
    let worker = Arc::clone(&this.worker);
    let mut timer =
        DeadlineTimer { worker: &worker, clock: this.pool.core.clock.clone(), set: None };
    loop {
        let (wait, most) = slot.pace();
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        if !this.fill(&mut batch, most).await {
            return;
        }
        while !batch.is_empty() {
            let offered = batch.len();
            let Some(handler) = slot.handler(&mut batch) else { continue };
            let end = run(handler, &mut batch, &mut timer).await;
            if !record_end(&mut batch, end, offered) {
                slot.renew(&batch);
            }
        }
        batch.release();
        // A worker that always finds work must let others of its thread run.
        tokio::task::coop::consume_budget().await;
    }
}

/// Runs the handler until it returns, panics, or is asked to end.
async fn run<E: Send + 'static>(
    handler: &mut impl Handler<E>,
    batch: &mut Batch<E>,
    timer: &mut DeadlineTimer<'_>,
) -> HandlerEnd {
    let worker = timer.worker;
    // A handler that is no `async fn` may panic before it has made its future.
    let (work, dropped) = watch_replies(|| contained(move || handler.handle(batch)));
    worker.note_unanswered(dropped.any);
    dropped.fail(|| CallError::Unanswered);
    let mut work = match work {
        Ok(work) => pin!(Some(work)),
        Err(panic) => return HandlerEnd::Panicked(panic),
    };
    let mut work = HandlerFuture(work.as_mut());
    let end = poll_fn(|cx| {
        worker.slot.register(cx.waker());
        if worker.slot.is_due() {
            return Poll::Ready(HandlerEnd::Terminated);
        }
        let (polled, dropped) = watch_replies(|| contained(|| work.poll(cx)));
        let polled = polled.map(|polled| polled.map_err(|error| worker.stage.share(error)));
        worker.note_unanswered(dropped.any);
        dropped.fail(|| match &polled {
            Ok(Poll::Ready(Err(error))) => CallError::returned(error),
            _ => CallError::Unanswered,
        });
        match polled {
            Err(panic) => Poll::Ready(HandlerEnd::Panicked(panic)),
            Ok(Poll::Ready(result)) => Poll::Ready(HandlerEnd::Returned(result)),
            Ok(Poll::Pending) if worker.slot.is_due() || timer.has_expired(cx) => {
                Poll::Ready(HandlerEnd::Terminated)
            }
            Ok(Poll::Pending) => Poll::Pending,
        }
    })
    .await;
    let cause = match &end {
        HandlerEnd::Returned(_) => Cause::Unanswered,
        HandlerEnd::Terminated => Cause::Terminated,
        HandlerEnd::Panicked(_) => Cause::Panicked,
    };
    work.end(cause).map_or_else(HandlerEnd::Panicked, |()| end)
}

/// A handler's future. Destroying it runs the user's code too; replies in it get the cause:
/// terminated, if the worker's own task is being dropped.
struct HandlerFuture<'a, F>(Pin<&'a mut Option<F>>);

impl<F: Future> HandlerFuture<'_, F> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.0.as_mut().as_pin_mut().expect("it is destroyed only after the end").poll(cx)
    }
}

impl<F> HandlerFuture<'_, F> {
    fn end(&mut self, cause: Cause) -> Result<(), Panic> {
        contained(|| with_cause(cause, || self.0.set(None)))
    }
}

impl<F> Drop for HandlerFuture<'_, F> {
    fn drop(&mut self) {
        // A panic has been reported by its hook.
        let _ = self.end(Cause::Terminated);
    }
}

/// Goes off when the running event is to end. Set only when the event has to
/// wait for something, so that events that do not wait cost no timer.
struct DeadlineTimer<'a> {
    worker: &'a Worker,
    clock: crate::Clock,
    set: Option<(Timestamp, Pin<Box<Sleep>>)>,
}

impl DeadlineTimer<'_> {
    /// Whether the running event is overdue and may be ended.
    fn has_expired(&mut self, cx: &mut Context<'_>) -> bool {
        let end = self.worker.end();
        let Some(sequence) = self.worker.slot.running() else { return false };
        if end == Timestamp::MAX {
            return false;
        }
        if self.set.as_ref().is_none_or(|(instant, _)| *instant != end) {
            let left = end.since(self.clock.now());
            self.set = Some((end, Box::pin(tokio::time::sleep(left))));
        }
        let Some((_, sleep)) = &mut self.set else { return false };
        if !sleep.is_elapsed() && sleep.as_mut().poll(cx).is_pending() {
            return false;
        }
        self.worker.slot.request(sequence);
        self.worker.slot.is_due()
    }
}
