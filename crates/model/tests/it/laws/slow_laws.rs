//! What each slow law is for, after the figures of the papers that show it.

use std::time::Duration;

use tamarisk_catalogue::papers::{PoolSizing, TerminationThreshold};
use tamarisk_control::{
    Activity, AdmissionLaw, Backlog, ClassId, Classes, Concurrency, Finished, Leeway, QualityLaw,
    Ratio, Reading, Strain, Target, Timestamp,
};
use tamarisk_laws::{AdmissionWhenSpent, Degradation, Knobs, PredictGateTrim, Threshold};
use tamarisk_model::sim::{Client, Distribution, Governor, Scenario, Simulation, Stage};

use super::records::{Records, Summary};
use super::side_by_side::{SideBySide, plain};
use super::situations::{self, Situation};

const SEEDS: [u64; 3] = [1, 2, 3];

/// What came of it while it was measured, and all the knobs.
fn run(laws: impl Governor + 'static, situation: &Situation, seed: u64) -> (Summary, Vec<Knobs>) {
    let simulation = Simulation::new(&situation.scenario).unwrap();
    let mut records = Records::default();
    let knobs = plain(situation.scenario.stages[0].workers);
    let run = simulation.start(seed).governor("stage", Box::new(laws), knobs).unwrap();
    run.watch(&mut records).finish();
    let summary = situation.summary(&records.of_requests);
    (summary, records.knobs.into_iter().map(|(_, knobs)| knobs).collect())
}

/// [Welsh02 fig. 31]
#[test]
fn a_pool_that_would_thrash_is_kept_small() {
    let situation = situations::thrashing();
    let range = Concurrency::new(1)..=Concurrency::new(100);
    for seed in SEEDS {
        let many = run(SideBySide::nothing(100), &situation, seed).0;
        let pool = Box::new(PoolSizing::new(range.clone(), seed));
        let sized = SideBySide { workers: pool, ..SideBySide::nothing(1) };
        let (sum, knobs) = run(sized, &situation, seed);
        let (rate, many) =
            (sum.completed / situation.capacity, many.completed / situation.capacity);
        // One worker more at a time, from 5 to 12, and back: 0.78 of what 8 do on average. A
        // hundred do 512 ÷ 99² = 0.05 of 8.
        assert!(
            rate > 0.75 && many < 0.01,
            "seed {seed}: {rate:.2}, and {many:.2} with 100 workers"
        );
        let most = knobs.iter().map(|knobs| knobs.workers.get()).max();
        assert!(most <= Some(14), "seed {seed}: up to {most:?} workers");
    }
}

/// [Welsh02 fig. 56]
#[test]
fn degradation_alone_keeps_a_spike_about_the_target() {
    let situation = situations::degradable_spike(1000);
    let classes = situation.classes();
    for seed in SEEDS {
        let without = run(SideBySide::nothing(1), &situation, seed).0.p90;
        let quality = Box::new(Degradation::new(classes, Ratio::saturating(0.1)));
        let with = run(SideBySide { quality, ..SideBySide::nothing(1) }, &situation, seed).0.p90;
        assert!(without > 3.0 && with < 1.3, "seed {seed}: {with:.2} instead of {without:.2}");
    }
}

/// Quality, and an admission law that rejects only when that is not enough.
struct AdmissionLast {
    admission: AdmissionWhenSpent<PredictGateTrim>,
    quality: Degradation,
}

impl Governor for AdmissionLast {
    fn admission(&self) -> &dyn AdmissionLaw {
        &self.admission
    }

    fn admission_mut(&mut self) -> &mut dyn AdmissionLaw {
        &mut self.admission
    }

    fn on_finish(&mut self, now: Timestamp, finished: &Finished, backlog: &Backlog<'_>) {
        self.admission.on_finish(now, finished, backlog);
        self.quality.on_finish(now, finished);
    }

    fn on_tick(&mut self, now: Timestamp, activity: &Activity<'_>) -> Knobs {
        let quality = self.quality.on_tick(now, activity, Leeway::Either);
        self.admission.on_quality(self.quality.strain());
        Knobs { quality, ..plain(1) }
    }
}

