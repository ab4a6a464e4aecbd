//! Why a stage cannot be built.

use tamarisk_control::InvalidClasses;

/// The one law that cannot rule a stage with workers: see [`BuildError::GateLaw`].
pub(crate) const GATE_LAW: &str = "work-limit";

/// Why a stage cannot be built as described.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The range of workers is empty or starts at zero.
    #[error("stage {stage:?} has no workers: the range of workers must not be empty or start at 0")]
    NoWorkers {
        /// The stage.
        stage: String,
    },
    /// A gate of which neither a number of workers nor a limit of the named admission law says how
    /// many may enter at once.
    #[error(
        "stage {stage:?} is a gate, and law {law:?} does not say how many may enter at once: state \
         `workers`, name a workers law, or choose a law with a limit, such as \"work-limit\""
    )]
    NoLimit {
        /// The stage.
        stage: String,
        /// The admission law.
        law: &'static str,
    },
    /// Its target is invalid.
    #[error("stage {stage:?}: invalid target: {reason}")]
    Target {
        /// The stage.
        stage: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There are no classes, too many, or two of one name.
    #[error("stage {stage:?}: invalid classes: {reason}")]
    Classes {
        /// The stage.
        stage: String,
        /// What is wrong with them.
        reason: InvalidClasses,
    },
    /// A least quality is set for a class that does not exist.
    #[error("stage {stage:?} has no class {class:?}: name one of its classes")]
    UnknownClass {
        /// The stage.
        stage: String,
        /// The name.
        class: String,
    },
    /// Its queue capacity is zero.
    #[error("stage {stage:?} has a queue capacity of 0: set `queue_capacity` to at least 1")]
    NoQueue {
        /// The stage.
        stage: String,
    },
    /// Its batching factor is zero.
    #[error("stage {stage:?} has a batching factor of 0: set `batch` to at least 1")]
    NoBatch {
        /// The stage.
        stage: String,
    },
    /// Constants of laws chosen by name are invalid together.
    #[error("stage {stage:?}: invalid laws: {reason}")]
    Laws {
        /// The stage.
        stage: String,
        /// The error of the law.
        reason: String,
    },
    /// A gate cannot keep order by key: its callers run their own events.
    #[error(
        "stage {stage:?} is a gate, which cannot keep order by key: build it with `tasks` or \
         `threads`, or remove `partitioned` and `single_threaded`"
    )]
    PartitionedGate {
        /// The stage.
        stage: String,
    },
    /// The law `work-limit` counts an event as started when it arrives at a free place. Workers
    /// take it from the queue instead.
    #[error(
        "stage {stage:?} has workers, and law \"work-limit\" is for gates: choose another law, such \
         as \"predict-gate-trim\", or build it with `gate`"
    )]
    GateLaw {
        /// The stage.
        stage: String,
    },
    /// An inline stage has no governor that reads resources.
    #[error(
        "stage {stage:?} is inline, which cannot be bounded by resources: bound the stage that calls \
         it, or build it with `tasks`, `threads` or `gate`"
    )]
    InlineResources {
        /// The stage.
        stage: String,
    },
    /// An inline stage has nothing that a slow law could set.
    #[error(
        "stage {stage:?} is inline, which has nothing that a {rules} law could set: remove the law, \
         or build it with `tasks`, `threads` or `gate`"
    )]
    InlineLaws {
        /// The stage.
        stage: String,
        /// What the law would set: workers, batching, quality or termination.
        rules: &'static str,
    },
    /// Stages with a queue tick and wait on an async runtime.
    #[error("stage {stage:?} is built outside of a tokio runtime: build it within one")]
    NoRuntime {
        /// The stage.
        stage: String,
    },
    /// The governor of a stage needs the timers of the runtime.
    #[error(
        "stage {stage:?} is built on a tokio runtime without timers: build the runtime with \
         `enable_time` or `enable_all`"
    )]
    NoTime {
        /// The stage.
        stage: String,
    },
    /// The operating system could not start a thread.
    #[error("stage {stage:?} cannot start a worker thread: {reason}")]
    Thread {
        /// The stage.
        stage: String,
        /// The error of the operating system.
        reason: String,
    },
    /// The factory failed that makes its handlers.
    #[error("stage {stage:?} has no handler: {reason}")]
    Handler {
        /// The stage.
        stage: String,
        /// The error of the factory.
        reason: String,
    },
}
