//! What crosses an edge of a graph.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the events sent on an edge, by whether the receiver admitted them.
#[derive(Default)]
pub(crate) struct EdgeCounters {
    taken: AtomicU64,
    rejected: AtomicU64,
}

impl EdgeCounters {
    pub(crate) fn taken(&self, events: usize) {
        if events > 0 {
            self.taken.fetch_add(events as u64, Ordering::Relaxed);
        }
    }

    pub(crate) fn rejected(&self, events: usize) {
        if events > 0 {
            self.rejected.fetch_add(events as u64, Ordering::Relaxed);
        }
    }

    /// How many were taken, and how many rejected.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.taken.load(Ordering::Relaxed), self.rejected.load(Ordering::Relaxed))
    }
}
