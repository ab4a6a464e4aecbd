//! Targets that change while a law runs: every law of the catalogue holds to the new
//! one as a law does that was made for it, and the laws that look at no target do
//! not notice.

use std::time::Duration;

use tamarisk_catalogue::ADMISSION;
use tamarisk_control::*;
use tamarisk_laws::named::AdmissionEntry;
use tamarisk_model::sim::Outcome;

use super::records::Record;
use super::run;
use super::situations::half_too_much;

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

/// When targets change; their effect is measured from 30 s on.
const CHANGE: Timestamp = Timestamp::from_nanos(20_000_000_000);

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
    fn on_sweep(&mut self, now: Timestamp, waiting: &Waiting, backlog: &Backlog<'_>) -> Dequeue {
        self.law.on_sweep(now, waiting, backlog)
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

/// The p90 in seconds, and completions a second, at the end of a run with a target of
/// `first` milliseconds and then of `then`.
fn outcome(entry: &'static AdmissionEntry, first: u64, then: u64) -> (f64, f64) {
    let law = Changing { law: entry.law(&promised(first)), to: Some(promised(then)) };
    let situation = half_too_much(promised(1000));
    let (from, to) = situation.measured;
    let records = run(Box::new(law), &situation, 7);
    let completed = Some(Outcome::Completed);
    let measured = |record: &&Record| record.outcome == completed && record.ended >= from;
    let mut responses: Vec<_> = records.iter().filter(measured).map(Record::response).collect();
    responses.sort_unstable_by(f64::total_cmp);
    let p90 = responses.get(responses.len() * 9 / 10).copied().unwrap_or(f64::INFINITY);
    (p90, responses.len() as f64 / (to - from))
}

/// What is overloaded enough for these to differ is no longer a stage that anybody has;
/// `crates/laws/tests/it/new_targets.rs` tells them of late answers instead.
const ELSEWHERE: [&str; 4] =
    ["response-time", "response-time-halving", "multiclass", "pi-shedding"];

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

#[test]
fn a_law_that_looks_at_no_target_does_not_notice() {
    for name in WITHOUT_TARGET {
        let entry = tamarisk_catalogue::admission(name).unwrap();
        assert_eq!(outcome(entry, 1000, 150), outcome(entry, 1000, 1000), "{name}");
    }
}
