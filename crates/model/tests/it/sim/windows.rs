//! Several windows of one run.

use std::ops::Range;

use tamarisk_laws::PredictGateTrim;
use tamarisk_model::sim::{Profile, Report, Run};

use super::*;

/// Half of what the worker bears until 20 s, and twice as much from there on until 60 s.
fn overloaded(warm_up: u32) -> Scenario {
    let rate = Profile::constant(50.0).step(20 * SECOND, 200.0);
    let load = tamarisk_model::sim::Load::poisson(rate);
    Scenario::new(one_class(), (60 - warm_up) * SECOND)
        .warm_up(warm_up * SECOND)
        .stage(Stage::new("work", 1, exponential(10 * MS)))
        .client(Client::new("users", "work", load))
}

fn start(simulation: &Simulation) -> Run<'_, ()> {
    simulation.start(3).law("work", Box::new(PredictGateTrim::new(&one_class()))).unwrap()
}

/// From when until when, in seconds.
fn spans(seconds: &[(u32, u32)]) -> Vec<Range<Duration>> {
    seconds.iter().map(|&(from, until)| from * SECOND..until * SECOND).collect()
}

fn windows(seconds: &[(u32, u32)]) -> Vec<Report> {
    let simulation = Simulation::new(&overloaded(0)).unwrap();
    start(&simulation).windows(&spans(seconds)).unwrap()
}

#[test]
fn the_time_after_the_warm_up_is_a_window() {
    let simulation = Simulation::new(&overloaded(25)).unwrap();
    assert_eq!(windows(&[(25, 60)]), [start(&simulation).finish()]);
}

#[test]
fn what_was_measured_before_changes_nothing() {
    assert_eq!(windows(&[(0, 20), (22, 25), (25, 60)])[2], windows(&[(25, 60)])[0]);
}

#[test]
fn adjoining_windows_add_up_to_the_whole() {
    let whole = &windows(&[(0, 60)])[0];
    let parts = windows(&[(0, 20), (20, 21), (21, 60)]);
    let sum = |of: fn(&Report) -> u64| parts.iter().map(of).sum::<u64>();
    let counts: [fn(&Report) -> u64; 6] = [
        |report| report.classes[0].counts.offered,
        |report| report.classes[0].counts.rejected,
        |report| report.classes[0].counts.completed,
        |report| report.classes[0].in_time,
        |report| report.classes[0].response.count(),
        |report| report.flows[0].completed,
    ];
    for of in counts {
        assert_eq!(sum(of), of(whole));
    }
    for pair in parts.windows(2) {
        assert_eq!(pair[0].classes[0].inside.1, pair[1].classes[0].inside.0);
    }
    let seconds = |report: &Report| report.measured.as_secs_f64();
    let running: f64 = parts.iter().map(|part| part.stages[0].running * seconds(part)).sum();
    assert!((running - 60.0 * whole.stages[0].running).abs() < 1e-6, "{running}");
}

#[test]
fn each_window_has_seconds_and_batches_of_its_own() {
    let parts = windows(&[(0, 20), (20, 60)]);
    assert_eq!(
        parts.iter().map(|part| part.measured).collect::<Vec<_>>(),
        [20 * SECOND, 40 * SECOND]
    );
    for part in &parts {
        let class = &part.classes[0];
        let estimate = class.goodput_estimate(0.95).unwrap();
        assert!((estimate.mean - class.goodput()).abs() < 1e-9, "{estimate:?}");
        // Batches have more or fewer responses: the mean is that of all.
        let response = class.response.estimate(0.95).unwrap();
        assert!((response.mean - class.response.mean()).abs() < 1e-9, "{response:?}");
    }
    // Who is let in on the overload's first seconds alone is late.
    assert!(parts[0].classes[0].seconds_over < 3 && parts[1].classes[0].seconds_over < 10);
    assert!(parts[0].classes[0].counts.rejected < 20 && parts[1].classes[0].counts.rejected > 3000);
}

#[test]
fn a_window_that_cannot_be_is_rejected() {
    let simulation = Simulation::new(&overloaded(0)).unwrap();
    let error = |seconds: &[(u32, u32)]| {
        start(&simulation).windows(&spans(seconds)).unwrap_err().to_string()
    };
    assert_eq!(
        error(&[(0, 10), (9, 20)]),
        "cannot measure from 9s until 20s: a window lies between 10s, where the one before it ends, \
         and 60s, where the scenario ends"
    );
    for wrong in [&[(5, 5)][..], &[(5, 4)], &[(0, 61)]] {
        assert!(error(wrong).starts_with("cannot measure from"), "{wrong:?}");
    }
    assert_eq!(start(&simulation).windows(&[]), Ok(Vec::new()));
}
