//! Prints how admission laws do in situations of real traffic, beside what they should do.
//! ```text
//! cargo run --release -p tamarisk-model --example situations [law,law…] [--seeds 20] [--json] [situation…]
//! ```
//! Without laws it is `work-limit`, without situations all of them. Each is a file in
//! `scenarios/`. A number is the mean over all seeds, and in brackets the worst.

use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use tamarisk_catalogue::ADMISSION;
use tamarisk_control::{ClassId, Classes};
use tamarisk_laws::named::AdmissionEntry;
use tamarisk_model::scenario;
use tamarisk_model::sim::{Outcome, Seen, Simulation, Watch, What};

/// Threads at most: others work on the machine too.
const THREADS_MAX: usize = 2;

/// What a number is compared with.
#[derive(Clone, Copy)]
enum Bar {
    AtLeast(f64),
    AtMost(f64),
}

/// A number that tells how a law does in a situation.
struct Row {
    file: &'static str,
    what: &'static str,
    bar: Bar,
    of: fn(&Seens) -> f64,
}

const fn row(file: &'static str, what: &'static str, bar: Bar, of: fn(&Seens) -> f64) -> Row {
    Row { file, what, bar, of }
}

use Bar::{AtLeast, AtMost};

const REJECTED: &str = "rejected";

