//! Streams: responses that hold their place for as long as they last.
//!
//! A stream is promised the time to its first data, and that shows at once whether the upstream
//! had a place for it: one whose first data does not come waits there (`first_data.rs`). So the
//! places of an upstream need no search: as many as flow while one waits. From then on the next
//! one is sent when one has ended, for what waits in the upstream cannot be withdrawn when it is
//! late; and one more now and then, to see whether there are more places. First data that takes
//! longer than before is told from a wait by the ends of others: without one no place is freed.
//! Where there are no places, what the streams send shows how many are of use (`stream_pace.rs`).

use super::first_data::{FirstData, ROUNDING};
use super::stream_pace::StreamPace;

/// Streams that wait for their first data for longer than usual, and for longer than this share
/// of the promise, show that all places are taken, …
const WAITS_SHARE: f64 = 0.25;
/// … where longer than usual is longer than so many times the mean, …
const USUAL: f64 = 2.0;
/// … unless no more wait than so many times the promises that the mean takes: that is chance, …
const CHANCE: f64 = 4.0;
/// … up to so many.
const CHANCE_MAX: f64 = 8.0;
/// While nothing shows that, so many may wait for their first data, …
const WAITING_MIN: u32 = 2;
/// … so many times as many as wait by chance, …
const WAITING_CHANCES: u32 = 4;
/// … as many as this share of those that flow, and one more for each that had its first data in
/// time while others were held back, or as many as that one has overtaken.
const WAITING_SHARE: u32 = 4;
/// Who waits for a place for so many lengths of a stream for each that waits, may wait for
/// something else.
const OVERDUE: f64 = 2.0;
/// One more is sent to see after a length of a stream, then after two, four and so on, up to two to
/// the power of this.
const REFUTED_MAX: u32 = 4;
/// Where more flow than the known places, and this part of them, these are not all.
const MORE: u32 = 4;
/// So many in a row that had places and were slow show that it is not chance.
pub(super) const SLOW: u32 = 4;
/// What is usual reaches back over so many streams.
const RECENT: f64 = 16.0;

/// What is known of the streams of one kind. Times are in seconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams {
    /// Those whose first data is out.
    pub(super) flowing: u32,
    pub(super) pace: StreamPace,
    first_data: FirstData,
    /// Until then the upstream is known to have so many places for them.
    full_until: f64,
    places: Option<u32>,
    /// So many times in a row one more has shown that there are no more.
    refuted: u32,
    /// So many waited at once, and it showed that there was room.
    waited: u32,
    /// So many in a row that had places were slow, and how long these took together.
    slow: (u32, f64),
    length: f64,
    ended: f64,
    gap: f64,
}

/// What the first data of a stream tells of the time that it takes where nobody waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Tells {
    /// It may have waited for a place.
    Nothing,
    /// It takes others as long.
    OfOthers,
    /// It takes longer than it did: this is the mean.
    LongerThanBefore(f64),
}

/// The time to the first data of a kind: the mean where nobody waits, if that is known, and what is
/// promised.
#[derive(Clone, Copy, Debug)]
pub(super) struct ToFirstData {
    pub(super) unhurried: Option<f64>,
    pub(super) promise: f64,
}

impl ToFirstData {
    /// Who waits for longer than this may have no place.
    fn usual(self) -> f64 {
        (USUAL * self.unhurried.unwrap_or(0.0)).max(WAITS_SHARE * self.promise)
    }

    /// Whether it takes longer than is promised where nobody waits: then none is late for want of a place.
    fn is_beyond_promise(self) -> bool {
        self.unhurried.is_some_and(|unhurried| unhurried > self.promise)
    }

    /// So many may wait for longer by chance.
    fn chance(self) -> u32 {
        (CHANCE * self.unhurried.unwrap_or(0.0) / self.promise).min(CHANCE_MAX) as u32
    }
}

impl Streams {
    /// Those that may wait for a place.
    pub(super) fn waiting(&self) -> u32 {
        self.first_data.waiting()
    }

    /// Whether one more may be sent.
    pub(super) fn may_start(&self, now: f64, time: ToFirstData) -> bool {
        let waiting = self.waiting();
        waiting < self.waiting_max(now, time) && waiting + self.flowing < self.pace.most(now)
    }

    /// How many may wait for a place at once.
    fn waiting_max(&self, now: f64, time: ToFirstData) -> u32 {
        match self.places {
            _ if self.is_overdue(now, time.promise) => self.waiting() + 1,
            Some(places) if now < self.full_until => places.saturating_sub(self.flowing),
            Some(places) => (places + 1).saturating_sub(self.flowing).max(1),
            None => {
                let least = WAITING_MIN.max(WAITING_CHANCES * time.chance());
                let overtaken = 2 * self.first_data.overtaken(now);
                least.max(self.flowing / WAITING_SHARE).max(self.waited).max(overtaken)
            }
        }
    }

