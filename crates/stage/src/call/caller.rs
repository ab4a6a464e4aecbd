//! The caller of a request: where its request is, and what becomes of that when the caller leaves.
//!
//! A caller leaves by dropping the future of its call. An event that is queued is taken out of the
//! accounts of its queue at once, and one that runs is asked to end; both are *abandoned*.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use crate::queue::EventMetadata;

/// What a reply and the future of its call know of each other.
#[derive(Default)]
pub(super) struct Call {
    /// [`WAITS`], [`LEFT`], or the number of the event that was queued when the caller left.
    left: AtomicU64,
    /// How many events have carried the reply.
    events: AtomicU64,
    state: Mutex<CallState>,
}

#[derive(Default)]
struct CallState {
    whereabouts: Whereabouts,
    /// The stage that the request was passed on to; none while it is where its caller sent it.
    stage: Option<Arc<str>>,
    /// Of the caller, while it waits.
    waker: Option<Waker>,
}

const WAITS: u64 = 0;
const LEFT: u64 = u64::MAX;

/// Where a request is.
#[derive(Default)]
enum Whereabouts {
    /// In no queue and with no worker that could be asked to end it.
    #[default]
    Elsewhere,
    /// In this queue, as the event of this number.
    Queued { queue: Weak<dyn QueueOfCalls>, event: u64, meta: EventMetadata },
    /// Run by this worker, under this number.
    Running { worker: Weak<dyn RunsCalls>, sequence: u64 },
    /// Answered, or its caller has left.
    Over,
    /// The caller has been told that it is overdue, though its handler goes on.
    Overdue,
}

/// A queue whose events may have callers.
pub(crate) trait QueueOfCalls: Send + Sync {
    /// Counts the event of `caller` as abandoned; `false` if it is queued here no more.
    fn abandon(&self, caller: &Caller) -> bool;
}

/// A worker whose events may have callers.
pub(crate) trait RunsCalls: Send + Sync {
    /// Asks the event that it runs under this number to end, for its caller has left.
    fn abandon(&self, sequence: u64);
}

/// The caller of a request, as one event that carries its reply knows it.
pub(crate) struct Caller {
    call: Arc<Call>,
    /// Which of the events it is, from 1.
    event: u64,
}

impl Call {
    /// The caller for another event that carries the reply.
    pub(super) fn caller(self: &Arc<Self>) -> Caller {
        let event = self.events.fetch_add(1, Ordering::Relaxed) + 1;
        Caller { call: Arc::clone(self), event }
    }

    /// The reply is sent, or dropped: what the handler does from now on is not for the caller.
    /// `false` if that does not wait any more.
    pub(super) fn answer(&self) -> bool {
        let whereabouts = &mut self.state.lock().whereabouts;
        let waits = !whereabouts.is_over();
        if waits {
            *whereabouts = Whereabouts::Over;
        }
        waits
    }

    /// The request is passed on to another stage.
    pub(super) fn pass_on(&self, stage: &Arc<str>) {
        self.state.lock().stage = Some(Arc::clone(stage));
    }

    /// The stage that the request was passed on to last.
    pub(super) fn stage(&self) -> Option<Arc<str>> {
        self.state.lock().stage.clone()
    }

    /// Ready when the caller is told that its request is overdue.
    pub(super) fn poll_overdue(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if matches!(state.whereabouts, Whereabouts::Overdue) {
            return Poll::Ready(());
        }
        let before = match &state.waker {
            Some(waker) if waker.will_wake(cx.waker()) => None,
            _ => state.waker.replace(cx.waker().clone()),
        };
        drop(state);
        // With a waker may go the task that it would have woken.
        drop(before);
        Poll::Pending
    }

