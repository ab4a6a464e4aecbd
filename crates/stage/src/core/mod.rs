//! The core of a stage with a queue: admission, queue, accounts and law behind one lock.
//!
//! One short critical section for each thing that can happen (an event arrives,
//! is taken, ends) makes the accounts exact at every instant and lets a law be a
//! plain state machine. Nothing of the user's runs inside it: predicates run
//! before, and events that are discarded are destroyed after.

mod cpu;
mod governor;
mod in_service;
mod item;
mod observation;
mod payload;
mod replacement;
mod resources;
mod serving;
mod settings;
mod shortage;
mod slow_laws;
mod state;
mod unserved;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tamarisk_control::{
    AdmissionLaw, Arrival, BatchSize, Change, ClassId, Classes, Concurrency, Decision,
    MeasuredFrom, PerSecond, Ratio, Reason, Rejection, Target, Timestamp,
};
use tamarisk_laws::{InvalidKnob, Knobs, Laws, Open, ResourceBounds, Ruling, SlowLaws, StageLaws};
use tokio::sync::Notify;

use crate::any_stage::Receivers;
use crate::build_error::BuildError;
use crate::call::{BoxError, ExpectedErrors};
use crate::clock::Clock;
use crate::entry::Entry;
use crate::observe::{Ledger, Observer, Outcome, Phase, Senders};
use crate::pool::{Limiter, PoolConfig};
use crate::queue::{EventMetadata, Queue, Queued, Run};

pub(crate) use governor::{Governed, TICK, spawn_governor};
use in_service::InService;
pub(crate) use in_service::ServiceSlot;
pub(crate) use item::{DiscardReason, Item, Removal, discard};
pub(crate) use payload::Payload;
pub use replacement::ReplaceError;
use resources::Resources;
pub(crate) use settings::SharedSettings;
use shortage::Shortage;
pub(crate) use slow_laws::{WorkerChange, bounds};
pub(crate) use state::{Begun, Ended, State};

/// A stage with a queue of items of any kind.
pub(crate) struct Core<T> {
    pub(crate) name: Arc<str>,
    pub(crate) clock: Clock,
    pub(crate) classes: Classes,
    /// Changed under the lock, and read there where it decides.
    capacity: AtomicUsize,
    /// The workers that were stated, which laws do not replace.
    stated: Option<RangeInclusive<u32>>,
    pub(crate) settings: SharedSettings,
    pub(crate) senders: Senders,
    pub(crate) receivers: Arc<Receivers>,
    /// If it is bounded by any.
    resources: Option<Resources>,
    state: Mutex<State<T>>,
    /// Idle workers wait here.
    work: Notify,
    /// Senders under backpressure wait here.
    space: Notify,
    freed: AtomicU64,
    /// Drains wait here for the stage to be empty.
    empty: Notify,
    /// The governor waits here for a lack of workers.
    shortage: Arc<Notify>,
}

impl<T: Item> Core<T> {
    pub(crate) fn new(config: CoreConfig, queue: Queue<T>) -> Self {
        let now = config.clock.now();
        let resources = Resources::new(&config.classes, config.resources);
        let least = Concurrency::new(*config.workers.start());
        let state = State {
            runs: "nowhere yet",
            queue,
            ledger: Ledger::new(config.classes.len()),
            worker_count: least,
            workers: config.law.places(least),
            workers_raised: false,
            ruling: Ruling::by(config.law),
            generation: 0,
            measured_from: config.measured_from,
            chosen: config.chosen,
            bounds: config.workers,
            promised: config.classes.clone(),
            in_service: InService::default(),
            shortage: Shortage::new(config.classes.len()),
            running_most: 0,
            observer: Observer::new(now, config.classes.len()),
            phase: Phase::Open,
            idle_workers: 0,
            blocked_senders: 0,
            abandoned_in_queue: 0,
            rejections: BTreeMap::new(),
            last_failure: None,
            expected: config.expected,
        };
        Self {
            name: config.name.into(),
            clock: config.clock,
            settings: SharedSettings::new(config.least_quality),
            senders: Senders::new(now),
            receivers: Arc::default(),
            resources,
            classes: config.classes,
            capacity: AtomicUsize::new(config.capacity),
            stated: config.stated,
            state: Mutex::new(state),
            work: Notify::new(),
            space: Notify::new(),
            freed: AtomicU64::new(0),
            empty: Notify::new(),
            shortage: Arc::new(Notify::new()),
        }
    }

