//! Order per key: the keys are shared among partitions, each a FIFO that one
//! worker serves at a time.
//!
//! Binding keys to workers instead would lose the order whenever the number of
//! workers changes; partitions outlive the workers, so a resize moves nothing.

use std::collections::VecDeque;

use super::{Queued, split};

pub(crate) struct Partitioned<T> {
    partitions: Vec<Partition<T>>,
    /// Partitions that have events and no worker, in the order in which they
    /// became so.
    ready: VecDeque<usize>,
    len: usize,
}

struct Partition<T> {
    events: VecDeque<Queued<T>>,
    leased: bool,
}

/// The exclusive right to pop from one partition of a queue; in a queue without partitions,
/// the right to pop from all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartitionLease(usize);

impl PartitionLease {
    pub(crate) const WHOLE: Self = Self(usize::MAX);
}

impl<T> Partitioned<T> {
    pub(super) fn new(partitions: usize) -> Self {
        let partition = || Partition { events: VecDeque::new(), leased: false };
        let partitions = std::iter::repeat_with(partition).take(partitions.max(1)).collect();
        Self { partitions, ready: VecDeque::new(), len: 0 }
    }

    /// How many shares of the keys there are.
    pub(super) fn count(&self) -> usize {
        self.partitions.len()
    }

    pub(super) fn push(&mut self, queued: Queued<T>) {
        let index = (queued.meta.flow % self.partitions.len() as u64) as usize;
        let partition = &mut self.partitions[index];
        if partition.events.is_empty() && !partition.leased {
            self.ready.push_back(index);
        }
        partition.events.push_back(queued);
        self.len += 1;
    }

    pub(super) fn lease(&mut self) -> Option<PartitionLease> {
        let index = self.ready.pop_front()?;
        self.partitions[index].leased = true;
        Some(PartitionLease(index))
    }

    pub(super) fn pop(&mut self, lease: PartitionLease) -> Option<Queued<T>> {
        let queued = self.partitions[lease.0].events.pop_front()?;
        self.len -= 1;
        Some(queued)
    }

    pub(super) fn release(&mut self, lease: PartitionLease) {
        let partition = &mut self.partitions[lease.0];
        partition.leased = false;
        if !partition.events.is_empty() {
            self.ready.push_back(lease.0);
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Queued<T>> {
        self.partitions.iter().flat_map(|partition| &partition.events)
    }

    pub(super) fn extract(&mut self, mut gone: impl FnMut(&Queued<T>) -> bool) -> Vec<Queued<T>> {
        let mut all = Vec::new();
        for partition in &mut self.partitions {
            let (stay, out) = split(std::mem::take(&mut partition.events), &mut gone);
            partition.events = stay;
            all.extend(out);
        }
        self.len -= all.len();
        self.ready.retain(|&index| !self.partitions[index].events.is_empty());
        all
    }
}
