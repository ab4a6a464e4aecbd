//! Who asks for what: classes with their service times, and the load over time.

use rand::rngs::StdRng;
use rand::{Rng, RngExt};
use rand_distr::{Distribution, Exp1, LogNormal};
use tamarisk_control::{ClassId, Classes};

/// How long one worker needs for an event of a class, in seconds.
#[derive(Clone, Copy, Debug)]
pub enum Service {
    /// Always the same.
    Constant(f64),
    /// Exponential, of this mean.
    Exponential(f64),
    /// Log-normal, of this mean and coefficient of variation.
    LogNormal { mean: f64, variation: f64 },
    /// Exponential, of this mean; but of the given share, always `long`.
    ExponentialOrLong { mean: f64, share: f64, long: f64 },
}

impl Service {
    pub fn mean(self) -> f64 {
        match self {
            Self::Constant(mean) | Self::Exponential(mean) | Self::LogNormal { mean, .. } => mean,
            Self::ExponentialOrLong { mean, share, long } => (1.0 - share) * mean + share * long,
        }
    }

    fn draw(self, random: &mut StdRng) -> f64 {
        match self {
            Self::Constant(seconds) => seconds,
            Self::Exponential(mean) => exponential(random, mean),
            Self::LogNormal { mean, variation } => LogNormal::from_mean_cv(mean, variation)
                .expect("means and variations of scenarios are positive")
                .sample(random),
            Self::ExponentialOrLong { share, long, .. } if uniform(random) < share => long,
            Self::ExponentialOrLong { mean, .. } => exponential(random, mean),
        }
    }
}

/// The load from one instant to the next phase.
#[derive(Clone, Copy, Debug)]
pub struct Phase {
    pub from_seconds: f64,
    pub load: Load,
}

/// How requests come.
#[derive(Clone, Copy, Debug)]
pub enum Load {
    /// Closed loop: each of `count` users waits for its answer, thinks for an
    /// exponential time of the mean given, and asks again.
    Users { count: usize, think_seconds: f64, after_reject_seconds: f64 },
    /// Open loop: requests come whether others are answered or not.
    Poisson { per_second: f64 },
}

/// Whose requests come in an open loop.
#[derive(Clone, Copy, Debug)]
pub enum Clients {
    /// Every request is somebody else's.
    Strangers,
    /// It is not known whose they are.
    Unknown,
    /// `count` clients that ask equally often, and the first one, which asks
    /// `greed` times as often as any other.
    Greedy { count: u64, greed: f64 },
}

impl Clients {
    /// Whose the request `id` is; 0 if that is not known.
    pub(super) fn draw(self, id: u64, random: &mut StdRng) -> u64 {
        match self {
            Self::Strangers => id + 1,
            Self::Unknown => 0,
            Self::Greedy { count, greed } => {
                let at = uniform(random) * (count as f64 - 1.0 + greed);
                1 + (at - (greed - 1.0)).max(0.0) as u64
            }
        }
    }
}

/// Classes, their shares and services, and the load over time.
#[derive(Clone, Debug)]
pub struct Workload {
    pub classes: Classes,
    /// For each class, its share of the requests and its service.
    pub mix: Vec<(f64, Service)>,
    /// Who asks, where users do not.
    pub clients: Clients,
    /// In order of time.
    pub phases: Vec<Phase>,
    pub until_seconds: f64,
}

impl Workload {
    /// The mean work of a request in seconds of one worker.
    pub fn mean_work(&self) -> f64 {
        self.mix.iter().map(|(share, service)| share * service.mean()).sum()
    }

    /// Requests a second that `workers` can do.
    pub fn capacity(&self, workers: u32) -> f64 {
        f64::from(workers) / self.mean_work()
    }

    pub(super) fn draw(&self, random: &mut StdRng) -> (ClassId, f64) {
        let mut at = uniform(random);
        let last = self.mix.len() - 1;
        let index = self.mix[..last]
            .iter()
            .position(|(share, _)| {
                at -= share;
                at < 0.0
            })
            .unwrap_or(last);
        (ClassId::new(index), self.mix[index].1.draw(random))
    }
}

pub(super) fn uniform(random: &mut impl Rng) -> f64 {
    random.random()
}

pub(super) fn exponential(random: &mut StdRng, mean: f64) -> f64 {
    let unit: f64 = Exp1.sample(random);
    unit * mean
}
