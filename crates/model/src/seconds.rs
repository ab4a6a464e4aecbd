//! Durations in seconds as the model computes with them.

use std::fmt;
use std::time::Duration;

/// A time in seconds: finite, not negative, and not rounded.
///
/// [`Duration`] counts nanoseconds, which is as fine as clocks are. Formulas are
/// finer: a mean of a third of a microsecond would lose its seventh digit.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Seconds(f64);

impl Seconds {
    /// No time at all.
    pub const ZERO: Self = Self(0.0);

    /// `value` seconds; `None` if that is negative, infinite or no number.
    pub fn new(value: f64) -> Option<Self> {
        (value.is_finite() && value >= 0.0).then_some(Self(value))
    }

    pub(crate) fn computed(value: f64) -> Self {
        assert!(value.is_finite() && value >= 0.0, "{value} s came out of a formula");
        Self(value)
    }

    /// As a plain number of seconds.
    #[inline]
    pub const fn get(self) -> f64 {
        self.0
    }

    /// To the nanosecond; the longest [`Duration`] if it is longer than that.
    pub fn to_duration(self) -> Duration {
        Duration::try_from_secs_f64(self.0).unwrap_or(Duration::MAX)
    }
}

impl From<Duration> for Seconds {
    fn from(duration: Duration) -> Self {
        Self(duration.as_secs_f64())
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.0)
    }
}
