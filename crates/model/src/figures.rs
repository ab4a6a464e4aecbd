//! The figures of [Welsh02 ch. 4] that come from the model, as data: 16, 17, 18, 20,
//! 21 and 23.
//!
//! The paper's rates are bare numbers, and so are these: what it counts in
//! milliseconds is here in seconds. Its captions give the rates; where they leave
//! a choice (which numbers of threads, how far an axis goes), the choice is
//! written beside it. The paper got 18 to 23 by simulation; these are solved.
//! A point whose system is unstable has no value.

use tamarisk_control::{Concurrency, PerSecond, Ratio};

use crate::network::{InvalidPattern, Machines, Network, Pattern, Station};
use crate::queueing::{LoadDependent, MultiServer, PhaseType, ThreadPenalty};

/// Points of a line over a rate.
const POINTS: u32 = 100;

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Its number in the paper.
    pub number: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// How it was made, and what the paper prints.
    pub subtitle: String,
    /// What is to the right.
    pub x: &'static str,
    /// From top to bottom.
    pub panels: Vec<Panel>,
}

/// Lines that share an axis upwards.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// What is upwards.
    pub y: &'static str,
    /// Its lines.
    pub lines: Vec<Line>,
}

/// One line of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// What distinguishes it.
    pub name: String,
    /// Where, and the value; `None` where there is no equilibrium.
    pub points: Vec<(f64, Option<f64>)>,
    /// The maximum stable arrival rate, for lines over arrival rates.
    pub limit: Option<f64>,
}

/// All of them, in the paper's order.
pub fn all() -> Vec<Figure> {
    vec![figure_16(), figure_17(), figure_18(), figure_20(), figure_21(), figure_23()]
}

impl Figure {
    /// All of its lines.
    pub fn lines(&self) -> impl Iterator<Item = &Line> {
        self.panels.iter().flat_map(|panel| &panel.lines)
    }

    /// The line of that name.
    pub fn line(&self, name: &str) -> Option<&Line> {
        self.lines().find(|line| line.name == name)
    }

    /// As a table: a head, and one point of one line in each row.
    pub fn to_csv(&self) -> String {
        let upwards: Vec<_> = self.panels.iter().map(|panel| panel.y).collect();
        let mut csv = format!("line,{},{}\n", self.x, upwards.join(" / "));
        for line in self.lines() {
            for (x, y) in &line.points {
                let y = y.map_or_else(String::new, |y| y.to_string());
                csv.push_str(&format!("{},{x:.6},{y}\n", line.name));
            }
        }
        csv
    }
}

impl Line {
    /// A line without a limit.
    pub fn new(name: impl Into<String>, points: Vec<(f64, Option<f64>)>) -> Self {
        Self { name: name.into(), points, limit: None }
    }

    /// The value at the point nearest to `x`.
    pub fn at(&self, x: f64) -> Option<f64> {
        let distance = |point: &&(f64, Option<f64>)| (point.0 - x).abs();
        let nearest = self.points.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
        nearest.and_then(|(_, y)| *y)
    }
}

/// The mean response time of M/M/m with μ = 3 and one, two or three servers.
pub fn figure_16() -> Figure {
    let line = |servers: u32| {
        let centre = MultiServer::new(rate(3.0), workers(servers)).expect("a rate of 3");
        let points = rates(9.0).map(|x| {
            let solved = centre.at(rate(x));
            (x, solved.ok().map(|e| e.response.mean().get()))
        });
        Line {
            name: format!("m = {servers}"),
            points: points.collect(),
            limit: Some(centre.capacity().get()),
        }
    };
    Figure {
        number: "16",
        title: "Mean response time of an M/M/m system",
        subtitle: solved("16"),
        x: "arrival rate",
        panels: vec![Panel { y: "mean response time", lines: (1..=3).map(line).collect() }],
    }
}

/// μ_m over the number of threads, for two settings. The caption gives no
/// numbers: the upper curve is that of figure 18, the lower has m′ < α.
pub fn figure_17() -> Figure {
    let line = |name: &str, parallelism: u32, penalty: ThreadPenalty| {
        let points = (1..=35).map(|threads| {
            let (threads, lost) = (workers(threads), penalty.lost(threads));
            let centre = LoadDependent::new(rate(0.05), threads, workers(parallelism), lost);
            let capacity = centre.expect("a rate of 0.05").capacity().get();
            (f64::from(threads.get()), Some(capacity))
        });
        Line { name: name.to_owned(), points: points.collect(), limit: None }
    };
    let upper = penalty_of_18();
    let lower = ThreadPenalty { per_thread: rate(0.02), free: 2 };
    Figure {
        number: "17",
        title: "Service rate of a stage over its threads",
        subtitle: solved("17"),
        x: "threads",
        panels: vec![Panel {
            y: "service rate",
            lines: vec![line("α = 4; m′ = 15", 4, upper), line("α = 5; m′ = 2", 5, lower)],
        }],
    }
}

/// The mean response time of a load-dependent centre, over the arrival rate, for
/// numbers of threads from too few to too many.
pub fn figure_18() -> Figure {
    let line = |threads: u32| {
        let lost = penalty_of_18().lost(threads);
        let centre = LoadDependent::new(rate(0.05), workers(threads), workers(4), lost);
        let centre = centre.expect("a rate of 0.05");
        let points = rates(0.2).map(|x| {
            let solved = centre.at(rate(x));
            (x, solved.ok().map(|e| e.response.mean().get()))
        });
        Line {
            name: format!("threads: {threads}"),
            points: points.collect(),
            limit: Some(centre.capacity().get()),
        }
    };
    Figure {
        number: "18",
        title: "Mean response time of a load-dependent stage",
        subtitle: solved("18"),
        x: "arrival rate",
        panels: vec![Panel {
            y: "mean response time",
            lines: [1, 2, 3, 4, 10, 15, 18, 20, 25, 30].map(line).to_vec(),
        }],
    }
}