    /// Has workers as `pool` says, and its slow laws beside the admission law that it has.
    pub(crate) fn settle(&self, pool: PoolConfig) {
        let PoolConfig { workers, batch, slow } = pool;
        let least = Concurrency::new(*workers.start());
        let settings = Knobs { workers: least, batch: BatchSize::new(batch), quality: Ratio::ONE };
        let mut state = self.lock();
        let stand_in = Ruling::by(Box::new(Open));
        let law = std::mem::replace(&mut state.ruling, stand_in).into_admission();
        state.ruling = slow.with(law, &state.promised, settings);
        // Slow laws were made for the targets of then.
        let State { ruling, promised, .. } = &mut *state;
        ruling.admission_mut().set_targets(promised);
        state.bounds = workers;
        state.worker_count = least;
        state.follow_law();
    }

    /// What is notified when more workers are wanted than there are.
    pub(crate) fn shortage(&self) -> Arc<Notify> {
        Arc::clone(&self.shortage)
    }

    /// How many workers there should be.
    pub(crate) fn worker_count(&self) -> Concurrency {
        self.lock().worker_count
    }

    /// No more than these could be started.
    pub(crate) fn have_no_more_workers(&self, workers: Concurrency) {
        let now = self.clock.now();
        let mut state = self.lock();
        state.shortage.put_off(now);
        state.worker_count = workers;
        state.follow_law();
    }

    /// Says where its events run.
    pub(crate) fn runs(&self, runs: &'static str) {
        self.lock().runs = runs;
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock()
    }

    /// The metadata of an event that enters at `now`.
    pub(crate) fn metadata(&self, now: Timestamp, entry: &Entry) -> EventMetadata {
        EventMetadata {
            class: self.classes.resolve(entry.class),
            requested: entry.requested.map_or(now, |requested| requested.min(now)),
            entered: now,
            deadline: entry.due.resolve(now),
            kind: entry.kind,
            cost: entry.cost.max(1),
            flow: entry.flow,
        }
    }

