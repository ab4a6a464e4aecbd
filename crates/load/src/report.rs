//! The report of a run: totals, phases, time series.

mod csv;
mod groups;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::fairness::fairness_index;
use crate::plan::Plan;
use crate::recorder::{IntervalTally, PhaseTally};
use crate::schedule::Phase;
use crate::tally::{Durations, Flow, Tally};
use crate::workload::Workload;

pub use groups::{ClassInterval, GroupSummary};

/// The result of a run. All times are in seconds, all rates per second.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// What was asked for.
    pub urls: Vec<String>,
    /// What the levels of phases and intervals count: `users` in a closed loop,
    /// `requests per second` in an open one.
    pub level_unit: &'static str,
    /// The seed of the run's random choices.
    pub seed: u64,
    /// Answers within this latency are good ones; if absent, all are.
    pub target_seconds: Option<f64>,
    /// Whether the run was ended before its schedule was.
    pub interrupted: bool,
    /// The whole run.
    pub total: Summary,
    /// The run by the phases of its schedule.
    pub phases: Vec<PhaseSummary>,
    /// The whole run by class of users and type of request, where they are told apart.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupSummary>,
    /// The run over time, each interval with the requests that *ended* in it.
    pub series: Vec<Interval>,
}

/// What a stretch of time saw: counts and latencies of the requests that were
/// *due* in it, and rates at which requests *ended* in it.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// Its length.
    pub seconds: f64,
    /// Requests that were due: completed, rejected, failed and unfinished ones.
    pub offered: u64,
    /// Answered in full, with a status below 400.
    pub completed: u64,
    /// Completed within the target.
    pub good: u64,
    /// Answered with 503 or 429.
    pub rejected: u64,
    /// Failed in any way.
    pub failed: u64,
    /// Under way when the run ended.
    pub unfinished: u64,
    /// Those that failed, by the kind of their error.
    pub errors: BTreeMap<String, u64>,
    /// Bytes of the bodies of answers.
    pub bytes: u64,
    /// Requests completed a second.
    pub throughput: f64,
    /// Requests completed within the target, a second.
    pub goodput: f64,
    /// Requests rejected a second.
    pub reject_rate: f64,
    /// Requests failed a second.
    pub failure_rate: f64,
    /// From the instant when a request was due to the end of its complete answer.
    pub latency: Percentiles,
    /// From sending a request to the end of its complete answer.
    pub response: Percentiles,
    /// Time to establish a connection.
    pub connect: Percentiles,
    /// From the instant when a request was due to its rejection.
    pub rejection: Percentiles,
    /// How late the generator itself was in starting on requests. Where this is
    /// not small against the latency, the generator was the bottleneck.
    pub generator_lag: Percentiles,
}

/// A distribution of durations, in seconds; all zero if `count` is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Percentiles {
    /// How many.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Half are no longer than this.
    pub p50: f64,
    /// Nine of ten.
    pub p90: f64,
    /// 99 of 100.
    pub p99: f64,
    /// 999 of 1000.
    pub p99_9: f64,
    /// The longest.
    pub max: f64,
}

/// One phase of the schedule.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PhaseSummary {
    /// When it began, in seconds since the start of the run.
    pub start: f64,
    /// When it ended.
    pub end: f64,
    /// Users, or requests a second, at its start.
    pub level_from: f64,
    /// And at its end.
    pub level_to: f64,
    /// Jain's fairness index over the users' completed requests: 1 is perfectly
    /// fair. Absent for an open loop, and for a ramp, whose users were not all there.
    pub fairness: Option<f64>,
    /// What it saw.
    #[serde(flatten)]
    pub summary: Summary,
    /// The same by class of users and type of request, where they are told apart.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupSummary>,
}

/// One interval of the time series.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Interval {
    /// When it began, in seconds since the start of the run.
    pub start: f64,
    /// How long it was; the last may be cut short.
    pub seconds: f64,
    /// Users, or requests a second, in its middle.
    pub level: f64,
    /// Requests started in it.
    pub offered: u64,
    /// Requests completed in it.
    pub completed: u64,
    /// Requests completed in it within the target.
    pub good: u64,
    /// Requests rejected in it.
    pub rejected: u64,
    /// Requests that failed in it.
    pub failed: u64,
    /// Requests under way at its end.
    pub in_flight: u64,
    /// Latency of the requests completed in it, from when they were due.
    pub latency: Percentiles,
    /// Latency of the rejections in it.
    pub rejection: Percentiles,
    /// How late the generator itself was.
    pub generator_lag: Percentiles,
    /// The interval by class of users, where they are told apart.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassInterval>,
}

