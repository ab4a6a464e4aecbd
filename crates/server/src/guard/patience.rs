//! Progress timeout: a minimum transfer rate over a stall time.

use std::task::{Context, Poll};
use std::time::Duration;

use tamarisk_http_gate::Deadline;
use tokio::time::Instant;

use super::limits::Limits;

/// Time that a client may let us wait: full at first, spent by waiting, and won back by
/// bytes at the least rate that we put up with.
///
/// A limit on each single wait would not do: a byte just before its end would renew it,
/// and hold a connection indefinitely. Time that nobody waits for the client costs it nothing.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    spent: Duration,
    since: Option<Instant>,
    end: Deadline,
}

impl Patience {
    /// The wait is over, and brought this many bytes.
    #[inline]
    pub(crate) fn moved(&mut self, bytes: usize, limits: &Limits) {
        if let Some(since) = self.since.take() {
            self.spent += since.elapsed();
            self.end.stop();
        }
        if !self.spent.is_zero() {
            let won = Duration::from_secs_f64(bytes as f64 / f64::from(limits.rate_min.get()));
            self.spent = self.spent.saturating_sub(won);
        }
    }

    /// Full again.
    pub(crate) fn renew(&mut self) {
        (self.spent, self.since) = (Duration::ZERO, None);
        self.end.stop();
    }

    /// Nobody will wait for long: lets go of what only waiting needs.
    pub(crate) fn release(&mut self) {
        (self.since, self.end) = Default::default();
    }

    /// Waits on; ready when the patience is over.
    pub(crate) fn poll_over(&mut self, limits: &Limits, cx: &mut Context<'_>) -> Poll<()> {
        if self.since.is_none() {
            self.since = Some(Instant::now());
            self.end.start(limits.stall_time.saturating_sub(self.spent));
        }
        self.end.poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::num::NonZeroU32;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn limits() -> Limits {
        Limits::default().stall_time(10 * SECOND).rate_min(NonZeroU32::new(100).unwrap())
    }

    /// How long a client is borne with that sends `bytes` every `pause`.
    async fn borne(bytes: usize, pause: Duration) -> Option<Duration> {
        let (limits, start) = (limits(), Instant::now());
        let mut patience = Patience::default();
        while start.elapsed() < 1000 * SECOND {
            let over = poll_fn(|cx| patience.poll_over(&limits, cx));
            if tokio::time::timeout(pause, over).await.is_ok() {
                return Some(start.elapsed());
            }
            patience.moved(bytes, &limits);
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
        let limits = limits();
        let mut patience = Patience::default();
        for _ in 0..100 {
            patience.moved(1, &limits);
            tokio::time::advance(9 * SECOND).await;
        }
        let start = Instant::now();
        poll_fn(|cx| patience.poll_over(&limits, cx)).await;
        assert_eq!(start.elapsed(), 10 * SECOND);
        patience.renew();
        poll_fn(|cx| patience.poll_over(&limits, cx)).await;
        assert_eq!(start.elapsed(), 20 * SECOND);
    }
}
