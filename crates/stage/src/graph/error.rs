//! Why a graph cannot be built, started or changed.

use crate::build_error::BuildError;
use crate::stage::ReplaceError;

/// Why a graph cannot be built, started or changed.
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
    #[error(
        "two stages are named {stage:?}: give each a name of its own, or remove or replace the one \
         that is in the graph"
    )]
    Duplicate {
        /// The name.
        stage: String,
    },
    /// A stage that admits nothing any more was to be added.
    #[error("stage {stage:?} drains or is closed: build another one, and add that")]
    Closed {
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
    /// No stage of the graph has this name.
    #[error("the graph has no stage {stage:?}: it has {}", listed(.stages))]
    NotFound {
        /// The name that was asked for.
        stage: String,
        /// The names that there are.
        stages: Vec<String>,
    },
    /// The stage of this name takes events of another type.
    #[error(
        "stage {stage:?} takes events of type `{takes}`, not `{asked}`: look it up with its own type"
    )]
    OtherEvents {
        /// The stage.
        stage: String,
        /// The type of its events.
        takes: &'static str,
        /// The type that was asked for.
        asked: &'static str,
    },
    /// An end of an edge is not in this graph.
    #[error(
        "stage {stage:?} is not in this graph: it was removed from it, or belongs to another one; \
         look it up by its name"
    )]
    NotMember {
        /// The stage.
        stage: String,
    },
    /// A stage cannot be replaced by the given one.
    #[error("stage {stage:?} cannot be replaced: {reason}")]
    Replace {
        /// The stage.
        stage: String,
        /// What is in the way.
        reason: ReplaceError,
    },
}

fn senders(from: &[String]) -> String {
    if from.is_empty() { String::new() } else { format!(" and receives from {}", from.join(", ")) }
}

fn listed(stages: &[String]) -> String {
    if stages.is_empty() { "no stages".to_owned() } else { stages.join(", ") }
}
