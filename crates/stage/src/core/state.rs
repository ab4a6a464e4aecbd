//! The state behind a stage's lock, and the decisions made there.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::time::Duration;

use tamarisk_control::{
    Activity, Change, ClassId, Classes, Concurrency, Dequeue, Ending, Finished, MeasuredFrom,
    Moved, Order, Ratio, Reason, Rejection, Timestamp, Together, Waiting,
};
use tamarisk_laws::{Laws, Ruling};

use super::in_service::{InService, Place, Served, ServiceSlot};
use super::item::{DiscardReason, Item, Removal};
use super::settings::SharedSettings;
use super::shortage::Shortage;
use super::slow_laws::{WorkerChange, tick_slow_laws};
use crate::call::ExpectedErrors;
use crate::observe::{EventNanos, Ledger, Observer, Outcome, Phase, WithoutPlace};
use crate::panics::contained;
use crate::queue::{EventMetadata, PartitionLease, Queue, Queued};

/// A stage's queue, accounts, law and observations; all of one instant.
pub(crate) struct State<T> {
    pub(super) runs: &'static str,
    pub(super) queue: Queue<T>,
    pub(crate) ledger: Ledger,
    pub(super) ruling: Ruling,
    /// How often its laws were replaced by those of another stage.
    pub(super) generation: u64,
    pub(super) measured_from: MeasuredFrom,
    /// The laws that were chosen by name, with their constants.
    pub(super) chosen: Laws,
    /// The least and the most workers that a law may set.
    pub(super) bounds: RangeInclusive<u32>,
    /// The classes with the targets that they have now.
    pub(super) promised: Classes,
    /// What runs under permits.
    pub(super) in_service: InService,
    pub(super) shortage: Shortage,
    /// The most events that ran at once since the last tick.
    pub(super) running_most: u32,
    pub(super) observer: Observer,
    pub(super) phase: Phase,
    /// How many workers there are, and how many of them the law lets work.
    pub(super) worker_count: Concurrency,
    pub(super) workers: Concurrency,
    /// Whether more of them may work than before, and none has been woken for that.
    pub(super) workers_raised: bool,
    pub(super) idle_workers: u32,
    pub(super) blocked_senders: u32,
    /// Abandoned events that are still in the queue; they are accounted for already.
    pub(super) abandoned_in_queue: usize,
    pub(super) rejections: BTreeMap<Reason, u64>,
    pub(super) last_failure: Option<String>,
    /// Errors of the handler that are answers.
    pub(super) expected: ExpectedErrors,
}

/// Events of one class that entered and began to run together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub(crate) requested: Timestamp,
    pub(crate) entered: Timestamp,
    pub(crate) class: ClassId,
    pub(crate) kind: u64,
    pub(crate) count: u32,
}

impl Begun {
    pub(crate) fn one(meta: &EventMetadata) -> Self {
        let EventMetadata { requested, entered, class, kind, .. } = *meta;
        Self { requested, entered, class, kind, count: 1 }
    }
}

/// How events that ran together have ended.
#[derive(Clone, Copy)]
pub(crate) struct Ended {
    pub(crate) started: Timestamp,
    pub(crate) outcome: Outcome,
    /// Whether observations count their times.
    pub(crate) timed: bool,
    /// Whether the law learns from their times.
    pub(crate) teaches: bool,
    /// Whether an abandoned one was worked on to its end, for no caller.
    pub(crate) outlasted: bool,
    /// How many were worked on at once.
    pub(crate) together: Together,
    /// How long they were suspended, in nanoseconds.
    pub(crate) suspended: u64,
    /// When the answer was out, if that was before the end: the first data of a stream. It is
    /// earlier by as long as the event had been suspended until then.
    pub(crate) answered: Option<Timestamp>,
}

impl Ended {
    /// All of the time since `started` was service.
    pub(crate) fn now(started: Timestamp, outcome: Outcome) -> Self {
        let (timed, teaches, outlasted) = (true, true, false);
        let (together, suspended, answered) = (Together::ALONE, 0, None);
        Self { started, outcome, timed, teaches, outlasted, together, suspended, answered }
    }
}

impl<T: Item> State<T> {
    /// Counts a rejection.
    pub(crate) fn reject(&mut self, meta: &EventMetadata, rejection: &Rejection) {
        self.ledger.reject(meta.class);
        *self.rejections.entry(rejection.reason).or_insert(0) += 1;
    }

