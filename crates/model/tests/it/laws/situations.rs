//! The situations that the laws are put into.

use std::time::Duration;

use tamarisk_control::{Class, ClassId, Classes, Priority, Ratio, Target, Weight};
use tamarisk_model::sim::{
    Client, Discipline, Distribution, Load, Profile, Retry, Scenario, Speed, Stage, Step,
};

use super::records::{Record, Summary, settling_time, summarise};

/// A stage named `stage` and who asks it for what.
#[derive(Clone)]
pub(crate) struct Situation {
    pub(crate) scenario: Scenario,
    /// Requests a second that the stage can do at full speed.
    pub(crate) capacity: f64,
    /// When the overload begins and ends, in seconds.
    pub(crate) measured: (f64, f64),
}

/// Requests come from as many: next to none is somebody's second one.
const STRANGERS: u32 = 100_000;

impl Situation {
    pub(crate) fn classes(&self) -> &Classes {
        &self.scenario.classes
    }

    /// Of what was measured, from `skipped` seconds on.
    pub(crate) fn summary_after(&self, skipped: f64, records: &[Record]) -> Summary {
        let (from, to) = self.measured;
        summarise(records, self.classes(), None, (from + skipped, to))
    }

    pub(crate) fn summary(&self, records: &[Record]) -> Summary {
        self.summary_after(0.0, records)
    }

    /// Of the class of this place.
    pub(crate) fn summary_of(&self, class: usize, records: &[Record]) -> Summary {
        summarise(records, self.classes(), Some(ClassId::new(class)), self.measured)
    }

    pub(crate) fn settling_time(&self, records: &[Record]) -> f64 {
        settling_time(records, self.classes(), self.measured)
    }

    /// From the beginning on.
    pub(crate) fn rate(mut self, rate: Profile) -> Self {
        self.scenario.clients[0].load = Load::poisson(rate);
        self
    }

    /// Until `until`, and measured from `from` on.
    pub(crate) fn measured(mut self, from: f64, until: f64) -> Self {
        self.measured = (from, until);
        self.scenario.duration = seconds(until);
        self
    }

    /// Which share of the work each event asks for, by class.
    fn mix(mut self, shares: &[(&str, f64)]) -> Self {
        let client = &mut self.scenario.clients[0];
        client.mix = shares.iter().map(|&(class, share)| (class.to_owned(), share)).collect();
        self
    }
}

/// So many workers that serve in the order which the law names, under `load` until `until`.
fn stage(
    classes: Vec<Class>,
    workers: u32,
    service: Distribution,
    load: Load,
    until: f64,
) -> Scenario {
    let classes = Classes::new(classes).expect("there are few classes, each of its own name");
    let flows = if matches!(load, Load::Open { .. }) { STRANGERS } else { 1 };
    Scenario::new(classes, seconds(until))
        .stage(Stage::new("stage", workers, service).discipline(Discipline::EarliestDue))
        .client(Client::new("clients", "stage", load).flows(flows))
}

/// `workers` of a mean service of `mean_ms` (exponential) with a target of `target_ms`, under
/// `rate` until `until`; all of it is measured.
fn exponential_stage(
    workers: u32,
    mean_ms: f64,
    target_ms: u64,
    rate: Profile,
    until: f64,
) -> Situation {
    Situation {
        scenario: stage(
            vec![class("request", target_ms, 0)],
            workers,
            exponential(mean_ms),
            Load::poisson(rate),
            until,
        ),
        capacity: f64::from(workers) * 1000.0 / mean_ms,
        measured: (0.0, until),
    }
}

/// 8 ÷ the mean work of [`site`].
const SITE_CAPACITY: f64 = 8.0 / 0.0217;

