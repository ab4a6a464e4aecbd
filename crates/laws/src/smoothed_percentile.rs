//! The papers' monitor: the exponentially smoothed percentile of response times, as an error
//! relative to its target. For laws of one's own, too.
//!
//! A period ends with its last sample, or when its time is over, whichever comes
//! first [Welsh03 §3.2; Welsh02 §7.2.1]. A period without samples ends without
//! an answer: an idle stage has no percentile.

use std::time::Duration;

use tamarisk_control::{Ending, Finished, Target, Timestamp};

use crate::period_samples::PeriodSamples;

/// How long a period is, and how much the past counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Period {
    /// nreq: a period has at most so many samples.
    pub samples: u32,
    /// timeout: and lasts at most so long.
    pub timeout: Duration,
    /// α: the weight of the past.
    pub alpha: f64,
}

impl Period {
    /// [Welsh03 fig. 4; Welsh02 fig. 50]
    pub const PUBLISHED: Self = Self { samples: 100, timeout: Duration::from_secs(1), alpha: 0.7 };
}

/// The smoothed percentile of one class, against its target.
#[derive(Clone, Debug)]
pub struct SmoothedPercentile {
    period: Period,
    target: f64,
    percentile: f64,
    samples: PeriodSamples,
    cur: Option<f64>,
    began: Option<Timestamp>,
}

impl SmoothedPercentile {
    /// Of events that are promised `target`; nothing is known yet.
    pub fn new(target: Target, period: Period) -> Self {
        Self {
            period,
            target: target.response_time().as_secs_f64(),
            percentile: target.at().get(),
            samples: PeriodSamples::new(period.samples as usize),
            cur: None,
            began: None,
        }
    }

    /// The same smoothed percentile of the past, against another target. If the
    /// percentile itself is another one, its past says nothing.
    pub fn set_target(&mut self, target: Target) {
        let percentile = target.at().get();
        if percentile != self.percentile {
            self.percentile = percentile;
            self.cur = None;
        }
        self.target = target.response_time().as_secs_f64();
    }

    /// Adds an event that has run. If it ends the period: how far, relative to the
    /// target, the smoothed percentile lies above it.
    ///
    /// An event that failed or was terminated counts as no sooner than the target:
    /// errors come fast, and must not read as good service. One that was abandoned counts only if
    /// it was late already.
    pub fn learn(&mut self, now: Timestamp, finished: &Finished) -> Option<f64> {
        let response = finished.response.as_secs_f64();
        let response = match finished.ending {
            Ending::Completed => response,
            Ending::Failed | Ending::Terminated => response.max(self.target),
            Ending::Abandoned if response >= self.target => response,
            Ending::Abandoned | Ending::Untimed => return None,
        };
        self.began.get_or_insert(now);
        self.samples.push(response);
        if self.samples.is_full() { self.end_period(now) } else { None }
    }

    /// Lets time pass. If that ends the period: the error, unless there was no sample.
    pub fn elapse(&mut self, now: Timestamp) -> Option<f64> {
        let began = *self.began.get_or_insert(now);
        if now.since(began) >= self.period.timeout { self.end_period(now) } else { None }
    }

    /// cur, in seconds; zero before the first period has ended.
    pub fn smoothed_seconds(&self) -> f64 {
        self.cur.unwrap_or(0.0)
    }

    fn end_period(&mut self, now: Timestamp) -> Option<f64> {
        self.began = Some(now);
        if self.samples.is_empty() {
            return None;
        }
        let alpha = self.period.alpha;
        let samp = self.samples.take_quantile(self.percentile);
        let cur = self.cur.map_or(samp, |cur| alpha * cur + (1.0 - alpha) * samp);
        self.cur = Some(cur);
        Some((cur - self.target) / self.target)
    }
}

#[cfg(test)]
mod tests {
    use tamarisk_control::{ClassId, Ratio, Together};

    use super::*;

    fn monitor() -> SmoothedPercentile {
        let target = Target::percentile(Ratio::saturating(0.9), Duration::from_secs(1)).unwrap();
        SmoothedPercentile::new(target, Period::PUBLISHED)
    }

    fn finish(monitor: &mut SmoothedPercentile, millis: u64, ending: Ending) -> Option<f64> {
        let response = Duration::from_millis(millis);
        let finished = Finished {
            class: ClassId::DEFAULT,
            service: response,
            response,
            ending,
            kind: 0,
            together: Together::ALONE,
        };
        monitor.learn(Timestamp::ZERO, &finished)
    }

    #[test]
    fn the_hundredth_sample_ends_a_period() {
        let mut monitor = monitor();
        assert!((0..99).all(|_| finish(&mut monitor, 1500, Ending::Completed).is_none()));
        assert_eq!(finish(&mut monitor, 1500, Ending::Completed), Some(0.5));
    }

    #[test]
    fn a_percentile_is_averaged_with_seven_tenths_of_the_past() {
        let mut monitor = monitor();
        (0..100).for_each(|_| _ = finish(&mut monitor, 1000, Ending::Completed));
        (0..100).for_each(|_| _ = finish(&mut monitor, 2000, Ending::Completed));
        // 0.7·1 s + 0.3·2 s
        assert!((monitor.smoothed_seconds() - 1.3).abs() < 1e-9);
    }

    #[test]
    fn a_second_ends_a_period_too_but_not_an_empty_one() {
        let mut monitor = monitor();
        let second = Timestamp::ZERO + Duration::from_secs(1);
        assert_eq!(monitor.elapse(Timestamp::ZERO), None);
        assert_eq!(monitor.elapse(second), None);
        finish(&mut monitor, 500, Ending::Completed);
        assert_eq!(monitor.elapse(second + Duration::from_secs(1)), Some(-0.5));
    }

    #[test]
    fn errors_count_as_no_sooner_than_the_target_and_untimed_events_not_at_all() {
        let mut monitor = monitor();
        assert!((0..200).all(|_| finish(&mut monitor, 1, Ending::Untimed).is_none()));
        (0..99).for_each(|_| _ = finish(&mut monitor, 1, Ending::Failed));
        assert_eq!(finish(&mut monitor, 1, Ending::Terminated), Some(0.0));
    }
}
