//! The runs of a search, as many at once as there are cores.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use indicatif::{ProgressBar, ProgressStyle};
use tamarisk_control::Classes;
use tamarisk_model::scenario::Law;
use tamarisk_model::sim::{Report, Simulation};
use tamarisk_model::tune::{Goal, Job, Measure, Objective, Plan, Point};

use crate::interrupt::interrupted;

/// What a candidate is run in, and how it is judged.
pub(super) struct Evaluation {
    pub(super) simulation: Simulation,
    pub(super) classes: Classes,
    pub(super) places: Vec<String>,
    pub(super) objective: Objective,
    pub(super) first_seed: u64,
}

impl Evaluation {
    fn report(&self, law: &Law, seed: u64) -> Report {
        let mut run = self.simulation.start(seed);
        for stage in &self.places {
            run = run.law(stage, law.make(&self.classes)).expect("the stages are the scenario's");
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
        let bar = match quiet || !std::io::stderr().is_terminal() {
            true => ProgressBar::hidden(),
            false => bar(plan.budget as u64),
        };
        let (best, measured) = (f64::NEG_INFINITY, Vec::new());
        Ok(Self { evaluation, bar, stop, best, measured })
    }

    /// The values of `jobs`; `None` if the user wants no more of them.
    pub(super) fn run(
        &mut self,
        jobs: &[Job],
        make: &(impl Fn(&Point) -> Law + Sync),
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
        self.best = values.iter().copied().fold(self.best, f64::max);
        let best = match self.evaluation.objective.goal() {
            Goal::Greatest => self.best,
            Goal::Least => -self.best,
        };
        self.bar.set_message(format!("{best:.4}"));
        self.measured.extend(done);
        Some(values)
    }

    fn one(&self, job: &Job, make: &impl Fn(&Point) -> Law) -> Measured {
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
