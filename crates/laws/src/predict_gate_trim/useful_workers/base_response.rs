//! The base response time of the workers: how long an event takes while nobody waits for one.

use std::time::Duration;

use tamarisk_control::Timestamp;

use crate::recent_samples::RecentSamples;

/// So many unpressed windows are remembered, …
const WINDOWS_KEPT: usize = 64;
/// … at most one in so long: together the last 16 s and more, so that the few
/// seconds in which a load comes up to the capacity do not fill the memory.
const WINDOW_EVERY: Duration = Duration::from_millis(250);
/// Of their mean responses this quantile is the base: at high load many of them
/// already crowd what the workers wait for, and the quick ones are those that do not.
const WINDOWS_QUANTILE: f64 = 0.25;
/// One window alone may be the first rush of a cold start, in which the workers
/// fill up while nobody has to wait yet.
const WINDOWS_MIN: usize = 2;

/// b: the mean service time in seconds while nobody waits.
#[derive(Clone, Debug)]
pub(super) struct BaseResponse {
    windows: RecentSamples,
    learned: Option<Timestamp>,
}

impl BaseResponse {
    pub(super) fn new() -> Self {
        Self { windows: RecentSamples::new(WINDOWS_KEPT), learned: None }
    }

    pub(super) fn get(&self) -> Option<f64> {
        (self.windows.len() >= WINDOWS_MIN).then(|| self.windows.quantile(WINDOWS_QUANTILE))
    }

    /// An event took `response` seconds on average in a window in which nobody waited.
    pub(super) fn learn(&mut self, now: Timestamp, response: f64) {
        if self.learned.is_some_and(|learned| now.since(learned) < WINDOW_EVERY) {
            return;
        }
        self.learned = Some(now);
        self.windows.push(response);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn one_stretch_is_not_believed() {
        let mut base = BaseResponse::new();
        base.learn(at(0), 0.02);
        assert_eq!(base.get(), None);
    }

    #[test]
    fn the_lower_quartile_of_unpressed_stretches_is_the_base() {
        let mut base = BaseResponse::new();
        for (index, response) in [0.04, 0.02, 0.03, 0.05].into_iter().enumerate() {
            base.learn(at(index as u64 * 250), response);
        }
        assert_eq!(base.get(), Some(0.02));
    }

    #[test]
    fn stretches_in_quick_succession_count_once() {
        let mut base = BaseResponse::new();
        base.learn(at(0), 0.02);
        (1..250).for_each(|millis| base.learn(at(millis), 0.001));
        base.learn(at(250), 0.03);
        assert_eq!(base.get(), Some(0.02));
    }
}
