//! The heart of a stage with a queue: admission, queue, accounts and law behind
//! one lock.
//!
//! One short critical section for each thing that can happen (an event arrives,
//! is taken, ends) makes the accounts exact at every instant and lets a law be a
//! plain state machine. Nothing of the user's runs inside it: predicates run
//! before, and events that are discarded are destroyed after.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, Classes, Concurrency, Decision, Dequeue, Ending, Finished,
    Reason, Rejection, Timestamp, Waiting,
};
use tokio::sync::Notify;

use crate::clock::Clock;
use crate::entry::Entry;
use crate::ledger::{Ledger, Outcome};
use crate::observation::{LawReading, Observer, Phase, StageObservation};
use crate::queue::{Lease, Meta, Queue, Queued};

/// The governor looks at a stage this often: a tenth of the second that laws are
/// promised, so that what has become overdue in the queue is told so soon.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// Something that waits in a stage's queue.
pub(crate) trait Item: Send + Sized {
    /// Whether it is itself what runs (the caller at a gate), so that the stage
    /// starts it as soon as there is a place, rather than hand it to a worker.
    const BRINGS_WORKER: bool = false;

    /// It leaves the queue. Called under the stage's lock, so that it is never
    /// both in the queue and accounted for as something else.
    fn leaving(&self, _how: Leaving) {}

    /// It may run; called after the lock, for items that bring their worker.
    fn start(self) {}

    /// It will not run: tells whoever waits for it, after the lock.
    fn discard(self, why: Discard);

    /// Whether its sender has left and it has been accounted for already.
    fn is_gone(&self) -> bool {
        false
    }
}

/// How an item leaves the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    Started(Timestamp),
    Discarded(Discard),
}

/// Why an event is taken out without an answer from its handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Discard {
    Dropped,
    Terminated,
    Closed,
}

pub(crate) struct Core<T> {
    pub(crate) name: String,
    pub(crate) clock: Clock,
    pub(crate) classes: Classes,
    pub(crate) capacity: usize,
    state: Mutex<State<T>>,
    /// Idle workers wait here.
    work: Notify,
    /// Senders under backpressure wait here.
    space: Notify,
    freed: AtomicU64,
    /// Whoever drains waits here for the stage to be empty.
    empty: Notify,
}

pub(crate) struct State<T> {
    runs: &'static str,
    queue: Queue<T>,
    pub(crate) ledger: Ledger,
    law: Box<dyn AdmissionLaw>,
    observer: Observer,
    phase: Phase,
    workers: Concurrency,
    idle_workers: u32,
    blocked_senders: u32,
    /// Items in the queue that are gone: their senders left.
    gone: usize,
    rejections: BTreeMap<Reason, u64>,
    last_failure: Option<String>,
}

/// What a worker gets when it asks for work.
pub(crate) enum Take {
    /// Events, to be served under this lease.
    Batch(Lease),
    /// Nothing for now.
    Idle,
    /// Nothing any more.
    Closed,
}

/// How an event that ran has ended.
#[derive(Clone, Copy)]
pub(crate) struct Ended {
    pub(crate) meta: Meta,
    pub(crate) started: Timestamp,
    pub(crate) outcome: Outcome,
    /// Whether its times say something of the stage.
    pub(crate) timed: bool,
}

impl<T: Item> Core<T> {
    pub(crate) fn new(config: CoreConfig, queue: Queue<T>) -> Self {
        let now = config.clock.now();
        let state = State {
            runs: "nowhere yet",
            queue,
            ledger: Ledger::new(config.classes.len()),
            workers: config.law.concurrency().unwrap_or(config.workers),
            law: config.law,
            observer: Observer::new(now, config.classes.len()),
            phase: Phase::Open,
            idle_workers: 0,
            blocked_senders: 0,
            gone: 0,
            rejections: BTreeMap::new(),
            last_failure: None,
        };
        Self {
            name: config.name,
            clock: config.clock,
            classes: config.classes,
            capacity: config.capacity,
            state: Mutex::new(state),
            work: Notify::new(),
            space: Notify::new(),
            freed: AtomicU64::new(0),
            empty: Notify::new(),
        }
    }

