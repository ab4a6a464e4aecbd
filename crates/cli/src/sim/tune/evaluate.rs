//! Evaluates the candidates of a search in parallel, one per core.

use std::collections::HashMap;
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
    best: Best,
    measured: Vec<Measured>,
}

/// What the best candidate is worth on average over its seeds, of those that have met the most.
#[derive(Default)]
struct Best {
    /// Of each candidate, by the bits of its point: the sum of its runs, and how many there were.
    runs: HashMap<Vec<u64>, (f64, u32)>,
    seeds: u32,
    mean: Option<f64>,
}

impl Best {
    /// A further run of the candidate at `point`.
    fn add(&mut self, point: &Point, worth: f64) {
        let bits = point.iter().map(|at| at.to_bits()).collect();
        let (sum, seeds) = self.runs.entry(bits).or_default();
        (*sum, *seeds) = (*sum + worth, *seeds + 1);
        let (mean, seeds) = (*sum / f64::from(*seeds), *seeds);
        if seeds > self.seeds || seeds == self.seeds && self.mean.is_none_or(|best| mean > best) {
            (self.seeds, self.mean) = (seeds, Some(mean));
        }
    }
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
        // It ends with the process: its result is not awaited.
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
        let (best, measured) = (Best::default(), Vec::new());
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
        let before = self.best.mean;
        for (job, worth) in jobs.iter().zip(&values) {
            self.best.add(&job.point, *worth);
        }
        self.measured.extend(done);
        if let Some(mean) = self.best.mean {
            let best = match self.evaluation.objective.goal() {
                Goal::Greatest => mean,
                Goal::Least => -mean,
            };
            self.bar.set_message(format!("{best:.4}"));
            if self.plain && self.best.mean != before {
                eprintln!("run {:>6}  best {best:.4}", self.measured.len());
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_is_the_best_mean_of_those_under_the_most_seeds() {
        let mut best = Best::default();
        let mut after = |at: f64, worth: f64| {
            best.add(&vec![at], worth);
            best.mean
        };
        assert_eq!(after(0.1, 10.0), Some(10.0));
        assert_eq!(after(0.1, 0.0), Some(5.0), "under two seeds");
        assert_eq!(after(0.2, 20.0), Some(5.0), "a lucky seed");
        assert_eq!(after(0.2, 4.0), Some(12.0));
        assert_eq!(after(0.3, 11.0), Some(12.0));
        assert_eq!(after(0.3, 11.0), Some(12.0));
    }
}
