//! Which streams wait for a place of the upstream, and which for something to happen.
//!
//! Where there are no places left, streams wait in the order in which they were sent. A stream
//! of notifications has its first data when there is one: sooner or later than another's. So a
//! stream that waits while one sent after it has data waits for no place.

use std::collections::VecDeque;

/// Of so many streams at most it is known when they were sent.
const MOST: usize = 64;
/// Seconds that rounding may be off by.
pub(super) const ROUNDING: f64 = 1e-6;
/// What was sent within so many seconds may come to the upstream in another order.
const ORDERED: f64 = 0.05;
/// Seconds after which it may be otherwise that streams wait for something to happen.
const KEPT: f64 = 300.0;

/// The streams of one kind that may wait for a place: none that was sent later has had data.
/// Times are in seconds.
#[derive(Clone, Debug, Default)]
pub(super) struct FirstData {
    sent: VecDeque<f64>,
    /// So many more were sent before those.
    earlier: u32,
    /// So many were overtaken at once, at most, after they had waited for longer than usual; and when
    /// some were at last.
    overtaken: (u32, f64),
}

impl FirstData {
    /// How many may wait for a place.
    pub(super) fn waiting(&self) -> u32 {
        self.earlier + self.sent.len() as u32
    }

    /// When the latest of them was sent.
    pub(super) fn latest(&self) -> Option<f64> {
        self.sent.back().copied()
    }

    /// So many may wait, and it shows that they wait for no place.
    pub(super) fn overtaken(&self, now: f64) -> u32 {
        let (count, at) = self.overtaken;
        if now - at < KEPT { count } else { 0 }
    }

    /// How long they have waited on average, or longer; 0 if there are none.
    pub(super) fn mean_age(&self, now: f64) -> f64 {
        let of_earlier =
            self.sent.front().map_or(0.0, |sent| f64::from(self.earlier) * (now - sent));
        let ages: f64 = self.sent.iter().map(|sent| now - sent).sum();
        (of_earlier + ages) / f64::from(self.waiting().max(1))
    }

    /// One is sent at `sent`.
    pub(super) fn send(&mut self, sent: f64) {
        let index = self.sent.partition_point(|it| *it <= sent);
        self.sent.insert(index, sent);
        if self.sent.len() > MOST {
            self.sent.pop_front();
            self.earlier += 1;
        }
    }

    /// Whether one that was sent at `sent` is among those that may wait for a place.
    pub(super) fn knows(&self, sent: f64) -> bool {
        self.index(sent).is_some()
    }

    fn index(&self, sent: f64) -> Option<usize> {
        self.sent.iter().position(|it| (it - sent).abs() < ROUNDING)
    }

    /// One that was sent at `sent` waits no longer. Returns whether it may have waited for a place.
    pub(super) fn stop(&mut self, sent: f64) -> bool {
        if self.index(sent).and_then(|index| self.sent.remove(index)).is_some() {
            return true;
        }
        let is_earlier = self.earlier > 0 && self.sent.front().is_none_or(|first| sent < *first);
        self.earlier -= u32::from(is_earlier);
        is_earlier
    }

    /// One that was sent at `sent` has data: those sent before it wait for no place. Returns how many
    /// these are, and whether some had waited for longer than `usual`.
    pub(super) fn overtake(&mut self, now: f64, sent: f64, usual: f64) -> (u32, bool) {
        let count = self.sent.partition_point(|it| *it < sent - ORDERED);
        let mut late = self.sent.drain(..count).filter(|it| now - it > usual).count() as u32;
        let mut overtaken = count as u32;
        if count > 0 {
            // Those are earlier still.
            late += if late > 0 { self.earlier } else { 0 };
            overtaken += std::mem::take(&mut self.earlier);
        }
        if late > 0 {
            self.overtaken = (late.max(self.overtaken(now)), now);
        }
        (overtaken, late > 0)
    }
}
