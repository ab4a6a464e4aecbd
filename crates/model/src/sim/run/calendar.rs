//! What is still to happen, soonest first.
//!
//! A heap with four children a node in one array. An entry is one 128-bit word,
//! so that comparing two entries is two instructions: the time above, then a
//! count that keeps entries of one instant in the order in which they were made,
//! then what happens. Most events make one successor (an arrival the next one, a
//! completion the next start), which takes the root's place: one walk, not two.

/// An instant in nanoseconds must be below this, some 833 days; the count gets the
/// next 40 bits (it wraps after a thousand thousand million entries, which only
/// blurs the order within an instant), what happens the last 32.
pub(in crate::sim) const NANOS_MAX: u64 = (1 << TIME_BITS) - 1;

const TIME_BITS: u32 = 56;
const COUNT_BITS: u32 = 40;
const WHAT_BITS: u32 = 32;
const ARITY: usize = 4;

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

    /// Takes out what happens next, and when.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<(u64, u32)> {
        if self.taken {
            self.taken = false;
            let last = self.entries.pop()?;
            if !self.entries.is_empty() {
                self.sink(last);
            }
        }
        let &root = self.entries.first()?;
        self.taken = true;
        Some(((root >> (COUNT_BITS + WHAT_BITS)) as u64, root as u32))
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
        let order: Vec<_> = std::iter::from_fn(|| calendar.pop()).collect();
        assert_eq!(order, [(2, 8), (7, 5), (7, 3), (7, 9), (7, 1)]);
        assert_eq!(calendar.pop(), None);
    }

    proptest! {
        /// Against a sorted list.
        #[test]
        fn entries_come_out_as_from_a_sorted_list(
            operations in prop::collection::vec(prop::option::of(0u64..50), 0..400),
        ) {
            let mut calendar = Calendar::default();
            let mut model: Vec<(u64, u32)> = Vec::new();
            for (index, operation) in operations.into_iter().enumerate() {
                match operation {
                    Some(nanos) => {
                        let place = model.partition_point(|&(other, _)| other <= nanos);
                        model.insert(place, (nanos, index as u32));
                        calendar.push(nanos, index as u32);
                    }
                    None => {
                        let expected = (!model.is_empty()).then(|| model.remove(0));
                        prop_assert_eq!(calendar.pop(), expected);
                    }
                }
            }
        }
    }
}
