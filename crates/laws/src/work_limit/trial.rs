//! Compares the work completed under two limits.
//!
//! With L₁ < L₂ the limits, X what was done a second, and φ how many times as long it took,
//! ```text
//! f = ½ + ½ · (ln X₁/X₂ − ln φ₁/φ₂) ÷ ln L₁/L₂
//! ```
//! is 1 if the work follows the limit, so that nobody waited at the lower one, and 0 if only
//! the wait does. Work is weighed by what each kind takes at the lower limit: this may be all
//! that is known of its service.

use super::kinds::Kinds;
use super::window::{History, Pool};

/// Limits that are no further apart (a difference of logarithms) say nothing.
const STEP_MIN: f64 = 0.15;
/// A kind with fewer answers at the lower limit is weighed by what is known of it.
const ANSWERS_MIN: f64 = 4.0;

/// How the work differs between two limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Comparison {
    /// f
    pub(super) follows: f64,
    /// Its standard error.
    pub(super) error: f64,
    /// What there was under the present limit.
    pub(super) here: Pool,
}

/// Compares the present limit with the one before, by the last windows of each, at most so many.
pub(super) fn compare(
    history: &History,
    kinds: &Kinds,
    present: f64,
    before: f64,
    most: usize,
    spread: f64,
) -> Option<Comparison> {
    let lower = present.min(before);
    let hurry = History::pool(kinds, history.near(lower, most)).map_or(1.0, |low| low.hurry);
    let each = |row: usize| -> f64 {
        let answers = History::answers(row, history.near(lower, most));
        let unhurried = || hurry * kinds.row(row).service.unhurried().unwrap_or(0.0);
        answers.mean(ANSWERS_MIN).unwrap_or_else(unhurried)
    };
    let each: Vec<_> = kinds.iter().map(|(row, _)| each(row)).collect();
    let pool = |limit: f64| History::pool_by(|row| each[row], history.near(limit, most));
    let (here, there) = (pool(present)?, pool(before)?);
    let (low, high) = if present < before { (here, there) } else { (there, here) };
    let step = (high.limit / low.limit).ln();
    let work = (low.work / high.work).ln();
    let follows = 0.5 - 0.5 * (work - (low.hurry / high.hurry).ln()) / step;
    let error = (spread * (1.0 / here.answers + 1.0 / there.answers)).sqrt() / step;
    (step >= STEP_MIN).then_some(Comparison { follows, error, here })
}
