//! Figures 5-11 to 5-15 and tables 1 and 2: the thesis's control against the original SEDA's
//! admission control, under an open load [Fair07 §5.3].
//!
//! From the thesis: 200 clients, 400 from the 180th second on, each of which sends every 200 to
//! 600 ms; 90 % are to be answered within 100 ms; samples of 30 s; a dropper at 80 ms; and against
//! it the papers' admission control at each stage, with samples of 2 s and pools of two sizes.
//!
//! Ours: four hundred independent clients are a Poisson stream; the run lasts 540 s, which the
//! counts of table 1 suggest. Three stages in a line wait 20, 10 and 5 ms for something and
//! compute 0.2, 0.3 and 0.1 ms on one processor, all of it on average. The 2 s are the timeout of
//! the papers' controller, which a hundred requests end sooner. Pools "optimal" for the original
//! are those of the first 180 s with the usual reserve for chance. Threads beyond 100 cost the
//! processor speed: each so much that the pools of "over-allocation", 128 a stage, can do 53 % of
//! the load, which is calibrated by the thesis's own rejection rate.

use std::time::Duration;

use tamarisk_catalogue::papers::ResponseTime;
use tamarisk_catalogue::{admission, global};
use tamarisk_control::{AdmissionLaw, Classes, PerSecond};
use tamarisk_model::sim::{
    Client, Distribution, Load, Profile, Resource, ResourceKind, Scenario, Simulation, Speed,
    Stage, Step,
};

use super::rig::{Alone, Record, p90, seconds, workers_law};
use super::{Figure, Line, points};

pub const LASTS: Duration = Duration::from_secs(540);
/// When 200 clients become 400.
pub const CROWD: u64 = 180;
const WINDOW: Duration = Duration::from_secs(2);
/// 200 clients with 0.4 s between two requests on average.
const RATE: f64 = 500.0;
const STAGES: [(&str, f64, f64); 3] =
    [("read", 20.0, 0.2), ("page", 10.0, 0.3), ("send", 5.0, 0.1)];
/// Of the original's admission control.
const ADMISSION_PERIOD: Duration = Duration::from_secs(2);
const FREE_THREADS: u32 = 100;
const THREAD_COST: f64 = 0.0024;

/// The three systems of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    Automatic,
    Optimal,
    Over,
}

impl System {
    pub const ALL: [Self; 3] = [Self::Automatic, Self::Optimal, Self::Over];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Automatic => "automatic",
            Self::Optimal => "admission, optimal",
            Self::Over => "admission, over-allocated",
        }
    }

    /// Threads of each stage, at first where control is automatic.
    const fn threads(self) -> [u32; 3] {
        match self {
            Self::Automatic | Self::Optimal => [14, 8, 5],
            Self::Over => [128; 3],
        }
    }
}

/// What tables 1 and 2 have of one system.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub offered: f64,
    /// Answered within 100 ms.
    pub in_time: f64,
    pub processed: f64,
    pub rejected: f64,
}

impl Row {
    pub fn in_time_of_processed(&self) -> f64 {
        self.in_time / self.processed
    }

    pub fn in_time_of_all(&self) -> f64 {
        self.in_time / self.offered
    }

    pub fn rejection_rate(&self) -> f64 {
        self.rejected / self.offered
    }
}

/// Table 1 as printed.
pub const PRINTED: [Row; 3] = [
    Row { offered: 462_934.0, in_time: 375_952.0, processed: 442_735.0, rejected: 20_199.0 },
    Row { offered: 400_507.0, in_time: 299_083.0, processed: 313_639.0, rejected: 86_868.0 },
    Row { offered: 504_676.0, in_time: 248_770.0, processed: 266_684.0, rejected: 237_992.0 },
];

/// What an experimenter may choose of the two controls.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Between two samples of the automatic one, in seconds.
    pub period: f64,
    /// What the original's stages admit a second at first.
    pub first_rate: f64,
}

impl Default for Setting {
    fn default() -> Self {
        Self { period: 30.0, first_rate: 100.0 }
    }
}

pub fn run(system: System, seed: u64) -> Record {
    run_with(system, seed, Setting::default())
}

pub fn run_with(system: System, seed: u64, setting: Setting) -> Record {
    let Setting { period, first_rate } = setting;
    let classes = p90(100);
    let threads: u32 = system.threads().iter().sum();
    let penalty =
        Speed::Threads { parallelism: 1.0, threads, free: FREE_THREADS, loss: THREAD_COST };
    let mut scenario = Scenario::new(classes.clone(), LASTS)
        .resource(Resource { name: "processor".to_owned(), kind: ResourceKind::Shared(penalty) })
        .client(Client::new(
            "clients",
            STAGES[0].0,
            Load::poisson(Profile::constant(RATE).step(seconds(CROWD), 2.0 * RATE)),
        ));
    for (index, (name, wait, work)) in STAGES.into_iter().enumerate() {
        let time = |millis: f64| Distribution::Exponential(Duration::from_secs_f64(millis / 1e3));
        let steps = [Step::own(time(wait)), Step::on("processor", time(work))];
        let stage = Stage::new(name, system.threads()[index], time(wait)).steps(steps);
        scenario = scenario.stage(match STAGES.get(index + 1) {
            Some((next, ..)) => stage.route(*next, 1.0),
            None => stage,
        });
    }
    let simulation = Simulation::new(&scenario).expect("the scenario is sound");
    let mut run = simulation.start(seed);
    if system == System::Automatic {
        let law = global("throughput-sharing", &[("period_seconds", period)]).expect("it exists");
        let law = law.make(&classes).expect("its constants go together");
        run = run.global(law).expect("three stages are few");
    }
    for (index, (name, ..)) in STAGES.into_iter().enumerate() {
        run = match system {
            System::Automatic => {
                let first = f64::from(system.threads()[index]);
                let knobs = [
                    ("period_seconds", period),
                    ("workers_min_count", first),
                    ("workers_max_count", 200.0),
                ];
                let mut governor = Alone::new(workers_law("fair-hybrid", &classes, &knobs));
                if index == 0 {
                    let dropper = admission("selective-dropper").expect("the law is listed");
                    governor = governor.admission(dropper.law(&classes));
                }
                let knobs = governor.knobs();
                run.governor(name, Box::new(governor), knobs)
            }
            System::Optimal | System::Over => run.law(name, original(&classes, first_rate)),
        }
        .expect("the stage exists");
    }
    let mut record = Record::new(LASTS, WINDOW, STAGES.len());
    run.watch(&mut record).finish();
    record
}

