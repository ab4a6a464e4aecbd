//! The state `Free`: the limit grows with demand until the upstream is known to be saturated.

use super::verdict::ANSWERS_MEASURED;
use super::{
    DOWN_EVERY, FIRST, LATE, MARGIN_MAX, MARGIN_MIN, MARGIN_PLACES, Mode, Search, UP_EVERY,
    WINDOW_FEW,
};
use crate::work_limit::growth::HARMLESS;
use crate::work_limit::kinds::Kinds;
use crate::work_limit::promises::Promises;
use crate::work_limit::window::Pool;

/// If answers are late with places left, the limit is so much of what is in flight.
const FEWER: f64 = 0.9;
/// A limit that is lowered without a search is not lower than this.
const LIMIT_FEW: f64 = 4.0;

/// An upstream is taken for full only if answers take so many standard errors more …
const SURE: f64 = 2.5;
/// … than so many times their unhurried service.
const SURE_HURRY: f64 = 1.15;

/// A limit that was read from the curve is not so high that a response would take more than this
/// share of the promise, if fewer are likely.
const HELD_RESPONSE: f64 = 0.6;

impl Search {
    // Free → Held: the answers show how many the upstream works at.
    pub(super) fn hold_if_shown(
        &mut self,
        now: f64,
        response: f64,
        exhausted: bool,
        kinds: &mut Kinds,
        promises: &Promises,
    ) -> bool {
        let Some(shown) = self.curve.busy(now, exhausted, kinds) else { return false };
        let main = self.curve.main();
        let margin = self.margin(kinds, promises) * self.rate;
        let limit =
            |busy: f64| busy + margin.min(MARGIN_MAX * busy).max(MARGIN_PLACES + MARGIN_MIN * busy);
        // Too many are corrected by a trial that costs nothing, too few by one that costs work.
        let mut busy = shown.most;
        if let Some((unhurried, _)) = self.curve.unhurried(main, busy) {
            let expected = unhurried * limit(busy) / busy;
            let promise = HELD_RESPONSE * promises.kept(kinds.row(main));
            busy = (busy * promise / expected).clamp(shown.likely, shown.most);
        }
        let mut held = limit(busy);
        if let Some((unhurried, _)) = self.curve.unhurried(main, shown.likely) {
            // A margin of a place that would make all late is none.
            let most = LATE * promises.kept(kinds.row(main)) / unhurried * shown.likely;
            if held.round() > most {
                held = held.min(most).floor().max(shown.likely);
            }
        }
        for row in self.curve.rows() {
            let Some((mean, count)) = self.curve.unhurried(row, busy) else { continue };
            let service = &mut kinds.row_mut(row).service;
            // Few services say little, but a limit must not rest on what contains the upstream's
            // queue.
            if row == main || count >= ANSWERS_MEASURED {
                service.measured(mean, count, true);
            } else if service.is_new() && service.unhurried().is_some_and(|known| mean < known) {
                service.restart(mean, count);
            }
        }
        self.mode = Mode::Held;
        // What comes after is no longer looked at one by one.
        self.first_answers = FIRST;
        self.cautious = None;
        self.history.clear();
        self.curve.clear();
        self.trial = None;
        self.work = busy;
        (self.up_at, self.lowered_at) = (self.windows + UP_EVERY, self.windows);
        self.set(now, held, response);
        true
    }

    // Free → Free: answers take longer than was thought, and did not wait.
    fn measure_service(&mut self, kinds: &mut Kinds) {
        for row in self.curve.rows() {
            let service = &mut kinds.row_mut(row).service;
            if let Some((mean, count)) = self.curve.unhurried(row, f64::INFINITY)
                && count >= ANSWERS_MEASURED
            {
                service.measured(mean, count, true);
            }
        }
    }

    // Free → Free: the limit was reached.
    pub(super) fn grow(&mut self, now: f64) {
        if let Some(limit) = self.growth.grown(self.limit) {
            self.limit = limit.min(self.limit_max);
            self.growth.restart(now);
        }
    }

    pub(super) fn end_free_window(
        &mut self,
        now: f64,
        seen: Pool,
        kinds: &mut Kinds,
        promises: &Promises,
    ) {
        (self.work, self.rate) = (seen.work, seen.rate);
        let response = self.window.seconds / self.window.count;
        let late = promises.latest(kinds, &self.window).hurried;
        let error = SURE * (kinds.spread() / seen.answers.max(1.0)).sqrt();
        let sure = self.window.count >= 2.0 * WINDOW_FEW && seen.hurry - error > SURE_HURRY;
        if sure && late > HARMLESS && self.curve.hardly_waited(now, kinds) {
            self.measure_service(kinds);
            return self.begin_window(now);
        }
        if sure && self.window.is_pressed() && late > HARMLESS {
            // Free → Held, Searching: places have run out, and answers take longer.
            if !self.hold_if_shown(now, response, true, kinds, promises) {
                self.mode = Mode::Searching;
                self.trial = None;
                self.history.clear();
                self.down_every = DOWN_EVERY;
                self.remember(now, seen, response, kinds, promises);
            }
            return;
        }
        if sure && late > LATE {
            // Late with places left, as of clients that are as many as the places: fewer, until
            // somebody waits, so that it shows whether fewer do as much.
            let most = FEWER * self.window.seconds / self.window.length;
            self.limit = self.limit.min(most).max(LIMIT_FEW.min(self.limit));
            self.growth.restart(now);
        } else if self.limit > self.growth.room() {
            self.limit = (0.9 * self.limit).max(self.growth.room()).max(self.limit_initial);
        }
        self.begin_window(now);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tamarisk_control::{ClassId, Classes, Target, Timestamp};

    use super::*;
    use crate::work_limit::search::Answered;
    use crate::work_limit::service::Answer;

    #[test]
    fn a_limit_that_is_read_from_four_answers_has_their_service() {
        let classes = Classes::single(Target::p90(Duration::from_secs(6)).unwrap());
        let (mut kinds, promises) = (Kinds::new(&classes), Promises::new(&classes));
        let row = kinds.arrive(Timestamp::ZERO, ClassId::DEFAULT, 0);
        let mut search = Search::new(10.0, 100.0);
        // Ten at once, which came one after the other, before one worker of 1 s.
        for request in 1..=10 {
            kinds.row_mut(row).start(0.0);
            search.on_start(f64::from(request) - 10.0, 0.0, row, request);
        }
        for now in [1.0, 2.0, 3.0, 4.0] {
            let kind = kinds.row_mut(row);
            let in_flight = f64::from(kind.running);
            kind.stop(0.0, false);
            let (ages, running) = (kind.ages(now), f64::from(kind.running));
            kind.service.learn(Answer { at: now, took: now, ages, running }, false, 1.0);
            let entered = Some(now - 10.0);
            let answered =
                Answered { row, entered, sent: 0.0, took: now, in_flight, pressed: true };
            search.on_answer(now, answered, &mut kinds, &promises);
        }
        assert_eq!(search.mode(), Mode::Held);
        let unhurried = kinds.row(row).service.unhurried().unwrap();
        assert!((unhurried - 1.0).abs() < 0.01, "{unhurried}");
    }
}
