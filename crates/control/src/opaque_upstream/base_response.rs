//! How long the upstream takes when nobody waits in it.

use std::time::Duration;

use crate::Timestamp;
use crate::recent_samples::RecentSamples;

/// So many unpressed stretches are remembered, …
const STRETCHES_KEPT: usize = 64;
/// … at most one in so long: together the last 16 s and more, so that the few
/// seconds in which a load comes up to the capacity do not fill the memory.
const STRETCH_EVERY: Duration = Duration::from_millis(250);
/// Of their mean responses this quantile is the base: at high load many of them
/// already queued in the upstream, and the quick ones are those that did not.
const STRETCHES_QUANTILE: f64 = 0.25;

/// One probe raises a measured estimate by no more than this: it may be luck.
const RAISING_MAX: f64 = 1.5;
/// While the throughput shows no need of it, an estimate that was not measured
/// without pressure is lowered to this, once in each probe.
const LOWERING: f64 = 0.85;
/// The same for a mere guess, which is likely to be far too high.
const LOWERING_GUESS: f64 = 0.7;

/// The mean response time in seconds without queueing, as well as it is known.
#[derive(Clone, Debug)]
pub(crate) struct BaseResponse {
    unpressed: RecentSamples,
    learned: Option<Timestamp>,
    estimate: Option<f64>,
    evidence: Evidence,
}

/// What an estimate rests on.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Evidence {
    /// The least response of any stretch so far; there may be queueing in it.
    LeastSeen,
    /// With more in flight throughput grew as much, so that there was none;
    /// since then the estimate may have been lowered.
    ThroughputFollowed,
    /// Stretches in which the limit pressed nobody.
    Unpressed,
}

impl BaseResponse {
    pub(crate) fn new() -> Self {
        Self {
            unpressed: RecentSamples::new(STRETCHES_KEPT),
            learned: None,
            estimate: None,
            evidence: Evidence::LeastSeen,
        }
    }

    pub(crate) fn get(&self) -> Option<f64> {
        self.estimate
    }

    /// The estimate, if more is behind it than the least response seen.
    pub(crate) fn measured(&self) -> Option<f64> {
        self.estimate.filter(|_| self.evidence != Evidence::LeastSeen)
    }

    /// A stretch under whatever pressure took `response` on average.
    pub(crate) fn see(&mut self, response: f64) {
        if self.evidence == Evidence::LeastSeen {
            self.estimate = Some(self.estimate.unwrap_or(f64::INFINITY).min(response));
        }
    }

    /// A stretch in which the limit pressed nobody took `response` on average.
    pub(crate) fn learn_unpressed(&mut self, now: Timestamp, response: f64) {
        if self.learned.is_some_and(|learned| now.since(learned) < STRETCH_EVERY) {
            return;
        }
        self.learned = Some(now);
        self.unpressed.push(response);
        self.estimate = Some(self.unpressed.quantile(STRETCHES_QUANTILE));
        self.evidence = Evidence::Unpressed;
    }

    /// Throughput grew with what was in flight while events took `response`.
    pub(crate) fn throughput_followed(&mut self, response: f64) {
        let before = self.estimate.unwrap_or(response);
        let most =
            if self.evidence == Evidence::LeastSeen { response } else { RAISING_MAX * before };
        self.estimate = Some(response.min(most).max(before));
        self.evidence = Evidence::ThroughputFollowed;
    }

    /// Throughput did not grow with what was in flight: perhaps less will do.
    pub(crate) fn throughput_stayed(&mut self) {
        if self.evidence == Evidence::Unpressed {
            return;
        }
        let step = if self.evidence == Evidence::LeastSeen { LOWERING_GUESS } else { LOWERING };
        let lowered = self.estimate.map(|estimate| step * estimate);
        let known = self.unpressed.quantile(STRETCHES_QUANTILE);
        self.estimate = lowered.map(|lowered| lowered.max(known));
        if self.estimate == Some(known) {
            self.evidence = Evidence::Unpressed;
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
    fn nothing_is_known_at_first() {
        let base = BaseResponse::new();
        assert_eq!((base.get(), base.measured()), (None, None));
    }

    #[test]
    fn under_pressure_from_the_start_the_least_response_must_do() {
        let mut base = BaseResponse::new();
        [0.3, 0.1, 0.5].into_iter().for_each(|response| base.see(response));
        assert_eq!((base.get(), base.measured()), (Some(0.1), None));
    }

    #[test]
    fn the_lower_quartile_of_unpressed_stretches_is_the_base() {
        let mut base = BaseResponse::new();
        base.see(9.0);
        for (index, response) in [0.04, 0.02, 0.03, 0.05].into_iter().enumerate() {
            base.learn_unpressed(at(index as u64 * 250), response);
        }
        assert_eq!(base.measured(), Some(0.02));
    }

    #[test]
    fn stretches_in_quick_succession_count_once() {
        let mut base = BaseResponse::new();
        base.learn_unpressed(at(0), 0.02);
        (1..250).for_each(|millis| base.learn_unpressed(at(millis), 0.001));
        assert_eq!(base.get(), Some(0.02));
    }

    #[test]
    fn throughput_that_follows_raises_the_estimate_and_one_that_does_not_lowers_it() {
        let mut base = BaseResponse::new();
        base.learn_unpressed(at(0), 0.04);
        base.throughput_followed(0.05);
        assert_eq!(base.get(), Some(0.05));
        base.throughput_stayed();
        assert_eq!(base.get(), Some(0.85 * 0.05));
    }

    #[test]
    fn a_measured_estimate_is_raised_by_half_at_most_and_a_guess_by_any_factor() {
        let mut base = BaseResponse::new();
        base.see(0.01);
        base.throughput_followed(0.1);
        assert_eq!(base.get(), Some(0.1));
        base.throughput_followed(9.0);
        assert!((base.get().unwrap() - 0.15).abs() < 1e-12);
    }

    #[test]
    fn a_guess_is_lowered_faster_than_a_measurement() {
        let mut base = BaseResponse::new();
        base.see(0.1);
        base.throughput_stayed();
        assert_eq!(base.get(), Some(0.7 * 0.1));
    }

    #[test]
    fn an_estimate_is_not_lowered_below_what_was_measured_without_pressure() {
        let mut base = BaseResponse::new();
        base.learn_unpressed(at(0), 0.02);
        base.throughput_followed(0.05);
        (0..50).for_each(|_| base.throughput_stayed());
        assert_eq!(base.measured(), Some(0.02));
    }
}
