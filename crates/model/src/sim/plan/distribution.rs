//! Distributions of durations: service, gaps between arrivals, thinking time, pauses.

use std::sync::Arc;
use std::time::Duration;

use rand_distr::{Distribution as _, Exp1, StandardNormal};

use super::random::Stream;

/// A distribution of durations. The simulator counts in whole nanoseconds, so a mean
/// of less than a microsecond begins to show the rounding.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// Always the same.
    Constant(Duration),
    /// Exponential of this mean.
    Exponential(Duration),
    /// The sum of `stages` exponential durations, `mean` altogether; its squared
    /// coefficient of variation is `1 ÷ stages`.
    Erlang {
        /// How many, at most [`ERLANG_STAGES_MAX`].
        stages: u32,
        /// Of the sum.
        mean: Duration,
    },
    /// An exponential duration of one of several means: each with its probability.
    HyperExponential(Vec<(f64, Duration)>),
    /// Its logarithm is normal.
    LogNormal {
        /// Of the duration, not of its logarithm.
        mean: Duration,
        /// Standard deviation ÷ mean.
        variation: f64,
    },
    /// `P(X > x) = (least ÷ x)^shape`: heavy-tailed. Without a mean at shape 1 and below,
    /// without a variance at 2 and below.
    Pareto {
        /// The least that it can be.
        least: Duration,
        /// The exponent of the tail, above 1.
        shape: f64,
    },
    /// Anything between two durations, all alike.
    Uniform {
        /// The least.
        from: Duration,
        /// The greatest.
        to: Duration,
    },
    /// One of several, each with its probability: bimodal with two constants.
    Mixture(Vec<(f64, Self)>),
    /// What was measured: each value as often as the list has it.
    Empirical(Arc<[Duration]>),
}

/// More stages than this are a constant for most purposes: a coefficient of
/// variation of 0.03, and a thousand numbers drawn for every event.
pub const ERLANG_STAGES_MAX: u32 = 1024;

/// A mixture of mixtures of mixtures is a slip.
const MIXTURE_DEPTH_MAX: u32 = 4;

/// Why a [`Distribution`] cannot be drawn from.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidDistribution {
    /// Erlang with none, or too many.
    #[error("an Erlang distribution has between 1 and {ERLANG_STAGES_MAX} stages, not {0}")]
    Stages(u32),
    /// A mixture of nothing, or an empirical distribution without values.
    #[error("there is nothing to draw from")]
    Empty,
    /// A probability is negative or NaN, or they do not add up.
    #[error("the probabilities add up to {0}, not to 1")]
    Probabilities(f64),
    /// A coefficient of variation that is not a number, negative or above 1000.
    #[error("a coefficient of variation of {0} is not between 0 and 1000")]
    Variation(f64),
    /// A Pareto distribution with so heavy a tail has no mean.
    #[error("a Pareto distribution of shape {0} has no mean; its shape must be above 1")]
    NoMean(f64),
    /// The lower end of a uniform distribution is above the upper.
    #[error("{from:?} to {to:?} is upside down")]
    UpsideDown {
        /// The lower end, as it was given.
        from: Duration,
        /// The upper.
        to: Duration,
    },
    /// Longer than ten years, which is surely a slip.
    #[error("a duration of {0:?} is longer than ten years")]
    TooLong(Duration),
    /// Mixtures within mixtures.
    #[error("mixtures are nested more than {MIXTURE_DEPTH_MAX} deep")]
    Nested,
}

impl Distribution {
    /// Two exponential durations mixed to a squared coefficient of variation of
    /// `variation_squared`, with *balanced means*: each contributes half of the mean.
    /// Below 1, where there is none, it is 1.
    pub fn hyper_exponential(mean: Duration, variation_squared: f64) -> Self {
        let excess = ((variation_squared - 1.0) / (variation_squared + 1.0)).max(0.0).sqrt();
        let fast = (1.0 + excess) / 2.0;
        let branch = |share: f64| (share, mean.div_f64((2.0 * share).max(1e-6)));
        Self::HyperExponential(vec![branch(fast), branch(1.0 - fast)])
    }

    /// One of two durations, the second with probability `share`.
    pub fn bimodal(usual: Duration, rare: Duration, share: f64) -> Self {
        Self::Mixture(vec![(1.0 - share, Self::Constant(usual)), (share, Self::Constant(rare))])
    }

    /// The mean.
    ///
    /// # Errors
    /// [`InvalidDistribution`] if there is none.
    pub fn mean(&self) -> Result<Duration, InvalidDistribution> {
        self.check(0)?;
        Ok(Duration::from_nanos(self.moments().0.round() as u64))
    }

