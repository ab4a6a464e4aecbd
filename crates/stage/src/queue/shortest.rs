//! Least cost first, and in order of arrival among equals.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::{Queued, split};

pub(crate) struct Shortest<T> {
    heap: BinaryHeap<Reverse<Ranked<T>>>,
    arrivals: u64,
}

/// An event with its place in line: lower goes first.
pub(super) struct Ranked<T> {
    pub(super) rank: (u64, u64),
    pub(super) queued: Queued<T>,
}

impl<T> Default for Shortest<T> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), arrivals: 0 }
    }
}

impl<T> Shortest<T> {
    pub(super) fn push(&mut self, queued: Queued<T>) {
        self.arrivals += 1;
        let rank = (u64::from(queued.meta.cost), self.arrivals);
        self.heap.push(Reverse(Ranked { rank, queued }));
    }

    pub(super) fn pop(&mut self) -> Option<Queued<T>> {
        self.heap.pop().map(|Reverse(ranked)| ranked.queued)
    }

    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Queued<T>> {
        self.heap.iter().map(|Reverse(ranked)| &ranked.queued)
    }

    pub(super) fn extract(&mut self, mut gone: impl FnMut(&Queued<T>) -> bool) -> Vec<Queued<T>> {
        let (stay, out) =
            split(std::mem::take(&mut self.heap), |Reverse(ranked)| gone(&ranked.queued));
        self.heap = stay;
        out.into_iter().map(|Reverse(ranked)| ranked.queued).collect()
    }
}

impl<T> PartialEq for Ranked<T> {
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
    }
}

impl<T> Eq for Ranked<T> {}

impl<T> PartialOrd for Ranked<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Ranked<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank.cmp(&other.rank)
    }
}
