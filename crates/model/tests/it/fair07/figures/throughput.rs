//! Figures 5-2 to 5-6: a stated throughput under P, PI, PD and heuristic control [Fair07 §5.1].
//!
//! The thesis has 500 clients at a Haboob whose pages and machine it does not describe. Here
//! they think for 0.2 s, and a page keeps its worker for 20 ms on average: 50 a second and worker.

use std::time::Duration;

use tamarisk_catalogue::papers::fair::{Arx, Controller, Demands, InfeasibleDesign, P, Pd, Pi};
use tamarisk_model::sim::{Client, Distribution, Load, Scenario, Simulation, Stage};

use super::rig::{Alone, Change, Record, p90, seconds, workers_law};
use super::{Figure, Line, points};

const PERIOD: Duration = Duration::from_secs(2);
const LASTS: Duration = Duration::from_secs(120);
/// From when on it is this: 400, 800 and 600 a second.
pub const TARGETS: [(u64, f64); 3] = [(0, 400.0), (40, 800.0), (80, 600.0)];
const PER_WORKER: f64 = 50.0;

/// The throughput of each sample under this law.
pub fn practice(law: &str) -> Record {
    let classes = p90(2000);
    let page = Distribution::Exponential(Duration::from_secs_f64(1.0 / PER_WORKER));
    let think = Distribution::Exponential(Duration::from_millis(200));
    let scenario = Scenario::new(classes.clone(), LASTS)
        .stage(Stage::new("pages", 1, page))
        .client(Client::new("clients", "pages", Load::users(500, think)));
    let mut governor =
        Alone::new(workers_law(law, &classes, &[("throughput_per_second", TARGETS[0].1)]));
    for (at, target) in &TARGETS[1..] {
        governor = governor.change(seconds(*at), Change::Throughput(*target));
    }
    let knobs = governor.knobs();
    let simulation = Simulation::new(&scenario).expect("the scenario is sound");
    let run = simulation.start(1).governor("pages", Box::new(governor), knobs);
    let mut record = Record::new(LASTS, PERIOD, 1);
    run.expect("the stage exists").watch(&mut record).finish();
    record
}

pub fn throughput(law: &str) -> Vec<f64> {
    let record = practice(law);
    record.per_second(&record.completed)
}

pub fn target_at(second: f64) -> f64 {
    let begun = TARGETS.iter().rfind(|(at, _)| *at as f64 <= second);
    begun.expect("one begins at zero").1
}

/// The same as the loop of arithmetic that the controller was designed for.
pub fn simulation(law: &str) -> Vec<f64> {
    let plant = Arx::new(1.0, PER_WORKER).expect("finite");
    let demands = Demands::new(4, 0.1).expect("they mean something");
    match law {
        "fair-p" => course(plant, P::place(plant, demands).expect("it can be").controller),
        "fair-pi" => {
            let least = match Pi::place(plant, demands) {
                Err(InfeasibleDesign::Overshoot { least, .. }) => least,
                _ => 0.1,
            };
            let demands = Demands::new(4, least).expect("they mean something");
            course(plant, Pi::place(plant, demands).expect("it can be").controller)
        }
        "fair-pd" => course(plant, Pd::place(plant, demands).expect("it can be").controller),
        _ => {
            let printed = P::deadbeat(plant).and_then(|p| p.precompensated(plant));
            course(plant, printed.expect("it can be"))
        }
    }
}

fn course(plant: Arx, mut controller: impl Controller) -> Vec<f64> {
    let mut y = PER_WORKER;
    let samples = (LASTS.as_secs() / PERIOD.as_secs()) as usize;
    let sample = |index: usize| {
        let before = y;
        let u = controller.control(target_at((index as f64 + 1.0) * 2.0), y);
        y = plant.predict(y, u);
        before
    };
    (0..samples).map(sample).collect()
}

fn times() -> impl Iterator<Item = f64> {
    (0..).map(|index| 2.0 * f64::from(index) + 1.0)
}

fn target() -> Line {
    let values: Vec<f64> = times().take(60).map(target_at).collect();
    Line { name: "target".to_owned(), points: points(times(), values) }
}

fn line(name: &str, values: Vec<f64>) -> Line {
    Line { name: name.to_owned(), points: points(times(), values) }
}

pub fn figures() -> Vec<Figure> {
    let figure = |number, title: &str, lines| Figure {
        number,
        title: title.to_owned(),
        x: "seconds",
        y: "throughput, a second",
        lines,
    };
    let compared = |number, law: &str| {
        let lines =
            vec![line("simulation", simulation(law)), line("practice", throughput(law)), target()];
        figure(number, &format!("A throughput under {law}"), lines)
    };
    let all = ["fair-p", "fair-pi", "fair-pd", "fair-precompensated"];
    let practices = all.map(|law| line(law, throughput(law)));
    vec![
        figure(
            "5-2",
            "A throughput that is stated, by the number of workers",
            practices.into_iter().chain([target()]).collect(),
        ),
        compared("5-3", "fair-p"),
        compared("5-4", "fair-pi"),
        compared("5-5", "fair-pd"),
        figure(
            "5-6",
            "P control and the heuristic",
            vec![
                line("fair-precompensated", throughput("fair-precompensated")),
                line("fair-heuristic", throughput("fair-heuristic")),
                target(),
            ],
        ),
    ]
}