    /// Whether those that wait for a place have done so for longer than it takes until there is
    /// one, or several: they may wait for something else.
    fn is_overdue(&self, now: f64, promise: f64) -> bool {
        let places = f64::from(self.places.unwrap_or(1));
        // None has a place that could become free, or it is not known how long that takes.
        let until_place = match self.flowing > 0 && self.gap > 0.0 {
            true => self.length.max(promise) * (1.0 + f64::from(self.waiting()) / places),
            false => promise,
        };
        let patience = OVERDUE * until_place;
        self.first_data.latest().is_some_and(|sent| now - sent > patience)
    }

    /// One is sent, or was at `sent` and had no place meanwhile.
    pub(super) fn start(&mut self, sent: f64) {
        self.first_data.send(sent);
    }

    /// Whether one that was sent at `sent` is known to wait for its first data.
    pub(super) fn is_waiting(&self, sent: f64) -> bool {
        self.first_data.knows(sent)
    }

    /// One that was sent at `sent` waits no longer for its first data.
    pub(super) fn stop(&mut self, sent: f64) {
        self.first_data.stop(sent);
    }

    /// One has its first data after `took` seconds; the last end of a stream, of any kind, was at
    /// `last_end`.
    pub(super) fn on_first_data(
        &mut self,
        now: f64,
        took: f64,
        time: ToFirstData,
        last_end: f64,
    ) -> Tells {
        let (usual, sent) = (time.usual(), now - took);
        let (waiting, most) = (self.waiting(), self.waiting_max(now, time));
        let may_have_waited = self.first_data.stop(sent);
        let (overtaken, some_were_late) = self.first_data.overtake(now, sent, usual);
        let is_slow = took > usual && time.unhurried.is_some();
        // No place became free for it where none has ended since: it had one of its own.
        if last_end <= sent + ROUNDING && self.is_slower_by_now(took, is_slow) {
            return Tells::LongerThanBefore(self.start_anew(waiting));
        }
        match self.places {
            Some(places) if some_were_late || self.flowing >= places + places / MORE => {
                self.places = None;
                self.refuted = 0;
            }
            Some(places) if self.flowing >= places => self.full_until = now,
            Some(_) => {}
            None if took <= usual && waiting >= most => {
                let more = if time.is_beyond_promise() { waiting } else { 1 };
                self.waited = waiting + overtaken.max(more);
            }
            None => {}
        }
        match may_have_waited && is_slow && self.first_data.overtaken(now) == 0 {
            true => Tells::Nothing,
            false => Tells::OfOthers,
        }
    }

    /// Counts one with a place of its own. Whether so many in a row were slow that this is no chance.
    fn is_slower_by_now(&mut self, took: f64, is_slow: bool) -> bool {
        let (count, seconds) = self.slow;
        self.slow = if is_slow { (count + 1, seconds + took) } else { (0, 0.0) };
        self.slow.0 == SLOW
    }

    /// Forgets the places. Returns how long the recent ones took, on average.
    fn start_anew(&mut self, waiting: u32) -> f64 {
        let (count, seconds) = std::mem::take(&mut self.slow);
        self.places = None;
        self.refuted = 0;
        self.waited = waiting;
        seconds / f64::from(count)
    }

    /// A look at those that wait.
    pub(super) fn observe(&mut self, now: f64, time: ToFirstData) {
        let usual = time.usual();
        let by_chance = self.first_data.overtaken(now).max(time.chance());
        let wait = self.waiting() > by_chance && self.first_data.mean_age(now) > usual;
        // Whoever has the place of one that ended has no data yet.
        let is_place_taken = now - self.ended >= usual.min(self.gap);
        let places = self.flowing;
        if !wait || !is_place_taken || places == 0 {
            return;
        }
        if self.places.is_none_or(|known| places > known) {
            self.refuted = 0;
        } else if now >= self.full_until {
            self.refuted = (self.refuted + 1).min(REFUTED_MAX);
        }
        self.places = Some(places);
        self.waited = 0;
        let lengths = f64::from(1 << self.refuted);
        self.full_until = now + lengths * self.length.max(time.promise);
    }

    /// A stream that had its first data has ended after `service` seconds.
    pub(super) fn on_end(&mut self, now: f64, service: f64) {
        let weight = if self.ended == 0.0 { 1.0 } else { 1.0 / RECENT };
        self.length += weight * (service - self.length);
        if self.ended > 0.0 {
            // Before that one began, none may have been there.
            let gap = (now - self.ended).min(service);
            let weight = if self.gap == 0.0 { 1.0 } else { 1.0 / RECENT };
            self.gap += weight * (gap - self.gap);
        }
        self.ended = now;
    }

