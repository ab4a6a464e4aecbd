//! The report of a run.

pub(in crate::sim) mod confidence;

use std::ops::Range;
use std::time::Duration;

use tamarisk_control::global::Share;
use tamarisk_control::{AdmissionLaw, ClassId, Classes, Reason, Target};

use self::confidence::Estimate;
use crate::sim::plan::resolved::Plan;
use crate::sim::plan::time::nanos;
use crate::sim::run::Run;
use crate::sim::run::global::GlobalRun;
use crate::sim::run::ledger::{ClassTally, FlowCounts, PageCounts, StageBase};
use crate::sim::run::simulation::Simulation;
use crate::sim::run::stage::StageRun;
use crate::sim::run::tally::{Counts, Times};
use crate::sim::run::watch::Watch;

/// All that is known of the measured time of one run. The same scenario, laws and seed
/// give an equal report.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Of the run.
    pub seed: u64,
    /// How long was measured.
    pub measured: Duration,
    /// Arrivals at stages and completions there, the warm-up included.
    pub events: u64,
    /// What became of requests on their whole way, by class.
    pub classes: Vec<ClassReport>,
    /// What each stage did.
    pub stages: Vec<StageReport>,
    /// Flow by flow: client by client in the scenario's order.
    pub flows: Vec<FlowCounts>,
    /// What the global law came to, if there was one.
    pub global: Option<GlobalReport>,
}

/// What a global law had decided in the end.
#[derive(Clone, Debug, PartialEq)]
pub struct GlobalReport {
    /// Its name.
    pub law: &'static str,
    /// Each stage, in the scenario's order.
    pub stages: Vec<GlobalStageReport>,
}

/// What fell to one stage.
#[derive(Clone, Debug, PartialEq)]
pub struct GlobalStageReport {
    /// Its share of the whole; `None` if nothing came there.
    pub share: Option<Share>,
    /// What it promised each class.
    pub targets: Vec<Target>,
}

/// What became of the requests of one class on their whole way through.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassReport {
    /// The class's name.
    pub name: String,
    /// Every attempt is offered anew.
    pub counts: Counts,
    /// How many were inside when measuring began, and when it ended.
    pub inside: (u64, u64),
    /// Completed within the target: from the attempt's coming to its end.
    pub in_time: u64,
    /// By how much those that were not missed it, in seconds, all together.
    pub late_seconds: f64,
    /// In how many whole seconds the target's percentile was broken.
    pub seconds_over: u64,
    /// Attempts that will be made again.
    pub retried: u64,
    /// Requests that were rejected once too often.
    pub given_up: u64,
    /// Of clients whose requests come several at once.
    pub pages: PageCounts,
    /// From the attempt's coming to its end, of those completed.
    pub response: Durations,
    goodputs: Vec<f64>,
    seconds: f64,
}

/// What one stage did.
#[derive(Clone, Debug, PartialEq)]
pub struct StageReport {
    /// Its name.
    pub name: String,
    /// Its admission law's.
    pub law: &'static str,
    /// What its admission law and slow laws showed in the end: the name of each reading, of which
    /// class it is if it is of one, and its value.
    pub readings: Vec<(String, Option<ClassId>, f64)>,
    /// Where slow laws rule it too: what each rules, and its name.
    pub slow_laws: Vec<(&'static str, &'static str)>,
    /// How many workers it had, on average over time.
    pub workers: f64,
    /// How many events a worker might take at once.
    pub batch: f64,
    /// How well it served; 1 is in full.
    pub quality: f64,
    /// How many it had at work, on average over time.
    pub running: f64,
    /// How many it had running without a place.
    pub parked: f64,
    /// How many it had in the queue.
    pub queued: f64,
    /// Why it rejected how many.
    pub rejections: Vec<(Reason, u64)>,
    /// For each class.
    pub classes: Vec<StageClassReport>,
}

/// What one stage did for one class.
#[derive(Clone, Debug, PartialEq)]
pub struct StageClassReport {
    /// The class's name.
    pub name: String,
    /// Its events.
    pub counts: Counts,
    /// Of those rejected, how many a place was free for: needless beyond doubt.
    pub rejected_idle: u64,
    /// In the queue, of those that were started.
    pub wait: Durations,
    /// From entering the stage to its end, of those completed.
    pub response: Durations,
}

/// How long something took, each time.
#[derive(Clone, Debug, PartialEq)]
pub struct Durations {
    times: Times,
}

impl Durations {
    /// How often.
    pub fn count(&self) -> u64 {
        self.times.count
    }

    /// The mean in seconds, exact; zero of nothing.
    pub fn mean(&self) -> f64 {
        if self.times.count == 0 {
            return 0.0;
        }
        self.times.sum as f64 / self.times.count as f64 / 1e9
    }

