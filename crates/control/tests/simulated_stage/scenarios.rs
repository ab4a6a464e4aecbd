//! The situations that the table and the regression tests put every law into.

use std::time::Duration;

use tamarisk_control::{Class, Classes, Priority, Target};

use super::Upstream;
use super::workload::{Load, Phase, Service, Workload};

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

/// 400 workers of 0.4 s (exponential), target 3 s, at `times` the capacity of
/// 1000 a second from the first instant on.
pub fn wide(times: f64) -> Scenario {
    Scenario {
        workload: Workload {
            classes: classes(vec![class("call", 3000, 0)]),
            mix: vec![(1.0, Service::Exponential(0.4))],
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
    Scenario {
        workload: Workload {
            classes: classes(vec![class("high", 500, 0), class("low", 500, 1)]),
            mix: vec![(high, Service::Exponential(0.02)), (1.0 - high, Service::Exponential(0.02))],
            phases: vec![poisson(0.0, 0.3 * 400.0), poisson(10.0, 10.0 * 400.0)],
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
            phases: vec![poisson(0.0, 0.3 * 400.0), poisson(5.0, times * 400.0)],
            until_seconds: 25.0,
        },
        upstream: Upstream::steady(8),
        measured: (5.0, 25.0),
    }
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
