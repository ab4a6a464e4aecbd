//! The laws of the slow loops.

use std::time::Duration;

use tamarisk_control::{BatchSize, Classes, Concurrency, Ratio, TerminationLaw, WorkersLaw};

use super::{BatchEntry, QualityEntry, TerminationEntry, WorkersEntry, knob};
use crate::{
    DeadlineOnly, Degradation, FixedBatch, FixedWorkers, FullQuality, PoolSizing,
    TerminationThreshold, ThroughputBatching,
};

/// Every workers law that ships.
pub const WORKERS: &[WorkersEntry] = &[
    WorkersEntry {
        name: "fixed",
        summary: "as many as are stated",
        knobs: &[knob("workers_count", "worked on at once", 1.0, 1.0, 32_768.0)],
        make: |_, values| Ok(Box::new(FixedWorkers(count(values[0])))),
    },
    WorkersEntry {
        name: "pool-sizing",
        summary: "more while work waits, fewer while they idle or thrash [Welsh02]",
        knobs: &[
            knob("workers_min_count", "the fewest, and the first", 1.0, 1.0, 32_768.0),
            knob("workers_max_count", "the most", 64.0, 1.0, 32_768.0),
            knob("queued_count", "a longer queue asks for one more", 100.0, 0.0, 1e6),
        ],
        make: pool_sizing,
    },
];

/// Every batching law that ships.
pub const BATCHING: &[BatchEntry] = &[
    BatchEntry {
        name: "fixed",
        summary: "as many events at once as are stated",
        knobs: &[knob("batch_events_count", "events at once, at most", 32.0, 1.0, 1e6)],
        make: |_, values| Ok(Box::new(FixedBatch(batch(values[0])))),
    },
    BatchEntry {
        name: "throughput-batching",
        summary: "the smallest batch that keeps the throughput [Welsh02]",
        knobs: &[knob("batch_events_max_count", "the greatest, and the first", 1000.0, 1.0, 1e6)],
        make: |_, values| Ok(Box::new(ThroughputBatching::new(batch(values[0])))),
    },
];

/// Every quality law that ships.
pub const QUALITY: &[QualityEntry] = &[
    QualityEntry {
        name: "full",
        summary: "every event is served in full",
        knobs: &[],
        make: |_, _| Ok(Box::new(FullQuality)),
    },
    QualityEntry {
        name: "degradation",
        summary: "less while the percentile is above its target [Welsh02]",
        knobs: &[knob("quality_least_ratio", "what is still called service", 0.25, 0.0, 1.0)],
        make: |classes, values| {
            Ok(Box::new(Degradation::new(classes, Ratio::saturating(values[0]))))
        },
    },
];

/// Every termination law that ships.
pub const TERMINATION: &[TerminationEntry] = &[
    TerminationEntry {
        name: "deadline",
        summary: "events run until their own deadlines",
        knobs: &[],
        make: |_, _| Ok(Box::new(DeadlineOnly)),
    },
    TerminationEntry {
        name: "termination-threshold",
        summary: "a limit on how long events run that falls with losses [SERT06]",
        knobs: &[
            knob("lower_targets_ratio", "LB, in targets", 1.0, 0.01, 1000.0),
            knob("upper_targets_ratio", "UB, in targets", 10.0, 0.01, 1000.0),
            knob("interval_seconds", "the monitoring period", 10.0, 0.1, 3600.0),
            knob("scaling_exponent", "alpha: the greater, the sooner LB", 4.0, 0.0, 100.0),
            knob("low_watermark_ratio", "LW: losses up to which UB applies", 0.05, 0.0, 1.0),
            knob("high_watermark_ratio", "HW: losses from which on LB does", 0.15, 0.0, 1.0),
        ],
        make: termination_threshold,
    },
];

fn count(value: f64) -> Concurrency {
    Concurrency::new(value as u32)
}

fn batch(value: f64) -> BatchSize {
    BatchSize::new(value as u32)
}

fn pool_sizing(_: &Classes, values: &[f64]) -> Result<Box<dyn WorkersLaw>, String> {
    let (least, most) = (count(values[0]), count(values[1]));
    if least > most {
        return Err(format!("at least {least} workers are more than at most {most}"));
    }
    Ok(Box::new(PoolSizing::new(least..=most, 0).queue_threshold(values[2] as u32)))
}

fn termination_threshold(
    classes: &Classes,
    values: &[f64],
) -> Result<Box<dyn TerminationLaw>, String> {
    let law = TerminationThreshold::builder(classes)
        .bounds_in_targets(values[0]..=values[1])
        .interval(Duration::from_secs_f64(values[2]))
        .scaling(values[3])
        .watermarks(Ratio::saturating(values[4]), Ratio::saturating(values[5]))
        .build();
    law.map(|law| Box::new(law) as _).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use tamarisk_control::{BatchLaw, Target};

    use super::*;

    #[test]
    fn the_listed_defaults_are_those_of_the_laws() {
        let classes = Classes::single(Target::p90(Duration::from_millis(200)).unwrap());
        let listed = TERMINATION[1].law(&classes).limit(tamarisk_control::ClassId::DEFAULT);
        let own = TerminationThreshold::new(&classes).limit(tamarisk_control::ClassId::DEFAULT);
        assert_eq!(listed, own);
        assert_eq!(BATCHING[1].law(&classes).most(), ThroughputBatching::default().most());
    }

    #[test]
    fn a_pool_of_fewer_at_most_than_at_least_is_refused() {
        let classes = Classes::single(Target::p90(Duration::from_millis(200)).unwrap());
        assert!(WORKERS[1].law_with(&classes, &[("workers_min_count", 100.0)]).is_err());
    }
}
