//! Periodic work that is done by the next request.

use std::sync::atomic::{AtomicU64, Ordering};

use tamarisk_control::Timestamp;

/// When something is to be done again, in nanoseconds on the clock of the site.
#[derive(Debug)]
pub(crate) struct Due(AtomicU64);

impl Due {
    pub(crate) fn after(nanos: u64, now: Timestamp) -> Self {
        Self(AtomicU64::new(now.as_nanos() + nanos))
    }

    /// For how many nanoseconds it has been to be done, if it is.
    pub(crate) fn overdue(&self, now: Timestamp) -> Option<u64> {
        now.as_nanos().checked_sub(self.0.load(Ordering::Relaxed))
    }

    /// Whether the one who asks is to do it; the next one is, so many nanoseconds later.
    pub(crate) fn is_now(&self, nanos: u64, now: Timestamp) -> bool {
        let (now, due) = (now.as_nanos(), self.0.load(Ordering::Relaxed));
        now >= due && {
            let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
            self.0.compare_exchange(due, now + nanos, set, fetch).is_ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_is_done_once_and_then_again_after_its_time() {
        let due = Due::after(10, Timestamp::from_nanos(5));
        let done: Vec<_> =
            (0..50).filter(|&now| due.is_now(10, Timestamp::from_nanos(now))).collect();
        assert_eq!(done, [15, 25, 35, 45]);
        let overdue = |now| due.overdue(Timestamp::from_nanos(now));
        assert_eq!([54, 55, 60].map(overdue), [None, Some(0), Some(5)]);
    }
}
