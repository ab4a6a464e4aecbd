//! The default law for an upstream whose workers cannot be observed.
//!
//! **Intuition.** A proxy does not know whether eight or four hundred workers
//! stand behind a port. It only knows what it has sent and what came back. If it
//! sends everything on, the queue stands at the upstream, first come, first
//! served, where neither class nor lateness counts. So it holds back all but the
//! least in flight that keeps the upstream busy; the queue stands *here*, where
//! [`PredictGateTrim`] judges it.
//!
//! **Why the obvious way fails.** A fixed limit is wrong as soon as the service
//! changes. Limits that compare response times with the best ever seen drift
//! with the baseline, or shut half of a wide upstream because one answer was
//! quick; limits that stop to measure a baseline reject requests to do so.
//!
//! **Mechanism.** `knee.rs` finds the limit: Little's law with the measured capacity
//! and the response time that the upstream may be brought to, and a trial of a
//! higher limit where the throughput may have fallen with the limit. A cold start
//! is generous: it sends what comes, within a bound, and learns before it holds
//! back. While the upstream is not known to be saturated, waits are predicted for
//! a limit that may yet double; a queue then grows old in front of an open gate, so
//! the newest is served first once the oldest is old, whatever the gate says.
//! Events that fail do not count as throughput, so no error is so fast that it
//! would look like capacity; the judge counts them as late. A stream must be
//! reported as [`Ending::Untimed`] when its head is out and give up its place then:
//! what holds a place holds a part of the limit.
//!
//! **Source.** Little's law \[Little61\]. To aim at a multiple of throughput ×
//! response-without-queueing is also how BBR paces a network path \[BBR16\].
//!
//! **Limits.** Load that swings between classes of very different service times
//! looks like a service that changes. Where service alone takes more than a quarter
//! of the target, the first seconds of an overload go into finding that out, and
//! where it varies as well, some goodput does all the time. An upstream that rejects by
//! itself beyond some number in flight never looks saturated: its rejections give
//! up their places at once, and all but what it can do is left to it to reject.

mod best_rate;
mod builder;
mod capacity;
mod knee;

use std::time::Duration;

pub use builder::OpaqueUpstreamBuilder;
pub(crate) use builder::OpaqueUpstreamConstants;
use knee::Knee;

use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, Classes, Concurrency, Decision, Dequeue, Ending, Finished,
    Order, PlaceLimits, QueueOrder, Reading, Timestamp, Waiting,
};

use crate::PredictGateTrim;

/// While the limit may still grow, the wait for a place is predicted for a limit
/// of so many times the present one.
const GROWTH_EXPECTED: f64 = 2.0;

/// Holds the number in flight to an upstream near the least that keeps its
/// throughput, and judges what waits for a place as [`PredictGateTrim`] does.
#[derive(Clone, Debug)]
pub struct OpaqueUpstream {
    judge: PredictGateTrim,
    knee: Knee,
    limit: u32,
    /// Since the last answer somebody found every place taken.
    turned_away: bool,
}

impl OpaqueUpstream {
    /// The law with its default constants.
    pub fn new(classes: &Classes) -> Self {
        Self::builder(classes).law()
    }

    /// The law with constants of one's own.
    pub fn builder(classes: &Classes) -> OpaqueUpstreamBuilder<'_> {
        OpaqueUpstreamBuilder::new(classes)
    }

    /// Seconds of work, as the judge measures it, that the upstream gets through
    /// in a second.
    fn drain(&self) -> f64 {
        match self.knee.saturated_rate() {
            Some(rate) => rate * self.judge.service_mean(),
            None => GROWTH_EXPECTED * f64::from(self.limit),
        }
    }

    fn update_limit(&mut self) {
        self.limit = self.knee.limit();
        // Little's law: so long takes what is sent at this limit, whatever the
        // samples say that were taken at others.
        let rate = self.knee.saturated_rate();
        self.judge.expect_service(rate.map(|rate| f64::from(self.limit) / rate));
    }
}

impl AdmissionLaw for OpaqueUpstream {
    fn name(&self) -> &'static str {
        "opaque-upstream"
    }

    #[inline]
    fn on_arrival(&mut self, now: Timestamp, arrival: &Arrival, backlog: &Backlog<'_>) -> Decision {
        self.knee.observe(now, backlog.running_total, self.limit);
        self.turned_away |= !backlog.has_idle_worker();
        self.judge.judge_arrival(now, arrival, backlog, self.drain())
    }

    fn on_dequeue(&mut self, now: Timestamp, waiting: &Waiting, backlog: &Backlog<'_>) -> Dequeue {
        self.knee.observe(now, backlog.running_total, self.limit);
        self.judge.on_dequeue(now, waiting, backlog)
    }

    fn on_finish(&mut self, now: Timestamp, finished: &Finished, backlog: &Backlog<'_>) {
        let in_flight = backlog.running_total.saturating_add(1);
        self.knee.observe(now, in_flight, self.limit);
        self.judge.learn(now, finished);
        if finished.ending == Ending::Completed {
            let turned_away = std::mem::take(&mut self.turned_away);
            let pressed = backlog.queued_total > 0 || turned_away;
            let service = finished.service.as_secs_f64();
            self.knee.on_completion(now, service, backlog.running_total, pressed);
        }
        self.update_limit();
    }

    fn on_tick(&mut self, now: Timestamp, backlog: &Backlog<'_>) {
        self.knee.observe(now, backlog.running_total, self.limit);
        self.knee.on_tick(now);
        self.judge.pass_time(now, backlog, self.drain());
        self.update_limit();
    }

    fn set_targets(&mut self, classes: &Classes) {
        self.judge.set_targets(classes);
        // Nothing here would fit them again when the service has changed.
        self.judge.reset_spans();
        self.knee.set_target(classes.strictest().as_secs_f64());
        self.update_limit();
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        let mut show = |name, value| visit(Reading { name, class: None, value });
        show("limit_count", f64::from(self.limit));
        show("saturated_ratio", f64::from(u8::from(self.knee.saturated_rate().is_some())));
        show("rate_best_per_second", self.knee.best_rate());
        show("response_base_seconds", self.knee.base().unwrap_or(0.0));
        self.judge.readings(visit);
    }

    fn place_limits(&self) -> Option<&dyn PlaceLimits> {
        Some(self)
    }

    fn queue_order(&self) -> Option<&dyn QueueOrder> {
        Some(self)
    }
}

impl PlaceLimits for OpaqueUpstream {
    fn concurrency(&self) -> Option<Concurrency> {
        Some(Concurrency::new(self.limit))
    }
}

impl QueueOrder for OpaqueUpstream {
    fn order(&self, head_age: Duration) -> Order {
        self.judge.order_by_room(head_age)
    }
}
