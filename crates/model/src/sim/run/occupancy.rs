//! Occupancy of a stage: the numbers queued, running and parked, and the limit on those running.

use tamarisk_control::{Backlog, ClassId, Concurrency};

use super::tally::Level;

pub(in crate::sim) struct StageOccupancy {
    /// How many may be let through: the limit of the law, or the workers.
    pub(super) workers: Concurrency,
    queued_of: Box<[u32]>,
    /// Out of the queue and not ended, also if still to be begun.
    running_of: Box<[u32]>,
    /// Running without a place.
    parked_of: Box<[u32]>,
    pub(in crate::sim) queued: Level,
    /// Begun.
    pub(in crate::sim) running: Level,
    pub(in crate::sim) parked: Level,
    /// In a worker's batch, and not begun.
    to_begin: u32,
    /// The most that ran at once since the laws were asked last.
    running_most: u32,
}

impl StageOccupancy {
    pub(super) fn new(workers: Concurrency, classes: usize) -> Self {
        Self {
            workers,
            queued_of: vec![0; classes].into(),
            running_of: vec![0; classes].into(),
            parked_of: vec![0; classes].into(),
            queued: Level::default(),
            running: Level::default(),
            parked: Level::default(),
            to_begin: 0,
            running_most: 0,
        }
    }

    #[inline]
    pub(super) fn backlog(&self) -> Backlog<'_> {
        Backlog {
            queued: &self.queued_of,
            running: &self.running_of,
            queued_total: self.queued.now,
            running_total: self.running.now + self.to_begin,
            workers: self.workers,
        }
    }

    #[inline]
    pub(super) fn has_place(&self) -> bool {
        self.queued.now == 0 && self.running.now < self.workers.get()
    }

    #[inline]
    pub(super) fn queue(&mut self, now: u64, class: ClassId) {
        self.queued_of[class.index()] += 1;
        self.queued.up(now);
    }

    #[inline]
    pub(super) fn unqueue(&mut self, now: u64, class: ClassId) {
        self.queued_of[class.index()] -= 1;
        self.queued.down(now);
    }

    #[inline]
    pub(super) fn start(&mut self, now: u64, class: ClassId) {
        self.running_of[class.index()] += 1;
        self.begin(now);
    }

    #[inline]
    fn begin(&mut self, now: u64) {
        self.running.up(now);
        self.running_most = self.running_most.max(self.running.now);
    }

    #[inline]
    pub(super) fn finish(&mut self, now: u64, class: ClassId) {
        self.running_of[class.index()] -= 1;
        self.running.down(now);
    }

    /// A running event gives up its place.
    pub(super) fn park(&mut self, now: u64, class: ClassId) {
        self.finish(now, class);
        self.parked_of[class.index()] += 1;
        self.parked.up(now);
    }

    /// An event without a place ends.
    pub(super) fn finish_parked(&mut self, now: u64, class: ClassId) {
        self.parked_of[class.index()] -= 1;
        self.parked.down(now);
    }

    /// An event comes out of the queue into a batch.
    pub(super) fn hold(&mut self, class: ClassId) {
        self.running_of[class.index()] += 1;
        self.to_begin += 1;
    }

    /// An event of a batch begins.
    pub(super) fn begin_held(&mut self, now: u64) {
        self.to_begin -= 1;
        self.begin(now);
    }

    /// An event of a batch is not begun.
    pub(super) fn drop_held(&mut self, class: ClassId) {
        self.running_of[class.index()] -= 1;
        self.to_begin -= 1;
    }

    /// Those of one class.
    pub(super) fn of(&self, class: usize) -> u64 {
        u64::from(self.queued_of[class] + self.running_of[class] + self.parked_of[class])
    }

    /// Of so many workers, those that had nothing to do since this was asked last.
    pub(super) fn take_idle(&mut self, workers: u32) -> u32 {
        let most = std::mem::replace(&mut self.running_most, self.running.now);
        workers.saturating_sub(most)
    }

    /// Totals are those of the classes.
    pub(super) fn balances(&self) -> bool {
        let Self { queued, running, parked, to_begin, .. } = self;
        queued.now == self.queued_of.iter().sum::<u32>()
            && running.now + to_begin == self.running_of.iter().sum::<u32>()
            && parked.now == self.parked_of.iter().sum::<u32>()
    }

    /// Whether a queued event could have a place.
    pub(super) fn waits_beside_free_place(&self) -> bool {
        self.queued.now > 0 && self.running.now < self.workers.get()
    }
}
