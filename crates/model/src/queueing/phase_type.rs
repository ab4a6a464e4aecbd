//! Phase-type distributions: service as a walk over exponential steps.
//!
//! **Intuition.** "Parse, then look it up, then in half of the cases read the
//! disk": a handler is steps, and which come next is chance. If each step takes
//! an exponential time the whole is *phase-type*: Erlang for steps in a row,
//! hyper-exponential for a choice, and anything between.
//!
//! **Why it is the right form here.** The design patterns cut stages at their
//! steps and unite them again; a service that knows its steps says what both
//! sides of a cut take.
//!
//! **Mechanism.** With `α` the chance to begin with each step, `P` that of going
//! on, and `T` the generator made of `P` and the rates: `Pr[S > t] = α·exp(T·t)·1`
//! and `E[Sⁿ] = n!·α·(−T)⁻ⁿ·1` [Neuts81 ch. 2]. The exponential is a series of
//! non-negative terms over a short time, squared until the time is reached.
//!
//! **Limits.** Each squaring doubles the relative error, which is thus about
//! 10⁻¹⁶ times the number of times that the fastest step fits into `t`.

use tamarisk_control::{PerSecond, Ratio};

use super::{RATE_MAX, RATE_MIN, SUM_TOLERANCE};
use crate::matrix::{Matrix, visits};
use crate::seconds::Seconds;

/// Most steps of one service: more are a program, not a profile.
pub const STEPS_MAX: usize = 64;

/// The distribution of a service time that is made of exponential steps.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseType {
    entry: Vec<f64>,
    rates: Vec<f64>,
    routes: Matrix,
    exits: Vec<f64>,
}

/// Why a service-time distribution is invalid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidService {
    /// Slower than once in 30,000 years or faster than a thousand a nanosecond.
    #[error("a service rate of {0} is not between {RATE_MIN}/s and {RATE_MAX}/s")]
    Rate(PerSecond),
    /// None, or more than [`STEPS_MAX`].
    #[error("a service of {0} steps: it has one to {STEPS_MAX}")]
    Steps(usize),
    /// A heavy tail, such as Pareto's of shape 2 and below.
    #[error("the service time has no finite variance")]
    NoVariance,
    /// The chances of a branch must make a whole.
    #[error("the probabilities of the branch sum to {0}, not to 1")]
    Sum(f64),
}

/// Steps as the network cuts and unites them.
pub(crate) struct Steps {
    pub(crate) entry: Vec<f64>,
    pub(crate) rates: Vec<f64>,
    pub(crate) routes: Matrix,
    pub(crate) exits: Vec<f64>,
}

impl PhaseType {
    /// One exponential step; the mean is 1 ÷ `rate` [Welsh02 eq. 4.1].
    ///
    /// # Errors
    /// [`InvalidService::Rate`].
    pub fn exponential(rate: PerSecond) -> Result<Self, InvalidService> {
        Self::sequence(&[rate])
    }

    /// Steps in a row, each with its rate.
    ///
    /// # Errors
    /// [`InvalidService`] if there are no or too many steps, or a rate is none.
    pub fn sequence(rates: &[PerSecond]) -> Result<Self, InvalidService> {
        let rates = checked(rates)?;
        let size = rates.len();
        let mut routes = Matrix::zeros(size, size);
        for i in 1..size {
            routes[(i - 1, i)] = 1.0;
        }
        let mut exits = vec![0.0; size];
        exits[size - 1] = 1.0;
        let mut entry = vec![0.0; size];
        entry[0] = 1.0;
        Ok(Self { entry, rates, routes, exits })
    }

    /// E_r: `steps` steps in a row of one rate; the mean is `steps` ÷ `rate`.
    ///
    /// Deviation: [Welsh02 eq. 4.22] prints the density with the mean 1 ÷ μ,
    /// which is that of steps of the rate r·μ. Its text (a *sum* of two steps of
    /// the rate μ) and its fig. 20 (four threads are as good as two and two) have
    /// the mean r ÷ μ, as it is here.
    ///
    /// # Errors
    /// As for [`PhaseType::sequence`].
    pub fn erlang(steps: usize, rate: PerSecond) -> Result<Self, InvalidService> {
        if steps > STEPS_MAX {
            return Err(InvalidService::Steps(steps));
        }
        Self::sequence(&vec![rate; steps])
    }

