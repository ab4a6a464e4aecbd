//! The same scenarios as an independent simulator ran them.
//!
//! `tests/it/reference/ciw_compare.py` runs `ciw` and writes what it found to the file read
//! here: for each scenario the mean wait at each stage, and how sure it is.

use serde_json::Value;
use tamarisk_model::sim::{Client, Scenario, Stage};

use super::*;

const REFERENCE: &str = include_str!("../reference/ciw.json");

fn scenario(name: &str) -> Scenario {
    let duration = 400 * SECOND;
    let scenario = Scenario::new(one_class(), duration).warm_up(duration / 10);
    match name {
        "M/M/1" => scenario
            .stage(Stage::new("only", 1, exponential(MS)))
            .client(Client::poisson("clients", "only", 700.0)),
        "three stages" => scenario
            .stage(Stage::new("first", 1, exponential(MS)).route("second", 1.0))
            .stage(Stage::new("second", 2, exponential(2 * MS)).route("third", 1.0))
            .stage(Stage::new("third", 1, exponential(MS)).route("first", 0.3))
            .client(Client::poisson("clients", "first", 420.0)),
        _ => panic!("no scenario is named {name}"),
    }
}

#[test]
fn mean_waits_agree_with_the_independent_simulators() {
    let reference: Value = serde_json::from_str(REFERENCE).unwrap();
    let scenarios = reference["scenarios"].as_object().unwrap();
    assert_eq!(scenarios.len(), 2);
    for (name, found) in scenarios {
        let runs = replicate(&scenario(name));
        for (index, stage) in found["waits"].as_array().unwrap().iter().enumerate() {
            let number = |key: &str| stage[key].as_f64().unwrap();
            let (mean, half_width) = (number("mean_seconds"), number("half_width_seconds"));
            let ours = estimate(&runs, |report| report.stages[index].classes[0].wait.mean());
            // Two independent means differ by no more than both may be wrong.
            let slack = ours.half_width.hypot(half_width);
            assert!((ours.mean - mean).abs() <= slack, "{name} {index}: {ours:?}, ciw {mean}");
            assert!(slack < 0.12 * mean, "{name} {index}: nothing is said by ± {slack} of {mean}");
        }
    }
}
