//! Streams: responses that hold their place for as long as they last.
//!
//! A stream is promised the time to its first data, and that shows at once whether the upstream
//! had a place for it: one whose first data does not come waits there. So the places of an
//! upstream need no search: as many as flow while one waits. From then on the next one is sent
//! when one has ended, for what waits in the upstream cannot be withdrawn when it is late; and
//! one more now and then, to see whether there are more places.

use super::kinds::Kind;

/// Streams that wait for their first data for longer than usual, and for longer than this share
/// of the promise, show that all places are taken.
const WAITS_SHARE: f64 = 0.25;
/// While nothing shows that, so many may wait for their first data, as many as this share of those
/// that flow, and one more for each that had its first data in time while others were held back.
const WAITING_MIN: u32 = 2;
const WAITING_SHARE: u32 = 4;
/// What is usual reaches back over so many streams.
const RECENT: f64 = 16.0;

/// What is known of the streams of an upstream. Times are in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Streams {
    /// Until then the upstream is known to have so many places for streams.
    full_until: f64,
    places: Option<u32>,
    /// So many waited at once, and it showed that there was room.
    waited: u32,
    length: f64,
    ended: f64,
    gap: f64,
}

impl Streams {
    /// How many may wait for their first data at once, while so many flow.
    pub(super) fn waiting_max(&self, now: f64, flowing: u32) -> u32 {
        match self.places {
            Some(places) if now < self.full_until => places.saturating_sub(flowing),
            Some(places) => (places + 1).saturating_sub(flowing).max(1),
            None => WAITING_MIN.max(flowing / WAITING_SHARE).max(self.waited),
        }
    }

    /// A stream had its first data after `took` seconds, while so many waited with it, and so many flowed.
    pub(super) fn on_first_data(
        &mut self,
        now: f64,
        kind: &Kind,
        took: f64,
        (waiting, flowing): (u32, u32),
        promise: f64,
    ) {
        let was_in_time = took <= usual(kind, promise);
        if self.places.is_none() && was_in_time && waiting >= self.waiting_max(now, flowing) {
            self.waited = waiting + 1;
        }
    }

    /// A look at those of a kind that wait, to which `promise` seconds are promised, while so
    /// many of all kinds flow.
    pub(super) fn observe(&mut self, now: f64, kind: &Kind, flowing: u32, promise: f64) {
        let Some(own) = kind.flowing else { return };
        let waiting = kind.running.saturating_sub(own);
        let mean_age = kind.ages(now) / f64::from(waiting.max(1));
        if waiting > 0 && mean_age > usual(kind, promise) {
            self.full_until = now + self.length.max(promise);
            self.places = Some(flowing.max(1));
        }
    }

    /// A stream that had its first data has ended after `service` seconds.
    pub(super) fn on_end(&mut self, now: f64, service: f64) {
        let weight = if self.ended == 0.0 { 1.0 } else { 1.0 / RECENT };
        self.length += weight * (service - self.length);
        if self.ended > 0.0 {
            let gap = now - self.ended;
            let weight = if self.gap == 0.0 { 1.0 } else { 1.0 / RECENT };
            self.gap += weight * (gap - self.gap);
        }
        self.ended = now;
    }

    /// How long it takes until so many have ended, if that is known. While all places are
    /// taken and none has ended, the next end is as far away as the promise.
    pub(super) fn wait(&self, now: f64, ahead: u32, promise: f64) -> Option<f64> {
        let is_full = now < self.full_until;
        match (self.gap > 0.0, is_full) {
            (true, _) => Some(f64::from(ahead) * self.gap),
            (false, true) => Some(f64::from(ahead) * promise),
            (false, false) => None,
        }
    }
}

/// Who waits for longer than this for the first data has no place.
fn usual(kind: &Kind, promise: f64) -> f64 {
    kind.service.unhurried().unwrap_or(0.0).max(WAITS_SHARE * promise)
}
