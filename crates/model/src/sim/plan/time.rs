//! Time in the simulator: whole nanoseconds since the beginning of a run.

use std::time::Duration;

/// How many bits of an entry of the calendar are its time.
pub(in crate::sim) const TIME_BITS: u32 = 56;

/// An instant in nanoseconds is at most this, some 833 days.
pub(in crate::sim) const NANOS_MAX: u64 = (1 << TIME_BITS) - 1;

/// A duration in nanoseconds; one that is too long saturates.
pub(in crate::sim) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
