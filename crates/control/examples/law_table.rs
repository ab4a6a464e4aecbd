//! Prints the table of `docs/LAWS.md`: every law in every situation, from the
//! shipped code.
//! ```text
//! cargo run --release -p tamarisk-control --example law_table
//! ```

#![allow(clippy::disallowed_macros, reason = "it prints a table")]

#[path = "../tests/simulated_stage/mod.rs"]
mod simulated_stage;

use simulated_stage::laws::{MakeLaw, PRACTICE};
use simulated_stage::oracle;
use simulated_stage::report::{Summary, settling_time, summarise};
use simulated_stage::scenarios::{self, Scenario, Start, Width};
use simulated_stage::workload::Service;
use tamarisk_control::{ClassId, OpaqueUpstream, Open, PredictGateTrim, ResponseTime, Threshold};

const SEEDS: [u64; 5] = [1, 2, 3, 4, 5];

/// Chairs in the waiting room of the drop-tail row. A stage's capacity is 369 a
/// second, so that a full room is a wait of 0.27 of the target: a good guess.
const THRESHOLD: u32 = 100;

const LAWS: [(&str, MakeLaw); 5] = [
    ("open", |_| Box::new(Open)),
    ("threshold, 100 queued", |_| Box::new(Threshold::new(THRESHOLD))),
    ("response-time, the papers' constants", |classes| Box::new(ResponseTime::new(classes))),
    ("**predict-gate-trim**", |classes| Box::new(PredictGateTrim::new(classes))),
    ("**opaque-upstream** (workers hidden)", |classes| Box::new(OpaqueUpstream::new(classes))),
];

/// One run's numbers.
struct Run {
    whole: Summary,
    settled_seconds: f64,
    capacity: f64,
    per_class: Vec<Summary>,
}

fn main() {
    overload("3 → 1000 → 3 users, 8 workers", &scenarios::spike());
    overload("Open loop, 0.3 → 2 × capacity", &scenarios::step(2.0));
    overload("Open loop, 0.3 → 10 × capacity", &scenarios::step(10.0));
    overload("The same with 8 workers of 20 ms, target 200 ms", &scenarios::uniform(10.0));
    overload("0.8 × capacity, service 2.5 × slower for 40 s", &scenarios::slowdown());
    overload("From cold at 10 × capacity, 8 workers of 20 ms, target 200 ms", &scenarios::cold());
    overload("400 workers of 0.4 s, from cold at 2 × capacity", &scenarios::wide(2.0));
    overload("Concurrency that does harm: 5 × capacity, slower beyond 16", &scenarios::contended());
    widths(
        "Ten times the capacity, upstreams from 1 to 400 workers",
        10.0,
        &scenarios::widths_chosen_with(),
    );
    widths(
        "Ten times the capacity, upstreams that the constants were not chosen with",
        10.0,
        &scenarios::widths_held_out(),
    );
    widths(
        "Twice the capacity, one worker",
        2.0,
        &[narrow(1, 4.0, Start::Warm), narrow(1, 4.0, Start::Cold)],
    );
    rejections();
    rejections_of_the_narrow();
    priorities();
}

fn overload(title: &str, scenario: &Scenario) {
    println!("\n### {title}\n");
    println!("| law | goodput ÷ capacity | p90 ÷ target | settled after, s | rejected | dropped |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for (name, make) in LAWS.into_iter().chain(PRACTICE) {
        let runs = runs(scenario, make);
        println!(
            "| {name} | {} | {} | {} | {} | {} |",
            spread(&runs, 2, |run| run.whole.goodput / run.capacity),
            spread(&runs, 2, |run| run.whole.p90),
            spread(&runs, 1, |run| run.settled_seconds),
            spread(&runs, 2, |run| run.whole.rejected),
            spread(&runs, 3, |run| run.whole.dropped),
        );
    }
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
        let default = steady(&warm, |classes| Box::new(PredictGateTrim::new(classes)));
        let opaque: MakeLaw = |classes| Box::new(OpaqueUpstream::new(classes));
        let (warm, cold) = (steady(&warm, opaque), steady(&cold, opaque));
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
    let classes = &scenario.workload.classes;
    let (step, to) = scenario.measured;
    let sums = SEEDS.map(|seed| {
        let records = simulated_stage::run(&mut *make(classes), scenario, seed);
        summarise(&records, classes, None, step + SETTLED_BY, to)
    });
    let mean = |value: fn(&Summary) -> f64| sums.iter().map(value).sum::<f64>() / sums.len() as f64;
    (mean(|sum| sum.goodput) / scenario.capacity(), mean(|sum| sum.p90))
}

