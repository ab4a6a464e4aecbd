//! What the laws do to a simulated stage: goodput and response times under overload, whom they
//! reject, and what they reject without need.
//!
//! `situations` has the stages and the load on them, `records` what became of each request.

mod composition;
mod fair;
mod fair_sharing;
mod goodput_under_overload;
mod multiclass;
mod new_targets;
mod practice;
mod records;
mod response_time;
mod side_by_side;
mod situations;
mod slow_laws;
mod width;
mod widths;
mod work_limit;

use tamarisk_control::{AdmissionLaw, Classes};
use tamarisk_model::sim::{Simulation, StageReport};

use records::{Record, Records};
use situations::Situation;

type MakeLaw = fn(&Classes) -> Box<dyn AdmissionLaw>;

/// What became of each request under `law`.
fn run(law: Box<dyn AdmissionLaw>, situation: &Situation, seed: u64) -> Vec<Record> {
    run_to_end(law, situation, seed).0
}

/// The same, and what the stage showed in the end.
fn run_to_end(
    law: Box<dyn AdmissionLaw>,
    situation: &Situation,
    seed: u64,
) -> (Vec<Record>, StageReport) {
    let simulation = Simulation::new(&situation.scenario).unwrap();
    let mut records = Records::default();
    let run = simulation.start(seed).law("stage", law).unwrap().watch(&mut records);
    let mut report = run.finish();
    (records.of_requests, report.stages.remove(0))
}

/// The reading of this name that a law showed in the end.
fn reading(stage: &StageReport, name: &str) -> f64 {
    stage.readings.iter().find(|(known, ..)| known == name).unwrap().2
}
