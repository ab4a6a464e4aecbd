//! Events that find no idle worker: more workers are asked for at once, and those that are about to take
//! what waits are no queue to the law.

use tamarisk_control::{Arrival, Concurrency, Decision, Timestamp};

use super::item::Item;
use super::state::State;

/// What an event brings about that finds no idle worker.
pub(super) struct Shortfall {
    /// There are to be more workers.
    pub(super) grows: bool,
    /// Idle workers are about to take all that waits.
    pub(super) runs_soon: bool,
}

impl<T: Item> State<T> {
    /// Whether an event that comes now finds no idle worker, or others before it do.
    #[inline]
    pub(super) fn finds_none_idle(&self) -> bool {
        self.ledger.queued() > 0 || self.ledger.running() >= self.workers.get()
    }

    /// An event has come that finds none idle: asks for more workers, unless they would not help.
    #[inline(never)]
    pub(super) fn ask_for_workers(&mut self, now: Timestamp) -> Shortfall {
        if self.has_free_place() && self.shortage.is_slow(now) {
            return Shortfall { grows: false, runs_soon: false };
        }
        let grows = self.meet_shortage(now);
        Shortfall { grows, runs_soon: !T::BRINGS_WORKER && self.counts_soon_running() }
    }

    /// Has the law decide on an arrival. `runs_soon` says whether what is queued counts as running.
    #[inline]
    pub(super) fn on_arrival(
        &mut self,
        now: Timestamp,
        arrival: &Arrival,
        runs_soon: bool,
    ) -> Decision {
        let mut backlog = self.ledger.backlog(self.workers);
        if runs_soon {
            backlog.running_total += backlog.queued_total;
            backlog.queued_total = 0;
            backlog.running = &self.shortage.running_soon;
            backlog.queued = &self.shortage.none_queued;
        }
        self.ruling.admission_mut().on_arrival(now, arrival, &backlog)
    }

    /// Events have been taken out of the queue.
    pub(super) fn note_taken(&mut self) {
        if self.ledger.queued() == 0 || !self.has_free_place() {
            self.shortage.waking_since = None;
        }
    }

    /// Has more workers if the law says so.
    fn meet_shortage(&mut self, now: Timestamp) -> bool {
        let (least, most) = (*self.bounds.start(), *self.bounds.end());
        // The admission law says how many work: fewer than there are, or any number.
        let follows_admission = self.workers != self.worker_count;
        if least == most || follows_admission || now < self.shortage.none_before {
            return false;
        }
        let backlog = self.ledger.backlog(self.workers);
        let wanted = self.ruling.on_shortage(now, &backlog).get();
        let wanted = Concurrency::new(wanted.min(most));
        let grows = wanted > self.worker_count;
        if grows {
            self.worker_count = wanted;
            self.follow_law();
        }
        grows
    }

    fn inside(&self) -> u32 {
        (self.ledger.queued() as u32).saturating_add(self.ledger.running())
    }

    /// Whether all that waits is about to be taken by idle workers; then it is counted as running.
    fn counts_soon_running(&mut self) -> bool {
        if self.ledger.queued() == 0 || self.inside() >= self.workers.get() {
            return false;
        }
        let backlog = self.ledger.backlog(self.workers);
        let counts = backlog.queued.iter().zip(backlog.running);
        for (of_class, (queued, running)) in self.shortage.running_soon.iter_mut().zip(counts) {
            *of_class = queued + running;
        }
        true
    }
}
