//! The heart of a stage with a queue: admission, queue, accounts and law behind
//! one lock.
//!
//! One short critical section for each thing that can happen (an event arrives,
//! is taken, ends) makes the accounts exact at every instant and lets a law be a
//! plain state machine. Nothing of the user's runs inside it: predicates run
//! before, and events that are discarded are destroyed after.

mod cpu;
mod governor;
mod in_service;
mod item;
mod payload;
mod settings;
mod slow_laws;
mod state;

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tamarisk_control::{
    AdmissionLaw, Arrival, BatchSize, Change, ClassId, Classes, Concurrency, Decision, Ratio,
    Reading, Reason, Rejection, Target, Timestamp,
};
use tamarisk_laws::catalogue::{InvalidKnob, Laws};
use tamarisk_laws::{Knobs as Settings, PredictGateTrim, Ruling, SlowLaws};
use tokio::sync::Notify;

use crate::builder::BuildError;
use crate::clock::Clock;
use crate::observe::Ledger;
use crate::observe::{
    ClassObservation, LawObservation, LawReading, Observer, Phase, StageObservation,
};
use crate::queue::{Lease, Meta, Queue, Queued, Run};
use crate::sink::Entry;

use governor::TICK;
pub(crate) use governor::{Governed, govern};
use in_service::InService;
pub(crate) use in_service::ServiceSlot;
use item::discard;
pub(crate) use item::{Discard, Item, Leaving};
pub(crate) use payload::{Payload, destroy};
pub(crate) use settings::Knobs;
pub(crate) use slow_laws::{Adjustment, bounds};
pub(crate) use state::{Begun, Ended, State};

