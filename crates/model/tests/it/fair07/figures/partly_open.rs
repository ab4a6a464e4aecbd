//! Figures 5-7 to 5-10: the 90th percentile under partly open clients, by the number of workers
//! alone [Fair07 §5.2].
//!
//! A client that has had no answer within 1500 ms sends another request. The thesis does not say
//! how long its clients think and a page takes: here half a second, and a tenth on average. The
//! law is P control, with samples of 2 s, and takes its clients for a
//! constant number that waits, as (5) does.

use std::time::Duration;

use tamarisk_control::Classes;
use tamarisk_model::sim::{Client, Distribution, Load, Scenario, Simulation, Stage};

use super::rig::{Alone, Change, Record, p90, quantile, seconds, workers_law};
use super::{Figure, Line, points};

const PERIOD: Duration = Duration::from_secs(2);
const EXPECTED: Duration = Duration::from_millis(1500);
/// From when on the 90th percentile is to be this, in milliseconds [Fair07 fig. 5-7]; ours.
pub const TARGETS: [(u64, u64); 3] = [(0, 1000), (60, 600), (120, 1200)];
/// When so many clients come [Fair07 §5.2.2]; when, is ours.
pub const GROUPS: [(u64, u32); 4] = [(0, 100), (14, 150), (40, 100), (70, 50)];
/// The percentile that figure 5-8 is to show, in milliseconds.
pub const PROMISE: u64 = 1000;
pub const LASTS: Duration = Duration::from_secs(120);

fn run(
    classes: &Classes,
    lasts: Duration,
    groups: &[(u64, u32)],
    changes: &[(u64, u64)],
    seed: u64,
) -> Record {
    let page = Distribution::Exponential(Duration::from_millis(100));
    let think = Distribution::Exponential(Duration::from_millis(500));
    let mut scenario = Scenario::new(classes.clone(), lasts).stage(Stage::new("pages", 1, page));
    for (index, &(at, count)) in groups.iter().enumerate() {
        let load = Load::Closed { users: vec![(seconds(at), count)], think: think.clone() };
        scenario = scenario.client(Client::new(index.to_string(), "pages", load).resend(EXPECTED));
    }
    let knobs = [("workers_max_count", 200.0), ("reserve_ratio", 0.0)];
    let mut governor = Alone::new(workers_law("fair-p", classes, &knobs));
    for &(at, millis) in changes {
        governor = governor.change(seconds(at), Change::Promise(p90(millis)));
    }
    let knobs = governor.knobs();
    let simulation = Simulation::new(&scenario).expect("the scenario is sound");
    let run = simulation.start(seed).governor("pages", Box::new(governor), knobs);
    let mut record = Record::new(lasts, PERIOD, 1);
    run.expect("the stage exists").watch(&mut record).finish();
    record
}

/// 250 clients, and a target that changes.
pub fn changing_target(seed: u64) -> Record {
    run(&p90(TARGETS[0].1), Duration::from_secs(180), &[(0, 250)], &TARGETS[1..], seed)
}

/// Clients that come in groups, and one target.
pub fn changing_clients(seed: u64) -> Record {
    run(&p90(PROMISE), LASTS, &GROUPS, &[], seed)
}

pub fn target_at(second: f64) -> f64 {
    let begun = TARGETS.iter().rfind(|(at, _)| *at as f64 <= second);
    begun.expect("one begins at zero").1 as f64 / 1000.0
}

/// The share of all answers within so many seconds.
pub fn distribution(responses: &[f64]) -> Vec<(f64, Option<f64>)> {
    let within = |limit: f64| {
        let count = responses.iter().filter(|&&response| response <= limit).count();
        count as f64 / responses.len() as f64
    };
    (0..=60).map(|tenth| f64::from(tenth) / 20.0).map(|at| (at, Some(within(at)))).collect()
}

pub fn figures() -> Vec<Figure> {
    let (targets, clients) = (changing_target(1), changing_clients(1));
    let percentile = |name: &str, record: &Record| Line {
        name: name.to_owned(),
        points: record.times().zip(record.percentiles(0.9)).collect(),
    };
    let line = |name: &str, record: &Record, values: Vec<f64>| Line {
        name: name.to_owned(),
        points: points(record.times(), values),
    };
    let reference: Vec<f64> = targets.times().map(target_at).collect();
    let promise = vec![PROMISE as f64 / 1000.0; clients.offered.len()];
    let differences = clients.offered.iter().zip(&clients.completed);
    let differences: Vec<f64> = differences.map(|(came, left)| (came - left) / 2.0).collect();
    let all = clients.responses_from(Duration::ZERO);
    let at_90 = quantile(all.clone(), 0.9).expect("there are answers");
    vec![
        Figure {
            number: "5-7",
            title: "The 90th percentile after a changing target".to_owned(),
            x: "seconds",
            y: "90th percentile, seconds",
            lines: vec![percentile("measured", &targets), line("reference", &targets, reference)],
        },
        Figure {
            number: "5-8",
            title: "The 90th percentile while clients come in groups".to_owned(),
            x: "seconds",
            y: "90th percentile, seconds",
            lines: vec![percentile("measured", &clients), line("reference", &clients, promise)],
        },
        Figure {
            number: "5-9",
            title: "Arrival rate less departure rate".to_owned(),
            x: "seconds",
            y: "events a second",
            lines: vec![line("difference", &clients, differences)],
        },
        Figure {
            number: "5-10",
            title: format!("Distribution of the response time: 90 % within {at_90:.2} s"),
            x: "response time, seconds",
            y: "share of the answers",
            lines: vec![Line { name: "answers".to_owned(), points: distribution(&all) }],
        },
    ]
}
