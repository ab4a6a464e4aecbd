//! The search for the concurrency limit: its states, and when it passes from one to another.
//!
//! With a_k answers a second of kind k and its unhurried service ŝ_k, X = Σ a_k · ŝ_k is how
//! many the upstream is busy with, and φ = Σ responses ÷ Σ ŝ how many times as long as
//! unhurried they take. More in flight than X wait in the upstream.
//!
//! *Free.* Without evidence that the upstream is full the limit only guards against a step:
//! it leaves room above what is in flight, and grows at once when it is reached (`free.rs`,
//! `growth.rs`).
//!
//! *Full.* If places run out and answers take clearly longer, the answers so far may show how
//! many the upstream works at (`curve.rs`). If they do not, the limit is lowered step by step.
//! Each step is a trial (`searching.rs`, `verdict.rs`). While the work does not follow, the
//! search goes on downwards; at the first step that costs work it goes back. What was seen
//! there is the unhurried service.
//!
//! *Held.* From then on L = X + m: as many as are busy, and a margin m, by which the upstream
//! always has somebody to go on with. Trials of a higher limit come often, for they cost
//! nothing but a longer wait, those of a lower one seldom (`held.rs`).

mod free;
mod held;
mod searching;
mod verdict;

use super::curve::{Cautious, Curve};
use super::growth::Growth;
use super::kept_places;
use super::kinds::{Kind, Kinds};
use super::promises::{Late, Promises};
use super::window::{History, Pool, Window};

/// A window ends after so many answers of equal work …
const WINDOW: f64 = 48.0;
/// … or after a second or a response, with so few.
const WINDOW_FEW: f64 = 4.0;

/// Answers matter that take more than this share of what can be promised.
const LATE: f64 = 0.5;

/// A trial is decided after so many answers of equal work, in a search after half of them.
const TRIAL: f64 = 160.0;
/// Windows between trials upwards, and downwards at first.
const UP_EVERY: u32 = 10;
const DOWN_EVERY: u32 = 16;
/// Below this share of the promise nothing is gained by shorter waits in the upstream.
const LATE_LEAST: f64 = 0.1;
/// But answers that take so many times their unhurried service may mean that this is not known.
const HURRIED: f64 = 2.0;

/// m: at least so many places and this share of X, …
const MARGIN_PLACES: f64 = 0.5;
const MARGIN_MIN: f64 = 0.08;
/// … and as many as wait for this share of what the strictest promise leaves, …
const MARGIN_WAIT: f64 = 0.15;
/// … but no more than this share of X.
const MARGIN_MAX: f64 = 0.35;
/// The upstream has room if answers take less than so many times their unhurried service.
const UNHURRIED: f64 = 1.1;

/// Work that waits shows that places run out if this share of them is taken.
const EXHAUSTED: f64 = 0.5;
/// So many first answers are looked at one by one, …
const FIRST: u32 = 64;
/// … and late ones after them so many times a response, no more often than this, in seconds: a look
/// at hundreds in flight takes a millisecond.
const LOOKS: f64 = 8.0;
const LOOKS_APART: f64 = 0.05;

/// The limit, and what is known to choose it by. Times are in seconds.
#[derive(Clone, Debug)]
pub(super) struct Search {
    limit: f64,
    limit_initial: f64,
    limit_max: f64,
    mode: Mode,
    /// The limit that the present one is compared with.
    trial: Option<f64>,
    curve: Curve,
    history: History,
    window: Window,
    /// When the limit was set, and when that shows.
    set_at: f64,
    settled: f64,
    /// Until an answer to a request comes that was sent under the limit.
    settling: bool,
    /// Where the limit was when it was set last by other means than following the work down.
    confirmed: f64,
    /// X and answers a second, as they were last.
    work: f64,
    rate: f64,
    windows: u32,
    up_at: u32,
    lowered_at: u32,
    down_every: u32,
    unpressed: u32,
    growth: Growth,
    first_answers: u32,
    /// When the next look may come.
    look_at: f64,
    /// How much long work may be sent until the first answers have shown more.
    cautious: Option<Cautious>,
}

