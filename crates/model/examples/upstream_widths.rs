//! Prints the tables of `docs/generated/LAWS-TABLES.md` on upstreams of many widths: both default laws
//! beside the best fixed limit and the plain queue, from the shipped code.
//! ```text
//! cargo run --release -p tamarisk-model --example upstream_widths
//! ```

#![allow(clippy::disallowed_macros, reason = "it prints a table")]

#[path = "../tests/it/laws/width.rs"]
mod width;

use std::time::Duration;

use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, Classes, Concurrency, Decision, Dequeue, Order, PlaceLimits,
    QueueOrder, Timestamp, Waiting,
};
use tamarisk_laws::{PlainQueue, PredictGateTrim, WorkLimit};
use tamarisk_model::sim::{ClassReport, Distribution, Scenario, Simulation};

use width::{Start, Width};

const SEEDS: [u64; 5] = [1, 2, 3, 4, 5];

const MEAN: Duration = Duration::from_millis(50);

type MakeLaw = fn(&Classes) -> Box<dyn AdmissionLaw>;

const PLAIN: MakeLaw = |classes| Box::new(PlainQueue::new(classes));
const DEFAULT: MakeLaw = |classes| Box::new(PredictGateTrim::new(classes));
const WORK: MakeLaw = |classes| Box::new(WorkLimit::new(classes));

fn main() {
    let exponential = |_| Distribution::Exponential(MEAN);
    let chosen_with = width::widths(&[1, 2, 4, 8, 40, 400], &[4.0, 10.0, 50.0], exponential);
    widths("Ten times the capacity, upstreams from 1 to 400 workers", 10.0, &chosen_with);
    let title = "Ten times the capacity, upstreams that the constants were not chosen with";
    widths(title, 10.0, &width::held_out());
    let one_worker = [Start::Warm, Start::Cold].map(|start| narrow(1, 4.0, start));
    widths("Twice the capacity, one worker", 2.0, &one_worker);
    print_turned_away();
}

/// From so many seconds after the step on.
const SETTLED_BY: f64 = 2.0;
/// So many completions leave an error of a fiftieth of exponential service, and
/// five seeds together one of a hundredth.
const COMPLETIONS: f64 = 3000.0;

fn widths(title: &str, times: f64, widths: &[Width]) {
    println!("\n### {title}\n");
    println!(
        "| workers | service, ms | target ÷ service | best fixed limit | plain-queue \
         | **predict-gate-trim** | **work-limit**, warm | share of the best | from cold \
         | share of the best |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for pair in widths.chunks(2) {
        let [warm, cold] = [&pair[0], &pair[1]].map(|width| Offered::new(width, times));
        let (best, limit) = warm.best_fixed_limit();
        let (best_cold, _) = cold.best_fixed_limit();
        let [plain, default] = [PLAIN, DEFAULT].map(|make| warm.steady(make));
        let (warm, cold) = (warm.steady(WORK), cold.steady(WORK));
        println!(
            "| {} | {} | {} | {best:.2} with {limit} | {} | {} | {} | {:.2} | {} | {:.2} |",
            pair[0].workers,
            service_name(&pair[0]),
            pair[0].target,
            show(plain),
            show(default),
            show(warm),
            warm.0 / best,
            show(cold),
            cold.0 / best_cold
        );
    }
}

fn print_turned_away() {
    println!(
        "\n### Rejected or dropped at 80 % load of one and two workers, per cent of requests\n"
    );
    println!(
        "| workers | target ÷ service | plain-queue | **predict-gate-trim** | **work-limit** |"
    );
    println!("| --- | --- | --- | --- | --- |");
    for (workers, target) in [(1, 20.0), (1, 35.0), (1, 50.0), (2, 20.0), (2, 35.0)] {
        let scenario = narrow(workers, target, Start::Warm).offered(0.8, 2.0 * COMPLETIONS, 0.0);
        let [plain, default, work] =
            [PLAIN, DEFAULT, WORK].map(|make| 100.0 * mean(&runs(&scenario, make), turned_away));
        println!("| {workers} | {target} | {plain:.2} | {default:.2} | {work:.2} |");
    }
}

/// Workers of 50 ms whose target is `target` times as long.
fn narrow(workers: u32, target: f64, start: Start) -> Width {
    Width { workers, service: Distribution::Exponential(MEAN), target, start }
}