/// A stage with a queue, whatever waits in it.
pub(crate) struct Core<T> {
    pub(crate) name: Arc<str>,
    pub(crate) clock: Clock,
    pub(crate) classes: Classes,
    pub(crate) capacity: usize,
    pub(crate) knobs: Knobs,
    state: Mutex<State<T>>,
    /// Idle workers wait here.
    work: Notify,
    /// Senders under backpressure wait here.
    space: Notify,
    freed: AtomicU64,
    /// Whoever drains waits here for the stage to be empty.
    empty: Notify,
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

impl<T: Item> Core<T> {
    pub(crate) fn new(config: CoreConfig, queue: Queue<T>) -> Self {
        let now = config.clock.now();
        let least = Concurrency::new(*config.workers.start());
        let state = State {
            runs: "nowhere yet",
            queue,
            ledger: Ledger::new(config.classes.len()),
            staff: least,
            workers: config.ruling.admission().places(least),
            ruling: config.ruling,
            chosen: config.chosen,
            bounds: config.workers,
            promised: config.classes.clone(),
            in_service: InService::default(),
            running_most: 0,
            observer: Observer::new(now, config.classes.len()),
            phase: Phase::Open,
            idle_workers: 0,
            blocked_senders: 0,
            gone: 0,
            rejections: BTreeMap::new(),
            last_failure: None,
        };
        Self {
            name: config.name.into(),
            clock: config.clock,
            knobs: Knobs::new(config.least_quality),
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
            kind: entry.kind,
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
        let backlog = state.ledger.backlog(state.workers);
        match state.ruling.admission_mut().on_arrival(now, &arrival(meta), &backlog) {
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

    /// Lets in what it may of events that arrive together; returns the others.
    pub(crate) fn admit_many(
        &self,
        state: &mut State<T>,
        now: Timestamp,
        arriving: Vec<Queued<T>>,
    ) -> Vec<(T, Rejection)> {
        if let Some(run) = alike(&arriving)
            && self.admits_all(state, now, run)
        {
            state.ledger.enqueue(run.meta.class, run.count);
            state.queue.push_all(arriving);
            return Vec::new();
        }
        let mut refused = Vec::new();
        for Queued { meta, item } in arriving {
            match self.decide(state, now, &meta) {
                Ok(()) => {
                    state.ledger.enqueue(meta.class, 1);
                    self.push(state, meta, item);
                }
                Err(rejection) => {
                    state.reject(&meta, &rejection);
                    refused.push((item, rejection));
                }
            }
        }
        refused
    }

    /// Whether all of `run` are let in at once; if not, nothing is decided.
    fn admits_all(&self, state: &mut State<T>, now: Timestamp, run: Run) -> bool {
        let Run { meta, count } = run;
        let room = self.capacity.saturating_sub(state.ledger.queued());
        self.check(state, now, &meta).is_ok() && count as usize <= room && {
            let backlog = state.ledger.backlog(state.workers);
            state.ruling.admission_mut().admits_all(now, &arrival(&meta), count, &backlog)
        }
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
        let most = most.min(before.div_ceil(state.workers.get() as usize)).min(state.room());
        let mut take = Take::Idle;
        while batch.is_empty() && most > 0 {
            let Some(lease) = state.queue.lease() else { break };
            while batch.len() < most && state.next_alike(now, most - batch.len(), batch) {}
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
            let mut notified = std::pin::pin!(self.work.notified());
            notified.as_mut().enable();
            {
                let mut state = self.lock();
                // Whatever came since the look above must not be slept on.
                if state.has_work() {
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
    pub(crate) fn finish(&self, now: Timestamp, events: &[Begun], ended: Ended) {
        let mut state = self.lock();
        state.running_changes(now);
        for begun in events {
            state.finish(now, begun, ended);
        }
        state.follow_law();
        self.settle(state, now, 0);
    }

    /// Books the end of an event that ran under a permit.
    pub(crate) fn finish_served(
        &self,
        now: Timestamp,
        slot: ServiceSlot,
        begun: &Begun,
        ended: Ended,
    ) {
        let mut state = self.lock();
        state.running_changes(now);
        state.finish_served(now, slot, begun, ended);
        state.follow_law();
        self.settle(state, now, 0);
    }

    /// The caller of a running event is waited for.
    pub(crate) fn suspend(&self, slot: ServiceSlot) {
        let now = self.clock.now();
        let mut state = self.lock();
        state.running_changes(now);
        state.suspend(now, slot);
        self.settle(state, now, 0);
    }

    /// The caller of a suspended event is not waited for any more.
    pub(crate) fn resume(&self, slot: ServiceSlot) {
        let now = self.clock.now();
        let mut state = self.lock();
        state.running_changes(now);
        state.resume(now, slot);
    }

    /// The first data of a stream is out.
    pub(crate) fn first_data(&self, now: Timestamp, slot: ServiceSlot) {
        let mut state = self.lock();
        state.first_data(now, slot);
        state.follow_law();
        self.settle(state, now, 0);
    }

    /// Starts what may start, where an event has queued beside a free place.
    pub(crate) fn start_beside_free_place(&self, state: MutexGuard<'_, State<T>>, now: Timestamp) {
        if state.has_free_place() {
            self.settle(state, now, 0);
        }
    }

    /// After a change: does what it means for those who wait, if anybody does.
    #[inline]
    fn settle(&self, state: MutexGuard<'_, State<T>>, now: Timestamp, freed: usize) {
        if freed > 0 {
            // Written under the lock only.
            self.freed.store(self.freed() + freed as u64, Ordering::Release);
        }
        let nobody_waits = state.phase == Phase::Open
            && state.blocked_senders == 0
            && !(T::BRINGS_WORKER && state.queue.len() > 0);
        if !nobody_waits {
            self.settle_waiting(state, now, freed);
        }
    }

    /// Lets items that bring their own worker start, wakes who waits for room or for
    /// the stage to be empty, and only then tells those that were started or dropped,
    /// without the lock.
    fn settle_waiting(&self, mut state: MutexGuard<'_, State<T>>, now: Timestamp, freed: usize) {
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
        state.tell(now, meta, Change::Dropped);
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
        let mut notified = std::pin::pin!(self.space.notified());
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

    /// Gives the laws and the observers the time, and drops from the queue what
    /// has become overdue. Called by the governor, which does to the workers what
    /// the answer says.
    pub(crate) fn tick(&self, cpu: Option<Ratio>) -> Adjustment {
        let now = self.clock.now();
        let mut state = self.lock();
        let wanted = state.tick(now, cpu, &self.knobs);
        state.running_changes(now);
        state.park(now);
        state.follow_law();
        let overdue = state.take_overdue(now);
        self.settle(state, now, overdue.len());
        discard(overdue, Discard::Dropped);
        Adjustment { workers: wanted.workers.map(|workers| self.within_bounds(workers)), ..wanted }
    }

    /// As many workers, as far as the stage was built for so many or so few.
    pub(crate) fn within_bounds(&self, workers: Concurrency) -> Concurrency {
        let bounds = self.lock().bounds.clone();
        Concurrency::new(workers.get().clamp(*bounds.start(), *bounds.end()))
    }

    /// Wakes every worker, so that each looks at what has changed.
    pub(crate) fn wake_all_workers(&self) {
        self.lock().idle_workers = 0;
        self.work.notify_waiters();
    }

    /// The classes with the targets that they have now.
    pub(crate) fn promised(&self) -> Classes {
        self.lock().promised.clone()
    }

    /// Promises some classes something else; the laws keep what they have learned.
    pub(crate) fn set_targets(&self, targets: &[(ClassId, Target)]) {
        let now = self.clock.now();
        let mut state = self.lock();
        for &(class, target) in targets {
            state.promised.set_target(class, target);
        }
        let State { ruling, promised, .. } = &mut *state;
        ruling.admission_mut().set_targets(promised);
        state.follow_law();
        self.settle(state, now, 0);
    }

    /// Replaces all laws by those of `laws`, which start without experience; without an
    /// admission law among them, by the default one.
    ///
    /// # Errors
    /// [`BuildError::Laws`] if they cannot be; then all stays as it was.
    pub(crate) fn set_laws(&self, laws: Laws) -> Result<(), BuildError> {
        let (name, classes) = (&self.name, self.promised());
        let impossible = |reason: InvalidKnob| BuildError::Laws {
            stage: name.to_string(),
            reason: reason.to_string(),
        };
        let default = || Box::new(PredictGateTrim::new(&classes)) as _;
        let admission = laws.make_admission(&classes, default).map_err(impossible)?;
        let slow = SlowLaws::named(&laws, &classes).map_err(impossible)?;

        let now = self.clock.now();
        let mut state = self.lock();
        state.running_changes(now);
        if let Some(law) = &slow.workers {
            state.bounds = bounds(&**law);
        }
        state.staff = Concurrency::new(*state.bounds.start());
        let batch = slow.batch.as_ref().map_or(BatchSize::ONE, |law| law.most());
        let settings = Settings { workers: state.staff, batch, quality: Ratio::ONE };
        let mut ruling = slow.with(admission, &state.promised, settings);
        // They may have changed since the laws were made.
        ruling.admission_mut().set_targets(&state.promised);
        let before = std::mem::replace(&mut state.ruling, ruling);
        state.chosen = laws;
        self.knobs.reset();
        state.follow_law();
        self.settle(state, now, 0);
        drop(before);
        Ok(())
    }

    pub(crate) fn set_law(&self, law: Box<dyn AdmissionLaw>) {
        let now = self.clock.now();
        let mut state = self.lock();
        state.ruling = Ruling::Admission(law);
        state.chosen = Laws::new();
        state.follow_law();
        self.settle(state, now, 0);
    }

    pub(crate) fn set_workers(&self, workers: Concurrency) {
        let now = self.clock.now();
        let mut state = self.lock();
        state.running_changes(now);
        state.staff = workers;
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
            let mut notified = std::pin::pin!(self.empty.notified());
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
        state.running_changes(now);
        let workers = state.workers.get();
        let class = |(id, _)| {
            let seen = state.observer.class(now, id, &state.promised, state.ledger.accounts(id));
            ClassObservation { run_limit: self.knobs.limit(id), ..seen }
        };
        let classes = self.classes.iter().map(class).collect();
        let mut readings = Vec::new();
        let mut read = |reading: Reading<'_>| {
            readings.push(LawReading {
                name: reading.name.to_owned(),
                class: reading.class.map(|id| self.classes.at(id).name.clone()),
                value: reading.value,
            });
        };
        state.ruling.admission().readings(&mut read);
        StageObservation {
            name: self.name.to_string(),
            runs: state.runs,
            phase: state.phase,
            workers,
            busy: state.observer.busy(workers),
            quality: self.knobs.quality(),
            profile: state.observer.profile(now),
            queue_capacity: self.capacity,
            classes,
            rejections: state.rejections.clone(),
            batch: state.ruling.composition().map(|laws| laws.knobs().batch.get()),
            law: state.ruling.admission().name(),
            laws: laws(&state.ruling, &state.chosen),
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

/// The laws that rule, with the constants of those that were chosen by name.
fn laws(ruling: &Ruling, chosen: &Laws) -> Vec<LawObservation> {
    let named = |(rules, name): (&'static str, _)| LawObservation { rules, name, knobs: vec![] };
    let admission = ("admission", ruling.admission().name());
    let names = std::iter::once(admission).chain(ruling.slow_names());
    let mut laws: Vec<_> = names.map(named).collect();
    chosen.each(|rules, name, knobs| match laws.iter_mut().find(|law| law.rules == rules) {
        Some(law) => law.knobs = knobs,
        None => laws.push(LawObservation { rules, name, knobs }),
    });
    laws
}

/// What a [`Core`] is made of.
pub(crate) struct CoreConfig {
    pub(crate) name: String,
    pub(crate) clock: Clock,
    pub(crate) classes: Classes,
    pub(crate) ruling: Ruling,
    pub(crate) chosen: Laws,
    pub(crate) workers: RangeInclusive<u32>,
    pub(crate) capacity: usize,
    pub(crate) least_quality: Vec<Ratio>,
}

/// What a law is told of an event that asks to enter.
fn arrival(meta: &Meta) -> Arrival {
    Arrival { class: meta.class, deadline: meta.deadline(), flow: meta.flow, kind: meta.kind }
}

/// Several events as one run, if a law cannot tell them apart.
fn alike<T>(events: &[Queued<T>]) -> Option<Run> {
    let (first, others) = events.split_first()?;
    let meta = first.meta;
    let same = |other: &Queued<T>| {
        let Meta { class, flow, deadline, kind, .. } = other.meta;
        (class, flow, deadline, kind) == (meta.class, meta.flow, meta.deadline, meta.kind)
    };
    let count = u32::try_from(events.len()).ok()?;
    (count > 1 && others.iter().all(same)).then_some(Run { meta, count })
}
