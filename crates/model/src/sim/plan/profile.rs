//! Values that change with time: an arrival rate, a slow-down.

use std::ops::Range;
use std::time::Duration;

/// Straight lines between points in time; before the first point and after the last
/// it stays as there. Two points at one time are a jump.
///
/// # Examples
/// 100, from 20 s to 30 s a ramp up to 500, at 60 s back to 100:
/// ```
/// use std::time::Duration;
/// use tamarisk_model::sim::Profile;
///
/// let at = Duration::from_secs;
/// let profile = Profile::constant(100.0).ramp(at(20), at(30), 500.0).step(at(60), 100.0);
/// assert_eq!(profile.value(at(25)), 300.0);
/// assert_eq!(profile.value(at(60)), 100.0);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    points: Vec<(Duration, f64)>,
}

/// Why a [`Profile`] cannot be followed.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidProfile {
    /// A step or ramp begins before the one before it has ended.
    #[error("the points in time {0:?} and {1:?} are out of order")]
    OutOfOrder(Duration, Duration),
    /// Negative, infinite or NaN.
    #[error("{0} is not a finite number of zero or more")]
    Value(f64),
    /// Above what can be simulated in steps of a nanosecond.
    #[error("{0} is above {VALUE_MAX}")]
    TooGreat(f64),
}

/// A thousand arrivals in a microsecond.
const VALUE_MAX: f64 = 1e9;

impl Profile {
    /// Always `value`.
    pub fn constant(value: f64) -> Self {
        Self { points: vec![(Duration::ZERO, value)] }
    }

    /// As before until `at`, and `value` from then on.
    #[must_use]
    pub fn step(mut self, at: Duration, value: f64) -> Self {
        self.points.push((at, self.last()));
        self.points.push((at, value));
        self
    }

    /// As before until `from`, and then in a straight line to `value` at `to`.
    #[must_use]
    pub fn ramp(mut self, from: Duration, to: Duration, value: f64) -> Self {
        self.points.push((from, self.last()));
        self.points.push((to, value));
        self
    }

    /// As before, but `value` from `from` until `to`.
    #[must_use]
    pub fn spike(self, from: Duration, to: Duration, value: f64) -> Self {
        let before = self.last();
        self.step(from, value).step(to, before)
    }

    /// Its value at the beginning until `from`, and from there on what it is in `part`, so many times
    /// in succession.
    ///
    /// # Examples
    /// A minute of which twenty seconds are busy, three times after ten quiet minutes:
    /// ```
    /// use std::time::Duration;
    /// use tamarisk_model::sim::Profile;
    ///
    /// let at = Duration::from_secs;
    /// let minute = Profile::constant(100.0).spike(at(10), at(30), 500.0);
    /// let profile = minute.repeated(at(0)..at(60), at(600), 3);
    /// assert_eq!(profile.value(at(609)), 100.0);
    /// assert_eq!(profile.value(at(735)), 500.0);
    /// ```
    #[must_use]
    pub fn repeated(&self, part: Range<Duration>, from: Duration, times: u32) -> Self {
        let length = part.end.saturating_sub(part.start);
        let mut repeated = Self::constant(self.value(Duration::ZERO));
        for round in 0..times {
            let start = from + round * length;
            repeated = repeated.step(start, self.value(part.start));
            let within = self.points.iter().filter(|(at, _)| part.start < *at && *at <= part.end);
            repeated.points.extend(within.map(|&(at, value)| (start + (at - part.start), value)));
            repeated.points.push((start + length, self.value(part.end)));
        }
        repeated
    }

    /// Everywhere `factor` times as much.
    #[must_use]
    pub fn times(mut self, factor: f64) -> Self {
        self.points.iter_mut().for_each(|(_, value)| *value *= factor);
        self
    }

    /// What it is at `at`; after a jump at that very time.
    pub fn value(&self, at: Duration) -> f64 {
        let next = self.points.partition_point(|point| point.0 <= at);
        match (next.checked_sub(1).map(|index| self.points[index]), self.points.get(next)) {
            (Some((_, value)), None) => value,
            (None, _) => self.points.first().map_or(0.0, |point| point.1),
            (Some((from, value)), Some(&(to, end))) => {
                let share = (at - from).as_secs_f64() / (to - from).as_secs_f64();
                value + (end - value) * share
            }
        }
    }

