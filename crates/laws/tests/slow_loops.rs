//! What each slow law is for, after the figures of the papers that show it.

mod simulated_stage;

use std::time::Duration;

use simulated_stage::governed::{Governor, SideBySide, plain};
use simulated_stage::report::{Summary, summarise};
use simulated_stage::run_governed;
use simulated_stage::scenarios::{self, Scenario};
use tamarisk_control::*;
use tamarisk_laws::*;

const SEEDS: [u64; 3] = [1, 2, 3];

/// Nothing but a stage with so many workers.
fn plain_stage(workers: u32) -> SideBySide {
    SideBySide {
        admission: Box::new(Open),
        workers: Box::new(FixedWorkers(Concurrency::new(workers))),
        batch: Box::new(FixedBatch(BatchSize::ONE)),
        quality: Box::new(FullQuality),
        termination: Box::new(DeadlineOnly),
    }
}

/// What came of it while it was measured, and the knobs meanwhile.
fn run(mut laws: impl Governor, scenario: &Scenario, seed: u64) -> (Summary, Vec<Knobs>) {
    let workers = scenario.upstream.workers;
    let (records, history) = run_governed(&mut laws, Some(plain(workers)), scenario, seed);
    let (from, to) = scenario.measured;
    let within = history.into_iter().filter(|(at, _)| (from..to).contains(at));
    let summary = summarise(&records, &scenario.workload.classes, None, from, to);
    (summary, within.map(|(_, knobs)| knobs).collect())
}

/// [Welsh02 fig. 31]
#[test]
fn a_pool_that_would_thrash_is_kept_small() {
    let scenario = scenarios::thrashing();
    let range = Concurrency::new(1)..=Concurrency::new(100);
    for seed in SEEDS {
        let many = run(plain_stage(100), &scenario, seed).0;
        let pool = Box::new(PoolSizing::new(range.clone(), seed));
        let sized = SideBySide { workers: pool, ..plain_stage(1) };
        let (sum, knobs) = run(sized, &scenario, seed);
        let (rate, many) =
            (sum.completed / scenario.capacity(), many.completed / scenario.capacity());
        assert!(
            rate > 0.75 && many < 0.1,
            "seed {seed}: {rate:.2}, and {many:.2} with 100 workers"
        );
        let most = knobs.iter().map(|knobs| knobs.workers.get()).max();
        assert!(most <= Some(14), "seed {seed}: up to {most:?} workers");
    }
}

/// [Welsh02 fig. 32]: one dear operation for each batch of up to 200 events, and
/// again for every further hundred.
#[test]
fn a_batch_settles_about_the_size_that_a_handler_is_made_for() {
    let throughput = |size: f64| {
        let dear = 1.0 + ((size - 200.0) / 100.0).max(0.0);
        size / (dear * 0.010 + size * 10e-6)
    };
    let mut law = ThroughputBatching::default();
    let (mut completed, mut size) = (0.0, 1000.0);
    let mut sizes = Vec::new();
    for second in 0..300 {
        completed += throughput(size);
        let backlog = Backlog {
            queued: &[100_000],
            running: &[1],
            queued_total: 100_000,
            running_total: 1,
            workers: Concurrency::ONE,
        };
        let completed = completed as u64;
        let activity =
            Activity { backlog, offered: completed, lost: 0, completed, workers_idle: 0 };
        size = law.on_tick(Timestamp::ZERO + Duration::from_secs(second), &activity).get().into();
        sizes.push(size);
    }
    let settled = &sizes[40..];
    assert!(settled.iter().all(|size| (110.0..=350.0).contains(size)), "{settled:?}");
    let mean = settled.iter().map(|&size| throughput(size)).sum::<f64>() / settled.len() as f64;
    assert!(mean > 0.85 * throughput(200.0), "{mean:.0} of {:.0} a second", throughput(200.0));
    let is_undamped = settled.windows(3).filter(|w| w[1] > w[0] && w[1] >= w[2]).count() > 4;
    assert!(is_undamped, "as the paper's, it swings: {settled:?}");
}

/// [Welsh02 fig. 56]
#[test]
fn degradation_alone_keeps_a_spike_about_the_target() {
    let scenario = scenarios::degradable_spike(1000);
    let classes = &scenario.workload.classes;
    for seed in SEEDS {
        let without = run(plain_stage(1), &scenario, seed).0.p90;
        let quality = Box::new(Degradation::new(classes, Ratio::saturating(0.1)));
        let with = run(SideBySide { quality, ..plain_stage(1) }, &scenario, seed).0.p90;
        assert!(without > 3.0 && with < 1.3, "seed {seed}: {with:.2} instead of {without:.2}");
    }
}

