//! Workloads: closed loop (users) and open loop (rate).

use std::time::Duration;

use crate::arrivals::Spacing;
use crate::schedule::Schedule;

/// Who decides when the next request is sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Workload {
    /// Users, each of whom waits for an answer before asking again.
    Closed(ClosedLoop),
    /// A stream of arrivals that does not care how the service is doing.
    Open(OpenLoop),
}

/// Users who ask, wait for the answer, think, and ask again.
#[derive(Clone, Debug, PartialEq)]
pub struct ClosedLoop {
    /// How many users, over time.
    pub users: Schedule,
    /// Pause between an answer and the next request.
    pub think: Duration,
    /// Pause after a rejection or a failure instead; 100 ms at least where there was no answer.
    pub after_reject: Duration,
    /// What a `Retry-After` does to that pause.
    pub retry_after: RetryAfter,
    /// How much pauses vary: each is drawn evenly from its length less and its
    /// length plus this share of it; one that the service asks for becomes longer only. With none,
    /// users who were rejected together come back together, forever in step.
    pub spread: Spread,
    /// Partly open: a user who has had no answer to the newest request after so long sends
    /// another one, over a connection of its own, and goes on with that one's answer
    /// [Fair07 §5.2]. The earlier ones end when they end, and count. Without it, users wait.
    pub resend: Option<Duration>,
}

/// A share by which pauses vary, in `0.0..=1.0`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Spread(f64);

/// A share that is not between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("a spread of {0} is out of range: give a share from 0 to 1")]
pub struct InvalidSpread(f64);

impl Spread {
    /// Pauses vary by up to `share` of their length, either way.
    ///
    /// # Errors
    /// [`InvalidSpread`] unless `share` lies in `0.0..=1.0`.
    pub fn new(share: f64) -> Result<Self, InvalidSpread> {
        if (0.0..=1.0).contains(&share) { Ok(Self(share)) } else { Err(InvalidSpread(share)) }
    }

    /// `pause`, varied by a `draw` from `0.0..1.0`.
    pub(crate) fn vary(self, pause: Duration, draw: f64) -> Duration {
        pause.mul_f64(1.0 + self.0 * (2.0 * draw - 1.0))
    }

    /// `pause`, lengthened by a `draw` from `0.0..1.0`.
    pub(crate) fn lengthen(self, pause: Duration, draw: f64) -> Duration {
        pause.mul_f64(1.0 + self.0 * draw)
    }
}

/// What a user makes of the `Retry-After` of a rejection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetryAfter {
    /// Nothing, like a user who presses reload.
    #[default]
    Ignore,
    /// Waits for as long as the service asks.
    Honour,
}

/// A stream of requests at a given rate.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenLoop {
    /// Requests a second, over time.
    pub rate: Schedule,
    /// How they follow one another.
    pub spacing: Spacing,
    /// Connections open at once, at most, divided among the threads. A request that finds all of
    /// its thread's in use is not sent, and counted as such. By default as many as the
    /// descriptor limit allows, up to 10,000.
    pub connections_max: Option<usize>,
}

impl Workload {
    /// The number of users, or the rate, over time.
    pub fn schedule(&self) -> &Schedule {
        match self {
            Self::Closed(closed) => &closed.users,
            Self::Open(open) => &open.rate,
        }
    }
}

/// Requests of a user under way at once, at most: with so many it waits for the newest.
pub(crate) const UNANSWERED_MAX: usize = 100;

impl ClosedLoop {
    /// The most requests of one user under way at once, each of which ends after `timeout`.
    pub(crate) fn requests_per_user(&self, timeout: Duration) -> u32 {
        let Some(after) = self.resend else { return 1 };
        let sent = timeout.as_nanos().div_ceil(after.as_nanos().max(1));
        u32::try_from(sent).unwrap_or(u32::MAX).clamp(1, UNANSWERED_MAX as u32)
    }

    /// The highest number of users at any time.
    pub(crate) fn users_max(&self) -> usize {
        self.users.level_max().ceil() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_reaches_as_far_below_as_above() {
        let spread = Spread::new(0.5).unwrap();
        let second = Duration::from_secs(1);
        assert_eq!(spread.vary(second, 0.0), Duration::from_millis(500));
        assert_eq!(spread.vary(second, 0.5), second);
        assert!(spread.vary(second, 0.999) < Duration::from_millis(1500));
        assert_eq!(Spread::default().vary(second, 0.0), second);
    }

    #[test]
    fn what_is_lengthened_is_never_shorter() {
        let spread = Spread::new(0.5).unwrap();
        let second = Duration::from_secs(1);
        assert_eq!(spread.lengthen(second, 0.0), second);
        assert_eq!(spread.lengthen(second, 0.5), Duration::from_millis(1250));
        assert_eq!(Spread::default().lengthen(second, 0.9), second);
    }

    #[test]
    fn a_partly_open_user_has_as_many_requests_under_way_as_a_timeout_lasts() {
        let per_user = |resend: Option<u64>, timeout| {
            let users = ClosedLoop {
                users: Schedule::new(1.0, vec![], None).unwrap(),
                think: Duration::ZERO,
                after_reject: Duration::ZERO,
                retry_after: RetryAfter::Ignore,
                spread: Spread::default(),
                resend: resend.map(Duration::from_millis),
            };
            users.requests_per_user(Duration::from_secs(timeout))
        };
        assert_eq!(per_user(None, 10), 1);
        assert_eq!(per_user(Some(1500), 10), 7);
        assert_eq!(per_user(Some(20_000), 10), 1);
        assert_eq!(per_user(Some(1), 10), UNANSWERED_MAX as u32);
    }

    #[test]
    fn a_spread_is_a_share() {
        for share in [-0.1, 1.1, f64::NAN] {
            assert!(Spread::new(share).is_err());
        }
    }
}
