//! Seeking the knee: the least in flight that keeps the throughput.
//!
//! Below the knee more in flight means more throughput at the same response
//! time; above it, longer response times at the same throughput. With b the
//! response time without queueing and X the throughput, `X·b` events are worked
//! on at any instant, so a limit `L` a little above `X·b` keeps the upstream busy
//! and its queue short. The rule corrects itself: below the knee X grows with L
//! and L with X; above it X stays, and so does L.
//!
//! What it needs is b. Outside of overload b is what stretches take in which the
//! limit presses nobody. Under overload it may be unknown (a cold start) or old
//! (the service has become slower), so the seeker keeps probing *upwards*, which
//! costs no throughput: it holds L, then 1.3·L, each until the former limit's
//! events are out, and compares. If throughput followed, there was no queueing
//! at L, so b is at least the response time seen there. If it stayed, and b was
//! not measured without pressure, b may be too large, and is lowered a little.
//! If it fell, the upstream suffers from its own concurrency, and L is lowered.

use super::base_response::BaseResponse;
use super::best_rate::BestRate;
use super::stretch::{Measurement, Stretch};
use crate::Timestamp;

/// What the seeker is told once, by the law's builder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The least target of all classes, in seconds.
    pub(crate) target: f64,
    /// The limit while nothing is known.
    pub(crate) initial: f64,
    /// The limit is never more.
    pub(crate) max: f64,
}

/// A stretch speaks for itself after so many completions …
const COMPLETIONS: u32 = 32;
/// … or after so many if it says clearly that events queue in the upstream, or
/// if it has lasted for [`STRETCH_LONG`].
const COMPLETIONS_FEW: u32 = 8;
const STRETCH_LONG: f64 = 2.0;

/// Responses of so many times the base are a sign of queueing.
const QUEUEING: f64 = 2.0;
/// Throughput that grew by less between two pressed stretches has come to its end.
const GROWTH: f64 = 1.2;

/// While the upstream is not saturated, the limit leaves room for load to grow
/// by this factor in the time of one stretch.
const OPEN_HEADROOM: f64 = 4.0;
/// The least limit of an upstream that is not saturated, however slow.
const OPEN_LIMIT_MIN: f64 = 4.0;

/// A probe holds so many times the limit.
const PROBE: f64 = 1.3;
/// A rate counts as measured after so many completions, if they differ by so
/// little that its error is a fifth of what a probe makes of it below the knee …
const COMPLETIONS_PROBE: u32 = 200;
const RATE_ERROR: f64 = 0.05;
const PROBE_SHORT: f64 = 0.25;
/// … or after so long.
const COMPLETIONS_PROBE_MIN: u32 = 16;
const PROBE_LONG: f64 = 5.0;
/// After so many completions a limit that is far too low can be told.
const COMPLETIONS_COARSE: u32 = 64;
const TOO_LOW: f64 = 1.25;

/// Elasticity, log(X₂÷X₁) ÷ log(N₂÷N₁): 1 below the knee, 0 above it, negative
/// where concurrency does harm. Nearer to 0 than this is 0.
const ELASTICITY_MIN: f64 = 0.4;
/// So clear that it need not be seen twice.
const ELASTICITY_CLEAR: f64 = 0.9;

/// One step lowers the limit to no less than this.
const STEP_DOWN: f64 = 0.7;

/// Of the time that the target leaves beyond b, an upstream's queue may take
/// this share, but never less than [`ROOM_MIN`]·b (it must not run dry between an
/// answer and the next request) nor more than [`ROOM_MAX`]·b.
const ROOM_SHARE: f64 = 0.1;
const ROOM_MIN: f64 = 0.3;
const ROOM_MAX: f64 = 1.0;

/// Where concurrency does harm the room is halved, and recovers in such steps.
const ROOM_LEFT_DOWN: f64 = 0.5;
const ROOM_LEFT_UP: f64 = 0.05;

/// Waiting for the events of a former limit to come out ends after so many of
/// their response times: some may hold their place for hours.
const SETTLING_MAX: f64 = 10.0;

/// The search for the knee, and the limit that follows from it.
#[derive(Clone, Debug)]
pub(crate) struct Knee {
    bounds: Bounds,
    phase: Phase,
    phase_began: Timestamp,
    stretch: Stretch,
    base: BaseResponse,
    best: BestRate,
    /// The rate of the last stretch while the upstream was open.
    open_rate: f64,
    /// What the limit was last measured to do.
    lower: Measurement,
    limit: f64,
    probe_limit: f64,
    /// How much of the room is used: less than 1 where concurrency does harm.
    room_left: f64,
    /// What the last probe showed.
    verdict: Option<Verdict>,
    /// g of the judge: how much longer waits are than predicted.
    correction: f64,
}

/// Where the search is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Not saturated, as far as is known: the limit only guards against a step.
    Open,
    /// The limit has changed; events sent before that are still out.
    Settling(Limit),
    Measuring(Limit),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    Held,
    Probed,
}

/// What throughput did when more was in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Followed,
    Stayed,
    Fell,
}

