//! Prints the tables of `docs/LAWS.md`: every admission law of the catalogue in every
//! situation, simulated by the shipped code.
//! ```text
//! cargo run --release -p tamarisk-model --example law_table [first seed]
//! ```
//! Each situation is a file in `scenarios/`, so that `tamarisk sim compare` shows more
//! of any of them.

use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use tamarisk_control::Classes;
use tamarisk_laws::catalogue::{ADMISSION, AdmissionEntry, Laws};
use tamarisk_model::scenario;
use tamarisk_model::sim::{Report, ResourceKind, Scenario, Simulation, Speed};

/// Runs of each law in each situation.
const SEEDS: u64 = 5;

const DEFAULT: &str = "predict-gate-trim";
const OPAQUE: &str = "opaque-upstream";

struct Situation {
    title: &'static str,
    file: &'static str,
    /// Whether everything that comes can be answered in time.
    bearable: bool,
    /// One more column: its title, and what stands there.
    more: Option<Column>,
}

type Column = (&'static str, fn(&Report) -> f64);

const fn situation(title: &'static str, file: &'static str) -> Situation {
    Situation { title, file, bearable: false, more: None }
}

const SITUATIONS: [Situation; 16] = [
    situation("3 → 1000 → 3 users, 8 workers", "spike"),
    situation("Ten times the capacity, 8 workers", "ten-fold"),
    situation("A ramp to three times the capacity and back", "ramp"),
    situation("Bimodal service, twice the capacity", "bimodal"),
    situation("Service that drifts to three times as long", "drift"),
    situation("A rare and long type, twice the capacity", "rare-type"),
    situation("A dependency that is five times as slow for 30 s", "slow-dependency"),
    situation("Two stages on the cores of one machine", "one-bottleneck"),
    situation("400 workers, twice the capacity from cold", "wide"),
    Situation {
        more: Some(("gold ÷ possible", gold_of_possible)),
        ..situation("Two classes, four times the capacity", "two-classes")
    },
    Situation {
        more: Some(("gold ÷ possible", gold_of_possible)),
        ..situation("Ten times the capacity, a fifth of it gold", "ten-fold-classes")
    },
    Situation {
        more: Some(("gold ÷ possible", gold_of_possible)),
        ..situation("Ten times the capacity, a fiftieth of it gold", "ten-fold-few-gold")
    },
    Situation {
        more: Some(("Jain's index of the others", fairness_of_others)),
        ..situation("One client of twenty asks for a hundred times its share", "greedy-client")
    },
    Situation {
        more: Some(("the heavier's part, 0.75 by weight", part_of_the_heavier)),
        ..situation("Two classes with weights of 3 and 1", "weights")
    },
    Situation { bearable: true, ..situation("0.8 of the capacity, four kinds of work", "calm") },
    Situation { bearable: true, ..situation("0.8 of the capacity, 400 workers", "wide-calm") },
];

/// Gold in time, of what was asked for or of 400 a second, whichever is less.
fn gold_of_possible(report: &Report) -> f64 {
    let gold = &report.classes[0];
    let seconds = report.measured.as_secs_f64();
    gold.goodput() / (gold.counts.offered as f64 / seconds).min(400.0)
}

/// Of 20 ms and of 40 ms each; in parts of what both have.
fn part_of_the_heavier(report: &Report) -> f64 {
    let [heavy, light] = [0, 1].map(|index| report.classes[index].goodput());
    heavy / (heavy + 2.0 * light).max(f64::MIN_POSITIVE)
}

/// The first flow is the greedy one.
fn fairness_of_others(report: &Report) -> f64 {
    Report::fairness(&report.flows[1..])
}

/// What one run came to.
#[derive(Clone, Copy)]
struct Numbers {
    goodput: f64,
    over: f64,
    needless: f64,
    more: f64,
}

/// A law's runs in a situation.
type Cell = Vec<Numbers>;

fn main() -> Result<(), Box<dyn Error>> {
    let seed = std::env::args().nth(1).map_or(Ok(1), |seed| seed.parse())?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut places = Vec::new();
    for situation in &SITUATIONS {
        let file = scenario::load(&folder.join(situation.file).with_extension("toml"))?;
        places.push(Place::new(situation, file.scenario, file.laws)?);
    }
    let cells = all(&places, seed);
    for (place, row) in places.iter().zip(cells.chunks(ADMISSION.len())) {
        print_situation(place.situation, row);
    }
    print_verdicts(cells.chunks(ADMISSION.len()));
    Ok(())
}

/// A situation that is ready to be run.
struct Place {
    situation: &'static Situation,
    classes: Classes,
    stages: Vec<String>,
    simulation: Simulation,
    /// Seconds of the bottleneck's work in a request of each class.
    work: Vec<f64>,
    /// How many seconds of work the bottleneck does in a second.
    capacity: f64,
}

impl Place {
    fn new(
        situation: &'static Situation,
        scenario: Scenario,
        laws: Vec<(String, Laws)>,
    ) -> Result<Self, Box<dyn Error>> {
        let stages: Vec<String> = laws.into_iter().map(|(stage, _)| stage).collect();
        let bottleneck = scenario.resources.first();
        let capacity = match bottleneck.map(|resource| &resource.kind) {
            None => f64::from(scenario.stages[0].workers),
            Some(ResourceKind::Pool(connections)) => f64::from(*connections),
            Some(ResourceKind::Shared(Speed::Cores(cores))) => *cores,
            Some(ResourceKind::Shared(_)) => return Err("the bottleneck has no capacity".into()),
        };
        let on = bottleneck.map(|resource| resource.name.clone());
        let mut work = Vec::new();
        for (_, class) in scenario.classes.iter() {
            work.push(work_of(&class.name, on.as_ref(), &scenario)?);
        }
        Ok(Self {
            situation,
            classes: scenario.classes.clone(),
            stages,
            simulation: Simulation::new(&scenario)?,
            work,
            capacity,
        })
    }

    fn run(&self, law: &'static AdmissionEntry, seed: u64) -> Cell {
        let run = |seed| {
            let mut run = self.simulation.start(seed);
            for stage in &self.stages {
                let law = law.law(&self.classes);
                run = run.law(stage, law).expect("the stages are the scenario's");
            }
            self.numbers(&run.finish())
        };
        (seed..seed + SEEDS).map(run).collect()
    }

    fn numbers(&self, report: &Report) -> Numbers {
        let seconds = report.measured.as_secs_f64();
        let count = |of: fn(&tamarisk_model::sim::ClassReport) -> u64| {
            report.classes.iter().map(of).sum::<u64>() as f64
        };
        let offered = count(|class| class.counts.offered).max(1.0);
        let needless = if self.situation.bearable {
            count(|class| class.counts.rejected + class.counts.dropped)
        } else {
            let stages = report.stages.iter().flat_map(|stage| &stage.classes);
            stages.map(|class| class.rejected_idle).sum::<u64>() as f64
        };
        let done =
            report.classes.iter().zip(&self.work).map(|(class, work)| class.goodput() * work);
        let over = report.classes.iter().map(|class| class.seconds_over as f64 / seconds);
        Numbers {
            goodput: done.sum::<f64>() / self.capacity,
            over: over.fold(0.0, f64::max),
            needless: needless / offered,
            more: self.situation.more.map_or(0.0, |(_, value)| value(report)),
        }
    }
}

/// Seconds of the work of a request of `class` that are done at the resource `on`, or by
/// workers, where it comes in.
fn work_of(class: &str, on: Option<&String>, scenario: &Scenario) -> Result<f64, Box<dyn Error>> {
    let comes = |client: &&tamarisk_model::sim::Client| {
        client.mix.is_empty() || client.mix.iter().any(|(name, _)| name == class)
    };
    let client = scenario.clients.iter().find(comes).ok_or("nobody is of this class")?;
    let stage = scenario.stages.iter().find(|stage| stage.name == client.entry);
    let stage = stage.ok_or("clients come in nowhere")?;
    let own = stage.service_of.iter().find(|(name, _)| name == class);
    let steps = own.map_or(&stage.service, |(_, steps)| steps);
    let mut seconds = 0.0;
    for step in steps.iter().filter(|step| step.on.as_ref() == on) {
        seconds += step.work.mean()?.as_secs_f64();
    }
    Ok(seconds)
}

/// Every law in every situation, on all cores.
fn all(places: &[Place], seed: u64) -> Vec<Cell> {
    let count = places.len() * ADMISSION.len();
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let next = AtomicUsize::new(0);
    let (send, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..cores {
            let (next, send) = (&next, send.clone());
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(place) = places.get(index / ADMISSION.len()) else { return };
                    let cell = place.run(&ADMISSION[index % ADMISSION.len()], seed);
                    send.send((index, cell)).expect("the receiver outlives the threads");
                }
            });
        }
    });
    drop(send);
    let mut cells = vec![Cell::new(); count];
    receive.into_iter().for_each(|(index, cell)| cells[index] = cell);
    cells
}

