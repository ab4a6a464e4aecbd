//! The trim: feedback that corrects the predicted wait by the measured percentile.
//!
//! The prediction is a model, and a model is wrong where the stage differs from
//! it: workers that share a processor, a queue inside the handler, batches. What
//! counts in the end is the promised percentile of real response times. Where it
//! exceeds the target, predicted waits are multiplied by a larger g; where it
//! keeps it, g goes back towards 1, slowly, since a percentile below its target
//! is no sign of a bad model.

use std::time::Duration;

use tamarisk_control::Timestamp;

use crate::period_samples::{PeriodSamples, nearest_rank};

/// The correction is reconsidered after so many completions [Welsh03 fig. 4: nreq] …
const SAMPLES: usize = 100;
/// … or after so long [Welsh03 fig. 4: timeout] …
const PERIOD: Duration = Duration::from_secs(1);
/// … but not again within this: a stage that is crossed a million times a second needs
/// no verdict every 100 µs, and the first hundred of that time speak for the others …
const PERIOD_MIN: Duration = Duration::from_millis(5);
/// … provided that there are so many samples: fewer than twenty leave less than
/// two above the 90th percentile, and one slow event would speak for all.
const SAMPLES_MIN: usize = 20;

/// An answer later than this many targets is just late.
const RATIO_MAX: f64 = 1e6;

/// g stays in this range, so that no run of bad luck can shut a stage or
/// blind it to its own queue.
const CORRECTION_MIN: f64 = 0.5;
const CORRECTION_MAX: f64 = 4.0;

/// The correction g of the predicted wait of one priority level.
#[derive(Clone, Debug)]
pub(crate) struct Trim {
    correction: f64,
    /// Response time ÷ target of the events since the last verdict.
    ratios: PeriodSamples,
    /// How many of them are over 1.
    late: usize,
    percentiles: f64,
    since: Option<Timestamp>,
    /// When the next sample is wanted.
    next: Timestamp,
}

impl Trim {
    pub(crate) fn new() -> Self {
        let ratios = PeriodSamples::new(SAMPLES);
        Self {
            correction: 1.0,
            ratios,
            late: 0,
            percentiles: 0.0,
            since: None,
            next: Timestamp::ZERO,
        }
    }

    /// g: real wait ÷ predicted wait, as far as the percentile can tell.
    #[inline]
    pub(crate) fn correction(&self) -> f64 {
        self.correction
    }

    /// Whether there is anything to learn from an event that ends now.
    #[inline]
    pub(crate) fn wants(&self, now: Timestamp) -> bool {
        now >= self.next
    }

    /// Learns from an event whose response time was `ratio` of its target, which
    /// is for `percentile`. Where classes promise different percentiles the
    /// verdict uses their mean: so many late events are allowed in all.
    pub(crate) fn learn(&mut self, now: Timestamp, ratio: f64, percentile: f64) {
        let began = self.next.max(*self.since.get_or_insert(now));
        self.ratios.push(ratio.min(RATIO_MAX));
        self.late += usize::from(ratio > 1.0);
        self.percentiles += percentile;
        if self.ratios.is_full() {
            self.judge(now);
            self.next = began + PERIOD_MIN;
        }
    }

    pub(crate) fn on_tick(&mut self, now: Timestamp) {
        let since = *self.since.get_or_insert(now);
        if now.since(since) >= PERIOD {
            self.judge(now);
        }
    }

    fn judge(&mut self, now: Timestamp) {
        let count = self.ratios.len();
        let percentile = self.percentiles / count.max(1) as f64;
        // While the promise is kept it does not matter by how much.
        let in_time = count - self.late;
        let error = if in_time > nearest_rank(percentile, count.max(1)) {
            self.ratios.clear();
            0.0
        } else {
            self.ratios.take_quantile(percentile) - 1.0
        };
        if count >= SAMPLES_MIN && error > 0.0 {
            self.correction *= (0.3 * error).min(0.4).exp();
        } else {
            self.correction += 0.1 * (1.0 - self.correction);
        }
        self.correction = self.correction.clamp(CORRECTION_MIN, CORRECTION_MAX);
        (self.percentiles, self.late) = (0.0, 0);
        self.since = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fed(ratios: impl IntoIterator<Item = f64>) -> Trim {
        let mut trim = Trim::new();
        for ratio in ratios {
            trim.learn(Timestamp::ZERO, ratio, 0.9);
        }
        trim
    }

    #[test]
    fn a_p90_of_twice_the_target_raises_g_by_e_to_the_0_3() {
        // e = 2 − 1 = 1: g = exp(min(0.3, 0.4)) = 1.3499
        assert!((fed([2.0; 100]).correction() - 0.3_f64.exp()).abs() < 1e-12);
    }

    #[test]
    fn one_step_raises_g_by_at_most_e_to_the_0_4() {
        assert!((fed([1e300; 100]).correction() - 0.4_f64.exp()).abs() < 1e-12);
    }

    #[test]
    fn g_never_exceeds_four() {
        assert_eq!(fed([1e9; 2000]).correction(), 4.0);
    }

    #[test]
    fn ten_late_answers_of_a_hundred_keep_a_p90() {
        let ratios = (0..100).map(|index| if index < 10 { 5.0 } else { 0.5 });
        assert_eq!(fed(ratios).correction(), 1.0);
    }

    #[test]
    fn g_recovers_a_tenth_of_the_way_each_second() {
        let mut trim = fed([2.0; 100]);
        trim.on_tick(Timestamp::from_nanos(1_000_000_000));
        let expected = 0.3_f64.exp() + 0.1 * (1.0 - 0.3_f64.exp());
        assert!((trim.correction() - expected).abs() < 1e-12);
    }

    #[test]
    fn nineteen_slow_answers_in_a_second_raise_nothing() {
        let mut trim = fed([9.0; 19]);
        trim.on_tick(Timestamp::from_nanos(1_000_000_000));
        assert_eq!(trim.correction(), 1.0);
    }

    #[test]
    fn no_more_than_a_hundred_samples_are_wanted_in_five_milliseconds() {
        let mut trim = Trim::new();
        let wanted = |trim: &mut Trim, micros: u64| {
            let now = Timestamp::from_nanos(micros * 1000);
            let wants = trim.wants(now);
            if wants {
                trim.learn(now, 0.5, 0.9);
            }
            wants
        };
        assert_eq!((0..5000).filter(|&micros| wanted(&mut trim, micros)).count(), 100);
        assert_eq!((5000..9000).filter(|&micros| wanted(&mut trim, micros)).count(), 100);
    }

    #[test]
    fn time_standing_still_changes_nothing() {
        let mut trim = fed([2.0; 100]);
        let before = trim.correction();
        (0..10).for_each(|_| trim.on_tick(Timestamp::ZERO));
        assert_eq!(trim.correction(), before);
    }
}
