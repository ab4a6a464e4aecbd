//! The reserve: a minimum admission rate for classes that the estimates would exclude.
//!
//! A class that is never admitted is never measured, so an estimate that is
//! wrong once would stay wrong indefinitely; and a class whose service alone exceeds
//! its target would never be served while others queue. Each class has a small
//! token bucket for these two cases, used only while the queue is short enough
//! to leave half of the target.

use tamarisk_control::{ClassId, Classes, PerSecond, Timestamp};

use crate::TokenBucket;

/// The reserve serves while the predicted wait is at most this share of the target.
pub(crate) const WAIT_SHARE_MAX: f64 = 0.5;

/// The buckets of all classes.
#[derive(Clone, Debug)]
pub(crate) struct Reserve {
    buckets: Box<[TokenBucket]>,
}

impl Reserve {
    /// `rate` events a second for each class, never two at once.
    pub(crate) fn new(classes: &Classes, rate: PerSecond) -> Self {
        Self { buckets: vec![TokenBucket::new(rate, 1.0); classes.len()].into() }
    }

    /// Whether an event of `class` is let in although it should be rejected,
    /// given the predicted wait ÷ the target. This uses a token up.
    #[cold]
    pub(crate) fn admits(&mut self, now: Timestamp, class: ClassId, wait_share: f64) -> bool {
        wait_share <= WAIT_SHARE_MAX && self.buckets[class.index()].take(now).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tamarisk_control::Target;

    use super::*;

    fn reserve() -> Reserve {
        let classes = Classes::single(Target::p90(Duration::from_secs(1)).unwrap());
        Reserve::new(&classes, PerSecond::new(0.5).unwrap())
    }

    #[test]
    fn one_event_in_two_seconds_is_let_in() {
        let mut reserve = reserve();
        let admitted = (0..20_u64)
            .map(|tenths| Timestamp::from_nanos(tenths * 500_000_000))
            .filter(|&now| reserve.admits(now, ClassId::DEFAULT, 0.1));
        assert_eq!(admitted.count(), 5, "0.5/s over the 9.5 s from the first full bucket");
    }

    #[test]
    fn a_queue_beyond_half_the_target_closes_the_reserve() {
        assert!(!reserve().admits(Timestamp::ZERO, ClassId::DEFAULT, 0.51));
    }
}
