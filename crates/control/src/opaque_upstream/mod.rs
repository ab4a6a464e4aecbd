//! The form of the default law for an upstream whose workers cannot be seen.

mod knee;
mod throughput;

use std::time::Duration;

use knee::Knee;
use throughput::Throughput;

use crate::predict_gate_trim::PredictGateTrim;
use crate::{
    AdmissionLaw, Arrival, Backlog, Classes, Concurrency, Decision, Dequeue, Ending, Finished,
    Order, Reading, Timestamp, Waiting,
};

const FLOOR: f64 = 16.0;
const LIMIT_START: f64 = 64.0;

/// Holds the number in flight to an upstream near the least that keeps its
/// throughput, and judges what waits for a place like [`PredictGateTrim`].
#[derive(Clone, Debug)]
pub struct OpaqueUpstream {
    judge: PredictGateTrim,
    throughput: Throughput,
    knee: Knee,
    target_seconds: f64,
    limit: Concurrency,
}

impl OpaqueUpstream {
    /// The law with its default constants.
    pub fn new(classes: &Classes) -> Self {
        let target = classes.iter().map(|(_, class)| class.target.response_time()).min();
        Self {
            judge: PredictGateTrim::new(classes),
            throughput: Throughput::new(),
            knee: Knee::new(),
            target_seconds: target.unwrap_or_default().as_secs_f64(),
            limit: Concurrency::new(LIMIT_START as u32),
        }
    }

    fn ceiling(&self) -> f64 {
        let floor = if self.knee.saturated() { FLOOR } else { LIMIT_START };
        let base = self.knee.base();
        let horizon = if base.is_finite() { 2.0 * base } else { 0.0 };
        let horizon = horizon.clamp(0.5 * self.target_seconds, self.target_seconds);
        (self.throughput.best() * horizon).max(floor)
    }

    fn settle_limit(&mut self) {
        let limit = self.knee.limit().min(self.ceiling());
        self.limit = Concurrency::new(limit.min(1e9).round() as u32);
    }

    fn drain(&self) -> f64 {
        let limit = f64::from(self.limit.get());
        if self.knee.saturated() { limit } else { 4.0 * limit }
    }
}

impl AdmissionLaw for OpaqueUpstream {
    fn name(&self) -> &'static str {
        "opaque-upstream"
    }

    fn on_arrival(&mut self, now: Timestamp, arrival: &Arrival, backlog: &Backlog<'_>) -> Decision {
        let drain = self.drain();
        self.judge.judge_arrival(now, arrival, backlog, drain)
    }

    fn on_dequeue(&mut self, now: Timestamp, waiting: &Waiting, backlog: &Backlog<'_>) -> Dequeue {
        self.judge.on_dequeue(now, waiting, backlog)
    }

    fn order(&self, head_age: Duration) -> Order {
        self.judge.order(head_age)
    }

    fn on_finish(&mut self, now: Timestamp, finished: &Finished, backlog: &Backlog<'_>) {
        self.judge.on_finish(now, finished, backlog);
        if finished.ending == Ending::Completed {
            self.throughput.record(now);
            let ceiling = self.ceiling();
            self.knee.on_finish(
                now,
                finished.service.as_secs_f64(),
                backlog.queued_total > 0,
                ceiling,
                backlog.running_total,
            );
        }
        self.settle_limit();
    }

    fn on_tick(&mut self, now: Timestamp, backlog: &Backlog<'_>) {
        self.throughput.advance(now);
        self.judge.on_tick(now, backlog);
        self.settle_limit();
    }

    fn concurrency(&self) -> Option<Concurrency> {
        Some(self.limit)
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        self.judge.readings(visit);
        let mut show = |name, value| visit(Reading { name, class: None, value });
        show("concurrency_limit_count", f64::from(self.limit.get()));
        show("throughput_best_per_second", self.throughput.best());
        show(
            "response_base_seconds",
            if self.knee.base().is_finite() { self.knee.base() } else { 0.0 },
        );
    }
}
