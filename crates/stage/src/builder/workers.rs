//! Where workers run, and within which bounds a law finds how many are useful.

use std::num::NonZeroUsize;
use std::ops::RangeInclusive;

/// Tasks that a stage begins with, and keeps: enough for work that waits for others, and
/// idle ones cost a kilobyte each.
const TASKS_LEAST: u32 = 16;
/// The most tasks that the law may start: a thousand requests in flight to whatever is
/// behind.
const TASKS_MOST: u32 = 1024;

/// The most threads that the law may start for each core, which is what there are at
/// first: blocking work leaves a core idle for most of the time.
const THREADS_PER_CORE: u32 = 16;

/// Where workers run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WorkerKind {
    Tasks,
    Threads,
}

impl WorkerKind {
    /// Within which a law finds how many are useful.
    pub(super) fn range(self) -> RangeInclusive<u32> {
        match self {
            Self::Tasks => TASKS_LEAST..=TASKS_MOST,
            Self::Threads => {
                let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
                let cores = u32::try_from(cores).unwrap_or(u32::MAX);
                cores..=cores.saturating_mul(THREADS_PER_CORE)
            }
        }
    }
}