    /// The quantile in seconds, to one part in 128; zero of nothing.
    pub fn quantile(&self, share: f64) -> f64 {
        self.times.histogram.quantile(share).unwrap_or(0.0) / 1e9
    }

    /// The mean, in seconds, with its confidence interval from batches, of which those with more
    /// of them weigh more; `None` if fewer than two batches have any.
    pub fn estimate(&self, confidence: f64) -> Option<Estimate> {
        let batches: Vec<_> = self.times.batches().filter(|(count, _)| *count > 0.0).collect();
        let total = batches.iter().fold((0.0, 0.0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
        let mean = total.1 / total.0;
        // A ratio of two sums: its error is that of what each batch has beyond its part.
        let beyond: Vec<_> = batches.iter().map(|(count, sum)| sum - mean * count).collect();
        let half_width = Estimate::of(&beyond, confidence)?.half_width;
        Some(Estimate { mean, half_width: half_width * batches.len() as f64 / total.0 })
    }
}

impl ClassReport {
    /// Completions within the target, a second.
    pub fn goodput(&self) -> f64 {
        self.in_time as f64 / self.seconds
    }

    /// The same with its confidence interval, from batches.
    pub fn goodput_estimate(&self, confidence: f64) -> Option<Estimate> {
        Estimate::of(&self.goodputs, confidence)
    }

    /// Rejections ÷ offers: where the load is below what the stages can do, every one
    /// of them is false.
    pub fn rejected_share(&self) -> f64 {
        self.counts.rejected as f64 / (self.counts.offered as f64).max(1.0)
    }
}

impl Simulation {
    /// Runs it with no law at any stage.
    pub fn run(&self, seed: u64) -> Report {
        self.start(seed).finish()
    }
}

impl<W: Watch> Run<'_, W> {
    /// Runs to the end of the scenario's time, and reports what was measured after the
    /// warm-up.
    pub fn finish(mut self) -> Report {
        let Plan { warm_up, end, .. } = *self.plan;
        self.begin();
        self.measure(warm_up..end);
        Report::new(&self)
    }

    /// Runs to the end of the last of `windows`, and reports each of them by itself, instead of
    /// what follows the warm-up: what was before it counts for nothing but the state it left.
    /// Times count from the beginning of the run; what a window has at its end is the
    /// next one's where they adjoin.
    ///
    /// # Errors
    /// [`InvalidWindow`] if one is empty, begins before the end of the one before, or ends after
    /// the scenario.
    ///
    /// # Examples
    /// The first ten seconds of an overload, and the minute after them:
    /// ```
    /// use std::time::Duration;
    /// use tamarisk_control::{Classes, Target};
    /// use tamarisk_laws::PredictGateTrim;
    /// use tamarisk_model::sim::{Client, Distribution, Scenario, Simulation, Stage};
    ///
    /// let classes = Classes::single(Target::p90(Duration::from_millis(200))?);
    /// let service = Distribution::Exponential(Duration::from_millis(10));
    /// let scenario = Scenario::new(classes.clone(), Duration::from_secs(70))
    ///     .stage(Stage::new("work", 1, service))
    ///     .client(Client::poisson("users", "work", 200.0));
    /// let simulation = Simulation::new(&scenario)?;
    ///
    /// let law = Box::new(PredictGateTrim::new(&classes));
    /// let at = Duration::from_secs;
    /// let reports = simulation.start(1).law("work", law)?.windows(&[at(0)..at(10), at(10)..at(70)])?;
    /// assert!(reports[1].classes[0].goodput() > 90.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn windows(mut self, windows: &[Range<Duration>]) -> Result<Vec<Report>, InvalidWindow> {
        let mut earliest = Duration::ZERO;
        for window in windows {
            let is_late = nanos(window.end) > self.plan.end;
            if window.start < earliest || window.is_empty() || is_late {
                let scenario = Duration::from_nanos(self.plan.end);
                return Err(InvalidWindow { window: window.clone(), earliest, scenario });
            }
            earliest = window.end;
        }
        self.begin();
        let report = |window: &Range<Duration>| {
            self.measure(nanos(window.start)..nanos(window.end));
            Report::new(&self)
        };
        Ok(windows.iter().map(report).collect())
    }
}

/// Why a part of a run's time cannot be measured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot measure from {:?} until {:?}: a window lies between {earliest:?}, where the one before \
     it ends, and {scenario:?}, where the scenario ends",
    window.start, window.end
)]
pub struct InvalidWindow {
    window: Range<Duration>,
    earliest: Duration,
    scenario: Duration,
}

