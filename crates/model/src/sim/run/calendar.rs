//! The event calendar: future events in order of time.
//!
//! A heap with four children a node in one array. An entry is one 128-bit word,
//! so that comparing two entries is two instructions: the time above, then a
//! count that keeps entries of one instant in the order in which they were made,
//! then what happens. Most events make one successor (an arrival the next one, a
//! completion the next start), which takes the root's place: one walk, not two.

use crate::sim::plan::time::{NANOS_MAX, TIME_BITS};

/// It wraps after a million million entries, which only blurs the order within an instant.
const COUNT_BITS: u32 = 40;
const WHAT_BITS: u32 = 32;
const ARITY: usize = 4;

const _: () = assert!(TIME_BITS + COUNT_BITS + WHAT_BITS == u128::BITS);

#[derive(Debug, Default)]
pub(super) struct Calendar {
    /// A heap, except that its root is void while `taken`.
    entries: Vec<u128>,
    taken: bool,
    made: u64,
}

impl Calendar {
    /// Adds that `what` happens at `nanos`, after what happens then already.
    #[inline]
    pub(super) fn push(&mut self, nanos: u64, what: u32) {
        debug_assert!(nanos <= NANOS_MAX, "{nanos} ns are beyond the calendar's end");
        self.made = self.made.wrapping_add(1);
        let count = self.made & ((1 << COUNT_BITS) - 1);
        let low = u128::from(count) << WHAT_BITS | u128::from(what);
        let entry = u128::from(nanos) << (COUNT_BITS + WHAT_BITS) | low;
        if self.taken {
            self.taken = false;
            self.sink(entry);
        } else {
            self.entries.push(entry);
            self.rise();
        }
    }

    /// Takes out what happens next, and when, if it happens before `end`.
    #[inline]
    pub(super) fn pop_before(&mut self, end: u64) -> Option<(u64, u32)> {
        if self.taken {
            self.taken = false;
            let last = self.entries.pop()?;
            if !self.entries.is_empty() {
                self.sink(last);
            }
        }
        let &root = self.entries.first()?;
        let nanos = (root >> (COUNT_BITS + WHAT_BITS)) as u64;
        if nanos >= end {
            return None;
        }
        self.taken = true;
        Some((nanos, root as u32))
    }

    /// Puts `entry` in the place of the root, and down to where it belongs.
    #[inline]
    fn sink(&mut self, entry: u128) {
        let entries = &mut self.entries[..];
        let mut hole = 0;
        loop {
            let first = ARITY * hole + 1;
            if first >= entries.len() {
                break;
            }
            let mut least = first;
            for child in first + 1..(first + ARITY).min(entries.len()) {
                if entries[child] < entries[least] {
                    least = child;
                }
            }
            if entries[least] >= entry {
                break;
            }
            entries[hole] = entries[least];
            hole = least;
        }
        entries[hole] = entry;
    }

    /// Takes the last entry up to where it belongs.
    #[inline]
    fn rise(&mut self) {
        let entries = &mut self.entries[..];
        let mut hole = entries.len() - 1;
        let entry = entries[hole];
        while hole > 0 {
            let parent = (hole - 1) / ARITY;
            if entries[parent] <= entry {
                break;
            }
            entries[hole] = entries[parent];
            hole = parent;
        }
        entries[hole] = entry;
    }
}

/// What can happen, as the calendar holds it: four bits of kind, and of whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The present step of a job is done.
    StepDone(u32),
    /// Somebody's work at a shared resource may be done.
    Resource(u32),
    /// A client that waited comes (again).
    Wake(u32),
    /// An open client's next request or session comes.
    Arrival(u32),
    /// The number of a closed client's users changes.
    Users(u32),
    /// A running event may have come to its limit.
    Limit(u32),
    /// A worker is done with an event that was ended early.
    CleanedUp(u32),
    /// A reply that never comes may be given up.
    AnswerTime(u32),
    /// The first data of a stream may be out.
    FirstData(u32),
    /// A client may leave.
    Leave(u32),
    /// A client may send another request.
    Resend(u32),
    /// The governors tick.
    Tick,
    /// A second has passed.
    Second,
    /// A part of the measured time begins.
    Mark,
}

const OF_WHOM_BITS: u32 = 28;

impl Event {
    #[inline]
    pub(super) fn pack(self) -> u32 {
        let (kind, of_whom) = match self {
            Self::StepDone(job) => (0, job),
            Self::Resource(resource) => (1, resource),
            Self::Wake(job) => (2, job),
            Self::Arrival(client) => (3, client),
            Self::Users(client) => (4, client),
            Self::Tick => (5, 0),
            Self::Second => (6, 0),
            Self::Mark => (7, 0),
            Self::Limit(job) => (8, job),
            Self::CleanedUp(job) => (9, job),
            Self::AnswerTime(job) => (10, job),
            Self::FirstData(job) => (11, job),
            Self::Leave(job) => (12, job),
            Self::Resend(job) => (13, job),
        };
        debug_assert!(of_whom >> OF_WHOM_BITS == 0, "jobs and parts are bounded");
        kind << OF_WHOM_BITS | of_whom
    }

    #[inline]
    pub(super) fn unpack(packed: u32) -> Self {
        let of_whom = packed & ((1 << OF_WHOM_BITS) - 1);
        match packed >> OF_WHOM_BITS {
            0 => Self::StepDone(of_whom),
            1 => Self::Resource(of_whom),
            2 => Self::Wake(of_whom),
            3 => Self::Arrival(of_whom),
            4 => Self::Users(of_whom),
            5 => Self::Tick,
            6 => Self::Second,
            7 => Self::Mark,
            8 => Self::Limit(of_whom),
            9 => Self::CleanedUp(of_whom),
            10 => Self::AnswerTime(of_whom),
            11 => Self::FirstData(of_whom),
            12 => Self::Leave(of_whom),
            _ => Self::Resend(of_whom),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_happens_at_one_instant_happens_in_the_order_of_its_making() {
        let mut calendar = Calendar::default();
        for what in [5, 3, 9, 1] {
            calendar.push(7, what);
        }
        calendar.push(2, 8);
        let order: Vec<_> = std::iter::from_fn(|| calendar.pop_before(8)).collect();
        assert_eq!(order, [(2, 8), (7, 5), (7, 3), (7, 9), (7, 1)]);
        assert_eq!(calendar.pop_before(u64::MAX), None);
    }

    proptest! {
        /// Against a sorted list.
        #[test]
        fn entries_come_out_as_from_a_sorted_list(
            operations in prop::collection::vec((prop::option::of(0u64..50), 0u64..60), 0..400),
        ) {
            let mut calendar = Calendar::default();
            let mut model: Vec<(u64, u32)> = Vec::new();
            for (index, (operation, end)) in operations.into_iter().enumerate() {
                match operation {
                    Some(nanos) => {
                        let place = model.partition_point(|&(other, _)| other <= nanos);
                        model.insert(place, (nanos, index as u32));
                        calendar.push(nanos, index as u32);
                    }
                    None => {
                        let is_due = model.first().is_some_and(|&(nanos, _)| nanos < end);
                        let expected = is_due.then(|| model.remove(0));
                        prop_assert_eq!(calendar.pop_before(end), expected);
                    }
                }
            }
        }
    }
}
