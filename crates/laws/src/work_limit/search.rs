//! How many may be in flight: the search for the useful number.
//!
//! With a_k answers a second of kind k and its unhurried service ŝ_k, X = Σ a_k · ŝ_k is how
//! many the upstream is busy with, and φ = Σ responses ÷ Σ ŝ how many times as long as
//! unhurried they take. More in flight than X wait in the upstream.
//!
//! *Free.* Without evidence that the upstream is full the limit only guards against a step:
//! it leaves room above what is in flight, and grows at once when it is reached (`growth.rs`).
//!
//! *Full.* If places run out and answers take clearly longer, the answers so far may show how
//! many the upstream works at (`curve.rs`). If they do not, the limit is lowered step by step.
//! Each step is a trial (`trial.rs`). While the work does not follow, the search goes on
//! downwards; at the first step that costs work it goes back. What was seen there is the
//! unhurried service.
//!
//! *Held.* From then on L = X + m: as many as are busy, and a margin m, by which the upstream
//! always has somebody to go on with. Trials of a higher limit come often, for they cost
//! nothing but a longer wait, those of a lower one seldom.

use super::curve::{Cautious, Curve};
use super::growth::{Growth, HARMLESS};
use super::kept_places;
use super::kinds::Kinds;
use super::promises::{Late, Promises};
use super::trial::{self, Comparison};
use super::window::{History, Pool, Window};

/// A window ends after so many answers of equal work …
const WINDOW: f64 = 48.0;
/// … or after a second or a response, with so few.
const WINDOW_FEW: f64 = 4.0;

/// If answers are late with places left, the limit is so much of what is in flight.
const FEWER: f64 = 0.9;
/// A limit that is lowered without a search is not lower than this.
const LIMIT_FEW: f64 = 4.0;

/// An upstream is taken for full only if answers take so many standard errors more …
const SURE: f64 = 2.5;
/// … than so many times their unhurried service.
const SURE_HURRY: f64 = 1.15;
/// Answers matter that take more than this share of what can be promised.
const LATE: f64 = 0.5;

/// A step of the search lowers the limit to so much of it, …
const SEARCH_STEP: f64 = 0.62;
/// or further, towards so many times what it would be held at, but not below this, …
const SEARCH_AIM: f64 = 1.2;
const SEARCH_STEP_MOST: f64 = 0.2;
/// … once there are so many answers of equal work, or it has been looked at for so many seconds;
const SEARCH_ANSWERS: f64 = 40.0;
const SEARCH_LENGTH: f64 = 2.0;
/// … a trial afterwards to this, or raises it to that.
const DOWN: f64 = 0.7;
const UP: f64 = 1.35;
/// A trial is decided after so many answers of equal work, in a search after half of them.
const TRIAL: f64 = 160.0;
/// None begins before so many, or so many seconds, under the present limit.
const TRIED: f64 = 4.0;
/// Above this f the work follows the limit.
const FOLLOWS: f64 = 0.6;
/// Below it only the wait does: in a search, and afterwards, when it should not start anew.
const WAITS: f64 = 0.5;
const WAITS_SURELY: f64 = 0.3;
/// Windows between trials upwards, and downwards at first and at most.
const UP_EVERY: u32 = 10;
const DOWN_EVERY: u32 = 16;
const DOWN_EVERY_MAX: u32 = 256;
/// While answers are late, they come so many times as often.
const DOWN_WHEN_LATE: u32 = 8;
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
/// If it turns out to have room, a held limit grows by this factor at a time.
const HELD_GROWTH: f64 = 1.2;
/// The upstream has room if answers take less than so many times their unhurried service, by so
/// many of them at least.
const UNHURRIED: f64 = 1.1;
const ROOM_ANSWERS: f64 = 12.0;
/// X + m is followed upwards to so many times the limit at once, and downwards to this: what is
/// lower still has to be tried.
const AIM_HIGH: f64 = 1.5;
const AIM_LOW: f64 = 0.8;

/// A limit that was read from the curve is not so high that a response would take more than this
/// share of the promise, if fewer are likely.
const HELD_RESPONSE: f64 = 0.6;
/// Work that waits shows that places run out if this share of them is taken.
const EXHAUSTED: f64 = 0.5;
/// So many first answers are looked at one by one.
const FIRST: u32 = 64;

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
    pub(super) sent: f64,
    pub(super) took: f64,
    /// In flight before it came.
    pub(super) in_flight: f64,
    /// Somebody waited for its place.
    pub(super) pressed: bool,
}

