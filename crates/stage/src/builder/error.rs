//! Why a stage cannot be built.

use tamarisk_control::InvalidClasses;

/// Why a stage cannot be built as described.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Nobody would ever serve its queue.
    #[error(
        "stage {stage:?} has no workers: give it at least one, and not more at least than at most"
    )]
    NoWorkers {
        /// The stage.
        stage: String,
    },
    /// No events could keep its target.
    #[error("the target of stage {stage:?}: {reason}")]
    Target {
        /// The stage.
        stage: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There are none, too many, or two of one name.
    #[error("the classes of stage {stage:?}: {reason}")]
    Classes {
        /// The stage.
        stage: String,
        /// What is wrong with them.
        reason: InvalidClasses,
    },
    /// A quality is stated for a class that there is not.
    #[error("stage {stage:?} has no class {class:?}: give the name of one of its classes")]
    UnknownClass {
        /// The stage.
        stage: String,
        /// The name.
        class: String,
    },
    /// Its queue could hold nothing.
    #[error("stage {stage:?} has a queue of no capacity: give it at least one place")]
    NoQueue {
        /// The stage.
        stage: String,
    },
    /// Its workers would take nothing.
    #[error("stage {stage:?} has a batching factor of zero: give it at least one")]
    NoBatch {
        /// The stage.
        stage: String,
    },
    /// Constants of laws that were chosen by name do not go together.
    #[error("the laws of stage {stage:?} cannot be: {reason}")]
    Laws {
        /// The stage.
        stage: String,
        /// What the law says.
        reason: String,
    },
    /// Order by key needs workers that take turns, and a gate has none.
    #[error(
        "stage {stage:?} is a gate and cannot keep order by key: build it as tasks or threads, \
         or leave out what makes it partitioned or single-threaded"
    )]
    PartitionedGate {
        /// The stage.
        stage: String,
    },
    /// Stages with a queue tick and wait on an async runtime.
    #[error("stage {stage:?} is built outside of a tokio runtime: build it within one")]
    NoRuntime {
        /// The stage.
        stage: String,
    },
    /// The operating system gave no thread.
    #[error("stage {stage:?} could not start a worker thread: {reason}")]
    Thread {
        /// The stage.
        stage: String,
        /// What the system said.
        reason: String,
    },
}
