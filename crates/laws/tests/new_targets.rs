//! Targets that change while a law runs: every law of the catalogue holds to the new
//! one as a law does that was made for it, and the laws that look at no target do
//! not notice.

#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped fails the test")]

mod simulated_stage;

use std::time::Duration;

use simulated_stage::scenarios::Scenario;
use simulated_stage::workload::{Clients, Load, Phase, Service, Workload};
use simulated_stage::{Outcome, Upstream, run};
use tamarisk_control::*;
use tamarisk_laws::catalogue::{ADMISSION, AdmissionEntry};
use tamarisk_laws::*;

/// Their constants are all that they go by.
const WITHOUT_TARGET: [&str; 12] = [
    "open",
    "threshold",
    "rate-limit",
    "codel",
    "service-codel",
    "adaptive-lifo",
    "red",
    "vegas",
    "gradient2",
    "min-rtt-gradient",
    "dagor",
    "cpu-shedding",
];

/// When targets change, and from when on their effect is measured.
const CHANGE: Timestamp = Timestamp::from_nanos(20_000_000_000);
const MEASURED_SECONDS: f64 = 30.0;

/// A law of which the targets change on the way.
struct Changing {
    law: Box<dyn AdmissionLaw>,
    to: Option<Classes>,
}

#[rustfmt::skip]
impl AdmissionLaw for Changing {
    fn name(&self) -> &'static str { self.law.name() }

    fn on_arrival(&mut self, now: Timestamp, arrival: &Arrival, backlog: &Backlog<'_>) -> Decision {
        self.law.on_arrival(now, arrival, backlog)
    }

    fn on_dequeue(&mut self, now: Timestamp, waiting: &Waiting, backlog: &Backlog<'_>) -> Dequeue {
        self.law.on_dequeue(now, waiting, backlog)
    }

    fn on_move(&mut self, now: Timestamp, moved: &Moved, backlog: &Backlog<'_>) {
        self.law.on_move(now, moved, backlog);
    }

    fn on_finish(&mut self, now: Timestamp, finished: &Finished, backlog: &Backlog<'_>) {
        self.law.on_finish(now, finished, backlog);
    }

    fn on_tick(&mut self, now: Timestamp, backlog: &Backlog<'_>) {
        if now >= CHANGE && let Some(classes) = self.to.take() {
            self.law.set_targets(&classes);
        }
        self.law.on_tick(now, backlog);
    }

    fn on_cpu(&mut self, now: Timestamp, busy: Ratio) { self.law.on_cpu(now, busy); }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) { self.law.readings(visit); }

    fn place_limits(&self) -> Option<&dyn PlaceLimits> { self.law.place_limits() }

    fn queue_order(&self) -> Option<&dyn QueueOrder> { self.law.queue_order() }
}

fn promised(millis: u64) -> Classes {
    Classes::single(Target::p90(Duration::from_millis(millis)).unwrap())
}

/// Eight workers of 20 ms, offered 1.5 times what they can do.
fn overload() -> Scenario {
    Scenario {
        workload: Workload {
            classes: promised(1000),
            mix: vec![(1.0, Service::LogNormal { mean: 0.020, variation: 0.5 })],
            phases: vec![Phase { from_seconds: 0.0, load: Load::Poisson { per_second: 600.0 } }],
            until_seconds: 60.0,
            clients: Clients::Strangers,
        },
        upstream: Upstream::steady(8),
        measured: (0.0, 60.0),
    }
}

/// The p90 in seconds, and completions a second, at the end of a run with a target of
/// `first` milliseconds and then of `then`.
fn outcome(entry: &'static AdmissionEntry, first: u64, then: u64) -> (f64, f64) {
    let mut law = Changing { law: entry.law(&promised(first)), to: Some(promised(then)) };
    let records = run(&mut law, &overload(), 7);
    let mut responses: Vec<_> = records
        .iter()
        .filter(|record| record.outcome == Outcome::Completed && record.ended >= MEASURED_SECONDS)
        .map(simulated_stage::Record::response)
        .collect();
    responses.sort_unstable_by(f64::total_cmp);
    let p90 = responses.get(responses.len() * 9 / 10).copied().unwrap_or(f64::INFINITY);
    (p90, responses.len() as f64 / (60.0 - MEASURED_SECONDS))
}

/// What is overloaded enough for these to differ is no longer a stage that anybody has;
/// below they are told of late answers instead.
const ELSEWHERE: [&str; 3] = ["response-time", "multiclass", "pi-shedding"];

