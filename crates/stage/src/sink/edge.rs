//! What crosses an edge of a graph.

use std::sync::atomic::{AtomicU64, Ordering};

/// What an edge has been asked to carry.
#[derive(Default)]
pub(crate) struct Crossings {
    taken: AtomicU64,
    refused: AtomicU64,
}

impl Crossings {
    pub(crate) fn taken(&self, events: usize) {
        self.taken.fetch_add(events as u64, Ordering::Relaxed);
    }

    pub(crate) fn refused(&self, events: usize) {
        if events > 0 {
            self.refused.fetch_add(events as u64, Ordering::Relaxed);
        }
    }

    /// How many were taken, and how many refused.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.taken.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed))
    }
}
