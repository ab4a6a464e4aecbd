//! A service as a graph of stages: declared with types, checked, then started.
//!
//! Stages are declared first, so that their sinks exist before any handler does;
//! edges are made between them, handlers are attached, and [`Graph::start`] checks
//! the whole before a single worker runs. The same three steps change a graph that
//! is running already.

mod check;
mod error;
mod global;
mod node;

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tamarisk_control::{Classes, GlobalLaw};
use tamarisk_laws::catalogue::Named;
use tamarisk_laws::fair::InvalidStageCount;

use crate::builder::{StageBuilder, Workers};
use crate::core::govern;
use crate::drain::DrainReport;
use crate::observe::StageObservation;
use crate::signal::{Signal, Signals};
use crate::sink::{Crossings, Overseer, Sink, TrySink};
use crate::stage::UnstartedStage;

pub use error::GraphError;
pub use global::GlobalObservation;
use global::Oversight;
use node::AnyNode;
pub use node::Node;

/// Stages and the edges between them.
///
/// # Examples
/// ```
/// use tamarisk_stage::{Context, Graph, StageBuilder, blocking_fn, stage_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (stored, mut storing) = tokio::sync::mpsc::unbounded_channel();
/// let graph = Graph::new();
/// let parse = graph.declare::<String>(StageBuilder::new("parse"))?;
/// let store = graph.declare::<u64>(StageBuilder::new("store"))?;
///
/// let numbers = graph.edge(&parse, &store);
/// parse.tasks(stage_fn(move |line: String, cx: Context| {
///     let sent = line.trim().parse().map(|number: u64| numbers.try_send(cx.envelope(number)));
///     async move { sent?.map_err(|refused| refused.into()) }
/// }));
/// store.threads(blocking_fn(move |number: u64, _cx: Context| Ok(stored.send(number)?)));
/// graph.start()?;
///
/// parse.sink().try_send(" 42 ".to_owned())?;
/// assert_eq!(storing.recv().await, Some(42));
/// assert_eq!(graph.observe().edges[0].crossed, 1);
/// # Ok(())
/// # }
/// ```
pub struct Graph {
    parts: Arc<Mutex<Parts>>,
    signals: Signals,
    overseer: Option<Arc<Overseer>>,
    /// Lives as long as the graph, and its governor with it.
    oversight: OnceLock<Arc<Oversight>>,
}

#[derive(Clone, Default)]
struct Parts {
    nodes: Vec<Arc<dyn AnyNode>>,
    edges: Vec<Edge>,
}

#[derive(Clone)]
struct Edge {
    from: usize,
    to: usize,
    waits: Waits,
    crossings: Arc<Crossings>,
}

/// Whether the sender of an edge may wait for its receiver.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waits {
    Never,
    Sometimes,
}

/// All stages and edges at one instant.
#[derive(Clone, Debug)]
pub struct GraphObservation {
    /// The stages, in the order in which they were declared.
    pub stages: Vec<StageObservation>,
    /// The edges, in the order in which they were made.
    pub edges: Vec<EdgeObservation>,
    /// What the law over the whole graph has found, if there is one.
    pub global: Option<GlobalObservation>,
}

/// An edge at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeObservation {
    /// Name of the stage that sends.
    pub from: String,
    /// Name of the stage that receives.
    pub to: String,
    /// Whether the sender may wait.
    pub blocks: bool,
    /// Events that have crossed so far.
    pub crossed: u64,
    /// Events that the receiver has refused so far.
    pub refused: u64,
}

impl Graph {
    /// No stages yet.
    pub fn new() -> Self {
        Self {
            parts: Arc::default(),
            signals: Signals::new(),
            overseer: None,
            oversight: OnceLock::new(),
        }
    }

    /// With this law over all of its stages from [`start`](Self::start) on: it decides which
    /// events may enter from outside, by whatever sink that is no edge, and what each stage
    /// promises for the whole to keep its own promise. Classes of the law and of the stages
    /// are the same by position.
    #[must_use]
    pub fn law(mut self, law: impl GlobalLaw + 'static) -> Self {
        self.overseer = Some(Arc::new(Overseer::new(Box::new(law))));
        self
    }

    /// The same with a law of the catalogue, which is to keep what `promised` says.
    ///
    /// # Errors
    /// [`GraphError::Law`] if its constants do not go together.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use tamarisk_control::{Classes, Target};
    /// use tamarisk_laws::catalogue;
    /// use tamarisk_stage::{Context, Graph, StageBuilder, stage_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let whole_way = Classes::single(Target::p90(Duration::from_millis(300))?);
    /// let law = catalogue::global("global-controller", &[("period_seconds", 0.5)])?;
    /// let graph = Graph::new().named_law(&law, &whole_way)?;
    ///
    /// let parse = graph.declare::<String>(StageBuilder::new("parse"))?;
    /// let store = graph.declare::<u64>(StageBuilder::new("store").workers(8))?;
    /// let numbers = graph.edge(&parse, &store);
    /// parse.tasks(stage_fn(move |line: String, cx: Context| {
    ///     let sent = numbers.send_lossy(cx.envelope(line.len() as u64));
    ///     async move { if sent { Ok(()) } else { Err("the store is full".into()) } }
    /// }));
    /// store.tasks(stage_fn(|_: u64, _: Context| async { Ok(()) }));
    /// graph.start()?;
    ///
    /// parse.sink().try_send("one line".to_owned())?;
    /// let global = graph.observe().global.expect("the graph is under a law");
    /// assert_eq!((global.law, global.shares.len()), ("global-controller", 2));
    /// # Ok(())
    /// # }
    /// ```
    pub fn named_law(
        mut self,
        law: &Named<dyn GlobalLaw>,
        promised: &Classes,
    ) -> Result<Self, GraphError> {
        let law = law.make(promised);
        let law = law.map_err(|reason| GraphError::Law { reason: reason.to_string() })?;
        self.overseer = Some(Arc::new(Overseer::new(law)));
        Ok(self)
    }

