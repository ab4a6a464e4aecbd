//! A stage whose events run in their own callers, once these hold a permit.
//!
//! Nothing is handed to another task or thread: an uncongested gate costs its
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
use tamarisk_laws::catalogue::Laws;

use crate::builder::{BuildError, StageBuilder};
use crate::clock::Clock;
use crate::core::{Begun, Core, Governed, ServiceSlot, govern};
use crate::drain::{self, DrainReport};
use crate::observe::Outcome;
use crate::observe::StageObservation;
use crate::queue::Meta;

use crate::sink::Entry;
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

/// Why a gate did not let a caller through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// At admission; try again after the time it names, if any.
    #[error("refused: {}", .0.reason)]
    Rejected(Rejection),
    /// After it had waited: it could no longer be served in time.
    #[error("dropped from the queue: too late to be of use")]
    Dropped,
    /// The gate was closed while it waited.
    #[error("the gate was closed")]
    Closed,
}

/// Why [`Gate::run`] has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The work was never begun.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The work was ended at its deadline.
    #[error("terminated at its deadline")]
    Terminated,
}

impl StageBuilder {
    /// A stage run by its own callers.
    ///
    /// # Errors
    /// [`BuildError`] if it could not work as described.
    pub fn gate(self) -> Result<Gate, BuildError> {
        Gate::new(self)
    }
}

impl Gate {
    pub(crate) fn new(builder: StageBuilder) -> Result<Self, BuildError> {
        let builder = builder.with_named_laws()?.with_default_limit();
        let runtime = builder.runtime()?;
        let (queue, partitioned) = (builder.queue(), builder.is_partitioned());
        let config = builder.into_config()?;
        if partitioned {
            return Err(BuildError::PartitionedGate { stage: config.name });
        }
        let core = Arc::new(Core::new(config, queue));
        core.runs("gate");
        let governed: std::sync::Weak<Core<Arc<Waiter>>> = Arc::downgrade(&core);
        govern(&runtime, governed);
        Ok(Self { core })
    }

    /// A permit if one can be had without waiting.
    ///
    /// # Errors
    /// The law's refusal, or [`Reason::QueueFull`] if the caller would have to wait.
    #[inline]
    pub fn try_enter(&self, entry: Entry) -> Result<GatePermit, Rejection> {
        let now = self.core.clock.now();
        let meta = self.core.meta(now, &entry);
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

    /// A permit, after waiting for one if need be. Dropping the future leaves
    /// the queue; the event counts as dropped.
    ///
    /// # Errors
    /// [`Refused`], at once or after a wait.
    // By hand, for an `async fn` would copy the permit from each of its states to the next.
    pub fn enter(
        &self,
        entry: Entry,
    ) -> impl Future<Output = Result<GatePermit, Refused>> + Send + Unpin + '_ {
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
                Err(rejection) => Poll::Ready(Err(Refused::Rejected(rejection))),
            }
        })
    }

    /// Runs `work` under a permit, and ends it at the permit's
    /// [deadline](GatePermit::deadline).
    ///
    /// # Errors
    /// [`RunError`] if the work was refused or ended early.
    pub async fn run<F: Future>(&self, entry: Entry, work: F) -> Result<F::Output, RunError> {
        let permit = self.enter(entry).await?;
        let output = match permit.deadline() {
            None => work.await,
            Some(end) => {
                let left = end.since(self.core.clock.now());
                tokio::time::timeout(left, work).await.map_err(|_| RunError::Terminated)?
            }
        };
        permit.complete();
        Ok(output)
    }

    #[inline]
    fn arrive(&self, entry: &Entry) -> Result<Arrived, Rejection> {
        let now = self.core.clock.now();
        let meta = self.core.meta(now, entry);
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
    fn permit(&self, meta: &Meta, started: Timestamp, slot: ServiceSlot) -> GatePermit {
        let (gate, end) = (self.clone(), self.core.knobs.end(meta, started));
        let begun = Begun::one(meta);
        let outcome = Outcome::Terminated;
        GatePermit { gate, begun, slot, started, end, timed: true, answered: None, outcome }
    }

    /// What its owner calls it.
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

    /// How many callers may run at once, unless the law decides it.
    pub fn set_workers(&self, workers: Concurrency) {
        self.core.set_workers(workers);
    }

    /// Its classes, with the targets that they have now.
    pub fn classes(&self) -> Classes {
        self.core.promised()
    }

    /// Promises some classes something else from now on. Nobody inside is disturbed,
    /// and the laws keep what they have learned.
    pub fn set_targets(&self, targets: &[(ClassId, Target)]) {
        self.core.set_targets(targets);
    }

    /// Replaces the laws by this admission law, which starts without experience;
    /// what slow laws have set stays as it is.
    pub fn set_law(&self, law: Box<dyn AdmissionLaw>) {
        self.core.set_law(law);
    }

    /// Replaces all laws by `laws`, which start without experience. Nobody inside is
    /// disturbed.
    ///
    /// # Errors
    /// [`BuildError::Laws`] if they cannot be; then all stays as it was.
    pub fn set_laws(&self, laws: Laws) -> Result<(), BuildError> {
        self.core.set_laws(laws)
    }

    /// Admits nothing more, waits until nobody is inside or `timeout` has passed,
    /// then closes. Callers that still run keep running: only they can stop
    /// themselves, and the report counts them as left.
    pub async fn drain(&self, timeout: Duration) -> DrainReport {
        drain::drain(&self.core, timeout, || {}).await
    }

    /// Refuses everyone from now on, those in the queue included.
    pub fn close(&self) {
        self.core.close();
    }
}

enum Arrived {
    Running(Meta, Timestamp, ServiceSlot),
    Waiting(QueuedCaller),
}

impl Governed for Core<Arc<Waiter>> {
    fn tick(&self, cpu: Option<Ratio>) {
        if let Some(workers) = Self::tick(self, cpu).workers {
            self.set_workers(workers);
        }
    }
}