    /// The squared coefficient of variation, infinite for a Pareto distribution of
    /// shape 2 and below; zero of what always takes no time.
    ///
    /// # Errors
    /// [`InvalidDistribution`] if there is no mean.
    pub fn variation_squared(&self) -> Result<f64, InvalidDistribution> {
        self.check(0)?;
        let (mean, square) = self.moments();
        Ok(if mean > 0.0 { (square / (mean * mean) - 1.0).max(0.0) } else { 0.0 })
    }

    pub(in crate::sim) fn sampler(&self) -> Result<Sampler, InvalidDistribution> {
        self.check(0)?;
        Ok(self.checked_sampler())
    }

    /// The mean in nanoseconds and the second moment, of what has been checked.
    fn moments(&self) -> (f64, f64) {
        match self {
            Self::Constant(value) => (nanos(*value), nanos(*value).powi(2)),
            Self::Exponential(mean) => (nanos(*mean), 2.0 * nanos(*mean).powi(2)),
            Self::Erlang { stages, mean } => {
                (nanos(*mean), nanos(*mean).powi(2) * (1.0 + 1.0 / f64::from(*stages)))
            }
            Self::HyperExponential(branches) => mixed(
                branches
                    .iter()
                    .map(|&(share, mean)| (share, (nanos(mean), 2.0 * nanos(mean).powi(2)))),
            ),
            Self::LogNormal { mean, variation } => {
                (nanos(*mean), nanos(*mean).powi(2) * (1.0 + variation * variation))
            }
            Self::Pareto { least, shape } => {
                let square = if *shape > 2.0 {
                    shape / (shape - 2.0) * nanos(*least).powi(2)
                } else {
                    f64::INFINITY
                };
                (shape / (shape - 1.0) * nanos(*least), square)
            }
            Self::Uniform { from, to } => {
                let (from, to) = (nanos(*from), nanos(*to));
                ((from + to) / 2.0, (from * from + from * to + to * to) / 3.0)
            }
            Self::Mixture(parts) => {
                mixed(parts.iter().map(|(share, part)| (*share, part.moments())))
            }
            Self::Empirical(values) => {
                let share = 1.0 / values.len() as f64;
                mixed(values.iter().map(|&value| (share, (nanos(value), nanos(value).powi(2)))))
            }
        }
    }

    fn check(&self, depth: u32) -> Result<(), InvalidDistribution> {
        match self {
            Self::Constant(value) | Self::Exponential(value) => check_duration(*value),
            Self::Erlang { stages, mean } => {
                if !(1..=ERLANG_STAGES_MAX).contains(stages) {
                    return Err(InvalidDistribution::Stages(*stages));
                }
                check_duration(*mean)
            }
            Self::HyperExponential(branches) => {
                check_probabilities(branches.iter().map(|branch| branch.0))?;
                branches.iter().try_for_each(|branch| check_duration(branch.1))
            }
            Self::LogNormal { mean, variation } => {
                if !(0.0..=1000.0).contains(variation) {
                    return Err(InvalidDistribution::Variation(*variation));
                }
                check_duration(*mean)
            }
            Self::Pareto { least, shape } => {
                if shape.is_nan() || *shape <= 1.0 {
                    return Err(InvalidDistribution::NoMean(*shape));
                }
                check_duration(*least)
            }
            Self::Uniform { from, to } => {
                if from > to {
                    return Err(InvalidDistribution::UpsideDown { from: *from, to: *to });
                }
                check_duration(*to)
            }
            Self::Mixture(parts) => {
                if depth == MIXTURE_DEPTH_MAX {
                    return Err(InvalidDistribution::Nested);
                }
                check_probabilities(parts.iter().map(|part| part.0))?;
                parts.iter().try_for_each(|part| part.1.check(depth + 1))
            }
            Self::Empirical(values) => {
                if values.is_empty() {
                    return Err(InvalidDistribution::Empty);
                }
                values.iter().try_for_each(|&value| check_duration(value))
            }
        }
    }

    fn checked_sampler(&self) -> Sampler {
        match self {
            Self::Constant(value) => Sampler::Constant(nanos(*value)),
            Self::Exponential(mean) => Sampler::Exponential(nanos(*mean)),
            Self::Erlang { stages, mean } => {
                Sampler::Erlang { stages: *stages, mean_of_each: nanos(*mean) / f64::from(*stages) }
            }
            Self::HyperExponential(branches) => Sampler::HyperExponential(Shares::new(
                branches.iter().map(|&(share, mean)| (share, nanos(mean))),
            )),
            Self::LogNormal { mean, variation } => {
                let variance = (1.0 + variation * variation).ln();
                // Of zero the logarithm is -∞, and e to that is zero again.
                let location = nanos(*mean).ln() - variance / 2.0;
                Sampler::LogNormal { location, scale: variance.sqrt() }
            }
            Self::Pareto { least, shape } => {
                Sampler::Pareto { least: nanos(*least), exponent: -1.0 / shape }
            }
            Self::Uniform { from, to } => {
                Sampler::Uniform { from: nanos(*from), width: nanos(*to) - nanos(*from) }
            }
            Self::Mixture(parts) => Sampler::Mixture(Shares::new(
                parts.iter().map(|(share, part)| (*share, part.checked_sampler())),
            )),
            Self::Empirical(values) => {
                let mut sorted: Vec<f64> = values.iter().copied().map(nanos).collect();
                sorted.sort_unstable_by(f64::total_cmp);
                Sampler::Empirical(sorted.into())
            }
        }
    }
}