impl Search {
    pub(super) fn new(rows: usize, limit_initial: f64, limit_max: f64) -> Self {
        let mut history = History::new(rows);
        let mut window = history.spare();
        window.begin(0.0, limit_initial);
        Self {
            limit: limit_initial,
            limit_initial,
            limit_max,
            mode: Mode::Free,
            trial: None,
            curve: Curve::new(rows),
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
        let Answered { row, sent, took, in_flight, pressed } = answered;
        let kind = kinds.row(row);
        // The very first answers make the unhurried service: they cannot show that it is one.
        if kind.service.is_compared() {
            let unhurried = kind.service.unhurried().unwrap_or(took);
            let hurry = took / unhurried.max(f64::MIN_POSITIVE);
            self.growth.on_answer(sent, hurry, took / promises.kept(kind), self.limit);
        }
        if self.mode == Mode::Free {
            self.curve.on_answer(sent, row, took);
            self.first_answers += 1;
            self.cautious = if self.first_answers < FIRST {
                self.curve.cautious(now, kinds, promises)
            } else {
                None
            };
            let first = self.first_answers < FIRST && self.first_answers.is_multiple_of(2);
            // Work also waits while `cautious` holds it back with most places free: that shows
            // nothing.
            let exhausted = pressed && in_flight >= EXHAUSTED * self.limit;
            if first
                && took > LATE * promises.kept(kinds.row(row))
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

    /// A request is sent; so many are in flight with it.
    pub(super) fn on_start(&mut self, now: f64, row: usize, in_flight: u32) {
        if self.mode == Mode::Free {
            self.curve.on_start(now, row, in_flight);
        }
    }

    /// What was sent at `sent` takes more than so many seconds.
    pub(super) fn on_parked(&mut self, sent: f64, row: usize, took: f64) {
        if self.mode == Mode::Free {
            self.curve.on_answer(sent, row, took);
        }
    }

    /// What was sent at `sent`, and left after so many seconds, tells nothing.
    pub(super) fn forget(&mut self, sent: f64, row: usize, took: f64) {
        if self.mode == Mode::Free {
            self.curve.forget(sent, row, took);
        }
    }

    // Free → Held: the answers show how many the upstream works at.
    fn hold_if_shown(
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
        for row in 0..kinds.iter().count() {
            if let Some((mean, count)) = self.curve.unhurried(row, busy) {
                kinds.row_mut(row).service.measured(mean, count, true);
            }
        }
        self.mode = Mode::Held;
        self.cautious = None;
        self.history.clear();
        self.curve.clear();
        self.trial = None;
        self.work = busy;
        (self.up_at, self.lowered_at) = (self.windows + UP_EVERY, self.windows);
        self.set(now, limit(busy), response);
        true
    }

    // Free → Free: the limit was reached.
    fn grow(&mut self, now: f64) {
        if let Some(limit) = self.growth.grown(self.limit) {
            self.limit = limit.min(self.limit_max);
            self.growth.restart(now);
        }
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
                self.trial = None;
                self.history.clear();
                self.growth.restart(now);
            }
            self.begin_window(now);
            return;
        }
        self.unpressed = 0;
        self.remember(now, seen, response, kinds, promises);
    }

    fn end_free_window(&mut self, now: f64, seen: Pool, kinds: &mut Kinds, promises: &Promises) {
        (self.work, self.rate) = (seen.work, seen.rate);
        let response = self.window.seconds / self.window.count;
        let late = promises.latest(kinds, &self.window).hurried;
        let error = SURE * (kinds.spread() / seen.answers.max(1.0)).sqrt();
        let sure = self.window.count >= 2.0 * WINDOW_FEW && seen.hurry - error > SURE_HURRY;
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
            self.limit = self.limit.min(most).max(LIMIT_FEW);
            self.growth.restart(now);
        } else if self.limit > self.growth.room() {
            self.limit = (0.9 * self.limit).max(self.growth.room()).max(self.limit_initial);
        }
        self.begin_window(now);
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

    // Searching: a step down.
    fn search_on(&mut self, now: f64, look: Look) {
        let Look { here, in_flight, aim, .. } = look;
        if here.answers >= SEARCH_ANSWERS || here.length > SEARCH_LENGTH {
            self.trial = Some(self.limit);
            let (most, least) = (SEARCH_STEP * self.limit, SEARCH_STEP_MOST * self.limit);
            let lower = (SEARCH_AIM * aim).clamp(least, most);
            self.set(now, lower.min(self.limit - 1.0), in_flight);
        } else {
            self.begin_window(now);
        }
    }

    // Held: the limit follows the work, and is tried now and then.
    fn hold(&mut self, now: f64, look: Look) {
        let Look { here, response, in_flight, pressed, late, spread, aim } = look;
        let limit = self.limit;
        let doubt = 0.5 * (spread / here.answers).sqrt();
        let has_room = here.hurry + doubt < UNHURRIED && here.answers >= ROOM_ANSWERS;
        let matters = late.any > LATE_LEAST || here.hurry > HURRIED;
        let lowers = matters && self.may_lower(late.hurried > LATE);
        let tried = here.answers >= TRIAL || here.length >= TRIED;
        if has_room && pressed {
            self.set(now, (HELD_GROWTH * limit).max(limit + 1.0), response);
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

    /// Whether the present limit is better than the one before, or it is too early to tell.
    fn judge(
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

    /// How long those may wait in the upstream that are beyond the margin's least, in seconds.
    fn margin(&self, kinds: &Kinds, promises: &Promises) -> f64 {
        let present = kinds.iter().filter(|(row, _)| self.window.answers[*row].count > 0.0);
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

/// So many answers of a kind make a measurement of it.
const ANSWERS_MEASURED: f64 = 6.0;

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
