//! A service as a graph of stages: declared with types, checked, then started.
//!
//! Stages are declared first, so that their sinks exist before any handler does;
//! edges are made between them, handlers are attached, and [`Graph::start`] checks
//! the whole before a single worker runs. While a graph runs, stages are looked up by name,
//! added, replaced and removed.

mod change;
mod check;
mod error;
mod global;
mod node;
mod topology;

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tamarisk_control::global::InvalidStageCount;
use tamarisk_control::{Classes, GlobalLaw};
use tamarisk_laws::Named;

use crate::any_stage::AnyStage;
use crate::builder::StageBuilder;
use crate::core::spawn_governor;
use crate::observe::{DrainReport, StageObservation};
use crate::signal::{Signal, Signals};
use crate::sink::{SharedGlobalLaw, Sink, TrySink};
use crate::stage::UnstartedStage;

pub use error::GraphError;
use global::GlobalGovernor;
pub use global::GlobalObservation;
pub use node::Node;
use topology::{Edge, EdgeKind, Topology};

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
/// let numbers = graph.edge(&parse, &store)?;
/// parse.tasks(stage_fn(move |line: String, cx: Context| {
///     let sent = line.trim().parse().map(|number: u64| numbers.try_send(cx.envelope(number)));
///     async move { sent?.map_err(|rejected| rejected.into()) }
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
    topology: Arc<Mutex<Topology>>,
    signals: Signals,
    global_law: Option<Arc<SharedGlobalLaw>>,
    /// Lives as long as the graph, and its governor with it.
    global_governor: OnceLock<Arc<GlobalGovernor>>,
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
    /// Events that the receiver has rejected so far.
    pub rejected: u64,
}

impl Graph {
    /// No stages yet.
    pub fn new() -> Self {
        Self {
            topology: Arc::default(),
            signals: Signals::new(),
            global_law: None,
            global_governor: OnceLock::new(),
        }
    }

    /// With this law over all of its stages from [`start`](Self::start) on: it decides which
    /// events may enter from outside, by whatever sink that is no edge, and what each stage
    /// has as its targets, so that the graph keeps its own. Classes of the law and of the stages
    /// are the same by position.
    #[must_use]
    pub fn law(mut self, law: impl GlobalLaw + 'static) -> Self {
        self.global_law = Some(Arc::new(SharedGlobalLaw::new(Box::new(law))));
        self
    }