    /// The next event that is worth running; it counts as running from here on.
    #[inline]
    pub(super) fn next(
        &mut self,
        now: Timestamp,
        lease: PartitionLease,
        discarded: &mut Vec<Queued<T>>,
    ) -> Option<Queued<T>> {
        loop {
            let order = self.order(now);
            let queued = self.pop(lease, order)?;
            if queued.item.is_abandoned() {
                self.abandoned_in_queue -= 1;
                discarded.push(queued);
                continue;
            }
            let class = queued.meta.class;
            let backlog = self.ledger.backlog(self.workers);
            let (meta, law) = (&queued.meta, self.ruling.admission_mut());
            let of_use = meta.deadline > now
                && law.on_dequeue(now, &waiting(meta), &backlog) == Dequeue::Run;
            if of_use {
                self.ledger.start(class, 1);
                let slot = T::BRINGS_WORKER.then(|| self.in_service.begin(now, meta));
                queued.item.on_removal(Removal::Started(now, slot));
                return Some(queued);
            }
            self.ledger.leave_queue(class, Outcome::Dropped);
            self.tell(now, &queued.meta, Change::Dropped);
            queued.item.on_removal(Removal::Discarded(DiscardReason::Dropped));
            discarded.push(queued);
        }
    }

    fn pop(&mut self, lease: PartitionLease, order: Order) -> Option<Queued<T>> {
        let Self { queue, ruling, ledger, workers, .. } = self;
        let (law, backlog) = (ruling.admission(), ledger.backlog(*workers));
        // Workers take whatever is next: one that found only events which may not start would
        // look again at once.
        let may_start = |meta: &EventMetadata| {
            !T::BRINGS_WORKER || law.may_start(meta.class, meta.kind, &backlog)
        };
        queue.pop(lease, order, |meta| may_start(meta).then(|| law.due(&waiting(meta))))
    }

    /// Tells the law that an event has left the queue without running.
    pub(crate) fn tell(&mut self, now: Timestamp, meta: &EventMetadata, change: Change) {
        let EventMetadata { class, flow, kind, entered, .. } = *meta;
        let moved = Moved { class, flow, kind, change, time: now.since(entered) };
        let backlog = self.ledger.backlog(self.workers);
        self.ruling.admission_mut().on_move(now, &moved, &backlog);
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
        let Some(run) = self.queue.next_run(order, most, |item| !item.is_abandoned()) else {
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
        batch.range(taken..).for_each(|queued| queued.item.on_removal(Removal::Started(now, None)));
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
            match self.next(now, PartitionLease::WHOLE, discarded) {
                Some(queued) => started.push(queued.item),
                None => break,
            }
        }
        started
    }

    /// Whether an event that arrives now need not queue.
    pub(crate) fn has_place(&self, meta: &EventMetadata) -> bool {
        self.ledger.queued() == 0 && self.has_free_place() && {
            let backlog = self.ledger.backlog(self.workers);
            self.ruling.admission().may_start(meta.class, meta.kind, &backlog)
        }
    }

    pub(crate) fn has_free_place(&self) -> bool {
        self.ledger.running() < self.workers.get()
    }

    /// Lets an admitted event run at once that had a place before the law was asked.
    pub(crate) fn enter(&mut self, now: Timestamp, meta: &EventMetadata) -> ServiceSlot {
        self.running_changes(now);
        self.ledger.enter(meta.class);
        self.in_service.begin(now, meta)
    }

    /// A running event waits for its caller, and keeps its place, unless it has been inside for longer
    /// than the law learns from.
    pub(super) fn pause(&mut self, now: Timestamp, slot: ServiceSlot) {
        let Served { class, kind, started, .. } = *self.in_service.get_mut(slot);
        let limit = self.ruling.admission().park_after(class, kind);
        if limit.is_some_and(|limit| now.since(started) > limit) {
            return self.suspend(now, slot);
        }
        if let Some(served) = self.in_service.pause(now, slot) {
            self.tell_moved(now, &moved(&served, suspension(&served), served.service(now)));
        }
    }

    /// A running event waits for its caller, or has nothing to send: others may have its place,
    /// unless too many are suspended.
    pub(super) fn suspend(&mut self, now: Timestamp, slot: ServiceSlot) {
        if let Some(served) = self.in_service.suspend(now, slot) {
            self.ledger.release_place(served.class, WithoutPlace::Suspended);
            self.tell_moved(now, &moved(&served, suspension(&served), served.service(now)));
        }
    }

    /// A paused or suspended event goes on, without queueing.
    pub(super) fn resume(&mut self, now: Timestamp, slot: ServiceSlot) {
        let Some([before, served]) = self.in_service.resume(now, slot) else { return };
        let change = if served.has_data { Change::StreamResumed } else { Change::Resumed };
        if matches!(before.place, Place::Suspended(_)) {
            self.ledger.retake_place(served.class, WithoutPlace::Suspended);
        }
        self.tell_moved(now, &moved(&served, change, served.service(now)));
    }

