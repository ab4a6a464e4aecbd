//! Throughput for each interval, smoothed: the input of pool sizing and batching.

use std::time::Duration;

use tamarisk_control::{Activity, Timestamp};

/// "Once per second by default" [Welsh02 §5.4.1].
pub(super) const INTERVAL: Duration = Duration::from_secs(1);

/// The weight of the past in the "weighted moving average" [Welsh02 §5.4.1], which
/// prints no value. Laws that change the size by a step a second must see what the
/// last step did, so it is not more.
const ALPHA: f64 = 0.5;

/// Completions a second, sample by sample.
#[derive(Clone, Debug)]
pub(super) struct Throughput {
    interval: Duration,
    /// When the interval began, and how many were completed then.
    began: Option<(Timestamp, u64)>,
    smoothed: Option<f64>,
}

/// What one interval showed, in completions a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ThroughputSample {
    /// The average before this interval, if there was one.
    pub(super) before: Option<f64>,
    /// This interval alone.
    pub(super) latest: f64,
    /// The average with it.
    pub(super) smoothed: f64,
}

impl Default for Throughput {
    fn default() -> Self {
        Self::every(INTERVAL)
    }
}

impl Throughput {
    /// Sampled so often.
    pub(super) fn every(interval: Duration) -> Self {
        Self { interval, began: None, smoothed: None }
    }

    /// How long a sample is.
    pub(super) fn interval(&self) -> Duration {
        self.interval
    }

    /// The sample, once an interval has passed.
    pub(super) fn on_tick(
        &mut self,
        now: Timestamp,
        activity: &Activity<'_>,
    ) -> Option<ThroughputSample> {
        let (began, completed) = *self.began.get_or_insert((now, activity.completed));
        let length = now.since(began);
        if length < self.interval {
            return None;
        }
        self.began = Some((now, activity.completed));
        let events = activity.completed.saturating_sub(completed);
        let latest = events as f64 / length.as_secs_f64();
        let before = self.smoothed;
        let smoothed = before.map_or(latest, |past| ALPHA * past + (1.0 - ALPHA) * latest);
        self.smoothed = Some(smoothed);
        Some(ThroughputSample { before, latest, smoothed })
    }

    /// What was measured speaks of a stage that is no more: measures afresh from now.
    pub(super) fn restart(&mut self, now: Timestamp, activity: &Activity<'_>) {
        self.began = Some((now, activity.completed));
        self.smoothed = None;
    }

    /// The average; zero before the first interval has passed.
    pub(super) fn smoothed(&self) -> f64 {
        self.smoothed.unwrap_or(0.0)
    }
}
