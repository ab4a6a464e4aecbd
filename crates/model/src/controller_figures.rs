//! The figures of [Welsh02 §5.4, §6.2] that show its controllers at work, simulated: 30, 31, 32,
//! 41 and 42.
//!
//! The laws act as printed, each alone and without an admission law, as in the dissertation. What
//! its captions and text say of load, service and constants is here as there; what they leave open
//! is chosen, and the choice stands beside it. Its curves are not in its text, so that what is
//! compared are the numbers that it states.

use std::collections::HashSet;
use std::time::Duration;

use tamarisk_catalogue::{ByName, InvalidLaw};
use tamarisk_control::{Class, Classes, Priority, Target, Timestamp};
use tamarisk_laws::{Knobs, Laws};

use crate::figures::{Figure, Line, Panel};
use crate::sim::{
    Client, Distribution, Load, Outcome, Profile, Report, Scenario, Seen, Simulation, Speed, Stage,
    Watch, What,
};

const SEED: u64 = 1;
const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// All of them, in the paper's order.
pub fn all() -> Vec<Figure> {
    vec![figure_30(), figure_31(), figure_32(), figure_41(), figure_42()]
}

/// The thread pool controller under three bursts of more and more clients.
///
/// As printed: sampled every 2 s, one thread more above 100 queued, 20 at most, idle ones removed
/// after 5 s. Chosen: work of 20 ms, bursts of 80 s with 40 s between them.
pub fn figure_30() -> Figure {
    let bursts = [(20, 240.0), (140, 480.0), (260, 960.0)];
    let rate = bursts.into_iter().fold(Profile::constant(0.0), |rate, (from, burst)| {
        rate.spike(from * SECOND, (from + 80) * SECOND, burst)
    });
    let stage = Stage::new("stage", 1, Distribution::Exponential(20 * MS));
    let laws = pool(&[("workers_max_count", 20.0), ("interval_seconds", 2.0)]);
    let course = StageCourse::of(&scenario(stage, rate, 380), &laws).0;
    Figure {
        number: "30",
        title: "Thread pool controller under three bursts",
        subtitle: simulated("30", "20 threads at most, and none too many between bursts"),
        x: "seconds",
        panels: vec![
            Panel { y: "queue length", lines: vec![course.line("queue", |at| at.queued)] },
            Panel { y: "threads", lines: vec![course.line("threads", |at| at.workers)] },
        ],
    }
}

/// Thrashing: with and without its detection, under constant overload.
///
/// As printed: about 8 threads do most. Chosen: 20 ms of work; beyond 8 threads the whole stage
/// does (8 ÷ (n − 1))² of what 8 do.
pub fn figure_31() -> Figure {
    let total = |running: u32| {
        let others = f64::from(running.saturating_sub(1)).max(1.0);
        f64::from(running).min(8.0) * (8.0 / others).min(1.0).powi(2)
    };
    let stage = Stage::new("stage", 1, Distribution::Exponential(20 * MS));
    let stage = stage.speed(Speed::Totals((1..=100).map(total).collect()));
    let scenario = scenario(stage, Profile::constant(1000.0), 200);
    let most = ("workers_max_count", 100.0);
    let off = StageCourse::of(&scenario, &pool(&[most, ("margin_ratio", 1.0)])).0;
    let on = StageCourse::of(&scenario, &pool(&[most])).0;
    let lines = |of: fn(&StageSecond) -> f64| {
        vec![off.line("(a) without detection", of), on.line("(b) with detection", of)]
    };
    Figure {
        number: "31",
        title: "Thread pool thrashing detection",
        subtitle: simulated("31", "about 8 threads with detection"),
        x: "seconds",
        panels: vec![
            Panel { y: "completions a second", lines: lines(|at| at.completed) },
            Panel { y: "threads", lines: lines(|at| at.workers) },
        ],
    }
}

/// The batching controller where 200 events share the cost of an expensive operation.
///
/// As printed: one operation for up to 200 events of a batch, and 1,000 events at most. Chosen: the
/// operation takes 20 ms, an event 500 µs.
pub fn figure_32() -> Figure {
    let stage = Stage::new("stage", 1, Distribution::Constant(Duration::from_micros(500)));
    let stage = stage.batch_cost(20 * MS).batch_cost_covers(200);
    let course = StageCourse::of(&scenario(stage, Profile::constant(2500.0), 200), &batching()).0;
    Figure {
        number: "32",
        title: "Batching controller",
        subtitle: simulated("32", "it oscillates near the optimum of 200 events"),
        x: "seconds",
        panels: vec![
            Panel { y: "events a batch", lines: vec![course.line("batch", |at| at.batch)] },
            Panel {
                y: "completions a second",
                lines: vec![course.line("throughput", |at| at.completed)],
            },
        ],
    }
}

/// Latency of the packet router, with one thread and with the thread pool controller.
pub fn figure_41() -> Figure {
    let rates = [100.0, 200.0, 400.0, 1000.0];
    let runs = |laws: &Laws| rates.map(|rate| (rate, router(Profile::constant(rate), 120, laws)));
    let (one, sized) = (runs(&Laws::new()), runs(&pool(&[("workers_max_count", 20.0)])));
    let mean = |runs: &[(f64, (StageCourse, Report))], class: usize, name: &str| {
        let of = |(rate, (_, report)): &(f64, (StageCourse, Report))| {
            (*rate, Some(1000.0 * report.classes[class].response.mean()))
        };
        Line::new(name, runs.iter().map(of).collect())
    };
    let threads = sized.iter().map(|(rate, (course, _))| (*rate, Some(course.last().workers)));
    Figure {
        number: "41",
        title: "Latency of the packet router",
        subtitle: simulated(
            "41",
            "1,000 packets a second break one thread; no thread is added at 100 and 200, 2 at 400 \
             and 1,000",
        ),
        x: "packets a second",
        panels: vec![
            Panel {
                y: "(a) one thread: mean response time, ms",
                lines: vec![mean(&one, 0, "ping"), mean(&one, 1, "query")],
            },
            Panel {
                y: "(b) thread pool controller: mean response time, ms",
                lines: vec![mean(&sized, 0, "ping"), mean(&sized, 1, "query")],
            },
            Panel {
                y: "(b) threads in the end",
                lines: vec![Line::new("threads", threads.collect())],
            },
        ],
    }
}

