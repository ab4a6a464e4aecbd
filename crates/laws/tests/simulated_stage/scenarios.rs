//! The situations that the table and the regression tests put every law into.

use std::time::Duration;

use tamarisk_control::{Class, ClassId, Classes, Priority, Target, Weight};

use super::Upstream;
use super::workload::{Clients, Load, Phase, Service, Workload};

/// Where a law is put, for how long, and which stretch counts.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub workload: Workload,
    pub upstream: Upstream,
    /// When the overload begins and ends, in seconds.
    pub measured: (f64, f64),
}

impl Scenario {
    /// Requests a second that the upstream can do at full speed.
    pub fn capacity(&self) -> f64 {
        self.workload.capacity(self.upstream.workers)
    }
}

/// Four kinds of request on 8 workers, as on a site with a few heavy pages:
/// 0.6·15 + 0.35·20 + 0.045·60 + 0.005·600 = 21.7 ms of mean work, so
/// 8 ÷ 21.7 ms = 369 requests a second. Target 1 s, and 3 s for the rare kind.
fn site(phases: Vec<Phase>, until_seconds: f64) -> Workload {
    let class = |name: &str, target_ms| class(name, target_ms, 0);
    Workload {
        classes: classes(vec![
            class("page", 1000),
            class("listing", 1000),
            class("report", 1000),
            class("export", 3000),
        ]),
        mix: vec![
            (0.6, Service::LogNormal { mean: 0.015, variation: 0.5 }),
            (0.35, Service::LogNormal { mean: 0.020, variation: 0.5 }),
            (0.045, Service::LogNormal { mean: 0.060, variation: 0.5 }),
            (0.005, Service::LogNormal { mean: 0.600, variation: 1.0 }),
        ],
        clients: Clients::Strangers,
        phases,
        until_seconds,
    }
}

const SITE_CAPACITY: f64 = 8.0 / 0.0217;

/// 3 users, at 20 s all at once 1000, at 80 s 3 again.
pub fn spike() -> Scenario {
    let users = |from_seconds, count| Phase {
        from_seconds,
        load: Load::Users { count, think_seconds: 1.0, after_reject_seconds: 1.0 },
    };
    Scenario {
        workload: site(vec![users(0.0, 3), users(20.0, 1000), users(80.0, 3)], 100.0),
        upstream: Upstream::steady(8),
        measured: (20.0, 80.0),
    }
}

/// 30 % of capacity, at 10 s `times` the capacity, open loop.
pub fn step(times: f64) -> Scenario {
    let phases = vec![poisson(0.0, 0.3 * SITE_CAPACITY), poisson(10.0, times * SITE_CAPACITY)];
    Scenario { workload: site(phases, 40.0), upstream: Upstream::steady(8), measured: (10.0, 40.0) }
}

/// 80 % of capacity, while from 20 s to 60 s all work takes 2.5 times as long.
pub fn slowdown() -> Scenario {
    let phases = vec![poisson(0.0, 0.8 * SITE_CAPACITY)];
    Scenario {
        workload: site(phases, 80.0),
        upstream: Upstream { slowdown: Some((20.0, 60.0, 2.5)), ..Upstream::steady(8) },
        measured: (20.0, 60.0),
    }
}

/// 80 % of capacity from the first instant on, with a law that knows nothing.
pub fn eighty_percent() -> Scenario {
    Scenario {
        workload: site(vec![poisson(0.0, 0.8 * SITE_CAPACITY)], 60.0),
        upstream: Upstream::steady(8),
        measured: (0.0, 60.0),
    }
}

/// An application that is not overloaded: as many at once as come, pages of 20 ms and so many
/// reports of 800 ms a second, all with a target of 200 ms.
pub fn idle_application(reports: f64) -> Scenario {
    let rate = 100.0 + reports;
    Scenario {
        workload: Workload {
            classes: classes(vec![class("page", 200, 0), class("report", 200, 0)]),
            mix: vec![
                (100.0 / rate, Service::Constant(0.02)),
                (reports / rate, Service::Constant(0.8)),
            ],
            clients: Clients::Strangers,
            phases: vec![poisson(0.0, rate)],
            until_seconds: 60.0,
        },
        upstream: Upstream::steady(10_000),
        measured: (0.0, 60.0),
    }
}

/// 8 workers of 40 ms (exponential) at `times` their capacity, with a target of `target_ms`,
/// from the first instant on.
pub fn workers_of_40_ms(times: f64, target_ms: u64) -> Scenario {
    Scenario {
        workload: Workload {
            classes: classes(vec![class("call", target_ms, 0)]),
            mix: vec![(1.0, Service::Exponential(0.04))],
            clients: Clients::Strangers,
            phases: vec![poisson(0.0, times * 200.0)],
            until_seconds: 40.0,
        },
        upstream: Upstream::steady(8),
        measured: (5.0, 40.0),
    }
}