fn service_name(width: &Width) -> String {
    let ms = 1000.0 * width.mean_seconds();
    match &width.service {
        Distribution::Constant(_) => format!("{ms}, constant"),
        Distribution::Exponential(_) => format!("{ms}, exponential"),
        Distribution::LogNormal { variation, .. } => format!("{ms}, log-normal ({variation})"),
        other => format!("{ms}, {other:?}"),
    }
}

fn show((goodput, p90): (f64, f64)) -> String {
    format!("{goodput:.2} at {p90:.2}")
}

/// An upstream and the load on it, to be measured once a law has settled.
struct Offered<'a> {
    width: &'a Width,
    scenario: Scenario,
}

impl<'a> Offered<'a> {
    fn new(width: &'a Width, times: f64) -> Self {
        Self { width, scenario: width.offered(times, COMPLETIONS, SETTLED_BY) }
    }

    /// Goodput ÷ capacity of the best of several fixed limits around the number of workers, and
    /// that limit; means of the seeds.
    fn best_fixed_limit(&self) -> (f64, u32) {
        let workers = self.width.workers;
        let target = self.width.target();
        let of_limits =
            [workers, workers + 1, workers + workers.div_ceil(4), 2 * workers].map(|limit| {
                let law = |_: &Classes| -> Box<dyn AdmissionLaw> {
                    Box::new(FixedLimit { limit: Concurrency::new(limit), target })
                };
                (runs(&self.scenario, law).map(|class| class.goodput()), limit)
            });
        let best = [0, 1, 2, 3, 4].map(|seed| {
            let goodputs = of_limits.iter().map(|(goodput, limit)| (goodput[seed], *limit));
            goodputs.fold((0.0, workers), |best, each| if each.0 > best.0 { each } else { best })
        });
        let goodput: f64 = best.iter().map(|best| best.0).sum();
        let mut limits = best.map(|best| best.1);
        limits.sort_unstable();
        (goodput / self.width.capacity() / SEEDS.len() as f64, limits[SEEDS.len() / 2])
    }

    /// Goodput ÷ capacity and p90 ÷ target, means of the seeds.
    fn steady(&self, make: MakeLaw) -> (f64, f64) {
        let runs = runs(&self.scenario, make);
        let p90 = mean(&runs, |class| class.response.quantile(0.9));
        let goodput = mean(&runs, ClassReport::goodput) / self.width.capacity();
        (goodput, p90 / self.width.target().as_secs_f64())
    }
}

/// One for each seed.
fn runs(
    scenario: &Scenario,
    make: impl Fn(&Classes) -> Box<dyn AdmissionLaw>,
) -> [ClassReport; SEEDS.len()] {
    let simulation = Simulation::new(scenario).expect("the scenarios are sound");
    SEEDS.map(|seed| {
        let run = simulation.start(seed).law("upstream", make(&scenario.classes));
        run.expect("there is such a stage").finish().classes.remove(0)
    })
}

fn turned_away(class: &ClassReport) -> f64 {
    let counts = &class.counts;
    (counts.rejected + counts.dropped) as f64 / counts.offered as f64
}

fn mean(runs: &[ClassReport], value: impl Fn(&ClassReport) -> f64) -> f64 {
    runs.iter().map(value).sum::<f64>() / runs.len() as f64
}

/// Holds so many in flight, rejects nobody, serves the newest, and drops who has
/// used up the target: under overload no wait is shorter and no worker idles. It
/// is no law to run, for it answers most of those whom it drops very late.
struct FixedLimit {
    limit: Concurrency,
    target: Duration,
}

impl AdmissionLaw for FixedLimit {
    fn name(&self) -> &'static str {
        "fixed-limit"
    }

    fn on_arrival(&mut self, _: Timestamp, _: &Arrival, _: &Backlog<'_>) -> Decision {
        Decision::Admit
    }

    fn on_dequeue(&mut self, now: Timestamp, waiting: &Waiting, _: &Backlog<'_>) -> Dequeue {
        if now.since(waiting.entered) < self.target { Dequeue::Run } else { Dequeue::Drop }
    }

    fn place_limits(&self) -> Option<&dyn PlaceLimits> {
        Some(self)
    }

    fn queue_order(&self) -> Option<&dyn QueueOrder> {
        Some(self)
    }
}

impl PlaceLimits for FixedLimit {
    fn concurrency(&self) -> Option<Concurrency> {
        Some(self.limit)
    }
}

impl QueueOrder for FixedLimit {
    fn order(&self, _: Duration) -> Order {
        Order::NewestFirst
    }
}
