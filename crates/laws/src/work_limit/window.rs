//! Observation windows: the work completed under one limit each.

use std::collections::VecDeque;

use super::kinds::Kinds;

/// Windows that are remembered. A few make a decision; the others are what it is compared
/// with.
const WINDOWS_MAX: usize = 64;

/// Answers of one kind in a window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Answers {
    pub(super) count: f64,
    /// How long they took, added up.
    pub(super) seconds: f64,
}

impl Answers {
    /// How long one took on average, if there are so many at least.
    pub(super) fn mean(&self, least: f64) -> Option<f64> {
        (self.count >= least).then(|| self.seconds / self.count)
    }
}

/// An observation window under one limit.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) limit: f64,
    pub(super) began: f64,
    pub(super) length: f64,
    /// By row of the kinds, up to the last that has any.
    answers: Vec<Answers>,
    pub(super) count: f64,
    /// The sum of the responses, and of their squares.
    pub(super) seconds: f64,
    pub(super) squares: f64,
    /// How many of them found somebody waiting for their place.
    pub(super) pressed: f64,
}

impl Window {
    pub(super) fn new() -> Self {
        Self {
            limit: 0.0,
            began: 0.0,
            length: 0.0,
            answers: Vec::new(),
            count: 0.0,
            seconds: 0.0,
            squares: 0.0,
            pressed: 0.0,
        }
    }

    /// Empty, from `began` on.
    pub(super) fn begin(&mut self, began: f64, limit: f64) {
        self.answers.clear();
        (self.limit, self.began, self.length) = (limit, began, 0.0);
        (self.count, self.seconds, self.squares, self.pressed) = (0.0, 0.0, 0.0, 0.0);
    }

    pub(super) fn add(&mut self, row: usize, seconds: f64, pressed: bool) {
        if row >= self.answers.len() {
            self.answers.resize(row + 1, Answers::default());
        }
        let answers = &mut self.answers[row];
        answers.count += 1.0;
        answers.seconds += seconds;
        self.count += 1.0;
        self.seconds += seconds;
        self.squares += seconds * seconds;
        self.pressed += f64::from(u8::from(pressed));
    }

    /// Those of the kind in `row`.
    pub(super) fn of(&self, row: usize) -> Answers {
        self.answers.get(row).copied().unwrap_or_default()
    }

    /// The response of what was in flight, in seconds: long ones are in flight for longer.
    pub(super) fn response_in_flight(&self) -> f64 {
        self.squares / self.seconds.max(f64::MIN_POSITIVE)
    }

    pub(super) fn is_pressed(&self) -> bool {
        self.pressed > 0.7 * self.count
    }
}

/// Several windows together, in the work that they have done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pool {
    pub(super) limit: f64,
    /// Seconds of unhurried service that came out in a second: how many are busy.
    pub(super) work: f64,
    /// Answers a second.
    pub(super) rate: f64,
    /// How many times as long as unhurried the answers took.
    pub(super) hurry: f64,
    /// As many answers of equal work would tell as much.
    pub(super) answers: f64,
    /// How long the windows were.
    pub(super) length: f64,
}

/// The recent windows, oldest first. Rows are those of the kinds.
#[derive(Clone, Debug)]
pub(super) struct History {
    windows: VecDeque<Window>,
    spare: Vec<Window>,
}

impl History {
    pub(super) fn new() -> Self {
        let spare = (0..=WINDOWS_MAX).map(|_| Window::new()).collect();
        Self { windows: VecDeque::with_capacity(WINDOWS_MAX + 1), spare }
    }

    /// An empty window, to be filled and added.
    pub(super) fn spare(&mut self) -> Window {
        self.spare.pop().expect("there is one window more than the history holds")
    }

    pub(super) fn push(&mut self, window: Window) {
        self.windows.push_back(window);
        if self.windows.len() == WINDOWS_MAX {
            self.spare.extend(self.windows.pop_front());
        }
    }

    pub(super) fn clear(&mut self) {
        self.spare.extend(self.windows.drain(..));
    }

    pub(super) fn forget_before(&mut self, instant: f64) {
        while self.windows.front().is_some_and(|window| window.began + window.length < instant) {
            self.spare.extend(self.windows.pop_front());
        }
    }

    /// The last windows under nearly this limit, at most so many.
    pub(super) fn near(&self, limit: f64, most: usize) -> impl Iterator<Item = &Window> {
        /// A limit of an eighth more or less is the same one.
        const NEAR: f64 = 0.13;
        let near = move |window: &&Window| (window.limit / limit).ln().abs() < NEAR;
        self.windows.iter().rev().filter(near).take(most)
    }

    /// All of `windows` together, by unhurried service; `None` if nothing came out.
    pub(super) fn pool<'a>(
        kinds: &Kinds,
        windows: impl Iterator<Item = &'a Window>,
    ) -> Option<Pool> {
        Self::pool_by(|row| kinds.row(row).service.unhurried().unwrap_or(0.0), windows)
    }

    /// All of `windows` together, where the kind in a row does so much work each.
    pub(super) fn pool_by<'a>(
        each: impl Fn(usize) -> f64,
        windows: impl Iterator<Item = &'a Window>,
    ) -> Option<Pool> {
        let (mut length, mut limit, mut count) = (0.0, 0.0, 0.0);
        let (mut work, mut squares, mut seconds) = (0.0, 0.0, 0.0);
        for window in windows {
            length += window.length;
            limit += window.limit.ln() * window.length;
            count += window.count;
            let any = window.answers.iter().enumerate().filter(|(_, answers)| answers.count > 0.0);
            for (row, answers) in any {
                let each = each(row);
                work += answers.count * each;
                squares += answers.count * each * each;
                seconds += answers.seconds;
            }
        }
        (work > 0.0 && length > 0.0).then(|| Pool {
            limit: (limit / length).exp(),
            work: work / length,
            rate: count / length,
            hurry: seconds / work,
            answers: work * work / squares,
            length,
        })
    }

    /// The answers of the kind in `row`, in all of `windows`.
    pub(super) fn answers<'a>(row: usize, windows: impl Iterator<Item = &'a Window>) -> Answers {
        windows.fold(Answers::default(), |sum, window| Answers {
            count: sum.count + window.of(row).count,
            seconds: sum.seconds + window.of(row).seconds,
        })
    }
}