fn print_situation(situation: &Situation, row: &[Cell]) {
    let more = situation.more.map(|(title, _)| title);
    println!("\n### {}\n\n`scenarios/{}.toml`\n", situation.title, situation.file);
    let needless =
        if situation.bearable { "rejected or dropped" } else { "rejected beside a free worker" };
    let mut head = vec!["law", "goodput", "time over target", needless];
    head.extend(more);
    println!("| {} |\n|{}", head.join(" | "), " --- |".repeat(head.len()));
    for (law, runs) in ADMISSION.iter().zip(row) {
        let name = if law.name == DEFAULT { format!("**{DEFAULT}**") } else { law.name.to_owned() };
        let mut line = vec![
            name,
            spread(runs, |run| run.goodput),
            spread(runs, |run| run.over),
            spread(runs, |run| run.needless),
        ];
        line.extend(more.map(|_| spread(runs, |run| run.more)));
        println!("| {} |", line.join(" | "));
    }
}

/// The default law beside the best of the others in each column. Who answers little is
/// never late: times over the target and false rejects are compared with those of
/// laws with at least 0.98 of the best goodput.
fn print_verdicts<'a>(rows: impl Iterator<Item = &'a [Cell]>) {
    println!("\n### The default law beside the best of the others\n");
    println!(
        "| situation | goodput | the best other | ratio | time over target | the least other \
         | false rejects | the least other |"
    );
    println!("|{}", " --- |".repeat(8));
    for (situation, row) in SITUATIONS.iter().zip(rows) {
        let of = |value: fn(&Numbers) -> f64| row.iter().map(move |runs| mean(runs, value));
        let [goodput, over, needless] =
            [of(|run| run.goodput), of(|run| run.over), of(|run| run.needless)]
                .map(Iterator::collect::<Vec<_>>);
        let is_ours = |index: usize| matches!(ADMISSION[index].name, DEFAULT | OPAQUE);
        let others = || (0..row.len()).filter(|&index| !is_ours(index));
        let best = others().max_by(|&a, &b| goodput[a].total_cmp(&goodput[b])).unwrap_or(0);
        let least = |values: &[f64]| {
            let good = others().filter(|&index| goodput[index] >= 0.98 * goodput[best]);
            good.map(|index| values[index]).fold(f64::INFINITY, f64::min)
        };
        let ours = ADMISSION.iter().position(|law| law.name == DEFAULT).unwrap_or(0);
        println!(
            "| {} | {:.3} | {:.3} {} | {:.3} | {:.3} | {:.3} | {:.4} | {:.4} |",
            situation.file,
            goodput[ours],
            goodput[best],
            ADMISSION[best].name,
            goodput[ours] / goodput[best],
            over[ours],
            least(&over),
            needless[ours],
            least(&needless),
        );
    }
}

fn mean(runs: &[Numbers], value: impl Fn(&Numbers) -> f64) -> f64 {
    runs.iter().map(value).sum::<f64>() / runs.len() as f64
}

/// The mean over the seeds, and in brackets the least and the greatest.
fn spread(runs: &[Numbers], value: impl Fn(&Numbers) -> f64) -> String {
    let values = runs.iter().map(&value);
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let greatest = values.fold(f64::NEG_INFINITY, f64::max);
    format!("{:.3} ({least:.3}–{greatest:.3})", mean(runs, value))
}
