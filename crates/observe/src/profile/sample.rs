//! One line of the profile: every stage over one interval, as JSON.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;
use tamarisk_stage::{Accounts, Percentiles, SenderObservation, StageObservation};

use crate::date::Rfc3339;
use crate::process::Process;
use crate::promise::Promise;

/// What had happened by the last line, by the names of stages.
#[derive(Default)]
pub(super) struct Sampler {
    last: Option<Instant>,
    before: BTreeMap<String, Before>,
}

struct Before {
    total: Accounts,
    senders: Vec<SenderObservation>,
}

#[derive(Serialize)]
struct Line<'s> {
    time: String,
    /// How long the interval was; null in the first line, which has no rates.
    seconds: Option<f64>,
    process: Option<Consumption>,
    stages: Vec<Stage<'s>>,
}

#[derive(Serialize)]
struct Consumption {
    cpu_seconds: f64,
    resident_bytes: u64,
    threads: u64,
    open_files: Option<u64>,
}

#[derive(Serialize)]
struct Stage<'s> {
    name: &'s str,
    phase: &'static str,
    queued: u64,
    running: u64,
    workers: u32,
    busy_ratio: f64,
    batch: Option<u32>,
    quality_ratio: f64,
    #[serde(flatten)]
    rates: Option<Rates>,
    /// Of the last 5 to 10 s, all classes by themselves.
    classes: Vec<Class<'s>>,
    /// The response time at the percentile of the class that is the farthest beyond its target.
    response_seconds: Option<f64>,
    target_seconds: Option<f64>,
    senders: BTreeMap<&'s str, Edge>,
    readings: BTreeMap<String, f64>,
}

#[derive(Serialize)]
struct Rates {
    offered_per_second: f64,
    completed_per_second: f64,
    rejected_per_second: f64,
    dropped_per_second: f64,
    failed_per_second: f64,
    abandoned_per_second: f64,
}

#[derive(Serialize)]
struct Class<'s> {
    name: &'s str,
    response: Option<Times>,
    service: Option<Times>,
}

#[derive(Serialize)]
struct Times {
    mean_seconds: f64,
    p50_seconds: f64,
    p90_seconds: f64,
    p99_seconds: f64,
}

#[derive(Serialize)]
struct Edge {
    crossed: u64,
    rejected: u64,
    crossed_per_second: Option<f64>,
    rejected_per_second: Option<f64>,
}

impl Sampler {
    /// The line about `stages` at this instant, which ends an interval.
    pub(super) fn line(
        &mut self,
        now: Instant,
        time: SystemTime,
        stages: &[StageObservation],
    ) -> String {
        let seconds = self.last.map(|last| now.saturating_duration_since(last).as_secs_f64());
        let shown = stages.iter().map(|stage| self.stage(stage, seconds)).collect();
        let process = Process::read().map(|process| Consumption {
            cpu_seconds: process.cpu_seconds,
            resident_bytes: process.resident_bytes,
            threads: process.threads,
            open_files: process.open_files,
        });
        let line = Line { time: Rfc3339(time).to_string(), seconds, process, stages: shown };
        let mut line = serde_json::to_string(&line).expect("numbers and strings are JSON");
        line.push('\n');
        self.last = Some(now);
        let before = |stage: &StageObservation| {
            let before = Before { total: stage.total(), senders: stage.senders.clone() };
            (stage.name.clone(), before)
        };
        self.before = stages.iter().map(before).collect();
        line
    }