    /// Has the law over the graph keep this promise from now on; without one, nothing
    /// happens. The targets of the stages follow at the end of the law's next sample.
    pub fn set_promise(&self, promised: &Classes) {
        if let Some(overseer) = &self.overseer {
            overseer.law().set_targets(promised);
        }
    }

    /// Declares a stage: it has a name, a queue and a law, and can be sent to, but
    /// nobody serves it yet.
    ///
    /// # Errors
    /// [`GraphError`] if its description is wrong or its name is taken.
    pub fn declare<E: Send + 'static>(&self, builder: StageBuilder) -> Result<Node<E>, GraphError> {
        let unstarted = UnstartedStage::<E>::new(builder, Workers::Threads)?;
        let mut parts = self.parts.lock();
        let stage = unstarted.endpoint.core.name.to_string();
        if parts.nodes.iter().any(|node| node.name() == stage) {
            return Err(GraphError::Duplicate { stage });
        }
        let node = Node::new(parts.nodes.len(), unstarted);
        parts.nodes.push(node.declared());
        Ok(node)
    }

    /// An edge whose sender never waits for its receiver.
    pub fn edge<A: Send + 'static, B: Send + 'static>(
        &self,
        from: &Node<A>,
        to: &Node<B>,
    ) -> TrySink<B> {
        TrySink::counted(to.endpoint(), self.connect(from.index(), to.index(), Waits::Never))
    }

    /// An edge whose sender may wait for its receiver, for room or for an answer.
    pub fn blocking_edge<A: Send + 'static, B: Send + 'static>(
        &self,
        from: &Node<A>,
        to: &Node<B>,
    ) -> Sink<B> {
        let crossings = self.connect(from.index(), to.index(), Waits::Sometimes);
        Sink::new(TrySink::counted(to.endpoint(), crossings))
    }

    fn connect(&self, from: usize, to: usize, waits: Waits) -> Arc<Crossings> {
        let crossings = Arc::<Crossings>::default();
        let edge = Edge { from, to, waits, crossings: Arc::clone(&crossings) };
        self.parts.lock().edges.push(edge);
        crossings
    }

    /// Checks the whole graph, starts the stages that are new, and signals
    /// [`Signal::Started`]. Nothing is started if anything is wrong.
    ///
    /// # Errors
    /// [`GraphError`] names the stages that are in the way.
    pub fn start(&self) -> Result<(), GraphError> {
        let parts = self.parts.lock();
        check::readers(&parts)?;
        check::cycles(&parts)?;
        if let Some(overseer) = &self.overseer {
            self.oversee(overseer, &parts)?;
        }
        for node in &parts.nodes {
            node.start()?;
        }
        drop(parts);
        self.signals.send(Signal::Started);
        Ok(())
    }

    /// Puts all stages under the law, and starts its governor if that has not been done.
    fn oversee(&self, overseer: &Arc<Overseer>, parts: &Parts) -> Result<(), GraphError> {
        InvalidStageCount::check(parts.nodes.len())
            .map_err(|reason| GraphError::Law { reason: reason.to_string() })?;
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| GraphError::NoRuntime)?;
        for node in &parts.nodes {
            node.put_under(overseer);
        }
        self.oversight.get_or_init(|| {
            let (overseer, parts) = (Arc::clone(overseer), Arc::clone(&self.parts));
            let oversight = Arc::new(Oversight::new(overseer, parts));
            let governed: Weak<Oversight> = Arc::downgrade(&oversight);
            govern(&runtime, governed);
            oversight
        });
        Ok(())
    }

    /// What all stages of the graph may listen to.
    pub fn signals(&self) -> &Signals {
        &self.signals
    }

    /// All stages and edges.
    pub fn observe(&self) -> GraphObservation {
        let parts = self.parts.lock();
        let edge = |edge: &Edge| {
            let (crossed, refused) = edge.crossings.counts();
            EdgeObservation {
                from: parts.nodes[edge.from].name().to_owned(),
                to: parts.nodes[edge.to].name().to_owned(),
                blocks: edge.waits == Waits::Sometimes,
                crossed,
                refused,
            }
        };
        let count = parts.nodes.len();
        GraphObservation {
            stages: parts.nodes.iter().map(|node| node.observe()).collect(),
            edges: parts.edges.iter().map(edge).collect(),
            global: self.overseer.as_ref().map(|overseer| GlobalObservation::of(overseer, count)),
        }
    }

    /// Signals [`Signal::Draining`] and drains every stage, senders before their
    /// receivers, so that what is under way can be finished. All of it together
    /// takes no longer than `timeout` and a moment for each stage that is cut.
    pub async fn drain(&self, timeout: Duration) -> Vec<DrainReport> {
        self.signals.send(Signal::Draining);
        let began = tokio::time::Instant::now();
        let nodes = {
            let parts = self.parts.lock();
            let order = check::senders_first(&parts);
            order.into_iter().map(|index| Arc::clone(&parts.nodes[index])).collect::<Vec<_>>()
        };
        let mut reports = Vec::new();
        for node in nodes {
            let left = timeout.saturating_sub(began.elapsed());
            reports.push(node.drain(left).await);
        }
        reports
    }
}

impl Default for Graph {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        for node in &self.parts.lock().nodes {
            node.close();
        }
    }
}
