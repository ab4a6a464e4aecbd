//! An instant that a law can be told, rather than read.

use std::ops::Add;
use std::time::Duration;

/// Nanoseconds since an origin that the caller chose and never moves.
///
/// Laws take time as an argument: a test or a simulator can make any instant,
/// and the live runtime passes its monotonic clock. 64 bits of nanoseconds last
/// 584 years, so arithmetic saturates instead of wrapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The origin.
    pub const ZERO: Self = Self(0);
    /// Later than every other instant; stands for "never".
    pub const MAX: Self = Self(u64::MAX);

    /// The instant `nanos` nanoseconds after the origin.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the origin.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time passed since `earlier`; zero if `earlier` is in fact later, as
    /// happens when two cores read the clock in turn.
    #[inline]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanos_since(earlier))
    }

    /// The same in nanoseconds, without the divisions that make a [`Duration`], for
    /// where it is done for each event.
    #[inline]
    pub const fn nanos_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    /// Saturates at [`Timestamp::MAX`].
    #[inline]
    fn add(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_stepped_back_gives_no_time_passed() {
        let later = Timestamp::from_nanos(5);
        assert_eq!(Timestamp::from_nanos(3).since(later), Duration::ZERO);
    }

    #[test]
    fn adding_saturates_at_the_end_of_time() {
        assert_eq!(Timestamp::from_nanos(7) + Duration::MAX, Timestamp::MAX);
    }
}
