//! The simulator against what is known otherwise: closed forms, an independent
//! simulator, its own accounts.

mod accounts;
mod ciw;
mod clients;
mod closed_forms;
mod default_law;
mod default_law_target;
mod invalid;
mod laws;
mod networks;
mod slow_laws;
mod upstream;
mod windows;

use std::time::Duration;

use tamarisk_control::{Class, Classes, Priority, Target};
use tamarisk_model::sim::{Client, Distribution, Estimate, Report, Scenario, Simulation, Stage};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// One class with a target of 100 ms.
fn one_class() -> Classes {
    Classes::single(Target::p90(100 * MS).unwrap())
}

/// Classes of these names, in order of priority.
fn classes(names: &[&str]) -> Classes {
    let class = |(index, name): (usize, &&str)| Class {
        name: (*name).to_owned(),
        target: Target::p90(100 * MS).unwrap(),
        priority: Priority(index as u8),
    };
    Classes::new(names.iter().enumerate().map(class).collect()).unwrap()
}

fn exponential(mean: Duration) -> Distribution {
    Distribution::Exponential(mean)
}

/// A Poisson stream of so many a second before one stage, measured for so many
/// requests after a tenth as many to warm up.
fn single(per_second: f64, requests: f64, stage: Stage) -> Scenario {
    let duration = Duration::from_secs_f64(requests / per_second);
    Scenario::new(one_class(), duration)
        .warm_up(duration / 10)
        .client(Client::poisson("clients", &stage.name, per_second))
        .stage(stage)
}

/// Ten runs with seeds of their own.
fn replicate(scenario: &Scenario) -> Vec<Report> {
    let simulation = Simulation::new(scenario).unwrap();
    (1..=10).map(|seed| simulation.run(seed)).collect()
}

/// `of` each of the runs, as an estimate of 99.9 %.
fn estimate(runs: &[Report], of: impl Fn(&Report) -> f64) -> Estimate {
    let values: Vec<f64> = runs.iter().map(of).collect();
    Estimate::of(&values, 0.999).unwrap()
}

/// `of` a run is `expected`, and the runs are close enough to each other to say so: to
/// `tolerance` of it.
fn check(what: &str, runs: &[Report], of: impl Fn(&Report) -> f64, expected: f64, tolerance: f64) {
    let estimate = estimate(runs, of);
    assert!(estimate.covers(expected), "{what}: {estimate:?}, expected {expected}");
    assert!(
        estimate.half_width <= tolerance * expected,
        "{what}: {estimate:?} is too uncertain to say that it is {expected}"
    );
}

fn mean_wait(report: &Report) -> f64 {
    report.stages[0].classes[0].wait.mean()
}

fn mean_response(report: &Report) -> f64 {
    report.classes[0].response.mean()
}
