//! The papers' response-time controller with the first rate and the depth of its author's
//! released code, with those that admit everything at first, and after a long calm.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tamarisk_catalogue::papers::{ResponseTime, ResponseTimeBuilder};
use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, Classes, Decision, Finished, MeasuredFrom, PerSecond, Reading,
    Target, Timestamp,
};
use tamarisk_model::sim::{
    Client, Distribution, Load, Profile, Report, Retry, Scenario, Simulation, Stage,
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// The greatest values of two readings, as bits.
#[derive(Clone, Default)]
struct Greatest {
    smoothed: Arc<AtomicU64>,
    /// When the rate was at 5,000 for the first time, in nanoseconds; 0 if never.
    full: Arc<AtomicU64>,
}

/// A law, and its greatest readings.
struct Watched(ResponseTime, Greatest);

impl AdmissionLaw for Watched {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn on_arrival(&mut self, now: Timestamp, arrival: &Arrival, backlog: &Backlog<'_>) -> Decision {
        self.0.on_arrival(now, arrival, backlog)
    }

    fn on_finish(&mut self, now: Timestamp, finished: &Finished, backlog: &Backlog<'_>) {
        self.0.on_finish(now, finished, backlog);
        self.0.readings(&mut |reading: Reading<'_>| match reading.name {
            // The bits of positive numbers are in their order.
            "response_smoothed_seconds" => {
                self.1.smoothed.fetch_max(reading.value.to_bits(), Ordering::Relaxed);
            }
            "rate_per_second" if reading.value >= 5000.0 => {
                let (unset, now) = (0, now.as_nanos());
                let full = &self.1.full;
                _ = full.compare_exchange(unset, now, Ordering::Relaxed, Ordering::Relaxed);
            }
            _ => {}
        });
    }

    fn on_tick(&mut self, now: Timestamp, backlog: &Backlog<'_>) {
        self.0.on_tick(now, backlog);
    }
}

/// What came of workers of 20 ms under a load.
struct Measured {
    /// Answers in time, by what the workers can do.
    goodput: f64,
    /// The worst smoothed percentile, by its target.
    worst: f64,
    /// When the rate was 5,000 a second, in seconds; 0 if never.
    full: f64,
}

