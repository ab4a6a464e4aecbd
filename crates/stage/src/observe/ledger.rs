//! The accounts of a stage: arrivals, outcomes, and events inside.
//!
//! Every event has exactly one outcome, and for every class, at every instant,
//!
//! ```text
//! offered = rejected + completed + dropped + terminated + failed + abandoned + inside
//! inside  = queued + running + parked + suspended
//! ```
//!
//! The outcomes and what is inside are counted apart, each where it happens, so
//! the equation is a check on the runtime and not a definition.

use std::ops::AddAssign;

use tamarisk_control::{Backlog, ClassId, Concurrency};

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// Rejected at admission.
    Rejected,
    /// Done.
    Completed,
    /// Taken out of the queue: too late to be of use, or cut by a drain.
    Dropped,
    /// Ended while it ran: overdue, or cut by a drain.
    Terminated,
    /// The handler erred, panicked, or dropped a reply unanswered.
    Failed,
    /// Its caller left, while it was queued or while it ran.
    Abandoned,
}

impl Outcome {
    /// Lower case, for logs and status pages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::Completed => "completed",
            Self::Dropped => "dropped",
            Self::Terminated => "terminated",
            Self::Failed => "failed",
            Self::Abandoned => "abandoned",
        }
    }
}

/// The accounts of a stage, or of one of its classes, at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    /// Arrivals since the stage was made.
    pub offered: u64,
    /// See [`Outcome::Rejected`].
    pub rejected: u64,
    /// See [`Outcome::Completed`].
    pub completed: u64,
    /// See [`Outcome::Dropped`].
    pub dropped: u64,
    /// See [`Outcome::Terminated`].
    pub terminated: u64,
    /// See [`Outcome::Failed`].
    pub failed: u64,
    /// See [`Outcome::Abandoned`].
    pub abandoned: u64,
    /// In the queue now.
    pub queued: u64,
    /// Being worked on now, each holding a place.
    pub running: u64,
    /// Being worked on for so long that they hold no place any more.
    pub parked: u64,
    /// Waiting for their own callers, or streams that send nothing; without a place.
    pub suspended: u64,
}

impl Accounts {
    /// Events that are in the stage now.
    pub fn inside(&self) -> u64 {
        self.queued + self.in_service()
    }

    /// Events that have started and not ended, whether they hold a place or not.
    pub fn in_service(&self) -> u64 {
        self.running + self.parked + self.suspended
    }

    /// Whether every event offered is accounted for exactly once.
    pub fn balance(&self) -> bool {
        let Self { rejected, completed, dropped, terminated, failed, abandoned, .. } = *self;
        let ended = rejected + completed + dropped + terminated + failed + abandoned;
        self.offered == ended + self.inside()
    }

    /// How many events that entered came to this end.
    fn ended(&mut self, outcome: Outcome) -> &mut u64 {
        match outcome {
            Outcome::Completed => &mut self.completed,
            Outcome::Dropped => &mut self.dropped,
            Outcome::Terminated => &mut self.terminated,
            Outcome::Failed => &mut self.failed,
            Outcome::Abandoned => &mut self.abandoned,
            Outcome::Rejected => unreachable!("an event that entered was not rejected"),
        }
    }
}

impl AddAssign for Accounts {
    fn add_assign(&mut self, other: Self) {
        self.offered += other.offered;
        self.rejected += other.rejected;
        self.completed += other.completed;
        self.dropped += other.dropped;
        self.terminated += other.terminated;
        self.failed += other.failed;
        self.abandoned += other.abandoned;
        self.queued += other.queued;
        self.running += other.running;
        self.parked += other.parked;
        self.suspended += other.suspended;
    }
}

/// An event in service that holds no place: why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WithoutPlace {
    Parked,
    Suspended,
}

/// The running accounts, kept under the stage's lock.
pub(crate) struct Ledger {
    /// Offered and outcomes, by class; what is inside stands in the fields below.
    counts: Vec<Accounts>,
    /// Events queued, and places reserved for events that are still to come.
    queued: Vec<u32>,
    running: Vec<u32>,
    reserved: Vec<u32>,
    queued_total: u32,
    running_total: u32,
    /// Events that have started and hold no place: parked or suspended ones.
    without_place_total: u32,
}

