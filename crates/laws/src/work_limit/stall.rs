//! Pauses of the upstream, in which nothing completes.
//!
//! A collection of garbage, a lost network, a restart: for a while nothing comes back, and then
//! all of it late. What was in flight meanwhile says nothing of what comes after. It is told
//! from slow service by how many answers usually come from what is in flight.

use super::kinds::{Kind, Kinds};
use super::promises::Promises;

/// It is a pause if usually so many answers would have come, by what is in flight and by how many
/// came of late, …
const ANSWERS: f64 = 12.0;
/// … and it is longer than so many usual responses, and than this, in seconds.
const RESPONSES: f64 = 1.5;
const LENGTH_MIN: f64 = 0.03;
/// Of late reaches back over so many answers.
const RECENT: f64 = 32.0;

/// Times are in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stall {
    last: f64,
    gap: Option<f64>,
    stalled: bool,
    /// What was sent before this instant was in flight in a pause.
    until: f64,
}

impl Stall {
    pub(super) fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// A request is sent; `alone` if nothing else is in flight.
    pub(super) fn on_start(&mut self, now: f64, alone: bool) {
        if alone {
            self.last = now;
        }
    }

    /// An answer to a request of `sent` has come. Whether it says something of the service.
    pub(super) fn on_answer(&mut self, now: f64, sent: f64) -> bool {
        let gap = now - self.last;
        if !self.stalled {
            let known = self.gap.unwrap_or(gap);
            self.gap = Some(known + (gap - known) / RECENT);
        }
        (self.last, self.stalled) = (now, false);
        sent >= self.until
    }

    /// Time passes. Whether there is a pause.
    pub(super) fn on_tick(&mut self, now: f64, kinds: &Kinds, promises: &Promises) -> bool {
        let Some(gap) = self.gap else { return false };
        // A stream that has no place yet sends nothing, however healthy the upstream is.
        let tells = |kind: &Kind| kind.streams.is_none() && kind.running > 0;
        let (mut count, mut seconds, mut rate, mut unknown) = (0.0, 0.0, 0.0, 0.0);
        for (_, kind) in kinds.iter().filter(|(_, kind)| tells(kind)) {
            if kind.service.known().is_none() {
                // The first to come back were the short ones.
                unknown += f64::from(kind.running);
                continue;
            }
            let response = kind.service.recent().min(promises.park_after(kind));
            let running = f64::from(kind.running);
            count += running;
            seconds += running * response;
            rate += running / response;
        }
        let usual = (ANSWERS / rate).max(ANSWERS * gap).max(RESPONSES * seconds / count);
        let length = usual.max(LENGTH_MIN);
        self.stalled = count > unknown && now - self.last > length;
        if self.stalled {
            self.until = now;
        }
        self.stalled
    }
}