const ROWS: [Row; 52] = [
    row("idle-app-15", REJECTED, AtMost(0.001), |seen| seen.all().rejected()),
    row("idle-app-30", REJECTED, AtMost(0.001), |seen| seen.all().rejected()),
    row("idle-app-route", REJECTED, AtMost(0.001), |seen| seen.all().rejected()),
    row("idle-half-of-target", REJECTED, AtMost(0.005), |seen| seen.all().rejected()),
    row("idle-pages", REJECTED, AtMost(0.005), |seen| seen.all().rejected()),
    row("polls", "others rejected", AtMost(0.005), |seen| seen.all().kind(1).rejected()),
    row("lost-replies", REJECTED, AtMost(0.005), |seen| seen.all().rejected()),
    row("outage", "in time of asked, from 2 s after", AtLeast(0.95), |seen| {
        seen.from(32.0, 59.0).in_time_of_asked()
    }),
    row("pause-1s", "in time ÷ capacity, from 2 s after", AtLeast(0.9), |seen| {
        seen.from(23.0, 33.0).in_time_per_second() / 200.0
    }),
    row("pause-1s", "of answers in time, from 2 s after", AtLeast(0.9), |seen| {
        seen.from(23.0, 33.0).in_time_of_answered()
    }),
    row("pause-3s", "in time ÷ capacity, from 2 s after", AtLeast(0.9), |seen| {
        seen.from(25.0, 35.0).in_time_per_second() / 200.0
    }),
    row("pause-3s", "of answers in time, from 2 s after", AtLeast(0.9), |seen| {
        seen.from(25.0, 35.0).in_time_of_answered()
    }),
    row("streams", "slots busy with streams in time", AtLeast(0.85), |seen| {
        seen.from(60.0, 360.0).streaming_in_time() / 16.0
    }),
    row("slow-streams", "slots busy with streams in time", AtLeast(0.65), |seen| {
        seen.from(60.0, 360.0).streaming_in_time() / 16.0
    }),
    row("shared-streams", "ended ÷ capacity, begun in time", AtLeast(0.85), |seen| {
        seen.from(60.0, 360.0).streamed_per_second() / 0.894
    }),
    row("longer-first-data", "rejected, from 120 s after", AtMost(0.01), |seen| {
        seen.from(180.0, 300.0).rejected()
    }),
    row("calm-shared-streams", "in time of asked", AtLeast(0.95), |seen| {
        seen.from(0.0, 300.0).in_time_of_asked()
    }),
    row("notifications", "notifications rejected", AtMost(0.005), |seen| {
        seen.all().kind(2).rejected()
    }),
    row("notifications", "others rejected", AtMost(0.005), |seen| seen.all().kind(1).rejected()),
    row("notified-streams", "slots busy with streams in time", AtLeast(0.85), |seen| {
        seen.from(60.0, 360.0).kind(1).streaming_in_time() / 16.0
    }),
    row("notified-streams", "notifications rejected", AtMost(0.005), |seen| {
        seen.all().kind(2).rejected()
    }),
    row("quiet-notifications", "notifications rejected", AtMost(1.0), |seen| {
        seen.all().kind(2).rejected()
    }),
    row("whole-answers", "in time ÷ capacity", AtLeast(0.8), |seen| {
        seen.from(60.0, 360.0).in_time_per_second() * 17.5 / 16.0
    }),
    row("whole-answers", "answered after 60 s", AtMost(0.01), |seen| {
        seen.from(60.0, 300.0).slower_than(60.0)
    }),
    row("below-target", "answered ÷ capacity at 3 ×", AtLeast(0.9), |seen| {
        seen.from(5.0, 30.0).answered_per_second() / 200.0
    }),
    row("below-target", "rejected at 0.5 ×", AtMost(0.001), |seen| {
        seen.from(32.0, 60.0).rejected()
    }),
    row("two-routes", "GETs in time", AtLeast(0.95), |seen| {
        seen.from(10.0, 69.0).kind(1).in_time_of_asked()
    }),
    row("two-routes", "reports in time ÷ what is left", AtLeast(0.8), |seen| {
        seen.from(10.0, 70.0).kind(2).in_time_per_second() * 0.4 / 7.5
    }),
    row("one-address", "GETs in time", AtLeast(0.95), |seen| {
        seen.from(10.0, 69.0).kind(1).in_time_of_asked()
    }),
    row("one-address", "reports in time ÷ what is left", AtLeast(0.8), |seen| {
        seen.from(10.0, 70.0).kind(2).in_time_per_second() * 0.4 / 7.5
    }),
    row("one-target", "GETs in time", AtLeast(0.9), |seen| {
        seen.from(10.0, 69.0).kind(1).in_time_of_asked()
    }),
    row("one-target", "reports in time ÷ what is left", AtLeast(0.0), |seen| {
        seen.from(10.0, 70.0).kind(2).in_time_per_second() * 0.4 / 7.5
    }),
    row("low-reports", "GETs in time", AtLeast(0.95), |seen| {
        seen.from(10.0, 69.0).kind(1).in_time_of_asked()
    }),
    row("low-reports", "reports in time ÷ what is left", AtLeast(0.0), |seen| {
        seen.from(10.0, 70.0).kind(2).in_time_per_second() * 0.4 / 7.5
    }),
    row("high-gets", "important GETs in time", AtLeast(0.98), |seen| {
        seen.from(10.0, 69.0).kind(3).in_time_of_asked()
    }),
    row("cold-1x1s", "in time ÷ capacity, first minute", AtLeast(0.8), |seen| {
        seen.from(0.0, 60.0).in_time_per_second()
    }),
    row("cold-4x400ms", "in time ÷ capacity, first 10 s", AtLeast(0.7), |seen| {
        seen.from(0.0, 10.0).in_time_per_second() / 10.0
    }),
    row("greedy-client-five-fold", "of the 99 in time", AtLeast(0.95), |seen| {
        seen.from(10.0, 69.5).but_first_flow().in_time_of_asked()
    }),
    row("greedy-client-five-fold", "in time ÷ capacity", AtLeast(0.9), |seen| {
        seen.from(10.0, 70.0).in_time_per_second() / 200.0
    }),
    row("leaving-client", "of the 99 in time", AtLeast(0.95), |seen| {
        seen.from(10.0, 69.5).but_first_flow().in_time_of_asked()
    }),
    row("tight", REJECTED, AtMost(0.003), |seen| seen.all().rejected()),
    row("leavers", "in time ÷ capacity", AtLeast(0.8), |seen| {
        seen.from(10.0, 70.0).in_time_per_second() / 200.0
    }),
    row("leavers", "done for nobody ÷ capacity", AtMost(1.0), |seen| {
        seen.from(10.0, 70.0).terminated_per_second() / 200.0
    }),
    row("ten-fold", "in time ÷ capacity", AtLeast(0.97), |seen| {
        seen.from(10.0, 60.0).in_time_per_second() / 400.0
    }),
    row("fixed-clients", "in time ÷ capacity", AtLeast(0.9), |seen| {
        seen.from(10.0, 60.0).in_time_per_second() / 400.0
    }),
    row("fixed-clients", "in time of answers", AtLeast(0.9), |seen| {
        seen.from(10.0, 60.0).in_time_of_answered()
    }),
    row("ramp", "in time of answers", AtLeast(0.95), |seen| {
        seen.from(10.0, 60.0).in_time_of_answered()
    }),
    row("bimodal", "in time ÷ capacity", AtLeast(0.95), |seen| {
        seen.from(12.0, 60.0).in_time_per_second() / 405.0
    }),
    row("drift", "in time of answers", AtLeast(0.9), |seen| {
        seen.from(10.0, 60.0).in_time_of_answered()
    }),
    row("fan-out", "whole pages in time ÷ capacity", AtLeast(0.9), |seen| {
        seen.from(10.0, 69.0).whole_pages_per_second() / 20.0
    }),
    row("wide", "in time ÷ capacity, from cold", AtLeast(0.9), |seen| {
        seen.from(0.0, 60.0).in_time_per_second() / 1000.0
    }),
    row("two-classes", "in time ÷ capacity", AtLeast(0.97), |seen| {
        seen.from(10.0, 60.0).in_time_per_second() / 400.0
    }),
];

