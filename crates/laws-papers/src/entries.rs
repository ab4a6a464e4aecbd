//! The laws of this crate by name, for `tamarisk-catalogue`.

use tamarisk_laws::entry;
use tamarisk_laws::named::{
    AdmissionEntry, BatchEntry, Conflict, GlobalEntry, TerminationEntry, WorkersEntry,
};

use crate::fair::{
    DepartureControl, DepartureRate, DepartureRateConstants, Form, GlobalController,
    GlobalControllerConstants, SelectiveDropper, SelectiveDropperConstants, SelfTuning,
    SelfTuningConstants, ThroughputSharing, ThroughputSharingConstants,
};
use crate::response_time::{HalvingConstants, ResponseTimeConstants};
use crate::slow_loop::{
    PoolSizingConstants, TerminationThresholdConstants, ThroughputBatchingConstants,
};
use crate::{
    MulticlassBuilder, PoolSizing, ResponseTime, TerminationThreshold, ThroughputBatching,
};

/// [`ResponseTime`].
pub const RESPONSE_TIME: AdmissionEntry = entry!(
    "response-time",
    "the papers' controller: a rate for each class, by its percentile [Welsh03]",
    |classes, its: ResponseTimeConstants| {
        ResponseTime::builder(classes).constants(its).build()?
    }
);
/// [`ResponseTime`], which halves its rate.
pub const RESPONSE_TIME_HALVING: AdmissionEntry = entry!(
    "response-time-halving",
    "the same, halved a tenth above its target, as in the position paper [Welsh01]",
    |classes, its: HalvingConstants| {
        ResponseTime::builder(classes).halving_constants(&its).build()?
    }
);
/// [`Multiclass`](crate::Multiclass).
pub const MULTICLASS: AdmissionEntry = entry!(
    "multiclass",
    "the papers' controller that rejects lower classes first [Welsh03]",
    |classes, its: ResponseTimeConstants| {
        MulticlassBuilder::new(ResponseTime::builder(classes).constants(its)).build()?
    }
);

macro_rules! self_tuning {
    ($name:literal, $summary:literal, $form:ident) => {
        entry!($name, $summary, |classes, its: SelfTuningConstants| {
            SelfTuning::builder(classes, Form::$form).constants(its).build()?
        })
    };
}

/// [`SelfTuning`] by [`Form::P`].
pub const P: AdmissionEntry =
    self_tuning!("p", "a stage tuned by proportional control [Fair07]", P);
/// [`SelfTuning`] by [`Form::Pi`].
pub const PI: AdmissionEntry = self_tuning!("pi", "the same with an integral part [Fair07]", Pi);
/// [`SelfTuning`] by [`Form::Pd`].
pub const PD: AdmissionEntry = self_tuning!("pd", "the same with a derivative part [Fair07]", Pd);
/// [`SelfTuning`] by [`Form::PPrecompensated`].
pub const P_PRECOMPENSATED: AdmissionEntry = self_tuning!(
    "p-precompensated",
    "proportional, on its target by the model [Fair07]",
    PPrecompensated
);
/// [`SelectiveDropper`].
pub const SELECTIVE_DROPPER: AdmissionEntry = entry!(
    "selective-dropper",
    "drops what has waited out its class's time [Fair07]",
    |classes, its: SelectiveDropperConstants| {
        SelectiveDropper::with_threshold(classes, its.wait_ratio)
    }
);

/// [`PoolSizing`].
pub const POOL_SIZING: WorkersEntry = entry!(
    "pool-sizing",
    "more while work waits, fewer while they idle or thrash [Welsh02]",
    |_, its: PoolSizingConstants| {
        Conflict::in_workers(its.workers_min_count, its.workers_max_count)?;
        PoolSizing::with(&its, 0)
    }
);

macro_rules! departure_rate {
    ($name:literal, $summary:literal, $control:ident) => {
        entry!($name, $summary, |classes, its: DepartureRateConstants| {
            DepartureRate::with(classes, DepartureControl::$control, &its)?
        })
    };
}

/// [`DepartureRate`] by [`DepartureControl::P`].
pub const FAIR_P: WorkersEntry =
    departure_rate!("fair-p", "holds a throughput by its workers, proportionally [Fair07]", P);
/// [`DepartureRate`] by [`DepartureControl::Pi`].
pub const FAIR_PI: WorkersEntry =
    departure_rate!("fair-pi", "the same with the sum of past errors [Fair07]", Pi);
/// [`DepartureRate`] by [`DepartureControl::Pd`].
pub const FAIR_PD: WorkersEntry =
    departure_rate!("fair-pd", "the same with the change of the error [Fair07]", Pd);
/// [`DepartureRate`] by [`DepartureControl::Precompensated`].
pub const FAIR_PRECOMPENSATED: WorkersEntry = departure_rate!(
    "fair-precompensated",
    "fair-p as printed: at its target within a sample [Fair07]",
    Precompensated
);
/// [`DepartureRate`] by [`DepartureControl::Heuristic`].
pub const FAIR_HEURISTIC: WorkersEntry = departure_rate!(
    "fair-heuristic",
    "holds a throughput, one worker a sample [Fair07]",
    Heuristic
);
/// [`DepartureRate`] by [`DepartureControl::Hybrid`].
pub const FAIR_HYBRID: WorkersEntry = departure_rate!(
    "fair-hybrid",
    "fair-precompensated; under overload the fewest that do the most [Fair07]",
    Hybrid
);

/// [`ThroughputBatching`].
pub const THROUGHPUT_BATCHING: BatchEntry = entry!(
    "throughput-batching",
    "the smallest batch that keeps the throughput [Welsh02]",
    |_, its: ThroughputBatchingConstants| ThroughputBatching::new(its.batch_events_max_count)
);

/// [`TerminationThreshold`].
pub const TERMINATION_THRESHOLD: TerminationEntry = entry!(
    "termination-threshold",
    "a limit on how long events run that falls with losses [SERT06]",
    |classes, its: TerminationThresholdConstants| {
        TerminationThreshold::with(classes, its).build()?
    }
);

/// [`GlobalController`].
pub const GLOBAL_CONTROLLER: GlobalEntry = entry!(
    "global-controller",
    "one promise for all stages, shared by the flows between them [Fair07]",
    |classes, its: GlobalControllerConstants| {
        GlobalController::with(classes, its.period_seconds, its.aim_ratio)
    }
);
/// [`ThroughputSharing`].
pub const THROUGHPUT_SHARING: GlobalEntry = entry!(
    "throughput-sharing",
    "one throughput for all stages, which they follow by their workers [Fair07]",
    |classes, its: ThroughputSharingConstants| ThroughputSharing::with(classes, &its)
);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tamarisk_control::{Classes, Target};

    use super::*;

    #[test]
    fn a_pool_of_fewer_at_most_than_at_least_is_invalid() {
        let classes = Classes::single(Target::p90(Duration::from_millis(200)).unwrap());
        assert!(POOL_SIZING.law_with(&classes, &[("workers_min_count", 100.0)]).is_err());
    }
}
