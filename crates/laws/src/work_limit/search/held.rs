//! The state `Held`: the limit follows the completed work, and is probed periodically.

use super::{HURRIED, LATE, LATE_LEAST, Look, Search, TRIAL, UNHURRIED, UP_EVERY};

/// A trial lowers the limit to this, or raises it to that.
const DOWN: f64 = 0.7;
const UP: f64 = 1.35;
/// No trial begins before so many, or so many seconds, under the present limit.
const TRIED: f64 = 4.0;
/// While answers are late, trials of a lower limit come so many times as often.
const DOWN_WHEN_LATE: u32 = 8;
/// If it turns out to have room, a held limit grows by this factor at a time.
const HELD_GROWTH: f64 = 1.2;
/// The upstream has room only if so many answers at least show it.
const ROOM_ANSWERS: f64 = 12.0;
/// X + m is followed upwards to so many times the limit at once, and downwards to this: what is
/// lower still has to be tried.
const AIM_HIGH: f64 = 1.5;
const AIM_LOW: f64 = 0.8;

impl Search {
    // Held: the limit follows the work, and is tried now and then.
    pub(super) fn hold(&mut self, now: f64, look: Look) {
        let Look { here, response, in_flight, pressed, late, spread, aim } = look;
        let limit = self.limit;
        let doubt = 0.5 * (spread / here.answers).sqrt();
        let has_room = here.hurry + doubt < UNHURRIED && here.answers >= ROOM_ANSWERS;
        let matters = late.any > LATE_LEAST || here.hurry > HURRIED;
        let lowers = matters && self.may_lower(late.hurried > LATE);
        let tried = here.answers >= TRIAL || here.length >= TRIED;
        let grown = (HELD_GROWTH * limit).max(limit + 1.0);
        // As few as one worker has are answered unhurried, and one more would make all late.
        if has_room && pressed && late.any * grown / limit <= LATE {
            self.set(now, grown, response);
        } else if tried && pressed && lowers && (self.windows >= self.up_at || late.hurried > LATE)
        {
            self.up_at = self.windows + UP_EVERY;
            self.try_lower(now, in_flight);
        } else if tried && pressed && self.windows >= self.up_at {
            self.trial = Some(limit);
            self.up_at = self.windows + UP_EVERY;
            self.set(now, (UP * limit).ceil().max(limit + 1.0), response);
        } else if tried && matters && aim < AIM_LOW * self.confirmed && self.may_lower(true) {
            self.try_lower(now, in_flight);
        } else if (aim - limit).abs() > (0.12 * limit).max(0.6)
            && aim >= AIM_LOW * self.confirmed
            && (aim < limit || here.hurry >= UNHURRIED)
        {
            let confirmed = if aim < limit { self.confirmed } else { aim };
            self.set(now, aim.min(AIM_HIGH * limit), response);
            self.confirmed = confirmed;
        } else {
            self.begin_window(now);
        }
    }

    /// A trial of a lower limit.
    fn try_lower(&mut self, now: f64, in_flight: f64) {
        self.trial = Some(self.limit);
        self.lowered_at = self.windows;
        self.set(now, (DOWN * self.limit).floor().min(self.limit - 1.0), in_flight);
    }

    /// Whether it is time for that: the later answers are, the sooner.
    fn may_lower(&self, soon: bool) -> bool {
        let every = if soon { self.down_every / DOWN_WHEN_LATE } else { self.down_every };
        self.limit > 1.5 && self.windows >= self.lowered_at + every
    }
}
