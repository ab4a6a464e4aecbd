//! Counters and histograms of a run, in constant memory.

use super::watch::Outcome;

/// Durations in buckets that are at most 1/64 of their value wide.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::sim) struct Histogram {
    /// Grown on demand; a duration of an hour needs 2400 buckets.
    counts: Vec<u64>,
}

/// Each doubling is cut into 2⁶ buckets.
const GRAIN_BITS: u32 = 6;

impl Histogram {
    #[inline]
    fn record(&mut self, nanos: u64) {
        let bucket = bucket(nanos);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += 1;
        } else {
            self.grow(bucket);
        }
    }

    #[cold]
    fn grow(&mut self, bucket: usize) {
        self.counts.resize(bucket + 1, 0);
        self.counts[bucket] += 1;
    }

    /// The middle of the bucket in which the value of nearest rank lies, in
    /// nanoseconds; `None` of nothing.
    pub(in crate::sim) fn quantile(&self, share: f64) -> Option<f64> {
        let total: u64 = self.counts.iter().sum();
        let rank = ((share * total as f64).ceil() as u64).clamp(1, total.max(1));
        let mut seen = 0;
        let bucket = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some(f64::midpoint(lower_bound(bucket), lower_bound(bucket + 1) - 1.0))
    }
}

#[inline]
fn bucket(nanos: u64) -> usize {
    let shift = (u64::BITS - GRAIN_BITS - 1).saturating_sub(nanos.leading_zeros());
    ((u64::from(shift) << GRAIN_BITS) + (nanos >> shift)) as usize
}

fn lower_bound(bucket: usize) -> f64 {
    let grain = 1 << GRAIN_BITS;
    let shift = (bucket / grain).saturating_sub(1);
    (bucket - shift * grain) as f64 * 2f64.powi(shift as i32)
}

/// Durations of one kind: how many, how long together, how they spread.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::sim) struct Times {
    pub(in crate::sim) count: u64,
    /// Exact, in nanoseconds.
    pub(in crate::sim) sum: u128,
    pub(in crate::sim) histogram: Histogram,
    /// `count` and `sum` at the beginning of each part of the measured time, and at
    /// the end of the last.
    marks: Vec<(u64, u128)>,
}

impl Times {
    pub(in crate::sim) fn mark(&mut self) {
        self.marks.push((self.count, self.sum));
    }

    /// How many fell into each part, and their sum in seconds.
    pub(in crate::sim) fn batches(&self) -> impl Iterator<Item = (f64, f64)> {
        self.marks
            .windows(2)
            .map(|pair| ((pair[1].0 - pair[0].0) as f64, (pair[1].1 - pair[0].1) as f64 / 1e9))
    }

    #[inline]
    pub(in crate::sim) fn record(&mut self, nanos: u64) {
        self.count += 1;
        self.sum += u128::from(nanos);
        self.histogram.record(nanos);
    }
}

/// How often each outcome came, of events that were offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All that asked to enter.
    pub offered: u64,
    /// Rejected on arrival.
    pub rejected: u64,
    /// Done.
    pub completed: u64,
    /// Taken out of the queue: too late to be of use, or their client had left.
    pub dropped: u64,
    /// Ended while they ran, for longer than a law allows, or of no use because their client
    /// had left.
    pub terminated: u64,
    /// Ended without an answer: the reply never came.
    pub failed: u64,
}

impl Counts {
    /// All that have ended; `offered` is this and what is inside.
    pub fn ended(&self) -> u64 {
        self.rejected + self.completed + self.dropped + self.terminated + self.failed
    }

    #[inline]
    pub(in crate::sim) fn end(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Completed => self.completed += 1,
            Outcome::Rejected(_) => self.rejected += 1,
            Outcome::Dropped => self.dropped += 1,
            Outcome::Terminated => self.terminated += 1,
            Outcome::Failed => self.failed += 1,
        }
    }

    /// What came after `earlier`.
    pub(in crate::sim) fn since(&self, earlier: &Self) -> Self {
        Self {
            offered: self.offered - earlier.offered,
            rejected: self.rejected - earlier.rejected,
            completed: self.completed - earlier.completed,
            dropped: self.dropped - earlier.dropped,
            terminated: self.terminated - earlier.terminated,
            failed: self.failed - earlier.failed,
        }
    }
}

/// A number in time, and its integral.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::sim) struct Level {
    pub(in crate::sim) now: u32,
    /// The integral up to an instant `t` is `now·t − owed`, exact in nanoseconds.
    owed: i128,
}

impl Level {
    #[inline]
    pub(in crate::sim) fn up(&mut self, at: u64) {
        self.now += 1;
        self.owed += i128::from(at);
    }

    #[inline]
    pub(in crate::sim) fn down(&mut self, at: u64) {
        self.now -= 1;
        self.owed -= i128::from(at);
    }

    /// The integral from the beginning until `at`.
    pub(in crate::sim) fn area(&self, at: u64) -> i128 {
        i128::from(self.now) * i128::from(at) - self.owed
    }
}

/// What a law sets, in time, and its integral.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) struct Course {
    value: f64,
    /// The integral until `since`, in nanoseconds.
    area: f64,
    since: u64,
}

impl Course {
    /// `value` from the beginning on.
    pub(in crate::sim) const fn new(value: f64) -> Self {
        Self { value, area: 0.0, since: 0 }
    }

    pub(in crate::sim) fn set(&mut self, at: u64, value: f64) {
        *self = Self { value, area: self.area(at), since: at };
    }

    /// The integral from the beginning until `at`.
    pub(in crate::sim) fn area(&self, at: u64) -> f64 {
        self.area + self.value * (at - self.since) as f64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_value_lies_in_its_bucket_which_is_narrow(nanos in any::<u64>()) {
            let bucket = bucket(nanos);
            let (from, to) = (lower_bound(bucket), lower_bound(bucket + 1));
            prop_assert!(from <= nanos as f64 && nanos as f64 <= to, "{nanos} {from} {to}");
            prop_assert!(to - from <= (from / 64.0).max(1.0), "{nanos} {from} {to}");
        }

        #[test]
        fn a_quantile_is_that_of_the_sorted_list(
            mut values in prop::collection::vec(0u64..10_000_000_000, 1..200),
            share in 0.0f64..=1.0,
        ) {
            let mut histogram = Histogram::default();
            for &value in &values {
                histogram.record(value);
            }
            values.sort_unstable();
            let rank = (share * values.len() as f64).ceil() as usize;
            let exact = values[rank.max(1) - 1] as f64;
            let quantile = histogram.quantile(share).unwrap();
            prop_assert!((quantile - exact).abs() <= exact / 64.0 + 1.0, "{quantile} {exact}");
        }
    }

    #[test]
    fn the_quantile_of_nothing_is_none() {
        assert_eq!(Histogram::default().quantile(0.5), None);
    }

    #[test]
    fn a_level_is_integrated_over_time() {
        let mut level = Level::default();
        level.up(10);
        level.up(20);
        level.down(50);
        // One from 10, two from 20, one from 50.
        assert_eq!(level.area(60), 10 + 2 * 30 + 10);
    }

    #[test]
    fn what_a_law_sets_is_integrated_over_time() {
        let mut course = Course::new(1.0);
        course.set(10, 0.5);
        course.set(30, 2.0);
        assert_eq!(course.area(35), 10.0 + 0.5 * 20.0 + 2.0 * 5.0);
    }
}