/// Quality, and a door that is shut only when that is not enough.
struct DoorLast {
    door: AdmissionWhenSpent<PredictGateTrim>,
    quality: Degradation,
    door_was_used: bool,
}

impl Governor for DoorLast {
    fn admission(&mut self) -> &mut dyn AdmissionLaw {
        &mut self.door
    }

    fn places(&self, workers: Concurrency) -> Concurrency {
        (&self.door as &dyn AdmissionLaw).places(workers)
    }

    fn on_finish(&mut self, now: Timestamp, finished: &Finished) {
        self.quality.on_finish(now, finished);
    }

    fn on_tick(&mut self, now: Timestamp, activity: &Activity<'_>) -> Option<Knobs> {
        let quality = self.quality.on_tick(now, activity, Leeway::Either);
        self.door.on_quality(self.quality.strain());
        self.door_was_used |= !self.quality.strain().can_press();
        Some(Knobs { quality, ..plain(1) })
    }
}

/// [Welsh02 fig. 57]
#[test]
fn with_admission_as_the_last_resort_a_spike_beyond_the_least_quality_is_held_too() {
    let scenario = scenarios::degradable_spike(10_000);
    let classes = &scenario.workload.classes;
    let least = Ratio::saturating(0.1);
    for seed in SEEDS {
        let quality = Box::new(Degradation::new(classes, least));
        let alone = run(SideBySide { quality, ..plain_stage(1) }, &scenario, seed).0;
        let mut both = DoorLast {
            door: AdmissionWhenSpent::new(PredictGateTrim::new(classes)),
            quality: Degradation::new(classes, least),
            door_was_used: false,
        };
        let (records, _) = run_governed(&mut both, Some(plain(1)), &scenario, seed);
        let (from, to) = scenario.measured;
        let with = summarise(&records, classes, None, from, to);
        assert!(both.door_was_used);
        let (with_door, without) = (with.goodput, alone.goodput);
        assert!(
            without < 5.0 && with_door > 100.0,
            "seed {seed}: {with_door:.1} and {without:.1} answers in time a second"
        );
        assert!(with.rejected > 0.5, "seed {seed}: {:.2} rejected", with.rejected);
    }
}

/// [Welsh02 §7.3.4]: while quality can still fall, nobody is refused.
#[test]
fn while_quality_suffices_the_door_stays_open() {
    let scenario = scenarios::degradable_spike(1000);
    let classes = &scenario.workload.classes;
    let mut both = DoorLast {
        door: AdmissionWhenSpent::new(PredictGateTrim::new(classes)),
        quality: Degradation::new(classes, Ratio::saturating(0.01)),
        door_was_used: false,
    };
    let (records, _) = run_governed(&mut both, Some(plain(1)), &scenario, 1);
    assert!(!both.door_was_used && records.len() > 1000);
}

/// [SERT06 §2.2 and fig. 9]: a tenth of the requests takes a hundred times as long.
#[test]
fn ending_the_overdue_doubles_the_throughput_of_a_queue_that_they_fill() {
    let ends = |classes: &Classes| {
        let bounds = Duration::from_millis(50)..=Duration::from_secs(2);
        let law = TerminationThreshold::builder(classes).bounds(ClassId::DEFAULT, bounds).build();
        Box::new(law.expect("the bounds are in order"))
    };
    // The queue's threshold of 15 is the paper's.
    let queue = || Box::new(Threshold::new(15));
    for seed in SEEDS {
        let scenario = scenarios::long_requests(0.1);
        let classes = &scenario.workload.classes;
        let by_queue = SideBySide { admission: queue(), ..plain_stage(1) };
        let by_queue = run(by_queue, &scenario, seed).0;
        let both = SideBySide { admission: queue(), termination: ends(classes), ..plain_stage(1) };
        let both = run(both, &scenario, seed).0;
        let gain = both.completed / by_queue.completed;
        assert!(gain > 2.0, "seed {seed}: {gain:.2} times as many");

        // A thousandth of them does no harm, and is left alone.
        let scenario = scenarios::long_requests(0.001);
        let both = SideBySide { admission: queue(), termination: ends(classes), ..plain_stage(1) };
        let both = run(both, &scenario, seed).0;
        assert_eq!(both.terminated, 0.0, "seed {seed}");
    }
}
