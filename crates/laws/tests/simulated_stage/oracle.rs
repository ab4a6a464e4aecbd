//! The best that a fixed limit can do, to measure laws against.

use std::time::Duration;

use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, Concurrency, Decision, Dequeue, Order, PlaceLimits, QueueOrder,
    Timestamp, Waiting,
};

use super::report::summarise;
use super::run;
use super::scenarios::Scenario;

/// Holds so many in flight, refuses nobody, serves the newest, and drops who has
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

/// Answers in time a second, from `from` seconds on, at the best of several fixed
/// limits around the number of workers; and that limit.
pub fn best_fixed_limit(scenario: &Scenario, from: f64, seed: u64) -> (f64, u32) {
    let workers = scenario.upstream.workers;
    let classes = &scenario.workload.classes;
    let targets = classes.iter().map(|(_, class)| class.target.response_time());
    let target = targets.min().unwrap_or_default();
    let to = scenario.measured.1;
    [workers, workers + 1, workers + workers.div_ceil(4), 2 * workers]
        .map(|limit| {
            let mut law = FixedLimit { limit: Concurrency::new(limit), target };
            let records = run(&mut law, scenario, seed);
            (summarise(&records, classes, None, from, to).goodput, limit)
        })
        .into_iter()
        .fold((0.0, workers), |best, each| if each.0 > best.0 { each } else { best })
}
