//! A worker on the async runtime.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use tamarisk_control::Timestamp;
use tokio::time::Sleep;

use super::{Crew, Ran, settle};
use crate::batch::Batch;
use crate::call::{CallError, take_unanswered, with_cause};
use crate::context::Worker;
use crate::handler::Handler;

pub(super) async fn serve<E, H, F>(crew: Arc<Crew<E>>, worker: Arc<Worker>, factory: Arc<F>)
where
    E: Send + 'static,
    H: Handler<E>,
    F: Fn() -> H + Send + Sync,
{
    let mut batch = Batch::new(Arc::clone(&crew.core), Arc::clone(&worker));
    let mut alarm =
        Alarm { worker: Arc::clone(&worker), clock: crew.core.clock.clone(), set: None };
    let mut handler = factory();
    while batch.fill(crew.batching(), || crew.retires()).await {
        while !batch.is_empty() {
            let offered = batch.len();
            let ran = run(&mut handler, &mut batch, &worker, &mut alarm).await;
            if !settle(&mut batch, ran, offered) {
                handler = factory();
            }
        }
        batch.release();
        // A worker that always finds work must let others of its thread run.
        tokio::task::coop::consume_budget().await;
    }
    crew.leave(&worker);
}

/// Runs the handler until it returns, panics, or is told to end.
async fn run<E: Send + 'static>(
    handler: &mut impl Handler<E>,
    batch: &mut Batch<E>,
    worker: &Worker,
    alarm: &mut Alarm,
) -> Ran {
    let mut work = pin!(Some(handler.handle(batch)));
    let ran = poll_fn(|cx| {
        worker.slot.register(cx.waker());
        if worker.slot.is_due() {
            return Poll::Ready(Ran::Terminated);
        }
        let work = work.as_mut().as_pin_mut().expect("it is dropped only after the end");
        take_unanswered();
        let polled = catch_unwind(AssertUnwindSafe(|| work.poll(cx)));
        if polled.as_ref().is_ok_and(Poll::is_pending) && take_unanswered() {
            worker.unanswered.store(true, Ordering::Relaxed);
        }
        match polled {
            Err(panic) => Poll::Ready(Ran::Panicked(panic)),
            Ok(Poll::Ready(result)) => Poll::Ready(Ran::Returned(result)),
            Ok(Poll::Pending) if worker.slot.is_due() || alarm.rings(cx) => {
                Poll::Ready(Ran::Terminated)
            }
            Ok(Poll::Pending) => Poll::Pending,
        }
    })
    .await;
    if matches!(ran, Ran::Terminated) {
        // Destructors are the user's too: a panic in one ends this event only.
        let destroyed = catch_unwind(AssertUnwindSafe(|| {
            with_cause(CallError::Terminated, || work.set(None));
        }));
        if let Err(panic) = destroyed {
            return Ran::Panicked(panic);
        }
    }
    ran
}

/// Goes off at the deadline of the running event. Set only when the event has to
/// wait for something, so that events that do not wait cost no timer.
struct Alarm {
    worker: Arc<Worker>,
    clock: crate::Clock,
    set: Option<(Timestamp, Pin<Box<Sleep>>)>,
}

impl Alarm {
    /// Whether the running event is overdue and may be ended.
    fn rings(&mut self, cx: &mut Context<'_>) -> bool {
        let deadline = self.worker.deadline();
        let Some(sequence) = self.worker.slot.running() else { return false };
        if deadline == Timestamp::MAX {
            return false;
        }
        if self.set.as_ref().is_none_or(|(instant, _)| *instant != deadline) {
            let left = deadline.since(self.clock.now());
            self.set = Some((deadline, Box::pin(tokio::time::sleep(left))));
        }
        let Some((_, sleep)) = &mut self.set else { return false };
        if !sleep.is_elapsed() && sleep.as_mut().poll(cx).is_pending() {
            return false;
        }
        self.worker.slot.request(sequence);
        self.worker.slot.is_due()
    }
}
