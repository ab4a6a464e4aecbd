//! A cumulative histogram of times, with the fixed buckets that Prometheus needs.
//!
//! It is kept beside the percentiles of the last seconds: a monitoring system that reads it from
//! time to time can form the distribution of any period between two readings, and add those of
//! several processes.

use std::time::Duration;

/// The upper bounds of the buckets, inclusive; above the last one there is no bound. Steps of
/// 1, 2.5 and 5, from what a short stage takes to the longest that most clients wait for.
const BOUNDS: [Duration; 18] = [
    Duration::from_micros(100),
    Duration::from_micros(250),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_micros(2500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_millis(2500),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(25),
    Duration::from_secs(60),
];

/// The same in nanoseconds, and the one that nothing exceeds.
const BOUNDS_NANOS: [u64; BUCKETS] = {
    let mut nanos = [u64::MAX; BUCKETS];
    let mut index = 0;
    while index < BOUNDS.len() {
        nanos[index] = BOUNDS[index].as_nanos() as u64;
        index += 1;
    }
    nanos
};

const BUCKETS: usize = BOUNDS.len() + 1;

/// For each number of significant bits of a time in nanoseconds, the first bucket that such a time
/// may belong to. The bounds are at least a factor of two apart, so at most one of them lies
/// between two powers of two: it is this bucket or the next.
const FIRST: [u8; 65] = {
    let mut first = [0; 65];
    let mut bits = 1;
    while bits <= 64 {
        let least = 1_u64 << (bits - 1);
        let mut index = 0;
        while BOUNDS_NANOS[index] < least {
            index += 1;
        }
        first[bits] = index as u8;
        bits += 1;
    }
    first
};

/// How many times were recorded since the start, by length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeHistogram {
    counts: [u64; BUCKETS],
    sum_nanos: u128,
}

impl TimeHistogram {
    pub(crate) const fn new() -> Self {
        Self { counts: [0; BUCKETS], sum_nanos: 0 }
    }

    /// Counts `count` events that took `nanos` each.
    #[inline]
    pub(crate) fn record(&mut self, nanos: u64, count: u32) {
        let first = usize::from(FIRST[(u64::BITS - nanos.leading_zeros()) as usize]);
        let bucket = first + usize::from(nanos > BOUNDS_NANOS[first]);
        self.counts[bucket] += u64::from(count);
        self.sum_nanos += u128::from(nanos) * u128::from(count);
    }

    /// How many times were recorded.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Their sum in seconds.
    pub fn sum_seconds(&self) -> f64 {
        self.sum_nanos as f64 / 1e9
    }

    /// Upper bounds, each with the number of times that were not longer: in ascending order,
    /// without the last bucket, which has no bound and the [`count`](Self::count).
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let mut total = 0;
        BOUNDS.into_iter().zip(&self.counts).map(move |(bound, count)| {
            total += count;
            (bound, total)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bucket that a time is counted in; found by search instead of by its bits.
    fn expected(nanos: u64) -> usize {
        BOUNDS.iter().position(|bound| u128::from(nanos) <= bound.as_nanos()).unwrap_or(18)
    }

    fn bucket(nanos: u64) -> usize {
        let mut histogram = TimeHistogram::new();
        histogram.record(nanos, 1);
        histogram.counts.iter().position(|count| *count == 1).unwrap()
    }

    #[test]
    fn a_time_is_counted_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        for bound in BOUNDS {
            let nanos = bound.as_nanos() as u64;
            for time in [nanos - 1, nanos, nanos + 1] {
                assert_eq!(bucket(time), expected(time), "{time} ns");
            }
        }
        for bits in 0..64 {
            for time in [(1 << bits) - 1, 1 << bits, (1 << bits) + 1] {
                assert_eq!(bucket(time), expected(time), "{time} ns");
            }
        }
        assert_eq!(bucket(u64::MAX), 18);
    }

    #[test]
    fn bounds_are_at_least_a_factor_of_two_apart() {
        assert!(BOUNDS.windows(2).all(|pair| pair[1] >= 2 * pair[0]));
    }

    #[test]
    fn buckets_are_cumulative_and_the_sum_counts_every_event() {
        let mut histogram = TimeHistogram::new();
        histogram.record(1_000_000, 2);
        histogram.record(3_000_000, 1);
        histogram.record(90_000_000_000, 1);
        assert_eq!(histogram.count(), 4);
        // 2 × 1 ms + 3 ms + 90 s
        assert_eq!(histogram.sum_seconds(), 90.005);
        let at = |millis| {
            let bound = Duration::from_millis(millis);
            histogram.buckets().find(|bucket| bucket.0 == bound).unwrap().1
        };
        assert_eq!([at(1), at(5), at(60_000)], [2, 3, 3]);
    }

    #[test]
    fn a_long_time_of_many_events_does_not_overflow() {
        let mut histogram = TimeHistogram::new();
        histogram.record(u64::MAX, u32::MAX);
        assert_eq!(histogram.count(), u64::from(u32::MAX));
        assert!(histogram.sum_seconds() > 1e19);
    }
}
