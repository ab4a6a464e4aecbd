//! Times of the last seconds: a histogram of the current window and one of the window before.

use std::time::Duration;

use histogram::Histogram;
use tamarisk_control::Ratio;

use super::ServiceProfile;

/// The resolution of recorded times: an inline stage's are of that order.
const QUARTER_MICROSECOND_NANOS: u64 = 250;

/// A distribution of times, each right to within 3 %.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percentiles {
    /// How many events the others speak of.
    pub count: u64,
    /// Their mean.
    pub mean: Duration,
    /// Half of the events took at most this long.
    pub p50: Duration,
    /// Nine tenths did.
    pub p90: Duration,
    /// All but one in a hundred did.
    pub p99: Duration,
    /// The slowest.
    pub max: Duration,
}

/// The current window and the one before it.
pub(crate) struct Windowed {
    current: Histogram,
    previous: Histogram,
}

impl Windowed {
    /// Quarter microseconds up to 2^32 of them (18 minutes) in 32 steps a power
    /// of two: 3 % apart, 7 KB each.
    pub(crate) fn new() -> Self {
        let histogram = || Histogram::new(5, 32).expect("5 < 32 ≤ 64");
        Self { current: histogram(), previous: histogram() }
    }

    #[inline]
    pub(crate) fn record(&mut self, nanos: u64, count: u32) {
        let capped = (nanos / QUARTER_MICROSECOND_NANOS).min(u32::MAX.into());
        self.current.add(capped, u64::from(count)).expect("capped to the histogram's range");
    }

    pub(crate) fn rotate(&mut self) {
        std::mem::swap(&mut self.current, &mut self.previous);
        self.current.as_mut_slice().fill(0);
    }

    pub(crate) fn percentiles(&self) -> Option<Percentiles> {
        let both = self.current.checked_add(&self.previous).ok()?;
        let count: u64 = both.as_slice().iter().sum();
        if count == 0 {
            return None;
        }
        let at = |quantile: f64| {
            let bucket = both.quantile_bucket(quantile).ok().flatten();
            let quarters = bucket.map_or(0, |bucket| bucket.end());
            Duration::from_nanos(quarters * QUARTER_MICROSECOND_NANOS)
        };
        let middles = both.iter().map(|bucket| {
            u128::from(u64::midpoint(bucket.start(), bucket.end())) * u128::from(bucket.count())
        });
        let quarters = middles.sum::<u128>() / u128::from(count);
        let mean = Duration::from_nanos(quarters as u64 * QUARTER_MICROSECOND_NANOS);
        Some(Percentiles { count, mean, p50: at(0.5), p90: at(0.9), p99: at(0.99), max: at(1.0) })
    }

    /// The time that so large a share of the events did not exceed.
    pub(crate) fn at(&self, percentile: Ratio) -> Option<Duration> {
        let both = self.current.checked_add(&self.previous).ok()?;
        let bucket = both.quantile_bucket(percentile.get()).ok().flatten()?;
        Some(Duration::from_nanos(bucket.end() * QUARTER_MICROSECOND_NANOS))
    }

    pub(crate) fn profile(&self) -> Option<ServiceProfile> {
        let both = self.current.checked_add(&self.previous).ok()?;
        ServiceProfile::of(&both, QUARTER_MICROSECOND_NANOS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_to_within_three_percent() {
        let mut windowed = Windowed::new();
        for millis in 1..=1000 {
            windowed.record(millis * 1_000_000, 1);
        }
        let seen = windowed.percentiles().unwrap();
        let within = |seen: Duration, expected: f64| {
            let ratio = seen.as_secs_f64() / expected;
            assert!((1.0..1.04).contains(&ratio), "{seen:?} for {expected} s");
        };
        assert_eq!(seen.count, 1000);
        let mean = seen.mean.as_secs_f64() / 0.5005;
        assert!((0.98..1.02).contains(&mean), "{seen:?}");
        within(seen.p50, 0.5);
        within(seen.p90, 0.9);
        within(seen.p99, 0.99);
        within(seen.max, 1.0);
        within(windowed.at(Ratio::saturating(0.95)).unwrap(), 0.95);
        assert_eq!(Windowed::new().at(Ratio::saturating(0.95)), None);
    }

    #[test]
    fn samples_leave_after_the_second_window() {
        let mut windowed = Windowed::new();
        windowed.record(1_000_000, 1);
        windowed.rotate();
        assert_eq!(windowed.percentiles().unwrap().count, 1);
        windowed.rotate();
        assert_eq!(windowed.percentiles(), None);
    }

    #[test]
    fn a_time_beyond_the_range_is_counted_as_the_longest() {
        let mut windowed = Windowed::new();
        windowed.record(1_000_000_000_000_000, 1);
        assert_eq!(windowed.percentiles().unwrap().count, 1);
    }
}
