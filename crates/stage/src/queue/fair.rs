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
    queued: u32,
}

impl<T> Default for Fair<T> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), flows: HashMap::new(), virtual_now: 0, arrivals: 0 }
    }
}

impl<T> Fair<T> {
    pub(super) fn push(&mut self, queued: Queued<T>) {
        let flow =
            self.flows.entry(queued.meta.flow).or_insert(Flow { end: self.virtual_now, queued: 0 });
        let start = flow.end.max(self.virtual_now);
        flow.end = start + u64::from(queued.meta.cost.max(1));
        flow.queued += 1;
        self.arrivals += 1;
        self.heap.push(Reverse(Ranked { rank: (start, self.arrivals), queued }));
    }

    pub(super) fn pop(&mut self) -> Option<Queued<T>> {
        let Reverse(ranked) = self.heap.pop()?;
        self.virtual_now = ranked.rank.0;
        self.leave(ranked.queued.meta.flow);
        Some(ranked.queued)
    }

    pub(super) fn first(&self) -> Option<&EventMetadata> {
        self.heap.peek().map(|Reverse(ranked)| &ranked.queued.meta)
    }

    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }

    pub(super) fn extract(&mut self, mut gone: impl FnMut(&Queued<T>) -> bool) -> Vec<Queued<T>> {
        let (stay, out) =
            split(std::mem::take(&mut self.heap), |Reverse(ranked)| gone(&ranked.queued));
        self.heap = stay;
        let out: Vec<_> = out.into_iter().map(|Reverse(ranked)| ranked.queued).collect();
        for queued in &out {
            self.leave(queued.meta.flow);
        }
        out
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
