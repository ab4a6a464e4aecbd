//! What the composition is for: one stage that could do far more, at less quality
//! and without its overdue events, under laws alone, side by side, and composed.

#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped fails the test")]

mod simulated_stage;

use std::time::Duration;

use simulated_stage::governed::{Governor, SideBySide, plain};
use simulated_stage::report::{Summary, summarise};
use simulated_stage::scenarios::{self, Scenario};
use simulated_stage::{Record, run_governed};
use tamarisk_control::*;
use tamarisk_laws::*;

const SEEDS: [u64; 3] = [1, 2, 3];

fn pool() -> Box<PoolSizing> {
    Box::new(PoolSizing::new(Concurrency::new(4)..=Concurrency::new(64), 1))
}

fn degradation(classes: &Classes) -> Box<Degradation> {
    Box::new(Degradation::new(classes, Ratio::saturating(0.25)))
}

fn threshold(classes: &Classes) -> Box<TerminationThreshold> {
    Box::new(TerminationThreshold::new(classes))
}

fn composed(classes: &Classes) -> Composition {
    Composition::new(classes, Box::new(PredictGateTrim::new(classes)), plain(4))
        .workers(pool())
        .batch(Box::new(ThroughputBatching::default()))
        .quality(degradation(classes))
        .termination(threshold(classes))
}

/// None of the laws knows of another; what is not asked for stays as it was built.
fn nothing() -> SideBySide {
    SideBySide {
        admission: Box::new(Open),
        workers: Box::new(FixedWorkers(Concurrency::new(4))),
        batch: Box::new(FixedBatch(BatchSize::ONE)),
        quality: Box::new(FullQuality),
        termination: Box::new(DeadlineOnly),
    }
}

fn all_at_once(classes: &Classes) -> SideBySide {
    SideBySide {
        admission: Box::new(PredictGateTrim::new(classes)),
        workers: pool(),
        batch: Box::new(ThroughputBatching::default()),
        quality: degradation(classes),
        termination: threshold(classes),
    }
}

struct Run {
    records: Vec<Record>,
    knobs: Vec<(f64, Knobs)>,
}

fn run(mut governor: impl Governor, scenario: &Scenario, seed: u64) -> Run {
    let (records, knobs) = run_governed(&mut governor, Some(plain(4)), scenario, seed);
    Run { records, knobs }
}

impl Run {
    fn between(&self, scenario: &Scenario, from: f64, to: f64) -> Summary {
        summarise(&self.records, &scenario.workload.classes, None, from, to)
    }

    /// Answers in time, of those that were offered, once all have had time to settle.
    fn served(&self, scenario: &Scenario) -> f64 {
        let (from, to) = scenario.measured;
        let summary = self.between(scenario, from, to);
        summary.goodput * (to - from) / summary.offered
    }

    fn knobs_at(&self, second: f64) -> Knobs {
        let (_, knobs) = self.knobs.iter().rfind(|(at, _)| *at <= second).unwrap();
        *knobs
    }

    /// The least and the greatest of a knob while it is measured.
    fn range(&self, scenario: &Scenario, knob: impl Fn(&Knobs) -> f64) -> (f64, f64) {
        let (from, to) = scenario.measured;
        let within = self.knobs.iter().filter(|(at, _)| (from..to).contains(at));
        within.fold((f64::INFINITY, 0.0), |(least, greatest), (_, knobs)| {
            (knob(knobs).min(least), knob(knobs).max(greatest))
        })
    }
}

#[test]
fn each_law_alone_leaves_most_of_the_load_unserved() {
    let scenario = scenarios::improvable(2400.0, 0.005);
    let classes = &scenario.workload.classes;
    let alone = [
        (
            "admission",
            SideBySide { admission: Box::new(PredictGateTrim::new(classes)), ..nothing() },
        ),
        ("workers", SideBySide { workers: pool(), ..nothing() }),
        ("batching", SideBySide { batch: Box::new(ThroughputBatching::default()), ..nothing() }),
        ("quality", SideBySide { quality: degradation(classes), ..nothing() }),
        ("termination", SideBySide { termination: threshold(classes), ..nothing() }),
    ];
    for (name, law) in alone {
        let served = run(law, &scenario, 1).served(&scenario);
        assert!(served < 0.15, "{name} alone served {served:.2}");
    }
}

