//! The throughput that a stage or a graph is to have: stated, shared out by a global law, or what
//! the percentile of its response times needs.

use std::time::Duration;

use tamarisk_control::{PerSecond, Ratio};

use super::{PercentileMapping, ResponseSample};

/// What one sample showed, in events a second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rates {
    pub(super) arrivals: f64,
    /// T.
    pub(super) throughput: f64,
    /// R̃ and R%.
    pub(super) response: Option<ResponseSample>,
}

/// Finds the throughput target of each sample.
#[derive(Clone, Debug)]
pub(super) struct ThroughputTarget {
    mapping: PercentileMapping,
    percentile: f64,
    /// As configured or as a global law has it.
    given: Option<f64>,
}

impl ThroughputTarget {
    /// `given`, unless it is zero: then that for the percentile.
    pub(super) fn new(percentile: f64, given: PerSecond) -> Self {
        let given = Some(given.get()).filter(|&rate| rate > 0.0);
        let mapping = PercentileMapping::new(Ratio::saturating(percentile));
        Self { mapping, percentile, given }
    }

    /// This one from now on, whatever the percentile.
    pub(super) fn give(&mut self, target: PerSecond) {
        self.given = Some(target.get());
    }

    /// The promise is about this percentile from now on.
    pub(super) fn set_percentile(&mut self, percentile: f64) {
        if percentile != self.percentile {
            self.percentile = percentile;
            self.mapping = PercentileMapping::new(Ratio::saturating(percentile));
        }
    }

    /// α.
    pub(super) fn alpha(&self) -> f64 {
        self.mapping.alpha()
    }

    /// The target after a sample; `None` if that does not tell.
    pub(super) fn after(&mut self, sample: &Rates, desired: Duration) -> Option<f64> {
        let arrivals = PerSecond::new(sample.arrivals).unwrap_or(PerSecond::ZERO);
        self.mapping.observe(arrivals, sample.response);
        if self.given.is_some() {
            return self.given;
        }
        // N = R̃·T (4); without an answer neither is known.
        let inside = sample.response?.mean.as_secs_f64() * sample.throughput;
        Some(self.mapping.throughput(inside, desired).get())
    }
}
