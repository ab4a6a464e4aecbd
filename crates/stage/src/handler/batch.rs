//! A batch: the events that a worker gives to its handler at once.

use std::collections::VecDeque;
use std::sync::Arc;

use tamarisk_control::{BatchSize, Timestamp, Together};

use super::Context;
use crate::call::{CallError, destroy_with, take_unanswered};
use crate::core::{Begun, Core, DiscardReason, Ended, Payload};
use crate::observe::Outcome;
use crate::queue::{EventMetadata, PartitionLease, Queued};
use crate::sink::Envelope;
use crate::worker::Worker;

/// Some events of a stage's queue, to be taken one by one with [`next`](Self::next)
/// or all at once with [`drain`](Self::drain).
///
/// Taking an event begins it and completes the one taken before; returning from
/// the handler completes the last. So an event that is terminated, or whose
/// handler fails, takes no other with it: those not yet taken are offered again.
pub struct Batch<E: Send + 'static> {
    core: Arc<Core<Payload<E>>>,
    worker: Arc<Worker>,
    pending: VecDeque<Queued<Payload<E>>>,
    lease: Option<PartitionLease>,
    /// Begun and not ended: one event, or those that were drained together.
    begun: Vec<Begun>,
    /// Whether what has begun was drained.
    drained: bool,
    /// The most events that might be taken at once.
    most: usize,
    started: Timestamp,
    /// The number under which they run.
    sequence: u64,
}

