//! How many events a second the simulator does on one core.
//! ```text
//! cargo run --profile dist -p tamarisk-model --example speed [scenario]
//! ```
//! An event is an arrival at a stage or a completion there; a second is one of
//! processor time, which others on the machine do not shorten. The median of the
//! repetitions, and in brackets the least and the greatest.

use std::error::Error;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tamarisk_control::{AdmissionLaw, Classes, Target};
use tamarisk_laws::{Open, PredictGateTrim};
use tamarisk_model::sim::{
    Client, Distribution, Load, Resource, Scenario, Simulation, Stage, Step,
};

const REPETITIONS: u64 = 9;
/// Enough that a repetition lasts about half a second.
const EVENTS: f64 = 5e6;

fn main() -> Result<(), Box<dyn Error>> {
    let only = std::env::args().nth(1);
    let classes = Classes::single(Target::p90(Duration::from_millis(200))?);
    let open = || -> Box<dyn AdmissionLaw> { Box::new(Open) };
    let default = || -> Box<dyn AdmissionLaw> { Box::new(PredictGateTrim::new(&classes)) };
    let cases: [Case<'_>; 8] = [
        ("M/M/1 at 0.7", single(&classes, 1, 0.7), &open),
        ("M/M/8 at 0.7", single(&classes, 8, 0.7), &open),
        ("M/M/400 at 0.7", single(&classes, 400, 0.7), &open),
        ("three stages", three_stages(&classes), &open),
        ("processor sharing at 0.7", shared(&classes), &open),
        ("closed, 1000 users", closed(&classes), &open),
        ("M/M/1 at 0.7, default law", single(&classes, 1, 0.7), &default),
        ("M/M/8 at 10, default law", single(&classes, 8, 10.0), &default),
    ];
    println!("{:28} {:>10}  {:>18}", "scenario", "M events/s", "least to greatest");
    for (name, scenario, law) in &cases {
        if only.as_ref().is_none_or(|only| name == only) {
            report(name, scenario, *law)?;
        }
    }
    Ok(())
}

type Case<'a> = (&'static str, Scenario, &'a dyn Fn() -> Box<dyn AdmissionLaw>);

fn report(
    name: &str,
    scenario: &Scenario,
    law: &dyn Fn() -> Box<dyn AdmissionLaw>,
) -> Result<(), Box<dyn Error>> {
    let simulation = Simulation::new(scenario)?;
    let mut speeds = Vec::new();
    for seed in 1..=REPETITIONS {
        let mut run = simulation.start(seed);
        for stage in &scenario.stages {
            run = run.law(&stage.name, law())?;
        }
        let began = processor_seconds();
        let report = run.finish();
        speeds.push(report.events as f64 / (processor_seconds() - began) / 1e6);
    }
    speeds.sort_unstable_by(f64::total_cmp);
    let (least, greatest) = (speeds[0], speeds[speeds.len() - 1]);
    println!("{name:28} {:10.2}  [{least:.2} to {greatest:.2}]", speeds[speeds.len() / 2]);
    Ok(())
}

fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

const SERVICE: Duration = Duration::from_micros(100);

fn exponential(mean: Duration) -> Distribution {
    Distribution::Exponential(mean)
}

/// Two events for each of so many requests a second.
fn lasting(classes: &Classes, requests_per_second: f64, events_per_request: f64) -> Scenario {
    let seconds = EVENTS / events_per_request / requests_per_second;
    Scenario::new(classes.clone(), Duration::from_secs_f64(seconds))
}

fn single(classes: &Classes, workers: u32, utilisation: f64) -> Scenario {
    let rate = utilisation * f64::from(workers) / SERVICE.as_secs_f64();
    lasting(classes, rate, 2.0)
        .stage(Stage::new("stage", workers, exponential(SERVICE)))
        .client(Client::poisson("clients", "stage", rate))
}

/// A pipeline of three, from which three in ten go back to the first.
fn three_stages(classes: &Classes) -> Scenario {
    let rate = 4200.0;
    lasting(classes, rate, 6.0 / 0.7)
        .stage(Stage::new("first", 1, exponential(SERVICE)).route("second", 1.0))
        .stage(Stage::new("second", 2, exponential(2 * SERVICE)).route("third", 1.0))
        .stage(Stage::new("third", 1, exponential(SERVICE)).route("first", 0.3))
        .client(Client::poisson("clients", "first", rate))
}

fn shared(classes: &Classes) -> Scenario {
    let rate = 0.7 / SERVICE.as_secs_f64();
    let step = Step::on("processor", exponential(SERVICE));
    lasting(classes, rate, 2.0)
        .resource(Resource::cores("processor", 1.0))
        .stage(Stage::new("stage", 1000, exponential(SERVICE)).steps([step]))
        .client(Client::poisson("clients", "stage", rate))
}

fn closed(classes: &Classes) -> Scenario {
    let think = Duration::from_millis(100);
    lasting(classes, 10_000.0, 2.0)
        .stage(Stage::new("stage", 1, exponential(SERVICE)))
        .client(Client::new("users", "stage", Load::users(1000, exponential(think))))
}
