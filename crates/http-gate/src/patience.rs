//! Progress timeout: a minimum transfer rate over a stall time.

use std::num::NonZeroU32;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use crate::deadline::Deadline;

/// The longest time from a head's first byte to its last, unless stated otherwise.
pub const HEAD_TIME: Duration = Duration::from_secs(10);

/// How long a client may let us wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatienceLimits {
    /// In sum.
    pub stall_time: Duration,
    /// The bytes that win back a second of it.
    pub rate_min: NonZeroU32,
}

impl Default for PatienceLimits {
    fn default() -> Self {
        // Apache's rate, of mod_reqtimeout: slower than any modem.
        let rate_min = NonZeroU32::new(500).expect("it is not zero");
        Self { stall_time: Duration::from_secs(60), rate_min }
    }
}

/// Time spent waiting for a client, which is won back by bytes at the least rate that we put up
/// with.
///
/// A limit on each single wait would not do: a byte just before its end would renew it,
/// and hold a connection indefinitely. Time in which the server does not wait for the client costs it nothing.
#[derive(Debug, Default)]
pub struct Stall {
    spent: Duration,
    since: Option<Instant>,
}

impl Stall {
    /// The client is waited for, from now on if not before.
    pub fn waits(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    /// Whether the client is waited for.
    pub fn is_waiting(&self) -> bool {
        self.since.is_some()
    }

    /// The wait is over, and brought this many bytes.
    #[inline]
    pub fn moved(&mut self, bytes: usize, limits: PatienceLimits) {
        if let Some(since) = self.since.take() {
            self.spent += since.elapsed();
        }
        if !self.spent.is_zero() {
            let won = Duration::from_secs_f64(bytes as f64 / f64::from(limits.rate_min.get()));
            self.spent = self.spent.saturating_sub(won);
        }
    }

    /// Since when the client is waited for: the time that it has spent before counts too.
    pub fn since(&self) -> Option<Instant> {
        self.since.and_then(|since| since.checked_sub(self.spent))
    }

    /// How long the client may be waited for from when the wait began.
    fn left(&self, limits: PatienceLimits) -> Duration {
        limits.stall_time.saturating_sub(self.spent)
    }

    /// When the wait has taken too long, if there is one.
    pub fn end(&self, limits: PatienceLimits) -> Option<Instant> {
        Some(self.since? + self.left(limits))
    }
}

/// A [`Stall`] with a timer: full patience at first.
#[derive(Debug, Default)]
pub struct Patience {
    stall: Stall,
    end: Deadline,
}

impl Patience {
    /// The wait is over, and brought this many bytes.
    #[inline]
    pub fn moved(&mut self, bytes: usize, limits: PatienceLimits) {
        if self.stall.is_waiting() {
            self.end.stop();
        }
        self.stall.moved(bytes, limits);
    }

    /// Since when the client is waited for: the time that it has spent before counts too.
    pub fn since(&self) -> Option<Instant> {
        self.stall.since()
    }

    /// Full again.
    pub fn renew(&mut self) {
        self.stall = Stall::default();
        self.end.stop();
    }

    /// The wait is over for now: lets go of what only waiting needs.
    pub fn release(&mut self) {
        (self.stall.since, self.end) = Default::default();
    }

    /// Waits on; ready when the patience is over.
    pub fn poll_over(&mut self, limits: PatienceLimits, cx: &mut Context<'_>) -> Poll<()> {
        if !self.stall.is_waiting() {
            self.stall.waits();
            self.end.start(self.stall.left(limits));
        }
        self.end.poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    const LIMITS: PatienceLimits = PatienceLimits {
        stall_time: Duration::from_secs(10),
        rate_min: NonZeroU32::new(100).unwrap(),
    };

    /// How long a client is borne with that sends `bytes` every `pause`.
    async fn borne(bytes: usize, pause: Duration) -> Option<Duration> {
        let start = Instant::now();
        let mut patience = Patience::default();
        while start.elapsed() < 1000 * SECOND {
            let over = poll_fn(|cx| patience.poll_over(LIMITS, cx));
            if tokio::time::timeout(pause, over).await.is_ok() {
                return Some(start.elapsed());
            }
            patience.moved(bytes, LIMITS);
        }
        None
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_is_borne_with_at_the_least_rate_and_not_below() {
        assert_eq!(borne(0, 3 * SECOND).await, Some(10 * SECOND));
        assert_eq!(borne(1000, 11 * SECOND).await, Some(10 * SECOND));
        assert_eq!(borne(1000, 9 * SECOND).await, None);
        assert_eq!(borne(100, SECOND).await, None);
        // Each second brings back half of one: after 18 of them one is left.
        assert_eq!(borne(50, SECOND).await, Some(19 * SECOND));
        assert_eq!(borne(usize::MAX, SECOND).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn time_in_which_nobody_waits_costs_nothing() {
        let mut patience = Patience::default();
        for _ in 0..100 {
            patience.moved(1, LIMITS);
            tokio::time::advance(9 * SECOND).await;
        }
        let start = Instant::now();
        poll_fn(|cx| patience.poll_over(LIMITS, cx)).await;
        assert_eq!(start.elapsed(), 10 * SECOND);
        patience.renew();
        poll_fn(|cx| patience.poll_over(LIMITS, cx)).await;
        assert_eq!(start.elapsed(), 20 * SECOND);
    }
}
