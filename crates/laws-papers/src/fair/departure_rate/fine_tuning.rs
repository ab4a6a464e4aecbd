//! The heuristic control under overload: finds the fewest workers that keep the greatest
//! throughput, step by step.
//!
//! [Fair07 §4.3.1] says of it only that it is "to fine-tune the number of threads in a stage
//! in order to maintain a stable and maximum throughput", when requests overwhelm the server
//! and a feedback loop would go on adding threads that do not help. The rest is ours:
//! - While work waits the pool at most doubles in a sample: what was measured with one size
//!   says little of ten times as many.
//! - A stage is overwhelmed when it had work all the time, its pool has grown by a tenth, and
//!   its throughput by less than a quarter of that. The pool goes back to where it began.
//! - From there it climbs: a step of a twentieth of the pool, at least one worker. A step that
//!   gained goes on, one that lost is taken back, and where nothing changes by 2 % the next
//!   step is downwards.
//! - It ends with the first sample in which the queue was empty at some tick, or which reached
//!   its target.

use super::sample::Sample;

const GREW: f64 = 0.1;
/// Of what as many workers more should have brought.
const PAID: f64 = 0.25;
const STEP: f64 = 0.05;
const NOISE: f64 = 0.02;

/// Whether more workers help, and the search for as many as do.
#[derive(Clone, Debug, Default)]
pub(super) struct FineTuning {
    state: State,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// Work does not wait.
    #[default]
    Calm,
    /// It does; with this pool it was first seen.
    Watching(Point),
    /// More workers do not help: the throughput before, and where the last step went.
    Overwhelmed { before: f64, direction: f64 },
}

/// A size and its throughput.
#[derive(Clone, Copy, Debug)]
struct Point {
    size: f64,
    throughput: f64,
}

impl FineTuning {
    /// After a sample with `size` workers and the target `reference`: the size to have, if
    /// that is not for the feedback loop to say. `at_most` is the end of the range.
    pub(super) fn size_after(
        &mut self,
        sample: &Sample,
        reference: f64,
        size: f64,
        at_most: f64,
    ) -> Option<f64> {
        let throughput = sample.rates.throughput;
        if !sample.stayed_full || throughput >= reference {
            self.state = State::Calm;
            return None;
        }
        match self.state {
            State::Calm => {
                self.state = State::Watching(Point { size, throughput });
                None
            }
            State::Watching(from) => {
                let grown = size / from.size - 1.0;
                let gained = throughput / from.throughput.max(f64::MIN_POSITIVE) - 1.0;
                let is_judged = grown >= GREW || size >= at_most;
                if is_judged && gained < PAID * grown {
                    self.state = State::Overwhelmed { before: throughput, direction: -1.0 };
                    return Some(from.size);
                }
                if is_judged || grown < 0.0 {
                    self.state = State::Watching(Point { size, throughput });
                }
                None
            }
            State::Overwhelmed { before, direction } => {
                let direction = if throughput > (1.0 + NOISE) * before {
                    direction
                } else if throughput < (1.0 - NOISE) * before {
                    -direction
                } else {
                    -1.0
                };
                self.state = State::Overwhelmed { before: throughput, direction };
                Some(size + direction * (STEP * size).max(1.0))
            }
        }
    }

    /// The largest pool that may follow.
    pub(super) fn at_most(&self) -> f64 {
        match self.state {
            State::Watching(from) => 2.0 * from.size,
            State::Calm | State::Overwhelmed { .. } => f64::INFINITY,
        }
    }

    /// Whether it says the size.
    pub(super) fn is_overwhelmed(&self) -> bool {
        matches!(self.state, State::Overwhelmed { .. })
    }

    /// The next sample does not follow the last one.
    pub(super) fn restart(&mut self) {
        self.state = State::Calm;
    }
}
