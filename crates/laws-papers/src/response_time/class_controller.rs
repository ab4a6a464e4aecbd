//! The controller of one class: its measured percentile, and the admission rate that follows from it.

use tamarisk_control::{Decision, PerSecond, Reason, Rejection, Target, Timestamp};

use super::Parameters;
use tamarisk_laws::TokenBucket;
use tamarisk_laws::smoothed_percentile::SmoothedPercentile;

/// A percentile to keep, and a token bucket to keep it with.
#[derive(Clone, Debug)]
pub(crate) struct ClassController {
    pub(crate) monitor: SmoothedPercentile,
    bucket: TokenBucket,
}

impl ClassController {
    pub(super) fn new(target: Target, parameters: &Parameters) -> Self {
        let Parameters { period, rate_initial, rate_min, rate_max, burst, .. } = *parameters;
        let first = PerSecond::new(rate_initial.clamp(rate_min, rate_max));
        Self {
            monitor: SmoothedPercentile::new(target, period),
            bucket: TokenBucket::new(first.unwrap_or(PerSecond::ZERO), burst),
        }
    }

    /// Takes a token for an arrival.
    #[inline]
    pub(crate) fn admit(&mut self, now: Timestamp) -> Decision {
        match self.bucket.take(now) {
            Ok(()) => Decision::Admit,
            Err(wait) => Decision::Reject(Rejection::new(Reason::RateExceeded).retry_after(wait)),
        }
    }

    /// Divides the rate by `factor`.
    pub(crate) fn lower(&mut self, now: Timestamp, factor: f64, parameters: &Parameters) {
        self.set_rate(now, self.rate() / factor, parameters);
    }

    /// Adds to the rate what an error below err_i calls for; nothing for any other.
    pub(crate) fn raise(&mut self, now: Timestamp, err: f64, parameters: &Parameters) {
        let Parameters { err_i, adj_i, c_i, .. } = *parameters;
        if err < err_i {
            self.set_rate(now, self.rate() + adj_i * -(err - c_i), parameters);
        }
    }

    /// Events a second that are admitted.
    pub(crate) fn rate(&self) -> f64 {
        self.bucket.rate().get()
    }

    /// Sets the rate, within its bounds.
    pub(crate) fn set_rate(&mut self, now: Timestamp, rate: f64, parameters: &Parameters) {
        if let Ok(rate) = PerSecond::new(rate.clamp(parameters.rate_min, parameters.rate_max)) {
            self.bucket.set_rate(now, rate);
        }
    }
}
