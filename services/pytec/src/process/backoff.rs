//! Back-off: after some failures in a row, a growing pause before the next attempt.

use std::time::Duration;

use tokio::time::Instant;

/// Failures in a row that have no consequence: one is an accident, two may be.
const FAILURES_FREE: u32 = 2;
/// The first pause; a process costs some hundredths of a second to start.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
/// The longest pause, so that what has been mended is noticed soon.
const PAUSE_LONGEST: Duration = Duration::from_secs(10);

/// Counts failures in a row.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
    until: Option<Instant>,
}

impl Backoff {
    /// How long there is to wait, if it is not time yet.
    pub(crate) fn pause(&self, now: Instant) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(now)).filter(|left| !left.is_zero())
    }

    /// How many attempts have failed since one succeeded.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    pub(crate) fn failed(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        if let Some(doublings) = self.failures.checked_sub(FAILURES_FREE + 1) {
            let pause = PAUSE_FIRST.saturating_mul(1 << doublings.min(16));
            self.until = Some(now + pause.min(PAUSE_LONGEST));
        }
    }

    pub(crate) fn succeeded(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_from_the_third_failure_on_and_is_bounded() {
        let (mut backoff, now) = (Backoff::default(), Instant::now());
        let mut pauses = Vec::new();
        for _ in 0..12 {
            backoff.failed(now);
            pauses.push(backoff.pause(now).map_or(0, |pause| pause.as_millis()));
        }
        assert_eq!(pauses, [0, 0, 100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000, 10_000]);
        assert_eq!(backoff.pause(now + Duration::from_secs(10)), None);
        backoff.succeeded();
        assert_eq!((backoff.failures(), backoff.pause(now)), (0, None));
    }
}
