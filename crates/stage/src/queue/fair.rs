//! Start-time fair queueing [Goyal96 §2]: each flow gets an equal share of the work.
//!
//! Every event has a start tag on a virtual clock that counts the work done for
//! each busy flow: the later of the clock's reading and the end of the flow's
//! previous event. Serving in order of start tags shares the work equally among
//! the flows that have any queued, and lets a flow that comes back after a pause
//! start now rather than collect on the time it was away.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::shortest::Ranked;
use super::{EventMetadata, Queued, split};

pub(crate) struct Fair<T> {
    heap: BinaryHeap<Reverse<Ranked<T>>>,
    flows: HashMap<u64, Flow>,
    /// The start tag of the event served last.
    virtual_now: u64,
    arrivals: u64,
}

/// How many flows without queued events are remembered: enough that a client
/// cannot wipe out its debt by mixing with others, in about two megabytes.
const IDLE_FLOWS_MAX: usize = 1 << 16;

/// A flow that has events in the queue, or whose share is used up until the
/// virtual clock reaches its `end`.
struct Flow {
    /// Where on the virtual clock its latest event ends.
    end: u64,
    /// The same of the latest that was served.
    served: u64,
    queued: u32,
}

impl<T> Default for Fair<T> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), flows: HashMap::new(), virtual_now: 0, arrivals: 0 }
    }
}

impl<T> Fair<T> {
    pub(super) fn push(&mut self, queued: Queued<T>) {
        let virtual_now = self.virtual_now;
        let new = || Flow { end: virtual_now, served: virtual_now, queued: 0 };
        let flow = self.flows.entry(queued.meta.flow).or_insert_with(new);
        let start = flow.end.max(self.virtual_now);
        flow.end = start + u64::from(queued.meta.cost);
        flow.queued += 1;
        self.arrivals += 1;
        self.heap.push(Reverse(Ranked { rank: (start, self.arrivals), queued }));
    }

    pub(super) fn pop(&mut self) -> Option<Queued<T>> {
        let Reverse(ranked) = self.heap.pop()?;
        self.virtual_now = ranked.rank.0;
        let EventMetadata { flow, cost, .. } = ranked.queued.meta;
        if let Some(flow) = self.flows.get_mut(&flow) {
            flow.served = self.virtual_now + u64::from(cost);
        }
        self.leave(flow);
        Some(ranked.queued)
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
        let out: Vec<_> = out.into_iter().map(|Reverse(ranked)| ranked.queued).collect();
        for queued in &out {
            self.leave(queued.meta.flow);
        }
        if !out.is_empty() {
            self.close_ranks();
        }
        out
    }

    /// Events have gone without having been served: those behind them move up, for only work counts.
    fn close_ranks(&mut self) {
        let now = self.virtual_now;
        self.flows.values_mut().for_each(|flow| flow.end = flow.served.max(now));
        let mut line = std::mem::take(&mut self.heap).into_sorted_vec();
        // The first in line is the last here.
        for Reverse(Ranked { rank, queued }) in line.iter_mut().rev() {
            let EventMetadata { flow, cost, .. } = queued.meta;
            if let Some(flow) = self.flows.get_mut(&flow) {
                rank.0 = rank.0.min(flow.end);
                flow.end = rank.0 + u64::from(cost);
            }
        }
        self.flows.retain(|_, flow| flow.queued > 0 || flow.end > now);
        self.heap = line.into();
    }

    /// One event of flow `key` has left.
    fn leave(&mut self, key: u64) {
        if let Some(flow) = self.flows.get_mut(&key) {
            flow.queued -= 1;
            if flow.queued == 0 && flow.end <= self.virtual_now {
                self.flows.remove(&key);
            }
        }
        if self.flows.len() > 2 * self.heap.len() + IDLE_FLOWS_MAX {
            self.flows.retain(|_, flow| flow.queued > 0);
        }
    }
}