impl<E: Send + 'static> Batch<E> {
    pub(crate) fn new(core: Arc<Core<Payload<E>>>, worker: Arc<Worker>) -> Self {
        Self {
            core,
            worker,
            pending: VecDeque::new(),
            lease: None,
            begun: Vec::new(),
            drained: false,
            most: 1,
            started: Timestamp::ZERO,
            sequence: 0,
        }
    }

    /// The next event and what is known of it; completes the one before.
    #[allow(clippy::should_implement_trait, reason = "an iterator could not end the event before")]
    #[inline(always)]
    pub fn next(&mut self) -> Option<(E, Context)> {
        let now = self.core.clock.now();
        self.book(now, Outcome::Completed);
        let Some(Queued { meta, item: Payload { event, caller } }) = self.pop(now) else {
            self.worker.slot.end();
            return None;
        };
        self.started = now;
        self.drained = false;
        self.begun.push(Begun::one(&meta));
        let end = self.core.settings.end(&meta, now);
        self.sequence = self.worker.begin(&meta, end);
        if let Some(caller) = caller {
            caller.on_begin(&self.worker, self.sequence);
            self.worker.attend(self.sequence, caller, end);
        }
        Some((event, Context::new(&self.worker, meta, self.sequence)))
    }

    /// All events that are left, begun together and ended together: the way to
    /// work on many at the cost of one. What is sent on keeps class, deadline and
    /// flow. They are overdue when the last of them is. Once begun they go on also when
    /// their callers leave, and callers of blocking handlers are answered when these are done.
    pub fn drain(&mut self) -> impl Iterator<Item = Envelope<E>> + '_ {
        let now = self.core.clock.now();
        self.book(now, Outcome::Completed);
        self.worker.slot.end();
        self.started = now;
        self.drained = true;
        let latest =
            self.pending.iter().map(|queued| &queued.meta).max_by_key(|meta| meta.deadline);
        let latest = latest.copied();
        std::iter::from_fn(move || {
            let queued = self.pop(now)?;
            if self.begun.is_empty() {
                let meta = latest.unwrap_or(queued.meta);
                self.sequence = self.worker.begin(&meta, self.core.settings.end(&meta, now));
            }
            self.begin_together(&queued.meta);
            Some(Envelope::new(queued.item.event, queued.meta.entry()))
        })
    }

    /// Events that entered together end together, so they are recorded as one.
    #[inline]
    fn begin_together(&mut self, meta: &EventMetadata) {
        match self.begun.last_mut() {
            Some(begun)
                if (begun.requested, begun.entered, begun.class, begun.kind)
                    == (meta.requested, meta.entered, meta.class, meta.kind) =>
            {
                begun.count += 1;
            }
            _ => self.begun.push(Begun::one(meta)),
        }
    }

    /// How many events have not been taken.
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// Whether all events have been taken.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// The next event that is of use still; none once the stage is closed.
    #[inline(always)]
    fn pop(&mut self, now: Timestamp) -> Option<Queued<Payload<E>>> {
        if self.worker.slot.is_stopped() {
            self.core.drop_unbegun(self.pending.drain(..), DiscardReason::Closed);
        }
        loop {
            let queued = self.pending.pop_front()?;
            let why = if queued.item.has_left() {
                DiscardReason::Abandoned
            } else if queued.meta.deadline <= now {
                DiscardReason::Dropped
            } else {
                return Some(queued);
            };
            self.core.drop_unbegun([queued], why);
        }
    }

    /// Waits for events; `false` when the worker is to end.
    pub(crate) async fn fill(
        &mut self,
        most: impl Fn() -> usize,
        retired: impl FnMut() -> bool,
    ) -> bool {
        let Self { core, pending, most: known, .. } = self;
        let most = || {
            *known = most();
            *known
        };
        self.lease = core.take_when_ready(most, pending, retired).await;
        self.lease.is_some()
    }

    /// The events of the lease are done.
    pub(crate) fn release(&mut self) {
        if let Some(lease) = self.lease.take() {
            self.core.release(lease);
        }
    }

    /// Ends what has begun.
    pub(crate) fn conclude(&mut self, outcome: Outcome) {
        let outcome = match outcome {
            Outcome::Terminated if self.worker.slot.is_abandoned() => Outcome::Abandoned,
            outcome => outcome,
        };
        self.worker.slot.end();
        self.book(self.core.clock.now(), outcome);
    }

    fn book(&mut self, now: Timestamp, outcome: Outcome) {
        let unanswered = take_unanswered() | self.worker.take_unanswered();
        let told_overdue = self.worker.end_attended();
        if self.begun.is_empty() {
            return;
        }
        let outcome = match outcome {
            // Whatever it came to then.
            _ if told_overdue => Outcome::Terminated,
            Outcome::Completed if unanswered => Outcome::Failed,
            outcome => outcome,
        };
        let teaches = self.worker.teaches(self.sequence);
        // They are over whatever the law does with that: if it panics, this is not done again.
        let mut begun = std::mem::take(&mut self.begun);
        let together = self.together(&begun);
        let ended = Ended { teaches, together, ..Ended::now(self.started, outcome) };
        self.core.finish(now, &begun, ended);
        begun.clear();
        self.begun = begun;
    }

    /// What has begun has been answered by the error that the handler returned.
    pub(crate) fn forgive_unanswered(&self) {
        take_unanswered();
        self.worker.take_unanswered();
    }

    /// With how many others each of these was worked on.
    fn together(&self, begun: &[Begun]) -> Together {
        if !self.drained {
            return Together::ALONE;
        }
        let count = begun.iter().map(|begun| begun.count).fold(0, u32::saturating_add);
        let most = u32::try_from(self.most).unwrap_or(u32::MAX).max(count);
        Together { count: BatchSize::new(count), most: BatchSize::new(most) }
    }

    /// The next event fails without having been handled.
    pub(crate) fn fail_next(&mut self, error: CallError) {
        if let Some((event, _)) = self.next() {
            destroy_with(error, event);
            self.conclude(Outcome::Failed);
        }
    }

    pub(crate) fn core(&self) -> &Arc<Core<Payload<E>>> {
        &self.core
    }
}

impl<E: Send + 'static> Drop for Batch<E> {
    /// The worker itself is being dropped, as when a runtime shuts down.
    fn drop(&mut self) {
        self.conclude(Outcome::Terminated);
        self.core.drop_unbegun(self.pending.drain(..), DiscardReason::Terminated);
        self.release();
    }
}
