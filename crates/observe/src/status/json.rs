//! The status as JSON. Times are in seconds and shares in 0 to 1.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant, UNIX_EPOCH};

use crate::panics;
use serde::Serialize;
use tamarisk_stage::{Accounts, ClassObservation, Percentiles, StageObservation};

use super::history::History;
use super::verdict::{Condition, Verdict, of_all};
use super::{Board, Rejection};

#[derive(Serialize)]
struct Status {
    version: &'static str,
    uptime_seconds: f64,
    verdict: Verdict,
    connections: Option<usize>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    counters: BTreeMap<&'static str, u64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    responses: BTreeMap<u16, u64>,
    stages: Vec<Stage>,
}

#[derive(Serialize)]
struct Stage {
    name: String,
    verdict: Verdict,
    runs: &'static str,
    phase: &'static str,
    workers: u32,
    busy_ratio: f64,
    profile: Profile,
    quality_ratio: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_events_count: Option<u32>,
    queue_capacity: usize,
    total: Totals,
    rejections: BTreeMap<&'static str, u64>,
    classes: Vec<Class>,
    law: Law,
    laws: BTreeMap<&'static str, ChosenLaw>,
    last_failure: Option<String>,
}

#[derive(Serialize)]
struct Class {
    name: String,
    target: Target,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_limit_seconds: Option<f64>,
    accounts: Totals,
    arrivals_per_second: f64,
    service: Option<Times>,
    response: Option<Times>,
    /// At the percentile of the target.
    response_at_percentile_seconds: Option<f64>,
    profile: Option<ServiceProfile>,
}

/// What `tamarisk sim from` makes a scenario of.
#[derive(Serialize)]
struct Profile {
    window_seconds: f64,
    /// The share of the time in which a queue stood.
    crowded_ratio: f64,
    /// How many were worked on meanwhile.
    in_progress_count: Option<f64>,
}

#[derive(Serialize)]
struct ServiceProfile {
    mean_seconds: f64,
    /// Variance ÷ mean².
    variation_squared: f64,
    buckets: Vec<Bucket>,
}

/// How many took less than this, and not less than the one before says.
#[derive(Serialize)]
struct Bucket {
    below_seconds: f64,
    count: u64,
}

#[derive(Serialize)]
struct Target {
    percentile_ratio: f64,
    seconds: f64,
}

#[derive(Serialize)]
struct Totals {
    offered: u64,
    rejected: u64,
    completed: u64,
    dropped: u64,
    terminated: u64,
    failed: u64,
    abandoned: u64,
    queued: u64,
    running: u64,
    parked: u64,
    suspended: u64,
}

#[derive(Serialize)]
struct Times {
    count: u64,
    p50_seconds: f64,
    p90_seconds: f64,
    p99_seconds: f64,
    max_seconds: f64,
}

#[derive(Serialize)]
struct Law {
    name: &'static str,
    readings: Vec<Reading>,
}

#[derive(Serialize)]
struct ChosenLaw {
    name: &'static str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    knobs: BTreeMap<&'static str, f64>,
}

#[derive(Serialize)]
struct Reading {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<String>,
    value: f64,
}

#[derive(Serialize)]
struct LatestRejections<'r> {
    rejections: Vec<Rejected<'r>>,
}

#[derive(Serialize)]
struct Rejected<'r> {
    /// Since the Unix epoch.
    at_seconds: f64,
    client: IpAddr,
    route: &'r str,
    stage: &'r str,
    class: &'r str,
    reason: &'r str,
    id: &'r str,
}

pub(super) fn render(board: &Board, history: &History) -> String {
    let now = Instant::now();
    let stages: Vec<_> = board
        .observe()
        .into_iter()
        .map(|seen| {
            let recent = history.recent(now, &seen, board.overdue(&seen.name));
            let verdict = Condition::of(&seen, recent).verdict();
            Stage::new(seen, verdict)
        })
        .collect();
    let verdicts: Vec<_> = stages.iter().map(|stage| (&*stage.name, &stage.verdict)).collect();
    let status = Status {
        version: env!("CARGO_PKG_VERSION"),
        uptime_seconds: board.uptime().as_secs_f64(),
        verdict: of_all(&verdicts, board.is_open()).after_panic(panics::since_latest()),
        connections: board.connections(),
        counters: board.counters().iter().map(|counter| (counter.name, (counter.read)())).collect(),
        responses: board.responses().iter().map(|(code, count)| (code.as_u16(), *count)).collect(),
        stages,
    };
    serde_json::to_string(&status).expect("numbers and strings are JSON")
}

