//! Ending a running event early, and never the wrong one.
//!
//! Each worker has a slot that names the event it runs by a sequence number.
//! A request to end the event names that number: a request that arrives after
//! the event ended finds another number and does nothing. The worker acts on a
//! request where that is safe: async work at its next await, blocking work at a
//! checkpoint, neither behind a shield [SERT06 §3].

use std::fmt;
use std::task::Waker;

use crate::sync::{AtomicU64, AtomicWaker, Ordering};

/// A running event: its worker, and its sequence number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EventId {
    pub(crate) worker: u64,
    pub(crate) sequence: u64,
}

/// The event is terminated: its deadline has passed, or somebody requested it. A handler
/// returns this error, and the event counts as terminated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("terminated before it was done")]
pub struct Terminated;

/// What one worker runs now.
pub(crate) struct WorkerSlot {
    /// The number of the event, and whether it still runs. The worker alone writes it.
    event: AtomicU64,
    /// What is asked, and of which event: one word, so that a request and a shield cannot
    /// miss each other. Of an event other than the worker's it says nothing.
    asked: AtomicU64,
    waker: AtomicWaker,
}

const RUNNING: u64 = 1;

const REQUESTED: u64 = 1;
/// Whatever runs is to end, and nothing else is to begin.
const STOPPED: u64 = 1 << 1;
/// With [`REQUESTED`]: because its caller has left.
const ABANDONED: u64 = 1 << 2;
const FLAGS: u32 = 3;

const SHIELD: u64 = 1 << FLAGS;
/// Shields that one event may hold at once; those beyond shield no further.
const SHIELDS_MAX: u64 = (1 << 16) - 1;
const SHIELDS: u64 = SHIELDS_MAX << FLAGS;

/// 45 bits of sequence numbers: at ten million events a second, 40 days until one
/// comes again.
const SEQUENCE: u32 = FLAGS + 16;
const SEQUENCE_MASK: u64 = u64::MAX >> SEQUENCE;

impl WorkerSlot {
    pub(crate) fn new() -> Self {
        Self { event: AtomicU64::new(0), asked: AtomicU64::new(0), waker: AtomicWaker::new() }
    }

    /// The worker begins its next event, which ends the one before if that has
    /// not ended yet; returns the event's sequence number.
    pub(crate) fn begin(&self) -> u64 {
        let before = self.event.load(Ordering::Relaxed) >> 1;
        let sequence = (before + 1) & SEQUENCE_MASK;
        self.event.store((sequence << 1) | RUNNING, Ordering::Release);
        sequence
    }

    /// The event that the worker runs has ended.
    pub(crate) fn end(&self) {
        let event = self.event.load(Ordering::Relaxed);
        self.event.store(event & !RUNNING, Ordering::Release);
    }

    /// Asks the event with this number to end; `false` if it no longer runs.
    pub(crate) fn request(&self, sequence: u64) -> bool {
        self.end_because(sequence, REQUESTED)
    }

    /// The same, because its caller has left, if there is no other reason before.
    pub(crate) fn abandon(&self, sequence: u64) -> bool {
        self.end_because(sequence, REQUESTED | ABANDONED)
    }

    fn end_because(&self, sequence: u64, why: u64) -> bool {
        let requested = |asked| Some(if asked & REQUESTED == 0 { asked | why } else { asked });
        let Some((before, _)) = self.ask(sequence, requested) else {
            return false;
        };
        if before & REQUESTED == 0 {
            self.waker.wake();
        }
        true
    }

    /// Asks whatever runs to end, and the worker to begin nothing else.
    pub(crate) fn stop(&self) {
        self.asked.fetch_or(STOPPED, Ordering::AcqRel);
        self.waker.wake();
    }

    /// The number of the event that runs now, if any.
    pub(crate) fn running(&self) -> Option<u64> {
        let event = self.event.load(Ordering::Acquire);
        (event & RUNNING != 0).then_some(event >> 1)
    }

    /// Whether what the worker does is to end here and now.
    pub(crate) fn is_due(&self) -> bool {
        is_due(self.asked())
    }

    /// Whether the event that runs was asked to end because its caller has left.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.asked() & ABANDONED != 0
    }

    /// Whether the worker is to begin nothing else.
    pub(crate) fn is_stopped(&self) -> bool {
        self.asked.load(Ordering::Acquire) & STOPPED != 0
    }

    /// Whom to wake when a request comes.
    pub(crate) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    /// Shields the event with this number; `false` if it no longer runs.
    pub(crate) fn raise_shield(&self, sequence: u64) -> bool {
        let raised = |asked| (asked & SHIELDS != SHIELDS).then_some(asked + SHIELD);
        self.ask(sequence, raised).is_some()
    }

    /// Lowers a shield that was raised; does nothing if its event has ended.
    pub(crate) fn lower_shield(&self, sequence: u64) {
        let lowered = self.ask(sequence, |asked| Some(asked - SHIELD));
        if lowered.is_some_and(|(_, asked)| is_due(asked)) {
            self.waker.wake();
        }
    }

    pub(crate) fn is_shielded(&self) -> bool {
        self.asked() & SHIELDS != 0
    }

    /// What is asked of the event that runs now.
    fn asked(&self) -> u64 {
        let asked = self.asked.load(Ordering::Acquire);
        self.running().map_or(asked & STOPPED, |sequence| of(sequence, asked))
    }

    /// Changes what is asked of the event with this number while that runs; returns what it
    /// was and is.
    fn ask(&self, sequence: u64, change: impl Fn(u64) -> Option<u64>) -> Option<(u64, u64)> {
        let mut asked = self.asked.load(Ordering::Acquire);
        loop {
            // Read after `asked`: whoever asked it of a later event had seen that begin.
            if self.running() != Some(sequence) {
                return None;
            }
            let before = of(sequence, asked);
            let after = change(before)?;
            let swapped =
                self.asked.compare_exchange_weak(asked, after, Ordering::AcqRel, Ordering::Acquire);
            match swapped {
                Ok(_) => return Some((before, after)),
                Err(current) => asked = current,
            }
        }
    }
}

