//! The trim: feedback that corrects the predicted wait by the real percentile.

use std::time::Duration;

use crate::Timestamp;
use crate::recent_samples::RecentSamples;

/// The correction is reconsidered after so many completions [Welsh03 fig. 4: nreq] …
const SAMPLES: usize = 100;
/// … or after so long [Welsh03 fig. 4: timeout] …
const PERIOD: Duration = Duration::from_secs(1);
/// … provided that there are so many samples: fewer than twenty leave less than
/// two above the 90th percentile, and one slow event would speak for all.
const SAMPLES_MIN: usize = 20;

/// g stays in this range, so that no run of bad luck can shut a stage or
/// blind it to its own queue.
const CORRECTION_MIN: f64 = 0.5;
const CORRECTION_MAX: f64 = 4.0;

/// The correction g of the predicted wait of one priority level.
#[derive(Clone, Debug)]
pub(crate) struct Trim {
    correction: f64,
    /// Response time ÷ target of the events since the last verdict.
    ratios: RecentSamples,
    percentiles: f64,
    since: Option<Timestamp>,
}

impl Trim {
    pub(crate) fn new() -> Self {
        Self { correction: 1.0, ratios: RecentSamples::new(SAMPLES), percentiles: 0.0, since: None }
    }

    /// g: real wait ÷ predicted wait, as far as the percentile can tell.
    #[inline]
    pub(crate) fn correction(&self) -> f64 {
        self.correction
    }

    /// Learns from an event whose response time was `ratio` of its target, which
    /// is for `percentile`. Where classes promise different percentiles the
    /// verdict uses their mean: so many late events are allowed in all.
    pub(crate) fn record(&mut self, now: Timestamp, ratio: f64, percentile: f64) {
        self.since.get_or_insert(now);
        self.ratios.push(ratio);
        self.percentiles += percentile;
        if self.ratios.is_full() {
            self.judge(now);
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
        let error = self.ratios.quantile(percentile) - 1.0;
        if count >= SAMPLES_MIN && error > 0.0 {
            self.correction *= (0.3 * error).min(0.4).exp();
        } else {
            self.correction += 0.1 * (1.0 - self.correction);
        }
        self.correction = self.correction.clamp(CORRECTION_MIN, CORRECTION_MAX);
        self.ratios.clear();
        self.percentiles = 0.0;
        self.since = Some(now);
    }
}
