//! Prints the tables of `docs/LAWS.md` on upstreams of many widths: both forms of the
//! default law beside the best fixed limit, from the shipped code.
//! ```text
//! cargo run --release -p tamarisk-control --example upstream_widths
//! ```

#![allow(clippy::disallowed_macros, reason = "it prints a table")]

#[path = "../tests/simulated_stage/mod.rs"]
mod simulated_stage;

use simulated_stage::laws::MakeLaw;
use simulated_stage::oracle;
use simulated_stage::report::{Summary, summarise};
use simulated_stage::scenarios::{self, Scenario, Start, Width};
use simulated_stage::workload::Service;
use tamarisk_laws::{OpaqueUpstream, PredictGateTrim};

const SEEDS: [u64; 5] = [1, 2, 3, 4, 5];

const DEFAULT: MakeLaw = |classes| Box::new(PredictGateTrim::new(classes));
const OPAQUE: MakeLaw = |classes| Box::new(OpaqueUpstream::new(classes));

fn main() {
    let chosen_with = scenarios::widths_chosen_with();
    widths("Ten times the capacity, upstreams from 1 to 400 workers", 10.0, &chosen_with);
    let held_out = scenarios::widths_held_out();
    let title = "Ten times the capacity, upstreams that the constants were not chosen with";
    widths(title, 10.0, &held_out);
    let one_worker = [Start::Warm, Start::Cold].map(|start| narrow(1, 4.0, start));
    widths("Twice the capacity, one worker", 2.0, &one_worker);
    turned_away();
}

/// From so many seconds after the step on.
const SETTLED_BY: f64 = 2.0;
/// So many completions leave an error of a fiftieth of exponential service, and
/// five seeds together one of a hundredth.
const COMPLETIONS: f64 = 3000.0;

fn widths(title: &str, times: f64, widths: &[Width]) {
    println!("\n### {title}\n");
    println!(
        "| workers | service, ms | target ÷ service | best fixed limit | **predict-gate-trim** \
         | **opaque-upstream**, warm | share of the best | from cold | share of the best |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for pair in widths.chunks(2) {
        let [warm, cold] = [pair[0], pair[1]].map(|width| width.offered(times, COMPLETIONS));
        let (best, limit) = best_fixed_limit(&warm);
        let (best_cold, _) = best_fixed_limit(&cold);
        let default = steady(&warm, DEFAULT);
        let (warm, cold) = (steady(&warm, OPAQUE), steady(&cold, OPAQUE));
        println!(
            "| {} | {} | {} | {best:.2} with {limit} | {} | {} | {:.2} | {} | {:.2} |",
            pair[0].workers,
            service_name(pair[0].service),
            pair[0].target,
            show(default),
            show(warm),
            warm.0 / best,
            show(cold),
            cold.0 / best_cold
        );
    }
}

fn turned_away() {
    println!(
        "\n### Rejected or dropped at 80 % load of one and two workers, per cent of requests\n"
    );
    println!("| workers | target ÷ service | **predict-gate-trim** | **opaque-upstream** |");
    println!("| --- | --- | --- | --- |");
    for (workers, target) in [(1, 20.0), (1, 35.0), (1, 50.0), (2, 20.0), (2, 35.0)] {
        let scenario = narrow(workers, target, Start::Warm).offered(0.8, 2.0 * COMPLETIONS);
        let [default, opaque] = [DEFAULT, OPAQUE]
            .map(|make| 100.0 * mean(&runs(&scenario, make, 0.0), Summary::turned_away));
        println!("| {workers} | {target} | {default:.2} | {opaque:.2} |");
    }
}

/// Workers of 50 ms whose target is `target` times as long.
fn narrow(workers: u32, target: f64, start: Start) -> Width {
    Width { workers, service: Service::Exponential(0.05), target, start }
}

fn service_name(service: Service) -> String {
    let ms = 1000.0 * service.mean();
    match service {
        Service::Constant(_) => format!("{ms}, constant"),
        Service::Exponential(_) => format!("{ms}, exponential"),
        Service::LogNormal { variation, .. } => format!("{ms}, log-normal ({variation})"),
        Service::ExponentialOrLong { long, .. } => format!("{ms}, some {:.0}", 1000.0 * long),
    }
}

fn show((goodput, p90): (f64, f64)) -> String {
    format!("{goodput:.2} at {p90:.2}")
}

/// Goodput ÷ capacity of the best fixed limit, and that limit; means of the seeds.
fn best_fixed_limit(scenario: &Scenario) -> (f64, u32) {
    let from = scenario.measured.0 + SETTLED_BY;
    let runs = SEEDS.map(|seed| oracle::best_fixed_limit(scenario, from, seed));
    let goodput: f64 = runs.iter().map(|run| run.0).sum();
    let mut limits = runs.map(|run| run.1);
    limits.sort_unstable();
    (goodput / scenario.capacity() / SEEDS.len() as f64, limits[SEEDS.len() / 2])
}

/// Goodput ÷ capacity and p90 ÷ target, means of the seeds, once settled.
fn steady(scenario: &Scenario, make: MakeLaw) -> (f64, f64) {
    let runs = runs(scenario, make, SETTLED_BY);
    (mean(&runs, |run| run.goodput) / scenario.capacity(), mean(&runs, |run| run.p90))
}

/// One for each seed, from `after` seconds after the step on.
fn runs(scenario: &Scenario, make: MakeLaw, after: f64) -> [Summary; SEEDS.len()] {
    let classes = &scenario.workload.classes;
    let (step, to) = scenario.measured;
    SEEDS.map(|seed| {
        let records = simulated_stage::run(&mut *make(classes), scenario, seed);
        summarise(&records, classes, None, step + after, to)
    })
}

fn mean(runs: &[Summary], value: impl Fn(&Summary) -> f64) -> f64 {
    runs.iter().map(value).sum::<f64>() / runs.len() as f64
}