/// The thread pool controller in the packet router, whose load grows to 1,000 packets a second
/// within a minute. Printed is a load of 1,000 all the time.
pub fn figure_42() -> Figure {
    let rate = Profile::constant(100.0).ramp(5 * SECOND, 65 * SECOND, 1000.0);
    let course = router(rate, 120, &pool(&[("workers_max_count", 20.0)])).0;
    Figure {
        number: "42",
        title: "Thread pool controller in the packet router",
        subtitle: simulated("42", "two threads are added, which makes three"),
        x: "seconds",
        panels: vec![
            Panel { y: "queue length", lines: vec![course.line("queue", |at| at.queued)] },
            Panel { y: "threads", lines: vec![course.line("threads", |at| at.workers)] },
        ],
    }
}

/// Packets of which 15 % are queries that sleep for 20 ms [Welsh02 §6.2.3]. Others take 50 µs, as
/// a router that does 20,000 a second needs.
fn router(rate: Profile, seconds: u32, laws: &Laws) -> (StageCourse, Report) {
    let class = |name: &str| Class {
        name: name.to_owned(),
        target: Target::p90(SECOND).expect("a second is a target"),
        priority: Priority(0),
    };
    let classes = Classes::new(vec![class("ping"), class("query")]).expect("two names");
    let ping = Distribution::Constant(Duration::from_micros(50));
    let query = crate::sim::Step::own(Distribution::Constant(20 * MS));
    let stage = Stage::new("stage", 1, ping).steps_of("query", [query]);
    let client = Client::new("peers", "stage", Load::poisson(rate));
    let client = client.class("ping", 0.85).class("query", 0.15);
    let scenario = Scenario::new(classes, seconds * SECOND).stage(stage).client(client);
    let scenario = scenario.warm_up(20 * SECOND);
    StageCourse::of(&scenario, laws)
}

fn scenario(stage: Stage, rate: Profile, seconds: u32) -> Scenario {
    let classes = Classes::single(Target::p90(SECOND).expect("a second is a target"));
    let client = Client::new("crowd", "stage", Load::poisson(rate));
    Scenario::new(classes, seconds * SECOND).stage(stage).client(client)
}

fn pool(knobs: &[(&str, f64)]) -> Laws {
    made(Laws::new().workers("pool-sizing", knobs))
}

fn batching() -> Laws {
    made(Laws::new().batching("throughput-batching", &[]))
}

fn made(laws: Result<Laws, InvalidLaw>) -> Laws {
    laws.expect("the figures' constants are in range")
}

fn simulated(number: &str, printed: &str) -> String {
    format!("Figure {number} of Welsh 2002, simulated. Printed: {printed}.")
}

/// A stage, second by second.
#[derive(Default)]
struct StageCourse {
    samples: Vec<StageSecond>,
    now: StageSecond,
    queued: HashSet<u64>,
}

/// A stage at the end of a second.
#[derive(Clone, Copy, Debug, Default)]
struct StageSecond {
    queued: f64,
    workers: f64,
    batch: f64,
    completed: f64,
}

impl StageCourse {
    /// The course of the stage of `scenario`, and the report.
    fn of(scenario: &Scenario, laws: &Laws) -> (Self, Report) {
        let simulation = Simulation::new(scenario).expect("the figures' scenarios can be");
        let run = simulation.start(SEED).laws("stage", laws).expect("there is the stage");
        let mut course = Self::default();
        course.now.workers = 1.0;
        let report = run.watch(&mut course).finish();
        course.pass(Timestamp::ZERO + scenario.duration);
        (course, report)
    }

    fn pass(&mut self, at: Timestamp) {
        while Timestamp::ZERO + (self.samples.len() as u32 + 1) * SECOND <= at {
            self.now.queued = self.queued.len() as f64;
            self.samples.push(self.now);
            self.now.completed = 0.0;
        }
    }

    fn last(&self) -> StageSecond {
        self.samples.last().copied().unwrap_or(self.now)
    }

    fn line(&self, name: &str, of: fn(&StageSecond) -> f64) -> Line {
        let points = self.samples.iter().enumerate();
        let points = points.map(|(second, sample)| (second as f64 + 1.0, Some(of(sample))));
        Line::new(name, points.collect())
    }
}

impl Watch for StageCourse {
    fn see(&mut self, seen: &Seen) {
        self.pass(seen.at);
        match seen.what {
            What::Queued => _ = self.queued.insert(seen.number),
            What::Started => _ = self.queued.remove(&seen.number),
            What::Ended(outcome) => {
                self.queued.remove(&seen.number);
                self.now.completed += f64::from(u8::from(outcome == Outcome::Completed));
            }
            What::Offered | What::Parked | What::FirstData | What::Left(_) => {}
        }
    }

    fn set(&mut self, at: Timestamp, _: u32, knobs: &Knobs) {
        self.pass(at);
        self.now.workers = f64::from(knobs.workers.get());
        self.now.batch = f64::from(knobs.batch.get());
    }
}