type Law = fn(ResponseTimeBuilder<'_>) -> ResponseTimeBuilder<'_>;

/// So many workers from the end of the warm-up to the end.
fn measure(workers: u32, client: &Client, seconds: [u32; 2], law: Law, seed: u64) -> Measured {
    let target = 200 * MS;
    let [warm_up, end] = seconds.map(|seconds| seconds * SECOND);
    let stage = Stage::new("stage", workers, Distribution::Exponential(20 * MS));
    let scenario = Scenario::new(Classes::single(Target::p90(target).unwrap()), end);
    let scenario = scenario.warm_up(warm_up).stage(stage).client(client.clone());
    let law = law(ResponseTime::builder(&scenario.classes)).build().unwrap();
    let greatest = Greatest::default();
    let simulation = Simulation::new(&scenario).unwrap();
    let run = simulation.start(seed).law("stage", Box::new(Watched(law, greatest.clone())));
    let report = run.unwrap().finish();
    let smoothed = f64::from_bits(greatest.smoothed.load(Ordering::Relaxed));
    Measured {
        goodput: report.classes[0].goodput() / (50.0 * f64::from(workers)),
        worst: smoothed / target.as_secs_f64(),
        full: greatest.full.load(Ordering::Relaxed) as f64 / 1e9,
    }
}

fn published(builder: ResponseTimeBuilder<'_>) -> ResponseTimeBuilder<'_> {
    builder
}

fn admitting_everything(builder: ResponseTimeBuilder<'_>) -> ResponseTimeBuilder<'_> {
    builder.rate_initial(PerSecond::new(5000.0).unwrap()).burst(10.0)
}

fn halved(builder: ResponseTimeBuilder<'_>) -> ResponseTimeBuilder<'_> {
    builder.halving()
}

/// As [Welsh03 §4.2, fig. 7], where the worst is four times the target: three users become a
/// thousand, who think for 20 ms, and are back a second after a rejection.
#[test]
fn a_spike_finds_the_low_rate_of_the_released_code() {
    let think = Distribution::Exponential(20 * MS);
    let users = vec![(Duration::ZERO, 3), (15 * SECOND, 1000), (45 * SECOND, 3)];
    let client = Client::new("users", "stage", Load::Closed { users, think });
    let pause = Distribution::Uniform { from: 500 * MS, to: 1500 * MS };
    let client = client.retry(Retry::backoff(1000, pause, 1.0));
    for seed in 1..=3 {
        let of = |law: Law| measure(8, &client, [0, 60], law, seed).worst;
        let (released, open) = (of(published), of(admitting_everything));
        assert!(released < 1.3 && open > 8.0, "{released:.2} and {open:.2}");
    }
}

#[test]
fn ten_fold_overload_is_held_off_from_the_first_second_on() {
    let client = Client::poisson("crowd", "stage", 4000.0);
    for seed in 1..=3 {
        let of = |law: Law| measure(8, &client, [0, 60], law, seed).goodput;
        let (released, open) = (of(published), of(admitting_everything));
        assert!(released > 0.3 && open < 0.02, "{released:.3} and {open:.3}");
        assert!(of(halved) > 0.3);
    }
}

/// Two stages in a row: the first takes 300 ms, the second 20 ms, of a target of 200 ms.
fn second_of_two(from: MeasuredFrom) -> Report {
    let first = Stage::new("first", 100, Distribution::Constant(300 * MS)).route("second", 1.0);
    let second = Stage::new("second", 8, Distribution::Constant(20 * MS)).measured_from(from);
    let scenario = Scenario::new(Classes::single(Target::p90(200 * MS).unwrap()), 60 * SECOND);
    let scenario =
        scenario.stage(first).stage(second).client(Client::poisson("crowd", "first", 80.0));
    let law = Box::new(ResponseTime::new(&scenario.classes));
    let simulation = Simulation::new(&scenario).unwrap();
    simulation.start(1).law("second", law).unwrap().finish()
}

/// By default a stage answers for its own time: it rejects next to nothing here. Measured from
/// the service, as in [Welsh03 §3.2], it rejects nearly all for what the stage before it takes.
#[test]
fn in_a_pipeline_a_law_is_told_the_time_of_its_stage_or_of_the_service() {
    let of = |from| {
        let report = second_of_two(from);
        let second = &report.stages[1];
        let smoothed = super::reading(second, "response_smoothed_seconds");
        let counts = second.classes[0].counts;
        (smoothed, counts.rejected as f64 / counts.offered as f64)
    };
    let (own, rejected) = of(MeasuredFrom::Stage);
    assert!((0.02..0.03).contains(&own) && rejected < 0.4, "{own} {rejected}");
    let (whole, rejected) = of(MeasuredFrom::Service);
    assert!((0.32..0.33).contains(&whole) && rejected > 0.9, "{whole} {rejected}");
}

/// Its true weakness: the rate rises while nobody asks for it, and the next overload finds it at
/// its greatest. A thousand a second are eight tenths of what 25 workers do.
#[test]
fn in_calm_the_rate_winds_up_to_its_greatest_within_a_quarter_of_an_hour() {
    let overload = Profile::constant(1000.0).step(900 * SECOND, 12_500.0);
    let client = Client::new("crowd", "stage", Load::poisson(overload));
    let wound_up = measure(25, &client, [900, 960], published, 1);
    let at_once = Client::poisson("crowd", "stage", 12_500.0);
    let cold = measure(25, &at_once, [0, 60], published, 1);
    println!("calm {} {} {}", wound_up.full, wound_up.worst, cold.worst);
    assert!((300.0..900.0).contains(&wound_up.full), "{}", wound_up.full);
    assert!(wound_up.worst > 5.0 && cold.worst < 1.3, "{} {}", wound_up.worst, cold.worst);
}
