//! Response-time targets as numbers in seconds, as predictions need them. For laws of one's own, too.

use tamarisk_control::Target;

/// What one class is promised.
#[derive(Clone, Copy, Debug)]
pub struct Promise {
    /// In seconds.
    pub target: f64,
    /// 1 ÷ target.
    pub per_target: f64,
    /// The share of answers that keep it.
    pub percentile: f64,
}

impl Promise {
    /// What `target` promises.
    pub fn of(target: Target) -> Self {
        let seconds = target.response_time().as_secs_f64();
        Self { target: seconds, per_target: seconds.recip(), percentile: target.at().get() }
    }
}
