//! Predict, gate, trim: the default admission law.

mod builder;
mod gate;
mod level;
mod reserve;
mod service_model;
mod trim;

use std::time::Duration;

pub use builder::{InvalidPredictGateTrim, PredictGateTrimBuilder};
use level::Levels;
use reserve::Reserve;
use service_model::ServiceModel;

use crate::{
    AdmissionLaw, Arrival, Backlog, ClassId, Classes, Decision, Dequeue, Ending, Finished, Order,
    Reading, Reason, Rejection, Timestamp, Waiting,
};

/// Admits an event if it will meet its target, from what is queued ahead of it.
#[derive(Clone, Debug)]
pub struct PredictGateTrim {
    promises: Box<[Promise]>,
    service: ServiceModel,
    levels: Levels,
    reserve: Reserve,
    /// ε: a wait of at most this share of the target counts as no wait.
    negligible_wait: f64,
    standing_wait: f64,
    room: f64,
}

/// What one class is promised.
#[derive(Clone, Copy, Debug)]
struct Promise {
    target: Duration,
    target_seconds: f64,
    percentile: f64,
}

impl PredictGateTrim {
    /// The law with its default constants.
    pub fn new(classes: &Classes) -> Self {
        Self::builder(classes).law()
    }

    /// The law with constants of one's own.
    pub fn builder(classes: &Classes) -> PredictGateTrimBuilder<'_> {
        PredictGateTrimBuilder::new(classes)
    }

    /// The decision, for a stage that gets through `drain` seconds of work a second.
    #[inline]
    pub(crate) fn judge_arrival(
        &mut self,
        now: Timestamp,
        arrival: &Arrival,
        backlog: &Backlog<'_>,
        drain: f64,
    ) -> Decision {
        let class = self.resolve(arrival.class);
        let promise = self.promises[class.index()];
        let remaining = match arrival.deadline {
            None => promise.target_seconds,
            Some(deadline) if deadline <= now => {
                return Decision::Reject(Rejection::new(Reason::PredictedLate));
            }
            Some(deadline) => promise.target_seconds.min(deadline.since(now).as_secs_f64()),
        };
        let means = self.service.means();
        if backlog.has_idle_worker() {
            self.levels.observe(now, class, 0.0);
            self.levels.admitted(class, means[class.index()]);
            return Decision::Admit;
        }
        let wait = self.levels.wait(class, backlog, means, drain);
        self.levels.observe(now, class, wait.queue);

        let quantile = self.service.quantile(class);
        let reason = if wait.total <= self.negligible_wait * promise.target_seconds {
            None
        } else if wait.total + quantile > remaining {
            Some(Reason::PredictedLate)
        } else if wait.queue > self.levels.gate_share(class) * self.levels.target(class)
            || (1.0 > 0.0 && wait.total > self.room)
        {
            Some(Reason::StandingQueue)
        } else {
            None
        };
        if let Some(reason) = reason {
            let feasible = quantile < promise.target_seconds;
            let share = wait.total / remaining;
            let samples = self.service.samples(class);
            if !self.reserve.admits(now, class, share, samples, feasible) {
                let clears = Duration::try_from_secs_f64(wait.total).unwrap_or(Duration::MAX);
                return Decision::Reject(Rejection::new(reason).retry_after(clears));
            }
        }
        self.levels.admitted(class, self.service.mean(class));
        Decision::Admit
    }

    fn resolve(&self, class: ClassId) -> ClassId {
        if class.index() < self.promises.len() { class } else { ClassId::DEFAULT }
    }
}

impl AdmissionLaw for PredictGateTrim {
    fn name(&self) -> &'static str {
        "predict-gate-trim"
    }

    #[inline]
    fn on_arrival(&mut self, now: Timestamp, arrival: &Arrival, backlog: &Backlog<'_>) -> Decision {
        self.judge_arrival(now, arrival, backlog, f64::from(backlog.workers.get()))
    }

    fn on_dequeue(&mut self, now: Timestamp, waiting: &Waiting, _: &Backlog<'_>) -> Dequeue {
        let class = self.resolve(waiting.class);
        let promise = self.promises[class.index()];
        if waiting.deadline.is_some_and(|deadline| deadline <= now) {
            return Dequeue::Drop;
        }
        let median = self.service.median(class);
        let feasible = self.service.quantile(class) < promise.target_seconds;
        // An infeasible promise cannot be kept by dropping: such events may wait
        // as long as the reserve lets them.
        let patience =
            if feasible { promise.target_seconds - median } else { promise.target_seconds / 2.0 };
        let until_deadline = waiting.deadline.map_or(f64::INFINITY, |deadline| {
            deadline.since(waiting.entered).as_secs_f64() - median
        });
        let patience =
            patience.min(until_deadline).max(self.negligible_wait * promise.target_seconds);
        if now.since(waiting.entered).as_secs_f64() > patience {
            Dequeue::Drop
        } else {
            Dequeue::Run
        }
    }

    fn order(&self, head_age: Duration) -> Order {
        if self.levels.any_gate_narrowed()
            && head_age.as_secs_f64() > 0.5 * self.levels.least_target()
        {
            Order::NewestFirst
        } else {
            Order::OldestFirst
        }
    }

    fn on_finish(&mut self, now: Timestamp, finished: &Finished, _: &Backlog<'_>) {
        let class = self.resolve(finished.class);
        self.service.record(class, finished.service, finished.ending);
        let promise = self.promises[class.index()];
        let ratio = finished.response.as_secs_f64() / promise.target_seconds;
        let ratio = match finished.ending {
            Ending::Completed => ratio,
            Ending::Failed | Ending::Terminated => ratio.max(1.0),
            Ending::Untimed => return,
        };
        if self.service.quantile(class) < promise.target_seconds {
            self.levels.record(now, class, ratio, promise.percentile);
        }
    }

    fn on_tick(&mut self, now: Timestamp, backlog: &Backlog<'_>) {
        self.room = f64::INFINITY;
        for i in 0..self.promises.len() {
            let r = self.promises[i].target_seconds - self.service.quantile(ClassId::new(i));
            if r > 0.0 {
                self.room = self.room.min(r);
            }
        }
        let drain = f64::from(backlog.workers.get());
        self.levels.on_tick(now, backlog, self.service.means(), drain);
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        for index in 0..self.promises.len() {
            let class = ClassId::new(index);
            let mut show = |name, value| visit(Reading { name, class: Some(class), value });
            show("gate_ratio", self.levels.gate_share(class));
            show("trim_ratio", self.levels.correction(class));
            show("service_mean_seconds", self.service.mean(class));
            show("service_median_seconds", self.service.median(class));
            show("service_quantile_seconds", self.service.quantile(class));
        }
    }
}