    fn last(&self) -> f64 {
        self.points.last().map_or(0.0, |point| point.1)
    }

    pub(in crate::sim) fn curve(&self) -> Result<Curve, InvalidProfile> {
        for &(_, value) in &self.points {
            if !value.is_finite() || value < 0.0 {
                return Err(InvalidProfile::Value(value));
            }
            if value > VALUE_MAX {
                return Err(InvalidProfile::TooGreat(value));
            }
        }
        for pair in self.points.windows(2) {
            if pair[0].0 > pair[1].0 {
                return Err(InvalidProfile::OutOfOrder(pair[0].0, pair[1].0));
            }
        }
        let segments = self.points.windows(2).filter(|pair| pair[0].0 < pair[1].0).map(|pair| {
            let (from, to) = (pair[0].0.as_nanos() as f64, pair[1].0.as_nanos() as f64);
            Segment { to, value: pair[0].1, slope: (pair[1].1 - pair[0].1) / (to - from), from }
        });
        Ok(Curve { segments: segments.collect(), last: self.last() })
    }
}

/// A profile made ready to be followed. Time is in nanoseconds, values as they are.
#[derive(Clone, Debug)]
pub(in crate::sim) struct Curve {
    segments: Box<[Segment]>,
    last: f64,
}

#[derive(Clone, Debug)]
struct Segment {
    from: f64,
    to: f64,
    value: f64,
    slope: f64,
}

impl Curve {
    /// The value, if it never changes.
    #[inline]
    pub(in crate::sim) fn constant(&self) -> Option<f64> {
        self.segments.is_empty().then_some(self.last)
    }

    /// The value at `at`.
    pub(in crate::sim) fn value(&self, at: u64) -> f64 {
        let at = at as f64;
        match self.segments_from(at).first() {
            Some(segment) => segment.value + segment.slope * (at - segment.from).max(0.0),
            None => self.last,
        }
    }

    /// Those that do not end before `at`.
    fn segments_from(&self, at: f64) -> &[Segment] {
        &self.segments[self.segments.partition_point(|segment| segment.to <= at)..]
    }

    /// When, from `at` on, `area` (value × seconds) has come together; `None` if never.
    /// The inverse of the integrated rate: unit-mean gaps go in, arrivals come out.
    pub(in crate::sim) fn reach(&self, at: u64, area: f64) -> Option<u64> {
        let mut at = at as f64;
        let mut left = area * 1e9;
        for segment in self.segments_from(at) {
            let value = segment.value + segment.slope * (at - segment.from).max(0.0);
            let span = segment.to - at;
            let whole = (value + segment.slope * span / 2.0) * span;
            if left < whole {
                return Some((at + solve(value, segment.slope, left).min(span)).round() as u64);
            }
            left -= whole;
            at = segment.to;
        }
        (self.last > 0.0).then(|| (at + left / self.last).round() as u64)
    }
}

