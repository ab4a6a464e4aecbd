//! The token bucket: a rate that may be exceeded by a bounded burst.
//!
//! Tokens drip in at the rate and are kept up to the depth; each event takes
//! one. Over any stretch of time no more than `depth + rate · time` events pass,
//! whereas counting events per calendar second would let twice the rate through
//! around the stroke of each second.

use std::time::Duration;

use crate::{PerSecond, Timestamp};

/// A waiting time longer than this is as good as "never".
const WAIT_MAX: Duration = Duration::from_secs(3600);

/// Tokens, the rate at which they come, and how many can be kept.
///
/// Time only moves forward in it: an instant earlier than the last one told
/// counts as that one.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenBucket {
    rate: PerSecond,
    depth: f64,
    tokens: f64,
    updated: Option<Timestamp>,
}

impl TokenBucket {
    /// A full bucket of `depth` tokens (at least one, else nothing could ever pass).
    pub fn new(rate: PerSecond, depth: f64) -> Self {
        let depth = if depth.is_finite() { depth.max(1.0) } else { 1.0 };
        Self { rate, depth, tokens: depth, updated: None }
    }

    /// Takes one token.
    ///
    /// # Errors
    /// If there is none, the time until there will be one, at most an hour.
    #[inline]
    pub fn take(&mut self, now: Timestamp) -> Result<(), Duration> {
        self.refill(now);
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            Ok(())
        } else {
            let seconds = (1.0 - self.tokens) / self.rate.get();
            Err(Duration::try_from_secs_f64(seconds).map_or(WAIT_MAX, |wait| wait.min(WAIT_MAX)))
        }
    }

    /// Changes the rate from `now` on; tokens already in the bucket stay.
    pub fn set_rate(&mut self, now: Timestamp, rate: PerSecond) {
        self.refill(now);
        self.rate = rate;
    }

    /// Tokens a second.
    #[inline]
    pub fn rate(&self) -> PerSecond {
        self.rate
    }

    /// Tokens at the last instant told, between zero and the depth.
    #[inline]
    pub fn tokens(&self) -> f64 {
        self.tokens
    }

    fn refill(&mut self, now: Timestamp) {
        let updated = *self.updated.get_or_insert(now);
        if now > updated {
            let seconds = now.since(updated).as_secs_f64();
            self.tokens = (self.tokens + seconds * self.rate.get()).min(self.depth);
            self.updated = Some(now);
        }
    }
}