    /// The same with a law that is chosen by name, which keeps the targets of `promised`.
    ///
    /// # Errors
    /// [`GraphError::Law`] if its constants do not go together.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use tamarisk_control::{Classes, Target};
    /// use tamarisk_stage::{Context, Graph, StageBuilder, stage_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let whole_way = Classes::single(Target::p90(Duration::from_millis(300))?);
    /// let law = tamarisk_catalogue::global("global-controller", &[("period_seconds", 0.5)])?;
    /// let graph = Graph::new().named_law(&law, &whole_way)?;
    ///
    /// let parse = graph.declare::<String>(StageBuilder::new("parse"))?;
    /// let store = graph.declare::<u64>(StageBuilder::new("store").workers(8))?;
    /// let numbers = graph.edge(&parse, &store)?;
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
        self.global_law = Some(Arc::new(SharedGlobalLaw::new(law)));
        Ok(self)
    }

    /// Changes the targets that the law over the graph keeps; without a law, nothing
    /// happens. The targets of the stages follow at the end of the law's next sample.
    pub fn set_promise(&self, promised: &Classes) {
        if let Some(global_law) = &self.global_law {
            global_law.law().set_targets(promised);
        }
    }

    /// Declares a stage: it has a name, a queue and a law, and can be sent to, but
    /// has no handler yet.
    ///
    /// # Errors
    /// [`GraphError`] if its description is wrong or its name is taken.
    pub fn declare<E: Send + 'static>(&self, builder: StageBuilder) -> Result<Node<E>, GraphError> {
        let node = Node::new(UnstartedStage::<E>::new(builder)?);
        self.topology.lock().insert(node.declared())?;
        Ok(node)
    }

    /// An edge whose sender never waits for its receiver. Asked for again, it is the same edge:
    /// what crosses it is counted together.
    ///
    /// # Errors
    /// [`GraphError::NotMember`] if one of the two is not in this graph, or no longer.
    pub fn edge<A: Send + 'static, B: Send + 'static>(
        &self,
        from: &Node<A>,
        to: &Node<B>,
    ) -> Result<TrySink<B>, GraphError> {
        self.connect(from, to, EdgeKind::NonBlocking)
    }

    /// An edge whose sender may wait for its receiver, for room or for an answer.
    ///
    /// # Errors
    /// As [`edge`](Self::edge), and [`GraphError::BlockingCycle`] if stages could wait for one
    /// another in a circle.
    pub fn blocking_edge<A: Send + 'static, B: Send + 'static>(
        &self,
        from: &Node<A>,
        to: &Node<B>,
    ) -> Result<Sink<B>, GraphError> {
        Ok(Sink::new(self.connect(from, to, EdgeKind::Blocking)?))
    }

    fn connect<A: Send + 'static, B: Send + 'static>(
        &self,
        from: &Node<A>,
        to: &Node<B>,
        kind: EdgeKind,
    ) -> Result<TrySink<B>, GraphError> {
        let (sender, receiver) = (from.declared(), to.declared());
        let mut topology = self.topology.lock();
        let counters = topology.connect(&*sender, &*receiver, kind)?;
        if let Err(cycle) = check::cycles(&topology) {
            // There was none before this edge, which is the last.
            topology.edges.pop();
            return Err(cycle);
        }
        receiver.show_edge(from.name(), &counters);
        from.endpoint().core.receivers.add(Arc::downgrade(&to.endpoint()) as _);
        Ok(TrySink::counted(to.endpoint(), counters))
    }

    /// Checks the whole graph, starts the stages that are new, and signals
    /// [`Signal::Started`]. Nothing is started if the graph is wrong.
    ///
    /// # Errors
    /// [`GraphError`] names the stages that are in the way. If the system has no thread left for
    /// the workers of a stage, that one is closed, and those that were declared before it run. Each
    /// later start says so too, until it has been [removed](Self::remove).
    pub fn start(&self) -> Result<(), GraphError> {
        let nodes = {
            let topology = self.topology.lock();
            check::handlers(&topology)?;
            if let Some(global_law) = &self.global_law {
                self.start_global_law(global_law, &topology)?;
            }
            topology.nodes.clone()
        };
        // Without the lock: destructors of what cannot start may ask for it.
        for node in nodes {
            node.start()?;
        }
        self.signals.send(Signal::Started);
        Ok(())
    }

    /// Puts all stages under the law, and starts its governor if that has not been done.
    fn start_global_law(
        &self,
        global_law: &Arc<SharedGlobalLaw>,
        topology: &Topology,
    ) -> Result<(), GraphError> {
        InvalidStageCount::check(topology.nodes.len())
            .map_err(|reason| GraphError::Law { reason: reason.to_string() })?;
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| GraphError::NoRuntime)?;
        for node in &topology.nodes {
            node.set_global_law(global_law);
        }
        self.global_governor.get_or_init(|| {
            let (global_law, topology) = (Arc::clone(global_law), Arc::clone(&self.topology));
            let global_governor = Arc::new(GlobalGovernor::new(global_law, topology));
            let governed: Weak<GlobalGovernor> = Arc::downgrade(&global_governor);
            spawn_governor(&runtime, governed, Arc::default());
            global_governor
        });
        Ok(())
    }

    /// The signals of the graph.
    pub fn signals(&self) -> &Signals {
        &self.signals
    }

    /// The stages that it has now, in the order in which they were declared.
    pub fn stages(&self) -> Vec<AnyStage> {
        self.topology.lock().nodes.iter().map(|node| node.any_stage()).collect()
    }

    /// All stages and edges.
    pub fn observe(&self) -> GraphObservation {
        let topology = self.topology.lock();
        let edge = |edge: &Edge| {
            let (crossed, rejected) = edge.counters.counts();
            EdgeObservation {
                from: topology.nodes[edge.from].name().to_owned(),
                to: topology.nodes[edge.to].name().to_owned(),
                blocks: edge.kind == EdgeKind::Blocking,
                crossed,
                rejected,
            }
        };
        let count = topology.nodes.len();
        GraphObservation {
            stages: topology.nodes.iter().map(|node| node.observe()).collect(),
            edges: topology.edges.iter().map(edge).collect(),
            global: self
                .global_law
                .as_ref()
                .map(|global_law| GlobalObservation::of(global_law, count)),
        }
    }

    /// Signals [`Signal::Draining`] and drains every stage, senders before their
    /// receivers, so that what is under way can be finished. All of it together
    /// takes no longer than `timeout`, and half a second for each stage that is cut.
    pub async fn drain(&self, timeout: Duration) -> Vec<DrainReport> {
        self.signals.send(Signal::Draining);
        let began = tokio::time::Instant::now();
        let nodes = {
            let topology = self.topology.lock();
            let order = check::senders_first(&topology);
            order.into_iter().map(|index| Arc::clone(&topology.nodes[index])).collect::<Vec<_>>()
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
        for node in &self.topology.lock().nodes {
            node.close();
        }
    }
}