    /// The first data of a stream is out. Returns for how many nanoseconds it has been suspended.
    pub(super) fn first_data(&mut self, now: Timestamp, slot: ServiceSlot) -> u64 {
        let served = self.in_service.get_mut(slot);
        served.has_data = true;
        let served = *served;
        // What has no place, the law is told nothing of until it has one.
        if served.place == Place::Held {
            self.tell_moved(now, &moved(&served, Change::FirstData, served.service(now)));
        }
        served.suspended(now)
    }

    /// More data of a stream is out. Its first was out at `answered`, less the time for which it had
    /// been suspended before.
    pub(super) fn progressed(&mut self, now: Timestamp, slot: ServiceSlot, answered: Timestamp) {
        let served = *self.in_service.get_mut(slot);
        if served.place == Place::Held {
            let nanos = now.nanos_since(answered).saturating_sub(served.suspended(now));
            self.tell_moved(now, &moved(&served, Change::Progressed, Duration::from_nanos(nanos)));
        }
    }

    /// Takes the places of those that have been in service for longer than the law learns from.
    pub(super) fn park(&mut self, now: Timestamp) {
        let law = self.ruling.admission();
        for served in self.in_service.park(now, |served| law.park_after(served.class, served.kind))
        {
            self.ledger.release_place(served.class, WithoutPlace::Parked);
            self.tell_moved(now, &moved(&served, Change::Parked, served.service(now)));
        }
        // The law has been told that their callers are waited for.
        let law = self.ruling.admission();
        let limit = |served: &Served| law.park_after(served.class, served.kind);
        for served in self.in_service.suspend_paused(now, limit) {
            self.ledger.release_place(served.class, WithoutPlace::Suspended);
        }
    }

    fn tell_moved(&mut self, now: Timestamp, moved: &Moved) {
        let backlog = self.ledger.backlog(self.workers);
        self.ruling.admission_mut().on_move(now, moved, &backlog);
    }

    /// An event that ran under a permit has ended.
    pub(super) fn finish_served(
        &mut self,
        now: Timestamp,
        slot: ServiceSlot,
        begun: &Begun,
        mut ended: Ended,
    ) {
        self.resume(now, slot);
        let served = self.in_service.end(slot);
        ended.suspended = served.suspended;
        match served.place {
            Place::Held | Place::Paused(_) | Place::Suspended(_) => {
                self.finish(now, std::slice::from_ref(begun), ended);
            }
            Place::Parked => {
                self.ledger.retake_place(begun.class, WithoutPlace::Parked);
                self.ledger.finish(begun.class, ended.outcome, 1);
                self.observe_end(now, begun, ended);
                self.tell_moved(now, &moved(&served, Change::ParkedEnded, served.service(now)));
            }
        }
    }

    /// Events that ran have ended.
    #[inline]
    pub(crate) fn finish(&mut self, now: Timestamp, events: &[Begun], ended: Ended) {
        // All are in the books before the law is told of one, which may panic.
        for begun in events {
            self.ledger.finish(begun.class, ended.outcome, begun.count);
        }
        for begun in events {
            self.tell_finished(now, begun, ended);
        }
    }

    #[inline]
    fn tell_finished(&mut self, now: Timestamp, begun: &Begun, ended: Ended) {
        let Begun { class, kind, count, .. } = *begun;
        let [service, response] = self.observe_end(now, begun, ended);
        let response = match self.measured_from {
            MeasuredFrom::Stage => response,
            MeasuredFrom::Service => response + begun.entered.since(begun.requested),
        };
        let ending = match ended.outcome {
            _ if !ended.teaches || ended.answered.is_some() => Ending::Untimed,
            Outcome::Completed => Ending::Completed,
            Outcome::Abandoned if !ended.outlasted => Ending::Abandoned,
            Outcome::Terminated | Outcome::Abandoned => Ending::Terminated,
            Outcome::Failed | Outcome::Dropped | Outcome::Rejected => Ending::Failed,
        };
        let finished =
            Finished { class, service, response, ending, kind, together: ended.together };
        let (law, backlog) = (self.ruling.admission_mut(), self.ledger.backlog(self.workers));
        if count == 1 {
            law.on_finish(now, &finished, &backlog);
        } else {
            law.on_finish_all(now, &finished, count, &backlog);
        }
    }

    /// Keeps the times of events that have ended: those of service and response.
    fn observe_end(&mut self, now: Timestamp, begun: &Begun, ended: Ended) -> [Duration; 2] {
        let own = |since: Timestamp, until: Timestamp| {
            until.nanos_since(since).saturating_sub(ended.suspended)
        };
        let service = own(ended.started, now);
        let response = match ended.answered {
            Some(answered) => answered.nanos_since(begun.entered),
            None => own(begun.entered, now),
        };
        if ended.timed && ended.outcome == Outcome::Completed {
            let queue = ended.started.nanos_since(begun.entered);
            let nanos = EventNanos { queue, service, response };
            self.observer.record(begun.class, nanos, begun.count);
        }
        [service, response].map(Duration::from_nanos)
    }

