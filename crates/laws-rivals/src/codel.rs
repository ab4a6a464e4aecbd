//! CoDel: drops from a standing queue, more often the longer the queue stands.
//!
//! **Intuition.** A queue that empties now and then does good; one that never gets
//! short only makes everybody late. So look at the shortest wait of the last while,
//! not at the longest; and if even that was too long, drop one event and see
//! whether those who send take the hint. If not, drop the next one a little sooner.
//!
//! **Mechanism** [RFC8289 §5]. An event leaves the queue after waiting for
//! `sojourn`. Once `sojourn ≥ target` has held for `interval` without a break,
//! begin to drop: one now, and the (n + 1)th `interval ÷ √n` after the nth. A
//! single sojourn below the target, or a queue that holds nothing else, ends it.
//! An overload that returns within 16 intervals is met with the rate of drops that
//! it had reached before. Every arrival is admitted.
//!
//! **Source.** [RFC8289 §5.3–5.5], with its TARGET and INTERVAL. What the document
//! measures in bytes, a queue of at most one packet, is one event here.
//!
//! **Limits.** The square root is made for senders that halve their rate at every
//! loss, as TCP does. Clients of a service do not. The drops become √n ÷ interval
//! frequent only, so that d a second are reached after d ÷ 50 seconds: 370 too many take
//! seven, 3300 more than a minute, while the queue grows; and served first in, first
//! out, every answer is late by then. It knows neither priorities nor targets. It is here
//! as the origin of the laws that mend this: see
//! [`ServiceCodel`](crate::ServiceCodel) and [`AdaptiveLifo`](crate::AdaptiveLifo).

use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, Decision, Dequeue, Reading, Timestamp, Waiting,
};

use crate::queue_delay::QueueDelay;

/// An overload is taken for the last one come back within so many intervals
/// [RFC8289 §5.5].
const MEMORY_INTERVALS: u32 = 16;

/// Drops from the head of a queue that stands.
#[derive(Clone, Debug)]
pub struct Codel {
    delay: QueueDelay,
    /// From when on waits have been too long for an interval, if they are.
    standing_from: Option<Timestamp>,
    dropping: bool,
    drop_next: Timestamp,
    count: u32,
    count_at_start: u32,
}

impl Codel {
    /// With the published times.
    pub fn new() -> Self {
        Self::with(QueueDelay::PUBLISHED)
    }

    /// With times of one's own.
    pub fn with(delay: QueueDelay) -> Self {
        Self {
            delay,
            standing_from: None,
            dropping: false,
            drop_next: Timestamp::ZERO,
            count: 0,
            count_at_start: 0,
        }
    }

    /// Whether the queue has been standing for an interval.
    fn stands(&mut self, now: Timestamp, waiting: &Waiting, backlog: &Backlog<'_>) -> bool {
        if now.since(waiting.entered) < self.delay.target || backlog.queued_total <= 1 {
            self.standing_from = None;
            return false;
        }
        let interval = self.delay.interval;
        now >= *self.standing_from.get_or_insert(now + interval)
    }

    /// The control law [RFC8289 §5.3].
    fn next_after(&self, instant: Timestamp) -> Timestamp {
        instant + self.delay.interval.div_f64(f64::from(self.count.max(1)).sqrt())
    }

    fn start(&mut self, now: Timestamp) {
        let reached = self.count.saturating_sub(self.count_at_start);
        let recent = now.since(self.drop_next) < MEMORY_INTERVALS * self.delay.interval;
        self.count = if reached > 1 && recent { reached } else { 1 };
        self.count_at_start = self.count;
        self.drop_next = self.next_after(now);
        self.dropping = true;
    }
}

impl Default for Codel {
    fn default() -> Self {
        Self::new()
    }
}

