//! Where a stage's sinks lead: its core, behind a predicate and a global law.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;
use tamarisk_control::{ClassId, Concurrency, Decision, Rejection};

use super::global_law::Overseer;
use crate::core::{Core, Payload};
use crate::queue::Meta;

/// A stage's core, and the predicate that its holders may set.
pub(crate) struct Endpoint<E: Send + 'static> {
    pub(crate) core: Arc<Core<Payload<E>>>,
    pub(super) guarded: AtomicBool,
    pub(super) predicate: RwLock<Option<Predicate<E>>>,
    /// Asked about what comes from outside, where a global law stands over the graph.
    pub(super) overseer: OnceLock<Arc<Overseer>>,
}

impl<E: Send + 'static> Endpoint<E> {
    pub(crate) fn new(core: Core<Payload<E>>) -> Self {
        Self {
            core: Arc::new(core),
            guarded: AtomicBool::new(false),
            predicate: RwLock::new(None),
            overseer: OnceLock::new(),
        }
    }

    /// What comes from outside of the graph is asked about from now on.
    pub(crate) fn put_under(&self, overseer: &Arc<Overseer>) {
        self.overseer.get_or_init(|| Arc::clone(overseer));
    }

    pub(super) fn ask(&self, meta: &Meta, event: Option<&E>) -> Result<(), Rejection> {
        if !self.guarded.load(Ordering::Acquire) {
            return Ok(());
        }
        let Some(predicate) = self.predicate.read().clone() else { return Ok(()) };
        let (queued, workers) = {
            let state = self.core.lock();
            // A predicate must not hide that the stage takes nothing any more.
            state.check_open()?;
            (state.ledger.queued(), state.workers())
        };
        let asking =
            Asking { class: meta.class, cost: meta.cost, flow: meta.flow, queued, workers };
        match predicate(&asking, event) {
            Decision::Admit => Ok(()),
            Decision::Reject(rejection) => Err(rejection),
        }
    }
}

/// Decides on one event before the admission law is asked.
///
/// It is told what is asked, and the event itself unless a place is being
/// reserved for one that does not exist yet.
pub type Predicate<E> = Arc<dyn Fn(&Asking, Option<&E>) -> Decision + Send + Sync>;

/// What a predicate is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asking {
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