    /// One of `choices`, each with its probability and its rate.
    ///
    /// # Errors
    /// [`InvalidService`]; the probabilities must sum to 1.
    pub fn choice(choices: &[(Ratio, PerSecond)]) -> Result<Self, InvalidService> {
        let (chances, rates) = unzip(choices)?;
        let size = rates.len();
        let routes = Matrix::zeros(size, size);
        Ok(Self { entry: chances, rates, routes, exits: vec![1.0; size] })
    }

    /// A `first` step, and then one of `choices` [Welsh02 §4.2].
    ///
    /// # Errors
    /// As for [`PhaseType::choice`].
    pub fn branch(
        first: PerSecond,
        choices: &[(Ratio, PerSecond)],
    ) -> Result<Self, InvalidService> {
        let (chances, leaves) = unzip(choices)?;
        let size = leaves.len() + 1;
        if size > STEPS_MAX {
            return Err(InvalidService::Steps(size));
        }
        let mut rates = checked(&[first])?;
        rates.extend(leaves);
        let mut routes = Matrix::zeros(size, size);
        for (leaf, chance) in chances.into_iter().enumerate() {
            routes[(0, leaf + 1)] = chance;
        }
        let mut exits = vec![1.0; size];
        exits[0] = 0.0;
        let mut entry = vec![0.0; size];
        entry[0] = 1.0;
        Ok(Self { entry, rates, routes, exits })
    }

    /// From steps that were found by cutting and uniting valid ones.
    pub(crate) fn from_steps(steps: Steps) -> Self {
        let Steps { entry, rates, routes, exits } = steps;
        Self { entry, rates, routes, exits }
    }

    /// One walk over the steps of all `parts`; `entry`, `routes` and `exits` say how
    /// it goes from part to part.
    pub(crate) fn joined(parts: &[Self], entry: &[f64], routes: &Matrix, exits: &[f64]) -> Self {
        let mut firsts = Vec::with_capacity(parts.len());
        let mut size = 0;
        for part in parts {
            firsts.push(size);
            size += part.steps();
        }
        let mut steps = Steps {
            entry: Vec::with_capacity(size),
            rates: Vec::with_capacity(size),
            routes: Matrix::zeros(size, size),
            exits: Vec::with_capacity(size),
        };
        for (p, part) in parts.iter().enumerate() {
            steps.entry.extend(part.entry().iter().map(|e| e * entry[p]));
            steps.rates.extend(part.rates());
            steps.exits.extend(part.exits().iter().map(|e| e * exits[p]));
            for (i, exit) in part.exits().iter().enumerate() {
                let from = firsts[p] + i;
                for j in 0..part.steps() {
                    steps.routes[(from, firsts[p] + j)] += part.routes()[(i, j)];
                }
                for (q, next) in parts.iter().enumerate() {
                    for (j, begins) in next.entry().iter().enumerate() {
                        steps.routes[(from, firsts[q] + j)] += exit * routes[(p, q)] * begins;
                    }
                }
            }
        }
        Self::from_steps(steps)
    }

    /// One step of a rate that a valid service has.
    pub(crate) fn step(rate: f64) -> Self {
        Self { entry: vec![1.0], rates: vec![rate], routes: Matrix::zeros(1, 1), exits: vec![1.0] }
    }

    /// How many steps there are.
    pub fn steps(&self) -> usize {
        self.rates.len()
    }

    /// The mean.
    pub fn mean(&self) -> Seconds {
        Seconds::computed(self.mean_seconds())
    }

    /// The variance over the square of the mean: 1 for exponential service, 1/r
    /// for E_r, more for a choice between fast and slow.
    pub fn variability(&self) -> f64 {
        self.variance() / (self.mean_seconds() * self.mean_seconds())
    }

    /// The variance, in s².
    pub fn variance(&self) -> f64 {
        let mean = self.mean_seconds();
        let residence = self.residence(&self.entry);
        // E[S²] = 2·α·(−T)⁻²·1
        let second = 2.0 * self.residence(&residence).iter().sum::<f64>();
        (second - mean * mean).max(0.0)
    }

