//! Evaluates the candidates of a search in parallel, one per core.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use indicatif::{ProgressBar, ProgressStyle};
use tamarisk_model::sim::{Report, Simulation};
use tamarisk_model::tune::{Goal, Job, Measure, Objective, Plan, Point};

use super::super::places::Places;
use crate::interrupt::interrupted;

/// What a candidate is run in, and how it is judged.
pub(super) struct Evaluation {
    pub(super) simulation: Simulation,
    pub(super) places: Places,
    pub(super) objective: Objective,
    pub(super) first_seed: u64,
}

impl Evaluation {
    fn report(&self, places: &Places, seed: u64) -> Report {
        let mut run = self.simulation.start(seed);
        for (stage, laws) in places {
            run = run.laws(stage, laws).expect("stages and laws are the scenario's, or were made");
        }
        run.finish()
    }
}

/// A run of the search, for its figure.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) worth: f64,
    /// Each term's measure, in the objective's order.
    pub(super) measures: Vec<f64>,
}

/// Runs jobs, and shows how far the search is.
pub(super) struct Tracker<'a> {
    evaluation: &'a Evaluation,
    bar: ProgressBar,
    /// Where there is no terminal for a bar, a line tells of each new best.
    plain: bool,
    stop: Arc<AtomicBool>,
    best: f64,
    measured: Vec<Measured>,
}

impl<'a> Tracker<'a> {
    pub(super) fn start(
        evaluation: &'a Evaluation,
        plan: &Plan,
        quiet: bool,
    ) -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let watch = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let stopping = Arc::clone(&stop);
        // It ends with the process, as nobody waits for it.
        std::thread::Builder::new().name("interrupt".to_owned()).spawn(move || {
            watch.block_on(interrupted());
            stopping.store(true, Ordering::Relaxed);
        })?;
        let is_terminal = std::io::stderr().is_terminal();
        let bar = match quiet || !is_terminal {
            true => ProgressBar::hidden(),
            false => bar(plan.budget as u64),
        };
        let plain = !quiet && !is_terminal;
        let (best, measured) = (f64::NEG_INFINITY, Vec::new());
        Ok(Self { evaluation, bar, plain, stop, best, measured })
    }

    /// The values of `jobs`; `None` if the user wants no more of them.
    pub(super) fn run(
        &mut self,
        jobs: &[Job],
        make: &(impl Fn(&Point) -> Places + Sync),
    ) -> Option<Vec<f64>> {
        let done: Mutex<Vec<Option<Measured>>> = Mutex::new(vec![None; jobs.len()]);
        let next = AtomicUsize::new(0);
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        std::thread::scope(|scope| {
            for _ in 0..cores.min(jobs.len()) {
                scope.spawn(|| {
                    loop {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        if index >= jobs.len() || self.stop.load(Ordering::Relaxed) {
                            return;
                        }
                        let measured = self.one(&jobs[index], make);
                        done.lock().expect("no run panics")[index] = Some(measured);
                        self.bar.inc(1);
                    }
                });
            }
        });
        let done = done.into_inner().expect("no run panics");
        let done: Vec<Measured> = done.into_iter().collect::<Option<_>>()?;
        let values: Vec<f64> = done.iter().map(|measured| measured.worth).collect();
        let before = self.best;
        self.best = values.iter().copied().fold(self.best, f64::max);
        let best = match self.evaluation.objective.goal() {
            Goal::Greatest => self.best,
            Goal::Least => -self.best,
        };
        self.bar.set_message(format!("{best:.4}"));
        self.measured.extend(done);
        if self.plain && self.best > before {
            eprintln!("run {:>6}  best {best:.4}", self.measured.len());
        }
        Some(values)
    }

    fn one(&self, job: &Job, make: &impl Fn(&Point) -> Places) -> Measured {
        let Evaluation { objective, first_seed, .. } = self.evaluation;
        let report = self.evaluation.report(&make(&job.point), first_seed + job.seed as u64);
        let measures =
            objective.terms().iter().map(|(_, measure): &(f64, Measure)| measure.of(&report));
        Measured { worth: objective.worth(&report), measures: measures.collect() }
    }

    /// All runs, in their order.
    pub(super) fn end(self) -> Vec<Measured> {
        self.bar.finish_and_clear();
        self.measured
    }
}

fn bar(runs: u64) -> ProgressBar {
    let template = "{bar:20.green/dim} {elapsed:>4}  run {pos} of {len}, best {msg}, {eta} left";
    let style = ProgressStyle::with_template(template).expect("the template is well-formed");
    ProgressBar::new(runs).with_style(style.progress_chars("━━─"))
}
