//! How much the upstream has been seen to complete.

use std::time::Duration;

use crate::Timestamp;

/// Completions are counted in slots of this length …
const SLOT: Duration = Duration::from_millis(100);
/// … a rate is taken over so many of them (500 ms) …
const SLOTS_RATE: usize = 5;
/// … and the best rate is remembered for so many (5 s).
const SLOTS_KEPT: usize = 50;

/// The completion rate over the last half second, and its maximum over the last
/// five seconds: a lull says nothing about what the upstream can do.
#[derive(Clone, Debug)]
pub(crate) struct Throughput {
    /// Completions in each slot; `current` is being filled.
    counts: [u32; SLOTS_RATE],
    /// The rate at the end of each slot.
    rates: [f64; SLOTS_KEPT],
    current: usize,
    slot_began: Option<Timestamp>,
    best: f64,
}

impl Throughput {
    pub(crate) fn new() -> Self {
        Self {
            counts: [0; SLOTS_RATE],
            rates: [0.0; SLOTS_KEPT],
            current: 0,
            slot_began: None,
            best: 0.0,
        }
    }

    /// Counts a completion.
    #[inline]
    pub(crate) fn record(&mut self, now: Timestamp) {
        self.advance(now);
        let count = &mut self.counts[self.current % SLOTS_RATE];
        *count = count.saturating_add(1);
    }

    /// X: the best rate of the last five seconds, in completions a second.
    #[inline]
    pub(crate) fn best(&self) -> f64 {
        self.best
    }

    /// Lets time pass.
    #[inline]
    pub(crate) fn advance(&mut self, now: Timestamp) {
        let began = *self.slot_began.get_or_insert(now);
        if now.since(began) >= SLOT {
            self.close_slots(now, began);
        }
    }

    #[cold]
    fn close_slots(&mut self, now: Timestamp, began: Timestamp) {
        let passed = now.since(began).as_nanos() / SLOT.as_nanos();
        // After a silence longer than the memory every slot is empty.
        let steps = usize::try_from(passed).unwrap_or(usize::MAX).min(SLOTS_KEPT + SLOTS_RATE);
        for _ in 0..steps {
            let sum: u32 = self.counts.iter().fold(0, |sum, &count| sum.saturating_add(count));
            self.rates[self.current % SLOTS_KEPT] =
                f64::from(sum) / (SLOT.as_secs_f64() * SLOTS_RATE as f64);
            self.current = (self.current + 1) % (SLOTS_RATE * SLOTS_KEPT);
            self.counts[self.current % SLOTS_RATE] = 0;
        }
        self.slot_began = Some(now);
        self.best = self.rates.iter().copied().fold(0.0, f64::max);
    }
}
