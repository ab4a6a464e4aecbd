//! The reserve: a trickle for classes that the estimates would otherwise shut out.
//!
//! A class that is never admitted is never measured, so an estimate that is
//! wrong once would stay wrong for ever; and a class whose service alone exceeds
//! its target would never be served while others queue. Each class has a small
//! token bucket for these two cases, used only while the queue is short enough
//! to leave half of the target.

use crate::token_bucket::TokenBucket;
use crate::{ClassId, Classes, PerSecond, Timestamp};

/// A class counts as unknown until it has so many samples of its own.
const SAMPLES_KNOWN: usize = 30;

/// The reserve serves while the predicted wait is at most this share of the target.
const WAIT_SHARE_MAX: f64 = 0.5;

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

    /// Whether an event that would be rejected is let in after all; this uses a
    /// token up. `wait_share` is the predicted wait ÷ the target, `samples` what
    /// is known of the class, `feasible` whether its service alone keeps its target.
    #[cold]
    pub(crate) fn admits(
        &mut self,
        now: Timestamp,
        class: ClassId,
        wait_share: f64,
        samples: usize,
        feasible: bool,
    ) -> bool {
        let needed = samples < SAMPLES_KNOWN || !feasible;
        needed && wait_share <= WAIT_SHARE_MAX && self.buckets[class.index()].take(now).is_ok()
    }
}
