//! Searches for the knee: the concurrency limit that keeps the upstream busy and its queue short.
//!
//! Below the knee more in flight means more throughput at the same response
//! time; above it, longer response times at the same throughput. With C the
//! capacity, a limit of `L = C·H` brings the response time to the horizon H
//! (Little's law \[Little61\]). Where the response time b without queueing is known,
//! H is twice b; it never exceeds about a quarter of the target, and that bound
//! serves where b is not known. C is measured all the time that the upstream is
//! saturated.
//!
//! That goes wrong where service alone takes longer than H: then L is below the
//! knee, throughput falls with L, and C, which is measured by it, falls as well.
//! It shows in one of two ways. Either the measured rate falls well below the best
//! of late, or the limit has come down to so few places that one more or less is
//! more than H's margin. Then a *trial* holds more for one window. If throughput
//! follows, nobody had waited at the former limit: the response time there is a
//! *floor* for H. If it does not, the capacity is what it is.

use tamarisk_control::Timestamp;

use super::best_rate::BestRate;
use super::capacity::Capacity;
use crate::base_response::BaseResponse;
use crate::observation_window::ObservationWindow;

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

/// H is at most this share of the target. Service is exponential at worst, as far
/// as a promise can be kept at all: with a mean of a quarter of the target one in
/// fifty takes longer. A tenth more than a quarter keeps L from drifting below
/// the knee there.
const HORIZON_MAX: f64 = 0.275;
/// H is at least this share of the target, whatever b: an upstream that becomes
/// slower than it was is then still kept busy.
const HORIZON_MIN: f64 = 0.0625;
/// H in multiples of b, and when responses are a sign of queueing.
const QUEUEING: f64 = 2.0;
/// H in multiples of the floor, which is measured to about a tenth.
const FLOOR_ROOM: f64 = 1.25;
/// A floor is forgotten after so many seconds: service may have become faster.
const FLOOR_KEPT: f64 = 30.0;

/// While not saturated: a window speaks for itself after so many completions …
const COMPLETIONS_OPEN: u32 = 32;
/// … while saturated, where it decides on one place in two or three, after so many …
const COMPLETIONS: u32 = 64;
/// … provided that it lasts for two response times (before the second begins the
/// answers are to requests of before) and for this share of the target …
const LENGTH_SHARE: f64 = 0.125;
/// … and in any case after so many, once it has lasted for so many seconds.
const COMPLETIONS_FEW: u32 = 8;
const LENGTH_LONG: f64 = 2.0;

/// Throughput that grew by less between two pressed windows has come to its end.
const GROWTH: f64 = 1.2;
/// While the upstream is not saturated, the limit leaves room for load to grow
/// by this factor in the time of one window, …
const OPEN_HEADROOM: f64 = 4.0;
/// … as long as that is no more than this share of the target's worth.
const OPEN_SHARE: f64 = 0.5;
/// The least limit of an upstream that was never saturated, however slow.
const OPEN_LIMIT_MIN: f64 = 4.0;

/// A rate below this share of the recent best is a sign that the limit is too low.
const FELL: f64 = 0.75;
/// Up to this limit a tenth more, which is H's margin, is not a place more.
const LIMIT_NARROW: f64 = 4.0;
/// A narrow limit that has passed a trial is tried again after so many windows:
/// a seventeenth of the time with one more in flight costs less than a hundredth
/// of the goodput.
const TRIAL_EVERY: u32 = 16;

/// Waiting for the events of a former limit to come out ends after so many
/// targets: some may hold their place for hours.
const DRAINING_MAX: f64 = 10.0;

/// The search for the knee, and the limit that follows from it.
#[derive(Clone, Debug)]
pub(crate) struct Knee {
    bounds: Bounds,
    phase: Phase,
    phase_began: Timestamp,
    window: ObservationWindow,
    base: BaseResponse,
    /// The least response of any window while the upstream was open, in seconds.
    response_least: f64,
    best: BestRate,
    /// The rate of the last window while the upstream was open.
    open_rate: f64,
    /// Of the last saturation, once there was one.
    capacity: Capacity,
    /// Nobody waits in the upstream at a response of so many seconds; since when known.
    floor: Option<(Timestamp, f64)>,
    limit: f64,
    trial_limit: f64,
    stretches_to_trial: u32,
}

/// Where the search is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Not saturated, as far as is known: the limit only guards against a step.
    Open,
    /// Saturated, and more is in flight than the limit.
    Draining,
    Held,
    /// One window at more than the limit.
    Trial,
}