    /// Says where its events run.
    pub(crate) fn runs(&self, runs: &'static str) {
        self.lock().runs = runs;
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock()
    }

    /// What the queue is to know of an event that enters at `now`.
    pub(crate) fn meta(&self, now: Timestamp, entry: &Entry) -> Meta {
        Meta {
            class: self.classes.resolve(entry.class),
            entered: now,
            deadline: entry.due.resolve(now),
            cost: entry.cost,
            flow: entry.flow,
        }
    }

    /// Lets one event in, or says why not, without accounting for a refusal.
    pub(crate) fn decide(
        &self,
        state: &mut State<T>,
        now: Timestamp,
        meta: &Meta,
    ) -> Result<(), Rejection> {
        self.check(state, now, meta)?;
        let arrival = Arrival { class: meta.class, deadline: meta.deadline() };
        match state.law.on_arrival(now, &arrival, &state.ledger.backlog(state.workers)) {
            Decision::Admit => Ok(()),
            Decision::Reject(rejection) => Err(rejection),
        }
    }

    /// What refuses an event whatever the law says, so that the law is not asked:
    /// its admission would be binding.
    pub(crate) fn check(
        &self,
        state: &State<T>,
        now: Timestamp,
        meta: &Meta,
    ) -> Result<(), Rejection> {
        state.check_open()?;
        if meta.deadline <= now {
            return Err(Rejection::new(Reason::PredictedLate));
        }
        if state.ledger.queued() >= self.capacity {
            return Err(Rejection::new(Reason::QueueFull));
        }
        Ok(())
    }

