//! What a stage asks its law, whether the law decides it or not.

use std::time::Duration;

use super::{AdmissionLaw, Arrival, Backlog, Finished, Order, Waiting};
use crate::{ClassId, Concurrency, Timestamp};

/// The questions of [`BatchDecisions`](crate::BatchDecisions),
/// [`PlaceLimits`](crate::PlaceLimits) and [`QueueOrder`](crate::QueueOrder), with the
/// defaults for laws that do not decide them.
impl dyn AdmissionLaw + '_ {
    /// Whether all of `count` events like `arrival` are admitted; otherwise each is decided
    /// by [`on_arrival`](AdmissionLaw::on_arrival).
    #[inline]
    pub fn admits_all(
        &mut self,
        now: Timestamp,
        arrival: &Arrival,
        count: u32,
        backlog: &Backlog<'_>,
    ) -> bool {
        let batches = self.batch_decisions();
        batches.is_some_and(|law| law.admits_all(now, arrival, count, backlog))
    }

    /// Whether all of the `count` events that are next run; otherwise each is decided by
    /// [`on_dequeue`](AdmissionLaw::on_dequeue).
    #[inline]
    pub fn runs_all(
        &mut self,
        now: Timestamp,
        waiting: &Waiting,
        count: u32,
        backlog: &Backlog<'_>,
    ) -> bool {
        let batches = self.batch_decisions();
        batches.is_some_and(|law| law.runs_all(now, waiting, count, backlog))
    }

    /// Tells the law of `count` events that entered, ran and ended together.
    #[inline]
    pub fn on_finish_all(
        &mut self,
        now: Timestamp,
        finished: &Finished,
        count: u32,
        backlog: &Backlog<'_>,
    ) {
        match self.batch_decisions() {
            Some(law) => law.on_finish_all(now, finished, count, backlog),
            None => (0..count).for_each(|_| self.on_finish(now, finished, backlog)),
        }
    }

    /// How many events may be in progress at once in a stage with so many workers.
    #[inline]
    pub fn places(&self, workers: Concurrency) -> Concurrency {
        self.place_limits().map_or(workers, |law| law.places(workers))
    }

    /// How many events the law wants in progress at once, if it decides that.
    #[inline]
    pub fn concurrency(&self) -> Option<Concurrency> {
        self.place_limits()?.concurrency()
    }

    /// The limit that the law sets, on events in progress or on workers.
    #[inline]
    pub fn limit(&self) -> Option<Concurrency> {
        let law = self.place_limits()?;
        law.concurrency().or_else(|| law.useful_workers())
    }

    /// After how long in service an event gives up its place.
    #[inline]
    pub fn park_after(&self, class: ClassId, kind: u64) -> Option<Duration> {
        self.place_limits()?.park_after(class, kind)
    }

    /// Whether an event of this class and kind may take a free place.
    #[inline]
    pub fn may_start(&self, class: ClassId, kind: u64, backlog: &Backlog<'_>) -> bool {
        self.place_limits().is_none_or(|law| law.may_start(class, kind, backlog))
    }

    /// Which end of the queue to serve.
    #[inline]
    pub fn order(&self, head_age: Duration) -> Order {
        self.queue_order().map_or(Order::OldestFirst, |law| law.order(head_age))
    }

    /// When a queued event is due.
    #[inline]
    pub fn due(&self, waiting: &Waiting) -> Timestamp {
        self.queue_order().map_or(waiting.entered, |law| law.due(waiting))
    }
}