impl Verdict {
    fn of(elasticity: f64) -> Self {
        if elasticity > ELASTICITY_MIN {
            Self::Followed
        } else if elasticity < -ELASTICITY_MIN {
            Self::Fell
        } else {
            Self::Stayed
        }
    }
}

impl Knee {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            phase: Phase::Open,
            phase_began: Timestamp::ZERO,
            stretch: Stretch::default(),
            base: BaseResponse::new(),
            best: BestRate::new(),
            open_rate: 0.0,
            lower: Measurement::default(),
            limit: bounds.initial,
            probe_limit: bounds.initial,
            room_left: 1.0,
            verdict: None,
            correction: 1.0,
        }
    }

    /// How many may be in flight.
    pub(crate) fn limit(&self) -> u32 {
        let limit = match self.phase {
            Phase::Open => self.open_limit(),
            Phase::Settling(Limit::Held) | Phase::Measuring(Limit::Held) => self.limit,
            Phase::Settling(Limit::Probed) | Phase::Measuring(Limit::Probed) => self.probe_limit,
        };
        limit.clamp(1.0, self.bounds.max).round() as u32
    }

    /// Completions a second, if the upstream is saturated.
    pub(crate) fn saturated_rate(&self) -> Option<f64> {
        (self.phase != Phase::Open).then_some(self.lower.rate)
    }

    /// b, in seconds, if anything is known of it.
    pub(crate) fn base(&self) -> Option<f64> {
        self.base.get()
    }

    /// The best half-second rate of the last five seconds, a second.
    pub(crate) fn best_rate(&self) -> f64 {
        self.best.get()
    }

    /// `in_flight` have been in flight since the last call.
    #[inline]
    pub(crate) fn observe(&mut self, now: Timestamp, in_flight: u32) {
        self.stretch.observe(now, in_flight);
    }

    pub(crate) fn on_tick(&mut self, now: Timestamp, correction: f64) {
        self.best.pass_time(now);
        self.correction = correction;
    }

    /// An event has come back with its work done, and `in_flight` are left;
    /// `pressed` if every place was taken or somebody waited for one.
    pub(crate) fn on_completion(&mut self, now: Timestamp, in_flight: u32, pressed: bool) {
        self.best.complete(now);
        if self.phase == Phase::Open {
            self.divide_by_pressure(now, pressed);
        }
        self.stretch.complete(pressed);
        match self.phase {
            Phase::Open => self.watch(now, in_flight),
            Phase::Settling(limit) => self.settle(now, in_flight, limit),
            Phase::Measuring(Limit::Held) => self.measure_held(now),
            Phase::Measuring(Limit::Probed) => self.measure_probed(now),
        }
    }

    /// A stretch is either pressed or not: where that changes a new one begins.
    fn divide_by_pressure(&mut self, now: Timestamp, pressed: bool) {
        let stretch = &self.stretch;
        let changed = match pressed {
            true => stretch.is_unpressed(),
            false => !stretch.is_unpressed() && !stretch.is_pressed(),
        };
        if changed && stretch.completions() > 0 {
            self.enter(now, Phase::Open);
        }
    }

    fn watch(&mut self, now: Timestamp, in_flight: u32) {
        let Measurement { rate, response, .. } = self.stretch.measure();
        let (count, length) = (self.stretch.completions(), self.stretch.length());
        // Of an upstream that is not known yet, only what comes too late is known
        // to be too much.
        let too_long = self.base.measured().map_or(self.bounds.target, |base| QUEUEING * base);
        let queueing =
            self.stretch.is_pressed() && count >= COMPLETIONS_FEW && response >= too_long;
        let complete = (count >= COMPLETIONS && length >= response)
            || (count >= COMPLETIONS_FEW && length >= STRETCH_LONG);
        if !queueing && !complete {
            return;
        }
        self.base.see(response);
        if self.stretch.is_unpressed() {
            self.base.learn_unpressed(now, response);
        } else if queueing || (self.stretch.is_pressed() && rate <= GROWTH * self.open_rate) {
            self.saturate(now, in_flight);
            return;
        }
        self.open_rate = rate;
        self.enter(now, Phase::Open);
    }

    // Open → Settling: events queue in the upstream, or throughput has come to
    // its end, while all places are taken.
    fn saturate(&mut self, now: Timestamp, in_flight: u32) {
        let measured = self.stretch.measure();
        self.lower = measured;
        if self.stretch.completions() < COMPLETIONS {
            // So short a stretch may be bad luck.
            self.lower.rate = measured.rate.max(self.best.get());
        }
        self.verdict = None;
        self.limit = self.aim().max(STEP_DOWN * f64::from(in_flight)).min(self.ceiling());
        self.enter(now, Phase::Settling(Limit::Held));
    }

    fn settle(&mut self, now: Timestamp, in_flight: u32, limit: Limit) {
        let waited = now.since(self.phase_began).as_secs_f64();
        let overdue = waited >= SETTLING_MAX * self.lower.response.max(PROBE_SHORT);
        if in_flight > self.limit() && !overdue {
            self.stretch = Stretch::beginning(now);
            return;
        }
        let settled = self.stretch.completions() >= COMPLETIONS_FEW
            && self.stretch.length() >= self.stretch.response();
        if settled || overdue {
            self.enter(now, Phase::Measuring(limit));
        }
    }

    fn measure_held(&mut self, now: Timestamp) {
        if self.stretch.completions() >= COMPLETIONS_COARSE
            && self.stretch.length() >= self.stretch.response()
        {
            let before = std::mem::replace(&mut self.lower, self.stretch.measure());
            let aim = self.aim();
            if self.stretch.is_pressed() && aim > TOO_LOW * self.limit {
                self.limit = aim;
                self.enter(now, Phase::Settling(Limit::Held));
                return;
            }
            self.lower = before;
        }
        if !self.is_measured() || self.reopens(now) {
            return;
        }
        self.lower = self.stretch.measure();
        let probe = (PROBE * self.limit).floor().max(self.limit.round() + 1.0);
        if probe <= self.ceiling().floor() {
            self.probe_limit = probe;
            self.enter(now, Phase::Settling(Limit::Probed));
        } else {
            self.limit = self.aim();
            self.enter(now, Phase::Settling(Limit::Held));
        }
    }

    fn measure_probed(&mut self, now: Timestamp) {
        if !self.is_measured() || self.reopens(now) {
            return;
        }
        let upper = self.stretch.measure();
        let step = (upper.in_flight / self.lower.in_flight).ln();
        let elasticity = if step > 0.05 { (upper.rate / self.lower.rate).ln() / step } else { 0.0 };
        let verdict = Verdict::of(elasticity);
        let confirmed =
            self.verdict.replace(verdict) == Some(verdict) || elasticity.abs() > ELASTICITY_CLEAR;
        match verdict {
            Verdict::Stayed => {
                self.base.throughput_stayed();
                self.room_left = (self.room_left + ROOM_LEFT_UP).min(1.0);
                self.lower.rate = self.lower.rate.max(upper.rate);
                self.limit = self.aim();
            }
            // Once may be luck: the same again.
            _ if !confirmed => {}
            Verdict::Followed => {
                self.base.throughput_followed(self.lower.response);
                self.room_left = 1.0;
                self.limit = self.aim();
            }
            Verdict::Fell => {
                self.room_left *= ROOM_LEFT_DOWN;
                self.limit = self.aim();
            }
        }
        self.enter(now, Phase::Settling(Limit::Held));
    }

    fn is_measured(&self) -> bool {
        let (count, length) = (self.stretch.completions(), self.stretch.length());
        let response = self.stretch.response();
        (count >= COMPLETIONS_PROBE
            && length >= (2.0 * response).max(PROBE_SHORT)
            && self.stretch.rate_error() <= RATE_ERROR)
            || (count >= COMPLETIONS_PROBE_MIN && length >= PROBE_LONG)
    }

    // Measuring → Open: there were places that nobody took.
    fn reopens(&mut self, now: Timestamp) -> bool {
        let reopens = !self.stretch.is_pressed();
        if reopens {
            self.open_rate = self.stretch.measure().rate;
            self.enter(now, Phase::Open);
        }
        reopens
    }

    /// The limit while nothing speaks of saturation.
    fn open_limit(&self) -> f64 {
        let rate = self.best.get().max(self.open_rate);
        let half_target = 0.5 * self.bounds.target;
        match self.base.get() {
            None => (rate * half_target).max(self.bounds.initial),
            Some(base) => {
                // Even a single worker would get through so many in time.
                let safe = self.bounds.target / base;
                let safe = safe.min(self.bounds.initial).max(OPEN_LIMIT_MIN);
                (rate * self.horizon().min(OPEN_HEADROOM * base)).max(safe)
            }
        }
    }

    /// `(1 + room) · X·b`, below the ceiling and not too far down at once.
    fn aim(&self) -> f64 {
        let base = self.base.get().unwrap_or(0.0);
        let spare = ROOM_SHARE * (self.bounds.target - base) / base.max(1e-9);
        let room = self.room_left * spare.clamp(ROOM_MIN, ROOM_MAX);
        let aim = (1.0 + room) * self.lower.rate * base;
        let least = if self.phase == Phase::Open { 1.0 } else { STEP_DOWN * self.limit };
        // Room for a whole probe: half of one tells nothing.
        aim.max(least).min(self.ceiling() / PROBE).max(1.0)
    }

    /// In flight × time never exceeds half of the target, unless the base leaves
    /// no choice; and less if response times exceed the target all the same.
    fn ceiling(&self) -> f64 {
        (self.lower.rate * self.horizon() / self.correction.max(1.0)).max(1.0)
    }

    /// The response time in seconds that the upstream may be brought to.
    fn horizon(&self) -> f64 {
        let target = self.bounds.target;
        match self.base.measured() {
            None => 0.5 * target,
            Some(base) => (2.0 * base).clamp(0.5 * target, 0.75 * target).max(1.5 * base),
        }
    }

    fn enter(&mut self, now: Timestamp, phase: Phase) {
        if phase != self.phase {
            self.phase = phase;
            self.phase_began = now;
        }
        self.stretch = Stretch::beginning(now);
    }
}
