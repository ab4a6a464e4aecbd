//! The side of the workers: events are taken, run and end, and what waits for that is woken.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use parking_lot::MutexGuard;
use tamarisk_control::Timestamp;

use super::item::discard;
use super::{Begun, Core, DiscardReason, Ended, Item, ServiceSlot, State};
use crate::observe::Phase;
use crate::queue::{PartitionLease, Queued};

/// What a worker gets when it asks for work.
enum Take {
    /// Events, to be served under this lease.
    Batch(PartitionLease),
    /// Nothing for now.
    Idle,
    /// Nothing any more.
    Closed,
}

impl<T: Item> Core<T> {
    /// Wakes one idle worker if there is something to do for it. A worker that
    /// finds more than it can take wakes the next, so a burst wakes as many as it
    /// needs and a single event wakes one.
    pub(crate) fn wake_worker(&self, mut state: MutexGuard<'_, State<T>>) {
        let wake = state.claim_idle_worker();
        drop(state);
        if wake {
            self.work.notify_one();
        }
    }

    /// Takes up to `most` events into `batch`.
    fn take(&self, most: usize, batch: &mut VecDeque<Queued<T>>) -> Take {
        let mut discarded = Vec::new();
        let now = self.clock.now();
        let mut state = self.lock();
        if state.phase == Phase::Closed {
            return Take::Closed;
        }
        state.running_changes(now);
        let before = state.ledger.queued();
        // No more than a worker's share, so that none hoards what others could do.
        let most = most.min(before.div_ceil(state.workers.get() as usize)).min(state.room());
        let mut take = Take::Idle;
        while batch.is_empty() && most > 0 {
            let Some(lease) = state.queue.lease() else { break };
            while batch.len() < most && state.next_alike(now, most - batch.len(), batch) {}
            while batch.len() < most
                && let Some(queued) = state.next(now, lease, &mut discarded)
            {
                batch.push_back(queued);
            }
            if batch.is_empty() {
                state.queue.release(lease);
            } else {
                take = Take::Batch(lease);
            }
        }
        state.note_taken();
        let freed = before - state.ledger.queued();
        let wake = state.claim_idle_worker();
        self.dispatch(state, now, freed);
        if wake {
            self.work.notify_one();
        }
        discard(discarded, DiscardReason::Dropped);
        take
    }

    /// Waits until there is something to take, or the stage is closed, or
    /// `retired` says that this worker is no longer needed.
    pub(crate) async fn take_when_ready(
        &self,
        mut most: impl FnMut() -> usize,
        batch: &mut VecDeque<Queued<T>>,
        mut retired: impl FnMut() -> bool,
    ) -> Option<PartitionLease> {
        loop {
            if retired() {
                return None;
            }
            match self.take(most(), batch) {
                Take::Batch(lease) => return Some(lease),
                Take::Closed => return None,
                Take::Idle => {}
            }
            let mut notified = std::pin::pin!(self.work.notified());
            notified.as_mut().enable();
            {
                let mut state = self.lock();
                // Whatever came since the look above must not be slept on.
                if state.is_ready() {
                    continue;
                }
                if state.phase == Phase::Closed || retired() {
                    return None;
                }
                state.idle_workers += 1;
            }
            notified.await;
        }
    }

    /// The events of a lease are done.
    pub(crate) fn release(&self, lease: PartitionLease) {
        let mut state = self.lock();
        state.queue.release(lease);
        self.wake_worker(state);
    }

    /// Records the end of events that ran.
    pub(crate) fn finish(&self, now: Timestamp, events: &[Begun], ended: Ended) {
        self.change(now, |state| state.finish(now, events, ended));
    }

    /// Records the end of an event that ran under a permit.
    pub(crate) fn finish_served(
        &self,
        now: Timestamp,
        slot: ServiceSlot,
        begun: &Begun,
        ended: Ended,
    ) {
        self.change(now, |state| state.finish_served(now, slot, begun, ended));
    }

    /// A running event waits for its caller, and keeps its place.
    pub(crate) fn pause(&self, slot: ServiceSlot) {
        let now = self.clock.now();
        self.change(now, |state| state.pause(now, slot));
    }

