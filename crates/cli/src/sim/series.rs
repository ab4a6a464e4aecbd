//! The time series of a run.

use std::collections::HashMap;

use tamarisk_control::{Target, Timestamp};
use tamarisk_laws::Knobs;
use tamarisk_model::sim::{Outcome, Scenario, Seen, What};

const SECOND: u64 = 1_000_000_000;
/// A longer run is cut into longer intervals.
const INTERVALS_MAX: u64 = 600;

/// What happened in each interval, by class, and what slow laws had set, by stage.
pub(super) struct Series {
    interval: u64,
    end: u64,
    /// When those who are inside came.
    inside: HashMap<u64, Came>,
    pub(super) classes: Vec<ClassSeries>,
    pub(super) stages: Vec<StageSeries>,
}

/// When somebody came, and was answered if that was before the end.
#[derive(Clone, Copy)]
struct Came {
    at: u64,
    answered: Option<u64>,
}

/// The same of one class.
pub(super) struct ClassSeries {
    pub(super) name: String,
    target: Target,
    pub(super) rows: Vec<Row>,
    now: Row,
    responses: Vec<u64>,
}

/// What slow laws have set at one stage.
#[derive(Clone, Default)]
pub(super) struct StageSeries {
    /// As it stood at the end of each interval; `None` where there are no such laws.
    pub(super) rows: Vec<Option<Knobs>>,
    now: Option<Knobs>,
}

/// One interval.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    /// Seconds since the beginning, the warm-up included.
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) offered: u64,
    /// Completed within the target.
    pub(super) good: u64,
    pub(super) completed: u64,
    pub(super) rejected: u64,
    pub(super) dropped: u64,
    pub(super) terminated: u64,
    pub(super) failed: u64,
    /// The target's percentile of the response times, in seconds.
    pub(super) percentile: Option<f64>,
}

impl Row {
    pub(super) fn per_second(&self, count: u64) -> f64 {
        count as f64 / (self.to - self.from)
    }
}

impl Series {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let end = (scenario.warm_up + scenario.duration).as_nanos() as u64;
        let classes = scenario.classes.iter().map(|(_, class)| ClassSeries {
            name: class.name.clone(),
            target: class.target,
            rows: Vec::new(),
            now: Row::default(),
            responses: Vec::new(),
        });
        let interval = SECOND * end.div_ceil(SECOND * INTERVALS_MAX).max(1);
        let stages = vec![StageSeries::default(); scenario.stages.len()];
        Self { interval, end, inside: HashMap::new(), classes: classes.collect(), stages }
    }

    pub(super) fn see(&mut self, seen: &Seen) {
        let at = seen.at.as_nanos();
        self.close_until(at);
        let class = &mut self.classes[seen.class.index()];
        match seen.what {
            What::Offered => {
                class.now.offered += 1;
                self.inside.insert(seen.number, Came { at, answered: None });
            }
            What::Left(outcome) => {
                let came = self.inside.remove(&seen.number);
                let response = came.map_or(0, |came| came.answered.unwrap_or(at) - came.at);
                match outcome {
                    Outcome::Rejected(_) => class.now.rejected += 1,
                    Outcome::Dropped => class.now.dropped += 1,
                    Outcome::Terminated => class.now.terminated += 1,
                    Outcome::Completed => class.complete(response),
                    Outcome::Failed => class.now.failed += 1,
                }
            }
            What::FirstData => {
                if let Some(came) = self.inside.get_mut(&seen.number) {
                    came.answered = Some(at);
                }
            }
            What::Queued | What::Started | What::Parked | What::Ended(_) => {}
        }
    }

    pub(super) fn set(&mut self, at: Timestamp, stage: u32, knobs: &Knobs) {
        self.close_until(at.as_nanos());
        self.stages[stage as usize].now = Some(*knobs);
    }

    pub(super) fn finish(mut self) -> Self {
        self.close_until(self.end);
        self.inside = HashMap::new();
        self
    }

    /// Closes the intervals that have passed at `at`.
    fn close_until(&mut self, at: u64) {
        let Some(first) = self.classes.first() else { return };
        let mut from = first.rows.len() as u64 * self.interval;
        while from < self.end && (from + self.interval).min(self.end) <= at {
            let to = (from + self.interval).min(self.end);
            for class in &mut self.classes {
                class.close(from as f64 / 1e9, to as f64 / 1e9);
            }
            for stage in &mut self.stages {
                stage.rows.push(stage.now);
            }
            from = to;
        }
    }
}

impl ClassSeries {
    fn complete(&mut self, response: u64) {
        self.now.completed += 1;
        self.now.good += u64::from(u128::from(response) <= self.target.response_time().as_nanos());
        self.responses.push(response);
    }

    fn close(&mut self, from: f64, to: f64) {
        let mut row = std::mem::take(&mut self.now);
        (row.from, row.to) = (from, to);
        if let Some(last) = self.responses.len().checked_sub(1) {
            let rank = (self.target.at().get() * self.responses.len() as f64).ceil() as usize;
            let rank = rank.saturating_sub(1).min(last);
            let (_, response, _) = self.responses.select_nth_unstable(rank);
            row.percentile = Some(*response as f64 / 1e9);
        }
        self.responses.clear();
        self.rows.push(row);
    }
}
