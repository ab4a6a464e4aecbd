//! What stands behind a stage's lock, and what is decided there.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::time::Duration;

use tamarisk_control::{
    Activity, ClassId, Classes, Concurrency, Dequeue, Ending, Finished, Order, Ratio, Reason,
    Rejection, Ruling, Timestamp, Waiting,
};

use tamarisk_control::catalogue::Laws;

use super::item::{Discard, Item, Leaving};
use super::knobs::Knobs;
use super::ruling::{Adjustment, govern};
use crate::ledger::{Ledger, Outcome};
use crate::observation::{Observer, Phase};
use crate::queue::{Lease, Meta, Queue, Queued};

/// A stage's queue, accounts, law and observations; all of one instant.
pub(crate) struct State<T> {
    pub(super) runs: &'static str,
    pub(super) queue: Queue<T>,
    pub(crate) ledger: Ledger,
    pub(super) ruling: Ruling,
    /// The laws that were chosen by name, with their constants.
    pub(super) chosen: Laws,
    /// The least and the most workers that a law may set.
    pub(super) bounds: RangeInclusive<u32>,
    /// The classes with the targets that they have now.
    pub(super) promised: Classes,
    /// The most events that ran at once since the last tick.
    pub(super) running_most: u32,
    pub(super) observer: Observer,
    pub(super) phase: Phase,
    /// How many workers there are, and how many of them may be at work: what the law says
    /// of it.
    pub(super) staff: Concurrency,
    pub(super) workers: Concurrency,
    pub(super) idle_workers: u32,
    pub(super) blocked_senders: u32,
    /// Items in the queue that are gone: their senders left.
    pub(super) gone: usize,
    pub(super) rejections: BTreeMap<Reason, u64>,
    pub(super) last_failure: Option<String>,
}

/// Events of one class that entered and began to run together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub(crate) entered: Timestamp,
    pub(crate) class: ClassId,
    pub(crate) count: u32,
}

impl Begun {
    pub(crate) fn one(meta: &Meta) -> Self {
        Self { entered: meta.entered, class: meta.class, count: 1 }
    }
}

/// How events that ran together have ended.
#[derive(Clone, Copy)]
pub(crate) struct Ended {
    pub(crate) started: Timestamp,
    pub(crate) outcome: Outcome,
    /// Whether their times say something of the stage.
    pub(crate) timed: bool,
}

impl<T: Item> State<T> {
    /// Books a refusal.
    pub(crate) fn reject(&mut self, meta: &Meta, rejection: &Rejection) {
        self.ledger.reject(meta.class);
        *self.rejections.entry(rejection.reason).or_insert(0) += 1;
    }

    /// The next event that is worth running; it counts as running from here on.
    #[inline]
    pub(super) fn next(
        &mut self,
        now: Timestamp,
        lease: Lease,
        discarded: &mut Vec<Queued<T>>,
    ) -> Option<Queued<T>> {
        loop {
            let order = self.order(now);
            let queued = self.queue.pop(lease, order)?;
            if queued.item.is_gone() {
                self.gone -= 1;
                continue;
            }
            let class = queued.meta.class;
            let backlog = self.ledger.backlog(self.workers);
            let (meta, law) = (&queued.meta, self.ruling.admission_mut());
            let of_use = meta.deadline > now
                && law.on_dequeue(now, &waiting(meta), &backlog) == Dequeue::Run;
            if of_use {
                self.ledger.start(class, 1);
                queued.item.leaving(Leaving::Started(now));
                return Some(queued);
            }
            self.ledger.drop_queued(class);
            queued.item.leaving(Leaving::Discarded(Discard::Dropped));
            discarded.push(queued);
        }
    }

    /// Moves up to `most` events that are next, of one class and all worth running, to
    /// `batch` at the cost of one; `false` if it takes a look at each.
    pub(super) fn next_alike(
        &mut self,
        now: Timestamp,
        most: usize,
        batch: &mut VecDeque<Queued<T>>,
    ) -> bool {
        let order = self.order(now);
        let Some(run) = self.queue.next_run(order, most, |item| !item.is_gone()) else {
            return false;
        };
        let backlog = self.ledger.backlog(self.workers);
        let (meta, law) = (&run.meta, self.ruling.admission_mut());
        if meta.deadline <= now || !law.runs_all(now, &waiting(meta), run.count, &backlog) {
            return false;
        }
        self.ledger.start(meta.class, run.count);
        let taken = batch.len();
        self.queue.pop_run(run, batch);
        batch.range(taken..).for_each(|queued| queued.item.leaving(Leaving::Started(now)));
        true
    }

    fn order(&self, now: Timestamp) -> Order {
        let oldest = self.queue.oldest().unwrap_or(now);
        self.ruling.admission().order(now.since(oldest))
    }

    /// Starts as many queued items as there are places.
    pub(super) fn start_waiting(
        &mut self,
        now: Timestamp,
        discarded: &mut Vec<Queued<T>>,
    ) -> Vec<T> {
        let mut started = Vec::new();
        while self.ledger.running() < self.workers.get() && self.queue.len() > 0 {
            self.running_changes(now);
            match self.next(now, Lease::WHOLE, discarded) {
                Some(queued) => started.push(queued.item),
                None => break,
            }
        }
        started
    }

    /// Whether an event that arrives now need not queue.
    pub(crate) fn has_place(&self) -> bool {
        self.ledger.queued() == 0 && self.ledger.running() < self.workers.get()
    }

    /// Lets an admitted event run at once if it need not queue.
    pub(crate) fn enter(&mut self, now: Timestamp, meta: &Meta) -> bool {
        let free = self.has_place();
        if free {
            self.running_changes(now);
            self.ledger.enter(meta.class);
        }
        free
    }

