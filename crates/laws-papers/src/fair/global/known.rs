//! Smoothed observations of one stage, as the global controller uses them.

use tamarisk_control::global::{StageSample, Times};

use super::WEIGHT;

/// What is known of a stage, times in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    pub(super) workers: f64,
    /// Smoothed; zero as long as nothing has ended there.
    service: f64,
    pub(super) percentile: f64,
    pub(super) visits: f64,
}

impl Known {
    pub(super) fn observe(&mut self, sample: &StageSample) {
        self.workers = f64::from(sample.workers.get());
        if let Some(Times { mean, percentile }) = sample.service {
            // The first sample is taken as it is, not averaged with an initial zero.
            let past = if self.service > 0.0 { WEIGHT } else { 0.0 };
            self.service = past * self.service + (1.0 - past) * mean.as_secs_f64();
            self.percentile = past * self.percentile + (1.0 - past) * percentile.as_secs_f64();
        }
    }

    /// Whether requests visit it, and how long it takes then is known.
    pub(super) fn is_used(&self) -> bool {
        self.visits > 0.0 && self.service > 0.0
    }

    /// How many requests of the whole it can do a second.
    pub(super) fn capacity(&self) -> f64 {
        self.workers / (self.service * self.visits)
    }

    /// u_j: the part of its capacity that the whole would use at one request a second.
    pub(super) fn used(&self) -> f64 {
        if self.is_used() { 1.0 / self.capacity() } else { 0.0 }
    }
}
