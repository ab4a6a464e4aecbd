//! One stage of a graph: declared, given a handler, started.

use std::any::{Any, type_name};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tamarisk_control::{ClassId, PerSecond, Target, Timestamp};

use super::GraphError;
use crate::any_stage::AnyStage;
use crate::build_error::BuildError;
use crate::drain;
use crate::handler::{BlockingHandler, Handler};
use crate::observe::{DrainReport, EdgeCounters, StageObservation};
use crate::sink::{Endpoint, SharedGlobalLaw, Sink, TrySink};
use crate::stage::{Stage, UnstartedStage};

/// A stage of a graph, with the type of its events; clones name the same one.
pub struct Node<E: Send + 'static>(Arc<Declared<E>>);

/// The identity of a stage among all graphs of the process.
pub(super) type NodeId = u64;

static NEXT_NODE: AtomicU64 = AtomicU64::new(0);

struct Declared<E: Send + 'static> {
    id: NodeId,
    /// What had happened at the stage when it came into the graph.
    joined: Counts,
    endpoint: Arc<Endpoint<E>>,
    unstarted: Mutex<Option<UnstartedStage<E>>>,
    /// Makes the stage of its unstarted form; set by attaching a handler.
    attached: Mutex<Option<Attach<E>>>,
    stage: OnceLock<Stage<E>>,
    /// Why it could not start.
    failed: OnceLock<BuildError>,
}

/// What has happened at a stage since it was made.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Events that it admitted, whoever sent them.
    pub(super) admitted: u64,
    /// Events that ran to an end.
    pub(super) ended: u64,
}

type Attach<E> = Box<dyn FnOnce(UnstartedStage<E>) -> Result<Stage<E>, BuildError> + Send>;

/// What a graph does with a stage, whatever its events are.
pub(super) trait ErasedNode: Send + Sync {
    fn id(&self) -> NodeId;
    fn name(&self) -> &str;
    /// The type of its events.
    fn events(&self) -> &'static str;
    fn joined(&self) -> Counts;
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
    fn has_handler(&self) -> bool;
    fn start(&self) -> Result<(), BuildError>;
    fn observe(&self) -> StageObservation;
    fn any_stage(&self) -> AnyStage;
    /// Has a global law asked about events from outside of the graph.
    fn set_global_law(&self, global_law: &Arc<SharedGlobalLaw>);
    /// Shows an edge from the stage of this name.
    fn show_edge(&self, from: &str, counters: &Arc<EdgeCounters>);
    /// The stage of this name has been removed.
    fn forget_sender(&self, from: &str);
    fn now(&self) -> Timestamp;
    /// How many events it holds, queued and running.
    fn inside(&self) -> u64;
    fn set_targets(&self, targets: &[(ClassId, Target)]);
    fn set_throughput(&self, target: PerSecond);
    fn drain(&self, timeout: Duration) -> Pin<Box<dyn Future<Output = DrainReport> + Send + '_>>;
    fn close(&self);
}

impl<E: Send + 'static> Node<E> {
    pub(super) fn new(unstarted: UnstartedStage<E>) -> Self {
        let endpoint = Arc::clone(unstarted.endpoint());
        Self::with(endpoint, Counts::default(), Some(unstarted), OnceLock::new())
    }

    /// A stage that runs already.
    pub(super) fn running(stage: Stage<E>) -> Self {
        let joined = Counts::of(&stage.observe());
        Self::with(stage.endpoint(), joined, None, OnceLock::from(stage))
    }

    /// The node with the type of its events.
    pub(super) fn of(node: Arc<dyn ErasedNode>) -> Result<Self, GraphError> {
        let other = GraphError::OtherEvents {
            stage: node.name().to_owned(),
            takes: node.events(),
            asked: type_name::<E>(),
        };
        node.into_any().downcast().map(Self).map_err(|_| other)
    }

    fn with(
        endpoint: Arc<Endpoint<E>>,
        joined: Counts,
        unstarted: Option<UnstartedStage<E>>,
        stage: OnceLock<Stage<E>>,
    ) -> Self {
        let id = NEXT_NODE.fetch_add(1, Ordering::Relaxed);
        let (unstarted, attached) = (Mutex::new(unstarted), Mutex::new(None));
        let failed = OnceLock::new();
        Self(Arc::new(Declared { id, joined, endpoint, unstarted, attached, stage, failed }))
    }

    /// Has its events handled by tasks of the async runtime, once the graph starts. A stage that runs
    /// already keeps its handler: see [`Graph::replace`](super::Graph::replace).
    pub fn tasks<H: Handler<E>>(&self, factory: impl Fn() -> H + Send + Sync + 'static) {
        *self.0.attached.lock() =
            Some(Box::new(|unstarted| unstarted.with_tasks(move || Ok(factory()))));
    }

    /// Has its events handled on threads of their own, once the graph starts; as
    /// [`tasks`](Self::tasks) otherwise.
    pub fn threads<H: BlockingHandler<E>>(&self, factory: impl Fn() -> H + Send + Sync + 'static) {
        *self.0.attached.lock() =
            Some(Box::new(|unstarted| unstarted.with_threads(move || Ok(factory()))));
    }

    /// Its name.
    pub fn name(&self) -> &str {
        ErasedNode::name(&*self.0)
    }

    /// A sink for events from outside of the graph.
    pub fn sink(&self) -> Sink<E> {
        Sink::new(TrySink::new(self.endpoint()))
    }

    /// The running stage, once the graph has been started; through it the stage is
    /// observed, resized or given another law.
    pub fn stage(&self) -> Option<&Stage<E>> {
        self.0.stage.get()
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

impl Counts {
    pub(super) fn of(stage: &StageObservation) -> Self {
        let total = stage.total();
        Self {
            admitted: total.offered - total.rejected,
            ended: total.completed + total.failed + total.terminated,
        }
    }
}

impl<E: Send + 'static> Declared<E> {
    /// The stage, after a start that is under way; if it has not started, it never will.
    fn started_or_never(&self) -> Option<&Stage<E>> {
        let unstarted = {
            let mut unstarted = self.unstarted.lock();
            if self.stage.get().is_none() { unstarted.take() } else { None }
        };
        // Without the lock, which what is queued may ask for.
        drop(unstarted);
        self.stage.get()
    }
}