/// Of what was asked, that which concerns the event with this number: of what was asked of
/// another, only the order to stop is meant for it too.
fn of(sequence: u64, asked: u64) -> u64 {
    if asked >> SEQUENCE == sequence { asked } else { (sequence << SEQUENCE) | (asked & STOPPED) }
}

fn is_due(asked: u64) -> bool {
    asked & (REQUESTED | STOPPED) != 0 && asked & SHIELDS == 0
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
        let slot = WorkerSlot::new();
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
        let slot = WorkerSlot::new();
        let event = slot.begin();
        assert!(slot.raise_shield(event));
        assert!(slot.request(event));
        assert!(!slot.is_due());
        slot.lower_shield(event);
        assert!(slot.is_due());
    }

    #[test]
    fn a_shield_of_an_event_that_ended_holds_nothing() {
        let slot = WorkerSlot::new();
        let first = slot.begin();
        assert!(slot.raise_shield(first));
        slot.end();
        let second = slot.begin();
        assert!(!slot.is_shielded());
        assert!(!slot.raise_shield(first));
        assert!(slot.raise_shield(second));
        slot.lower_shield(first);
        assert!(slot.is_shielded());
    }

    #[test]
    fn more_shields_than_can_be_counted_still_shield() {
        let slot = WorkerSlot::new();
        let event = slot.begin();
        let raised = (0..SHIELDS_MAX + 5).filter(|_| slot.raise_shield(event)).count();
        assert_eq!(raised as u64, SHIELDS_MAX);
        assert!(slot.request(event) && !slot.is_due());
        (0..raised).for_each(|_| slot.lower_shield(event));
        assert!(slot.is_due());
        assert_eq!(slot.running(), Some(event));
    }

    #[test]
    fn an_idle_worker_cannot_be_terminated() {
        let slot = WorkerSlot::new();
        let event = slot.begin();
        slot.end();
        assert!(!slot.request(event));
        assert_eq!(slot.running(), None);
    }

    #[test]
    fn a_worker_told_to_stop_is_due_whatever_it_begins() {
        let slot = WorkerSlot::new();
        slot.stop();
        assert!(slot.is_due() && slot.is_stopped());
        let event = slot.begin();
        assert_eq!((slot.running(), slot.is_due()), (Some(event), true));
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
            let slot = Arc::new(WorkerSlot::new());
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

    /// The same where the second begins without the first having been ended.
    #[test]
    fn a_request_never_hits_an_event_that_takes_the_place_of_another() {
        loom::model(|| {
            let slot = Arc::new(WorkerSlot::new());
            let first = slot.begin();
            let other = {
                let slot = Arc::clone(&slot);
                thread::spawn(move || (slot.request(first), slot.raise_shield(first)))
            };
            slot.begin();
            assert!(!slot.is_due() && !slot.is_shielded(), "nothing was asked of the second event");
            other.join().expect("the requester does not panic");
            assert!(!slot.is_due() && !slot.is_shielded());
        });
    }

    /// A shield is raised and lowered elsewhere while its event ends: the next one
    /// is neither shielded by it nor robbed of its own.
    #[test]
    fn a_shield_never_covers_the_next_event() {
        loom::model(|| {
            let slot = Arc::new(WorkerSlot::new());
            let first = slot.begin();
            let other = {
                let slot = Arc::clone(&slot);
                thread::spawn(move || {
                    if slot.raise_shield(first) {
                        slot.lower_shield(first);
                    }
                })
            };
            slot.end();
            let second = slot.begin();
            assert!(!slot.is_shielded());
            assert!(slot.raise_shield(second));
            other.join().expect("the shield-bearer does not panic");
            assert!(slot.is_shielded());
        });
    }

    /// A worker begins an event while its stage is closed: it hears of it.
    #[test]
    fn an_order_to_stop_is_never_lost() {
        loom::model(|| {
            let slot = Arc::new(WorkerSlot::new());
            slot.begin();
            let other = {
                let slot = Arc::clone(&slot);
                thread::spawn(move || slot.stop())
            };
            slot.end();
            slot.begin();
            other.join().expect("who stops it does not panic");
            assert!(slot.is_due());
        });
    }

    /// A worker that found nothing due and went to sleep is woken by a request.
    #[test]
    fn a_request_wakes_a_worker_that_waits() {
        loom::model(|| {
            let slot = Arc::new(WorkerSlot::new());
            let event = slot.begin();
            let other = {
                let slot = Arc::clone(&slot);
                thread::spawn(move || assert!(slot.request(event)))
            };
            loom::future::block_on(std::future::poll_fn(|cx| {
                slot.register(cx.waker());
                if slot.is_due() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
            }));
            other.join().expect("the requester does not panic");
        });
    }

    /// The same when the request came first and a shield was in its way.
    #[test]
    fn a_lowered_shield_wakes_a_worker_that_waits() {
        loom::model(|| {
            let slot = Arc::new(WorkerSlot::new());
            let event = slot.begin();
            assert!(slot.raise_shield(event) && slot.request(event));
            let other = {
                let slot = Arc::clone(&slot);
                thread::spawn(move || slot.lower_shield(event))
            };
            loom::future::block_on(std::future::poll_fn(|cx| {
                slot.register(cx.waker());
                if slot.is_due() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
            }));
            other.join().expect("the shield-bearer does not panic");
        });
    }
}