impl Knee {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            phase: Phase::Open,
            phase_began: Timestamp::ZERO,
            window: ObservationWindow::default(),
            base: BaseResponse::new(),
            response_least: f64::INFINITY,
            best: BestRate::new(),
            open_rate: 0.0,
            capacity: Capacity::default(),
            floor: None,
            limit: bounds.initial,
            trial_limit: bounds.initial,
            stretches_to_trial: 0,
        }
    }

    /// The least target of all classes is another one, in seconds. A limit that was
    /// aimed by the old one is aimed again; a trial goes on as it was begun.
    pub(crate) fn set_target(&mut self, target: f64) {
        self.bounds.target = target;
        if self.phase != Phase::Open {
            self.limit = self.aim();
        }
    }

    /// How many may be in flight.
    pub(crate) fn limit(&self) -> u32 {
        let limit = match self.phase {
            Phase::Open => self.open_limit(),
            Phase::Draining | Phase::Held => self.limit,
            Phase::Trial => self.trial_limit,
        };
        limit.clamp(1.0, self.bounds.max).round() as u32
    }

    /// Completions a second, if the upstream is saturated.
    pub(crate) fn saturated_rate(&self) -> Option<f64> {
        (self.phase != Phase::Open).then_some(self.capacity.rate())
    }

    /// b, in seconds, if it is known.
    pub(crate) fn base(&self) -> Option<f64> {
        self.base.get()
    }

    /// The best half-second rate of the last five seconds, a second.
    pub(crate) fn best_rate(&self) -> f64 {
        self.best.get()
    }

    /// `in_flight` of at most `limit` have been in flight since the last call.
    #[inline]
    pub(crate) fn observe(&mut self, now: Timestamp, in_flight: u32, limit: u32) {
        self.window.observe(now, in_flight, limit);
    }

    pub(crate) fn on_tick(&mut self, now: Timestamp) {
        self.best.pass_time(now);
        if self.floor.is_some_and(|(found, _)| now.since(found).as_secs_f64() >= FLOOR_KEPT) {
            self.floor = None;
        }
    }

    /// An event has come back after `service` seconds with its work done, and
    /// `in_flight` are left; `pressed` if since the one before somebody found
    /// every place taken.
    pub(crate) fn on_completion(
        &mut self,
        now: Timestamp,
        service: f64,
        in_flight: u32,
        pressed: bool,
    ) {
        self.best.complete(now);
        if self.phase == Phase::Open {
            self.divide_by_pressure(now, pressed);
        }
        self.window.complete(service, pressed);
        match self.phase {
            Phase::Open => self.watch(now),
            Phase::Draining => self.drain(now, in_flight),
            Phase::Held => self.hold(now),
            Phase::Trial => self.conclude_trial(now),
        }
    }

    /// A window is either pressed or not: where that changes a new one begins.
    fn divide_by_pressure(&mut self, now: Timestamp, pressed: bool) {
        let window = &self.window;
        let count = window.completions();
        let changed = match (window.is_unpressed(), pressed) {
            (true, pressed) => pressed && count > 0,
            (false, true) => false,
            (false, false) => window.is_slack() && count >= COMPLETIONS_FEW,
        };
        if changed {
            self.enter(now, Phase::Open);
        }
    }

    fn watch(&mut self, now: Timestamp) {
        let window = self.window;
        let (rate, response) = (window.throughput().rate(), window.response());
        let queueing = !window.is_slack()
            && window.completions() >= COMPLETIONS_FEW
            && window.length() >= window.service()
            && window.service() >= self.too_long();
        if !queueing && !self.speaks(COMPLETIONS_OPEN, 0.0) {
            return;
        }
        self.response_least = self.response_least.min(response);
        if window.is_unpressed() {
            if response <= self.bounds.target {
                self.base.learn(now, response);
            }
        } else if queueing || (window.is_pressed() && rate <= GROWTH * self.open_rate) {
            self.saturate(now);
            return;
        }
        self.open_rate = rate;
        self.enter(now, Phase::Open);
    }

    // Open → Draining: events queue in the upstream, or throughput has come to its
    // end, while places run out.
    fn saturate(&mut self, now: Timestamp) {
        self.capacity = Capacity::of(self.window.full_throughput());
        let is_slow = |base: &f64| *base > HORIZON_MAX * self.bounds.target;
        self.floor = self.base.get().filter(is_slow).map(|base| (now, base));
        self.limit = self.aim();
        self.enter(now, Phase::Draining);
    }

    fn drain(&mut self, now: Timestamp, in_flight: u32) {
        let waited = now.since(self.phase_began).as_secs_f64();
        let overdue = waited >= DRAINING_MAX * self.bounds.target;
        if in_flight > self.limit() && !overdue {
            return;
        }
        let throughput = self.window.full_throughput();
        if throughput.completions >= COMPLETIONS_FEW
            && self.window.length() >= LENGTH_SHARE * self.bounds.target
        {
            self.capacity = Capacity::of(throughput);
            self.limit = self.aim();
        }
        self.stretches_to_trial = 0;
        self.enter(now, Phase::Held);
    }

    fn hold(&mut self, now: Timestamp) {
        if !self.is_measured() || self.reopens(now) {
            return;
        }
        self.capacity.add(self.window.full_throughput());
        self.stretches_to_trial = self.stretches_to_trial.saturating_sub(1);
        let held = self.limit.round();
        if self.capacity.rate() < FELL * self.capacity.best() {
            // If the best is still the capacity, and nobody waits at the limit …
            let response = held / self.capacity.rate();
            let horizon = (FLOOR_ROOM * response).min(self.bounds.target);
            self.try_limit(now, (self.capacity.best() * horizon).max(held + 1.0));
        } else if held <= LIMIT_NARROW && self.stretches_to_trial == 0 {
            self.try_limit(now, held + 1.0);
        } else {
            self.limit = self.aim();
            if self.limit.round() < held && held <= LIMIT_NARROW + 1.0 {
                self.stretches_to_trial = 0;
            }
            self.enter(now, Phase::Held);
        }
    }

    fn try_limit(&mut self, now: Timestamp, limit: f64) {
        self.trial_limit = limit.round();
        self.enter(now, Phase::Trial);
    }

    // Trial → Held: throughput followed, or it did not.
    fn conclude_trial(&mut self, now: Timestamp) {
        if !self.is_measured() || self.reopens(now) {
            return;
        }
        let tried = self.window.full_throughput();
        let (held, before) = (self.limit.round(), self.capacity.rate());
        // Halfway between the limit's own growth, below the knee, and none above it.
        if tried.rate() / before > (self.trial_limit / held).sqrt() {
            self.floor = Some((now, held / before));
            self.capacity = Capacity::of(tried);
            self.stretches_to_trial = 0;
        } else {
            self.floor = None;
            self.capacity = Capacity::accepted(before);
            self.stretches_to_trial = TRIAL_EVERY;
        }
        self.limit = self.aim();
        self.enter(now, Phase::Held);
    }

    fn is_measured(&self) -> bool {
        self.speaks(COMPLETIONS, LENGTH_SHARE * self.bounds.target)
    }

    /// Whether the window says enough to decide by: after so many completions and
    /// so many seconds, and two response times. Those of who has come back count as
    /// well as Little's: within a burst of answers the latter is far too short.
    fn speaks(&self, completions: u32, seconds: f64) -> bool {
        let window = &self.window;
        let two_responses = 2.0 * window.response().max(window.service());
        (window.completions() >= completions && window.length() >= seconds.max(two_responses))
            || (window.completions() >= COMPLETIONS_FEW && window.length() >= LENGTH_LONG)
    }

    // Held, Trial → Open: there were places that nobody took.
    fn reopens(&mut self, now: Timestamp) -> bool {
        let reopens = self.window.is_slack();
        if reopens {
            self.open_rate = self.window.throughput().rate();
            self.enter(now, Phase::Open);
        }
        reopens
    }

    /// The response time in seconds that shows an upstream which is not yet known
    /// to be saturated to be so.
    fn too_long(&self) -> f64 {
        let target = self.bounds.target;
        match self.base.get() {
            Some(base) => QUEUEING * base,
            None => (QUEUEING * self.response_least).clamp(HORIZON_MAX * target, target),
        }
    }

    /// The limit while nothing speaks of saturation.
    fn open_limit(&self) -> f64 {
        let rate = self.best.get().max(self.open_rate);
        let half_target = OPEN_SHARE * self.bounds.target;
        let (reach, safe) = match self.base.get() {
            None => (half_target, self.bounds.initial),
            Some(base) => {
                let reach = half_target.min(OPEN_HEADROOM * base).max(QUEUEING * base);
                // Even a single worker would get through so many in time.
                let safe = (self.bounds.target / base).min(self.bounds.initial);
                (reach, safe.max(OPEN_LIMIT_MIN))
            }
        };
        let known = self.capacity.rate();
        let safe = if known > 0.0 { safe.min(known * reach) } else { safe };
        (rate * reach).max(safe)
    }

    /// `C·H`.
    fn aim(&self) -> f64 {
        (self.capacity.rate() * self.horizon()).max(1.0)
    }

    /// H: the response time in seconds that the upstream is brought to. Beyond the
    /// target no answer is of use.
    fn horizon(&self) -> f64 {
        let target = self.bounds.target;
        let sought = self.base.get().map_or(f64::INFINITY, |base| QUEUEING * base);
        let floor = self.floor.map_or(0.0, |(_, floor)| FLOOR_ROOM * floor);
        sought.clamp(HORIZON_MIN * target, HORIZON_MAX * target).max(floor).min(target)
    }

    fn enter(&mut self, now: Timestamp, phase: Phase) {
        if phase != self.phase {
            self.phase = phase;
            self.phase_began = now;
        }
        self.window = ObservationWindow::beginning(now);
    }
}