pub(super) fn render_rejections(board: &Board) -> String {
    let latest = board.latest_rejections();
    let rejections = latest.iter().map(Rejected::from).collect();
    serde_json::to_string(&LatestRejections { rejections }).expect("numbers and strings are JSON")
}

impl<'r> From<&'r Rejection> for Rejected<'r> {
    fn from(rejection: &'r Rejection) -> Self {
        let Rejection { at, client, route, stage, class, reason, id } = rejection;
        let at_seconds = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        Self { at_seconds, client: *client, route, stage, class, reason, id: id.as_str() }
    }
}

impl Stage {
    fn new(seen: StageObservation, verdict: Verdict) -> Self {
        Self {
            verdict,
            total: seen.total().into(),
            name: seen.name,
            runs: seen.runs,
            phase: seen.phase.as_str(),
            workers: seen.workers,
            busy_ratio: seen.busy.get(),
            profile: Profile {
                window_seconds: seen.profile.window.as_secs_f64(),
                crowded_ratio: seen.profile.crowded.get(),
                in_progress_count: seen.profile.in_progress,
            },
            quality_ratio: seen.quality.get(),
            batch_events_count: seen.batch,
            queue_capacity: seen.queue_capacity,
            rejections: seen.rejections.iter().map(|(why, count)| (why.as_str(), *count)).collect(),
            classes: seen.classes.into_iter().map(Class::from).collect(),
            law: Law {
                name: seen.law,
                readings: seen
                    .readings
                    .into_iter()
                    .map(|reading| Reading {
                        name: reading.name,
                        class: reading.class,
                        value: reading.value,
                    })
                    .collect(),
            },
            laws: seen
                .laws
                .into_iter()
                .map(|law| {
                    let knobs = law.knobs.into_iter().collect();
                    (law.rules, ChosenLaw { name: law.name, knobs })
                })
                .collect(),
            last_failure: seen.last_failure,
        }
    }
}

impl From<ClassObservation> for Class {
    fn from(seen: ClassObservation) -> Self {
        Self {
            name: seen.name,
            target: Target {
                percentile_ratio: seen.percentile.get(),
                seconds: seen.target.as_secs_f64(),
            },
            run_limit_seconds: seen.run_limit.map(|limit| limit.as_secs_f64()),
            accounts: seen.accounts.into(),
            arrivals_per_second: seen.arrivals.get(),
            service: seen.service.map(Times::from),
            response: seen.response.map(Times::from),
            response_at_percentile_seconds: seen
                .response_at_percentile
                .map(|time| time.as_secs_f64()),
            profile: seen.profile.map(ServiceProfile::from),
        }
    }
}

impl From<tamarisk_stage::ServiceProfile> for ServiceProfile {
    fn from(seen: tamarisk_stage::ServiceProfile) -> Self {
        let bucket =
            |(below, count): (Duration, u64)| Bucket { below_seconds: below.as_secs_f64(), count };
        Self {
            mean_seconds: seen.mean.as_secs_f64(),
            variation_squared: seen.variation_squared,
            buckets: seen.buckets.into_iter().map(bucket).collect(),
        }
    }
}

impl From<Accounts> for Totals {
    fn from(accounts: Accounts) -> Self {
        Self {
            offered: accounts.offered,
            rejected: accounts.rejected,
            completed: accounts.completed,
            dropped: accounts.dropped,
            terminated: accounts.terminated,
            failed: accounts.failed,
            abandoned: accounts.abandoned,
            queued: accounts.queued,
            running: accounts.running,
            parked: accounts.parked,
            suspended: accounts.suspended,
        }
    }
}

impl From<Percentiles> for Times {
    fn from(times: Percentiles) -> Self {
        Self {
            count: times.count,
            p50_seconds: times.p50.as_secs_f64(),
            p90_seconds: times.p90.as_secs_f64(),
            p99_seconds: times.p99.as_secs_f64(),
            max_seconds: times.max.as_secs_f64(),
        }
    }
}
