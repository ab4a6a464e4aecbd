//! Where workers run, and within which bounds a law finds how many are useful.

use std::num::NonZeroUsize;
use std::ops::RangeInclusive;

use tamarisk_control::{AdmissionLaw, Classes, Concurrency, WorkersLaw};
use tamarisk_laws::{ElasticPool, PredictGateTrim, StageLaws, WorkLimit};

use crate::build_error::BuildError;

/// Tasks that a stage begins with, and keeps: idle ones cost a kilobyte each.
const TASKS_LEAST: u32 = 16;
/// The most tasks that the law may start. An idle one costs a kilobyte, 16 MiB in all; what a busy one
/// holds is its event, of which the queue alone may have 10,000.
const TASKS_MOST: u32 = 16_384;
/// How many times as many tasks the law may start before answers tell whether they grow longer: any
/// number, as a runtime does that has a task for each event.
const TASKS_TRUST: f64 = TASKS_MOST as f64;

/// The most threads that the law may start, as many as tokio has for blocking work: a thread costs
/// some 20 KiB of its stack, 10 MiB in all, and a share of a core while it computes. At first there is
/// one for each core.
const THREADS_MOST: u32 = 512;
/// As [`TASKS_TRUST`]. Threads that compute share the cores: twice as many show whether they do.
const THREADS_TRUST: f64 = 2.0;

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
    pub(crate) fn range(self) -> RangeInclusive<u32> {
        match self {
            Self::Tasks => TASKS_LEAST..=TASKS_MOST,
            Self::Threads => {
                let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
                let cores = u32::try_from(cores).unwrap_or(u32::MAX);
                cores..=cores.max(THREADS_MOST)
            }
            // The admission law says how many may run.
            Self::Callers => 1..=1,
        }
    }

    /// The law that finds how many are useful.
    fn law(self, classes: &Classes) -> Option<Box<dyn WorkersLaw>> {
        let range = self.range();
        let [least, most] = [*range.start(), *range.end()].map(Concurrency::new);
        let trust = match self {
            Self::Tasks => TASKS_TRUST,
            Self::Threads => THREADS_TRUST,
            Self::Callers => return None,
        };
        Some(Box::new(ElasticPool::new(least..=most, trust, classes.longest())))
    }
}

/// The workers of a stage, as described before it is known where they run.
pub(crate) struct PoolDescription {
    /// How many there may be; none if where they run decides that.
    pub(crate) workers: Option<RangeInclusive<u32>>,
    /// Events that each takes at once, if that is stated.
    pub(crate) batch: Option<u32>,
    /// The slow laws of the stage.
    pub(crate) slow: StageLaws,
    pub(crate) classes: Classes,
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
        let Self { workers, batch: stated, mut slow, classes } = self;
        if workers.is_none() {
            slow.composed.workers = kind.law(&classes);
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