fn nanos(duration: Duration) -> f64 {
    duration.as_nanos() as f64
}

fn mixed(parts: impl Iterator<Item = (f64, (f64, f64))>) -> (f64, f64) {
    parts.fold((0.0, 0.0), |(mean, square), (share, part)| {
        (mean + share * part.0, square + share * part.1)
    })
}

fn check_duration(duration: Duration) -> Result<(), InvalidDistribution> {
    const TEN_YEARS: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
    if duration > TEN_YEARS { Err(InvalidDistribution::TooLong(duration)) } else { Ok(()) }
}

fn check_probabilities(shares: impl Iterator<Item = f64>) -> Result<(), InvalidDistribution> {
    let shares: Vec<_> = shares.collect();
    if shares.is_empty() {
        return Err(InvalidDistribution::Empty);
    }
    match add_up(&shares) {
        Ok(()) => Ok(()),
        Err(sum) => Err(InvalidDistribution::Probabilities(sum)),
    }
}

/// Whether these are probabilities of which exactly one comes true; if not, their sum.
pub(in crate::sim) fn add_up(shares: &[f64]) -> Result<(), f64> {
    /// Enough for a third written with ten digits.
    const SLACK: f64 = 1e-9;
    let sum: f64 = shares.iter().sum();
    let each_is_one = shares.iter().all(|share| (0.0..=1.0 + SLACK).contains(share));
    if each_is_one && (sum - 1.0).abs() <= SLACK { Ok(()) } else { Err(sum) }
}

/// A choice with given probabilities.
#[derive(Clone, Debug)]
pub(in crate::sim) struct Shares<T>(Box<[(f64, T)]>);

impl<T> Shares<T> {
    /// Of at least one.
    pub(in crate::sim) fn new(parts: impl IntoIterator<Item = (f64, T)>) -> Self {
        let mut sum = 0.0;
        let cumulated = parts.into_iter().filter(|(share, _)| *share > 0.0).map(|(share, part)| {
            sum += share;
            (sum, part)
        });
        let parts: Box<[_]> = cumulated.collect();
        debug_assert!(!parts.is_empty(), "the shares were checked to add up to one");
        Self(parts)
    }

    /// Draws one; a choice of one draws no number.
    #[inline]
    pub(in crate::sim) fn draw(&self, random: &mut Stream) -> &T {
        let (last, others) = self.0.split_last().expect("there is at least one");
        if others.is_empty() {
            return &last.1;
        }
        let at = random.uniform();
        others.iter().find(|(below, _)| at < *below).map_or(&last.1, |(_, part)| part)
    }

    pub(in crate::sim) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|(_, part)| part)
    }
}

/// A distribution made ready to draw from; in nanoseconds.
#[derive(Clone, Debug)]
pub(in crate::sim) enum Sampler {
    Constant(f64),
    Exponential(f64),
    Erlang { stages: u32, mean_of_each: f64 },
    HyperExponential(Shares<f64>),
    LogNormal { location: f64, scale: f64 },
    Pareto { least: f64, exponent: f64 },
    Uniform { from: f64, width: f64 },
    Mixture(Shares<Self>),
    Empirical(Box<[f64]>),
}

impl Sampler {
    #[inline]
    pub(in crate::sim) fn sample(&self, random: &mut Stream) -> f64 {
        if let Self::Exponential(mean) = self {
            return exponential(random) * mean;
        }
        self.sample_other(random)
    }

    fn sample_other(&self, random: &mut Stream) -> f64 {
        match self {
            Self::Constant(value) => *value,
            Self::Exponential(mean) => exponential(random) * mean,
            Self::Erlang { stages, mean_of_each } => {
                (0..*stages).map(|_| exponential(random)).sum::<f64>() * mean_of_each
            }
            Self::HyperExponential(branches) => {
                let mean = *branches.draw(random);
                exponential(random) * mean
            }
            Self::LogNormal { location, scale } => {
                let normal: f64 = StandardNormal.sample(random);
                (location + scale * normal).exp()
            }
            // 1 − u is never zero.
            Self::Pareto { least, exponent } => least * (1.0 - random.uniform()).powf(*exponent),
            Self::Uniform { from, width } => from + width * random.uniform(),
            Self::Mixture(parts) => parts.draw(random).sample_other(random),
            Self::Empirical(sorted) => {
                let index = (random.uniform() * sorted.len() as f64) as usize;
                sorted[index.min(sorted.len() - 1)]
            }
        }
    }
}