/// What became of one request.
#[derive(Clone, Copy)]
struct Request {
    kind: u64,
    flow: u32,
    /// In seconds, as all times here.
    target: f64,
    arrived: f64,
    first_data: Option<f64>,
    ended: Option<(f64, Outcome)>,
}

impl Request {
    fn response(&self) -> Option<f64> {
        let (at, outcome) = self.ended?;
        let at = self.first_data.unwrap_or(at);
        (outcome == Outcome::Completed).then_some(at - self.arrived)
    }

    fn is_in_time(&self) -> bool {
        self.response().is_some_and(|response| response <= self.target)
    }

    fn is_rejected(&self) -> bool {
        let rejected = |outcome| matches!(outcome, Outcome::Rejected(_) | Outcome::Dropped);
        self.ended.is_some_and(|(_, outcome)| rejected(outcome))
    }

    fn is(&self, expected: Outcome) -> bool {
        self.ended.is_some_and(|(_, outcome)| outcome == expected)
    }
}

/// All requests of a run, in the order of their coming.
struct Seens {
    targets: Vec<f64>,
    requests: Vec<Request>,
}

impl Seens {
    fn new(classes: &Classes) -> Self {
        let targets = classes.iter().map(|(_, class)| class.target.response_time().as_secs_f64());
        Self { targets: targets.collect(), requests: Vec::new() }
    }

    fn target(&self, class: ClassId) -> f64 {
        self.targets[class.index()]
    }

    fn all(&self) -> Part<'_> {
        self.from(0.0, f64::INFINITY)
    }

    /// What came, or ended, from second `from` until second `until`.
    fn from(&self, from: f64, until: f64) -> Part<'_> {
        Part { requests: &self.requests, from, until, kind: None, but_first_flow: false }
    }
}

impl Watch for Seens {
    fn see(&mut self, seen: &Seen) {
        let at = seen.at.as_nanos() as f64 / 1e9;
        if seen.what == What::Offered {
            let target = self.target(seen.class);
            let Seen { kind, flow, .. } = *seen;
            let (first_data, ended) = (None, None);
            self.requests.push(Request { kind, flow, target, arrived: at, first_data, ended });
            return;
        }
        // Numbers begin with 1.
        let request = &mut self.requests[seen.number as usize - 1];
        match seen.what {
            What::FirstData => request.first_data = Some(at),
            What::Left(outcome) => request.ended = Some((at, outcome)),
            _ => {}
        }
    }
}

/// Some of the requests.
#[derive(Clone, Copy)]
struct Part<'a> {
    requests: &'a [Request],
    from: f64,
    until: f64,
    kind: Option<u64>,
    but_first_flow: bool,
}

impl<'a> Part<'a> {
    const fn kind(mut self, kind: u64) -> Self {
        self.kind = Some(kind);
        self
    }

    const fn but_first_flow(mut self) -> Self {
        self.but_first_flow = true;
        self
    }