    /// The caller leaves, if it has no answer.
    pub(super) fn leave(self: &Arc<Self>) {
        loop {
            let mut state = self.state.lock();
            if let Whereabouts::Queued { queue, event, .. } = &state.whereabouts
                && let Some(queue) = queue.upgrade()
            {
                let caller = Caller { call: Arc::clone(self), event: *event };
                // A queue locks itself first and then this.
                drop(state);
                if queue.abandon(&caller) {
                    return;
                }
                // It was taken out meanwhile.
                continue;
            }
            let waker = state.waker.take();
            let before = std::mem::replace(&mut state.whereabouts, Whereabouts::Over);
            if !before.is_over() {
                self.left.store(LEFT, Ordering::Release);
            }
            drop(state);
            drop(waker);
            if let Whereabouts::Running { worker, sequence } = before
                && let Some(worker) = worker.upgrade()
            {
                worker.abandon(sequence);
            }
            return;
        }
    }
}

impl Whereabouts {
    /// Whether the caller does not wait any more.
    fn is_over(&self) -> bool {
        matches!(self, Self::Over | Self::Overdue)
    }
}

impl Caller {
    /// The event enters a queue. Called under the lock of its stage.
    pub(crate) fn on_queued(&self, queue: Weak<dyn QueueOfCalls>, meta: &EventMetadata) {
        let whereabouts = &mut self.call.state.lock().whereabouts;
        if !whereabouts.is_over() {
            *whereabouts = Whereabouts::Queued { queue, event: self.event, meta: *meta };
        }
    }

    /// The event leaves its queue. Called under the lock of its stage.
    pub(crate) fn on_removal(&self) {
        let whereabouts = &mut self.call.state.lock().whereabouts;
        if matches!(*whereabouts, Whereabouts::Queued { event, .. } if event == self.event) {
            *whereabouts = Whereabouts::Elsewhere;
        }
    }

    /// The caller leaves while the event is queued: what the queue knows of the event, unless it is
    /// queued no more. Called under the lock of its stage.
    pub(crate) fn leave_queue(&self) -> Option<EventMetadata> {
        let whereabouts = &mut self.call.state.lock().whereabouts;
        let Whereabouts::Queued { event, meta, .. } = *whereabouts else { return None };
        if event != self.event {
            return None;
        }
        *whereabouts = Whereabouts::Over;
        self.call.left.store(event, Ordering::Release);
        Some(meta)
    }

    /// The worker begins the event under this number. If the caller has left just now, the worker
    /// is asked to end it.
    pub(crate) fn on_begin<W: RunsCalls + 'static>(&self, worker: &Arc<W>, sequence: u64) {
        let whereabouts = &mut self.call.state.lock().whereabouts;
        if !whereabouts.is_over() {
            let worker = Arc::downgrade(worker);
            *whereabouts = Whereabouts::Running { worker, sequence };
        } else if self.has_left() {
            worker.abandon(sequence);
        }
    }

    /// The event that the worker runs under this number is overdue, whatever its handler does: the
    /// caller is told so. `false` if it does not wait for that event any more.
    pub(crate) fn end_overdue(&self, worker: &dyn RunsCalls, sequence: u64) -> bool {
        let mut state = self.call.state.lock();
        let runs = matches!(&state.whereabouts, Whereabouts::Running { worker: runs, sequence: of }
            if *of == sequence && std::ptr::addr_eq(runs.as_ptr(), worker));
        if !runs {
            return false;
        }
        state.whereabouts = Whereabouts::Overdue;
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        true
    }

    /// Whether the caller has left without an answer.
    pub(crate) fn has_left(&self) -> bool {
        self.call.left.load(Ordering::Acquire) != WAITS
    }

    /// Whether it left while this event was queued, which is accounted for then.
    pub(crate) fn left_queue(&self) -> bool {
        self.call.left.load(Ordering::Acquire) == self.event
    }
}

impl Clone for Caller {
    /// For a clone of the event, which is another one.
    fn clone(&self) -> Self {
        self.call.caller()
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller").field("has_left", &self.has_left()).finish_non_exhaustive()
    }
}
