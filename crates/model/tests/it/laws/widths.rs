//! The law for upstreams that cannot be seen into, before upstreams of many widths.

use tamarisk_laws::WorkLimit;
use tamarisk_model::sim::Simulation;

use super::width::held_out;

/// Widths, targets and services that the constants were not chosen with. From two
/// seconds after the step on, about a thousand completions: chance alone makes
/// three per cent of the goodput of exponential and log-normal service. One of the forty,
/// twelve workers of constant service from cold, is left out: its limit is found some seconds later.
#[test]
fn the_work_limit_keeps_both_at_ten_times_the_capacity_of_any_width() {
    let goodputs: Vec<f64> = held_out()
        .iter()
        .map(|width| {
            let scenario = width.offered(10.0, 1000.0, 2.0);
            let law = Box::new(WorkLimit::new(&scenario.classes));
            let simulation = Simulation::new(&scenario).unwrap();
            let report = simulation.start(1).law("upstream", law).unwrap().finish();
            let class = &report.classes[0];
            let goodput = class.goodput() / width.capacity();
            let p90 = class.response.quantile(0.9) / width.target().as_secs_f64();
            assert!(p90 <= 1.0, "{width:?}: {goodput:.3} at {p90:.3}");
            goodput
        })
        .collect();
    let low: Vec<_> = held_out().into_iter().zip(&goodputs).filter(|it| *it.1 < 0.86).collect();
    assert!(low.len() <= 1, "{low:?}");
    let mean = goodputs.iter().sum::<f64>() / goodputs.len() as f64;
    assert!(mean >= 0.96, "{mean:.3} on average");
}
