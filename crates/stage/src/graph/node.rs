//! One stage of a graph: declared, given a handler, started.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tamarisk_control::{ClassId, PerSecond, Target, Timestamp};

use crate::builder::BuildError;
use crate::drain::{self, DrainReport};
use crate::handler::{BlockingHandler, Handler};
use crate::observe::StageObservation;
use crate::sink::{Endpoint, SharedGlobalLaw, Sink, TrySink};
use crate::stage::{Stage, UnstartedStage};

/// A stage of a graph, with the type of its events; clones name the same one.
pub struct Node<E: Send + 'static>(Arc<Declared<E>>);

struct Declared<E: Send + 'static> {
    index: usize,
    endpoint: Arc<Endpoint<E>>,
    unstarted: Mutex<Option<UnstartedStage<E>>>,
    /// Makes the stage of its unstarted form; set by attaching a handler.
    attached: Mutex<Option<Attach<E>>>,
    stage: OnceLock<Stage<E>>,
}

type Attach<E> = Box<dyn FnOnce(UnstartedStage<E>) -> Result<Stage<E>, BuildError> + Send>;

/// What a graph does with a stage, whatever its events are.
pub(super) trait ErasedNode: Send + Sync {
    fn name(&self) -> &str;
    fn has_handler(&self) -> bool;
    fn start(&self) -> Result<(), BuildError>;
    fn observe(&self) -> StageObservation;
    /// Has a global law asked about events from outside of the graph.
    fn set_global_law(&self, global_law: &Arc<SharedGlobalLaw>);
    fn now(&self) -> Timestamp;
    /// How many events it holds, queued and running.
    fn inside(&self) -> u64;
    fn set_targets(&self, targets: &[(ClassId, Target)]);
    fn set_throughput(&self, target: PerSecond);
    fn drain(&self, timeout: Duration) -> Pin<Box<dyn Future<Output = DrainReport> + Send + '_>>;
    fn close(&self);
}

impl<E: Send + 'static> Node<E> {
    pub(super) fn new(index: usize, unstarted: UnstartedStage<E>) -> Self {
        Self(Arc::new(Declared {
            index,
            endpoint: Arc::clone(&unstarted.endpoint),
            unstarted: Mutex::new(Some(unstarted)),
            attached: Mutex::new(None),
            stage: OnceLock::new(),
        }))
    }

    /// Has its events handled by tasks of the async runtime, once the graph starts.
    pub fn tasks<H: Handler<E>>(&self, factory: impl Fn() -> H + Send + Sync + 'static) {
        *self.0.attached.lock() = Some(Box::new(|unstarted| unstarted.with_tasks(factory)));
    }

    /// Has its events handled on threads of their own, once the graph starts.
    pub fn threads<H: BlockingHandler<E>>(&self, factory: impl Fn() -> H + Send + Sync + 'static) {
        *self.0.attached.lock() = Some(Box::new(|unstarted| unstarted.with_threads(factory)));
    }

    /// A sink for events from outside of the graph.
    pub fn sink(&self) -> Sink<E> {
        Sink::new(TrySink::new(self.endpoint()))
    }

    /// The running stage, once the graph has been started; through it the stage is
    /// resized, given another law or handler, drained or closed.
    pub fn stage(&self) -> Option<&Stage<E>> {
        self.0.stage.get()
    }

    pub(super) fn index(&self) -> usize {
        self.0.index
    }

    pub(super) fn endpoint(&self) -> Arc<Endpoint<E>> {
        Arc::clone(&self.0.endpoint)
    }

    pub(super) fn declared(&self) -> Arc<dyn ErasedNode> {
        Arc::clone(&self.0) as _
    }
}

impl<E: Send + 'static> Clone for Node<E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<E: Send + 'static> ErasedNode for Declared<E> {
    fn name(&self) -> &str {
        &self.endpoint.core.name
    }

    fn has_handler(&self) -> bool {
        self.stage.get().is_some() || self.attached.lock().is_some()
    }

    fn start(&self) -> Result<(), BuildError> {
        let (Some(unstarted), Some(attach)) =
            (self.unstarted.lock().take(), self.attached.lock().take())
        else {
            return Ok(());
        };
        let stage = attach(unstarted)?;
        let first = self.stage.set(stage).is_ok();
        debug_assert!(first, "an unstarted makes one stage");
        Ok(())
    }

    fn observe(&self) -> StageObservation {
        self.endpoint.core.observe()
    }

    fn set_global_law(&self, global_law: &Arc<SharedGlobalLaw>) {
        self.endpoint.set_global_law(global_law);
    }

    fn now(&self) -> Timestamp {
        self.endpoint.core.clock.now()
    }

    fn inside(&self) -> u64 {
        let state = self.endpoint.core.lock();
        state.ledger.queued() as u64 + u64::from(state.ledger.in_service())
    }

    fn set_targets(&self, targets: &[(ClassId, Target)]) {
        self.endpoint.core.set_targets(targets);
    }

    fn set_throughput(&self, target: PerSecond) {
        self.endpoint.core.set_throughput(target);
    }

    fn drain(&self, timeout: Duration) -> Pin<Box<dyn Future<Output = DrainReport> + Send + '_>> {
        Box::pin(async move {
            match self.stage.get() {
                Some(stage) => stage.drain(timeout).await,
                None => drain::drain(&self.endpoint.core, timeout, || {}).await,
            }
        })
    }

    fn close(&self) {
        match self.stage.get() {
            Some(stage) => stage.close(),
            None => self.endpoint.core.close(),
        }
    }
}
