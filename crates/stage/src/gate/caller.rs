//! Callers that wait in a gate's queue for a permit.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use tamarisk_control::Timestamp;

use super::{EnterError, Gate, GatePermit};
use crate::core::{DiscardReason, Item, Removal, ServiceSlot, discard};
use crate::queue::EventMetadata;

/// A place in the gate's queue.
pub(super) struct QueuedCaller {
    pub(super) gate: Gate,
    pub(super) meta: EventMetadata,
    pub(super) waiter: Arc<Waiter>,
}

#[derive(Default)]
pub(super) struct Waiter(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    state: WaitState,
    waker: Option<Waker>,
}

/// Changed under the gate's lock, but for the step to `Over` by the waiter itself.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum WaitState {
    #[default]
    Queued,
    Started(Timestamp, ServiceSlot),
    Discarded(DiscardReason),
    /// The waiter took its answer, or left.
    Over,
}

impl QueuedCaller {
    pub(super) fn poll(&self, cx: &Context<'_>) -> Poll<Result<GatePermit, EnterError>> {
        let mut waiting = self.waiter.0.lock();
        let answer = match waiting.state {
            WaitState::Queued => {
                waiting.waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            WaitState::Started(started, slot) => Ok(self.gate.permit(&self.meta, started, slot)),
            WaitState::Discarded(DiscardReason::Closed) => Err(EnterError::Closed),
            WaitState::Discarded(_) => Err(EnterError::Dropped),
            WaitState::Over => unreachable!("polled after it was ready"),
        };
        waiting.state = WaitState::Over;
        Poll::Ready(answer)
    }
}

impl Drop for QueuedCaller {
    fn drop(&mut self) {
        // Declared before the lock, so that it goes after: with a waker may go the
        // task that it would have woken.
        let _waker;
        let mut state = self.gate.core.lock();
        let last = {
            let mut waiting = self.waiter.0.lock();
            _waker = waiting.waker.take();
            std::mem::replace(&mut waiting.state, WaitState::Over)
        };
        match last {
            WaitState::Queued => {
                let core = &self.gate.core;
                let now = core.clock.now();
                let swept = state.abandon(now, &self.meta);
                core.dispatch(state, now, 1);
                discard(swept, DiscardReason::Abandoned);
            }
            WaitState::Started(started, slot) => {
                drop(state);
                drop(self.gate.permit(&self.meta, started, slot));
            }
            WaitState::Discarded(_) | WaitState::Over => {}
        }
    }
}

impl Item for Arc<Waiter> {
    const BRINGS_WORKER: bool = true;

    fn on_removal(&self, how: Removal) {
        self.0.lock().state = match how {
            Removal::Started(now, slot) => {
                WaitState::Started(now, slot.expect("a caller runs under a permit"))
            }
            Removal::Discarded(why) => WaitState::Discarded(why),
        };
    }

    fn start(self) {
        self.wake();
    }

    fn discard(self, _why: DiscardReason) {
        self.wake();
    }

    fn is_abandoned(&self) -> bool {
        self.0.lock().state == WaitState::Over
    }
}

impl Waiter {
    fn wake(&self) {
        let waker = self.0.lock().waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
