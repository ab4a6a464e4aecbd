//! Events that find no idle worker: more workers are asked for at once, and those that are about to take
//! what waits are no queue to the law.

use std::time::Duration;

use tamarisk_control::{Arrival, Backlog, Concurrency, Decision, Timestamp};

use super::item::Item;
use super::state::State;

/// An event that waits beside an idle worker for longer than this waits for what runs the workers, a
/// processor most of the time, which more workers would not give it. A worker is woken within
/// microseconds; some milliseconds are what others of the machine take from it.
const WAKING_MAX: Duration = Duration::from_millis(5);

/// For so long none is asked for after one could not be started: the system has no thread left, and
/// asking costs a system call.
const PUT_OFF: Duration = Duration::from_secs(1);

/// What is known of the lack of workers.
pub(super) struct Shortage {
    /// Since when events have waited beside idle workers.
    waking_since: Option<Timestamp>,
    none_before: Timestamp,
    /// Of each class, what runs and what is about to. Kept for its memory.
    running_soon: Box<[u32]>,
    none_queued: Box<[u32]>,
}

impl Shortage {
    pub(super) fn new(classes: usize) -> Self {
        Self {
            waking_since: None,
            none_before: Timestamp::ZERO,
            running_soon: vec![0; classes].into(),
            none_queued: vec![0; classes].into(),
        }
    }

    /// A worker could not be started.
    pub(super) fn put_off(&mut self, now: Timestamp) {
        self.none_before = now + PUT_OFF;
    }

    /// Whether workers that are idle come too late for the events that wait.
    fn is_slow(&mut self, now: Timestamp) -> bool {
        now.since(*self.waking_since.get_or_insert(now)) > WAKING_MAX
    }
}

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
