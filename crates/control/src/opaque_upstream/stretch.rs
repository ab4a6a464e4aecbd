//! What a stretch of time shows of an upstream.

use crate::Timestamp;

/// Counts over a stretch of time, and what Little's law makes of them.
///
/// Averaging the response times of those who have come back forgets those who
/// have not: just after a start, or after a change, it hears the quick ones only.
/// In flight × time counts everybody; divided by the completions it is the mean
/// response time, and it is right even early on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stretch {
    began: Timestamp,
    observed: Timestamp,
    completions: u32,
    /// Completions while every place was taken, or somebody waited for one.
    pressed: u32,
    in_flight_seconds: f64,
    batches: Batches,
}

/// How long batches of completions took: how far apart they are says how much of
/// a rate is luck, also where events are as unlike as a page and an export.
#[derive(Clone, Copy, Debug, Default)]
struct Batches {
    began: Timestamp,
    completions: u32,
    count: u32,
    sum: f64,
    sum_of_squares: f64,
}

/// Completions in a batch. Ten batches are two hundred completions.
const BATCH: u32 = 20;

/// A stretch in three numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Measurement {
    /// Completions a second.
    pub(crate) rate: f64,
    /// On average.
    pub(crate) in_flight: f64,
    /// In seconds, on average.
    pub(crate) response: f64,
}

impl Stretch {
    pub(crate) fn beginning(now: Timestamp) -> Self {
        let batches = Batches { began: now, ..Batches::default() };
        Self { began: now, observed: now, batches, ..Self::default() }
    }

    /// `in_flight` have been in flight since the last observation.
    #[inline]
    pub(crate) fn observe(&mut self, now: Timestamp, in_flight: u32) {
        let seconds = now.since(self.observed).as_secs_f64();
        self.in_flight_seconds += seconds * f64::from(in_flight);
        self.observed = self.observed.max(now);
    }

    #[inline]
    pub(crate) fn complete(&mut self, pressed: bool) {
        self.completions = self.completions.saturating_add(1);
        self.pressed = self.pressed.saturating_add(u32::from(pressed));
        self.batches.complete(self.observed);
    }

    pub(crate) fn completions(&self) -> u32 {
        self.completions
    }

    /// In seconds, to the last observation.
    pub(crate) fn length(&self) -> f64 {
        self.observed.since(self.began).as_secs_f64()
    }

    /// In seconds, on average; that of no completions is what one would make.
    pub(crate) fn response(&self) -> f64 {
        self.in_flight_seconds / f64::from(self.completions.max(1))
    }

    /// At nine completions of ten or more, every place was taken.
    pub(crate) fn is_pressed(&self) -> bool {
        u64::from(self.pressed) * 10 >= u64::from(self.completions) * 9
    }

    /// At no completion was every place taken.
    pub(crate) fn is_unpressed(&self) -> bool {
        self.pressed == 0
    }

    /// The standard error of the rate, relative to it; infinite of two batches or less.
    pub(crate) fn rate_error(&self) -> f64 {
        let Batches { count, sum, sum_of_squares, .. } = self.batches;
        if count < 3 || sum <= 0.0 {
            return f64::INFINITY;
        }
        let count = f64::from(count);
        let mean = sum / count;
        let variance = (sum_of_squares / count - mean * mean).max(0.0);
        (variance / (count - 1.0)).sqrt() / mean
    }

    pub(crate) fn measure(&self) -> Measurement {
        // A stretch of no length, with the clock standing still, is one nanosecond.
        let length = self.length().max(1e-9);
        Measurement {
            rate: f64::from(self.completions) / length,
            in_flight: self.in_flight_seconds / length,
            response: self.response(),
        }
    }
}

impl Batches {
    fn complete(&mut self, now: Timestamp) {
        self.completions += 1;
        if self.completions == BATCH {
            let took = now.since(self.began).as_secs_f64();
            self.count = self.count.saturating_add(1);
            self.sum += took;
            self.sum_of_squares += took * took;
            self.completions = 0;
            self.began = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn littles_law_counts_those_who_have_not_come_back() {
        let mut stretch = Stretch::beginning(at(0));
        stretch.observe(at(100), 32);
        stretch.complete(true);
        stretch.observe(at(400), 31);
        stretch.complete(true);
        // (0.1 s · 32 + 0.3 s · 31) ÷ 2
        assert!((stretch.response() - 6.25).abs() < 1e-9);
        assert!((stretch.measure().rate - 5.0).abs() < 1e-9);
        assert!((stretch.measure().in_flight - 31.25).abs() < 1e-9);
    }

    #[test]
    fn a_clock_that_steps_back_adds_nothing() {
        let mut stretch = Stretch::beginning(at(100));
        stretch.observe(at(200), 10);
        stretch.observe(at(50), 10);
        assert!((stretch.response() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_stretch_of_no_length_is_finite() {
        let mut stretch = Stretch::beginning(at(0));
        stretch.complete(false);
        let Measurement { rate, in_flight, response } = stretch.measure();
        assert!(rate.is_finite() && in_flight == 0.0 && response == 0.0);
    }

    #[test]
    fn one_unpressed_completion_in_ten_is_still_pressed() {
        let mut stretch = Stretch::default();
        (0..10).for_each(|index| stretch.complete(index > 0));
        assert!(stretch.is_pressed());
        stretch.complete(false);
        assert!(!stretch.is_pressed() && !stretch.is_unpressed());
    }

    #[test]
    fn a_steady_rate_has_no_error_and_batches_of_one_and_three_seconds_have_a_quarter() {
        let stretch = |millis_of: fn(u32) -> u64| {
            let mut now = 0;
            let mut stretch = Stretch::beginning(at(0));
            for index in 0..100 {
                now += millis_of(index / BATCH);
                stretch.observe(at(now), 1);
                stretch.complete(true);
            }
            stretch.rate_error()
        };
        assert!(stretch(|_| 50) < 1e-6);
        // 1, 3, 1, 3, 1 s: mean 1.8, variance 0.96, error √(0.96 ÷ 4) ÷ 1.8 = 0.272
        let error = stretch(|batch| if batch % 2 == 0 { 50 } else { 150 });
        assert!((error - 0.272).abs() < 1e-3, "{error}");
    }

    #[test]
    fn a_few_completions_tell_no_rate() {
        let mut stretch = Stretch::beginning(at(0));
        (0..2 * BATCH).for_each(|_| stretch.complete(true));
        assert_eq!(stretch.rate_error(), f64::INFINITY);
    }
}
