//! Why a graph cannot be as described.

use crate::builder::BuildError;

/// Why a graph cannot be as described.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// A stage could not be built: among others, one without workers.
    #[error(transparent)]
    Stage(#[from] BuildError),
    /// The law over the graph cannot be.
    #[error("the law over the graph cannot be: {reason}")]
    Law {
        /// What the law says.
        reason: String,
    },
    /// A law over a graph has a governor, which runs on an async runtime.
    #[error("a graph under a law is started outside of a tokio runtime: start it within one")]
    NoRuntime,
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
