//! Response-time targets as numbers in seconds, as predictions need them.

use tamarisk_control::Target;

/// What one class is promised.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    /// In seconds.
    pub(crate) target: f64,
    /// 1 ÷ target.
    pub(crate) per_target: f64,
    /// The share of answers that keep it.
    pub(crate) percentile: f64,
}

impl Promise {
    pub(crate) fn of(target: Target) -> Self {
        let seconds = target.response_time().as_secs_f64();
        Self { target: seconds, per_target: seconds.recip(), percentile: target.at().get() }
    }
}
