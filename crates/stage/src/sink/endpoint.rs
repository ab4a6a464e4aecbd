//! Where a stage's sinks lead: its core, behind a predicate and a global law.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::RwLock;
use tamarisk_control::{ClassId, Concurrency, Decision, Rejection};

use super::global_law::SharedGlobalLaw;
use crate::any_stage::{Draining, Erased, Receivers};
use crate::core::{Core, Payload};
use crate::drain;
use crate::observe::StageObservation;
use crate::queue::EventMetadata;
use crate::worker::WorkerRegistry;

/// A stage's core and workers, and the predicate that its holders may set.
pub(crate) struct Endpoint<E: Send + 'static> {
    pub(crate) core: Arc<Core<Payload<E>>>,
    pub(crate) workers: Arc<WorkerRegistry>,
    pub(super) has_predicate: AtomicBool,
    pub(super) predicate: RwLock<Option<Predicate<E>>>,
    /// Asked about events from outside of the graph, if the graph has a law.
    pub(super) global_law: OnceLock<Arc<SharedGlobalLaw>>,
}

impl<E: Send + 'static> Endpoint<E> {
    pub(crate) fn new(core: Core<Payload<E>>) -> Self {
        Self {
            core: Arc::new(core),
            workers: Arc::default(),
            has_predicate: AtomicBool::new(false),
            predicate: RwLock::new(None),
            global_law: OnceLock::new(),
        }
    }

    /// Has `global_law` asked about events from outside of the graph from now on.
    pub(crate) fn set_global_law(&self, global_law: &Arc<SharedGlobalLaw>) {
        self.global_law.get_or_init(|| Arc::clone(global_law));
    }

    pub(super) fn ask(&self, meta: &EventMetadata, event: Option<&E>) -> Result<(), Rejection> {
        if !self.has_predicate.load(Ordering::Acquire) {
            return Ok(());
        }
        let Some(predicate) = self.predicate.read().clone() else { return Ok(()) };
        let (queued, workers) = {
            let state = self.core.lock();
            // A predicate must not hide that the stage takes nothing any more.
            state.check_open()?;
            (state.ledger.queued(), state.workers())
        };
        let asking = AdmissionContext {
            class: meta.class,
            cost: meta.cost,
            flow: meta.flow,
            queued,
            workers,
        };
        match predicate(&asking, event) {
            Decision::Admit => Ok(()),
            Decision::Reject(rejection) => Err(rejection),
        }
    }
}

impl<E: Send + 'static> Erased for Endpoint<E> {
    fn name(&self) -> &str {
        &self.core.name
    }

    fn is_closed(&self) -> bool {
        self.core.lock().is_closed()
    }

    fn observe(&self) -> StageObservation {
        self.core.observe()
    }

    fn drain(&self, timeout: Duration) -> Draining<'_> {
        Box::pin(drain::drain(&self.core, timeout, || self.workers.stop_all()))
    }

    fn receivers(&self) -> &Receivers {
        &self.core.receivers
    }
}

/// Decides on one event before the admission law is asked.
///
/// It gets the [`AdmissionContext`] and the event; no event when a place is being reserved for
/// one that does not exist yet.
pub type Predicate<E> = Arc<dyn Fn(&AdmissionContext, Option<&E>) -> Decision + Send + Sync>;

/// What a predicate decides by: the event's entry, and the stage at this instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionContext {
    /// The event's class.
    pub class: ClassId,
    /// Its cost, as its sender put it.
    pub cost: u32,
    /// A hash of its flow key; zero if it has none.
    pub flow: u64,
    /// Events in the queue, and places reserved there.
    pub queued: usize,
    /// How many events the stage works on at once.
    pub workers: Concurrency,
}