impl Report {
    pub(crate) fn new(
        plan: &Plan,
        phases: &[PhaseTally],
        series: Vec<Interval>,
        elapsed: Duration,
        interrupted: bool,
    ) -> Self {
        let schedule = plan.workload().schedule();
        let lasted = elapsed.min(schedule.duration());
        let mut total = PhaseTally::default();
        for phase in phases {
            total.add(phase);
        }
        let phases = schedule.phases().iter().zip(phases);
        Self {
            urls: plan.urls().iter().map(ToString::to_string).collect(),
            level_unit: match plan.workload() {
                Workload::Closed(_) => "users",
                Workload::Open(_) => "requests per second",
            },
            seed: plan.seed(),
            target_seconds: plan.target().map(|target| target.as_secs_f64()),
            interrupted,
            total: Summary::new(&total.tally, total.flow, lasted),
            phases: phases
                .filter(|(phase, _)| phase.start < lasted)
                .map(|(phase, tally)| PhaseSummary::new(plan, phase, tally, lasted))
                .collect(),
            groups: groups::summaries(plan, &total, lasted),
            series,
        }
    }

    /// What was asked for, in a line: some of the URLs, and how many others there were.
    pub fn title(&self) -> String {
        const NAMED_MAX: usize = 4;
        match self.urls.len() {
            0..=NAMED_MAX => self.urls.join(" "),
            count => format!("{} and {} others", self.urls[0], count - 1),
        }
    }

    /// Writes the time series as comma-separated values, one row an interval,
    /// under a row of names that end in their units.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_csv(&self, out: &mut impl std::io::Write) -> std::io::Result<()> {
        csv::write(&self.series, out)
    }
}

impl Summary {
    fn new(tally: &Tally, flow: Flow, time: Duration) -> Self {
        let seconds = time.as_secs_f64();
        Self {
            seconds,
            offered: tally.offered,
            completed: tally.completed,
            good: tally.good,
            rejected: tally.rejected,
            failed: tally.failed(),
            unfinished: tally.unfinished(),
            errors: tally.errors.iter().map(|(kind, n)| (kind.to_string(), *n)).collect(),
            bytes: tally.bytes,
            throughput: rate(flow.completed, seconds),
            goodput: rate(flow.good, seconds),
            reject_rate: rate(flow.rejected, seconds),
            failure_rate: rate(flow.failed, seconds),
            latency: Percentiles::of(&tally.latency),
            response: Percentiles::of(&tally.response),
            connect: Percentiles::of(&tally.connect),
            rejection: Percentiles::of(&tally.rejection),
            generator_lag: Percentiles::of(&tally.lag),
        }
    }
}

impl PhaseSummary {
    fn new(plan: &Plan, phase: &Phase, tally: &PhaseTally, lasted: Duration) -> Self {
        let end = phase.end.min(lasted);
        Self {
            start: phase.start.as_secs_f64(),
            end: end.as_secs_f64(),
            level_from: phase.from,
            level_to: phase.to,
            fairness: fairness(plan, phase, tally),
            summary: Summary::new(&tally.tally, tally.flow, end - phase.start),
            groups: groups::summaries(plan, tally, end - phase.start),
        }
    }
}

/// The fairness index of a phase, in which users who sent nothing had a share of nothing.
fn fairness(plan: &Plan, phase: &Phase, tally: &PhaseTally) -> Option<f64> {
    let is_closed = matches!(plan.workload(), Workload::Closed(_));
    if phase.is_ramp() || !is_closed {
        return None;
    }
    let mut shares = tally.shares.clone();
    shares.resize(shares.len().max(phase.from.ceil() as usize), 0);
    fairness_index(&shares)
}

impl Percentiles {
    pub(crate) fn of(durations: &Durations) -> Self {
        let at = |q| durations.quantile(q).as_secs_f64();
        Self {
            count: durations.count(),
            mean: durations.mean().as_secs_f64(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            max: durations.max().as_secs_f64(),
        }
    }
}

impl Interval {
    pub(crate) fn new(plan: &Plan, interval: &IntervalTally) -> Self {
        let tally = &interval.tally;
        let length = interval.end - interval.start;
        Self {
            start: interval.start.as_secs_f64(),
            seconds: length.as_secs_f64(),
            level: plan.workload().schedule().level_at(interval.start + length / 2),
            offered: tally.offered,
            completed: tally.completed,
            good: tally.good,
            rejected: tally.rejected,
            failed: tally.failed(),
            in_flight: interval.in_flight,
            latency: Percentiles::of(&tally.latency),
            rejection: Percentiles::of(&tally.rejection),
            generator_lag: Percentiles::of(&tally.lag),
            classes: groups::intervals(plan, &interval.classes),
        }
    }

    /// `count` of this interval as a rate per second.
    pub fn rate(&self, count: u64) -> f64 {
        rate(count, self.seconds)
    }
}

fn rate(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}
