//! Which streams wait for a place of the upstream, and which for something to happen.
//!
//! Where there are no places left, streams wait in the order in which they were sent. A stream
//! of notifications has its first data when there is one: sooner or later than another's. So a
//! stream that waits while one sent after it has data waits for no place.

use std::collections::VecDeque;

/// Of so many streams at most it is known when they were sent.
const MOST: usize = 64;
/// Seconds that rounding may be off by.
const ROUNDING: f64 = 1e-6;

/// The streams of one kind that may wait for a place: none that was sent later has had data.
/// Times are in seconds.
#[derive(Clone, Debug, Default)]
pub(super) struct FirstData {
    sent: VecDeque<f64>,
    /// So many were overtaken at once, at most, after they had waited for longer than usual.
    overtaken: u32,
}

impl FirstData {
    /// How many may wait for a place.
    pub(super) fn waiting(&self) -> u32 {
        self.sent.len() as u32
    }

    /// When the latest of them was sent.
    pub(super) fn latest(&self) -> Option<f64> {
        self.sent.back().copied()
    }

    /// So many may wait, and it shows that they wait for no place.
    pub(super) fn overtaken(&self) -> u32 {
        self.overtaken
    }

    /// How long they have waited on average; 0 if there are none.
    pub(super) fn mean_age(&self, now: f64) -> f64 {
        let ages: f64 = self.sent.iter().map(|sent| now - sent).sum();
        ages / self.sent.len().max(1) as f64
    }

    pub(super) fn send(&mut self, now: f64) {
        if self.sent.len() == MOST {
            self.sent.pop_front();
        }
        self.sent.push_back(now);
    }

    /// One that was sent at `sent` waits no longer. Returns whether it may have waited for a place.
    pub(super) fn stop(&mut self, sent: f64) -> bool {
        let index = self.sent.iter().position(|it| (it - sent).abs() < ROUNDING);
        index.and_then(|index| self.sent.remove(index)).is_some()
    }

    /// One has first data that was sent later than all that were sent before `sent`: how many these
    /// are, and whether some had waited for longer than `usual`.
    pub(super) fn overtake(&mut self, now: f64, sent: f64, usual: f64) -> (u32, bool) {
        let earlier = self.sent.partition_point(|it| *it < sent - ROUNDING);
        let late = self.sent.drain(..earlier).filter(|it| now - it > usual).count() as u32;
        self.overtaken = self.overtaken.max(late);
        (earlier as u32, late > 0)
    }
}