/// What the last windows under the limit say.
#[derive(Clone, Copy, Debug)]
struct Look {
    here: Pool,
    /// The mean response, and that of what is in flight.
    response: f64,
    in_flight: f64,
    pressed: bool,
    late: Late,
    spread: f64,
    /// What the limit would be held at.
    aim: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Not known to be full.
    Free,
    /// Full, and the least useful limit is still to be found.
    Searching,
    /// Full, at the least useful limit.
    Held,
}

/// An answer, as the search is told of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answered {
    pub(super) row: usize,
    /// When it came, if that is known, …
    pub(super) entered: Option<f64>,
    /// … and when it was sent.
    pub(super) sent: f64,
    pub(super) took: f64,
    /// In flight before it came.
    pub(super) in_flight: f64,
    /// Somebody waited for its place.
    pub(super) pressed: bool,
}

impl Search {
    pub(super) fn new(limit_initial: f64, limit_max: f64) -> Self {
        let mut history = History::new();
        let mut window = history.spare();
        window.begin(0.0, limit_initial);
        Self {
            limit: limit_initial,
            limit_initial,
            limit_max,
            mode: Mode::Free,
            trial: None,
            curve: Curve::new(),
            history,
            window,
            set_at: 0.0,
            settled: 0.0,
            settling: false,
            confirmed: limit_initial,
            work: 0.0,
            rate: 0.0,
            windows: 0,
            up_at: 0,
            lowered_at: 0,
            down_every: DOWN_EVERY,
            unpressed: 0,
            growth: Growth::new(),
            first_answers: 0,
            look_at: 0.0,
            cautious: None,
        }
    }

    pub(super) fn limit(&self) -> f64 {
        self.limit
    }

    /// Whether one more of the kind in `row` than those `running` may be too many.
    pub(super) fn is_cautious(&self, row: usize, running: u32) -> bool {
        let within = |cautious: Cautious| f64::from(running) + 1.0 > cautious.places;
        self.mode == Mode::Free && self.cautious.is_some_and(|it| it.row == row && within(it))
    }

    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    pub(super) fn is_full(&self) -> bool {
        self.mode != Mode::Free
    }

    /// Seconds of unhurried service that the upstream gets through in a second, once it has
    /// been seen to be full.
    pub(super) fn drain(&self) -> Option<f64> {
        match self.mode {
            _ if self.work <= 0.0 => None,
            Mode::Free => None,
            Mode::Searching | Mode::Held => Some(self.work),
        }
    }

    /// Whether no answer has come yet, or too early, to what was sent under the limit.
    pub(super) fn is_settling(&self) -> bool {
        self.settling
    }

    /// Takes nothing for a measurement that was under way.
    pub(super) fn interrupt(&mut self, now: f64) {
        self.begin_window(now);
    }

    /// Learns from an answer.
    pub(super) fn on_answer(
        &mut self,
        now: f64,
        answered: Answered,
        kinds: &mut Kinds,
        promises: &Promises,
    ) {
        let Answered { row, entered, sent, took, in_flight, pressed } = answered;
        let kind = kinds.row(row);
        // The very first answers make the unhurried service: they cannot show that it is one.
        if kind.service.is_compared() {
            let unhurried = kind.service.unhurried().unwrap_or(took);
            let hurry = took / unhurried.max(f64::MIN_POSITIVE);
            self.growth.on_answer(sent, hurry, took / promises.kept(kind), self.limit);
        }
        if self.mode == Mode::Free {
            self.curve.on_answer(entered, sent, row, took);
            self.first_answers = self.first_answers.saturating_add(1);
            self.cautious = if self.first_answers < FIRST {
                self.curve.cautious(now, kinds, promises)
            } else {
                None
            };
            // Work also waits while `cautious` holds it back with most places free: that shows
            // nothing.
            let exhausted = pressed && in_flight >= EXHAUSTED * self.limit;
            if self.is_time_to_look(now, kinds.row(row), took, exhausted, promises)
                && self.hold_if_shown(now, took, exhausted, kinds, promises)
            {
                return;
            }
        }
        if self.settling && now >= self.settled && sent >= self.set_at {
            self.settling = false;
            self.begin_window(now);
        } else if !self.settling {
            self.window.add(row, took, pressed);
        }
        self.on_tick(now, in_flight, pressed, kinds, promises);
    }

