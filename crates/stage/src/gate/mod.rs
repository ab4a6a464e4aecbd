//! A gate: a stage whose events are run by their own callers, each under a permit.
//!
//! No event changes its task or thread: an uncongested gate costs its
//! caller two short critical sections and two readings of the clock. Callers
//! queue only while all permits are out, under the same laws, disciplines and
//! accounts as events in any other stage.

mod caller;
mod permit;

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tamarisk_control::{
    AdmissionLaw, ClassId, Classes, Concurrency, Ratio, Reason, Rejection, Target, Timestamp,
};
use tamarisk_laws::Laws;

use crate::any_stage::{AnyStage, Draining, Erased, Receivers};
use crate::build_error::BuildError;
use crate::builder::StageBuilder;
use crate::clock::Clock;
use crate::core::{Begun, Core, Governed, ServiceSlot, spawn_governor};
use crate::drain;
use crate::entry::Entry;
use crate::observe::{DrainReport, Outcome, StageObservation};
use crate::pool::WorkerKind;
use crate::queue::EventMetadata;
use caller::{QueuedCaller, Waiter};
pub use permit::GatePermit;

/// A gate; clones share it.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use tamarisk_stage::{Entry, Gate, StageBuilder};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let gate: Gate = StageBuilder::new("database").workers(8).gate()?;
/// let permit = gate.enter(Entry::new().timeout(Duration::from_secs(1))).await?;
/// // … the work …
/// permit.complete();
/// assert_eq!(gate.observe().total().completed, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Gate {
    core: Arc<Core<Arc<Waiter>>>,
}

/// Why [`Gate::enter`] gave no permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnterError {
    /// Rejected at admission; the rejection may say when to retry.
    #[error("rejected: {}", .0.reason)]
    Rejected(Rejection),
    /// Dropped from the queue: it could no longer be served in time.
    #[error("dropped from the queue: too late to be of use")]
    Dropped,
    /// The gate was closed while it waited.
    #[error("the gate was closed")]
    Closed,
}

/// Why [`Gate::run`] has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The caller got no permit; the work was not started.
    #[error(transparent)]
    NotEntered(#[from] EnterError),
    /// The work was ended at its deadline.
    #[error("terminated at its deadline")]
    Terminated,
}

impl StageBuilder {
    /// Builds a [`Gate`].
    ///
    /// # Errors
    /// [`BuildError`] if it could not work as described.
    pub fn gate(self) -> Result<Gate, BuildError> {
        Gate::new(self)
    }
}

impl Gate {
    pub(crate) fn new(builder: StageBuilder) -> Result<Self, BuildError> {
        let builder = builder.for_gate().with_named_laws()?;
        let runtime = builder.runtime()?;
        let (queue, partitioned) = (builder.queue(), builder.is_partitioned());
        let (config, pool) = builder.into_config()?;
        if partitioned {
            return Err(BuildError::PartitionedGate { stage: config.name });
        }
        let core = Arc::new(Core::new(config, queue));
        core.settle(pool.settle(WorkerKind::Callers, 1));
        core.runs("gate");
        let governed: std::sync::Weak<Core<Arc<Waiter>>> = Arc::downgrade(&core);
        spawn_governor(&runtime, governed, core.shortage());
        Ok(Self { core })
    }

    /// A permit if one can be had without waiting.
    ///
    /// # Errors
    /// The rejection, or [`Reason::QueueFull`] if the caller would have to wait.
    #[inline]
    pub fn try_enter(&self, entry: Entry) -> Result<GatePermit, Rejection> {
        let now = self.core.clock.now();
        let meta = self.core.metadata(now, &entry);
        let mut state = self.core.lock();
        let decision = if state.has_place(&meta) {
            self.core.decide(&mut state, now, &meta)
        } else {
            let must_wait = Rejection::new(Reason::QueueFull);
            self.core.check(&state, now, &meta).and(Err(must_wait))
        };
        if let Err(rejection) = decision {
            state.reject(&meta, &rejection);
            return Err(rejection);
        }
        let slot = state.enter(now, &meta);
        drop(state);
        Ok(self.permit(&meta, now, slot))
    }

    /// As [`try_enter`](Self::try_enter), for an event that the gate `sender` has rejected or passes on: it
    /// is counted among what this gate's [senders](StageObservation::senders) have sent.
    ///
    /// # Errors
    /// Those of [`try_enter`](Self::try_enter).
    pub fn try_enter_from(&self, sender: &Self, entry: Entry) -> Result<GatePermit, Rejection> {
        let entered = self.try_enter(entry);
        let taken = usize::from(entered.is_ok());
        if self.core.senders.count(&sender.core.name, taken, 1 - taken) {
            sender.core.receivers.add(Arc::downgrade(&self.core) as _);
        }
        entered
    }