impl Report {
    pub(in crate::sim) fn new<W>(run: &Run<'_, W>) -> Self {
        let counted = run.stages.iter().flat_map(|stage| &stage.classes);
        Self {
            seed: run.seed,
            measured: Duration::from_nanos(run.window.end - run.window.start),
            events: counted.map(|tally| tally.counts.offered + tally.counts.completed).sum(),
            classes: class_reports(run),
            stages: stage_reports(run),
            flows: run.ledger.flows.to_vec(),
            global: run.global.as_ref().map(global_report),
        }
    }

    /// How evenly flows were served, by their completions in time: Jain's index, 1 if all got
    /// the same, `1 ÷ count` if one got all; 1 of nothing.
    pub fn fairness(flows: &[FlowCounts]) -> f64 {
        let sum: f64 = flows.iter().map(|flow| flow.in_time as f64).sum();
        let squares: f64 = flows.iter().map(|flow| (flow.in_time as f64).powi(2)).sum();
        if squares == 0.0 { 1.0 } else { sum * sum / (squares * flows.len() as f64) }
    }
}

fn global_report(global: &GlobalRun) -> GlobalReport {
    let stage = |(index, promised): (usize, &Classes)| GlobalStageReport {
        share: global.law.share(index),
        targets: promised.iter().map(|(_, class)| class.target).collect(),
    };
    let stages = global.promised.iter().enumerate().map(stage).collect();
    GlobalReport { law: global.law.name(), stages }
}

fn class_reports<W>(run: &Run<'_, W>) -> Vec<ClassReport> {
    let seconds = (run.window.end - run.window.start) as f64 / 1e9;
    let batch_seconds = seconds / f64::from(run.plan.batches);
    let report = |(name, base, tally): (&String, &Counts, &ClassTally)| ClassReport {
        name: name.clone(),
        counts: tally.counts.since(base),
        inside: (base.offered - base.ended(), tally.counts.offered - tally.counts.ended()),
        in_time: tally.in_time,
        late_seconds: tally.late as f64 / 1e9,
        seconds_over: tally.seconds_over,
        retried: tally.retried,
        given_up: tally.given_up,
        pages: tally.pages,
        response: Durations { times: tally.response.clone() },
        goodputs: tally
            .in_time_marks
            .windows(2)
            .map(|pair| (pair[1] - pair[0]) as f64 / batch_seconds)
            .collect(),
        seconds,
    };
    let names = run.plan.classes.iter().map(|(_, class)| &class.name);
    let tallies = run.ledger.base.classes.iter().zip(&run.ledger.classes);
    names.zip(tallies).map(|(name, (base, tally))| report((name, base, tally))).collect()
}

fn stage_reports<W>(run: &Run<'_, W>) -> Vec<StageReport> {
    let end = run.window.end;
    let span = (end - run.window.start) as f64;
    let mean = |area: i128, base: i128| (area - base) as f64 / span;
    let report = |(index, (stage, base)): (usize, (&StageRun, &StageBase))| StageReport {
        name: run.plan.stages[index].name.clone(),
        law: stage.ruling.admission().name(),
        readings: readings(stage.ruling.admission()),
        slow_laws: stage.ruling.slow_names(),
        workers: (stage.courses.workers.area(end) - base.knobs[0]) / span,
        batch: (stage.courses.batch.area(end) - base.knobs[1]) / span,
        quality: (stage.courses.quality.area(end) - base.knobs[2]) / span,
        running: mean(stage.inside.running.area(end), base.running),
        parked: mean(stage.inside.parked.area(end), base.parked),
        queued: mean(stage.inside.queued.area(end), base.queued),
        rejections: stage.reasons.clone(),
        classes: stage_class_reports(run.plan, stage, base),
    };
    run.stages.iter().zip(&run.ledger.base.stages).enumerate().map(report).collect()
}

fn readings(law: &dyn AdmissionLaw) -> Vec<(String, Option<ClassId>, f64)> {
    let mut readings = Vec::new();
    law.readings(&mut |it| readings.push((it.name.to_owned(), it.class, it.value)));
    readings
}

fn stage_class_reports(plan: &Plan, stage: &StageRun, base: &StageBase) -> Vec<StageClassReport> {
    let names = plan.classes.iter().map(|(_, class)| class.name.clone());
    let tallies = stage.classes.iter().zip(&base.classes);
    names
        .zip(tallies)
        .map(|(name, (tally, base))| StageClassReport {
            name,
            counts: tally.counts.since(base),
            rejected_idle: tally.rejected_idle,
            wait: Durations { times: tally.wait.clone() },
            response: Durations { times: tally.response.clone() },
        })
        .collect()
}
