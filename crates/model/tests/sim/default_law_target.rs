//! The default law keeps its target where that is hardest: situations of `docs/LAWS.md`,
//! as the scenario files have them.

use std::path::Path;

use tamarisk_control::PredictGateTrim;
use tamarisk_model::scenario;

use super::*;

const SEEDS: std::ops::RangeInclusive<u64> = 1001..=1010;

/// The part of the seconds in which the p90 of the worst class was over its target, on
/// average over the seeds.
fn time_over_target(situation: &str) -> f64 {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let file = scenario::load(&folder.join(situation).with_extension("toml")).unwrap();
    let simulation = Simulation::new(&file.scenario).unwrap();
    let shares = SEEDS.map(|seed| {
        let mut run = simulation.start(seed);
        for (stage, _) in &file.laws {
            run = run.law(stage, Box::new(PredictGateTrim::new(&file.scenario.classes))).unwrap();
        }
        let report = run.finish();
        let over = report.classes.iter().map(|class| class.seconds_over).max().unwrap();
        over as f64 / report.measured.as_secs_f64()
    });
    shares.sum::<f64>() / SEEDS.count() as f64
}

/// Other laws are hardly ever over it there. Two hundredths of the time are the bar; the
/// mean of ten seeds has to be below it by some margin.
fn check(situation: &str) {
    let over = time_over_target(situation);
    assert!(over <= 0.015, "{situation}: {over:.4} of the time over the target");
}

#[test]
fn a_queue_has_no_more_room_than_a_service_that_grows_leaves() {
    check("drift");
}