#[test]
fn side_by_side_admission_hides_the_overload_from_all_others() {
    for seed in SEEDS {
        let scenario = scenarios::improvable(2400.0, 0.0);
        let run = run(all_at_once(&scenario.workload.classes), &scenario, seed);
        let served = run.served(&scenario);
        assert!(served < 0.15, "seed {seed}: served {served:.2}");
        let knobs = run.knobs_at(249.0);
        assert_eq!((knobs.workers, knobs.quality), (Concurrency::new(4), Ratio::ONE));
    }
}

#[test]
fn side_by_side_without_admission_they_swing_and_come_too_late() {
    for seed in SEEDS {
        let scenario = scenarios::improvable(2400.0, 0.0);
        let laws =
            SideBySide { admission: Box::new(Open), ..all_at_once(&scenario.workload.classes) };
        let run = run(laws, &scenario, seed);
        let served = run.served(&scenario);
        assert!(served < 0.6, "seed {seed}: served {served:.2}");
        let (fewest, most) = run.range(&scenario, |knobs| f64::from(knobs.workers.get()));
        assert!(most - fewest >= 8.0, "seed {seed}: {fewest} to {most} workers");
    }
}

#[test]
fn composed_they_serve_what_is_offered_and_hold_still() {
    for seed in SEEDS {
        let scenario = scenarios::improvable(2400.0, 0.0);
        let run = run(composed(&scenario.workload.classes), &scenario, seed);
        let served = run.served(&scenario);
        assert!(served >= 0.97, "seed {seed}: served {served:.3}");
        let (fewest, most) = run.range(&scenario, |knobs| f64::from(knobs.workers.get()));
        assert!(most == fewest, "seed {seed}: {fewest} to {most} workers");
        let (worst, best) = run.range(&scenario, |knobs| knobs.quality.get());
        assert!(best - worst <= 0.12, "seed {seed}: quality from {worst} to {best}");
    }
}

#[test]
fn where_quality_is_not_enough_the_overdue_are_ended_too() {
    for seed in 1..=6 {
        let scenario = scenarios::improvable(2400.0, 0.005);
        let classes = &scenario.workload.classes;
        let served = run(composed(classes), &scenario, seed).served(&scenario);
        assert!(served >= 0.9, "seed {seed}: served {served:.3}");
        let unending = composed(classes).termination(Box::new(DeadlineOnly));
        let less = run(unending, &scenario, seed).served(&scenario);
        assert!(less < served - 0.1, "seed {seed}: {less:.3} without termination");
    }
}

#[test]
fn quality_is_touched_only_when_more_workers_no_longer_help() {
    for seed in SEEDS {
        let scenario = scenarios::improvable(2400.0, 0.0);
        let run = run(composed(&scenario.workload.classes), &scenario, seed);
        let (_, first) = run.knobs.iter().find(|(_, knobs)| knobs.quality < Ratio::ONE).unwrap();
        assert!(first.workers.get() >= 12, "seed {seed}: with {} workers", first.workers);
        // What sixteen workers can do at full quality is done at full quality.
        let scenario = scenarios::improvable(500.0, 0.0);
        let run = self::run(composed(&scenario.workload.classes), &scenario, seed);
        assert!(run.served(&scenario) >= 0.99, "seed {seed}");
        let (worst, _) = run.range(&scenario, |knobs| knobs.quality.get());
        assert_eq!(worst, 1.0, "seed {seed}");
    }
}

#[test]
fn when_the_load_has_gone_everything_is_given_back() {
    for seed in SEEDS {
        let scenario = scenarios::improvable(2400.0, 0.005);
        let mut laws = composed(&scenario.workload.classes);
        let (_, knobs) = run_governed(&mut laws, Some(plain(4)), &scenario, seed);
        let (_, last) = knobs.last().unwrap();
        assert_eq!(last.quality, Ratio::ONE, "seed {seed}");
        assert!(last.workers.get() <= 8, "seed {seed}: {} workers", last.workers);
        let limit = laws.limit(ClassId::DEFAULT);
        assert_eq!(limit, Some(Duration::from_secs(2)), "seed {seed}");
    }
}