/// 400 workers of 0.4 s (exponential), target 3 s, at `times` the capacity of
/// 1000 a second from the first instant on.
pub fn wide(times: f64) -> Scenario {
    Scenario {
        workload: Workload {
            classes: classes(vec![class("call", 3000, 0)]),
            mix: vec![(1.0, Service::Exponential(0.4))],
            clients: Clients::Strangers,
            phases: vec![poisson(0.0, times * 1000.0)],
            until_seconds: 30.0,
        },
        upstream: Upstream::steady(400),
        measured: (0.0, 30.0),
    }
}

/// 10 times the capacity of 8 workers of 20 ms, of which the share `high` is of
/// a higher priority; from 10 s on, after 30 % of capacity.
pub fn priorities(high: f64) -> Scenario {
    priorities_at(10.0, high)
}

/// The same at `times` the capacity.
pub fn priorities_at(times: f64, high: f64) -> Scenario {
    Scenario {
        workload: Workload {
            classes: classes(vec![class("high", 500, 0), class("low", 500, 1)]),
            mix: vec![(high, Service::Exponential(0.02)), (1.0 - high, Service::Exponential(0.02))],
            clients: Clients::Strangers,
            phases: vec![poisson(0.0, 0.3 * 400.0), poisson(10.0, times * 400.0)],
            until_seconds: 30.0,
        },
        upstream: Upstream::steady(8),
        measured: (10.0, 30.0),
    }
}

/// 8 workers of 20 ms (exponential), target 200 ms: 30 % of capacity for 5 s, and
/// then `times` the capacity of 400 a second.
pub fn uniform(times: f64) -> Scenario {
    Scenario {
        workload: Workload {
            classes: classes(vec![class("request", 200, 0)]),
            mix: vec![(1.0, Service::Exponential(0.02))],
            clients: Clients::Strangers,
            phases: vec![poisson(0.0, 0.3 * 400.0), poisson(5.0, times * 400.0)],
            until_seconds: 25.0,
        },
        upstream: Upstream::steady(8),
        measured: (5.0, 25.0),
    }
}

/// The same workers for `count` clients, of which each asks for `times` its share
/// of the capacity; and from 5 s on the first of them for `greed` times as much.
pub fn clients(count: u64, times: f64, greed: f64) -> Scenario {
    let mut scenario = uniform(times * (count as f64 - 1.0 + greed) / count as f64);
    scenario.workload.clients = Clients::Greedy { count, greed };
    scenario
}

/// The same workers for events of 20 ms and of 40 ms, of one priority, which from 5 s on
/// ask for `times` the capacity each; target 500 ms.
pub fn two_kinds(times: [f64; 2]) -> Scenario {
    let [short, long] = [400.0 * times[0], 200.0 * times[1]];
    let mix = |rate| rate / (short + long);
    Scenario {
        workload: Workload {
            classes: classes(vec![class("short", 500, 0), class("long", 500, 0)]),
            mix: vec![
                (mix(short), Service::Exponential(0.02)),
                (mix(long), Service::Exponential(0.04)),
            ],
            clients: Clients::Strangers,
            phases: vec![poisson(0.0, 80.0), poisson(5.0, short + long)],
            until_seconds: 35.0,
        },
        upstream: Upstream::steady(8),
        measured: (10.0, 35.0),
    }
}

/// The same with weights.
pub fn weighted(times: [f64; 2], weights: [u8; 2]) -> Scenario {
    let mut scenario = two_kinds(times);
    for (index, weight) in weights.into_iter().enumerate() {
        let weight = Weight::new(weight).expect("the weights of scenarios are few");
        let classes = scenario.workload.classes.weighted(ClassId::new(index), weight);
        scenario.workload.classes = classes;
    }
    scenario
}

/// The same at 10 times the capacity from the first instant on.
pub fn cold() -> Scenario {
    let mut scenario = uniform(10.0);
    scenario.workload.phases.remove(0);
    scenario.workload.phases[0].from_seconds = 0.0;
    scenario.measured.0 = 0.0;
    scenario
}

/// The same workers at 5 times their capacity, but each event beyond 16 in flight
/// slows all that begin.
pub fn contended() -> Scenario {
    let mut scenario = uniform(5.0);
    scenario.upstream.contention_knee = Some(16);
    scenario
}

/// What a law knows when the overload begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Nothing.
    Cold,
    /// 30 % of the capacity for 5 s, and longer where service is slow.
    Warm,
}

/// An upstream of some width, to be offered more than it can do.
#[derive(Clone, Copy, Debug)]
pub struct Width {
    pub workers: u32,
    pub service: Service,
    /// In multiples of the mean service.
    pub target: f64,
    pub start: Start,
}

impl Width {
    /// It at `times` its capacity, for `completions` of its completions, but at
    /// least 6 s.
    pub fn offered(&self, times: f64, completions: f64) -> Scenario {
        let mean = self.service.mean();
        let capacity = f64::from(self.workers) / mean;
        let (step, before) = match self.start {
            Start::Cold => (0.0, None),
            Start::Warm => (40.0_f64.mul_add(mean, 5.0), Some(poisson(0.0, 0.3 * capacity))),
        };
        let until_seconds = step + (completions / capacity).max(6.0);
        let target_ms = (1000.0 * self.target * mean).round() as u64;
        Scenario {
            workload: Workload {
                classes: classes(vec![class("request", target_ms, 0)]),
                mix: vec![(1.0, self.service)],
                clients: Clients::Strangers,
                phases: before.into_iter().chain([poisson(step, times * capacity)]).collect(),
                until_seconds,
            },
            upstream: Upstream::steady(self.workers),
            measured: (step, until_seconds),
        }
    }
}

