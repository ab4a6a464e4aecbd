//! An inline stage: its handler is a function that the caller runs itself, the papers'
//! *Combine* pattern, for steps that are short and do not wait [Welsh02 §3.3].
//!
//! There is no queue to look at and nothing to share, so crossing the boundary
//! costs two counters that the calling thread owns. One call in 64 is timed.

use std::sync::Arc;

use parking_lot::Mutex;
use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, CLASSES_MAX, ClassId, Classes, Concurrency, Decision, Ratio,
    Reason, Rejection, Target, Timestamp,
};
use thread_local::ThreadLocal;

use crate::build_error::BuildError;
use crate::builder::StageBuilder;
use crate::clock::Clock;
use crate::observe::{Accounts, EventNanos, Observer, Phase, StageObservation};
use crate::panics::contained;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// One call in this many is timed: two readings of the clock cost more than the
/// whole boundary should.
const SAMPLED: u32 = 64;

/// An inline stage; clones share it.
///
/// # Examples
/// ```
/// use tamarisk_stage::StageBuilder;
///
/// let parse = StageBuilder::new("parse").inline(|line: &str| line.trim().len())?;
/// assert_eq!(parse.call("  four  ")?, 4);
/// assert_eq!(parse.observe().total().completed, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Inline<F> {
    shared: Arc<Shared<F>>,
}

struct Shared<F> {
    name: String,
    function: F,
    classes: Classes,
    clock: Clock,
    closed: AtomicU32,
    stripes: ThreadLocal<Stripe>,
    /// Only where a law was asked for: with no queue, only its rate matters.
    law: Option<Mutex<Box<dyn AdmissionLaw>>>,
    observer: Mutex<Observer>,
    /// The classes with the targets that they have now.
    promised: Mutex<Classes>,
}

/// Why an inline stage has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InlineError {
    /// Rejected at admission.
    #[error("rejected: {}", .0.reason)]
    Rejected(Rejection),
    /// The handler panicked.
    #[error("the handler panicked")]
    Panicked,
}

impl StageBuilder {
    /// Builds an [`Inline`] stage, which its callers run themselves. Workers, queue and
    /// discipline do not apply; a law is asked only if one was set, and sees an empty backlog. It
    /// is told of arrivals and of new targets, and of nothing else: neither that time passes nor
    /// how events end. So it is to be one that decides by arrivals, such as
    /// [`RateLimit`](tamarisk_laws::RateLimit).
    ///
    /// # Errors
    /// [`BuildError`] if it could not work as described.
    pub fn inline<F>(self, function: F) -> Result<Inline<F>, BuildError> {
        let builder = self.with_named_laws()?.without_slow_laws()?;
        let asks = builder.has_law();
        let (config, _) = builder.into_config()?;
        if !config.resources.is_empty() {
            return Err(BuildError::InlineResources { stage: config.name });
        }
        let now = config.clock.now();
        let shared = Shared {
            name: config.name,
            function,
            observer: Mutex::new(Observer::new(now, config.classes.len())),
            promised: Mutex::new(config.classes.clone()),
            classes: config.classes,
            clock: config.clock,
            closed: AtomicU32::new(0),
            stripes: ThreadLocal::new(),
            law: asks.then(|| Mutex::new(config.law)),
        };
        Ok(Inline { shared: Arc::new(shared) })
    }
}

impl<F> Inline<F> {
    /// Runs the handler on an event of the default class.
    ///
    /// # Errors
    /// [`InlineError`] if the event was rejected or the handler panicked.
    #[inline]
    pub fn call<E, R>(&self, event: E) -> Result<R, InlineError>
    where
        F: Fn(E) -> R,
    {
        self.call_as(ClassId::DEFAULT, event)
    }

    /// Runs the handler on an event of `class`.
    ///
    /// # Errors
    /// [`InlineError`] if the event was rejected or the handler panicked.
    #[inline]
    pub fn call_as<E, R>(&self, class: ClassId, event: E) -> Result<R, InlineError>
    where
        F: Fn(E) -> R,
    {
        let shared = &*self.shared;
        let class = shared.classes.resolve(class);
        let stripe = shared.stripes.get_or(|| Stripe::new(shared.classes.len()));
        let counts = &stripe.counts[class.index()];
        counts.offered();
        if let Err(rejection) = shared.decide(class) {
            counts.rejected();
            return Err(InlineError::Rejected(rejection));
        }
        let started = stripe.is_sampled().then(|| shared.clock.now());
        match contained(|| (shared.function)(event)) {
            Ok(result) => {
                counts.completed();
                if let Some(started) = started {
                    shared.record(class, started);
                }
                Ok(result)
            }
            Err(_) => {
                counts.failed();
                Err(InlineError::Panicked)
            }
        }
    }

    /// The stage at this instant. It has no workers of its own and no queue.
    pub fn observe(&self) -> StageObservation {
        let shared = &*self.shared;
        let mut observer = shared.observer.lock();
        let now = shared.clock.now();
        observer.tick(now, |class| shared.accounts(class).offered);
        let promised = self.classes();
        let class = |(id, _)| observer.class(now, id, &promised, shared.accounts(id));
        StageObservation {
            name: shared.name.clone(),
            runs: "inline",
            phase: if shared.is_closed() { Phase::Closed } else { Phase::Open },
            workers: 0,
            busy: Ratio::ZERO,
            quality: Ratio::ONE,
            profile: observer.profile(now),
            queue_capacity: 0,
            classes: shared.classes.iter().map(class).collect(),
            senders: Vec::new(),
            rejections: Default::default(),
            batch: None,
            law: shared.law.as_ref().map_or("none", |law| law.lock().name()),
            laws: Vec::new(),
            readings: Vec::new(),
            last_failure: None,
        }
    }

