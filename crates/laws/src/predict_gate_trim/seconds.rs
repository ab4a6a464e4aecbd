//! Fast conversion of durations to seconds.

use std::time::Duration;

/// The same in seconds, right to within a nanosecond, without the division of
/// [`Duration::as_secs_f64`].
#[inline]
pub(super) fn seconds(time: Duration) -> f64 {
    time.as_secs() as f64 + 1e-9 * f64::from(time.subsec_nanos())
}
