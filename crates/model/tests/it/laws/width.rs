//! Upstreams of some width, offered more than they can do.

use std::time::Duration;

use tamarisk_control::{Classes, Target};
use tamarisk_model::sim::{Client, Discipline, Distribution, Load, Profile, Scenario, Stage};

/// What a law knows when the overload begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// Nothing.
    Cold,
    /// 30 % of the capacity for 5 s, and longer where service is slow.
    Warm,
}

/// An upstream, and what is promised.
#[derive(Clone, Debug)]
pub(crate) struct Width {
    pub(crate) workers: u32,
    pub(crate) service: Distribution,
    /// In multiples of the mean service.
    pub(crate) target: f64,
    pub(crate) start: Start,
}

/// Requests come from as many clients: next to none is somebody's second one.
const STRANGERS: u32 = 100_000;

impl Width {
    pub(crate) fn mean_seconds(&self) -> f64 {
        self.service.mean().expect("the services have one").as_secs_f64()
    }

    /// Requests a second.
    pub(crate) fn capacity(&self) -> f64 {
        f64::from(self.workers) / self.mean_seconds()
    }

    pub(crate) fn target(&self) -> Duration {
        // Whole milliseconds, as people state them.
        Duration::from_millis((1000.0 * self.target * self.mean_seconds()).round() as u64)
    }

    /// It at `times` its capacity, for `completions` of its completions but at least 6 s,
    /// measured from `skipped` seconds after the step on.
    pub(crate) fn offered(&self, times: f64, completions: f64, skipped: f64) -> Scenario {
        let seconds = Duration::from_secs_f64;
        let load = Profile::constant(times * self.capacity());
        let (step, rate) = match self.start {
            Start::Cold => (0.0, load),
            Start::Warm => {
                let step = 40.0_f64.mul_add(self.mean_seconds(), 5.0);
                let before = Profile::constant(0.3 * self.capacity());
                (step, before.step(seconds(step), times * self.capacity()))
            }
        };
        let lasts = (completions / self.capacity()).max(6.0);
        let target = Target::p90(self.target()).expect("targets are not zero");
        let upstream = Stage::new("upstream", self.workers, self.service.clone());
        Scenario::new(Classes::single(target), seconds(lasts - skipped))
            .warm_up(seconds(step + skipped))
            .stage(upstream.discipline(Discipline::EarliestDue))
            .client(Client::new("clients", "upstream", Load::poisson(rate)).flows(STRANGERS))
    }
}

/// Upstreams that the constants of the work limit were not chosen with: other widths, targets
/// and services.
pub(crate) fn held_out() -> Vec<Width> {
    const MEAN: Duration = Duration::from_millis(25);
    widths(&[1, 3, 5, 12, 150], &[6.0, 9.0, 20.0, 40.0], |index| match index % 3 {
        0 => Distribution::Constant(MEAN),
        1 => Distribution::LogNormal { mean: MEAN, variation: 1.0 },
        _ => Distribution::Exponential(MEAN),
    })
}

/// Every width with every target, from warm and cold.
pub(crate) fn widths(
    workers: &[u32],
    targets: &[f64],
    service: fn(usize) -> Distribution,
) -> Vec<Width> {
    let pairs = workers.iter().flat_map(|&workers| targets.iter().map(move |&to| (workers, to)));
    pairs
        .enumerate()
        .flat_map(|(index, (workers, target))| {
            let of = |start| Width { workers, service: service(index), target, start };
            [Start::Warm, Start::Cold].map(of)
        })
        .collect()
}