/// Four kinds of request on 8 workers, as on a site with a few heavy pages:
/// 0.6·15 + 0.35·20 + 0.045·60 + 0.005·600 = 21.7 ms of mean work, so
/// 8 ÷ 21.7 ms = 369 requests a second. Target 1 s, and 3 s for the rare kind.
fn site(load: Load, until: f64, measured: (f64, f64)) -> Situation {
    let log_normal = |mean_ms: u64, variation| Distribution::LogNormal {
        mean: Duration::from_millis(mean_ms),
        variation,
    };
    let kinds = [
        ("page", 1000, 0.6, log_normal(15, 0.5)),
        ("listing", 1000, 0.35, log_normal(20, 0.5)),
        ("report", 1000, 0.045, log_normal(60, 0.5)),
        ("export", 3000, 0.005, log_normal(600, 1.0)),
    ];
    let list = kinds.iter().map(|(name, target_ms, ..)| class(name, *target_ms, 0)).collect();
    let mut scenario = stage(list, 8, log_normal(15, 0.5), load, until);
    scenario.stages[0].service_of = steps_of(kinds.iter().map(|it| (it.0, it.3.clone())));
    let situation = Situation { scenario, capacity: SITE_CAPACITY, measured };
    situation.mix(&kinds.map(|(name, _, share, _)| (name, share)))
}

/// 3 users, at 20 s all at once 1000, at 80 s 3 again.
pub(crate) fn spike() -> Situation {
    let users = vec![(seconds(0.0), 3), (seconds(20.0), 1000), (seconds(80.0), 3)];
    site(Load::Closed { users, think: exponential(1000.0) }, 100.0, (20.0, 80.0))
}

/// 30 % of capacity, at 10 s `times` the capacity, open loop.
pub(crate) fn step(times: f64) -> Situation {
    let rate = from_to(10.0, 0.3 * SITE_CAPACITY, times * SITE_CAPACITY);
    site(Load::poisson(rate), 40.0, (10.0, 40.0))
}

/// 80 % of capacity, while from 20 s to 60 s all work takes 2.5 times as long.
pub(crate) fn slowdown() -> Situation {
    let mut situation = eighty_percent().measured(20.0, 60.0);
    situation.scenario.stages[0].stretch =
        Profile::constant(1.0).spike(seconds(20.0), seconds(60.0), 2.5);
    situation
}

/// 80 % of capacity from the first instant on, with a law that knows nothing.
pub(crate) fn eighty_percent() -> Situation {
    let rate = Profile::constant(0.8 * SITE_CAPACITY);
    site(Load::poisson(rate), 60.0, (0.0, 60.0))
}

/// An application that is not overloaded: as many at once as come, pages of 20 ms and so many
/// reports of 800 ms a second, all with a target of 200 ms.
pub(crate) fn idle_application(reports: f64) -> Situation {
    let rate = 100.0 + reports;
    let constant = |ms| Distribution::Constant(Duration::from_millis(ms));
    let list = vec![class("page", 200, 0), class("report", 200, 0)];
    let load = Load::poisson(Profile::constant(rate));
    let mut scenario = stage(list, 10_000, constant(20), load, 60.0);
    scenario.stages[0].service_of = steps_of([("report", constant(800))]);
    let capacity = 10_000.0 * rate / (0.020 * 100.0 + 0.8 * reports);
    let situation = Situation { scenario, capacity, measured: (0.0, 60.0) };
    situation.mix(&[("page", 100.0 / rate), ("report", reports / rate)])
}

/// 8 workers of 40 ms (exponential) at `times` their capacity, with a target of `target_ms`,
/// from the first instant on.
pub(crate) fn workers_of_40_ms(times: f64, target_ms: u64) -> Situation {
    let rate = Profile::constant(times * 200.0);
    exponential_stage(8, 40.0, target_ms, rate, 40.0).measured(5.0, 40.0)
}

/// 400 workers of 0.4 s (exponential), target 3 s, at `times` the capacity of
/// 1000 a second from the first instant on.
pub(crate) fn wide(times: f64) -> Situation {
    exponential_stage(400, 400.0, 3000, Profile::constant(times * 1000.0), 30.0)
}

/// `times` the capacity of 8 workers of 20 ms, of which the share `high` is of
/// a higher priority; from 10 s on, after 30 % of capacity.
pub(crate) fn priorities(times: f64, high: f64) -> Situation {
    let list = vec![class("high", 500, 0), class("low", 500, 1)];
    let load = Load::poisson(from_to(10.0, 0.3 * 400.0, times * 400.0));
    let scenario = stage(list, 8, exponential(20.0), load, 30.0);
    Situation { scenario, capacity: 400.0, measured: (10.0, 30.0) }
        .mix(&[("high", high), ("low", 1.0 - high)])
}

