//! Samples of a stage: arrivals, throughput, response times and service times of one period.

use std::time::Duration;

use tamarisk_control::{Activity, Classes, Ending, Finished, Timestamp};

use crate::fair::ResponseSample;
use crate::fair::throughput_target::Rates;
use tamarisk_laws::period_samples::nearest_rank;

/// Response times kept of one sample: enough for a percentile of 99.9.
const RESPONSES_MAX: usize = 4096;
/// After a pause of so many periods the past does not lead to the present.
const PAUSE: u32 = 4;

/// What one sample showed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Arrivals, rejected ones included; completions; response times in time of the strictest
    /// class.
    pub(super) rates: Rates,
    /// The mean time from leaving the queue to the end, in seconds.
    pub(super) service: Option<f64>,
    /// Workers that had nothing to do at any time.
    pub(super) idle: u32,
    /// Events were queued at every tick.
    pub(super) stayed_full: bool,
    /// It is as long as it should be, so that the one before leads to it.
    pub(super) follows: bool,
}

/// Gathers a sample.
#[derive(Clone, Debug)]
pub(super) struct Sampling {
    period: Duration,
    promise: PromisedSeconds,
    began: Option<Began>,
    tally: Tally,
}

/// What has happened since the sample began.
#[derive(Clone, Debug)]
struct Tally {
    /// In seconds of the strictest class.
    responses: Thinned,
    response_seconds: f64,
    service_seconds: f64,
    ended: u32,
    least_queued: u32,
    least_idle: u32,
}

/// The instant and the counts with which a sample began.
#[derive(Clone, Copy, Debug)]
struct Began {
    at: Timestamp,
    offered: u64,
    completed: u64,
}

/// What the classes are promised, in seconds.
#[derive(Clone, Debug)]
struct PromisedSeconds {
    targets: Box<[f64]>,
    strictest: f64,
    percentile: f64,
}

impl Sampling {
    pub(super) fn new(classes: &Classes, period: Duration) -> Self {
        Self { period, promise: PromisedSeconds::of(classes), began: None, tally: Tally::default() }
    }

    pub(super) fn period(&self) -> Duration {
        self.period
    }

    pub(super) fn set_period(&mut self, period: Duration) {
        self.period = period;
    }

    /// R: the strictest target.
    pub(super) fn desired(&self) -> Duration {
        Duration::try_from_secs_f64(self.promise.strictest).unwrap_or(Duration::MAX)
    }

    /// The percentile that is promised, as a share.
    pub(super) fn percentile(&self) -> f64 {
        self.promise.percentile
    }

    /// Forgets the sample so far, which was measured by other targets or of another stage.
    pub(super) fn restart(&mut self) {
        self.began = None;
        self.tally.clear();
    }

    /// The same for other targets.
    pub(super) fn set_targets(&mut self, classes: &Classes) {
        self.promise = PromisedSeconds::of(classes);
        self.restart();
    }

    /// An event ended. One that failed or was terminated counts as no sooner than its target,
    /// one that was abandoned only if it was late already.
    pub(super) fn on_finish(&mut self, finished: &Finished) {
        let PromisedSeconds { targets, strictest, .. } = &self.promise;
        let target = targets.get(finished.class.index()).copied().unwrap_or(targets[0]);
        let seconds = finished.response.as_secs_f64();
        let seconds = match finished.ending {
            Ending::Completed => seconds,
            Ending::Failed | Ending::Terminated => seconds.max(target),
            Ending::Abandoned if seconds >= target => seconds,
            Ending::Abandoned | Ending::Untimed => return,
        };
        let scaled = seconds / target * strictest;
        let tally = &mut self.tally;
        tally.responses.push(scaled);
        tally.response_seconds += scaled;
        tally.service_seconds += finished.service.as_secs_f64();
        tally.ended = tally.ended.saturating_add(1);
    }

