//! The slow-loop laws in the catalogue: workers, batching, quality, termination.

use tamarisk_control::{Classes, Concurrency};

use super::{BatchEntry, Conflict, QualityEntry, TerminationEntry, WorkersEntry, entry};
use crate::fair::{DepartureControl, DepartureRate, DepartureRateConstants};
use crate::slow_loop::{
    DegradationConstants, ElasticPoolConstants, FixedBatchConstants, FixedWorkersConstants,
    PoolSizingConstants, TerminationThresholdConstants, ThroughputBatchingConstants,
};
use crate::{
    DeadlineOnly, Degradation, ElasticPool, FixedBatch, FixedWorkers, FullQuality, PoolSizing,
    TerminationThreshold, ThroughputBatching,
};

macro_rules! fair {
    ($name:literal, $summary:literal, $control:ident) => {
        entry!($name, $summary, |classes, its: DepartureRateConstants| {
            DepartureRate::with(classes, DepartureControl::$control, &its)?
        })
    };
}

/// Every workers law that ships.
pub const WORKERS: &[WorkersEntry] = &[
    entry!("fixed", "as many as are stated", |_, its: FixedWorkersConstants| {
        FixedWorkers(its.workers_count)
    }),
    entry!(
        "pool-sizing",
        "more while work waits, fewer while they idle or thrash [Welsh02]",
        |_, its: PoolSizingConstants| pool_sizing(&its)?
    ),
    entry!(
        "elastic-pool",
        "one for each event while more make no answer longer",
        |classes, its: ElasticPoolConstants| elastic_pool(&its, classes)?
    ),
    fair!("fair-p", "holds a throughput by its workers, proportionally [Fair07]", P),
    fair!("fair-pi", "the same with the sum of past errors [Fair07]", Pi),
    fair!("fair-pd", "the same with the change of the error [Fair07]", Pd),
    fair!(
        "fair-precompensated",
        "fair-p as printed: at its target within a sample [Fair07]",
        Precompensated
    ),
    fair!("fair-heuristic", "holds a throughput, one worker a sample [Fair07]", Heuristic),
    fair!(
        "fair-hybrid",
        "fair-precompensated; under overload the fewest that do the most [Fair07]",
        Hybrid
    ),
];

/// Every batching law that ships.
pub const BATCHING: &[BatchEntry] = &[
    entry!("fixed", "as many events at once as are stated", |_, its: FixedBatchConstants| {
        FixedBatch(its.batch_events_count)
    }),
    entry!(
        "throughput-batching",
        "the smallest batch that keeps the throughput [Welsh02]",
        |_, its: ThroughputBatchingConstants| ThroughputBatching::new(its.batch_events_max_count)
    ),
];

/// Every quality law that ships.
pub const QUALITY: &[QualityEntry] = &[
    entry!("full", "every event is served in full", |_| FullQuality),
    entry!(
        "degradation",
        "less while the percentile is above its target [Welsh02]",
        |classes, its: DegradationConstants| Degradation::new(classes, its.quality_least_ratio)
    ),
];

/// Every termination law that ships.
pub const TERMINATION: &[TerminationEntry] = &[
    entry!("deadline", "events run until their own deadlines", |_| DeadlineOnly),
    entry!(
        "termination-threshold",
        "a limit on how long events run that falls with losses [SERT06]",
        |classes, its: TerminationThresholdConstants| {
            TerminationThreshold::with(classes, its).build()?
        }
    ),
];

fn elastic_pool(its: &ElasticPoolConstants, classes: &Classes) -> Result<ElasticPool, Conflict> {
    check_range(its.workers_min_count, its.workers_max_count)?;
    Ok(ElasticPool::with(its, classes.longest()))
}

fn pool_sizing(its: &PoolSizingConstants) -> Result<PoolSizing, Conflict> {
    check_range(its.workers_min_count, its.workers_max_count)?;
    Ok(PoolSizing::with(its, 0))
}

fn check_range(least: Concurrency, most: Concurrency) -> Result<(), Conflict> {
    if least > most {
        let reason = format!("`workers_min_count` ({least}) exceeds `workers_max_count` ({most})");
        return Err(Conflict(reason));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tamarisk_control::Target;

    use super::*;

    #[test]
    fn a_pool_of_fewer_at_most_than_at_least_is_invalid() {
        let classes = Classes::single(Target::p90(Duration::from_millis(200)).unwrap());
        assert!(WORKERS[1].law_with(&classes, &[("workers_min_count", 100.0)]).is_err());
    }
}
