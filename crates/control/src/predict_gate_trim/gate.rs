//! The standing-queue gate: a burst may fill the target, a standing queue may not.
//!
//! A queue that empties now and then absorbs bursts and does good. A queue that
//! never empties only adds its length to every response time: the throughput
//! would be the same without it. The two look alike at any instant and are told
//! apart by the *least* wait over a while: this is CoDel's idea [RFC8289 §3.2],
//! here scaled to the target instead of fixed in milliseconds, and used to bound
//! what enters instead of dropping what has waited.

use std::time::Duration;

use crate::Timestamp;

/// θ is never lowered below this: a tenth of the target may always queue.
const SHARE_MIN: f64 = 0.1;

/// Steps of recovery after which θ is 1 from wherever it was (21 from 0.1), so
/// that a long silence costs no more than these.
const RECOVERY_STEPS_MAX: u64 = 32;

/// The gate of one priority level.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    /// θ, in `SHARE_MIN..=1.0`.
    share: f64,
    /// The least wait seen in this interval; infinite when none was.
    least_wait: f64,
    opened: Option<Timestamp>,
    interval: Duration,
    standing_wait: f64,
}

impl Gate {
    /// For the least target among the classes that share the queue; a wait that
    /// never falls below the share `standing` of it is a standing queue.
    pub(crate) fn new(target: Duration, standing: f64) -> Self {
        Self {
            share: 1.0,
            least_wait: f64::INFINITY,
            opened: None,
            interval: target.mul_f64(0.5),
            standing_wait: standing * target.as_secs_f64(),
        }
    }

    /// θ: the share of the target that may be spent in the queue.
    #[inline]
    pub(crate) fn share(&self) -> f64 {
        self.share
    }

    /// Takes note of the wait in the queue, and returns the length of the
    /// interval that this instant ended, if it ended one.
    #[inline]
    pub(crate) fn observe(&mut self, now: Timestamp, wait_seconds: f64) -> Option<Duration> {
        self.least_wait = self.least_wait.min(wait_seconds);
        let opened = *self.opened.get_or_insert(now);
        let elapsed = now.since(opened);
        if elapsed < self.interval {
            return None;
        }
        self.judge(elapsed);
        self.opened = Some(now);
        self.least_wait = f64::INFINITY;
        Some(elapsed)
    }

    #[cold]
    fn judge(&mut self, elapsed: Duration) {
        if self.least_wait > self.standing_wait {
            self.share = (self.share / 2.0).max(SHARE_MIN);
            return;
        }
        let gain = if self.least_wait == 0.0 { 2.0 } else { 1.1 };
        let intervals = elapsed.as_nanos() / self.interval.as_nanos().max(1);
        for _ in 0..u64::try_from(intervals).unwrap_or(u64::MAX).min(RECOVERY_STEPS_MAX) {
            self.share = (gain * self.share + 0.005).min(1.0);
        }
    }
}