fn rejections() {
    println!("\n### Rejected or dropped at 80 % load, per cent of requests\n");
    println!(
        "| law | 8 workers, four kinds of work | 8 workers of 20 ms | 400 workers of 0.4 s, from cold |"
    );
    println!("| --- | --- | --- | --- |");
    let scenarios = [scenarios::eighty_percent(), scenarios::uniform(0.8), scenarios::wide(0.8)];
    for (name, make) in LAWS.into_iter().chain(PRACTICE) {
        let cells = scenarios.iter().map(|scenario| {
            spread(&runs(scenario, make), 3, |run| 100.0 * run.whole.turned_away())
        });
        println!("| {name} | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
}

fn rejections_of_the_narrow() {
    println!("\n### The same of one and two workers, exponential service\n");
    println!("| workers | target ÷ service | {} | {} |", LAWS[3].0, LAWS[4].0);
    println!("| --- | --- | --- | --- |");
    for (workers, target) in [(1, 20.0), (1, 35.0), (1, 50.0), (2, 20.0), (2, 35.0)] {
        let scenario = narrow(workers, target, Start::Warm).offered(0.8, 2.0 * COMPLETIONS);
        let [default, opaque] = [LAWS[3].1, LAWS[4].1]
            .map(|make| spread(&runs(&scenario, make), 2, |run| 100.0 * run.whole.turned_away()));
        println!("| {workers} | {target} | {default} | {opaque} |");
    }
}

fn priorities() {
    println!("\n### Priorities at 10 × capacity: the high class's share of capacity\n");
    println!("| law | high offered 2 × capacity | high offered 0.8 × capacity | low, then |");
    println!("| --- | --- | --- | --- |");
    for (name, make) in LAWS.into_iter().chain(PRACTICE) {
        let goodput = |runs: &[Run], class: usize| {
            spread(runs, 2, |run| run.per_class[class].goodput / run.capacity)
        };
        let many = runs(&scenarios::priorities(0.2), make);
        let few = runs(&scenarios::priorities(0.08), make);
        println!(
            "| {name} | {} | {} | {} |",
            goodput(&many, 0),
            goodput(&few, 0),
            goodput(&few, 1)
        );
    }
}

fn runs(scenario: &Scenario, make: MakeLaw) -> Vec<Run> {
    let classes = &scenario.workload.classes;
    let (from, to) = scenario.measured;
    let run = |seed| {
        let mut law = make(classes);
        let records = simulated_stage::run(&mut *law, scenario, seed);
        let of_class = |index| summarise(&records, classes, Some(ClassId::new(index)), from, to);
        Run {
            whole: summarise(&records, classes, None, from, to),
            settled_seconds: settling_time(&records, classes, from, to),
            capacity: scenario.capacity(),
            per_class: (0..classes.len()).map(of_class).collect(),
        }
    };
    SEEDS.into_iter().map(run).collect()
}

/// The mean over the seeds, and in brackets the least and the greatest.
fn spread(runs: &[Run], digits: usize, value: impl Fn(&Run) -> f64) -> String {
    let values: Vec<f64> = runs.iter().map(value).collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if least.is_infinite() {
        "never".to_owned()
    } else if greatest.is_infinite() {
        let failed = values.iter().filter(|value| value.is_infinite()).count();
        format!("{least:.digits$} … never ({failed} of {})", values.len())
    } else {
        format!("{mean:.digits$} ({least:.digits$}–{greatest:.digits$})")
    }
}