    /// How long one more waits that finds `queued` before it, if that is known. While all places are
    /// taken and none has ended, the next end is as far away as the promise.
    pub(super) fn wait(&self, now: f64, queued: u32, promise: f64) -> Option<f64> {
        // Else it waits until others have data, not until they end.
        let waits_for_end =
            self.places.is_some() || self.waiting() + self.flowing >= self.pace.most(now);
        let ahead = f64::from(queued + self.waiting());
        let is_full = now < self.full_until;
        match (self.gap > 0.0, is_full) {
            (true, _) if waits_for_end => Some(ahead * self.gap),
            (false, true) => Some(ahead * promise),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: ToFirstData = ToFirstData { unhurried: Some(0.1), promise: 2.0 };
    const LONG: ToFirstData = ToFirstData { unhurried: Some(20.0), promise: 0.2 };

    /// So many flow since the first second, of which one was sent after each tenth.
    fn flowing(count: u32) -> Streams {
        let mut streams = Streams::default();
        for index in 0..count {
            let sent = f64::from(index) / 10.0;
            streams.start(sent);
            streams.on_first_data(sent + 0.05, 0.05, QUICK, 0.0);
            streams.flowing += 1;
        }
        streams
    }

    #[test]
    fn a_stream_that_waits_behind_all_others_shows_that_the_places_are_taken() {
        let mut streams = flowing(3);
        streams.start(1.0);
        streams.observe(1.4, QUICK);
        assert!(streams.may_start(1.4, QUICK), "it does not wait for longer than usual");
        streams.observe(1.6, QUICK);
        assert!(!streams.may_start(1.6, QUICK));
        // One ends, and the one that waited has its place.
        streams.flowing -= 1;
        streams.on_end(1.7, 1.0);
        assert!(!streams.may_start(1.7, QUICK), "it goes to the one that waits");
        let waited = streams.on_first_data(1.8, 0.8, QUICK, 1.7);
        assert_eq!(waited, Tells::Nothing, "it has waited for its place");
        streams.flowing += 1;
        assert!(!streams.may_start(1.8, QUICK));
    }

    #[test]
    fn a_stream_that_has_data_before_one_sent_earlier_shows_that_this_one_waits_for_no_place() {
        let mut streams = flowing(3);
        streams.start(1.0);
        streams.observe(1.6, QUICK);
        assert!(!streams.may_start(1.6, QUICK));
        streams.start(1.7);
        assert_eq!(streams.on_first_data(1.75, 0.05, QUICK, 0.0), Tells::OfOthers);
        assert!(streams.may_start(1.75, QUICK));
        assert_eq!(streams.waiting(), 0, "it is not counted any more");
    }

    #[test]
    fn many_whose_first_data_takes_long_by_itself_may_wait_for_it() {
        let mut streams = flowing(1);
        for _ in 0..8 {
            streams.start(1.0);
        }
        streams.observe(100.0, LONG);
        assert_eq!(streams.places, None);
        assert!(streams.may_start(100.0, LONG));
        streams.start(1.0);
        streams.observe(100.0, LONG);
        assert_eq!(streams.places, Some(1), "so many are no chance");
    }

    #[test]
    fn what_is_known_of_overtaking_is_forgotten() {
        let overtaken = || {
            let mut streams = flowing(3);
            streams.start(1.0);
            streams.start(1.7);
            streams.on_first_data(1.75, 0.05, QUICK, 0.0);
            streams.flowing += 1;
            streams
        };
        let waits_at = |mut streams: Streams, now: f64| {
            streams.start(now);
            streams.observe(now + 1.0, QUICK);
            streams.places
        };
        assert_eq!(waits_at(overtaken(), 2.0), None, "one was overtaken, so one may wait");
        assert_eq!(waits_at(overtaken(), 302.0), Some(4));
    }

    #[test]
    fn streams_that_are_sent_nearly_at_once_overtake_none() {
        let mut streams = flowing(3);
        streams.start(1.0);
        streams.start(1.01);
        streams.on_first_data(1.8, 0.79, QUICK, 0.0);
        assert_eq!(streams.waiting(), 1);
    }

    #[test]
    fn while_none_flows_nothing_shows_that_places_are_taken() {
        let mut streams = flowing(1);
        streams.flowing = 0;
        streams.start(1.0);
        streams.observe(10.0, QUICK);
        assert_eq!(streams.places, None);
    }

    #[test]
    fn a_night_without_streams_is_no_wait_for_one_to_end() {
        let mut streams = flowing(3);
        streams.places = Some(3);
        streams.on_end(10.0, 9.0);
        streams.on_end(11.0, 9.0);
        streams.on_end(30_000.0, 5.0);
        let wait = streams.wait(30_000.0, 1, 2.0);
        assert!(wait.is_some_and(|wait| (1.0..=2.0).contains(&wait)), "{wait:?}");
    }

    #[test]
    fn more_than_are_known_by_their_times_are_counted() {
        let mut streams = flowing(3);
        for sent in 0..100 {
            streams.start(1.0 + f64::from(sent));
        }
        assert_eq!(streams.waiting(), 100);
        streams.stop(1.0);
        streams.stop(100.0);
        assert_eq!(streams.waiting(), 98);
        streams.on_first_data(100.0, 1.0, QUICK, 0.0);
        assert_eq!(streams.waiting(), 0);
    }
}