    fn meant(self) -> impl Iterator<Item = &'a Request> {
        let is_meant = move |request: &&Request| {
            self.kind.is_none_or(|kind| kind == request.kind)
                && !(self.but_first_flow && request.flow == 0)
        };
        self.requests.iter().filter(is_meant)
    }

    fn arrived(self) -> impl Iterator<Item = &'a Request> {
        self.meant().filter(move |request| (self.from..self.until).contains(&request.arrived))
    }

    fn ended(self) -> impl Iterator<Item = &'a Request> {
        let within = move |at: f64| (self.from..self.until).contains(&at);
        self.meant().filter(move |request| request.ended.is_some_and(|(at, _)| within(at)))
    }

    /// Of those that came.
    fn share(self, is: impl Fn(&Request) -> bool) -> f64 {
        let all = self.arrived().count().max(1) as f64;
        self.arrived().filter(|request| is(request)).count() as f64 / all
    }

    fn rejected(self) -> f64 {
        self.share(Request::is_rejected)
    }

    fn in_time_of_asked(self) -> f64 {
        self.share(Request::is_in_time)
    }

    fn slower_than(self, seconds: f64) -> f64 {
        self.share(|request| request.response().is_some_and(|response| response > seconds))
    }

    /// Of those that ended.
    fn per_second(self, is: impl Fn(&Request) -> bool) -> f64 {
        self.ended().filter(|request| is(request)).count() as f64 / (self.until - self.from)
    }

    fn in_time_per_second(self) -> f64 {
        self.per_second(Request::is_in_time)
    }

    fn answered_per_second(self) -> f64 {
        self.per_second(|request| request.is(Outcome::Completed))
    }

    fn terminated_per_second(self) -> f64 {
        self.per_second(|request| request.is(Outcome::Terminated))
    }

    fn in_time_of_answered(self) -> f64 {
        self.in_time_per_second() / self.answered_per_second().max(f64::MIN_POSITIVE)
    }

    /// Pages of which all calls, made at once, were answered in time.
    fn whole_pages_per_second(self) -> f64 {
        let requests: Vec<_> = self.arrived().collect();
        let same_page = |a: &&Request, b: &&Request| (a.flow, a.arrived) == (b.flow, b.arrived);
        let pages = requests.chunk_by(same_page);
        let whole = pages.filter(|page| page.iter().all(|request| request.is_in_time()));
        whole.count() as f64 / (self.until - self.from)
    }

    /// Streams whose first data came in time.
    fn streamed_per_second(self) -> f64 {
        self.per_second(|request| {
            let to_first_data = request.first_data.map(|first| first - request.arrived);
            to_first_data.is_some_and(|time| time <= request.target)
        })
    }

    /// How many streams whose first data came in time were sending, on average.
    fn streaming_in_time(self) -> f64 {
        let seconds = self.meant().filter_map(|request| {
            let first = request.first_data?;
            let end = request.ended.map_or(self.until, |(at, _)| at);
            let is_in_time = first - request.arrived <= request.target;
            let seconds = (end.min(self.until) - first.max(self.from)).max(0.0);
            is_in_time.then_some(seconds)
        });
        seconds.sum::<f64>() / (self.until - self.from)
    }
}

/// What the command line asks for.
struct Asked {
    laws: Vec<&'static AdmissionEntry>,
    seeds: u64,
    files: Vec<&'static str>,
    json: bool,
}

fn asked() -> Result<Asked, Box<dyn Error>> {
    let mut files: Vec<_> = ROWS.iter().map(|row| row.file).collect();
    files.dedup();
    let mut asked = Asked { laws: Vec::new(), seeds: 20, files: Vec::new(), json: false };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--seeds" {
            asked.seeds = arguments.next().ok_or("--seeds needs a number")?.parse()?;
        } else if argument == "--json" {
            asked.json = true;
        } else if let Some(file) = files.iter().find(|file| **file == argument) {
            asked.files.push(file);
        } else {
            for name in argument.split(',') {
                let law = ADMISSION.iter().find(|law| law.name == name);
                asked.laws.push(law.ok_or_else(|| format!("no law or situation {name:?}"))?);
            }
        }
    }
    if asked.laws.is_empty() {
        asked.laws.extend(ADMISSION.iter().filter(|law| law.name == "work-limit"));
    }
    if asked.files.is_empty() {
        asked.files = files;
    }
    Ok(asked)
}

/// A situation that is ready to be run.
struct Place {
    rows: Vec<&'static Row>,
    classes: Classes,
    stage: String,
    simulation: Simulation,
}

