//! Stall timeout: time spent waiting for a client, which a minimum rate wins back.

use std::task::{Context, Poll};
use std::time::Duration;

use tamarisk_http_gate::Deadline;
use tokio::time::Instant;

use crate::serving::limits::Limits;

/// Time spent waiting for a client. A limit on each single wait would not do: a byte just before
/// its end would renew it, and hold a connection indefinitely.
#[derive(Debug, Default)]
pub(super) struct Stall {
    spent: Duration,
    since: Option<Instant>,
}

impl Stall {
    /// The client is waited for, from now on if not before.
    pub(super) fn waits(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    /// Whether the client is being waited for.
    pub(super) fn is_waiting(&self) -> bool {
        self.since.is_some()
    }

    /// The wait is over, and this many bytes were moved.
    pub(super) fn moved(&mut self, bytes: usize, limits: &Limits) {
        if let Some(since) = self.since.take() {
            self.spent += since.elapsed();
        }
        if !self.spent.is_zero() {
            let won = Duration::from_secs_f64(bytes as f64 / f64::from(limits.rate_min));
            self.spent = self.spent.saturating_sub(won);
        }
    }

    /// When the wait has taken too long, if there is one.
    pub(super) fn end(&self, limits: &Limits) -> Option<Instant> {
        Some(self.since? + limits.stall_time.saturating_sub(self.spent))
    }
}

/// A [`Stall`] with a timer of its own.
#[derive(Debug, Default)]
pub(super) struct StallTimer {
    stall: Stall,
    timer: Deadline,
}

impl StallTimer {
    /// The wait is over, and this many bytes were moved.
    pub(super) fn moved(&mut self, bytes: usize, limits: &Limits) {
        self.stall.moved(bytes, limits);
    }

    /// Full time again.
    pub(super) fn renew(&mut self) {
        self.stall = Stall::default();
    }

    /// Waits on; ready when that has taken too long.
    pub(super) fn poll_over(&mut self, limits: &Limits, cx: &mut Context<'_>) -> Poll<()> {
        self.stall.waits();
        if let Some(end) = self.stall.end(limits) {
            self.timer.start(end.saturating_duration_since(Instant::now()));
        }
        self.timer.poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// How long a client is waited for that moves `bytes` every `pause`.
    async fn waited(bytes: usize, pause: Duration) -> Option<Duration> {
        let limits = Limits { stall_time: 10 * SECOND, rate_min: 100, ..Limits::default() };
        let (start, mut stall) = (Instant::now(), StallTimer::default());
        while start.elapsed() < 1000 * SECOND {
            let over = poll_fn(|cx| stall.poll_over(&limits, cx));
            if tokio::time::timeout(pause, over).await.is_ok() {
                return Some(start.elapsed());
            }
            stall.moved(bytes, &limits);
        }
        None
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_is_waited_for_at_the_minimum_rate_and_not_below() {
        assert_eq!(waited(0, 3 * SECOND).await, Some(10 * SECOND));
        assert_eq!(waited(1000, 11 * SECOND).await, Some(10 * SECOND));
        assert_eq!(waited(1000, 9 * SECOND).await, None);
        assert_eq!(waited(100, SECOND).await, None);
        // Each second brings back half of one: after 18 of them one is left.
        assert_eq!(waited(50, SECOND).await, Some(19 * SECOND));
    }
}
