//! Adaptive LIFO with controlled delay: while a standing queue lasts, the newest event is served
//! first and events time out early.
//!
//! **Intuition.** In good times first come, first served is fair and fast. When a
//! queue forms, the one in front has waited longest and is the likeliest to have
//! hung up; serving it first makes everybody late. The one who came last still has
//! all of the time ahead. So turn the queue over while it stands, and let those
//! at its far end go after a short while instead of answering them too late.
//!
//! **Mechanism** \[Maurer15\]. An event may wait for N = 100 ms if the queue was
//! empty within the last N when it came, else for M = 5 ms only; one that waited
//! longer is dropped. The newest is served first while the queue has not been
//! empty for N. Since the queue cannot have run empty while an event stood in it,
//! both are known from the instant at which it was last empty.
//!
//! **Source.** \[Maurer15\], with its M and N. The listing there says "N seconds"
//! where the text says milliseconds; the text is what is done here.
//!
//! **What we chose.** The article leaves open when exactly the queue is turned over
//! ("when a queue is starting to form"); here it is when the short timeout begins.
//! It counts as empty when an event leaves it last, or comes and finds it empty.
//! The queue's discipline must leave the order to the law.
//!
//! **Limits.** What is dropped has been let in, and has waited; nobody is rejected
//! on arrival, so a caller learns of the overload a timeout later. 5 ms and 100 ms fit
//! services of milliseconds. It is blind for priorities, for how long a kind of
//! request takes and for targets, and unfair by design: of two that came in the
//! same burst the earlier one loses.

use std::time::Duration;

use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, Decision, Dequeue, Finished, Order, QueueOrder, Reading,
    Timestamp, Waiting,
};

use crate::queue_delay::QueueDelay;

/// Serves the newest first while a queue stands, and drops what waits too long.
#[derive(Clone, Debug)]
pub struct AdaptiveLifo {
    delay: QueueDelay,
    last_empty: Timestamp,
    /// Whether the queue has not been empty for an interval, at the last look.
    standing: bool,
}

impl AdaptiveLifo {
    /// With the published times.
    pub fn new() -> Self {
        Self::with(QueueDelay::PUBLISHED)
    }

    /// With times of one's own: the target is M, the interval N.
    pub fn with(delay: QueueDelay) -> Self {
        Self { delay, last_empty: Timestamp::ZERO, standing: false }
    }

    fn observe(&mut self, now: Timestamp, queued: u32) {
        if queued == 0 {
            self.last_empty = now;
        }
        self.standing = self.stood_at(now);
    }

    fn stood_at(&self, instant: Timestamp) -> bool {
        instant.since(self.last_empty) > self.delay.interval
    }

    fn verdict(&self, now: Timestamp, waiting: &Waiting) -> Dequeue {
        let timeout =
            if self.stood_at(waiting.entered) { self.delay.target } else { self.delay.interval };
        if now.since(waiting.entered) > timeout { Dequeue::Drop } else { Dequeue::Run }
    }
}

impl Default for AdaptiveLifo {
    fn default() -> Self {
        Self::new()
    }
}

impl AdmissionLaw for AdaptiveLifo {
    fn name(&self) -> &'static str {
        "adaptive-lifo"
    }

    fn on_arrival(&mut self, now: Timestamp, _: &Arrival, backlog: &Backlog<'_>) -> Decision {
        self.observe(now, backlog.queued_total);
        Decision::Admit
    }

    fn on_dequeue(&mut self, now: Timestamp, waiting: &Waiting, backlog: &Backlog<'_>) -> Dequeue {
        let verdict = self.verdict(now, waiting);
        self.observe(now, backlog.queued_total.saturating_sub(1));
        verdict
    }

    fn on_sweep(&mut self, now: Timestamp, waiting: &Waiting, _: &Backlog<'_>) -> Dequeue {
        self.verdict(now, waiting)
    }

    fn on_finish(&mut self, now: Timestamp, _: &Finished, backlog: &Backlog<'_>) {
        self.observe(now, backlog.queued_total);
    }

    fn on_tick(&mut self, now: Timestamp, backlog: &Backlog<'_>) {
        self.observe(now, backlog.queued_total);
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        let standing = f64::from(u8::from(self.standing));
        visit(Reading { name: "newest_first_ratio", class: None, value: standing });
    }

    fn queue_order(&self) -> Option<&dyn QueueOrder> {
        Some(self)
    }
}

impl QueueOrder for AdaptiveLifo {
    fn order(&self, _: Duration) -> Order {
        if self.standing { Order::NewestFirst } else { Order::OldestFirst }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_bench::{arrival, at, backlog, waiting};

    /// A law whose queue was last empty at 1000 ms.
    fn law() -> AdaptiveLifo {
        let mut law = AdaptiveLifo::new();
        law.on_arrival(at(1000), &arrival(0), &backlog(&[0], &[8]));
        law
    }

    fn take(law: &mut AdaptiveLifo, now_ms: u64, entered_ms: u64) -> Dequeue {
        let waiting = waiting(now_ms, now_ms - entered_ms);
        law.on_dequeue(at(now_ms), &waiting, &backlog(&[50], &[8]))
    }

    #[test]
    fn who_came_within_100_ms_of_an_empty_queue_may_wait_for_100_ms() {
        assert_eq!(take(&mut law(), 1200, 1100), Dequeue::Run);
        assert_eq!(take(&mut law(), 1201, 1100), Dequeue::Drop);
    }

    #[test]
    fn who_came_to_a_standing_queue_may_wait_for_5_ms() {
        assert_eq!(take(&mut law(), 1106, 1101), Dequeue::Run);
        assert_eq!(take(&mut law(), 1107, 1101), Dequeue::Drop);
    }

    #[test]
    fn the_queue_is_turned_over_after_100_ms_and_back_when_it_is_empty() {
        let mut law = law();
        law.on_tick(at(1100), &backlog(&[50], &[8]));
        assert_eq!(law.order(Duration::ZERO), Order::OldestFirst);
        law.on_tick(at(1101), &backlog(&[50], &[8]));
        assert_eq!(law.order(Duration::ZERO), Order::NewestFirst);
        law.on_dequeue(at(1102), &waiting(1102, 1), &backlog(&[1], &[8]));
        assert_eq!(law.order(Duration::ZERO), Order::OldestFirst);
    }

    #[test]
    fn the_sweep_drops_those_at_the_far_end() {
        let mut law = law();
        let crowded = backlog(&[50], &[8]);
        law.on_tick(at(1150), &crowded);
        assert_eq!(law.on_sweep(at(1150), &waiting(1150, 20), &crowded), Dequeue::Drop);
        assert_eq!(law.on_sweep(at(1150), &waiting(1150, 3), &crowded), Dequeue::Run);
    }
}