    fn stage<'s>(&self, stage: &'s StageObservation, seconds: Option<f64>) -> Stage<'s> {
        let total = stage.total();
        // A stage that is new, or was made anew, has counted from zero.
        let before = self.before.get(&stage.name);
        let before = before.filter(|before| before.total.offered <= total.offered);
        let past = before.map(|before| before.total).unwrap_or_default();
        let per_second = |now: u64, before: u64| {
            seconds.map(|seconds| now.saturating_sub(before) as f64 / seconds.max(1e-9))
        };
        let rate = |of: fn(&Accounts) -> u64| per_second(of(&total), of(&past)).unwrap_or(0.0);
        let edge = |sender: &'s SenderObservation| {
            let known = before
                .and_then(|before| before.senders.iter().find(|other| other.stage == sender.stage));
            let past = known.map_or((0, 0), |known| (known.crossed, known.rejected));
            let edge = Edge {
                crossed: sender.crossed,
                rejected: sender.rejected,
                crossed_per_second: per_second(sender.crossed, past.0),
                rejected_per_second: per_second(sender.rejected, past.1),
            };
            (sender.stage.as_str(), edge)
        };
        let promise = Promise::of(stage);
        Stage {
            name: &stage.name,
            phase: stage.phase.as_str(),
            queued: total.queued,
            running: total.running,
            workers: stage.workers,
            busy_ratio: stage.busy.get(),
            batch: stage.batch,
            quality_ratio: stage.quality.get(),
            rates: seconds.map(|_| Rates {
                offered_per_second: rate(|total| total.offered),
                completed_per_second: rate(|total| total.completed),
                rejected_per_second: rate(|total| total.rejected),
                dropped_per_second: rate(|total| total.dropped),
                failed_per_second: rate(|total| total.failed + total.terminated),
                abandoned_per_second: rate(|total| total.abandoned),
            }),
            classes: stage
                .classes
                .iter()
                .map(|class| Class {
                    name: &class.name,
                    response: class.response.map(Times::of),
                    service: class.service.map(Times::of),
                })
                .collect(),
            response_seconds: promise
                .and_then(|promise| promise.seen)
                .map(|time| time.as_secs_f64()),
            target_seconds: promise.map(|promise| promise.target.as_secs_f64()),
            senders: stage.senders.iter().map(edge).collect(),
            readings: stage
                .readings
                .iter()
                .map(|reading| {
                    let name = match &reading.class {
                        Some(class) => format!("{}/{class}", reading.name),
                        None => reading.name.clone(),
                    };
                    (name, reading.value)
                })
                .collect(),
        }
    }
}

impl Times {
    fn of(times: Percentiles) -> Self {
        let seconds = |time: Duration| time.as_secs_f64();
        Self {
            mean_seconds: seconds(times.mean),
            p50_seconds: seconds(times.p50),
            p90_seconds: seconds(times.p90),
            p99_seconds: seconds(times.p99),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tamarisk_control::PerSecond;
    use tamarisk_stage::StageBuilder;

    use super::*;

    fn seen(name: &str, completed: u64, rejected: u64, crossed: u64) -> StageObservation {
        let mut seen = StageBuilder::new(name).workers(3).gate().unwrap().observe();
        let offered = completed + rejected + 5;
        seen.classes[0].accounts =
            Accounts { offered, completed, rejected, queued: 5, ..Accounts::default() };
        let rate = PerSecond::ZERO;
        seen.senders =
            vec![SenderObservation { stage: "front".into(), crossed, rejected: 0, rate }];
        seen
    }

    #[tokio::test]
    async fn a_line_has_the_rates_of_its_own_interval() {
        let (mut sampler, start) = (Sampler::default(), Instant::now());
        let mut line = |millis, stages: &[StageObservation]| -> Value {
            let now = start + Duration::from_millis(millis);
            let time = SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
            let line = sampler.line(now, time, stages);
            assert!(line.ends_with("}\n") && line.matches('\n').count() == 1, "{line}");
            serde_json::from_str(&line).unwrap()
        };
        let first = line(0, &[seen("app", 100, 10, 40)]);
        assert_eq!(
            (&first["time"], &first["seconds"]),
            (&json!("1970-01-01T00:00:00.000Z"), &json!(null))
        );
        let stage = &first["stages"][0];
        assert_eq!(
            (&stage["name"], &stage["queued"], &stage["workers"]),
            (&json!("app"), &json!(5), &json!(3))
        );
        assert_eq!(
            (&stage["completed_per_second"], &stage["senders"]["front"]["crossed"]),
            (&json!(null), &json!(40))
        );

        let second = line(500, &[seen("new", 3, 0, 0), seen("app", 150, 11, 60)]);
        assert_eq!(second["seconds"], json!(0.5));
        let [new, app] = [0, 1].map(|index| &second["stages"][index]);
        assert_eq!(
            (&app["completed_per_second"], &app["rejected_per_second"]),
            (&json!(100.0), &json!(2.0))
        );
        assert_eq!(app["senders"]["front"]["crossed_per_second"], json!(40.0));
        // What is new has counted since then.
        assert_eq!(new["completed_per_second"], json!(6.0));

        let third = line(1500, &[seen("app", 20, 0, 1)]);
        assert_eq!(third["stages"][0]["completed_per_second"], json!(20.0), "it was made anew");
        assert_eq!(third["stages"][0]["senders"]["front"]["crossed_per_second"], json!(1.0));
        assert_eq!(third["stages"].as_array().unwrap().len(), 1);
    }
}
