//! Service of which only mean and variability are known, as a phase-type of the same two moments.
//!
//! **Mechanism.** More variable than exponential service: a choice of two exponential times of which each
//! makes up half of the mean. Less variable: k or k − 1 steps of one rate, with k = ⌈1 ÷ c²⌉ and the
//! fewer of them with probability p \[Tijms94\]:
//! ```text
//! p = (k·c² − √(k·(1 + c²) − k²·c²)) ÷ (1 + c²)        rate = (k − p) ÷ mean
//! ```
//! **Limits.** Service of less than 1 ÷ `steps_max`, constant service too, becomes that many steps of
//! one rate: its mean is right, and it is a little too variable.

use tamarisk_control::{PerSecond, Ratio};

use super::phase_type::checked;
use super::{InvalidService, PhaseType, RATE_MAX, STEPS_MAX, Steps, rate};
use crate::matrix::Matrix;
use crate::seconds::Seconds;

impl PhaseType {
    /// Service of this mean, and of this variability: its variance over the square of its mean. It has
    /// `steps_max` steps at most, or [`STEPS_MAX`].
    ///
    /// # Errors
    /// [`InvalidService`] if it is too short or too long, or has no variance.
    pub fn of_moments(
        mean: Seconds,
        variability: f64,
        steps_max: usize,
    ) -> Result<Self, InvalidService> {
        if !variability.is_finite() {
            return Err(InvalidService::NoVariance);
        }
        let per_second = rate((1.0 / mean.get()).min(2.0 * RATE_MAX));
        checked(&[per_second])?;
        if variability >= 1.0 {
            return Self::choice(&balanced(per_second, variability));
        }
        let steps_max = steps_max.clamp(1, STEPS_MAX);
        let steps = (1.0 / variability).ceil();
        match steps <= steps_max as f64 {
            true => Ok(Self::mixed(steps as usize, variability, mean.get())),
            false => Self::erlang(steps_max, rate(steps_max as f64 / mean.get())),
        }
    }

    /// `steps` steps, or one less.
    fn mixed(steps: usize, variability: f64, mean: f64) -> Self {
        let (k, c) = (steps as f64, variability);
        let root = (k * (1.0 + c) - k * k * c).max(0.0).sqrt();
        let fewer = (k * c - root) / (1.0 + c);
        let mut routes = Matrix::zeros(steps, steps);
        (1..steps).for_each(|step| routes[(step - 1, step)] = 1.0);
        let (mut entry, mut exits) = (vec![0.0; steps], vec![0.0; steps]);
        (entry[0], entry[1], exits[steps - 1]) = (1.0 - fewer, fewer, 1.0);
        Self::from_steps(Steps { entry, rates: vec![(k - fewer) / mean; steps], routes, exits })
    }
}

/// Two exponential times, each of which makes up half of the mean.
fn balanced(per_second: PerSecond, variability: f64) -> [(Ratio, PerSecond); 2] {
    let excess = ((variability - 1.0) / (variability + 1.0)).sqrt();
    let fast = f64::midpoint(1.0, excess);
    [fast, 1.0 - fast].map(|share| (Ratio::saturating(share), rate(2.0 * share * per_second.get())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_variability_are_kept() {
        let mean = Seconds::computed(0.02);
        for variability in [1.0 / 64.0, 0.03, 0.3, 1.0 / 3.0, 0.5, 0.99, 1.0, 1.5, 4.0, 100.0] {
            let fit = PhaseType::of_moments(mean, variability, STEPS_MAX).unwrap();
            assert!((fit.mean_seconds() / 0.02 - 1.0).abs() < 1e-9, "{variability}");
            assert!((fit.variability() / variability - 1.0).abs() < 1e-6, "{variability}");
        }
    }

    #[test]
    fn constant_service_has_as_many_steps_as_there_may_be() {
        let mean = Seconds::computed(0.02);
        let fit = PhaseType::of_moments(mean, 0.0, 16).unwrap();
        assert!((fit.mean_seconds() / 0.02 - 1.0).abs() < 1e-9);
        assert_eq!(fit.steps(), 16);
        assert_eq!(PhaseType::of_moments(mean, 0.0, 1000).unwrap().steps(), STEPS_MAX);
    }

    #[test]
    fn what_has_no_two_moments_is_rejected() {
        let of =
            |mean, variability| PhaseType::of_moments(Seconds::computed(mean), variability, 64);
        assert_eq!(of(0.02, f64::INFINITY), Err(InvalidService::NoVariance));
        assert!(matches!(of(0.0, 0.0), Err(InvalidService::Rate(_))));
    }
}
