//! The laws of this crate by name, for `tamarisk-catalogue` and for who chooses one without it.

use crate::named::{
    AdmissionEntry, BatchEntry, Conflict, QualityEntry, TerminationEntry, WorkersEntry,
};
use crate::plain_queue::PlainQueueConstants;
use crate::predict_gate_trim::PredictGateTrimConstants;
use crate::rate_limit::RateLimitConstants;
use crate::slow_loop::{
    DegradationConstants, ElasticPoolConstants, FixedBatchConstants, FixedWorkersConstants,
};
use crate::threshold::ThresholdConstants;
use crate::work_limit::WorkLimitConstants;
use crate::{
    Allowance, DeadlineOnly, Degradation, ElasticPool, FixedBatch, FixedWorkers, FullQuality, Open,
    PlainQueue, PredictGateTrim, RateLimit, Threshold, WorkLimit, entry,
};

/// [`PredictGateTrim`].
pub const PREDICT_GATE_TRIM: AdmissionEntry = entry!(
    "predict-gate-trim",
    "the default of stages: rejects what would be late, keeps no standing queue",
    |classes, its: PredictGateTrimConstants| {
        PredictGateTrim::builder(classes).constants(its).build()?
    }
);
/// [`WorkLimit`].
pub const WORK_LIMIT: AdmissionEntry = entry!(
    "work-limit",
    "the default of protect and proxied routes: limits the work in flight, by kind",
    |classes, its: WorkLimitConstants| WorkLimit::builder(classes).constants(its).build()?
);
/// [`Open`].
pub const OPEN: AdmissionEntry = entry!("open", "admits everything", |_| Open);
/// [`Threshold`].
pub const THRESHOLD: AdmissionEntry = entry!(
    "threshold",
    "drop-tail: a bound on the queue's length",
    |_, its: ThresholdConstants| Threshold::new(its.queued_count)
);
/// [`PlainQueue`].
pub const PLAIN_QUEUE: AdmissionEntry = entry!(
    "plain-queue",
    "a bound on the queue by the target and the mean service, and late ones are dropped",
    |classes, its: PlainQueueConstants| PlainQueue::with(classes, its.wait_ratio)
);
/// [`RateLimit`] of all classes together.
pub const RATE_LIMIT: AdmissionEntry =
    entry!("rate-limit", "a fixed rate for all events together", |_, its: RateLimitConstants| {
        RateLimit::total(Allowance { rate: its.rate_per_second, burst: its.burst_count })?
    });

/// [`FixedWorkers`].
pub const FIXED_WORKERS: WorkersEntry =
    entry!("fixed", "as many as are stated", |_, its: FixedWorkersConstants| {
        FixedWorkers(its.workers_count)
    });
/// [`ElasticPool`].
pub const ELASTIC_POOL: WorkersEntry = entry!(
    "elastic-pool",
    "one for each event while more make no answer longer",
    |classes, its: ElasticPoolConstants| {
        Conflict::in_workers(its.workers_min_count, its.workers_max_count)?;
        ElasticPool::with(&its, classes.longest())
    }
);

/// [`FixedBatch`].
pub const FIXED_BATCH: BatchEntry =
    entry!("fixed", "as many events at once as are stated", |_, its: FixedBatchConstants| {
        FixedBatch(its.batch_events_count)
    });

/// [`FullQuality`].
pub const FULL_QUALITY: QualityEntry =
    entry!("full", "every event is served in full", |_| FullQuality);
/// [`Degradation`].
pub const DEGRADATION: QualityEntry = entry!(
    "degradation",
    "less while the percentile is above its target [Welsh02]",
    |classes, its: DegradationConstants| Degradation::new(classes, its.quality_least_ratio)
);

/// [`DeadlineOnly`].
pub const DEADLINE_ONLY: TerminationEntry =
    entry!("deadline", "events run until their own deadlines", |_| DeadlineOnly);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tamarisk_control::{Classes, Target};

    use super::*;

    #[test]
    fn a_pool_of_fewer_at_most_than_at_least_is_invalid() {
        let classes = Classes::single(Target::p90(Duration::from_millis(200)).unwrap());
        assert!(ELASTIC_POOL.law_with(&classes, &[("workers_min_count", 100.0)]).is_err());
    }
}