/// The least x ≥ 0 with value·x + slope·x²/2 = area, which must exist. Written so that
/// nothing cancels when the slope is small.
fn solve(value: f64, slope: f64, area: f64) -> f64 {
    let root = (value * value + 2.0 * slope * area).max(0.0).sqrt();
    if value + root > 0.0 { 2.0 * area / (value + root) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn an_arrival_comes_when_the_area_under_the_rate_is_reached() {
        // 10/s for 2 s, a ramp to 30/s at 4 s (an area of 40), 30/s after.
        let curve = Profile::constant(10.0).ramp(2 * S, 4 * S, 30.0).curve().unwrap();
        assert_eq!(curve.reach(0, 5.0), Some(500_000_000));
        assert_eq!(curve.reach(0, 60.0), Some(4_000_000_000));
        assert_eq!(curve.reach(1_000_000_000, 80.0), Some(5_000_000_000));
        // From 2 s on: 10·x + 5·x² = 15 at x = 1.
        assert_eq!(curve.reach(0, 35.0), Some(3_000_000_000));
    }

    #[test]
    fn a_rate_that_has_fallen_to_zero_brings_no_one() {
        let curve = Profile::constant(10.0).step(2 * S, 0.0).curve().unwrap();
        assert_eq!(curve.reach(0, 19.0), Some(1_900_000_000));
        assert_eq!(curve.reach(0, 21.0), None);
        let paused = Profile::constant(10.0).spike(S, 5 * S, 0.0).curve().unwrap();
        assert_eq!(paused.reach(0, 11.0), Some(5_100_000_000));
    }

    #[test]
    fn a_spike_is_over_when_it_is_over() {
        let profile = Profile::constant(1.0).spike(S, 2 * S, 9.0);
        let curve = profile.curve().unwrap();
        for (at, expected) in [(0.5, 1.0), (1.0, 9.0), (1.5, 9.0), (2.0, 1.0), (9.0, 1.0)] {
            let at = Duration::from_secs_f64(at);
            assert_eq!(profile.value(at), expected, "{at:?}");
            assert_eq!(curve.value(at.as_nanos() as u64), expected, "{at:?}");
        }
    }

    #[test]
    fn a_part_that_is_repeated_is_the_same_each_time() {
        // 1, from 2 s to 4 s up to 5, at 6 s back to 1, and at 7 s to 9.
        let profile = Profile::constant(1.0).ramp(2 * S, 4 * S, 5.0).step(6 * S, 1.0);
        let repeated = profile.step(7 * S, 9.0).repeated(3 * S..7 * S, 10 * S, 2);
        let points =
            [(0, 1.0), (9, 1.0), (10, 3.0), (11, 5.0), (12, 5.0), (13, 1.0), (14, 3.0), (15, 5.0)];
        for (at, expected) in points.into_iter().chain([(17, 1.0), (18, 9.0), (30, 9.0)]) {
            assert_eq!(repeated.value(at * S), expected, "{at} s");
        }
        // The quiet time, and twice (3 + 5)/2 + 2·5 + 1.
        let curve = repeated.curve().unwrap();
        let reached = curve.reach(0, 10.0 + 2.0 * 15.0 + 9.0).unwrap();
        assert!(reached.abs_diff(19_000_000_000) < 10, "{reached}");
    }

    #[test]
    fn what_is_repeated_never_is_as_at_the_beginning() {
        let profile = Profile::constant(1.0).step(S, 2.0);
        assert_eq!(profile.repeated(S..2 * S, S, 0), Profile::constant(1.0));
    }

    #[test]
    fn time_that_runs_back_and_values_that_are_none_are_rejected() {
        let back = Profile::constant(1.0).step(2 * S, 2.0).step(S, 3.0);
        assert_eq!(back.curve().unwrap_err(), InvalidProfile::OutOfOrder(2 * S, S));
        for value in [-1.0, f64::INFINITY] {
            let error = Profile::constant(value).curve().unwrap_err();
            assert_eq!(error, InvalidProfile::Value(value));
        }
        assert!(Profile::constant(f64::NAN).curve().is_err());
        assert_eq!(Profile::constant(1e10).curve().unwrap_err(), InvalidProfile::TooGreat(1e10));
    }

    proptest! {
        #[test]
        fn the_area_up_to_where_it_is_reached_is_the_area_asked_for(
            values in prop::collection::vec((1u32..5, 0.0f64..100.0), 1..6),
            area in 0.001f64..50.0,
        ) {
            let mut profile = Profile::constant(5.0);
            let mut end = Duration::ZERO;
            for (seconds, value) in values {
                profile = profile.ramp(end, end + seconds * S, value);
                end += seconds * S;
            }
            let Some(reached) = profile.curve().unwrap().reach(0, area) else {
                return Ok(());
            };
            // The midpoint rule is exact enough over steps of a thousandth.
            let steps = 20_000;
            let width = reached as f64 / f64::from(steps);
            let integral: f64 = (0..steps)
                .map(|step| Duration::from_nanos(((f64::from(step) + 0.5) * width) as u64))
                .map(|at| profile.value(at) * width / 1e9)
                .sum();
            prop_assert!((integral - area).abs() < 0.01 + 0.001 * area, "{integral} {area}");
        }
    }
}