    /// A tick: the sample, once its period has passed.
    pub(super) fn on_tick(&mut self, now: Timestamp, activity: &Activity<'_>) -> Option<Sample> {
        let &Activity { offered, completed, .. } = activity;
        let Some(began) = self.began else {
            self.began = Some(Began { at: now, offered, completed });
            return None;
        };
        let tally = &mut self.tally;
        tally.least_queued = tally.least_queued.min(activity.backlog.queued_total);
        tally.least_idle = tally.least_idle.min(activity.workers_idle);
        let lasted = now.since(began.at);
        if lasted < self.period {
            return None;
        }
        let seconds = lasted.as_secs_f64();
        let rate = |count: u64, before: u64| count.saturating_sub(before) as f64 / seconds;
        let sample = Sample {
            rates: Rates {
                arrivals: rate(offered, began.offered),
                throughput: rate(completed, began.completed),
                response: tally.response(self.promise.percentile),
            },
            service: tally.mean(tally.service_seconds),
            idle: tally.least_idle,
            stayed_full: tally.least_queued > 0,
            follows: lasted < self.period * PAUSE,
        };
        tally.clear();
        self.began = Some(Began { at: now, offered, completed });
        Some(sample)
    }
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            responses: Thinned::default(),
            response_seconds: 0.0,
            service_seconds: 0.0,
            ended: 0,
            least_queued: u32::MAX,
            least_idle: u32::MAX,
        }
    }
}

impl Tally {
    fn mean(&self, seconds: f64) -> Option<f64> {
        (self.ended > 0).then(|| seconds / f64::from(self.ended))
    }

    fn response(&mut self, share: f64) -> Option<ResponseSample> {
        let percentile = self.responses.quantile(share)?;
        let duration = |seconds| Duration::try_from_secs_f64(seconds).ok();
        let mean = duration(self.mean(self.response_seconds)?)?;
        Some(ResponseSample { mean, percentile: duration(percentile)? })
    }

    /// Begins anew, and keeps its memory.
    fn clear(&mut self) {
        let mut responses = std::mem::take(&mut self.responses);
        responses.clear();
        *self = Self { responses, ..Self::default() };
    }
}

impl PromisedSeconds {
    fn of(classes: &Classes) -> Self {
        Self {
            targets: classes.targets().map(|it| it.response_time().as_secs_f64()).collect(),
            strictest: classes.strictest().as_secs_f64(),
            percentile: classes.targets().map(|it| it.at().get()).fold(0.0, f64::max),
        }
    }
}

/// Values spread evenly over all that were pushed: every second is dropped when there is no
/// more room, and from then on only every second one is taken.
#[derive(Clone, Debug, Default)]
struct Thinned {
    values: Vec<f64>,
    /// One of 2^`halvings` is taken.
    halvings: u32,
    pushed: u64,
}

impl Thinned {
    fn push(&mut self, value: f64) {
        let stride = 1_u64 << self.halvings.min(63);
        if self.pushed.is_multiple_of(stride) {
            if self.values.len() == RESPONSES_MAX {
                let mut index = 0_usize;
                self.values.retain(|_| {
                    index += 1;
                    !index.is_multiple_of(2)
                });
                self.halvings += 1;
            }
            self.values.push(value);
        }
        self.pushed += 1;
    }

    fn quantile(&mut self, share: f64) -> Option<f64> {
        if self.values.is_empty() {
            return None;
        }
        let index = nearest_rank(share, self.values.len());
        let (_, quantile, _) = self.values.select_nth_unstable_by(index, f64::total_cmp);
        Some(*quantile)
    }

    fn clear(&mut self) {
        self.values.clear();
        (self.halvings, self.pushed) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_percentile_of_many_is_that_of_all_and_not_of_the_first() {
        let mut values = Thinned::default();
        (0..100_000).for_each(|value| values.push(f64::from(value)));
        assert!(values.values.len() <= RESPONSES_MAX);
        let p90 = values.quantile(0.9).unwrap();
        assert!((p90 - 90_000.0).abs() < 300.0, "{p90}");
    }
}
