//! Numbers that carry their unit and their range.

use std::fmt;

/// A number outside the range of its unit.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{value} is not {expected}")]
pub struct OutOfRange {
    value: f64,
    expected: &'static str,
}

/// A share of a whole: `0.0..=1.0`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Ratio(f64);

impl Ratio {
    /// None of it.
    pub const ZERO: Self = Self(0.0);
    /// All of it.
    pub const ONE: Self = Self(1.0);

    /// The ratio `value`.
    ///
    /// # Errors
    /// [`OutOfRange`] unless `value` lies in `0.0..=1.0`.
    pub fn new(value: f64) -> Result<Self, OutOfRange> {
        if (0.0..=1.0).contains(&value) {
            Ok(Self(value))
        } else {
            Err(OutOfRange { value, expected: "a ratio between 0 and 1" })
        }
    }

    /// The ratio nearest to `value`; zero for NaN.
    pub const fn saturating(value: f64) -> Self {
        if value >= 1.0 {
            Self::ONE
        } else if value > 0.0 {
            Self(value)
        } else {
            Self::ZERO
        }
    }

    /// As a plain number in `0.0..=1.0`.
    #[inline]
    pub const fn get(self) -> f64 {
        self.0
    }
}

/// A rate in events a second: finite and not negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct PerSecond(f64);

impl PerSecond {
    /// Nothing at all.
    pub const ZERO: Self = Self(0.0);

    /// `value` events a second.
    ///
    /// # Errors
    /// [`OutOfRange`] if `value` is negative, infinite or NaN.
    pub fn new(value: f64) -> Result<Self, OutOfRange> {
        if value.is_finite() && value >= 0.0 {
            Ok(Self(value))
        } else {
            Err(OutOfRange { value, expected: "a finite rate of zero or more a second" })
        }
    }

    /// `count` events in a thousand seconds; for constants, which any whole number suits.
    pub const fn from_millis(count: u32) -> Self {
        Self(count as f64 / 1000.0)
    }

    /// Events a second.
    #[inline]
    pub const fn get(self) -> f64 {
        self.0
    }
}

/// How many events may be, or are, worked on at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Concurrency(u32);

impl Concurrency {
    /// One event at a time.
    pub const ONE: Self = Self(1);

    /// `count` events at once; at least one, because a stage that may work on
    /// nothing is closed, which is said in another way.
    pub const fn new(count: u32) -> Self {
        Self(if count == 0 { 1 } else { count })
    }

    /// Events at once.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// How many events a worker takes from the queue at once, at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchSize(u32);

impl BatchSize {
    /// One event at a time.
    pub const ONE: Self = Self(1);

    /// `events` at once; at least one.
    pub const fn new(events: u32) -> Self {
        Self(if events == 0 { 1 } else { events })
    }

    /// Events at once.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for PerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", self.0)
    }
}

impl fmt::Display for Concurrency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for BatchSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_is_no_ratio_and_no_rate() {
        assert!(Ratio::new(f64::NAN).is_err());
        assert!(PerSecond::new(f64::NAN).is_err());
        assert_eq!(Ratio::saturating(f64::NAN), Ratio::ZERO);
    }

    #[test]
    fn an_error_names_the_value_and_the_range() {
        let error = Ratio::new(1.5).unwrap_err();
        assert_eq!(error.to_string(), "1.5 is not a ratio between 0 and 1");
    }
}