    /// A running event waits for its caller, or is a stream that has nothing to send.
    pub(crate) fn suspend(&self, slot: ServiceSlot) {
        let now = self.clock.now();
        self.change(now, |state| state.suspend(now, slot));
    }

    /// A paused or suspended event goes on.
    pub(crate) fn resume(&self, slot: ServiceSlot) {
        let now = self.clock.now();
        self.change(now, |state| state.resume(now, slot));
    }

    /// The first data of a stream is out. Returns for how many nanoseconds it has been suspended.
    pub(crate) fn first_data(&self, now: Timestamp, slot: ServiceSlot) -> u64 {
        self.change(now, |state| state.first_data(now, slot))
    }

    /// More data of a stream is out, whose first was out at `answered`.
    pub(crate) fn progressed(&self, now: Timestamp, slot: ServiceSlot, answered: Timestamp) {
        self.change(now, |state| state.progressed(now, slot, answered));
    }

    /// What runs changes, and others may start.
    fn change<R>(&self, now: Timestamp, change: impl FnOnce(&mut State<T>) -> R) -> R {
        let mut state = self.lock();
        state.running_changes(now);
        let changed = change(&mut state);
        state.follow_law();
        self.dispatch(state, now, 0);
        changed
    }

    /// Starts what may start, where an event has queued beside a free place.
    pub(crate) fn start_beside_free_place(&self, state: MutexGuard<'_, State<T>>, now: Timestamp) {
        if state.has_free_place() {
            self.dispatch(state, now, 0);
        }
    }

    /// After a change: starts and wakes what waits for it, if anything does.
    #[inline]
    pub(crate) fn dispatch(
        &self,
        mut state: MutexGuard<'_, State<T>>,
        now: Timestamp,
        freed: usize,
    ) {
        if freed > 0 {
            // Written under the lock only.
            self.freed.store(self.freed() + freed as u64, Ordering::Release);
        }
        let wake = std::mem::take(&mut state.workers_raised) && state.claim_idle_worker();
        let nobody_waits = state.phase == Phase::Open
            && state.blocked_senders == 0
            && !(T::BRINGS_WORKER && state.queue.len() > 0);
        if nobody_waits {
            drop(state);
        } else {
            self.dispatch_waiting(state, now, freed);
        }
        if wake {
            self.work.notify_one();
        }
    }

    /// Lets items that bring their own worker start, wakes who waits for room or for
    /// the stage to be empty, and only then notifies those that were started or dropped,
    /// without the lock.
    fn dispatch_waiting(&self, mut state: MutexGuard<'_, State<T>>, now: Timestamp, freed: usize) {
        let mut dropped = Vec::new();
        let started =
            if T::BRINGS_WORKER { state.start_waiting(now, &mut dropped) } else { Vec::new() };
        let senders = state.unblock(freed);
        self.notify_if_empty(&state);
        drop(state);
        for _ in 0..senders {
            self.space.notify_one();
        }
        for item in started {
            item.start();
        }
        discard(dropped, DiscardReason::Dropped);
    }

    /// Takes back events that were handed to a worker but not begun.
    pub(crate) fn drop_unbegun(
        &self,
        unbegun: impl IntoIterator<Item = Queued<T>>,
        why: DiscardReason,
    ) {
        let unbegun: Vec<_> = unbegun.into_iter().collect();
        let now = self.clock.now();
        let mut state = self.lock();
        state.running_changes(now);
        for queued in &unbegun {
            state.ledger.finish(queued.meta.class, why.outcome(), 1);
        }
        state.tell_unbegun(now, &unbegun, why.change());
        self.dispatch(state, now, 0);
        discard(unbegun, why);
    }

    /// Wakes every worker, so that each looks at what has changed.
    pub(crate) fn wake_all_workers(&self) {
        self.lock().idle_workers = 0;
        self.work.notify_waiters();
    }

    fn notify_if_empty(&self, state: &State<T>) {
        if state.phase != Phase::Open && state.is_empty() {
            self.empty.notify_waiters();
        }
    }
}
