//! The standing-queue gate: a burst may use the whole target, a standing queue may not.
//!
//! A queue that empties now and then absorbs bursts and does good. A queue that
//! never empties only adds its length to every response time: the throughput
//! would be the same without it. The two look alike at any instant and are told
//! apart by the *least* wait over a while: this is CoDel's idea [RFC8289 §3],
//! here scaled to the target instead of fixed in milliseconds, and used to bound
//! what enters instead of dropping what has waited.
//!
//! What enters is bounded by a share θ of the *span*. Where service is short, that is the target.
//! Where it takes most of the target, a queue that fills all that the promised
//! percentile of service leaves puts the percentile of those behind it at the target, and
//! every other second over it: so there the span is less than what is left
//! (`level.rs`).

use std::time::Duration;

use tamarisk_control::Timestamp;

/// θ is never lowered below this: a tenth of the span may always queue.
const SHARE_MIN: f64 = 0.1;

/// Steps of recovery after which θ is 1 from wherever it was (21 from 0.1), so
/// that a long silence costs no more than these.
const RECOVERY_STEPS_MAX: u64 = 32;

/// Half of a shorter target is no longer than the clock's own uncertainty.
const INTERVAL_MIN: Duration = Duration::from_micros(1);

/// The gate of one priority level.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    /// θ, in `SHARE_MIN..=1.0`.
    share: f64,
    /// The least wait seen in this interval; infinite when none was.
    least_wait: f64,
    /// When this interval began, if one has, and when it is over.
    opened: Option<Timestamp>,
    closes: Timestamp,
    interval: Duration,
    /// The share of the target that is a standing wait, and that wait in seconds.
    standing: f64,
    standing_wait: f64,
}

/// An observation window that the gate has judged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval {
    pub(crate) length: Duration,
    /// In seconds.
    pub(crate) least_wait: f64,
}

impl Gate {
    /// `target` is the least among the classes that share the queue; a wait that
    /// never falls to the share `standing` of it is a standing queue.
    pub(crate) fn new(target: Duration, standing: f64) -> Self {
        Self {
            share: 1.0,
            least_wait: f64::INFINITY,
            opened: None,
            closes: Timestamp::ZERO,
            interval: interval(target),
            standing,
            standing_wait: standing * target.as_secs_f64(),
        }
    }

    /// The same θ, in intervals of another target.
    pub(crate) fn set_target(&mut self, target: Duration) {
        self.interval = interval(target);
        self.closes = self.opened.map_or(Timestamp::ZERO, |opened| opened + self.interval);
        self.standing_wait = self.standing * target.as_secs_f64();
    }

    /// What is a standing wait, in seconds.
    pub(crate) fn standing_wait(&self) -> f64 {
        self.standing_wait
    }

    /// θ: the share of the span that may be spent in the queue.
    #[inline]
    pub(crate) fn share(&self) -> f64 {
        self.share
    }

    /// Whether the next wait ends an interval.
    #[inline]
    pub(crate) fn is_verdict_due(&self, now: Timestamp) -> bool {
        now >= self.closes
    }

    /// Takes note of the wait in the queue, and returns the interval that this
    /// instant ended, if it ended one.
    #[inline]
    pub(crate) fn observe(&mut self, now: Timestamp, wait_seconds: f64) -> Option<Interval> {
        self.least_wait = self.least_wait.min(wait_seconds);
        if now < self.closes { None } else { self.close(now) }
    }

    #[cold]
    fn close(&mut self, now: Timestamp) -> Option<Interval> {
        let opened = self.opened.replace(now);
        self.closes = now + self.interval;
        let length = now.since(opened?);
        self.judge(length);
        let least_wait = std::mem::replace(&mut self.least_wait, f64::INFINITY);
        Some(Interval { length, least_wait })
    }

    fn judge(&mut self, elapsed: Duration) {
        if self.least_wait > self.standing_wait {
            self.share = (self.share / 2.0).max(SHARE_MIN);
            return;
        }
        // A queue that ran empty is proof that the gate is not needed; one that
        // merely was short may be short because of the gate.
        let gain = if self.least_wait == 0.0 { 2.0 } else { 1.1 };
        let intervals = elapsed.as_nanos() / self.interval.as_nanos();
        for _ in 0..u64::try_from(intervals).unwrap_or(u64::MAX).min(RECOVERY_STEPS_MAX) {
            self.share = (gain * self.share + 0.005).min(1.0);
        }
    }
}

fn interval(target: Duration) -> Duration {
    (target / 2).max(INTERVAL_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: u64 = 500_000_000;

    /// A gate for a target of 1 s after intervals of these least waits.
    fn after(waits: &[f64]) -> Gate {
        let mut gate = Gate::new(Duration::from_secs(1), 0.2);
        gate.observe(Timestamp::ZERO, waits.first().copied().unwrap_or(0.0));
        for (index, &wait) in waits.iter().enumerate() {
            gate.observe(Timestamp::from_nanos((index as u64 + 1) * INTERVAL), wait);
        }
        gate
    }

    #[test]
    fn it_starts_wide_open() {
        assert_eq!(after(&[]).share(), 1.0);
    }

    #[test]
    fn a_queue_that_stands_for_an_interval_halves_it() {
        assert_eq!(after(&[0.3]).share(), 0.5);
        assert_eq!(after(&[0.3, 0.3]).share(), 0.25);
    }

    #[test]
    fn it_never_closes_below_a_tenth() {
        assert_eq!(after(&[0.9; 20]).share(), 0.1);
    }

    #[test]
    fn one_short_wait_in_an_interval_is_no_standing_queue() {
        let mut gate = Gate::new(Duration::from_secs(1), 0.2);
        gate.observe(Timestamp::ZERO, 0.9);
        gate.observe(Timestamp::from_nanos(INTERVAL / 2), 0.1);
        gate.observe(Timestamp::from_nanos(INTERVAL), 0.9);
        assert_eq!(gate.share(), 1.0);
    }

    #[test]
    fn a_short_queue_widens_it_slowly_and_an_empty_one_fast() {
        // 1.1·0.25 + 0.005 and 2·0.25 + 0.005
        assert!((after(&[0.3, 0.3, 0.1]).share() - 0.28).abs() < 1e-12);
        assert!((after(&[0.3, 0.3, 0.0]).share() - 0.505).abs() < 1e-12);
    }

    #[test]
    fn a_long_silence_opens_it_again() {
        let mut gate = after(&[0.9; 20]);
        gate.observe(Timestamp::MAX, 0.0);
        assert_eq!(gate.share(), 1.0);
    }

    #[test]
    fn time_standing_still_ends_no_interval() {
        let mut gate = Gate::new(Duration::from_secs(1), 0.2);
        for _ in 0..1000 {
            assert!(gate.observe(Timestamp::ZERO, 0.9).is_none());
        }
        assert_eq!(gate.share(), 1.0);
    }
}