/// Two steps of μ = 0.07 in one stage of one to four threads, and in two stages of
/// one or two each.
pub fn figure_20() -> Figure {
    let service = PhaseType::erlang(2, rate(0.07)).expect("a rate of 0.07");
    let combined = |threads: u32| -> Network {
        let stage = Station::new("both", service.clone(), workers(threads));
        Network::of_stage(stage, rate(0.01)).expect("one stage")
    };
    let pipelined = |first: u32, second: u32| -> Result<Network, InvalidPattern> {
        let workers = vec![workers(first), workers(second)];
        combined(1).apply(&Pattern::Pipeline { stage: "both".to_owned(), workers })
    };
    let mut lines: Vec<Line> = (1..=4)
        .map(|threads| over_rates(&format!("one stage: {threads}"), &combined(threads), 0.15))
        .collect();
    for (first, second) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
        let network = pipelined(first, second).expect("two steps in a row");
        lines.push(over_rates(&format!("pipeline: {first} and {second}"), &network, 0.15));
    }
    Figure {
        number: "20",
        title: "Effect of pipelining",
        subtitle: solved("20"),
        x: "arrival rate",
        panels: vec![Panel { y: "mean response time", lines }],
    }
}

/// A step of μ = 0.9 and then, for each half, one of 0.02 or of 0.07: in one stage,
/// and in three of which the slow and the fast one have more threads or fewer.
pub fn figure_21() -> Figure {
    let half = Ratio::saturating(0.5);
    let service = PhaseType::branch(rate(0.9), &[(half, rate(0.02)), (half, rate(0.07))]);
    let service = service.expect("two halves");
    let whole = |threads: u32| -> Network {
        let stage = Station::new("all", service.clone(), workers(threads));
        Network::of_stage(stage, rate(0.01)).expect("one stage")
    };
    let mut lines: Vec<Line> = (1..=4)
        .map(|threads| over_rates(&format!("one stage: {threads}"), &whole(threads), 0.18))
        .collect();
    for (slow, fast) in [(1, 1), (2, 1), (3, 1), (4, 1), (4, 2)] {
        let workers = vec![Concurrency::ONE, workers(slow), workers(fast)];
        let partition = Pattern::Partition { stage: "all".to_owned(), workers };
        let network = whole(1).apply(&partition).expect("a step that branches");
        lines.push(over_rates(&format!("tree: {slow} slow; {fast} fast"), &network, 0.18));
    }
    Figure {
        number: "21",
        title: "Effect of partitioning",
        subtitle: solved("21"),
        x: "arrival rate",
        panels: vec![Panel { y: "mean response time", lines }],
    }
}

/// A stage of μ = 2.9 before one of μ = 0.02 with two, four or eight threads, and
/// before as many replicas with one thread each.
pub fn figure_23() -> Figure {
    let pair = |threads: u32| -> Network {
        let service = |value| PhaseType::exponential(rate(value)).expect("a rate");
        let network = Network::builder()
            .stage(Station::new("first", service(2.9), Concurrency::ONE))
            .stage(Station::new("second", service(0.02), workers(threads)))
            .arrivals("first", rate(0.01))
            .route("first", "second", Ratio::ONE);
        network.build().expect("two stages in a row")
    };
    let mut lines = Vec::new();
    for count in [2, 4, 8] {
        lines.push(over_rates(&format!("threads: {count}"), &pair(count), 0.18));
    }
    for count in [2, 4, 8] {
        let replicate = Pattern::Replicate {
            stage: "second".to_owned(),
            copies: workers(count),
            workers: Concurrency::ONE,
            machines: Machines::Own,
        };
        let network = pair(1).apply(&replicate).expect("a few copies");
        lines.push(over_rates(&format!("replicas: {count}"), &network, 0.18));
    }
    Figure {
        number: "23",
        title: "Effect of replication",
        subtitle: solved("23"),
        x: "arrival rate",
        panels: vec![Panel { y: "mean response time", lines }],
    }
}

fn penalty_of_18() -> ThreadPenalty {
    ThreadPenalty { per_thread: rate(0.01), free: 15 }
}

fn over_rates(name: &str, network: &Network, to: f64) -> Line {
    let points = rates(to).map(|x| {
        let network = network.with_arrivals(rate(x)).expect("more than nothing arrives");
        (x, network.solve().ok().map(|solution| solution.mean().get()))
    });
    Line {
        name: name.to_owned(),
        points: points.collect(),
        limit: Some(network.limit().arrivals.get()),
    }
}

fn solved(number: &str) -> String {
    format!("Figure {number} of Welsh 2002, solved.")
}

/// Rates up to `to`, without zero.
fn rates(to: f64) -> impl Iterator<Item = f64> {
    (1..=POINTS).map(move |k| to * f64::from(k) / f64::from(POINTS))
}

fn rate(value: f64) -> PerSecond {
    PerSecond::new(value).expect("the figures' rates are finite and positive")
}

fn workers(count: u32) -> Concurrency {
    Concurrency::new(count)
}