    /// Whether to look at how many the upstream works at, after an answer that took `took` seconds.
    /// After the first, only while the mean is late: frequent looks find something by chance.
    fn is_time_to_look(
        &mut self,
        now: f64,
        kind: &Kind,
        took: f64,
        exhausted: bool,
        promises: &Promises,
    ) -> bool {
        let late = LATE * promises.kept(kind);
        if self.first_answers < FIRST {
            return self.first_answers.is_multiple_of(2) && took > late;
        }
        let service = &kind.service;
        let is_late = service.known().is_some() && service.recent() > late;
        let looks = exhausted && is_late && now >= self.look_at;
        if looks {
            self.look_at = now + (service.recent() / LOOKS).max(LOOKS_APART);
        }
        looks
    }

    /// Lets time pass with so many in flight.
    pub(super) fn on_tick(
        &mut self,
        now: f64,
        in_flight: f64,
        pressed: bool,
        kinds: &mut Kinds,
        promises: &Promises,
    ) {
        self.growth.observe(now, in_flight);
        if self.mode == Mode::Free && pressed && in_flight + 1.0 > self.limit {
            self.grow(now);
        }
        self.end_window_if_due(now, kinds, promises);
    }

    /// A request that came at `entered` is sent; so many are in flight with it.
    pub(super) fn on_start(&mut self, entered: f64, now: f64, row: usize, in_flight: u32) {
        if self.mode == Mode::Free {
            self.curve.on_start(entered, now, row, in_flight);
        }
    }

    /// What was sent at `sent` takes more than so many seconds.
    pub(super) fn on_parked(&mut self, sent: f64, row: usize, took: f64) {
        if self.mode == Mode::Free {
            self.curve.on_answer(None, sent, row, took);
        }
    }

    /// What was sent at `sent`, and left after so many seconds, tells nothing.
    pub(super) fn forget(&mut self, entered: Option<f64>, sent: f64, row: usize, took: f64) {
        if self.mode == Mode::Free {
            self.curve.forget(entered, sent, row, took);
        }
    }

    /// Requests of the kind in `row` are no measure of the workers any more.
    pub(super) fn forget_row(&mut self, now: f64, row: usize) {
        self.curve.forget_row(now, row);
    }

    fn end_window_if_due(&mut self, now: f64, kinds: &mut Kinds, promises: &Promises) {
        /// Windows are at least this long: answers that come in bursts say nothing of a rate.
        const LENGTH_MIN: f64 = 0.1;
        let window = &mut self.window;
        let length = now - window.began;
        if window.count < WINDOW_FEW || length < LENGTH_MIN {
            return;
        }
        let response = window.response_in_flight();
        if length < response || (window.count < WINDOW && length < response.max(1.0)) {
            return;
        }
        window.length = length;
        let Some(seen) = History::pool(kinds, std::iter::once(&*window)) else { return };
        if seen.answers >= WINDOW || length >= response.max(1.0) {
            self.end_window(now, seen, kinds, promises);
        }
    }

    fn end_window(&mut self, now: f64, seen: Pool, kinds: &mut Kinds, promises: &Promises) {
        self.windows = self.windows.wrapping_add(1);
        kept_places::adjust(now, self.limit as u32, kinds, &self.window, promises);
        let pressed = self.window.is_pressed();
        let response = self.window.seconds / self.window.count;
        let late = promises.latest(kinds, &self.window);
        let hurried = late.hurried > LATE;
        if self.mode == Mode::Free {
            return self.end_free_window(now, seen, kinds, promises);
        }
        if !pressed && !hurried {
            self.unpressed += 1;
            if self.unpressed >= 2 {
                // Searching, Held → Free: there were places that nobody took.
                self.mode = Mode::Free;
                self.unpressed = 0;
                self.trial = None;
                self.history.clear();
                self.curve.clear();
                self.growth.restart(now);
            }
            self.begin_window(now);
            return;
        }
        self.unpressed = 0;
        self.remember(now, seen, response, kinds, promises);
    }