    /// Puts an admitted event into the queue; the ledger knows of it already.
    #[inline]
    pub(crate) fn push(&self, state: &mut State<T>, meta: Meta, item: T) {
        state.queue.push(Queued { meta, item });
    }

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
    pub(crate) fn take(&self, most: usize, batch: &mut VecDeque<Queued<T>>) -> Take {
        let mut discarded = Vec::new();
        let now = self.clock.now();
        let mut state = self.lock();
        if state.phase == Phase::Closed {
            return Take::Closed;
        }
        state.running_changes(now);
        let before = state.ledger.queued();
        // No more than a worker's share, so that none hoards what others could do.
        let most = most.min(before.div_ceil(state.workers.get() as usize));
        let mut take = Take::Idle;
        while batch.is_empty() {
            let Some(lease) = state.queue.lease() else { break };
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
        let freed = before - state.ledger.queued();
        let wake = state.claim_idle_worker();
        self.settle(state, now, freed);
        if wake {
            self.work.notify_one();
        }
        discard(discarded, Discard::Dropped);
        take
    }

    /// Waits until there is something to take, or the stage is closed, or
    /// `retired` says that this worker is no longer needed.
    pub(crate) async fn take_when_ready(
        &self,
        most: impl Fn() -> usize,
        batch: &mut VecDeque<Queued<T>>,
        mut retired: impl FnMut() -> bool,
    ) -> Option<Lease> {
        loop {
            if retired() {
                return None;
            }
            match self.take(most(), batch) {
                Take::Batch(lease) => return Some(lease),
                Take::Closed => return None,
                Take::Idle => {}
            }
            let notified = std::pin::pin!(self.work.notified());
            let mut notified = notified;
            notified.as_mut().enable();
            {
                let mut state = self.lock();
                // Whatever came since the look above must not be slept on.
                if state.queue.is_ready() {
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
    pub(crate) fn release(&self, lease: Lease) {
        let mut state = self.lock();
        state.queue.release(lease);
        self.wake_worker(state);
    }

    /// Books the end of events that ran.
    pub(crate) fn finish(&self, now: Timestamp, ended: impl IntoIterator<Item = Ended>) {
        let mut state = self.lock();
        for ended in ended {
            state.finish(now, &ended);
        }
        self.settle(state, now, 0);
    }

    /// After a change: lets items that bring their own worker start, wakes who
    /// waits for room or for the stage to be empty, and only then tells those
    /// that were started or dropped, without the lock.
    fn settle(&self, mut state: MutexGuard<'_, State<T>>, now: Timestamp, freed: usize) {
        if freed > 0 {
            // Written under the lock only.
            self.freed.store(self.freed() + freed as u64, Ordering::Release);
        }
        let nobody_waits = state.phase == Phase::Open
            && state.blocked_senders == 0
            && !(T::BRINGS_WORKER && state.queue.len() > 0);
        if nobody_waits {
            return;
        }
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
        discard(dropped, Discard::Dropped);
    }

    /// Takes back events that were handed to a worker but not begun, and drops them.
    pub(crate) fn drop_unbegun(&self, unbegun: impl IntoIterator<Item = Queued<T>>, why: Discard) {
        let unbegun: Vec<_> = unbegun.into_iter().collect();
        let now = self.clock.now();
        let mut state = self.lock();
        state.running_changes(now);
        for queued in &unbegun {
            state.ledger.drop_running(queued.meta.class);
        }
        self.settle(state, now, 0);
        discard(unbegun, why);
    }

    /// Lets go of a place that was reserved and not used.
    pub(crate) fn abort(&self, meta: &Meta) {
        let now = self.clock.now();
        let mut state = self.lock();
        state.ledger.abort(meta.class);
        self.settle(state, now, 1);
    }

    /// How many places in the queue have become free so far.
    pub(crate) fn freed(&self) -> u64 {
        self.freed.load(Ordering::Acquire)
    }

    /// Waits until the queue may have room, at most until `deadline`; for senders
    /// under backpressure, which looked at [`freed`](Self::freed) before they were
    /// refused.
    pub(crate) async fn room(&self, freed: u64, hint: Option<Duration>, deadline: Timestamp) {
        let notified = std::pin::pin!(self.space.notified());
        let mut notified = notified;
        notified.as_mut().enable();
        {
            let mut state = self.lock();
            // What changed since the refusal sends no wake-up any more.
            if state.phase != Phase::Open || self.freed() != freed {
                return;
            }
            state.blocked_senders += 1;
        }
        // A law may open with time alone, so nobody waits longer than a tick or
        // the law's own estimate.
        let longest = hint.unwrap_or(TICK).clamp(Duration::from_millis(1), TICK);
        let longest = longest.min(deadline.since(self.clock.now()));
        if tokio::time::timeout(longest, notified).await.is_err() {
            let mut state = self.lock();
            state.blocked_senders = state.blocked_senders.saturating_sub(1);
        }
    }

    /// Gives the law and the observers the time, and drops from the queue what
    /// has become overdue. Called by the governor.
    pub(crate) fn tick(&self) {
        let now = self.clock.now();
        let mut state = self.lock();
        state.tick(now);
        let overdue = state.take_overdue(now);
        self.settle(state, now, overdue.len());
        discard(overdue, Discard::Dropped);
    }

    /// Wakes every worker, so that each looks at what has changed.
    pub(crate) fn wake_all_workers(&self) {
        self.lock().idle_workers = 0;
        self.work.notify_waiters();
    }

    pub(crate) fn set_law(&self, law: Box<dyn AdmissionLaw>) {
        let now = self.clock.now();
        let mut state = self.lock();
        state.law = law;
        state.follow_law();
        self.settle(state, now, 0);
    }

    pub(crate) fn set_workers(&self, workers: Concurrency) {
        let now = self.clock.now();
        let mut state = self.lock();
        state.running_changes(now);
        state.workers = workers;
        state.follow_law();
        self.settle(state, now, 0);
    }

    pub(crate) fn note_failure(&self, mut what: String) {
        /// Enough for a status page; a handler's error may hold a whole request.
        const LENGTH_MAX: usize = 200;
        if let Some((end, _)) = what.char_indices().nth(LENGTH_MAX) {
            what.truncate(end);
        }
        self.lock().last_failure = Some(what);
    }

    /// Admits nothing more.
    pub(crate) fn begin_drain(&self) {
        let mut state = self.lock();
        if state.phase == Phase::Open {
            state.phase = Phase::Draining;
        }
        drop(state);
        self.space.notify_waiters();
    }

    /// Waits until nothing is inside.
    pub(crate) async fn emptied(&self) {
        loop {
            let notified = std::pin::pin!(self.empty.notified());
            let mut notified = notified;
            notified.as_mut().enable();
            if self.lock().is_empty() {
                return;
            }
            notified.await;
        }
    }

    /// Destroys the stage: the queue is discarded, workers end, and whoever
    /// knocks is told that it is closed.
    pub(crate) fn close(&self) {
        let now = self.clock.now();
        let mut state = self.lock();
        state.phase = Phase::Closed;
        state.running_changes(now);
        let cut = state.queue.extract(|_| true);
        let cut: Vec<_> = cut.into_iter().filter(|queued| !queued.item.is_gone()).collect();
        for queued in &cut {
            queued.item.leaving(Leaving::Discarded(Discard::Closed));
            state.ledger.drop_queued(queued.meta.class);
        }
        state.gone = 0;
        drop(state);
        discard(cut, Discard::Closed);
        self.wake_all_workers();
        self.space.notify_waiters();
        self.empty.notify_waiters();
    }

    pub(crate) fn phase(&self) -> Phase {
        self.lock().phase
    }

    pub(crate) fn observe(&self) -> StageObservation {
        let now = self.clock.now();
        let mut state = self.lock();
        let (running, workers) = (state.ledger.running(), state.workers.get());
        let class = |(id, _)| state.observer.class(id, &self.classes, state.ledger.accounts(id));
        let classes = self.classes.iter().map(class).collect();
        let mut readings = Vec::new();
        state.law.readings(&mut |reading| {
            readings.push(LawReading {
                name: reading.name.to_owned(),
                class: reading.class.map(|id| self.classes.at(id).name.clone()),
                value: reading.value,
            });
        });
        StageObservation {
            name: self.name.clone(),
            runs: state.runs,
            phase: state.phase,
            workers,
            busy: state.observer.busy(now, running, workers),
            queue_capacity: self.capacity,
            classes,
            rejections: state.rejections.clone(),
            law: state.law.name(),
            readings,
            last_failure: state.last_failure.clone(),
        }
    }

    fn notify_if_empty(&self, state: &State<T>) {
        if state.phase != Phase::Open && state.is_empty() {
            self.empty.notify_waiters();
        }
    }
}

impl<T: Item> State<T> {
    /// Books a refusal.
    pub(crate) fn reject(&mut self, meta: &Meta, rejection: &Rejection) {
        self.ledger.reject(meta.class);
        *self.rejections.entry(rejection.reason).or_insert(0) += 1;
    }

    /// The next event that is worth running; it counts as running from here on.
    fn next(
        &mut self,
        now: Timestamp,
        lease: Lease,
        discarded: &mut Vec<Queued<T>>,
    ) -> Option<Queued<T>> {
        loop {
            let oldest = self.queue.oldest().unwrap_or(now);
            let order = self.law.order(now.since(oldest));
            let queued = self.queue.pop(lease, order)?;
            if queued.item.is_gone() {
                self.gone -= 1;
                continue;
            }
            let class = queued.meta.class;
            let backlog = self.ledger.backlog(self.workers);
            if is_of_use(&mut *self.law, now, &queued.meta, &backlog) {
                self.ledger.start(class);
                queued.item.leaving(Leaving::Started(now));
                return Some(queued);
            }
            self.ledger.drop_queued(class);
            queued.item.leaving(Leaving::Discarded(Discard::Dropped));
            discarded.push(queued);
        }
    }

    /// Starts as many queued items as there are places.
    fn start_waiting(&mut self, now: Timestamp, discarded: &mut Vec<Queued<T>>) -> Vec<T> {
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

    pub(crate) fn finish(&mut self, now: Timestamp, ended: &Ended) {
        self.running_changes(now);
        let class = ended.meta.class;
        self.ledger.finish(class, ended.outcome);
        let ending = match ended.outcome {
            _ if !ended.timed => Ending::Untimed,
            Outcome::Completed => Ending::Completed,
            Outcome::Terminated => Ending::Terminated,
            Outcome::Failed | Outcome::Dropped | Outcome::Rejected => Ending::Failed,
        };
        let service = now.since(ended.started);
        let response = now.since(ended.meta.entered);
        if ending == Ending::Completed {
            self.observer.record(class, service, response);
        }
        let finished = Finished { class, service, response, ending };
        self.law.on_finish(now, &finished, &self.ledger.backlog(self.workers));
        self.follow_law();
    }

    fn tick(&mut self, now: Timestamp) {
        self.observer.tick(now, self.ledger.running());
        self.law.on_tick(now, &self.ledger.backlog(self.workers));
        self.follow_law();
    }

    /// Takes out what is of no use any more, wherever it stands: what waits behind a
    /// higher priority may never become next.
    fn take_overdue(&mut self, now: Timestamp) -> Vec<Queued<T>> {
        let law = &mut *self.law;
        let backlog = self.ledger.backlog(self.workers);
        let overdue = self.queue.extract(|queued| {
            queued.item.is_gone() || !is_of_use(law, now, &queued.meta, &backlog)
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
    fn running_changes(&mut self, now: Timestamp) {
        self.observer.running_changes(now, self.ledger.running());
    }

    fn follow_law(&mut self) {
        if let Some(limit) = self.law.concurrency() {
            self.workers = limit;
        }
    }

    /// Whether to wake a worker: one that could take nothing would only wake the
    /// next, and that one the first again.
    fn claim_idle_worker(&mut self) -> bool {
        let claimed = self.idle_workers > 0 && self.queue.is_ready();
        self.idle_workers -= u32::from(claimed);
        claimed
    }

    fn unblock(&mut self, freed: usize) -> u32 {
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
    fn is_empty(&self) -> bool {
        (self.ledger.queued() == 0 || self.is_closed()) && self.ledger.running() == 0
    }
}

/// Whether running a queued event now is worth it.
fn is_of_use(
    law: &mut dyn AdmissionLaw,
    now: Timestamp,
    meta: &Meta,
    backlog: &Backlog<'_>,
) -> bool {
    let deadline = meta.deadline();
    let waiting = Waiting { class: meta.class, entered: meta.entered, deadline };
    meta.deadline > now && law.on_dequeue(now, &waiting, backlog) == Dequeue::Run
}

/// What a [`Core`] is made of.
pub(crate) struct CoreConfig {
    pub(crate) name: String,
    pub(crate) clock: Clock,
    pub(crate) classes: Classes,
    pub(crate) law: Box<dyn AdmissionLaw>,
    pub(crate) workers: Concurrency,
    pub(crate) capacity: usize,
}

pub(crate) fn discard<T: Item>(items: impl IntoIterator<Item = Queued<T>>, why: Discard) {
    for queued in items {
        queued.item.discard(why);
    }
}

/// A stage as its governor sees it.
pub(crate) trait Governed: Send + Sync {
    fn tick(&self);
}

impl<T: Item> Governed for Core<T> {
    fn tick(&self) {
        Self::tick(self);
    }
}

/// Ticks the stage for as long as it lives.
pub(crate) fn govern(runtime: &tokio::runtime::Handle, stage: std::sync::Weak<dyn Governed>) {
    runtime.spawn(async move {
        let mut interval = tokio::time::interval(TICK);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            let Some(stage) = stage.upgrade() else { return };
            stage.tick();
        }
    });
}