    /// A permit, after waiting for one if need be. Dropping the future leaves
    /// the queue; the event counts as abandoned.
    ///
    /// # Errors
    /// [`EnterError`], at once or after a wait.
    // Written by hand: an `async fn` would copy the permit from each of its states to the next.
    pub fn enter(
        &self,
        entry: Entry,
    ) -> impl Future<Output = Result<GatePermit, EnterError>> + Send + Unpin + '_ {
        let mut waiting: Option<QueuedCaller> = None;
        poll_fn(move |cx| {
            if let Some(waiting) = &mut waiting {
                return waiting.poll(cx);
            }
            match self.arrive(&entry) {
                Ok(Arrived::Running(meta, now, slot)) => {
                    Poll::Ready(Ok(self.permit(&meta, now, slot)))
                }
                Ok(Arrived::Waiting(new)) => waiting.insert(new).poll(cx),
                Err(rejection) => Poll::Ready(Err(EnterError::Rejected(rejection))),
            }
        })
    }

    /// Runs `work` under a permit, and ends it at the permit's
    /// [deadline](GatePermit::deadline). Dropping the future ends it, too; the event counts as
    /// abandoned.
    ///
    /// # Errors
    /// [`RunError`] if the work was rejected or ended early.
    pub async fn run<F: Future>(&self, entry: Entry, work: F) -> Result<F::Output, RunError> {
        let permit = self.enter(entry).await?;
        let output = match permit.deadline() {
            None => work.await,
            Some(end) => {
                let left = end.since(self.core.clock.now());
                let Ok(output) = tokio::time::timeout(left, work).await else {
                    permit.terminate();
                    return Err(RunError::Terminated);
                };
                output
            }
        };
        permit.complete();
        Ok(output)
    }

    #[inline]
    fn arrive(&self, entry: &Entry) -> Result<Arrived, Rejection> {
        let now = self.core.clock.now();
        let meta = self.core.metadata(now, entry);
        let mut state = self.core.lock();
        // Asked before the law counts it among those that run.
        let has_place = state.has_place(&meta);
        if let Err(rejection) = self.core.decide(&mut state, now, &meta) {
            state.reject(&meta, &rejection);
            return Err(rejection);
        }
        if has_place {
            let slot = state.enter(now, &meta);
            return Ok(Arrived::Running(meta, now, slot));
        }
        let waiter = Arc::new(Waiter::default());
        state.ledger.enqueue(meta.class, 1);
        self.core.push(&mut state, meta, Arc::clone(&waiter));
        self.core.start_beside_free_place(state, now);
        Ok(Arrived::Waiting(QueuedCaller { gate: self.clone(), meta, waiter }))
    }

    #[inline]
    fn permit(&self, meta: &EventMetadata, started: Timestamp, slot: ServiceSlot) -> GatePermit {
        let (gate, end) = (self.clone(), self.core.settings.end(meta, started));
        let begun = Begun::one(meta);
        let (due, outcome) = (meta.deadline, Outcome::Abandoned);
        let (timed, answered, has_progressed, outlasted) = (true, None, false, false);
        GatePermit {
            gate,
            begun,
            slot,
            started,
            end,
            due,
            timed,
            answered,
            has_progressed,
            outlasted,
            outcome,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// The gate at this instant.
    pub fn observe(&self) -> StageObservation {
        self.core.observe()
    }

    /// The clock that deadlines are compared with.
    pub fn clock(&self) -> &Clock {
        &self.core.clock
    }

    /// The class of this name, if it has one.
    pub fn class(&self, name: &str) -> Option<ClassId> {
        self.core.classes.named(name)
    }

    /// Sets how many callers may run at once, unless the law sets it.
    pub fn set_workers(&self, workers: Concurrency) {
        self.core.set_workers(workers);
    }

    /// Its classes, with the targets that they have now.
    pub fn classes(&self) -> Classes {
        self.core.promised()
    }

    /// Changes the targets of some classes. Events inside go on, and the laws keep their
    /// estimates.
    pub fn set_targets(&self, targets: &[(ClassId, Target)]) {
        self.core.set_targets(targets);
    }

    /// Replaces the laws by this admission law, which starts without estimates. Settings made
    /// by slow laws stay. If it sets no limit, and no number of workers is stated, as many callers
    /// may run at once as the law before allows.
    pub fn set_law(&self, law: Box<dyn AdmissionLaw>) {
        self.core.set_law(law);
    }

    /// Replaces all laws by `laws`, which start without estimates. Events inside go on. What `laws`
    /// leave open is as if the gate had been built with them.
    ///
    /// # Errors
    /// [`BuildError::Laws`] if they are invalid, [`BuildError::NoLimit`] if nothing says how many
    /// may run at once; then nothing changes.
    pub fn set_laws(&self, laws: Laws) -> Result<(), BuildError> {
        self.core.set_laws(laws)
    }

    /// Stops admitting, waits until the gate is empty or `timeout` has passed, then closes it.
    /// Callers that still run go on: a gate cannot end them, and the report counts them as left.
    pub async fn drain(&self, timeout: Duration) -> DrainReport {
        Erased::drain(&*self.core, timeout).await
    }

    /// Rejects all events from now on, and discards the queue.
    pub fn close(&self) {
        self.core.close();
    }
}

enum Arrived {
    Running(EventMetadata, Timestamp, ServiceSlot),
    Waiting(QueuedCaller),
}

impl Governed for Core<Arc<Waiter>> {
    fn tick(&self, cpu: Option<Ratio>) {
        if let Some(workers) = Self::tick(self, cpu).workers {
            self.set_workers(workers);
        }
    }
}

impl Erased for Core<Arc<Waiter>> {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_closed(&self) -> bool {
        self.lock().is_closed()
    }

    fn observe(&self) -> StageObservation {
        Self::observe(self)
    }

    fn drain(&self, timeout: Duration) -> Draining<'_> {
        Box::pin(drain::drain(self, timeout, || {}))
    }

    fn receivers(&self) -> &Receivers {
        &self.receivers
    }
}

impl From<&Gate> for AnyStage {
    fn from(gate: &Gate) -> Self {
        Self::new(Arc::clone(&gate.core) as _)
    }
}