impl<E: Send + 'static> ErasedNode for Declared<E> {
    fn id(&self) -> NodeId {
        self.id
    }

    fn events(&self) -> &'static str {
        type_name::<E>()
    }

    fn joined(&self) -> Counts {
        self.joined
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    fn name(&self) -> &str {
        &self.endpoint.core.name
    }

    fn has_handler(&self) -> bool {
        let was_started = self.stage.get().is_some() || self.failed.get().is_some();
        was_started || self.attached.lock().is_some()
    }

    fn start(&self) -> Result<(), BuildError> {
        // Held until it has started: who comes meanwhile waits for what comes of it.
        let mut unstarted = self.unstarted.lock();
        if let Some(error) = self.failed.get() {
            return Err(error.clone());
        }
        let Some(attach) = self.attached.lock().take() else { return Ok(()) };
        let Some(stage) = unstarted.take() else {
            drop(unstarted);
            return Ok(());
        };
        match attach(stage) {
            Ok(stage) => {
                let first = self.stage.set(stage).is_ok();
                debug_assert!(first, "an unstarted makes one stage");
                Ok(())
            }
            Err(error) => {
                let error = self.failed.get_or_init(|| error).clone();
                // What is queued may ask for it as it is dropped.
                drop(unstarted);
                self.endpoint.core.close();
                Err(error)
            }
        }
    }

    fn observe(&self) -> StageObservation {
        self.endpoint.core.observe()
    }

    fn any_stage(&self) -> AnyStage {
        AnyStage::new(Arc::clone(&self.endpoint) as _)
    }

    fn set_global_law(&self, global_law: &Arc<SharedGlobalLaw>) {
        self.endpoint.set_global_law(global_law);
    }

    fn show_edge(&self, from: &str, counters: &Arc<EdgeCounters>) {
        self.endpoint.core.senders.show_edge(from, counters);
    }

    fn forget_sender(&self, from: &str) {
        self.endpoint.core.senders.forget(from);
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
            match self.started_or_never() {
                Some(stage) => stage.drain(timeout).await,
                // No worker will serve what is queued.
                None => drain::drain(&self.endpoint.core, Duration::ZERO, || {}).await,
            }
        })
    }

    fn close(&self) {
        match self.started_or_never() {
            Some(stage) => stage.close(),
            None => self.endpoint.core.close(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::StageBuilder;
    use crate::graph::Graph;
    use crate::handler::stage_fn;

    #[tokio::test]
    async fn a_stage_that_could_not_start_says_so_at_each_later_start_until_it_is_removed() {
        let graph = Graph::new();
        let declare = |name: &str| graph.declare::<u32>(StageBuilder::new(name)).unwrap();
        let (first, second) = (declare("first"), declare("second"));
        let ignore = |node: &Node<u32>| node.tasks(stage_fn(|_: u32, _| async { Ok(()) }));
        ignore(&first);
        let (stage, reason) = ("second".to_owned(), "there is none left".to_owned());
        let error = BuildError::Thread { stage, reason };
        let fails = error.clone();
        *second.0.attached.lock() = Some(Box::new(|_| Err(fails)));
        let failed = Err(GraphError::Stage(error));
        assert_eq!(graph.start(), failed);
        assert!(first.stage().is_some());

        ignore(&second);
        assert_eq!(graph.start(), failed, "another handler would serve a closed stage");
        assert!(second.stage().is_none() && second.sink().is_closed());
        graph.remove("second", Duration::ZERO).await.unwrap();
        assert_eq!(graph.start(), Ok(()));
    }
}