    /// The most events that may be queued.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Relaxed)
    }

    /// Decides on one event; a rejection is not counted.
    #[inline]
    pub(crate) fn decide(
        &self,
        state: &mut State<T>,
        now: Timestamp,
        meta: &EventMetadata,
    ) -> Result<(), Rejection> {
        self.check(state, now, meta)?;
        let mut runs_soon = false;
        if state.finds_none_idle() {
            let shortfall = state.ask_for_workers(now);
            runs_soon = shortfall.runs_soon;
            if shortfall.grows {
                self.shortage.notify_one();
            }
        }
        match state.on_arrival(now, &arrival(meta), runs_soon) {
            Decision::Admit => Ok(()),
            Decision::Reject(rejection) => Err(rejection),
        }
    }

    /// The rules that reject an event without asking the law, whose admission would be binding.
    pub(crate) fn check(
        &self,
        state: &State<T>,
        now: Timestamp,
        meta: &EventMetadata,
    ) -> Result<(), Rejection> {
        state.check_open()?;
        if meta.deadline <= now {
            return Err(Rejection::new(Reason::PredictedLate));
        }
        if state.ledger.queued() >= self.capacity() {
            return Err(Rejection::new(Reason::QueueFull));
        }
        match &self.resources {
            // While it holds nothing, what is scarce is not its doing, and it would reject for good.
            Some(resources) if state.ledger.queued() > 0 || state.ledger.in_service() > 0 => {
                resources.check(meta.class)
            }
            _ => Ok(()),
        }
    }

    /// Lets in what it may of events that arrive together; returns the others.
    pub(crate) fn admit_many(
        self: &Arc<Self>,
        state: &mut State<T>,
        now: Timestamp,
        arriving: Vec<Queued<T>>,
    ) -> Vec<(T, Rejection)> {
        if let Some(run) = alike(&arriving)
            && self.admits_all(state, now, run)
        {
            state.ledger.enqueue(run.meta.class, run.count);
            arriving.iter().for_each(|queued| queued.item.on_queued(self, &queued.meta));
            state.queue.push_all(arriving);
            return Vec::new();
        }
        let mut rejected = Vec::new();
        for Queued { meta, item } in arriving {
            match self.decide(state, now, &meta) {
                Ok(()) => {
                    state.ledger.enqueue(meta.class, 1);
                    self.push(state, meta, item);
                }
                Err(rejection) => {
                    state.reject(&meta, &rejection);
                    rejected.push((item, rejection));
                }
            }
        }
        rejected
    }

    /// Whether all of `run` are let in at once; if not, nothing is decided.
    fn admits_all(&self, state: &mut State<T>, now: Timestamp, run: Run) -> bool {
        let Run { meta, count } = run;
        let room = self.capacity().saturating_sub(state.ledger.queued());
        self.check(state, now, &meta).is_ok() && count as usize <= room && {
            let backlog = state.ledger.backlog(state.workers);
            state.ruling.admission_mut().admits_all(now, &arrival(&meta), count, &backlog)
        }
    }

    /// Puts an admitted event into the queue; the ledger knows of it already.
    #[inline]
    pub(crate) fn push(self: &Arc<Self>, state: &mut State<T>, meta: EventMetadata, item: T) {
        item.on_queued(self, &meta);
        state.queue.push(Queued { meta, item });
    }

    /// Releases a place that was reserved and not used.
    pub(crate) fn abort(&self, meta: &EventMetadata) {
        let now = self.clock.now();
        let mut state = self.lock();
        state.ledger.abort(meta.class);
        state.tell(now, meta, Change::Dropped);
        self.dispatch(state, now, 1);
    }

    /// How many places in the queue have become free so far.
    pub(crate) fn freed(&self) -> u64 {
        self.freed.load(Ordering::Acquire)
    }

    /// Waits until the queue may have room, at most until `deadline`; for senders
    /// under backpressure, which looked at [`freed`](Self::freed) before they were
    /// rejected.
    pub(crate) async fn room(&self, freed: u64, hint: Option<Duration>, deadline: Timestamp) {
        let mut notified = std::pin::pin!(self.space.notified());
        notified.as_mut().enable();
        {
            let mut state = self.lock();
            // A change since the rejection sends no wake-up any more.
            if state.phase != Phase::Open || self.freed() != freed {
                return;
            }
            state.blocked_senders += 1;
        }
        // Laws may admit again as time passes, so a sender waits no longer than a tick or
        // the law's own estimate.
        let longest = hint.unwrap_or(TICK).clamp(Duration::from_millis(1), TICK);
        let longest = longest.min(deadline.since(self.clock.now()));
        if tokio::time::timeout(longest, notified).await.is_err() {
            let mut state = self.lock();
            state.blocked_senders = state.blocked_senders.saturating_sub(1);
        }
    }

    /// Ticks the laws and the recorded times, and drops overdue events from the queue. The
    /// governor, which calls it, applies the change of workers that it returns.
    pub(crate) fn tick(&self, cpu: Option<Ratio>) -> WorkerChange {
        let now = self.clock.now();
        self.senders.tick(now);
        self.resources.iter().for_each(|resources| resources.tick(now, cpu));
        let mut state = self.lock();
        let wanted = state.tick(now, cpu, &self.settings);
        let generation = state.generation;
        state.running_changes(now);
        state.park(now);
        state.follow_law();
        let before = state.ledger.queued();
        let overdue = state.take_overdue(now);
        let freed = before - state.ledger.queued();
        self.dispatch(state, now, freed);
        discard(overdue, DiscardReason::Dropped);
        WorkerChange {
            workers: wanted.workers.map(|workers| self.within_bounds(workers)),
            generation,
            ..wanted
        }
    }

    /// The number of workers, clamped to the bounds of the stage.
    pub(crate) fn within_bounds(&self, workers: Concurrency) -> Concurrency {
        let bounds = self.lock().bounds.clone();
        Concurrency::new(workers.get().clamp(*bounds.start(), *bounds.end()))
    }

    /// The classes with the targets that they have now.
    pub(crate) fn promised(&self) -> Classes {
        self.lock().promised.clone()
    }

    /// Changes the targets of some classes; the laws keep their estimates.
    pub(crate) fn set_targets(&self, targets: &[(ClassId, Target)]) {
        let now = self.clock.now();
        let mut state = self.lock();
        for &(class, target) in targets {
            state.promised.set_target(class, target);
        }
        let State { ruling, promised, .. } = &mut *state;
        ruling.admission_mut().set_targets(promised);
        state.follow_law();
        self.dispatch(state, now, 0);
    }

    /// Tells the workers law, if there is one, how many events a second to complete.
    pub(crate) fn set_throughput(&self, target: PerSecond) {
        self.lock().ruling.set_throughput(target);
    }

    /// How often its laws were replaced by those of another stage.
    pub(crate) fn generation(&self) -> u64 {
        self.lock().generation
    }

    /// Replaces all laws of a gate by those of `laws`, which start without estimates; without an
    /// admission law among them, by the default one.
    ///
    /// # Errors
    /// [`BuildError::Laws`] if they are invalid, [`BuildError::NoLimit`] if nothing says how many
    /// may enter at once; then nothing changes.
    pub(crate) fn set_laws(&self, laws: Laws) -> Result<(), BuildError> {
        let (name, classes) = (&self.name, self.promised());
        let impossible = |reason: InvalidKnob| BuildError::Laws {
            stage: name.to_string(),
            reason: reason.to_string(),
        };
        let slow = SlowLaws::named(&laws, &classes).map_err(impossible)?;
        let workers = slow.workers.as_ref().map(|law| bounds(&**law));
        let workers = workers.or_else(|| self.stated.clone());
        let limiter = if workers.is_some() { Limiter::Workers } else { Limiter::Admission };
        let default = || limiter.default_law(&classes);
        let admission = laws.make_admission(&classes, default).map_err(impossible)?;
        limiter.check(name, &*admission)?;

        let now = self.clock.now();
        let mut state = self.lock();
        state.running_changes(now);
        state.bounds = workers.unwrap_or(1..=1);
        state.worker_count = Concurrency::new(*state.bounds.start());
        let batch = slow.first_batch(BatchSize::ONE);
        let settings = Knobs { workers: state.worker_count, batch, quality: Ratio::ONE };
        let slow = StageLaws::coordinated(slow, laws.coordination);
        let mut ruling = slow.with(admission, &state.promised, settings);
        // They may have changed since the laws were made.
        ruling.admission_mut().set_targets(&state.promised);
        let before = std::mem::replace(&mut state.ruling, ruling);
        state.chosen = laws;
        self.settings.reset();
        state.follow_law();
        self.dispatch(state, now, 0);
        drop(before);
        Ok(())
    }

    pub(crate) fn set_law(&self, law: Box<dyn AdmissionLaw>) {
        let now = self.clock.now();
        let mut state = self.lock();
        if T::BRINGS_WORKER
            && self.stated.is_none()
            && let Some(found) = state.ruling.admission().concurrency()
        {
            // As many may enter as did, if the new law does not say it.
            state.worker_count = found;
        }
        let before = std::mem::replace(&mut state.ruling, Ruling::by(law));
        state.chosen = Laws::new();
        state.follow_law();
        self.dispatch(state, now, 0);
        drop(before);
    }

    pub(crate) fn set_workers(&self, workers: Concurrency) {
        let now = self.clock.now();
        let mut state = self.lock();
        state.running_changes(now);
        state.worker_count = workers;
        state.follow_law();
        self.dispatch(state, now, 0);
    }

    /// Whether this error of its handler is an answer.
    pub(crate) fn expects(&self, error: &BoxError) -> bool {
        // What the user gave does not run under the lock.
        let expected = self.lock().expected.clone();
        expected.contain(error)
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

    /// Destroys the stage: the queue is discarded, workers end, and new events are rejected as
    /// closed.
    pub(crate) fn close(&self) {
        let now = self.clock.now();
        let mut state = self.lock();
        state.phase = Phase::Closed;
        state.running_changes(now);
        let cut = state.queue.extract(|_| true);
        let (abandoned, cut): (Vec<_>, Vec<_>) =
            cut.into_iter().partition(|queued| queued.item.is_abandoned());
        for queued in &cut {
            queued.item.on_removal(Removal::Discarded(DiscardReason::Closed));
            state.ledger.leave_queue(queued.meta.class, Outcome::Dropped);
        }
        state.abandoned_in_queue = 0;
        drop(state);
        discard(cut, DiscardReason::Closed);
        discard(abandoned, DiscardReason::Abandoned);
        self.wake_all_workers();
        self.space.notify_waiters();
        self.empty.notify_waiters();
    }

    pub(crate) fn phase(&self) -> Phase {
        self.lock().phase
    }
}

