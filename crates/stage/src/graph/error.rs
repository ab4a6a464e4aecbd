//! Why a graph cannot be started.

use crate::builder::BuildError;

/// Why a graph cannot be built or started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// A stage could not be built: among others, one without workers.
    #[error(transparent)]
    Stage(#[from] BuildError),
    /// The law over the graph is invalid.
    #[error("invalid law of the graph: {reason}")]
    Law {
        /// The error of the law.
        reason: String,
    },
    /// A law over a graph has a governor, which runs on an async runtime.
    #[error("a graph with a law is started outside of a tokio runtime: start it within one")]
    NoRuntime,
    /// One name stands for two stages.
    #[error("two stages are named {stage:?}: give each a name of its own")]
    Duplicate {
        /// The name.
        stage: String,
    },
    /// A stage was declared without a handler.
    #[error("stage {stage:?} has no handler{}: attach one with `tasks` or `threads`", senders(.from))]
    NoHandler {
        /// The stage without a handler.
        stage: String,
        /// The stages that would send to it.
        from: Vec<String>,
    },
    /// Blocking edges form a cycle: with all queues full, its stages deadlock.
    #[error(
        "blocking edges form a cycle, which can deadlock: {}; make one of them non-blocking",
        .stages.join(" → ")
    )]
    BlockingCycle {
        /// The stages on the cycle, the first one repeated at the end.
        stages: Vec<String>,
    },
}

fn senders(from: &[String]) -> String {
    if from.is_empty() { String::new() } else { format!(" and receives from {}", from.join(", ")) }
}
