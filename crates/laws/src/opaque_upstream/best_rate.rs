//! The best completion rate of the last seconds.

use std::time::Duration;

use tamarisk_control::Timestamp;

/// Completions are counted in slots of this length …
const SLOT: Duration = Duration::from_millis(100);
/// … a rate is taken over so many of them (500 ms) …
const SLOTS_RATE: usize = 5;
/// … and the best rate is remembered for so many (5 s).
const SLOTS_KEPT: usize = 50;

/// The best of the half-second completion rates of the last five seconds: a lull
/// says nothing about what an upstream can do, a good half second says much.
#[derive(Clone, Debug)]
pub(crate) struct BestRate {
    /// Completions in each of the last slots; the one at `current` is being filled.
    counts: [u32; SLOTS_RATE],
    /// The rate at the end of each slot.
    rates: [f64; SLOTS_KEPT],
    current: usize,
    slot_began: Option<Timestamp>,
    best: f64,
}

impl BestRate {
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
    pub(crate) fn complete(&mut self, now: Timestamp) {
        self.pass_time(now);
        let count = &mut self.counts[self.current % SLOTS_RATE];
        *count = count.saturating_add(1);
    }

    /// In completions a second.
    #[inline]
    pub(crate) fn get(&self) -> f64 {
        self.best
    }

    #[inline]
    pub(crate) fn pass_time(&mut self, now: Timestamp) {
        let began = *self.slot_began.get_or_insert(now);
        if now.since(began) >= SLOT {
            self.close_slots(now, began);
        }
    }

    #[cold]
    fn close_slots(&mut self, now: Timestamp, began: Timestamp) {
        let elapsed = now.since(began).as_nanos();
        let (passed, rest) = (elapsed / SLOT.as_nanos(), elapsed % SLOT.as_nanos());
        // After a silence longer than the memory every slot is empty.
        let steps = usize::try_from(passed).unwrap_or(usize::MAX).min(SLOTS_KEPT + SLOTS_RATE);
        for _ in 0..steps {
            let sum = self.counts.iter().fold(0_u32, |sum, &count| sum.saturating_add(count));
            let seconds = SLOT.as_secs_f64() * SLOTS_RATE as f64;
            self.rates[self.current % SLOTS_KEPT] = f64::from(sum) / seconds;
            self.current = (self.current + 1) % SLOTS_KEPT;
            self.counts[self.current % SLOTS_RATE] = 0;
        }
        self.slot_began = Some(Timestamp::from_nanos(now.as_nanos() - rest as u64));
        self.best = self.rates.iter().copied().fold(0.0, f64::max);
    }
}

/// `current` serves as an index into both rings.
const _: () = assert!(SLOTS_KEPT.is_multiple_of(SLOTS_RATE));

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_nanos(millis * 1_000_000)
    }

    /// 100 completions a second from 0 to 2 s.
    fn busy() -> BestRate {
        let mut rate = BestRate::new();
        (0..200).for_each(|index| rate.complete(at(index * 10)));
        rate
    }

    #[test]
    fn a_steady_rate_is_its_own_best() {
        assert_eq!(busy().get(), 100.0);
    }

    #[test]
    fn a_lull_of_four_seconds_is_forgiven_and_one_of_six_is_not() {
        let mut rate = busy();
        (20..60).for_each(|tenths| rate.pass_time(at(tenths * 100)));
        assert_eq!(rate.get(), 100.0);
        (60..80).for_each(|tenths| rate.pass_time(at(tenths * 100)));
        assert_eq!(rate.get(), 0.0);
    }

    #[test]
    fn a_silence_of_a_year_is_passed_in_one_step() {
        let mut rate = busy();
        rate.pass_time(Timestamp::MAX);
        assert_eq!(rate.get(), 0.0);
    }

    #[test]
    fn time_standing_still_makes_no_rate() {
        let mut rate = BestRate::new();
        (0..1000).for_each(|_| rate.complete(Timestamp::ZERO));
        assert_eq!(rate.get(), 0.0);
    }
}