/// The upstreams that the constants of the opaque form were chosen with.
pub fn widths_chosen_with() -> Vec<Width> {
    let widths = [1, 2, 4, 8, 40, 400];
    widths_at(&widths, &[4.0, 10.0, 50.0], |_| Service::Exponential(0.05))
}

/// Upstreams that they were not chosen with: other widths, targets and services.
pub fn widths_held_out() -> Vec<Width> {
    widths_at(&[1, 3, 5, 12, 150], &[6.0, 9.0, 20.0, 40.0], |index| match index % 3 {
        0 => Service::Constant(0.025),
        1 => Service::LogNormal { mean: 0.025, variation: 1.0 },
        _ => Service::Exponential(0.025),
    })
}

/// Every width with every target, from cold and warm.
fn widths_at(workers: &[u32], targets: &[f64], service: fn(usize) -> Service) -> Vec<Width> {
    let pairs = workers.iter().flat_map(|&workers| targets.iter().map(move |&to| (workers, to)));
    pairs
        .enumerate()
        .flat_map(|(index, (workers, target))| {
            let service = service(index);
            [Start::Warm, Start::Cold].map(|start| Width { workers, service, target, start })
        })
        .collect()
}

/// A stage that can be improved: it is built with 4 workers, and up to 16 work
/// without hindering each other; beyond, throughput falls with each. Events of 20 ms
/// at full quality, the share `long` of them of 4 s, and 2 ms for each batch; target
/// 200 ms. 50 a second, from 10 s to 250 s `per_second`, then 50 again.
pub fn improvable(per_second: f64, long: f64) -> Scenario {
    Scenario {
        workload: Workload {
            classes: classes(vec![class("request", 200, 0)]),
            mix: vec![(1.0, Service::ExponentialOrLong { mean: 0.02, share: long, long: 4.0 })],
            clients: Clients::Strangers,
            phases: vec![poisson(0.0, 50.0), poisson(10.0, per_second), poisson(250.0, 50.0)],
            until_seconds: 320.0,
        },
        upstream: Upstream {
            contention_knee: Some(16),
            contention_power: 2,
            batch_setup: 0.002,
            ..Upstream::steady(1000)
        },
        measured: (90.0, 250.0),
    }
}

/// Always more than enough to do, of 20 ms; beyond 8 at once throughput falls with
/// each, as in [Welsh02 fig. 31].
pub fn thrashing() -> Scenario {
    Scenario {
        workload: Workload {
            classes: classes(vec![class("request", 1000, 0)]),
            mix: vec![(1.0, Service::Exponential(0.02))],
            clients: Clients::Strangers,
            phases: vec![poisson(0.0, 1000.0)],
            until_seconds: 120.0,
        },
        upstream: Upstream { contention_knee: Some(8), contention_power: 2, ..Upstream::steady(8) },
        measured: (40.0, 120.0),
    }
}

/// One worker of 20 ms at full quality, target 5 s; 3 users, from 20 s on `users`,
/// as in [Welsh02 figs 56 and 57].
pub fn degradable_spike(users: usize) -> Scenario {
    let phase = |from_seconds, count| Phase {
        from_seconds,
        load: Load::Users { count, think_seconds: 0.02, after_reject_seconds: 1.0 },
    };
    Scenario {
        workload: Workload {
            classes: classes(vec![class("page", 5000, 0)]),
            mix: vec![(1.0, Service::Exponential(0.02))],
            clients: Clients::Strangers,
            phases: vec![phase(0.0, 3), phase(20.0, users)],
            until_seconds: 200.0,
        },
        upstream: Upstream::steady(1),
        measured: (80.0, 200.0),
    }
}

/// 50 requests a second of 5 ms, the share `long` of them of 500 ms [SERT06 §2.2].
pub fn long_requests(long: f64) -> Scenario {
    let service = Service::ExponentialOrLong { mean: 0.005, share: long, long: 0.5 };
    Scenario {
        workload: Workload {
            classes: classes(vec![class("query", 1000, 0)]),
            mix: vec![(1.0, service)],
            clients: Clients::Strangers,
            phases: vec![poisson(0.0, 50.0)],
            until_seconds: 200.0,
        },
        upstream: Upstream::steady(1),
        measured: (20.0, 200.0),
    }
}

fn poisson(from_seconds: f64, per_second: f64) -> Phase {
    Phase { from_seconds, load: Load::Poisson { per_second } }
}

fn class(name: &str, target_ms: u64, priority: u8) -> Class {
    let target = Target::p90(Duration::from_millis(target_ms)).expect("targets are not zero");
    Class { name: name.to_owned(), target, priority: Priority(priority) }
}

fn classes(list: Vec<Class>) -> Classes {
    Classes::new(list).expect("there are few classes, each of its own name")
}