impl Ledger {
    pub(crate) fn new(classes: usize) -> Self {
        Self {
            counts: vec![Accounts::default(); classes],
            queued: vec![0; classes],
            running: vec![0; classes],
            reserved: vec![0; classes],
            queued_total: 0,
            running_total: 0,
            without_place_total: 0,
        }
    }

    pub(crate) fn reject(&mut self, class: ClassId) {
        let counts = &mut self.counts[class.index()];
        counts.offered += 1;
        counts.rejected += 1;
    }

    /// `count` events enter the queue.
    pub(crate) fn enqueue(&mut self, class: ClassId, count: u32) {
        self.counts[class.index()].offered += u64::from(count);
        self.queued[class.index()] += count;
        self.queued_total += count;
    }

    /// A place in the queue is kept for an event that may come.
    pub(crate) fn reserve(&mut self, class: ClassId) {
        self.reserved[class.index()] += 1;
        self.queued[class.index()] += 1;
        self.queued_total += 1;
    }

    /// The event for a reserved place came.
    pub(crate) fn commit(&mut self, class: ClassId) {
        self.reserved[class.index()] -= 1;
        self.counts[class.index()].offered += 1;
    }

    /// The event for a reserved place will not come.
    pub(crate) fn abort(&mut self, class: ClassId) {
        self.reserved[class.index()] -= 1;
        self.queued[class.index()] -= 1;
        self.queued_total -= 1;
    }

    /// An event starts to run at once, without having been queued.
    pub(crate) fn enter(&mut self, class: ClassId) {
        self.counts[class.index()].offered += 1;
        self.running[class.index()] += 1;
        self.running_total += 1;
    }

    /// `count` queued events start to run.
    pub(crate) fn start(&mut self, class: ClassId, count: u32) {
        self.queued[class.index()] -= count;
        self.queued_total -= count;
        self.running[class.index()] += count;
        self.running_total += count;
    }

    /// A queued event is taken out without running.
    pub(crate) fn leave_queue(&mut self, class: ClassId, outcome: Outcome) {
        self.queued[class.index()] -= 1;
        self.queued_total -= 1;
        *self.counts[class.index()].ended(outcome) += 1;
    }

    /// `count` running events ended.
    pub(crate) fn finish(&mut self, class: ClassId, outcome: Outcome, count: u32) {
        self.running[class.index()] -= count;
        self.running_total -= count;
        *self.counts[class.index()].ended(outcome) += u64::from(count);
    }

    /// A running event gives up its place.
    pub(crate) fn release_place(&mut self, class: ClassId, why: WithoutPlace) {
        self.running[class.index()] -= 1;
        self.running_total -= 1;
        self.without_place_total += 1;
        *self.without_place(class, why) += 1;
    }

    /// An event that had given up its place takes it again, even above the limit.
    pub(crate) fn retake_place(&mut self, class: ClassId, why: WithoutPlace) {
        *self.without_place(class, why) -= 1;
        self.without_place_total -= 1;
        self.running[class.index()] += 1;
        self.running_total += 1;
    }

    fn without_place(&mut self, class: ClassId, why: WithoutPlace) -> &mut u64 {
        let counts = &mut self.counts[class.index()];
        match why {
            WithoutPlace::Parked => &mut counts.parked,
            WithoutPlace::Suspended => &mut counts.suspended,
        }
    }

    /// The outcomes of all classes together.
    pub(crate) fn total(&self) -> Accounts {
        let mut total = Accounts::default();
        self.counts.iter().for_each(|&counts| total += counts);
        total
    }

    /// Queued events and reserved places.
    pub(crate) fn queued(&self) -> usize {
        self.queued_total as usize
    }

    pub(crate) fn running(&self) -> u32 {
        self.running_total
    }

    /// Events that have started and not ended.
    pub(crate) fn in_service(&self) -> u32 {
        self.running_total + self.without_place_total
    }

    pub(crate) fn backlog(&self, workers: Concurrency) -> Backlog<'_> {
        Backlog {
            queued: &self.queued,
            running: &self.running,
            queued_total: self.queued_total,
            running_total: self.running_total,
            workers,
        }
    }

    /// The accounts of one class. A reserved place holds no event yet, so it
    /// is not inside.
    pub(crate) fn accounts(&self, class: ClassId) -> Accounts {
        let index = class.index();
        Accounts {
            queued: u64::from(self.queued[index] - self.reserved[index]),
            running: u64::from(self.running[index]),
            ..self.counts[index]
        }
    }
}
