//! M/M/m: Poisson arrivals, exponential service, `m` workers, one queue
//! [Welsh02 §4.1, eq. 4.3–4.9].
//!
//! **Intuition.** A bank with one line. An arrival waits only if all counters are
//! taken, which has the probability C (Erlang's C formula), and then for
//! as long as the bank takes to work off what is before it: exponential with the
//! rate that is left over, mμ − λ.
//!
//! **Mechanism.** Response = (0, or with C a time of rate mμ − λ) + service. So
//! ```text
//! Pr[R > r] = e^(−μr) + C·μ·(e^(−(mμ−λ)r) − e^(−μr)) ÷ (μ − (mμ−λ))
//! ```
//! The printed form [Welsh02 eq. 4.9] lacks the brackets around the difference and
//! needs a case of its own where λ = (m−1)μ, which is 0 ÷ 0. We take the
//! quotient as `r·e^(−min·r)·(1 − e^(−x)) ÷ x` with `x` the difference of the
//! two rates times r: it is smooth there and right on both sides.
//!
//! **Limits.** First come, first served; no client gives up; nothing but chance
//! makes arrivals come together.

use tamarisk_control::{Concurrency, PerSecond, Ratio};

use super::phase_type::checked;
use super::{
    Accuracy, BirthDeath, Equilibrium, InvalidService, Occupancy, Unstable, arrivals_of, rate,
};

/// A stage with `m` workers, each as fast alone as beside the others.
///
/// # Examples
/// ```
/// use tamarisk_control::{Concurrency, PerSecond, Ratio};
/// use tamarisk_model::queueing::MultiServer;
///
/// // Two workers that take 10 ms, at 150 events a second:
/// let stage = MultiServer::new(PerSecond::new(100.0)?, Concurrency::new(2))?;
/// let response = stage.at(PerSecond::new(150.0)?)?.response;
/// assert!((response.mean().get() - 0.022_857).abs() < 1e-6);
/// assert!((response.quantile(Ratio::new(0.9)?).get() - 0.050_723).abs() < 1e-6);
///
/// // At 200 there is no answer, however often it is asked.
/// assert_eq!(stage.at(PerSecond::new(200.0)?).unwrap_err().utilisation(), Some(1.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MultiServer {
    rate: f64,
    workers: Concurrency,
}

impl MultiServer {
    /// `workers` that each serve `rate` events a second.
    ///
    /// # Errors
    /// [`InvalidService::Rate`].
    pub fn new(rate: PerSecond, workers: Concurrency) -> Result<Self, InvalidService> {
        checked(&[rate])?;
        Ok(Self { rate: rate.get(), workers })
    }

    /// M/M/1.
    ///
    /// # Errors
    /// [`InvalidService::Rate`].
    pub fn single(rate: PerSecond) -> Result<Self, InvalidService> {
        Self::new(rate, Concurrency::ONE)
    }

    pub(super) fn of_mean(seconds: f64, workers: Concurrency) -> Self {
        Self { rate: 1.0 / seconds, workers }
    }

    /// mμ: the maximum stable arrival rate, which itself is not stable.
    pub fn capacity(&self) -> PerSecond {
        rate(self.chain(PerSecond::ZERO).capacity())
    }

    /// Erlang's B: the share of arrivals that find all workers busy, if those
    /// are sent away and nobody waits. Any rate of arrivals will do.
    pub fn blocking(&self, arrivals: PerSecond) -> Ratio {
        Ratio::saturating(self.chain(arrivals).blocking())
    }

    /// How many events are inside.
    ///
    /// # Errors
    /// [`Unstable`] if as many arrive as can be served, or more.
    pub fn occupancy(&self, arrivals: PerSecond) -> Result<Occupancy, Unstable> {
        Occupancy::new(self.chain(arrivals))
    }

    /// What happens in the long run; exact in all parts.
    ///
    /// # Errors
    /// [`Unstable`] if as many arrive as can be served, or more.
    pub fn at(&self, arrivals: PerSecond) -> Result<Equilibrium, Unstable> {
        Ok(self.occupancy(arrivals)?.equilibrium(Accuracy::Exact))
    }

    fn chain(&self, arrivals: PerSecond) -> BirthDeath {
        BirthDeath {
            arrivals: arrivals_of(arrivals),
            rate: self.rate,
            lost: 0.0,
            servers: self.workers.get(),
        }
    }
}
