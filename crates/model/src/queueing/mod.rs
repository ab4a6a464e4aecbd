//! One service centre in equilibrium: closed forms [Welsh02 §4.1–4.2].
//!
//! A centre is asked for its [`Equilibrium`] at a rate of Poisson arrivals, and
//! answers [`Unstable`] if there is none.
//!
//! | centre | service | means | response-time distribution |
//! | --- | --- | --- | --- |
//! | [`MultiServer`] | M/M/1, M/M/m | exact | exact |
//! | [`LoadDependent`] | M/M/m with saturation α and penalty φ | exact | exact with neither, else approximate |
//! | [`PhaseServer`] | M/E_r/1, M/E_r/m, M/PH/m | exact up to a size | approximate |
//! | [`PhaseServer::general`] | M/D/m, M/G/m | approximate, for m = 1 exact | approximate |
//!
//! [`Accuracy`] says which it was. Times are [`Seconds`], rates
//! [`PerSecond`]: the papers' examples in milliseconds are read as seconds.

mod birth_death;
mod load_dependent;
mod multi_server;
mod phase_fit;
mod phase_server;
mod phase_type;
mod response_time;

pub use load_dependent::{LoadDependent, ThreadPenalty};
pub use multi_server::MultiServer;
pub use phase_server::{PhaseServer, SPARE_MIN, STATES_MAX};
pub(crate) use phase_type::Steps;
pub use phase_type::{InvalidService, PhaseType, STEPS_MAX};
pub use response_time::ResponseTime;
use tamarisk_control::{PerSecond, Ratio};
use tamarisk_plot::format;

use self::birth_death::{Balance, BirthDeath};
use crate::seconds::Seconds;

/// A slower rate is none: once in 30,000 years. It keeps all times finite.
pub const RATE_MIN: f64 = 1e-12;

/// A faster rate is none: a thousand events a nanosecond.
pub const RATE_MAX: f64 = 1e12;

/// How far decimal fractions that should sum to 1 may be off.
pub(crate) const SUM_TOLERANCE: f64 = 1e-9;

/// More arrives than can be served: the queue grows without bound, and there is
/// no mean, no percentile and no other number to answer with [Welsh02 §4.1].
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "unstable: {}/s is the most that can be served; {}/s arrive",
    format::rate(capacity.get()),
    format::rate(arrivals.get())
)]
pub struct Unstable {
    /// What arrives.
    pub arrivals: PerSecond,
    /// What can be served at most.
    pub capacity: PerSecond,
}

impl Unstable {
    /// ρ, no less than 1; `None` if nothing can be served at all.
    pub fn utilisation(&self) -> Option<f64> {
        (self.capacity > PerSecond::ZERO).then(|| self.arrivals.get() / self.capacity.get())
    }
}

/// How far a number may be trusted as that of the model. Better is less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Accuracy {
    /// It is the model's, to rounding.
    Exact,
    /// It is an approximation, whose documentation says which.
    Approximate,
}

/// What a centre does in the long run at a rate of Poisson arrivals.
#[derive(Clone, Debug, PartialEq)]
pub struct Equilibrium {
    /// λ
    pub arrivals: PerSecond,
    /// The greatest rate at which events can leave.
    pub capacity: PerSecond,
    /// ρ: arrivals over capacity.
    pub utilisation: Ratio,
    /// The share of arrivals that find all workers busy and wait: Erlang's C.
    pub waiting: Ratio,
    /// `E[N]`: events inside, on average.
    pub number: f64,
    /// Events queued, on average.
    pub queued: f64,
    /// Of `waiting`, `number` and `queued`, and of the response time's mean.
    pub means: Accuracy,
    /// How long an event is inside.
    pub response: ResponseTime,
    /// Of the response time's percentiles.
    pub percentiles: Accuracy,
}

/// How many events are inside a centre with exponential service.
#[derive(Clone, Copy, Debug)]
pub struct Occupancy {
    chain: BirthDeath,
    balance: Balance,
}

impl Occupancy {
    fn new(chain: BirthDeath) -> Result<Self, Unstable> {
        chain.check()?;
        Ok(Self { chain, balance: chain.balance() })
    }

    /// p_n: that `n` are inside [Welsh02 eq. 4.3, 4.13].
    pub fn probability(&self, n: u32) -> Ratio {
        Ratio::saturating(self.chain.probability(&self.balance, n))
    }

    /// `E[N]` [Welsh02 eq. 4.6, 4.14].
    pub fn mean(&self) -> f64 {
        self.balance.busy_mean + self.balance.queued_mean
    }

    /// `Var[N]` [Welsh02 eq. 4.7].
    pub fn variance(&self) -> f64 {
        self.balance.variance
    }

    /// The equilibrium, if an event alone is served at the rate of the chain and
    /// `percentiles` says how true the two-part form of its response time is.
    fn equilibrium(&self, percentiles: Accuracy) -> Equilibrium {
        let Self { chain, balance } = self;
        let slack = chain.slack();
        let service_rate = if chain.lost == 0.0 && percentiles == Accuracy::Exact {
            chain.rate
        } else if chain.arrivals == 0.0 {
            chain.rate - chain.lost
        } else {
            // Little's law for those who are not queued [Welsh02 eq. 4.15].
            chain.arrivals / balance.busy_mean
        };
        Equilibrium {
            arrivals: rate(chain.arrivals),
            capacity: rate(chain.capacity()),
            utilisation: Ratio::saturating(chain.arrivals / chain.capacity()),
            waiting: Ratio::saturating(balance.waiting),
            number: self.mean(),
            queued: balance.queued_mean,
            means: Accuracy::Exact,
            response: ResponseTime::waiting(balance.waiting, slack, service_rate),
            percentiles,
        }
    }
}

/// A rate that came out of a formula; the greatest number if it is greater.
pub(crate) fn rate(value: f64) -> PerSecond {
    PerSecond::new(value.min(f64::MAX)).expect("formulas give no negative rates")
}

/// λ as the formulas take it.
fn arrivals_of(arrivals: PerSecond) -> f64 {
    if arrivals.get() < RATE_MIN { 0.0 } else { arrivals.get() }
}
