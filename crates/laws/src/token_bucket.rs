//! The token bucket: a rate that may be exceeded by a bounded burst.
//!
//! Tokens drip in at the rate and are kept up to the depth; each event takes
//! one. Over any period of time no more than `depth + rate · time` events pass,
//! whereas counting events per calendar second would let twice the rate through
//! around the stroke of each second.

use std::time::Duration;

use tamarisk_control::{PerSecond, Timestamp};

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

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_nanos(millis * 1_000_000)
    }

    fn bucket(rate: f64, depth: f64) -> TokenBucket {
        TokenBucket::new(PerSecond::new(rate).unwrap(), depth)
    }

    #[test]
    fn it_starts_full_and_keeps_no_more_than_its_depth() {
        let mut bucket = bucket(100.0, 3.0);
        let taken =
            |bucket: &mut TokenBucket, at| (0..10).filter(|_| bucket.take(at).is_ok()).count();
        assert_eq!(taken(&mut bucket, at(0)), 3);
        assert_eq!(taken(&mut bucket, at(3_600_000)), 3);
    }

    #[test]
    fn over_any_time_no_more_pass_than_the_depth_and_the_rate_times_it() {
        let mut bucket = bucket(100.0, 5.0);
        let passed = (0..10_000).filter(|&millis| bucket.take(at(millis)).is_ok()).count();
        assert_eq!(passed, 5 + 999, "5 at once, and 100/s · 9.999 s");
    }

    #[test]
    fn a_rejection_tells_the_deficit_over_the_rate() {
        let mut bucket = bucket(4.0, 1.0);
        bucket.take(at(0)).unwrap();
        assert_eq!(bucket.take(at(50)), Err(Duration::from_millis(200)));
    }

    #[test]
    fn at_rate_zero_the_wait_is_bounded() {
        let mut bucket = bucket(0.0, 1.0);
        bucket.take(at(0)).unwrap();
        assert_eq!(bucket.take(at(1)), Err(Duration::from_secs(3600)));
    }

    #[test]
    fn time_that_stands_still_or_steps_back_brings_no_token() {
        let mut bucket = bucket(1000.0, 1.0);
        bucket.take(at(1000)).unwrap();
        assert!(bucket.take(at(1000)).is_err());
        assert!(bucket.take(at(0)).is_err());
        assert!(bucket.take(at(1000)).is_err(), "and what was passed once is not passed again");
        assert!(bucket.take(at(1001)).is_ok());
    }

    #[test]
    fn a_new_rate_counts_from_now_on() {
        let mut bucket = bucket(1.0, 10.0);
        (0..10).for_each(|_| bucket.take(at(0)).unwrap());
        bucket.set_rate(at(1000), PerSecond::new(100.0).unwrap());
        bucket.take(at(1000)).unwrap();
        assert_eq!(bucket.take(at(1000)), Err(Duration::from_millis(10)));
    }

    #[test]
    fn a_depth_that_is_no_number_is_one() {
        assert_eq!(bucket(1.0, f64::NAN).tokens(), 1.0);
        assert_eq!(bucket(1.0, -5.0).tokens(), 1.0);
    }
}
