//! How many events may run at once, and which.

use std::time::Duration;

use super::Backlog;
use crate::{ClassId, Concurrency};

/// Limits the places of a stage: a running event has one, unless it is parked or suspended.
///
/// An answer may change with every call of the law.
pub trait PlaceLimits {
    /// How many events the law wants in progress at once, if it decides that (a law for an
    /// upstream whose workers it cannot see). The stage starts no event beyond it, ends none
    /// because of it, and passes it as `backlog.workers`.
    fn concurrency(&self) -> Option<Concurrency> {
        None
    }

    /// How many of the stage's own workers are of use, if not all are (a law that has
    /// seen them crowd something behind the stage). The others idle meanwhile, and
    /// `backlog.workers` does not count them.
    fn useful_workers(&self) -> Option<Concurrency> {
        None
    }

    /// How many events may be in progress at once in a stage with so many workers: those
    /// that the law wants, if it decides that, or the workers that are of use.
    fn places(&self, workers: Concurrency) -> Concurrency {
        match (self.concurrency(), self.useful_workers()) {
            (Some(limit), _) => limit,
            (None, Some(useful)) => useful.min(workers),
            (None, None) => workers,
        }
    }

    /// After how long in service an event gives up its place, if the law cannot learn from
    /// it any more what others will take. Asked about every running event at each tick.
    fn park_after(&self, _class: ClassId, _kind: u64) -> Option<Duration> {
        None
    }

    /// Whether an event of this class and kind may take one of the free places now, or has
    /// to leave it to others. Asked where the stage serves its queue in order of due times,
    /// about the first event of each kind, and about events that find the queue empty.
    fn may_start(&self, _class: ClassId, _kind: u64, _backlog: &Backlog<'_>) -> bool {
        true
    }
}
