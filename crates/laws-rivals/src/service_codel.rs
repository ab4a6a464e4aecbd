//! CoDel for services: while a queue stands, events that have waited too long are dropped.
//!
//! **Intuition.** Clients of a service do not slow down when one request in a
//! hundred fails. So keep CoDel's way of *seeing* that a queue stands, by the least
//! wait of an interval, and drop its way of dropping: while the queue stands,
//! everything that has waited for more than twice what is acceptable is thrown
//! out, which brings the queue down to that length at once.
//!
//! **Mechanism** (folly's `Codel.cpp`). `min` is the least wait of the present
//! interval of 100 ms. At its end the service counts as overloaded if
//! `min > target`, 5 ms, until the end of the next. An event that has waited for
//! more than `2 · target` is dropped while it does; the first of an interval never
//! is. Every arrival is admitted, first in, first out.
//!
//! **Source.** \[Folly\], with its defaults `codel_target_delay` and
//! `codel_interval`; the article on it is \[Maurer15\].
//!
//! **What we chose.** An arrival that finds an idle worker counts as a wait of
//! zero. A clock that stands still leaves the verdict as it is.
//!
//! **Limits.** Ten milliseconds of queue are much for a service of 1 ms and nothing
//! for one of 200 ms, where a burst that would fit into the target tenfold is
//! dropped; the times do not follow the target, and nobody is rejected on
//! arrival: what is dropped has waited first. It is blind for priorities. It goes with a
//! queue in order of arrival: served newest first, waits are short
//! whatever stands behind, and `min` sees nothing.

use std::time::Duration;

use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, Decision, Dequeue, Reading, Timestamp, Waiting,
};

use crate::queue_delay::QueueDelay;

/// What waits longer than so many targets is dropped ("slough timeout").
const SLOUGH_TARGETS: u32 = 2;

/// Drops what has waited too long, while a queue stands.
#[derive(Clone, Debug)]
pub struct ServiceCodel {
    delay: QueueDelay,
    /// The least wait of this interval; none until its first.
    least_wait: Option<Duration>,
    interval_ends: Timestamp,
    overloaded: bool,
}

impl ServiceCodel {
    /// With the published times.
    pub fn new() -> Self {
        Self::with(QueueDelay::PUBLISHED)
    }

    /// With times of one's own.
    pub fn with(delay: QueueDelay) -> Self {
        Self { delay, least_wait: None, interval_ends: Timestamp::ZERO, overloaded: false }
    }

    /// Takes note of a wait, and returns whether it was too long.
    fn observe(&mut self, now: Timestamp, wait: Duration) -> bool {
        if let Some(least) = self.least_wait
            && now > self.interval_ends
        {
            self.overloaded = least > self.delay.target;
            self.interval_ends = now + self.delay.interval;
            self.least_wait = None;
        }
        let Some(least) = self.least_wait else {
            // More than one must come in an interval before any is dropped.
            self.least_wait = Some(wait);
            return false;
        };
        self.least_wait = Some(least.min(wait));
        self.is_too_long(wait)
    }

    fn is_too_long(&self, wait: Duration) -> bool {
        self.overloaded && wait > SLOUGH_TARGETS * self.delay.target
    }
}

impl Default for ServiceCodel {
    fn default() -> Self {
        Self::new()
    }
}

impl AdmissionLaw for ServiceCodel {
    fn name(&self) -> &'static str {
        "service-codel"
    }

    fn on_arrival(&mut self, now: Timestamp, _: &Arrival, backlog: &Backlog<'_>) -> Decision {
        if backlog.has_idle_worker() {
            self.observe(now, Duration::ZERO);
        }
        Decision::Admit
    }

    fn on_dequeue(&mut self, now: Timestamp, waiting: &Waiting, _: &Backlog<'_>) -> Dequeue {
        if self.observe(now, now.since(waiting.entered)) { Dequeue::Drop } else { Dequeue::Run }
    }

    fn on_sweep(&mut self, now: Timestamp, waiting: &Waiting, _: &Backlog<'_>) -> Dequeue {
        if self.is_too_long(now.since(waiting.entered)) { Dequeue::Drop } else { Dequeue::Run }
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        let overloaded = f64::from(u8::from(self.overloaded));
        visit(Reading { name: "overloaded_ratio", class: None, value: overloaded });
        let least = self.least_wait.unwrap_or_default().as_secs_f64();
        visit(Reading { name: "wait_least_seconds", class: None, value: least });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_bench::{at, backlog, waiting};

    /// Takes an event every 10 ms from `from_ms` on, and returns what was done.
    fn take(law: &mut ServiceCodel, from_ms: u64, waits_ms: &[u64]) -> Vec<Dequeue> {
        let crowded = backlog(&[100], &[8]);
        let take = |(index, &wait): (usize, &u64)| {
            let now = from_ms + 10 * index as u64;
            law.on_dequeue(at(now), &waiting(now, wait), &crowded)
        };
        waits_ms.iter().enumerate().map(take).collect()
    }

    #[test]
    fn a_queue_that_stands_for_an_interval_loses_all_that_waited_twice_the_target() {
        let mut law = ServiceCodel::new();
        take(&mut law, 1000, &[0; 2]);
        assert_eq!(take(&mut law, 1020, &[6; 12]), [Dequeue::Run; 12]);
        // The least of the interval that ends here is 6 ms > 5 ms.
        let verdicts = take(&mut law, 1230, &[30, 30, 10, 11]);
        assert_eq!(verdicts, [Dequeue::Run, Dequeue::Drop, Dequeue::Run, Dequeue::Drop]);
    }

    #[test]
    fn one_short_wait_clears_the_next_interval() {
        let mut law = ServiceCodel::new();
        take(&mut law, 1000, &[30; 30]);
        assert_eq!(take(&mut law, 1300, &[30]), [Dequeue::Drop]);
        take(&mut law, 1310, &[4; 1]);
        take(&mut law, 1320, &[30; 12]);
        assert_eq!(take(&mut law, 1440, &[30]), [Dequeue::Run]);
    }

    #[test]
    fn an_idle_worker_is_a_wait_of_zero() {
        let mut law = ServiceCodel::new();
        take(&mut law, 1000, &[30; 30]);
        let arrival = crate::test_bench::arrival(0);
        law.on_arrival(at(1300), &arrival, &backlog(&[0], &[1]));
        take(&mut law, 1310, &[30; 12]);
        assert_eq!(take(&mut law, 1440, &[300]), [Dequeue::Run]);
    }

    #[test]
    fn the_sweep_clears_out_what_the_head_would_lose_and_learns_nothing() {
        let mut law = ServiceCodel::new();
        take(&mut law, 1000, &[30; 30]);
        let crowded = backlog(&[100], &[8]);
        assert_eq!(law.on_sweep(at(1300), &waiting(1300, 0), &crowded), Dequeue::Run);
        assert_eq!(law.on_sweep(at(1300), &waiting(1300, 11), &crowded), Dequeue::Drop);
        assert_eq!(take(&mut law, 1400, &[30, 30]), [Dequeue::Run, Dequeue::Drop]);
    }
}