fn admission_last(classes: &Classes, least: Ratio) -> AdmissionLast {
    AdmissionLast {
        admission: AdmissionWhenSpent::new(PredictGateTrim::new(classes)),
        quality: Degradation::new(classes, least),
    }
}

/// [Welsh02 fig. 57]
#[test]
fn with_admission_as_the_last_resort_a_spike_beyond_the_least_quality_is_held_too() {
    let situation = situations::degradable_spike(10_000);
    let classes = situation.classes();
    let least = Ratio::saturating(0.1);
    for seed in SEEDS {
        let quality = Box::new(Degradation::new(classes, least));
        let alone = run(SideBySide { quality, ..SideBySide::nothing(1) }, &situation, seed).0;
        let (with, knobs) = run(admission_last(classes, least), &situation, seed);
        assert!(knobs.iter().any(|knobs| knobs.quality == least));
        let (with_admission, without) = (with.goodput, alone.goodput);
        assert!(
            without < 5.0 && with_admission > 100.0,
            "seed {seed}: {with_admission:.1} and {without:.1} answers in time a second"
        );
        assert!(with.rejected > 0.5, "seed {seed}: {:.2} rejected", with.rejected);
    }
}

/// [Welsh02 §7.3.4]: while quality can still fall, nobody is rejected.
#[test]
fn while_quality_suffices_nobody_is_rejected() {
    let situation = situations::degradable_spike(1000);
    let classes = situation.classes();
    let least = Ratio::saturating(0.01);
    let (sum, knobs) = run(admission_last(classes, least), &situation, 1);
    assert!(knobs.iter().all(|knobs| knobs.quality > least));
    assert!(sum.turned_away() == 0.0 && sum.offered > 1000.0, "{sum:?}");
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
        let situation = situations::long_requests(0.1);
        let classes = situation.classes();
        let by_queue = SideBySide { admission: queue(), ..SideBySide::nothing(1) };
        let by_queue = run(by_queue, &situation, seed).0;
        let both =
            SideBySide { admission: queue(), termination: ends(classes), ..SideBySide::nothing(1) };
        let both = run(both, &situation, seed).0;
        let gain = both.completed / by_queue.completed;
        assert!(gain > 2.0, "seed {seed}: {gain:.2} times as many");

        // A thousandth of them does no harm, and is left alone.
        let situation = situations::long_requests(0.001);
        let both =
            SideBySide { admission: queue(), termination: ends(classes), ..SideBySide::nothing(1) };
        let both = run(both, &situation, seed).0;
        assert_eq!(both.terminated, 0.0, "seed {seed}");
    }
}

/// Half of the work for everybody.
struct Half;

impl QualityLaw for Half {
    fn name(&self) -> &'static str {
        "half"
    }

    fn on_finish(&mut self, _: Timestamp, _: &Finished) {}

    fn on_tick(&mut self, _: Timestamp, _: &Activity<'_>, _: Leeway) -> Ratio {
        Ratio::saturating(0.5)
    }

    fn strain(&self) -> Strain {
        Strain::Fixed
    }

    fn readings(&self, _: &mut dyn FnMut(Reading<'_>)) {}
}

#[test]
fn a_stage_begins_with_the_quality_that_it_is_given() {
    let classes = Classes::single(Target::p90(Duration::from_secs(1)).unwrap());
    let service = Distribution::Constant(Duration::from_millis(20));
    let scenario = Scenario::new(classes, Duration::from_secs(60))
        .client(Client::poisson("users", "stage", 1.0))
        .stage(Stage::new("stage", 1, service));
    let simulation = Simulation::new(&scenario).unwrap();
    let laws = SideBySide { quality: Box::new(Half), ..SideBySide::nothing(1) };
    let knobs = Knobs { quality: Ratio::saturating(0.5), ..plain(1) };
    let report = simulation.start(1).governor("stage", Box::new(laws), knobs).unwrap().finish();
    let mean = report.classes[0].response.mean();
    assert!((0.0099..0.011).contains(&mean), "{mean}");
}