impl Place {
    fn new(file: &str) -> Result<Self, Box<dyn Error>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
        let scenario = scenario::load(&folder.join(file).with_extension("toml"))?.scenario;
        Ok(Self {
            rows: ROWS.iter().filter(|row| row.file == file).collect(),
            stage: scenario.stages[0].name.clone(),
            classes: scenario.classes.clone(),
            simulation: Simulation::new(&scenario)?,
        })
    }

    /// The numbers of each row, for each seed.
    fn run(&self, law: &'static AdmissionEntry, seeds: u64) -> Vec<Vec<f64>> {
        let mut numbers = vec![Vec::new(); self.rows.len()];
        for seed in 1..=seeds {
            let run = self.simulation.start(seed).law(&self.stage, law.law(&self.classes));
            let mut seen = Seens::new(&self.classes);
            run.expect("the stage is the scenario's").watch(&mut seen).finish();
            for (row, numbers) in self.rows.iter().zip(&mut numbers) {
                numbers.push((row.of)(&seen));
            }
        }
        numbers
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let asked = asked()?;
    let places: Vec<_> =
        asked.files.iter().map(|file| Place::new(file)).collect::<Result<_, _>>()?;
    let cells = all(&places, &asked);
    if asked.json {
        print_json(&places, &asked, &cells);
    } else {
        print_table(&places, &asked, &cells);
    }
    Ok(())
}

/// A line for each number and law.
fn print_json(places: &[Place], asked: &Asked, cells: &[Vec<Vec<f64>>]) {
    for (place, cells) in places.iter().zip(cells.chunks(asked.laws.len())) {
        for (index, row) in place.rows.iter().enumerate() {
            let (sign, bar) = match row.bar {
                AtLeast(least) => ("≥", least),
                AtMost(most) => ("≤", most),
            };
            for (law, cell) in asked.laws.iter().zip(cells) {
                let line = serde_json::json!({
                    "situation": row.file, "what": row.what, "sign": sign, "bar": bar,
                    "law": law.name, "runs": cell[index],
                });
                println!("{line}");
            }
        }
    }
}

fn print_table(places: &[Place], asked: &Asked, cells: &[Vec<Vec<f64>>]) {
    let laws = asked.laws.iter().map(|law| law.name);
    println!(
        "| situation | what | bar |{}",
        laws.map(|law| format!(" {law} |")).collect::<String>()
    );
    println!("|{}", " --- |".repeat(3 + asked.laws.len()));
    for (place, cells) in places.iter().zip(cells.chunks(asked.laws.len())) {
        for (index, row) in place.rows.iter().enumerate() {
            let cells = cells.iter().map(|cell| shown(row.bar, &cell[index]));
            let bar = match row.bar {
                AtLeast(least) => format!("≥ {least}"),
                AtMost(most) => format!("≤ {most}"),
            };
            println!("| {} | {} | {bar} |{}", row.file, row.what, cells.collect::<String>());
        }
    }
}

/// The mean, the worst, and whether the mean keeps the bar.
fn shown(bar: Bar, numbers: &[f64]) -> String {
    let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
    let (worst, is_met) = match bar {
        AtLeast(least) => (numbers.iter().copied().fold(f64::INFINITY, f64::min), mean >= least),
        AtMost(most) => (numbers.iter().copied().fold(0.0, f64::max), mean <= most),
    };
    let met = if is_met { "met" } else { "**not met**" };
    format!(" {mean:.4} ({worst:.4}) {met} |")
}

/// Every law in every situation.
fn all(places: &[Place], asked: &Asked) -> Vec<Vec<Vec<f64>>> {
    let laws = asked.laws.len();
    let count = places.len() * laws;
    let next = AtomicUsize::new(0);
    let (send, receive) = mpsc::channel();
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    std::thread::scope(|scope| {
        for _ in 0..cores.min(THREADS_MAX) {
            let (next, send) = (&next, send.clone());
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(place) = places.get(index / laws) else { return };
                    let cell = place.run(asked.laws[index % laws], asked.seeds);
                    send.send((index, cell)).expect("the receiver outlives the threads");
                }
            });
        }
    });
    drop(send);
    let mut cells = vec![Vec::new(); count];
    receive.into_iter().for_each(|(index, cell)| cells[index] = cell);
    cells
}