/// 8 workers of 20 ms (exponential), target 200 ms: 30 % of capacity for 5 s, and
/// then `times` the capacity of 400 a second.
pub(crate) fn uniform(times: f64) -> Situation {
    let rate = from_to(5.0, 0.3 * 400.0, times * 400.0);
    exponential_stage(8, 20.0, 200, rate, 25.0).measured(5.0, 25.0)
}

/// The same workers for `count` clients, of which each asks for `times` its share
/// of the capacity; and from 5 s on the first of them for `greed` times as much.
pub(crate) fn clients(count: u32, times: f64, greed: f64) -> Situation {
    let others = f64::from(count) - 1.0;
    let mut situation = uniform(times * (others + greed) / f64::from(count));
    let client = &mut situation.scenario.clients[0];
    // A second flow, which asks for nothing, makes the first one known.
    client.flows = count.max(2);
    client.greedy = Some(Ratio::saturating(greed / (others + greed)));
    situation
}

/// The same workers for events of 20 ms and of 40 ms, of one priority, which from 5 s on
/// ask for `times` the capacity each; target 500 ms.
pub(crate) fn two_kinds(times: [f64; 2]) -> Situation {
    let [short, long] = [400.0 * times[0], 200.0 * times[1]];
    let both = short + long;
    let list = vec![class("short", 500, 0), class("long", 500, 0)];
    let load = Load::poisson(from_to(5.0, 80.0, both));
    let mut scenario = stage(list, 8, exponential(20.0), load, 35.0);
    scenario.stages[0].service_of = steps_of([("long", exponential(40.0))]);
    let capacity = both / (times[0] + times[1]);
    Situation { scenario, capacity, measured: (10.0, 35.0) }
        .mix(&[("short", short / both), ("long", long / both)])
}

/// One worker, idle for most of the time: 99 events a second of 2 ms, and one of 60 ms, which leaves
/// two fifths of the target of 100 ms.
pub(crate) fn one_long_kind() -> Situation {
    let list = vec![class("short", 100, 0), class("long", 100, 0)];
    let load = Load::poisson(Profile::constant(100.0));
    let mut scenario = stage(list, 1, exponential(2.0), load, 60.0);
    let long = Distribution::Constant(Duration::from_millis(60));
    scenario.stages[0].service_of = steps_of([("long", long)]);
    let situation = Situation { scenario, capacity: 388.0, measured: (0.0, 60.0) };
    situation.mix(&[("short", 0.99), ("long", 0.01)])
}

/// The same with weights.
pub(crate) fn weighted(times: [f64; 2], weights: [u8; 2]) -> Situation {
    let mut situation = two_kinds(times);
    for (index, weight) in weights.into_iter().enumerate() {
        let weight = Weight::new(weight).expect("the weights of scenarios are few");
        let classes = situation.scenario.classes.weighted(ClassId::new(index), weight);
        situation.scenario.classes = classes;
    }
    situation
}

/// [`uniform`] at 10 times the capacity from the first instant on.
pub(crate) fn cold() -> Situation {
    uniform(10.0).rate(Profile::constant(4000.0)).measured(0.0, 25.0)
}

/// [`uniform`] at 5 times the capacity, for an upstream that works on all at once, of which each
/// beyond 16 slows all: `n` do the work of `8 · 16 ÷ n` workers.
pub(crate) fn contended() -> Situation {
    let mut situation = uniform(5.0);
    let upstream = &mut situation.scenario.stages[0];
    upstream.workers = Stage::UNLIMITED;
    upstream.speed = Speed::Contended { cores: 8.0, knee: 16.0 };
    situation
}