    #[inline]
    pub(crate) fn finish(&mut self, now: Timestamp, begun: &Begun, ended: Ended) {
        let Begun { entered, class, count } = *begun;
        self.ledger.finish(class, ended.outcome, count);
        let ending = match ended.outcome {
            _ if !ended.timed => Ending::Untimed,
            Outcome::Completed => Ending::Completed,
            Outcome::Terminated => Ending::Terminated,
            Outcome::Failed | Outcome::Dropped | Outcome::Rejected => Ending::Failed,
        };
        let (service, response) = (now.nanos_since(ended.started), now.nanos_since(entered));
        if ending == Ending::Completed {
            self.observer.record(class, service, response, count);
        }
        let [service, response] = [service, response].map(Duration::from_nanos);
        let finished = Finished { class, service, response, ending, kind: 0 };
        let (law, backlog) = (self.ruling.admission_mut(), self.ledger.backlog(self.workers));
        if count == 1 {
            law.on_finish(now, &finished, &backlog);
        } else {
            law.on_finish_all(now, &finished, count, &backlog);
        }
    }

    pub(super) fn tick(&mut self, now: Timestamp, cpu: Option<Ratio>, knobs: &Knobs) -> Adjustment {
        let running = self.ledger.running();
        self.running_changes(now);
        let ledger = &self.ledger;
        self.observer.tick(now, |class| ledger.accounts(class).offered);
        let backlog = self.ledger.backlog(self.workers);
        if let Some(busy) = cpu {
            self.ruling.admission_mut().on_cpu(now, busy);
        }
        self.ruling.admission_mut().on_tick(now, &backlog);
        let total = self.ledger.total();
        let activity = Activity {
            backlog,
            offered: total.offered,
            lost: total.rejected + total.dropped + total.terminated,
            completed: total.completed,
            workers_idle: self.workers.get().saturating_sub(self.running_most),
        };
        let wanted = govern(&mut self.ruling, now, &activity, knobs);
        self.running_most = running;
        self.follow_law();
        wanted
    }

    /// Takes out what is of no use any more, wherever it stands: what waits behind a
    /// higher priority may never become next.
    pub(super) fn take_overdue(&mut self, now: Timestamp) -> Vec<Queued<T>> {
        let law = self.ruling.admission_mut();
        let backlog = self.ledger.backlog(self.workers);
        let overdue = self.queue.extract(|queued| {
            let meta = &queued.meta;
            queued.item.is_gone()
                || meta.deadline <= now
                || law.on_sweep(now, &waiting(meta), &backlog) == Dequeue::Drop
        });
        let (gone, overdue): (Vec<_>, Vec<_>) =
            overdue.into_iter().partition(|queued| queued.item.is_gone());
        self.gone -= gone.len();
        for queued in &overdue {
            self.ledger.drop_queued(queued.meta.class);
            queued.item.leaving(Leaving::Discarded(Discard::Dropped));
        }
        overdue
    }

    /// The sender of a queued item has left.
    pub(crate) fn abandon(&mut self, meta: &Meta) {
        /// Sweeping costs a pass over the queue: not more often than this.
        const GONE_MIN: usize = 64;
        self.ledger.drop_queued(meta.class);
        self.gone += 1;
        if self.gone > GONE_MIN && self.gone > self.queue.len() / 2 {
            self.gone -= self.queue.extract(|queued| queued.item.is_gone()).len();
        }
    }

    /// The number of running events is about to change.
    pub(super) fn running_changes(&mut self, now: Timestamp) {
        let running = self.ledger.running();
        self.running_most = self.running_most.max(running);
        self.observer.advance(now, running, self.ledger.queued() > 0);
    }

    pub(super) fn follow_law(&mut self) {
        self.workers = self.ruling.admission().places(self.staff);
    }

    /// How many events the law lets a worker take that comes now: any number while all
    /// workers are of use, else one while there is a place, for what one has in hand
    /// keeps others from working.
    pub(super) fn room(&self) -> usize {
        if self.workers < self.staff {
            usize::from(self.ledger.running() < self.workers.get())
        } else {
            usize::MAX
        }
    }

    /// Whether a worker that came now would find something to do.
    pub(super) fn has_work(&self) -> bool {
        self.queue.is_ready() && self.room() > 0
    }

    /// Whether to wake a worker: one that could take nothing would only wake the
    /// next, and that one the first again.
    pub(super) fn claim_idle_worker(&mut self) -> bool {
        let claimed = self.idle_workers > 0 && self.has_work();
        self.idle_workers -= u32::from(claimed);
        claimed
    }

    pub(super) fn unblock(&mut self, freed: usize) -> u32 {
        let senders = self.blocked_senders.min(u32::try_from(freed).unwrap_or(u32::MAX));
        self.blocked_senders -= senders;
        senders
    }

    /// Whether the stage takes events at all.
    pub(crate) fn check_open(&self) -> Result<(), Rejection> {
        match self.phase {
            Phase::Open => Ok(()),
            Phase::Draining => Err(Rejection::new(Reason::Draining)),
            Phase::Closed => Err(Rejection::new(Reason::Closed)),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    pub(crate) fn workers(&self) -> Concurrency {
        self.workers
    }

    /// A reserved place keeps a stage from being empty until it is closed.
    pub(super) fn is_empty(&self) -> bool {
        (self.ledger.queued() == 0 || self.is_closed()) && self.ledger.running() == 0
    }
}

/// What a law is told of a queued event.
fn waiting(meta: &Meta) -> Waiting {
    Waiting { class: meta.class, entered: meta.entered, deadline: meta.deadline(), kind: 0 }
}