    /// Keeps the window, and decides by it and those before it.
    fn remember(
        &mut self,
        now: f64,
        seen: Pool,
        response: f64,
        kinds: &mut Kinds,
        promises: &Promises,
    ) {
        /// Windows of so many seconds ago may be of another service.
        const KEPT: f64 = 10.0;
        let spread = kinds.spread();
        let margin = self.margin(kinds, promises);
        let in_flight = self.window.response_in_flight();
        let pressed = self.window.is_pressed();
        let late = promises.latest(kinds, &self.window);
        let spare = self.history.spare();
        self.history.push(std::mem::replace(&mut self.window, spare));
        self.history.forget_before(now - (KEPT * spread).max(20.0 * response));
        let most = (6.0 * spread) as usize;
        for row in 0..kinds.iter().count() {
            let answers = History::answers(row, self.history.near(self.limit, most));
            if let Some(mean) = answers.mean(1.0) {
                kinds.row_mut(row).service.at_most(mean, answers.count);
            }
        }
        let here = History::pool(kinds, self.history.near(self.limit, most)).unwrap_or(seen);
        if let Some(before) = self.trial {
            match self.judge(before, most, response, spread, kinds) {
                Verdict::Open => return self.begin_window(now),
                Verdict::Follows => {
                    self.history.clear();
                    return self.set(now, self.limit.max(before), in_flight);
                }
                Verdict::Back => return self.set(now, before, in_flight),
                Verdict::Stay => {}
            }
        }
        (self.work, self.rate) = (here.work, here.rate);
        let look = Look { here, response, in_flight, pressed, late, spread, aim: self.aim(margin) };
        if self.mode == Mode::Searching {
            let found = self.limit <= 1.0 || (late.any < LATE_LEAST && here.hurry < HURRIED);
            if !found {
                return self.search_on(now, look);
            }
            self.mode = Mode::Held;
        }
        self.hold(now, look);
    }

    /// What the limit is held at: as many as are busy, and a margin.
    fn aim(&self, margin: f64) -> f64 {
        let room = (margin * self.rate).min(MARGIN_MAX * self.work);
        self.work + room.max(MARGIN_PLACES + MARGIN_MIN * self.work)
    }

    /// How long those may wait in the upstream that are beyond the margin's least, in seconds.
    fn margin(&self, kinds: &Kinds, promises: &Promises) -> f64 {
        let present = kinds.iter().filter(|(row, _)| self.window.of(*row).count > 0.0);
        let left = present.filter_map(|(_, kind)| {
            let unhurried = kind.service.unhurried()?;
            Some((promises.kept(kind) - unhurried).max(0.0))
        });
        let left = left.fold(f64::INFINITY, f64::min);
        if left.is_finite() { MARGIN_WAIT * left } else { 0.0 }
    }

    /// Another limit, the effect of which shows after `settle` seconds.
    fn set(&mut self, now: f64, limit: f64, settle: f64) {
        self.limit = limit.round().clamp(1.0, self.limit_max);
        self.confirmed = self.limit;
        (self.set_at, self.settled, self.settling) = (now, now + settle, true);
        self.begin_window(now + settle);
    }

    fn begin_window(&mut self, from: f64) {
        self.window.begin(from.max(self.settled), self.limit);
    }
}

/// What a trial has shown.
enum Verdict {
    /// It is too early to tell.
    Open,
    /// The work follows the limit: the higher one is the better.
    Follows,
    /// More in flight only waits: the limit was better before.
    Back,
    /// The present limit may stay.
    Stay,
}