#[test]
fn every_law_holds_to_its_new_target_as_if_it_had_been_made_for_it() {
    let apart = [WITHOUT_TARGET.as_slice(), &ELSEWHERE].concat();
    for entry in ADMISSION.iter().filter(|entry| !apart.contains(&entry.name)) {
        for (first, then) in [(1000, 150), (150, 1000)] {
            let (p90, rate) = outcome(entry, first, then);
            let (p90_made, rate_made) = outcome(entry, then, then);
            let (p90_before, _) = outcome(entry, first, first);
            let name = entry.name;
            // One that may take longer may keep what it has found, as long as it is in time.
            let in_time = 0.6 * then as f64 / 1000.0;
            assert!(p90 <= (1.1 * p90_made).max(in_time), "{name}: {p90} s for {p90_made} s");
            assert!((0.95..1.05).contains(&(rate / rate_made)), "{name}: {rate} for {rate_made}");
            assert!((p90_before / p90_made - 1.0).abs() > 0.5, "{name}: no difference to see");
        }
    }
}

/// The admission rate after two hundred answers of 300 ms.
fn rate_after_slow_answers(law: &mut dyn AdmissionLaw) -> f64 {
    let backlog = Backlog {
        queued: &[0],
        running: &[1],
        queued_total: 0,
        running_total: 1,
        workers: Concurrency::ONE,
    };
    let answered = Finished {
        kind: 0,
        class: ClassId::DEFAULT,
        service: Duration::from_millis(20),
        response: Duration::from_millis(300),
        ending: Ending::Completed,
    };
    for _ in 0..200 {
        law.on_finish(Timestamp::ZERO, &answered, &backlog);
    }
    let mut rate = f64::NAN;
    law.readings(&mut |reading| {
        if reading.name == "rate_per_second" {
            rate = reading.value;
        }
    });
    rate
}

#[test]
fn the_papers_controllers_lower_their_rate_by_the_new_target() {
    for name in ["response-time", "multiclass"] {
        let mut law = catalogue::admission(name).unwrap().law(&promised(1000));
        assert_eq!(rate_after_slow_answers(&mut *law), 5000.0, "{name}");
        law.set_targets(&promised(150));
        // adj_d, twice.
        let lowered = 5000.0 / 1.2 / 1.2;
        assert!((rate_after_slow_answers(&mut *law) - lowered).abs() < 1e-6, "{name}");
    }
}

#[test]
fn pi_shedding_drops_what_has_waited_out_the_new_target() {
    let mut law = PiShedding::new(&promised(1000));
    let waiting =
        Waiting { class: ClassId::DEFAULT, entered: Timestamp::ZERO, deadline: None, kind: 0 };
    let backlog = Backlog {
        queued: &[9],
        running: &[1],
        queued_total: 9,
        running_total: 1,
        workers: Concurrency::ONE,
    };
    let now = Timestamp::from_nanos(300_000_000);
    assert_eq!(law.on_sweep(now, &waiting, &backlog), Dequeue::Run);
    law.set_targets(&promised(150));
    assert_eq!(law.on_sweep(now, &waiting, &backlog), Dequeue::Drop);
}

#[test]
fn degradation_and_termination_follow_the_target() {
    let mut limits = TerminationThreshold::new(&promised(1000));
    assert_eq!(limits.limit(ClassId::DEFAULT), Some(Duration::from_secs(10)));
    limits.set_targets(&promised(150));
    assert_eq!(limits.limit(ClassId::DEFAULT), Some(Duration::from_millis(1500)));

    let mut quality = Degradation::new(&promised(1000), Ratio::saturating(0.2));
    quality.set_targets(&promised(150));
    let answered = Finished {
        kind: 0,
        class: ClassId::DEFAULT,
        service: Duration::from_millis(20),
        response: Duration::from_millis(300),
        ending: Ending::Completed,
    };
    let backlog = Backlog {
        queued: &[0],
        running: &[0],
        queued_total: 0,
        running_total: 0,
        workers: Concurrency::ONE,
    };
    let activity = Activity { backlog, offered: 0, lost: 0, completed: 0, workers_idle: 0 };
    quality.on_tick(Timestamp::ZERO, &activity, Leeway::Either);
    (0..100).for_each(|_| quality.on_finish(Timestamp::ZERO, &answered));
    let later = Timestamp::from_nanos(1_000_000_000);
    let lowered = quality.on_tick(later, &activity, Leeway::Either).get();
    assert!((lowered - 1.0 / 1.2).abs() < 1e-9, "{lowered}");
}

#[test]
fn a_law_that_looks_at_no_target_does_not_notice() {
    for name in WITHOUT_TARGET {
        let entry = catalogue::admission(name).unwrap();
        assert_eq!(outcome(entry, 1000, 150), outcome(entry, 1000, 1000), "{name}");
    }
}
