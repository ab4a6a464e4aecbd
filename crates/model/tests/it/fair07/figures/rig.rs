//! Runs of the thesis's experiments: workers laws alone at their stages, changes at run time, and
//! what is recorded of them.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tamarisk_catalogue::WORKERS;
use tamarisk_control::{
    Activity, AdmissionLaw, Backlog, BatchSize, Classes, Concurrency, Finished, Leeway, PerSecond,
    Ratio, Target, Timestamp, WorkersLaw,
};
use tamarisk_laws::{Knobs, Open};
use tamarisk_model::sim::{Governor, Outcome, Seen, Watch, What};

pub const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

pub fn p90(millis: u64) -> Classes {
    Classes::single(Target::p90(Duration::from_millis(millis)).expect("it is longer than 0s"))
}

/// The workers law of this name.
pub fn workers_law(name: &str, classes: &Classes, knobs: &[(&str, f64)]) -> Box<dyn WorkersLaw> {
    let entry = WORKERS.iter().find(|entry| entry.name == name).expect("the law is listed");
    entry.law_with(classes, knobs).expect("its constants go together")
}

/// What an experimenter changes while it runs.
pub enum Change {
    Throughput(f64),
    Promise(Classes),
}

/// A workers law that acts alone, beside an admission law.
pub struct Alone {
    admission: Box<dyn AdmissionLaw>,
    workers: Box<dyn WorkersLaw>,
    changes: VecDeque<(Duration, Change)>,
}

impl Alone {
    pub fn new(workers: Box<dyn WorkersLaw>) -> Self {
        Self { admission: Box::new(Open), workers, changes: VecDeque::new() }
    }

    pub fn admission(mut self, law: Box<dyn AdmissionLaw>) -> Self {
        self.admission = law;
        self
    }

    pub fn change(mut self, at: Duration, change: Change) -> Self {
        self.changes.push_back((at, change));
        self
    }

    /// What the stage begins with.
    pub fn knobs(&self) -> Knobs {
        let workers = *self.workers.range().start();
        Knobs { workers, batch: BatchSize::ONE, quality: Ratio::ONE }
    }
}

impl Governor for Alone {
    fn admission(&self) -> &dyn AdmissionLaw {
        &*self.admission
    }

    fn admission_mut(&mut self) -> &mut dyn AdmissionLaw {
        &mut *self.admission
    }

    fn on_finish(&mut self, now: Timestamp, finished: &Finished, backlog: &Backlog<'_>) {
        self.admission.on_finish(now, finished, backlog);
        self.workers.on_finish(now, finished);
    }

    fn on_tick(&mut self, now: Timestamp, activity: &Activity<'_>) -> Knobs {
        let passed = now.since(Timestamp::ZERO);
        while let Some((_, change)) = self.changes.pop_front_if(|(at, _)| *at <= passed) {
            match change {
                Change::Throughput(rate) => {
                    self.set_throughput(PerSecond::new(rate).expect("a rate"))
                }
                Change::Promise(classes) => self.workers.set_targets(&classes),
            }
        }
        let workers: Concurrency = self.workers.on_tick(now, activity, Leeway::Either);
        Knobs { workers, batch: BatchSize::ONE, quality: Ratio::ONE }
    }

    fn set_throughput(&mut self, target: PerSecond) {
        self.workers.set_throughput(target);
    }
}

/// What was seen, in windows of one length.
pub struct Record {
    window: Duration,
    offered_at: HashMap<u64, Timestamp>,
    pub offered: Vec<f64>,
    pub completed: Vec<f64>,
    pub lost: Vec<f64>,
    /// Of those completed in each window, in seconds.
    responses: Vec<Vec<f64>>,
    /// Completed at each stage, by window.
    pub at_stages: Vec<Vec<f64>>,
    /// Lost at each stage, in all.
    pub lost_at: Vec<u64>,
    /// Set last in each window, by stage.
    pub workers: Vec<Vec<f64>>,
}

impl Record {
    pub fn new(lasts: Duration, window: Duration, stages: usize) -> Self {
        let count = lasts.as_nanos().div_ceil(window.as_nanos()) as usize;
        let zeros = || vec![0.0; count];
        Self {
            window,
            offered_at: HashMap::new(),
            offered: zeros(),
            completed: zeros(),
            lost: zeros(),
            responses: vec![Vec::new(); count],
            at_stages: vec![zeros(); stages],
            lost_at: vec![0; stages],
            workers: vec![zeros(); stages],
        }
    }

    fn window(&self, at: Timestamp) -> usize {
        (at.as_nanos() / self.window.as_nanos() as u64) as usize
    }

    /// Counts of windows as rates.
    pub fn per_second(&self, counts: &[f64]) -> Vec<f64> {
        counts.iter().map(|count| count / self.window.as_secs_f64()).collect()
    }

    /// The percentile of each window's response times, in seconds; none of an empty one.
    pub fn percentiles(&self, share: f64) -> Vec<Option<f64>> {
        self.responses.iter().map(|responses| quantile(responses.clone(), share)).collect()
    }

    /// All response times from `from` on.
    pub fn responses_from(&self, from: Duration) -> Vec<f64> {
        let first = (from.as_nanos() / self.window.as_nanos()) as usize;
        self.responses[first..].concat()
    }

    /// The centre of each window in seconds.
    pub fn times(&self) -> impl Iterator<Item = f64> + '_ {
        (0..self.offered.len()).map(|index| (index as f64 + 0.5) * self.window.as_secs_f64())
    }

    /// The workers in each window: what was set last.
    pub fn workers_at(&self, stage: usize) -> Vec<f64> {
        let mut last = 0.0;
        let carried = self.workers[stage].iter().map(|&set| {
            last = if set > 0.0 { set } else { last };
            last
        });
        carried.collect()
    }
}

pub fn quantile(mut values: Vec<f64>, share: f64) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    values.sort_unstable_by(f64::total_cmp);
    Some(values[((share * values.len() as f64).ceil() as usize).clamp(1, values.len()) - 1])
}

impl Watch for Record {
    fn see(&mut self, seen: &Seen) {
        let window = self.window(seen.at);
        match seen.what {
            What::Offered => {
                self.offered_at.insert(seen.number, seen.at);
                self.offered[window] += 1.0;
            }
            What::Ended(Outcome::Completed) => {
                self.at_stages[seen.stage as usize][window] += 1.0;
            }
            What::Ended(_) => self.lost_at[seen.stage as usize] += 1,
            What::Left(outcome) => {
                let came = self.offered_at.remove(&seen.number).unwrap_or(seen.at);
                if outcome == Outcome::Completed {
                    self.completed[window] += 1.0;
                    self.responses[window].push(seen.at.since(came).as_secs_f64());
                } else {
                    self.lost[window] += 1.0;
                }
            }
            _ => {}
        }
    }

    fn set(&mut self, at: Timestamp, stage: u32, knobs: &Knobs) {
        let window = self.window(at);
        self.workers[stage as usize][window] = f64::from(knobs.workers.get());
    }
}
