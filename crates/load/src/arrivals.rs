//! When the requests of an open loop are due: chosen by a schedule and a seed
//! alone, never by how fast the server answers.
//!
//! Both processes count up in "requests due" and ask the schedule when that
//! count is reached. In steps of one the result is an evenly paced stream; in
//! exponential steps of mean one it is a Poisson process whose rate follows the
//! schedule exactly, through steps and ramps (time rescaling).

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::schedule::Schedule;

/// How the requests of an open loop follow one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spacing {
    /// Independently, as from a crowd of strangers: a Poisson process.
    #[default]
    Poisson,
    /// At equal distances.
    Constant,
}

/// The instants, since the start of a run, at which requests are due, in order.
#[derive(Debug)]
pub struct Arrivals<'a> {
    schedule: &'a Schedule,
    spacing: Spacing,
    due: f64,
    random: StdRng,
}

impl<'a> Arrivals<'a> {
    /// The arrivals that `schedule`, its level taken as requests a second, asks for.
    pub fn new(schedule: &'a Schedule, spacing: Spacing, seed: u64) -> Self {
        let mut arrivals =
            Self { schedule, spacing, due: 0.0, random: StdRng::seed_from_u64(seed) };
        if spacing == Spacing::Poisson {
            arrivals.due = arrivals.step();
        }
        arrivals
    }

    fn step(&mut self) -> f64 {
        match self.spacing {
            Spacing::Constant => 1.0,
            // 1 − u lies in (0, 1], so its logarithm is finite.
            Spacing::Poisson => -(1.0 - self.random.random::<f64>()).ln(),
        }
    }
}

impl Iterator for Arrivals<'_> {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let at = self.schedule.when_due(self.due)?;
        self.due += self.step();
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Change;

    fn spike() -> Schedule {
        let spike = Change::Spike {
            to: 1000.0,
            from: Duration::from_secs(10),
            until: Duration::from_secs(20),
        };
        Schedule::new(100.0, vec![spike], Some(Duration::from_secs(30))).unwrap()
    }

    #[test]
    fn a_constant_rate_is_evenly_spaced() {
        let schedule = Schedule::new(4.0, vec![], Some(Duration::from_secs(1))).unwrap();
        let arrivals: Vec<_> = Arrivals::new(&schedule, Spacing::Constant, 0).collect();
        assert_eq!(arrivals, [0, 250, 500, 750].map(Duration::from_millis));
    }

    #[test]
    fn a_constant_spike_has_as_many_arrivals_as_its_area() {
        let arrivals = Arrivals::new(&spike(), Spacing::Constant, 0).count();
        assert_eq!(arrivals, 10 * 100 + 10 * 1000 + 10 * 100);
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_the_deviation_of_an_exponential() {
        let schedule = Schedule::new(1000.0, vec![], Some(Duration::from_secs(100))).unwrap();
        let arrivals: Vec<f64> =
            Arrivals::new(&schedule, Spacing::Poisson, 7).map(|at| at.as_secs_f64()).collect();
        let gaps: Vec<f64> = arrivals.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // 100,000 gaps of mean and deviation 1 ms: the mean of such a sample
        // strays by 0.3 %, so 2 % is beyond six deviations.
        assert!((mean - 1e-3).abs() < 0.02e-3, "mean {mean}");
        assert!((variance.sqrt() - 1e-3).abs() < 0.02e-3, "deviation {}", variance.sqrt());
    }

    #[test]
    fn poisson_follows_the_schedule() {
        let schedule = spike();
        let inside = |at: &Duration| (10..20).contains(&at.as_secs());
        let (spike, rest): (Vec<_>, Vec<_>) =
            Arrivals::new(&schedule, Spacing::Poisson, 1).partition(inside);
        // 10,000 and 2,000 expected; five standard deviations are 500 and 224.
        assert!(spike.len().abs_diff(10_000) < 500, "{}", spike.len());
        assert!(rest.len().abs_diff(2_000) < 224, "{}", rest.len());
    }

    #[test]
    fn a_seed_fixes_every_arrival() {
        let arrivals = |seed| Arrivals::new(&spike(), Spacing::Poisson, seed).collect::<Vec<_>>();
        assert_eq!(arrivals(3), arrivals(3));
        assert_ne!(arrivals(3), arrivals(4));
    }
}
