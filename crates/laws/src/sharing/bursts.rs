//! Calls that one client makes together, as those of a page are.
//!
//! A page is of use only with all of its calls. If each call is judged alone, an overload lets in
//! some of every page, and few pages are whole. So a client of whom a call has just been let in may
//! fill more of the queue than one who begins: pages are let in whole or rejected at their first
//! call, and all clients have the same chance that this one is let in.
//!
//! The table has a fixed size. Of two clients in one slot the later is remembered, and the other is
//! one who begins.

use std::time::Duration;

use tamarisk_control::Timestamp;

/// Clients whose bursts are remembered, in 4 KiB.
const SLOTS: usize = 256;

/// The latest bursts of clients.
#[derive(Clone, Debug)]
pub(crate) struct Bursts {
    slots: Box<[Burst; SLOTS]>,
    length: Duration,
}

/// A client and when the first call of its burst was let in. No client has flow 0.
#[derive(Clone, Copy, Debug, Default)]
struct Burst {
    flow: u64,
    began: Timestamp,
}

impl Bursts {
    /// Bursts of so long.
    pub(crate) fn new(length: Duration) -> Self {
        Self { slots: Box::new([Burst::default(); SLOTS]), length }
    }

    /// Bursts are of another length from now on.
    pub(crate) fn set_length(&mut self, length: Duration) {
        self.length = length;
    }

    /// A call of the client of `flow` is let in.
    #[inline]
    pub(crate) fn admit(&mut self, now: Timestamp, flow: u64) {
        if !self.has_begun(now, flow) {
            self.slots[slot(flow)] = Burst { flow, began: now };
        }
    }

    /// Whether the client of `flow`, if it is known, is within a burst.
    #[inline]
    pub(crate) fn has_begun(&self, now: Timestamp, flow: u64) -> bool {
        let burst = &self.slots[slot(flow)];
        flow != 0 && burst.flow == flow && now.since(burst.began) < self.length
    }
}

/// The upper eight bits of a product that depends on all bits of the flow.
#[inline]
fn slot(flow: u64) -> usize {
    (flow.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_millis(100);

    fn at(millis: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn a_burst_begins_with_the_first_call_that_is_let_in_and_ends_in_time() {
        let mut bursts = Bursts::new(LENGTH);
        assert!(!bursts.has_begun(at(1000), 7));
        bursts.admit(at(1000), 7);
        bursts.admit(at(1099), 7);
        assert!(bursts.has_begun(at(1099), 7));
        assert!(!bursts.has_begun(at(1100), 7), "a later call makes it no longer");
        bursts.admit(at(1100), 7);
        assert!(bursts.has_begun(at(1199), 7));
    }

    #[test]
    fn an_unknown_client_has_no_burst() {
        let mut bursts = Bursts::new(LENGTH);
        bursts.admit(at(1000), 0);
        assert!(!bursts.has_begun(at(1000), 0));
    }

    #[test]
    fn of_two_clients_in_one_slot_the_later_is_remembered() {
        let mut bursts = Bursts::new(LENGTH);
        let other = (8..).find(|&flow| slot(flow) == slot(7)).unwrap();
        bursts.admit(at(1000), 7);
        bursts.admit(at(1001), other);
        assert!(bursts.has_begun(at(1001), other) && !bursts.has_begun(at(1001), 7));
    }
}