impl AdmissionLaw for Codel {
    fn name(&self) -> &'static str {
        "codel"
    }

    fn on_arrival(&mut self, _: Timestamp, _: &Arrival, backlog: &Backlog<'_>) -> Decision {
        if backlog.has_idle_worker() {
            // The queue ran empty.
            self.standing_from = None;
            self.dropping = false;
        }
        Decision::Admit
    }

    fn on_dequeue(&mut self, now: Timestamp, waiting: &Waiting, backlog: &Backlog<'_>) -> Dequeue {
        if !self.stands(now, waiting, backlog) {
            self.dropping = false;
            return Dequeue::Run;
        }
        if !self.dropping {
            self.start(now);
            return Dequeue::Drop;
        }
        if now < self.drop_next {
            return Dequeue::Run;
        }
        self.count = self.count.saturating_add(1);
        self.drop_next = self.next_after(self.drop_next);
        Dequeue::Drop
    }

    /// Only the head of the queue is ever dropped.
    fn on_sweep(&mut self, _: Timestamp, _: &Waiting, _: &Backlog<'_>) -> Dequeue {
        Dequeue::Run
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        let dropping = f64::from(u8::from(self.dropping));
        visit(Reading { name: "dropping_ratio", class: None, value: dropping });
        visit(Reading { name: "drops_count", class: None, value: f64::from(self.count) });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::test_bench::{at, backlog, waiting};

    /// Takes an event that waited for `waited_ms` every millisecond, and tells
    /// when one was dropped.
    fn drops(law: &mut Codel, from_ms: u64, to_ms: u64, waited_ms: u64) -> Vec<u64> {
        let crowded = backlog(&[100], &[8]);
        (from_ms..to_ms)
            .filter(|&now| {
                law.on_dequeue(at(now), &waiting(now, waited_ms), &crowded) == Dequeue::Drop
            })
            .collect()
    }

    #[test]
    fn it_drops_after_an_interval_and_then_by_the_square_root() {
        // From 1000 on: at +100 (n = 1), then 100 ÷ √1 = 100, 100 ÷ √2 = 70.7,
        // 100 ÷ √3 = 57.7 and 100 ÷ √4 = 50 later, seen at the next millisecond.
        let drops = drops(&mut Codel::new(), 1000, 1400, 20);
        assert_eq!(drops, [1100, 1200, 1271, 1329, 1379]);
    }

    #[test]
    fn one_short_wait_ends_it() {
        let mut law = Codel::new();
        drops(&mut law, 1000, 1250, 20);
        assert_eq!(drops(&mut law, 1250, 1251, 4), []);
        assert_eq!(drops(&mut law, 1251, 1351, 20), []);
    }

    #[test]
    fn an_overload_that_comes_back_soon_meets_the_rate_it_had() {
        let mut law = Codel::new();
        drops(&mut law, 1000, 1400, 20);
        drops(&mut law, 1400, 1401, 1);
        // Five drops, from one to five: delta = 5 − 1 = 4. The next comes
        // 100 ÷ √4 = 50 ms after the first.
        assert_eq!(drops(&mut law, 1401, 1560, 20), [1501, 1551]);
    }

    #[test]
    fn an_overload_long_after_starts_anew() {
        let mut law = Codel::new();
        drops(&mut law, 1000, 1400, 20);
        drops(&mut law, 1400, 1401, 1);
        // Sixteen intervals after the drop due at 1429 the past is forgotten.
        assert_eq!(drops(&mut law, 3000, 3210, 20), [3100, 3200]);
    }

    #[test]
    fn the_last_in_the_queue_is_never_dropped() {
        let mut law = Codel::new();
        let alone = backlog(&[1], &[8]);
        for now in 1000..2000 {
            let verdict = law.on_dequeue(at(now), &waiting(now, 900), &alone);
            assert_eq!(verdict, Dequeue::Run, "at {now}");
        }
    }

    #[test]
    fn what_is_swept_changes_nothing() {
        let mut law = Codel::new();
        drops(&mut law, 1000, 1100, 20);
        let crowded = backlog(&[100], &[8]);
        assert_eq!(law.on_sweep(at(1100), &waiting(1100, 0), &crowded), Dequeue::Run);
        assert_eq!(drops(&mut law, 1100, 1101, 20), [1100]);
    }

    #[test]
    fn times_of_ones_own_scale_it() {
        let delay = QueueDelay::new(Duration::from_millis(50), Duration::from_secs(1)).unwrap();
        assert_eq!(drops(&mut Codel::with(delay), 1000, 3001, 49), []);
        assert_eq!(drops(&mut Codel::with(delay), 1000, 3001, 50), [2000, 3000]);
    }
}