    /// `Pr[S > t]`.
    pub fn exceeds(&self, t: Seconds) -> Ratio {
        Ratio::saturating(self.state_after(t.get()).iter().sum())
    }

    /// The density at `t`, per second.
    pub fn density(&self, t: Seconds) -> f64 {
        let state = self.state_after(t.get());
        state
            .iter()
            .zip(&self.rates)
            .zip(&self.exits)
            .map(|((s, rate), exit)| s * rate * exit)
            .sum()
    }

    /// All of it `factor` times as fast.
    pub(crate) fn accelerated(mut self, factor: f64) -> Self {
        self.rates.iter_mut().for_each(|rate| *rate *= factor);
        self
    }

    pub(crate) fn mean_seconds(&self) -> f64 {
        self.residence(&self.entry).iter().sum()
    }

    pub(crate) fn entry(&self) -> &[f64] {
        &self.entry
    }

    pub(crate) fn rates(&self) -> &[f64] {
        &self.rates
    }

    pub(crate) fn routes(&self) -> &Matrix {
        &self.routes
    }

    pub(crate) fn exits(&self) -> &[f64] {
        &self.exits
    }

    /// The chance to be in each step after `t` seconds, and `Pr[S > t]` as its sum.
    pub(crate) fn state_after(&self, t: f64) -> Vec<f64> {
        let fastest = self.rates.iter().copied().fold(0.0, f64::max);
        // Short enough for the series below: fastest · t ÷ 2^squarings ≤ 1/2.
        let squarings = (fastest * t * 2.0).log2().ceil().clamp(0.0, 1100.0) as u32;
        let share = fastest * t / 2f64.powi(squarings as i32);
        let mut transition = self.transition(fastest, share);
        for _ in 0..squarings {
            transition = transition.times(&transition);
        }
        transition.after(&self.entry)
    }

    /// exp(T·x ÷ fastest) for x ≤ 1/2, as a mean over the number of steps that
    /// a Poisson process of the fastest rate would take.
    fn transition(&self, fastest: f64, x: f64) -> Matrix {
        /// The next term is below 2⁻¹⁵ ÷ 15! < 10⁻¹⁶ of the first.
        const TERMS: u32 = 15;
        let size = self.rates.len();
        let mut step = Matrix::zeros(size, size);
        for i in 0..size {
            let moving = self.rates[i] / fastest;
            for j in 0..size {
                step[(i, j)] = moving * self.routes[(i, j)];
            }
            step[(i, i)] += 1.0 - moving;
        }
        let mut sum = Matrix::identity(size);
        for k in (1..=TERMS).rev() {
            sum = step.times(&sum).scaled(x / f64::from(k));
            sum.add_identity(1.0);
        }
        sum.scaled((-x).exp())
    }

    /// The mean time in each step, of a walk that begins as `entry` says.
    fn residence(&self, entry: &[f64]) -> Vec<f64> {
        let visits = visits(entry, &self.routes, &self.exits);
        visits.iter().zip(&self.rates).map(|(visits, rate)| visits / rate).collect()
    }
}

/// The rates as numbers, if each is one that a service can have.
pub(super) fn checked(rates: &[PerSecond]) -> Result<Vec<f64>, InvalidService> {
    if rates.is_empty() || rates.len() > STEPS_MAX {
        return Err(InvalidService::Steps(rates.len()));
    }
    if let Some(&rate) = rates.iter().find(|rate| !(RATE_MIN..=RATE_MAX).contains(&rate.get())) {
        return Err(InvalidService::Rate(rate));
    }
    Ok(rates.iter().map(|rate| rate.get()).collect())
}

fn unzip(choices: &[(Ratio, PerSecond)]) -> Result<(Vec<f64>, Vec<f64>), InvalidService> {
    let (chances, rates): (Vec<f64>, Vec<PerSecond>) =
        choices.iter().map(|&(chance, rate)| (chance.get(), rate)).unzip();
    let rates = checked(&rates)?;
    let sum: f64 = chances.iter().sum();
    if (sum - 1.0).abs() > SUM_TOLERANCE {
        return Err(InvalidService::Sum(sum));
    }
    Ok((chances.iter().map(|chance| chance / sum).collect(), rates))
}