    /// Its classes, with the targets that they have now.
    pub fn classes(&self) -> Classes {
        self.shared.promised.lock().clone()
    }

    /// Changes the targets of some classes. A law that was set keeps its estimates.
    pub fn set_targets(&self, targets: &[(ClassId, Target)]) {
        let mut promised = self.shared.promised.lock();
        for &(class, target) in targets {
            promised.set_target(class, target);
        }
        if let Some(law) = &self.shared.law {
            law.lock().set_targets(&promised);
        }
    }

    /// Rejects all events from now on.
    pub fn close(&self) {
        self.shared.closed.store(1, Ordering::Release);
    }
}

impl<F> Shared<F> {
    #[inline]
    fn decide(&self, class: ClassId) -> Result<(), Rejection> {
        if self.is_closed() {
            return Err(Rejection::new(Reason::Closed));
        }
        match &self.law {
            None => Ok(()),
            Some(law) => self.ask(&mut **law.lock(), class),
        }
    }

    #[cold]
    fn ask(&self, law: &mut dyn AdmissionLaw, class: ClassId) -> Result<(), Rejection> {
        const NONE: &[u32] = &[0; CLASSES_MAX];
        let backlog = Backlog {
            queued: &NONE[..self.classes.len()],
            running: &NONE[..self.classes.len()],
            queued_total: 0,
            running_total: 0,
            workers: Concurrency::ONE,
        };
        match law.on_arrival(
            self.clock.now(),
            &Arrival { class, deadline: None, flow: 0, kind: 0 },
            &backlog,
        ) {
            Decision::Admit => Ok(()),
            Decision::Reject(rejection) => Err(rejection),
        }
    }

    #[cold]
    fn record(&self, class: ClassId, started: Timestamp) {
        let now = self.clock.now();
        let took = now.nanos_since(started);
        let mut observer = self.observer.lock();
        observer.tick(now, |class| self.accounts(class).offered);
        observer.record(class, EventNanos { queue: 0, service: took, response: took }, 1);
    }

    /// Outcomes are read before arrivals, and each thread counts an arrival before
    /// its outcome: what is read as ended was read as offered too, and the rest
    /// is running.
    fn accounts(&self, class: ClassId) -> Accounts {
        let mut total = Accounts::default();
        for stripe in &self.stripes {
            stripe.counts[class.index()].add_outcomes(&mut total);
        }
        for stripe in &self.stripes {
            total.offered += stripe.counts[class.index()].offered.load(Ordering::Acquire);
        }
        total.running = total.offered - total.rejected - total.completed - total.failed;
        total
    }

    #[inline]
    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire) != 0
    }
}

/// One thread's share of the accounts; only that thread writes it.
struct Stripe {
    counts: Box<[ClassCounts]>,
    until_sample: AtomicU32,
}

#[derive(Default)]
struct ClassCounts {
    offered: AtomicU64,
    rejected: AtomicU64,
    completed: AtomicU64,
    failed: AtomicU64,
}

impl Stripe {
    fn new(classes: usize) -> Self {
        Self {
            counts: std::iter::repeat_with(ClassCounts::default).take(classes).collect(),
            until_sample: AtomicU32::new(0),
        }
    }

    #[inline]
    fn is_sampled(&self) -> bool {
        let left = self.until_sample.load(Ordering::Relaxed);
        self.until_sample.store(if left == 0 { SAMPLED - 1 } else { left - 1 }, Ordering::Relaxed);
        left == 0
    }
}

impl ClassCounts {
    #[inline]
    fn offered(&self) {
        increment(&self.offered);
    }

    #[inline]
    fn rejected(&self) {
        increment(&self.rejected);
    }

    #[inline]
    fn completed(&self) {
        increment(&self.completed);
    }

    #[inline]
    fn failed(&self) {
        increment(&self.failed);
    }

    fn add_outcomes(&self, total: &mut Accounts) {
        total.rejected += self.rejected.load(Ordering::Acquire);
        total.completed += self.completed.load(Ordering::Acquire);
        total.failed += self.failed.load(Ordering::Acquire);
    }
}

/// Adds one to a counter that no other thread writes: no locked instruction.
#[inline]
fn increment(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Release);
}

impl<F> Clone for Inline<F> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

#[cfg(all(test, tamarisk_loom))]
mod model {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// While one thread runs events, another reads the accounts: in no interleaving
    /// has more ended than was offered.
    #[test]
    fn no_outcome_is_seen_before_its_arrival() {
        loom::model(|| {
            let counts = Arc::new(ClassCounts::default());
            // The reader is the other thread: the checker would not try readings
            // between the load and the store of an increment that comes after them.
            let other = {
                let counts = Arc::clone(&counts);
                thread::spawn(move || {
                    let mut total = Accounts::default();
                    counts.add_outcomes(&mut total);
                    let offered = counts.offered.load(Ordering::Acquire);
                    assert!(total.completed <= offered);
                })
            };
            for _ in 0..2 {
                counts.offered();
                counts.completed();
            }
            other.join().expect("what was read makes sense");
        });
    }
}
