//! Response times of a model, as they are shown.

use serde::Serialize;
use tamarisk_control::Ratio;
use tamarisk_model::queueing::ResponseTime;
use tamarisk_plot::format;

/// In seconds.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Times {
    pub(super) mean: f64,
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
}

impl Times {
    pub(super) fn of(response: &ResponseTime) -> Self {
        let at = |share| response.quantile(Ratio::saturating(share)).get();
        Self { mean: response.mean().get(), p50: at(0.5), p90: at(0.9), p99: at(0.99) }
    }

    pub(super) fn cells(self) -> [String; 4] {
        [self.mean, self.p50, self.p90, self.p99].map(format::seconds)
    }
}
