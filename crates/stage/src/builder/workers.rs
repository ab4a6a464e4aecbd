//! Where workers run, and within which bounds a law finds how many are useful.

use std::num::NonZeroUsize;
use std::ops::RangeInclusive;

use tamarisk_control::{AdmissionLaw, Classes, Concurrency, WorkersLaw};
use tamarisk_laws::{PoolSizing, PredictGateTrim, StageLaws, WorkLimit};

use super::BuildError;

/// Tasks that a stage begins with, and keeps: enough for work that waits for others, and
/// idle ones cost a kilobyte each.
const TASKS_LEAST: u32 = 16;
/// The most tasks that the law may start: a thousand requests in flight to whatever is
/// behind.
const TASKS_MOST: u32 = 1024;

/// The most threads that the law may start for each core, which is what there are at
/// first: blocking work leaves a core idle for most of the time.
const THREADS_PER_CORE: u32 = 16;

/// Of the random steps of the law; any will do, and the same each time is easier to follow.
const POOL_SEED: u64 = 1;

/// Where workers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerKind {
    Tasks,
    Threads,
    /// The callers of a gate run their events themselves.
    Callers,
}

impl WorkerKind {
    /// How many there may be, where that is not stated.
    pub(super) fn range(self) -> RangeInclusive<u32> {
        match self {
            Self::Tasks => TASKS_LEAST..=TASKS_MOST,
            Self::Threads => {
                let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
                let cores = u32::try_from(cores).unwrap_or(u32::MAX);
                cores..=cores.saturating_mul(THREADS_PER_CORE)
            }
            // The admission law says how many may run.
            Self::Callers => 1..=1,
        }
    }

    /// The law that finds how many are useful.
    fn law(self) -> Option<Box<dyn WorkersLaw>> {
        let range = self.range();
        let [least, most] = [*range.start(), *range.end()].map(Concurrency::new);
        (self != Self::Callers).then(|| Box::new(PoolSizing::new(least..=most, POOL_SEED)) as _)
    }
}

/// The workers of a stage, as described before it is known where they run.
pub(crate) struct PoolDescription {
    /// How many there may be; none if where they run decides that.
    pub(super) workers: Option<RangeInclusive<u32>>,
    /// Events that each takes at once, if that is stated.
    pub(super) batch: Option<u32>,
    /// The slow laws of the stage.
    pub(super) slow: StageLaws,
}

/// The workers of a stage, and its slow laws.
pub(crate) struct PoolConfig {
    pub(crate) workers: RangeInclusive<u32>,
    pub(crate) batch: u32,
    pub(crate) slow: StageLaws,
}

impl PoolDescription {
    /// For workers of this kind, each of which takes `batch` events at once unless it is stated.
    /// Where their number is not stated, a law finds how many are useful.
    pub(crate) fn settle(self, kind: WorkerKind, batch: u32) -> PoolConfig {
        let Self { workers, batch: stated, mut slow } = self;
        if workers.is_none() {
            slow.composed.workers = kind.law();
        }
        let workers = workers.unwrap_or_else(|| kind.range());
        PoolConfig { workers, batch: stated.unwrap_or(batch), slow }
    }
}

/// Who says how many events a stage works on at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limiter {
    /// The number of its workers, which is stated or set by a law.
    Workers,
    /// The admission law of a gate, whose callers bring their own workers.
    Admission,
}

impl Limiter {
    /// The admission law, where none is chosen.
    pub(crate) fn default_law(self, classes: &Classes) -> Box<dyn AdmissionLaw> {
        match self {
            Self::Workers => Box::new(PredictGateTrim::new(classes)),
            Self::Admission => Box::new(WorkLimit::new(classes)),
        }
    }

    /// Checks that `law` sets a limit where it has to.
    pub(crate) fn check(self, stage: &str, law: &dyn AdmissionLaw) -> Result<(), BuildError> {
        if self == Self::Workers || law.concurrency().is_some() {
            return Ok(());
        }
        Err(BuildError::NoLimit { stage: stage.to_owned(), law: law.name() })
    }
}