/// The original's admission control of a stage.
fn original(classes: &Classes, first_rate: f64) -> Box<dyn AdmissionLaw> {
    let first = PerSecond::new(first_rate).expect("it is a rate");
    let law = ResponseTime::builder(classes).timeout(ADMISSION_PERIOD).rate_initial(first);
    Box::new(law.build().expect("the other constants are the published ones"))
}

pub fn row(record: &Record) -> Row {
    let responses = record.responses_from(Duration::ZERO);
    Row {
        offered: record.offered.iter().sum(),
        in_time: responses.iter().filter(|&&response| response <= 0.1).count() as f64,
        processed: responses.len() as f64,
        rejected: record.lost.iter().sum(),
    }
}

/// The share of what was offered from `from` seconds on that `counts` have.
pub fn share_from(record: &Record, counts: &[f64], from: f64) -> f64 {
    let sum = |counts: &[f64]| -> f64 {
        record.times().zip(counts).filter(|(at, _)| *at >= from).map(|(_, count)| count).sum()
    };
    sum(counts) / sum(&record.offered)
}

/// What each stage has completed.
pub fn completed(record: &Record) -> Vec<f64> {
    record.at_stages.iter().map(|counts| counts.iter().sum()).collect()
}

fn line(name: &str, record: &Record, values: &[f64]) -> Line {
    Line { name: name.to_owned(), points: points(record.times(), record.per_second(values)) }
}

fn flows(number: &'static str, system: System, record: &Record) -> Figure {
    Figure {
        number,
        title: format!("Flow of requests: {}", system.name()),
        x: "seconds",
        y: "requests a second",
        lines: vec![
            line("offered", record, &record.offered),
            line("answered", record, &record.completed),
            line("rejected", record, &record.lost),
        ],
    }
}

fn stages(number: &'static str, system: System, record: &Record) -> Figure {
    let each = STAGES.iter().zip(&record.at_stages);
    Figure {
        number,
        title: format!("What each stage completes: {}", system.name()),
        x: "seconds",
        y: "events a second",
        lines: each.map(|((name, ..), counts)| line(name, record, counts)).collect(),
    }
}

/// The share within so many seconds, of those answered or of all; a request that was rejected
/// has no response time.
fn distribution(number: &'static str, of: &str, records: &[(System, Record)]) -> Figure {
    let shares = |record: &Record| {
        let mut responses = record.responses_from(Duration::ZERO);
        responses.sort_unstable_by(f64::total_cmp);
        let all = if of == "all" { record.offered.iter().sum() } else { responses.len() as f64 };
        let within =
            move |limit: f64| responses.partition_point(|&response| response <= limit) as f64 / all;
        (0..=50).map(|step| f64::from(step) / 100.0).map(|at| (at, Some(within(at)))).collect()
    };
    Figure {
        number,
        title: format!("Distribution of the response time of {of} requests"),
        x: "response time, seconds",
        y: "share",
        lines: records
            .iter()
            .map(|(system, record)| Line { name: system.name().to_owned(), points: shares(record) })
            .collect(),
    }
}

pub fn figures(records: &[(System, Record)]) -> Vec<Figure> {
    let [automatic, optimal, over] = records else { return Vec::new() };
    let percentiles = |(system, record): &(System, Record)| Line {
        name: system.name().to_owned(),
        points: record.times().zip(record.percentiles(0.9)).collect(),
    };
    vec![
        distribution("5-11a", "processed", records),
        distribution("5-11b", "all", records),
        Figure {
            number: "5-12",
            title: "The 90th percentile over time".to_owned(),
            x: "seconds",
            y: "90th percentile, seconds",
            lines: records.iter().map(percentiles).collect(),
        },
        flows("5-13a", automatic.0, &automatic.1),
        flows("5-13b", optimal.0, &optimal.1),
        flows("5-13c", over.0, &over.1),
        stages("5-14", automatic.0, &automatic.1),
        stages("5-15", optimal.0, &optimal.1),
    ]
}

/// The three systems in the order of the tables.
pub fn records(seed: u64) -> Vec<(System, Record)> {
    System::ALL.into_iter().map(|system| (system, run(system, seed))).collect()
}