#[inline]
pub(in crate::sim) fn exponential(random: &mut Stream) -> f64 {
    Exp1.sample(random)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Mean and squared coefficient of variation of many draws agree with what is stated.
    fn check(distribution: &Distribution, mean_ms: f64, variation_squared: f64, tolerance: f64) {
        const DRAWS: usize = 400_000;
        let stated = distribution.mean().unwrap().as_secs_f64() * 1e3;
        assert!((stated - mean_ms).abs() < 1e-5, "{distribution:?} states {stated}");
        let stated = distribution.variation_squared().unwrap();
        assert!((stated - variation_squared).abs() < 1e-4, "{distribution:?} states {stated}");

        let sampler = distribution.sampler().unwrap();
        let mut random = Stream::derived(1, 1);
        let draws: Vec<f64> = (0..DRAWS).map(|_| sampler.sample(&mut random) / 1e6).collect();
        let mean = draws.iter().sum::<f64>() / DRAWS as f64;
        let variance = draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / DRAWS as f64;
        let drawn = variance / (mean * mean);
        assert!((mean / mean_ms - 1.0).abs() < tolerance, "{distribution:?} has mean {mean}");
        assert!(
            (drawn - variation_squared).abs() <= 5.0 * tolerance * variation_squared + 1e-12,
            "{distribution:?} has {drawn}"
        );
    }

    #[test]
    fn draws_have_the_mean_and_the_variation_that_are_stated() {
        use Distribution::*;
        check(&Constant(3 * MS), 3.0, 0.0, 1e-9);
        check(&Exponential(3 * MS), 3.0, 1.0, 0.01);
        check(&Erlang { stages: 4, mean: 3 * MS }, 3.0, 0.25, 0.01);
        check(&Distribution::hyper_exponential(3 * MS, 5.0), 3.0, 5.0, 0.02);
        check(&LogNormal { mean: 3 * MS, variation: 1.5 }, 3.0, 2.25, 0.02);
        // shape 6: mean 6/5 of 5 ms, E[X²] = 6/4·25 = 37.5, so 37.5/36 − 1.
        check(&Pareto { least: 5 * MS, shape: 6.0 }, 6.0, 1.5 / 36.0, 0.02);
        check(&Uniform { from: MS, to: 5 * MS }, 3.0, 16.0 / 12.0 / 9.0, 0.01);
        // 0.9·1 + 0.1·21 = 3; E[X²] = 0.9 + 44.1 = 45.
        check(&Distribution::bimodal(MS, 21 * MS, 0.1), 3.0, 4.0, 0.02);
        check(&Empirical([MS, 3 * MS, 5 * MS].into()), 3.0, 8.0 / 27.0, 0.01);
    }

    #[test]
    fn what_cannot_be_drawn_from_is_rejected_with_the_reason() {
        use Distribution as D;
        use InvalidDistribution as E;
        let cases = [
            (D::Erlang { stages: 0, mean: MS }, E::Stages(0)),
            (D::Mixture(vec![]), E::Empty),
            (D::Empirical([].into()), E::Empty),
            (D::HyperExponential(vec![(0.5, MS), (0.4, MS)]), E::Probabilities(0.9)),
            (D::bimodal(MS, MS, 1.5), E::Probabilities(1.0)),
            (D::LogNormal { mean: MS, variation: -1.0 }, E::Variation(-1.0)),
            (D::Pareto { least: MS, shape: 1.0 }, E::NoMean(1.0)),
            (D::Uniform { from: 2 * MS, to: MS }, E::UpsideDown { from: 2 * MS, to: MS }),
            (D::Constant(Duration::MAX), E::TooLong(Duration::MAX)),
        ];
        for (distribution, expected) in cases {
            assert_eq!(distribution.mean(), Err(expected), "{distribution:?}");
        }
        let nested = (0..6).fold(D::Constant(MS), |inner, _| D::Mixture(vec![(1.0, inner)]));
        assert_eq!(nested.mean(), Err(E::Nested));
        assert!(D::Pareto { least: MS, shape: f64::NAN }.mean().is_err());
        assert!(D::bimodal(MS, MS, f64::NAN).mean().is_err());
    }

    #[test]
    fn what_has_no_variance_says_so() {
        let pareto = Distribution::Pareto { least: MS, shape: 1.5 };
        assert_eq!(pareto.mean(), Ok(3 * MS));
        assert_eq!(pareto.variation_squared(), Ok(f64::INFINITY));
    }
}