/// A stage that can be improved: it is built with 4 workers, and up to 16 work
/// without hindering each other; beyond, throughput falls with each. Events of 20 ms
/// at full quality, the share `long` of them of 4 s, and 2 ms for each batch; target
/// 200 ms. 50 a second, from 10 s to 250 s `per_second`, then 50 again.
pub(crate) fn improvable(per_second: f64, long: f64) -> Situation {
    let four_seconds = Distribution::Constant(seconds(4.0));
    let service =
        Distribution::Mixture(vec![(1.0 - long, exponential(20.0)), (long, four_seconds)]);
    let rate = Profile::constant(50.0).spike(seconds(10.0), seconds(250.0), per_second);
    let list = vec![class("request", 200, 0)];
    let mut scenario = stage(list, 4, service, Load::poisson(rate), 320.0);
    scenario.stages[0].speed = Speed::Contended { cores: 16.0, knee: 16.0 };
    scenario.stages[0].batch_cost = Duration::from_millis(2);
    // Twenty times what can be done within a target at the least quality.
    scenario.stages[0].capacity = 20_000;
    Situation { scenario, capacity: 200.0, measured: (90.0, 250.0) }
}

/// Always more than enough to do, of 20 ms. Beyond 8 others at once throughput falls with each,
/// as in [Welsh02 fig. 31]: `n` do the work of `512 ÷ (n − 1)²` workers.
pub(crate) fn thrashing() -> Situation {
    let rate = Profile::constant(1000.0);
    let mut situation = exponential_stage(8, 20.0, 1000, rate, 120.0).measured(40.0, 120.0);
    let total = |running: u32| {
        let others = f64::from(running - 1);
        f64::from(running).min(8.0) * (8.0 / others).min(1.0).powi(2)
    };
    situation.scenario.stages[0].speed = Speed::Totals((1..=100).map(total).collect());
    situation
}

/// One worker of 20 ms at full quality, target 5 s; 3 users, from 20 s on `users`,
/// as in [Welsh02 figs 56 and 57].
pub(crate) fn degradable_spike(users: u32) -> Situation {
    let users = vec![(seconds(0.0), 3), (seconds(20.0), users)];
    let load = Load::Closed { users, think: exponential(20.0) };
    let mut scenario = stage(vec![class("page", 5000, 0)], 1, exponential(20.0), load, 200.0);
    scenario.clients[0].retry = Retry::backoff(1000, exponential(1000.0), 1.0);
    Situation { scenario, capacity: 50.0, measured: (80.0, 200.0) }
}

/// 50 requests a second of 5 ms, the share `long` of them of 500 ms [SERT06 §2.2].
pub(crate) fn long_requests(long: f64) -> Situation {
    let half_a_second = Distribution::Constant(seconds(0.5));
    let service =
        Distribution::Mixture(vec![(1.0 - long, exponential(5.0)), (long, half_a_second)]);
    let list = vec![class("query", 1000, 0)];
    let scenario = stage(list, 1, service, Load::poisson(Profile::constant(50.0)), 200.0);
    let capacity = 1.0 / ((1.0 - long) * 0.005 + long * 0.5);
    Situation { scenario, capacity, measured: (20.0, 200.0) }
}

/// Eight workers of 20 ms (log-normal), offered 1.5 times what they can do.
pub(crate) fn half_too_much(classes: Classes) -> Situation {
    let service = Distribution::LogNormal { mean: Duration::from_millis(20), variation: 0.5 };
    let load = Load::poisson(Profile::constant(600.0));
    let mut scenario = stage(vec![class("request", 1000, 0)], 8, service, load, 60.0);
    scenario.classes = classes;
    Situation { scenario, capacity: 400.0, measured: (30.0, 60.0) }
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn exponential(mean_ms: f64) -> Distribution {
    Distribution::Exponential(seconds(mean_ms / 1000.0))
}

/// `before` until `at` seconds, `then` from there on.
fn from_to(at: f64, before: f64, then: f64) -> Profile {
    Profile::constant(before).step(seconds(at), then)
}

fn steps_of<'a>(
    services: impl IntoIterator<Item = (&'a str, Distribution)>,
) -> Vec<(String, Vec<Step>)> {
    let own = |(class, service): (&str, _)| (class.to_owned(), vec![Step::own(service)]);
    services.into_iter().map(own).collect()
}

fn class(name: &str, target_ms: u64, priority: u8) -> Class {
    let target = Target::p90(Duration::from_millis(target_ms)).expect("targets are not zero");
    Class { name: name.to_owned(), target, priority: Priority(priority) }
}
