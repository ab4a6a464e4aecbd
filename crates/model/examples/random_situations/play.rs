//! Plays situations on all cores.

use std::io::{IsTerminal, Write as _};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tamarisk_catalogue::AdmissionEntry;
use tamarisk_model::scenario;
use tamarisk_model::sim::{Report, Simulation};

use crate::Failure;
use crate::families::Family;
use crate::situation::Situation;

/// The strongest laws for a stage that knows its workers: a bare queue, and the default law.
pub(crate) const RIVALS: [&str; 2] = ["plain-queue", "predict-gate-trim"];
/// Between the runs of one seed and those of the next: more than a family has situations.
const SEEDS_APART: u64 = 1_000_003;
/// Time between two updates of the progress at least.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);

/// Which situations are played, and with which laws.
pub(crate) struct Set {
    pub(crate) laws: Vec<&'static AdmissionEntry>,
    pub(crate) families: Vec<Family>,
    /// Which situations of each family.
    pub(crate) numbers: Range<u64>,
    pub(crate) seed: u64,
}

/// A situation, and what each law scored in it.
pub(crate) struct Played {
    pub(crate) family: Family,
    pub(crate) number: u64,
    /// In the order of the laws.
    pub(crate) scores: Vec<f64>,
}

/// The law of the catalogue with this name.
///
/// # Errors
/// If there is none.
pub(crate) fn law(name: &str) -> Result<&'static AdmissionEntry, Failure> {
    tamarisk_catalogue::admission(name).ok_or_else(|| {
        let names: Vec<_> = tamarisk_catalogue::ADMISSION.iter().map(|law| law.name).collect();
        format!("no admission law {name:?}; there are {}", names.join(", ")).into()
    })
}

/// All situations of `set`, by family and number.
///
/// # Errors
/// If a situation cannot be played.
pub(crate) fn all(set: &Set) -> Result<Vec<Played>, Failure> {
    let of_family = |family: &Family| {
        let family = *family;
        set.numbers.clone().map(move |number| (family, number))
    };
    let jobs: Vec<_> = set.families.iter().flat_map(of_family).collect();
    let next = AtomicUsize::new(0);
    let (send, receive) = mpsc::channel();
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let mut played = std::thread::scope(|scope| {
        for _ in 0..cores {
            let (next, send, jobs) = (&next, send.clone(), &jobs);
            scope.spawn(move || {
                while let Some(&(family, number)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if send.send(one(set, family, number)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        let mut progress = Progress::new(jobs.len());
        let counted = receive.into_iter().inspect(|_| progress.count());
        counted.collect::<Result<Vec<_>, _>>()
    })?;
    played.sort_by_key(|it| (Family::ALL.iter().position(|of| *of == it.family), it.number));
    Ok(played)
}

/// Under which the simulator runs a situation, with every law.
pub(crate) fn seed_of_run(seed: u64, number: u64) -> u64 {
    seed.wrapping_mul(SEEDS_APART).wrapping_add(number)
}

fn one(set: &Set, family: Family, number: u64) -> Result<Played, Failure> {
    let situation = family.situation(set.seed, number);
    let seed = seed_of_run(set.seed, number);
    let scores = scores(set, family, &situation, seed)
        .map_err(|error| format!("{} {number} of seed {}: {error}", family.name(), set.seed))?;
    Ok(Played { family, number, scores })
}

fn scores(
    set: &Set,
    family: Family,
    situation: &Situation,
    seed: u64,
) -> Result<Vec<f64>, Failure> {
    let upstream = ["upstream".to_owned()];
    let tried = set.laws.iter().map(|law| run(&situation.tried, &upstream, law, seed));
    if family.is_light() {
        return tried.map(|figures| Ok(figures?.answered)).collect();
    }
    let mut best = 0.0_f64;
    for rival in RIVALS {
        let figures = run(&situation.stated, &situation.stages, law(rival)?, seed)?;
        best = best.max(figures.goodput);
    }
    if best == 0.0 {
        return Err("no rival has an answer in time".into());
    }
    tried.map(|figures| Ok(figures?.goodput / best)).collect()
}

/// What a run came to.
struct Figures {
    /// Answers within the target, a second.
    goodput: f64,
    /// The share of requests that were neither rejected nor dropped.
    answered: f64,
}

impl Figures {
    fn new(report: &Report) -> Self {
        let classes = &report.classes;
        let offered: u64 = classes.iter().map(|class| class.counts.offered).sum();
        let lost = classes.iter().map(|class| class.counts.rejected + class.counts.dropped);
        let lost: u64 = lost.sum();
        Self {
            goodput: classes.iter().map(|class| class.goodput()).sum(),
            answered: 1.0 - lost as f64 / offered.max(1) as f64,
        }
    }
}

/// Runs a scenario with a law at each of `stages`.
fn run(
    text: &str,
    stages: &[String],
    law: &'static AdmissionEntry,
    seed: u64,
) -> Result<Figures, Failure> {
    let scenario = scenario::parse("situation.toml", text)?.scenario;
    let simulation = Simulation::new(&scenario)?;
    let mut run = simulation.start(seed);
    for stage in stages {
        run = run.law(stage, law.law(&scenario.classes))?;
    }
    Ok(Figures::new(&run.finish()))
}

/// How much is done, on a terminal.
struct Progress {
    is_shown: bool,
    done: usize,
    all: usize,
    begun: Instant,
    written: Instant,
}

impl Progress {
    fn new(all: usize) -> Self {
        let now = Instant::now();
        Self { is_shown: std::io::stderr().is_terminal(), done: 0, all, begun: now, written: now }
    }

    fn count(&mut self) {
        self.done += 1;
        if self.is_shown && self.written.elapsed() >= PROGRESS_EVERY {
            self.written = Instant::now();
            let (done, all, seconds) = (self.done, self.all, self.begun.elapsed().as_secs());
            let _ = write!(std::io::stderr(), "\r{done} of {all} situations in {seconds} s ");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            eprintln!(
                "\r{} of {} situations, {} s",
                self.done,
                self.all,
                self.begun.elapsed().as_secs()
            );
        }
    }
}