    pub(super) fn tick(
        &mut self,
        now: Timestamp,
        cpu: Option<Ratio>,
        settings: &SharedSettings,
    ) -> WorkerChange {
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
        let wanted = tick_slow_laws(&mut self.ruling, now, &activity, settings);
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
            queued.item.is_abandoned()
                || meta.deadline <= now
                || law.on_sweep(now, &waiting(meta), &backlog) == Dequeue::Drop
        });
        let (abandoned, mut overdue): (Vec<_>, Vec<_>) =
            overdue.into_iter().partition(|queued| queued.item.is_abandoned());
        self.abandoned_in_queue -= abandoned.len();
        for queued in &overdue {
            self.ledger.leave_queue(queued.meta.class, Outcome::Dropped);
            queued.item.on_removal(Removal::Discarded(DiscardReason::Dropped));
        }
        self.tell_unbegun(now, &overdue, Change::Dropped);
        overdue.extend(abandoned);
        overdue
    }

    /// Tells the law that these events are not going to run, and follows it; the books know of
    /// them already.
    pub(super) fn tell_unbegun(&mut self, now: Timestamp, unbegun: &[Queued<T>], change: Change) {
        if unbegun.is_empty() {
            return;
        }
        // Whoever waits for them is told also if the law panics.
        let _ = contained(|| {
            unbegun.iter().for_each(|queued| self.tell(now, &queued.meta, change));
            self.follow_law();
        });
    }

    /// The caller of a queued item has left. Returns such items that are taken out of the queue, to
    /// be discarded without the lock.
    #[must_use]
    pub(crate) fn abandon(&mut self, now: Timestamp, meta: &EventMetadata) -> Vec<Queued<T>> {
        /// Sweeping costs a pass over the queue: not more often than this.
        const ABANDONED_MIN: usize = 64;
        self.ledger.leave_queue(meta.class, Outcome::Abandoned);
        self.abandoned_in_queue += 1;
        let swept = if self.abandoned_in_queue > ABANDONED_MIN.max(self.queue.len() / 2) {
            self.queue.extract(|queued| queued.item.is_abandoned())
        } else {
            Vec::new()
        };
        self.abandoned_in_queue -= swept.len();
        // A panic of the law must not become one of the caller's destructor.
        let _ = contained(|| self.tell(now, meta, Change::Abandoned));
        self.follow_law();
        swept
    }

    /// The number of running events is about to change.
    pub(super) fn running_changes(&mut self, now: Timestamp) {
        let running = self.ledger.running();
        self.running_most = self.running_most.max(running);
        self.observer.advance(now, running, self.ledger.queued() > 0);
    }

    pub(super) fn follow_law(&mut self) {
        let workers = self.ruling.admission().places(self.worker_count);
        self.workers_raised |= workers > self.workers;
        self.workers = workers;
    }

    /// How many events the law lets a worker take that comes now: any number while all
    /// workers are of use, else one while there is a place, because events taken early
    /// would keep other workers idle.
    pub(super) fn room(&self) -> usize {
        if self.workers < self.worker_count {
            usize::from(self.ledger.running() < self.workers.get())
        } else {
            usize::MAX
        }
    }

    /// Whether a worker that came now could take an event: one whose caller has not left.
    pub(super) fn is_ready(&self) -> bool {
        self.queue.len() > self.abandoned_in_queue && self.queue.is_ready() && self.room() > 0
    }

    /// Whether to wake a worker: one that could take nothing would only wake the
    /// next, and that one the first again.
    pub(super) fn claim_idle_worker(&mut self) -> bool {
        let claimed = self.idle_workers > 0 && self.is_ready();
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
        (self.ledger.queued() == 0 || self.is_closed()) && self.ledger.in_service() == 0
    }
}

/// A queued event as laws see it.
fn waiting(meta: &EventMetadata) -> Waiting {
    let EventMetadata { class, entered, flow, kind, .. } = *meta;
    Waiting { class, entered, deadline: meta.deadline(), flow, kind }
}

/// What the law is told of an event whose time stands still from now on.
fn suspension(served: &Served) -> Change {
    if served.has_data { Change::StreamSuspended } else { Change::Suspended }
}

/// An event in service as laws see it.
fn moved(served: &Served, change: Change, time: Duration) -> Moved {
    let Served { class, flow, kind, .. } = *served;
    Moved { class, flow, kind, change, time }
}
