//! What the composition is for: one stage that could do far more, at less quality
//! and without its overdue events, under laws alone, side by side, and composed.

use std::time::Duration;

use tamarisk_catalogue::ByName;
use tamarisk_catalogue::papers::{PoolSizing, TerminationThreshold, ThroughputBatching};
use tamarisk_control::{Classes, Concurrency, Ratio};
use tamarisk_laws::{Coordination, Degradation, Knobs, Laws, Open, PredictGateTrim};
use tamarisk_model::sim::{Run, Simulation, StageReport};

use super::reading;
use super::records::{Record, Records};
use super::side_by_side::{SideBySide, plain};
use super::situations::{Situation, improvable};

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

/// All five but the one for termination.
fn unending() -> Laws {
    let workers = [("workers_min_count", 4.0), ("workers_max_count", 64.0)];
    Laws::new()
        .admission("predict-gate-trim", &[])
        .and_then(|laws| laws.workers("pool-sizing", &workers))
        .and_then(|laws| laws.batching("throughput-batching", &[]))
        .and_then(|laws| laws.quality("degradation", &[("quality_least_ratio", 0.25)]))
        .unwrap()
        .coordination(Coordination::Composition)
}

fn composed() -> Laws {
    unending().termination("termination-threshold", &[]).unwrap()
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

/// What came of a run.
struct Outcome {
    records: Vec<Record>,
    knobs: Vec<(f64, Knobs)>,
    stage: StageReport,
}

fn finish(run: Run<'_, ()>) -> Outcome {
    let mut records = Records::default();
    let mut report = run.watch(&mut records).finish();
    let Records { of_requests, knobs } = records;
    Outcome { records: of_requests, knobs, stage: report.stages.remove(0) }
}

fn run_together(laws: &Laws, situation: &Situation, seed: u64) -> Outcome {
    let simulation = Simulation::new(&situation.scenario).unwrap();
    finish(simulation.start(seed).laws("stage", laws).unwrap())
}

fn run_side_by_side(laws: SideBySide, situation: &Situation, seed: u64) -> Outcome {
    let simulation = Simulation::new(&situation.scenario).unwrap();
    finish(simulation.start(seed).governor("stage", Box::new(laws), plain(4)).unwrap())
}

impl Outcome {
    /// Answers in time, of those that were offered, once all have had time to settle.
    fn served(&self, situation: &Situation) -> f64 {
        let (from, to) = situation.measured;
        let summary = situation.summary(&self.records);
        summary.goodput * (to - from) / summary.offered
    }

    fn knobs_at(&self, second: f64) -> Knobs {
        self.knobs.iter().rfind(|(at, _)| *at <= second).unwrap().1
    }

    /// The least and the greatest of a knob while it is measured.
    fn range(&self, situation: &Situation, knob: impl Fn(&Knobs) -> f64) -> (f64, f64) {
        let (from, to) = situation.measured;
        let within = self.knobs.iter().filter(|(at, _)| (from..to).contains(at));
        let first = knob(&self.knobs_at(from));
        within.fold((first, first), |(least, greatest), (_, knobs)| {
            (knob(knobs).min(least), knob(knobs).max(greatest))
        })
    }
}

#[test]
fn each_law_alone_leaves_most_of_the_load_unserved() {
    let situation = improvable(2400.0, 0.005);
    let classes = situation.classes();
    let alone = [
        (
            "admission",
            SideBySide {
                admission: Box::new(PredictGateTrim::new(classes)),
                ..SideBySide::nothing(4)
            },
        ),
        ("workers", SideBySide { workers: pool(), ..SideBySide::nothing(4) }),
        (
            "batching",
            SideBySide { batch: Box::new(ThroughputBatching::default()), ..SideBySide::nothing(4) },
        ),
        ("quality", SideBySide { quality: degradation(classes), ..SideBySide::nothing(4) }),
        ("termination", SideBySide { termination: threshold(classes), ..SideBySide::nothing(4) }),
    ];
    for (name, law) in alone {
        let served = run_side_by_side(law, &situation, 1).served(&situation);
        assert!(served < 0.15, "{name} alone served {served:.2}");
    }
}

#[test]
fn side_by_side_admission_hides_the_overload_from_all_others() {
    for seed in SEEDS {
        let situation = improvable(2400.0, 0.0);
        let run = run_side_by_side(all_at_once(situation.classes()), &situation, seed);
        let served = run.served(&situation);
        assert!(served < 0.15, "seed {seed}: served {served:.2}");
        let knobs = run.knobs_at(249.0);
        assert_eq!((knobs.workers, knobs.quality), (Concurrency::new(4), Ratio::ONE));
    }
}

#[test]
fn side_by_side_without_admission_they_swing_and_come_too_late() {
    for seed in SEEDS {
        let situation = improvable(2400.0, 0.0);
        let laws = SideBySide { admission: Box::new(Open), ..all_at_once(situation.classes()) };
        let run = run_side_by_side(laws, &situation, seed);
        let served = run.served(&situation);
        assert!(served < 0.6, "seed {seed}: served {served:.2}");
        let (fewest, most) = run.range(&situation, |knobs| f64::from(knobs.workers.get()));
        assert!(most - fewest >= 8.0, "seed {seed}: {fewest} to {most} workers");
    }
}

#[test]
fn composed_they_serve_what_is_offered_and_hold_still() {
    for seed in SEEDS {
        let situation = improvable(2400.0, 0.0);
        let run = run_together(&composed(), &situation, seed);
        let served = run.served(&situation);
        assert!(served >= 0.97, "seed {seed}: served {served:.3}");
        let (fewest, most) = run.range(&situation, |knobs| f64::from(knobs.workers.get()));
        assert!(most == fewest, "seed {seed}: {fewest} to {most} workers");
        let (worst, best) = run.range(&situation, |knobs| knobs.quality.get());
        assert!(best - worst <= 0.12, "seed {seed}: quality from {worst} to {best}");
    }
}

/// What is served of twelve long events a second among 2400, with and without the law that ends
/// them.
fn served_among_long(situation: &Situation, seed: u64) -> (f64, f64) {
    let served = |laws: &Laws| run_together(laws, situation, seed).served(situation);
    (served(&composed()), served(&unending()))
}

#[test]
fn where_quality_is_not_enough_the_overdue_are_ended_too() {
    // Batches cost nothing here, so that a worker has no reason to take several at once.
    let mut situation = improvable(2400.0, 0.005);
    situation.scenario.stages[0].batch_cost = Duration::ZERO;
    for seed in 1..=6 {
        let (served, less) = served_among_long(&situation, seed);
        assert!(served >= 0.9, "seed {seed}: served {served:.3}");
        assert!(less < served - 0.25, "seed {seed}: {less:.3} without termination");
    }
}

#[test]
fn those_behind_a_long_event_in_its_batch_are_late_with_it() {
    // A worker serves its batch one event after the other: of those that a long one runs before,
    // until it is ended, some come too late.
    let situation = improvable(2400.0, 0.005);
    let served = [1, 2, 3, 4, 5, 6].map(|seed| {
        let (served, less) = served_among_long(&situation, seed);
        assert!(served >= 0.75, "seed {seed}: served {served:.3}");
        assert!(less < served - 0.25, "seed {seed}: {less:.3} without termination");
        served
    });
    let mean = served.iter().sum::<f64>() / 6.0;
    assert!((0.87..0.95).contains(&mean), "{mean:.3} on average");
}

#[test]
fn quality_is_touched_only_when_more_workers_no_longer_help() {
    for seed in SEEDS {
        let situation = improvable(2400.0, 0.0);
        let run = run_together(&composed(), &situation, seed);
        let (_, first) = run.knobs.iter().find(|(_, knobs)| knobs.quality < Ratio::ONE).unwrap();
        assert!(first.workers.get() >= 12, "seed {seed}: with {} workers", first.workers);
        // What sixteen workers can do at full quality is done at full quality.
        let situation = improvable(500.0, 0.0);
        let run = run_together(&composed(), &situation, seed);
        assert!(run.served(&situation) >= 0.99, "seed {seed}");
        let (worst, _) = run.range(&situation, |knobs| knobs.quality.get());
        assert_eq!(worst, 1.0, "seed {seed}");
    }
}

#[test]
fn when_the_load_has_gone_everything_is_given_back() {
    for seed in SEEDS {
        let situation = improvable(2400.0, 0.005);
        let run = run_together(&composed(), &situation, seed);
        let (_, last) = run.knobs.last().unwrap();
        assert_eq!(last.quality, Ratio::ONE, "seed {seed}");
        assert!(last.workers.get() <= 8, "seed {seed}: {} workers", last.workers);
        assert_eq!(reading(&run.stage, "run_limit_seconds"), 2.0, "seed {seed}");
    }
}
