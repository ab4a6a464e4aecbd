//! Ending a running event early, and never the wrong one.
//!
//! Each worker has a slot that names the event it runs by a sequence number.
//! Whoever wants the event ended names that number: a request that arrives after
//! the event ended finds another number and does nothing. The worker acts on a
//! request where that is safe: async work at its next await, blocking work at a
//! checkpoint, neither behind a shield [SERT06 §3].

use std::fmt;

use futures_util::task::AtomicWaker;

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// A running event: which worker runs it, and as its how-manieth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EventId {
    pub(crate) worker: u64,
    pub(crate) sequence: u64,
}

/// The event was told to end: its deadline has passed, or someone asked for it.
/// A handler passes it on, and the event counts as terminated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("terminated before it was done")]
pub struct Terminated;

/// What one worker runs now.
pub(crate) struct Slot {
    /// Sequence number × 4 + flags: one word, so that a request and the end of
    /// the event it names cannot miss each other.
    word: AtomicU64,
    shields: AtomicU32,
    waker: AtomicWaker,
}

const RUNNING: u64 = 1;
const REQUESTED: u64 = 2;

impl Slot {
    pub(crate) fn new() -> Self {
        Self { word: AtomicU64::new(0), shields: AtomicU32::new(0), waker: AtomicWaker::new() }
    }

    /// The worker begins its next event; returns the event's sequence number.
    pub(crate) fn begin(&self) -> u64 {
        let sequence = (self.word.load(Ordering::Relaxed) >> 2) + 1;
        self.shields.store(0, Ordering::Relaxed);
        self.word.store((sequence << 2) | RUNNING, Ordering::Release);
        sequence
    }

    /// The event that the worker runs has ended.
    pub(crate) fn end(&self) {
        self.word.fetch_and(!(RUNNING | REQUESTED), Ordering::AcqRel);
    }

    /// Asks the event with this number to end; `false` if it no longer runs.
    pub(crate) fn request(&self, sequence: u64) -> bool {
        let running = (sequence << 2) | RUNNING;
        let requested = running | REQUESTED;
        let answer =
            self.word.compare_exchange(running, requested, Ordering::AcqRel, Ordering::Acquire);
        match answer {
            Ok(_) => {
                self.waker.wake();
                true
            }
            Err(word) => word == requested,
        }
    }

    /// The number of the event that runs now, if any.
    pub(crate) fn running(&self) -> Option<u64> {
        let word = self.word.load(Ordering::Acquire);
        (word & RUNNING != 0).then_some(word >> 2)
    }

    /// Whether the running event is to end here and now.
    pub(crate) fn is_due(&self) -> bool {
        self.word.load(Ordering::Acquire) & REQUESTED != 0
            && self.shields.load(Ordering::Acquire) == 0
    }

    /// Whom to wake when a request comes.
    pub(crate) fn register(&self, waker: &std::task::Waker) {
        self.waker.register(waker);
    }

    pub(crate) fn raise_shield(&self) {
        self.shields.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn lower_shield(&self) {
        self.shields.fetch_sub(1, Ordering::AcqRel);
    }

    pub(crate) fn is_shielded(&self) -> bool {
        self.shields.load(Ordering::Acquire) > 0
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.worker, self.sequence)
    }
}

#[cfg(all(test, not(tamarisk_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_comes_late_finds_another_event_and_does_nothing() {
        let slot = Slot::new();
        let first = slot.begin();
        slot.end();
        let second = slot.begin();
        assert!(!slot.request(first));
        assert!(!slot.is_due());
        assert!(slot.request(second));
        assert!(slot.is_due());
    }

    #[test]
    fn a_shield_puts_the_request_off() {
        let slot = Slot::new();
        let event = slot.begin();
        slot.raise_shield();
        assert!(slot.request(event));
        assert!(!slot.is_due());
        slot.lower_shield();
        assert!(slot.is_due());
    }

    #[test]
    fn an_idle_worker_cannot_be_terminated() {
        let slot = Slot::new();
        let event = slot.begin();
        slot.end();
        assert!(!slot.request(event));
        assert_eq!(slot.running(), None);
    }
}

#[cfg(all(test, tamarisk_loom))]
mod model {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// One thread ends the first event and begins the second, while another asks
    /// for the first to end: in no interleaving is the second one hit.
    #[test]
    fn a_request_never_hits_the_next_event() {
        loom::model(|| {
            let slot = Arc::new(Slot::new());
            let first = slot.begin();
            let other = {
                let slot = Arc::clone(&slot);
                thread::spawn(move || slot.request(first))
            };
            let ended_by_request = slot.is_due();
            slot.end();
            slot.begin();
            assert!(!slot.is_due(), "the second event was never asked to end");
            let accepted = other.join().expect("the requester does not panic");
            assert!(!ended_by_request || accepted);
        });
    }
}
