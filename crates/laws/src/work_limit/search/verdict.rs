//! The result of a trial of another limit.

use super::{DOWN_EVERY, Mode, Search, TRIAL, UNHURRIED, Verdict};
use crate::work_limit::kinds::Kinds;
use crate::work_limit::trial::{self, Comparison};
use crate::work_limit::window::History;

/// Above this f the work follows the limit.
const FOLLOWS: f64 = 0.6;
/// Below it only the wait does: in a search, and afterwards, when it should not start anew.
const WAITS: f64 = 0.5;
const WAITS_SURELY: f64 = 0.3;
/// Windows between trials downwards, at most.
const DOWN_EVERY_MAX: u32 = 256;
/// So many answers of a kind make a measurement of it.
pub(super) const ANSWERS_MEASURED: f64 = 6.0;

impl Search {
    /// Whether the present limit is better than the one before, or it is too early to tell.
    pub(super) fn judge(
        &mut self,
        before: f64,
        most: usize,
        response: f64,
        spread: f64,
        kinds: &mut Kinds,
    ) -> Verdict {
        let compared = trial::compare(&self.history, kinds, self.limit, before, most, spread);
        let Some(Comparison { follows, error, here }) = compared else {
            self.trial = None;
            return Verdict::Stay;
        };
        let (lowered, searching) = (self.limit < before, self.mode == Mode::Searching);
        let needed = TRIAL * spread * if searching { 0.5 } else { 1.0 };
        let clear = (follows - 0.5).abs() > (1.6 * error).max(0.15)
            && here.answers >= (24.0 * spread).min(4.0 + 8.0 * here.length)
            && (searching || follows > 0.5);
        let long = here.answers >= 8.0 && here.length >= (2.0 * spread).max(3.0 * response);
        if here.answers < needed && !clear && !long {
            return Verdict::Open;
        }
        self.trial = None;
        if follows > if lowered && searching { WAITS } else { FOLLOWS } {
            if follows > FOLLOWS {
                // Nobody waited at the lower limit.
                self.measure(self.limit.min(before), most, searching, kinds);
            }
            if lowered {
                self.mode = Mode::Held;
                self.rest_from_lowering();
            } else {
                self.up_at = self.windows + 1;
            }
            return Verdict::Follows;
        }
        if !lowered {
            return Verdict::Back;
        }
        if searching
            || follows + error < WAITS_SURELY
            || (follows < WAITS_SURELY && here.hurry > UNHURRIED)
        {
            self.mode = Mode::Searching;
            self.down_every = DOWN_EVERY;
        } else {
            self.mode = Mode::Held;
            self.rest_from_lowering();
        }
        Verdict::Stay
    }

    fn measure(&self, limit: f64, most: usize, anew: bool, kinds: &mut Kinds) {
        for row in 0..kinds.iter().count() {
            let answers = History::answers(row, self.history.near(limit, most));
            if let Some(mean) = answers.mean(ANSWERS_MEASURED) {
                kinds.row_mut(row).service.measured(mean, answers.count, anew);
            }
        }
    }

    fn rest_from_lowering(&mut self) {
        self.down_every = (2 * self.down_every).min(DOWN_EVERY_MAX);
    }
}
