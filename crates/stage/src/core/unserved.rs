//! Events that find no idle worker: more workers are asked for at once, and those that are about to take
//! what waits are no queue to the law.

use tamarisk_control::{Arrival, Backlog, Concurrency, Decision, Timestamp};

use super::item::Item;
use super::state::State;

impl<T: Item> State<T> {
    /// Whether an event that comes now finds no idle worker, or others before it do.
    #[inline]
    pub(super) fn finds_none_idle(&self) -> bool {
        self.ledger.queued() > 0 || self.ledger.running() >= self.workers.get()
    }

    /// Decides on an arrival that finds none idle. Whether there are to be more workers, too.
    pub(super) fn decide_short(
        &mut self,
        now: Timestamp,
        arrival: &Arrival,
        takes_turns: bool,
    ) -> (Decision, bool) {
        let is_slow = self.has_free_place() && self.shortage.is_slow(now);
        let grown = !takes_turns && !is_slow && self.meet_shortage(now);
        let is_woken = !T::BRINGS_WORKER && !takes_turns && !is_slow;
        let soon = is_woken && self.counts_soon_running();
        let backlog = self.ledger.backlog(self.workers);
        let backlog = match soon {
            true => Backlog {
                queued: &self.shortage.none_queued,
                running: &self.shortage.running_soon,
                queued_total: 0,
                running_total: backlog.running_total + backlog.queued_total,
                ..backlog
            },
            false => backlog,
        };
        (self.ruling.admission_mut().on_arrival(now, arrival, &backlog), grown)
    }

    /// Events have been taken out of the queue.
    pub(super) fn note_taken(&mut self) {
        if self.ledger.queued() == 0 || !self.has_free_place() {
            self.shortage.waking_since = None;
        }
    }

    /// Has more workers if the law says so.
    fn meet_shortage(&mut self, now: Timestamp) -> bool {
        // The admission law says how many work: fewer than there are, or any number.
        if self.workers != self.worker_count || now < self.shortage.none_before {
            return false;
        }
        let backlog = self.ledger.backlog(self.workers);
        let wanted = self.ruling.on_shortage(now, &backlog).get();
        let wanted = Concurrency::new(wanted.min(*self.bounds.end()));
        let grows = wanted > self.worker_count;
        if grows {
            self.worker_count = wanted;
            self.follow_law();
        }
        grows
    }

    /// Whether all that waits is about to be taken by idle workers; then it is counted as running.
    fn counts_soon_running(&mut self) -> bool {
        let backlog = self.ledger.backlog(self.workers);
        let soon = backlog.queued_total.saturating_add(backlog.running_total);
        if backlog.queued_total == 0 || soon >= self.workers.get() {
            return false;
        }
        let counts = backlog.queued.iter().zip(backlog.running);
        for (of_class, (queued, running)) in self.shortage.running_soon.iter_mut().zip(counts) {
            *of_class = queued + running;
        }
        true
    }
}