/// What a [`Core`] is made of.
pub(crate) struct CoreConfig {
    pub(crate) name: String,
    pub(crate) clock: Clock,
    pub(crate) classes: Classes,
    /// For admission.
    pub(crate) law: Box<dyn AdmissionLaw>,
    pub(crate) measured_from: MeasuredFrom,
    pub(crate) chosen: Laws,
    /// The workers that were stated.
    pub(crate) stated: Option<RangeInclusive<u32>>,
    /// Those that it has until it is [settled](Core::settle).
    pub(crate) workers: RangeInclusive<u32>,
    pub(crate) capacity: usize,
    pub(crate) least_quality: Vec<Ratio>,
    pub(crate) resources: ResourceBounds,
    pub(crate) expected: ExpectedErrors,
}

/// An arriving event as laws see it.
fn arrival(meta: &EventMetadata) -> Arrival {
    Arrival { class: meta.class, deadline: meta.deadline(), flow: meta.flow, kind: meta.kind }
}

/// Several events as one run, if a law cannot tell them apart.
fn alike<T>(events: &[Queued<T>]) -> Option<Run> {
    let (first, others) = events.split_first()?;
    let meta = first.meta;
    let same = |other: &Queued<T>| {
        let EventMetadata { class, flow, deadline, kind, .. } = other.meta;
        (class, flow, deadline, kind) == (meta.class, meta.flow, meta.deadline, meta.kind)
    };
    let count = u32::try_from(events.len()).ok()?;
    (count > 1 && others.iter().all(same)).then_some(Run { meta, count })
}
