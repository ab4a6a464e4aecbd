//! A load-dependent centre: its service rate falls with the number of threads [Welsh02 §4.2, eq.
//! 4.10–4.15].
//!
//! **Intuition.** A fifth thread on four processors adds nothing, and from some
//! number on every thread more takes away from all others.
//!
//! **Mechanism.** With `n` events inside, `m` threads, inherent parallelism α and
//! a penalty φ that all threads of the machine cause together,
//! ```text
//! μ_m(n) = max(0, min(n, m, α)·μ − φ(m_t))        φ(m_t) = max(0, β·(m_t − m′))
//! ```
//! which is eq. 4.12 with its four cases, and 4.11, in one line each. The paper
//! simulates this centre; it needs no simulation, since μ_m(n) is constant from
//! n = min(m, α) on and the rest of the sums 4.13 and 4.14 are finite.
//!
//! **A corner of the printed form.** If φ ≥ μ a lone event is not served at all
//! (μ_m(1) = 0) until enough others have come. The centre is then never empty, and
//! is stable as long as λ is below its capacity; without arrivals it is not.
//!
//! **Limits.** Means are exact. An event's wait until one of the min(m, α) places
//! is free is exact in distribution too; the time after that is taken as
//! exponential with the mean that Little's law demands, since the model
//! does not say who suffers the penalty, or who has the processor.

use tamarisk_control::{Concurrency, PerSecond};

use super::phase_type::checked;
use super::{
    Accuracy, BirthDeath, Equilibrium, InvalidService, Occupancy, Unstable, arrivals_of, rate,
};

/// φ, what threads cost beyond a number that is free [Welsh02 eq. 4.11].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ThreadPenalty {
    /// β: how much slower each thread more makes every stage.
    pub per_thread: PerSecond,
    /// m′: so many threads cost nothing.
    pub free: u32,
}

impl ThreadPenalty {
    /// Threads cost nothing.
    pub const NONE: Self = Self { per_thread: PerSecond::ZERO, free: 0 };

    /// φ(m_t): what every stage loses with `threads` in all.
    pub fn lost(&self, threads: u32) -> PerSecond {
        let beyond = f64::from(threads.saturating_sub(self.free));
        rate(self.per_thread.get() * beyond)
    }
}

/// A stage with `m` threads that share α processors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadDependent {
    rate: f64,
    threads: Concurrency,
    parallelism: Concurrency,
    lost: f64,
}

impl LoadDependent {
    /// `threads` that each serve `rate` events a second while no more than
    /// `parallelism` are busy, less what is `lost`.
    ///
    /// # Errors
    /// [`InvalidService::Rate`].
    pub fn new(
        rate: PerSecond,
        threads: Concurrency,
        parallelism: Concurrency,
        lost: PerSecond,
    ) -> Result<Self, InvalidService> {
        checked(&[rate])?;
        Ok(Self { rate: rate.get(), threads, parallelism, lost: lost.get() })
    }

    /// μ_m: the most that leave in a second [Welsh02 eq. 4.10], which is zero if
    /// the penalty takes everything.
    pub fn capacity(&self) -> PerSecond {
        rate(self.chain(PerSecond::ZERO).capacity())
    }

    /// How many events are inside.
    ///
    /// # Errors
    /// [`Unstable`] if as many arrive as can be served, or more.
    pub fn occupancy(&self, arrivals: PerSecond) -> Result<Occupancy, Unstable> {
        Occupancy::new(self.chain(arrivals))
    }

    /// What happens in the long run.
    ///
    /// # Errors
    /// [`Unstable`] if as many arrive as can be served, or more.
    pub fn at(&self, arrivals: PerSecond) -> Result<Equilibrium, Unstable> {
        let plain = self.lost == 0.0 && self.parallelism >= self.threads;
        let percentiles = if plain { Accuracy::Exact } else { Accuracy::Approximate };
        Ok(self.occupancy(arrivals)?.equilibrium(percentiles))
    }

    fn chain(&self, arrivals: PerSecond) -> BirthDeath {
        BirthDeath {
            arrivals: arrivals_of(arrivals),
            rate: self.rate,
            lost: self.lost,
            servers: self.threads.min(self.parallelism).get(),
        }
    }
}
