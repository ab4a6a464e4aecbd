//! A service as a graph of stages: declared with types, checked, then started.
//!
//! Stages are declared first, so that their sinks exist before any handler does;
//! edges are made between them, handlers are attached, and [`Graph::start`] checks
//! the whole before a single worker runs. The same three steps change a graph that
//! is running already.

mod check;
mod node;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::builder::{BuildError, StageBuilder};
use crate::drain::DrainReport;
use crate::observation::StageObservation;
use crate::signal::{Signal, Signals};
use crate::sink::{Sink, TrySink};
use crate::stage::Draft;

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
    parts: Mutex<Parts>,
    signals: Signals,
}

#[derive(Default)]
struct Parts {
    nodes: Vec<Arc<dyn AnyNode>>,
    edges: Vec<Edge>,
}

struct Edge {
    from: usize,
    to: usize,
    waits: Waits,
    crossed: Arc<AtomicU64>,
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
}

/// Why a graph cannot be as described.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// A stage could not be built: among others, one without workers.
    #[error(transparent)]
    Stage(#[from] BuildError),
    /// One name stands for two stages.
    #[error("two stages are named {stage:?}")]
    Duplicate {
        /// The name.
        stage: String,
    },
    /// A stage was declared and given no handler.
    #[error("nobody reads the sink of stage {stage:?}{}: attach a handler to it", senders(.from))]
    NobodyReads {
        /// The stage without a handler.
        stage: String,
        /// The stages that would send to it.
        from: Vec<String>,
    },
    /// Each of these stages may wait for the next, and the last for the first:
    /// with all queues full, none would ever move again.
    #[error(
        "stages may wait for each other for ever: {}; make one of these edges one that does not wait",
        .stages.join(" → ")
    )]
    BlockingCycle {
        /// The stages on the cycle, the first one repeated at the end.
        stages: Vec<String>,
    },
}

fn senders(from: &[String]) -> String {
    if from.is_empty() { String::new() } else { format!(", to which {} sends", from.join(", ")) }
}

impl Graph {
    /// No stages yet.
    pub fn new() -> Self {
        Self { parts: Mutex::default(), signals: Signals::new() }
    }

    /// Declares a stage: it has a name, a queue and a law, and can be sent to, but
    /// nobody serves it yet.
    ///
    /// # Errors
    /// [`GraphError`] if its description is wrong or its name is taken.
    pub fn declare<E: Send + 'static>(&self, builder: StageBuilder) -> Result<Node<E>, GraphError> {
        let draft = Draft::<E>::new(builder)?;
        let mut parts = self.parts.lock();
        let stage = draft.door.core.name.clone();
        if parts.nodes.iter().any(|node| node.name() == stage) {
            return Err(GraphError::Duplicate { stage });
        }
        let node = Node::new(parts.nodes.len(), draft);
        parts.nodes.push(node.declared());
        Ok(node)
    }

    /// An edge whose sender never waits for its receiver.
    pub fn edge<A: Send + 'static, B: Send + 'static>(
        &self,
        from: &Node<A>,
        to: &Node<B>,
    ) -> TrySink<B> {
        TrySink::counted(to.door(), self.connect(from.index(), to.index(), Waits::Never))
    }

    /// An edge whose sender may wait for its receiver, for room or for an answer.
    pub fn blocking_edge<A: Send + 'static, B: Send + 'static>(
        &self,
        from: &Node<A>,
        to: &Node<B>,
    ) -> Sink<B> {
        let crossed = self.connect(from.index(), to.index(), Waits::Sometimes);
        Sink::new(TrySink::counted(to.door(), crossed))
    }

    fn connect(&self, from: usize, to: usize, waits: Waits) -> Arc<AtomicU64> {
        let crossed = Arc::new(AtomicU64::new(0));
        let edge = Edge { from, to, waits, crossed: Arc::clone(&crossed) };
        self.parts.lock().edges.push(edge);
        crossed
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
        for node in &parts.nodes {
            node.start()?;
        }
        drop(parts);
        self.signals.send(Signal::Started);
        Ok(())
    }

    /// What all stages of the graph may listen to.
    pub fn signals(&self) -> &Signals {
        &self.signals
    }

    /// All stages and edges.
    pub fn observe(&self) -> GraphObservation {
        let parts = self.parts.lock();
        let edge = |edge: &Edge| EdgeObservation {
            from: parts.nodes[edge.from].name().to_owned(),
            to: parts.nodes[edge.to].name().to_owned(),
            blocks: edge.waits == Waits::Sometimes,
            crossed: edge.crossed.load(Ordering::Relaxed),
        };
        GraphObservation {
            stages: parts.nodes.iter().map(|node| node.observe()).collect(),
            edges: parts.edges.iter().map(edge).collect(),
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
