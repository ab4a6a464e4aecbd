//! The last ten minutes of each stage, a sample a second.
//!
//! It is kept from the start, whether anybody looks or not: who opens the status page in the
//! middle of an incident sees how it began. A stage that is replaced by one of the same name, as
//! at a reload, goes on in the same history; one that is gone is forgotten.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Serialize;
use tamarisk_stage::{Accounts, StageObservation};

use crate::promise::Promise;

/// How often a sample is taken.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);

/// Ten minutes: 20 KB for each stage.
const SAMPLES_MAX: usize = 600;

/// How far back [`Recent`] looks.
const RECENT: Duration = Duration::from_secs(10);

/// The counts kept for [`Recent`]: one more than the intervals between them.
const COUNTS_MAX: usize = 11;

/// The histories of all stages.
#[derive(Default)]
pub(super) struct History(Mutex<Vec<StageHistory>>);

struct StageHistory {
    name: String,
    /// The latest last, at least one.
    counts: VecDeque<Counts>,
    samples: VecDeque<Sample>,
}

/// What a stage has counted at an instant.
#[derive(Clone, Copy)]
struct Counts {
    at: Instant,
    accounts: Accounts,
    /// Rejected, because their clients left no time for an answer.
    overdue: u64,
}

/// What became of requests in the last seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Recent {
    /// How many seconds: ten, or less just after the start.
    pub(super) seconds: f64,
    pub(super) offered: u64,
    pub(super) completed: u64,
    /// Rejected, or dropped from the queue.
    pub(super) rejected: u64,
    pub(super) failed: u64,
    pub(super) terminated: u64,
    pub(super) abandoned: u64,
}

/// One second of one stage. Four-byte numbers are exact enough for a plot.
#[derive(Clone, Copy)]
struct Sample {
    completed: f32,
    rejected: f32,
    failed: f32,
    queued: u32,
    running: u32,
    response: Option<f32>,
    target: Option<f32>,
}

/// All histories as JSON: the series of a stage are equally long, and end now.
#[derive(Serialize)]
struct Document<'h> {
    interval_seconds: f64,
    stages: Vec<Series<'h>>,
}

#[derive(Serialize)]
struct Series<'h> {
    name: &'h str,
    completed_per_second: Vec<f32>,
    /// Rejected, or dropped from the queue.
    rejected_per_second: Vec<f32>,
    /// Failed, terminated or abandoned.
    failed_per_second: Vec<f32>,
    queued: Vec<u32>,
    running: Vec<u32>,
    /// At the promised percentile, of the class that is the closest to its target or the farthest
    /// beyond it.
    response_seconds: Vec<Option<f32>>,
    /// Of the same class.
    target_seconds: Vec<Option<f32>>,
}

impl History {
    /// Takes a sample of all stages that there are; `overdue` says of each how many requests it has
    /// rejected because their clients left no time for an answer.
    pub(super) fn sample(
        &self,
        now: Instant,
        stages: &[StageObservation],
        overdue: impl Fn(&str) -> u64,
    ) {
        let mut histories = self.0.lock();
        histories.retain(|history| stages.iter().any(|stage| stage.name == history.name));
        for stage in stages {
            let (accounts, overdue) = (stage.total(), overdue(&stage.name));
            let counts = Counts { at: now, accounts, overdue };
            match histories.iter_mut().find(|history| history.name == stage.name) {
                Some(history) => history.sample(counts, Promise::of(stage)),
                None => histories.push(StageHistory {
                    name: stage.name.clone(),
                    counts: [counts].into(),
                    samples: VecDeque::with_capacity(SAMPLES_MAX),
                }),
            }
        }
    }

    /// What became of the requests to `stage` in the last seconds, but for those of the `overdue`
    /// that it has rejected meanwhile; `None` if it has only just been seen.
    pub(super) fn recent(
        &self,
        now: Instant,
        stage: &StageObservation,
        overdue: u64,
    ) -> Option<Recent> {
        let histories = self.0.lock();
        let history = histories.iter().find(|history| history.name == stage.name)?;
        let before = history.counts.front()?;
        let seconds = now.saturating_duration_since(before.at).as_secs_f64();
        let recent = Recent::between(&before.accounts, &stage.total(), seconds);
        Some(recent.without(overdue.saturating_sub(before.overdue)))
    }

    pub(super) fn render(&self) -> String {
        let histories = self.0.lock();
        let stages = histories.iter().map(StageHistory::series).collect();
        let document = Document { interval_seconds: INTERVAL.as_secs_f64(), stages };
        serde_json::to_string(&document).expect("numbers and strings are JSON")
    }
}

impl StageHistory {
    fn sample(&mut self, counts: Counts, promise: Option<Promise>) {
        let Counts { at: now, accounts: total, .. } = counts;
        if self.counts.back().is_some_and(|before| total.offered < before.accounts.offered) {
            // Another stage of the same name, which has counted from zero since.
            let last = self.counts.back().copied();
            let from_zero = last.map(|last| Counts { accounts: Accounts::default(), ..last });
            self.counts = from_zero.into_iter().collect();
        }
        if let Some(before) = self.counts.back() {
            let seconds = now.saturating_duration_since(before.at).as_secs_f64();
            let recent = Recent::between(&before.accounts, &total, seconds);
            if self.samples.len() == SAMPLES_MAX {
                self.samples.pop_front();
            }
            self.samples.push_back(Sample::of(&recent, &total, promise));
        }
        self.counts.push_back(counts);
        let is_old = |counts: &Counts| now.saturating_duration_since(counts.at) > RECENT;
        // The oldest that is kept is as old as that, or a little older.
        while self.counts.len() > COUNTS_MAX || self.counts.get(1).is_some_and(is_old) {
            self.counts.pop_front();
        }
    }

    fn series(&self) -> Series<'_> {
        let samples = || self.samples.iter();
        Series {
            name: &self.name,
            completed_per_second: samples().map(|sample| sample.completed).collect(),
            rejected_per_second: samples().map(|sample| sample.rejected).collect(),
            failed_per_second: samples().map(|sample| sample.failed).collect(),
            queued: samples().map(|sample| sample.queued).collect(),
            running: samples().map(|sample| sample.running).collect(),
            response_seconds: samples().map(|sample| sample.response).collect(),
            target_seconds: samples().map(|sample| sample.target).collect(),
        }
    }
}

impl Recent {
    fn between(before: &Accounts, now: &Accounts, seconds: f64) -> Self {
        let since = |of: fn(&Accounts) -> u64| of(now).saturating_sub(of(before));
        Self {
            seconds,
            offered: since(|accounts| accounts.offered),
            completed: since(|accounts| accounts.completed),
            rejected: since(|accounts| accounts.rejected + accounts.dropped),
            failed: since(|accounts| accounts.failed),
            terminated: since(|accounts| accounts.terminated),
            abandoned: since(|accounts| accounts.abandoned),
        }
    }

    /// The same without this many that were rejected.
    fn without(self, rejected: u64) -> Self {
        let rejected = rejected.min(self.rejected);
        Self { offered: self.offered - rejected, rejected: self.rejected - rejected, ..self }
    }
}

impl Sample {
    fn of(recent: &Recent, total: &Accounts, promise: Option<Promise>) -> Self {
        // A tenth of a request a second, and a microsecond: what a plot can show.
        let rate =
            |count: u64| (10.0 * count as f64 / recent.seconds.max(1e-3)).round() as f32 / 10.0;
        let time = |time: Duration| (time.as_secs_f64() * 1e6).round() as f32 / 1e6;
        let many = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        Self {
            completed: rate(recent.completed),
            rejected: rate(recent.rejected),
            failed: rate(recent.failed + recent.terminated + recent.abandoned),
            queued: many(total.queued),
            running: many(total.running),
            response: promise.and_then(|promise| promise.seen).map(time),
            target: promise.map(|promise| time(promise.target)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tamarisk_stage::{Gate, StageBuilder};

    use super::*;

    /// No client leaves no time.
    const NONE: fn(&str) -> u64 = |_| 0;

    fn seen(name: &str, completed: u64, rejected: u64) -> StageObservation {
        let mut seen = StageBuilder::new(name).gate().unwrap().observe();
        let accounts =
            Accounts { offered: completed + rejected, completed, rejected, ..Accounts::default() };
        seen.classes[0].accounts = accounts;
        seen
    }

    fn rendered(history: &History) -> Value {
        serde_json::from_str(&history.render()).unwrap()
    }

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[tokio::test]
    async fn a_sample_is_what_happened_in_its_second() {
        let (history, start) = (History::default(), Instant::now());
        assert_eq!(history.recent(start, &seen("app", 0, 0), 0), None);
        for (second, completed, rejected) in [(0, 5, 0), (1, 105, 0), (2, 105, 30)] {
            let mut seen = seen("app", completed, rejected);
            seen.classes[0].response_at_percentile = Some(Duration::from_millis(180));
            seen.classes[0].accounts.queued = second;
            history.sample(after(start, second), &[seen], NONE);
        }
        let stage = &rendered(&history)["stages"][0];
        assert_eq!(stage["name"], "app");
        assert_eq!(stage["completed_per_second"], json!([100.0, 0.0]));
        assert_eq!(stage["rejected_per_second"], json!([0.0, 30.0]));
        assert_eq!(stage["queued"], json!([1, 2]));
        assert_eq!(stage["response_seconds"], json!([0.18, 0.18]));
        assert_eq!(stage["target_seconds"].as_array().unwrap().len(), 2);
    }

    #[tokio::test]
    async fn ten_minutes_are_kept_and_the_last_ten_seconds_are_recent() {
        let (history, start) = (History::default(), Instant::now());
        for second in 0..=1000 {
            history.sample(after(start, second), &[seen("app", 7 * second, second)], NONE);
        }
        let stage = &rendered(&history)["stages"][0];
        let completed = stage["completed_per_second"].as_array().unwrap();
        assert_eq!((completed.len(), &completed[599]), (600, &json!(7.0)));
        let recent = history.recent(after(start, 1000), &seen("app", 7000, 1000), 0).unwrap();
        let expected =
            Recent { seconds: 10.0, offered: 80, completed: 70, rejected: 10, ..Recent::default() };
        assert_eq!(recent, expected);
        assert!(history.0.lock()[0].samples.capacity() <= 1024, "it does not grow");
    }

    #[tokio::test]
    async fn after_a_pause_only_what_is_recent_counts() {
        let (history, start) = (History::default(), Instant::now());
        for second in [0, 1, 2, 100, 101] {
            history.sample(after(start, second), &[seen("app", second, 0)], NONE);
        }
        let recent = history.recent(after(start, 101), &seen("app", 101, 0), 0).unwrap();
        // The pause is within: nothing is known of what happened when in it.
        assert_eq!((recent.seconds, recent.completed), (99.0, 99));
    }

    #[tokio::test]
    async fn a_stage_that_is_made_anew_goes_on_and_one_that_is_gone_is_forgotten() {
        let (history, start) = (History::default(), Instant::now());
        history.sample(start, &[seen("app", 500, 0), seen("old", 1, 0)], NONE);
        history.sample(after(start, 1), &[seen("app", 510, 0), seen("old", 2, 0)], NONE);
        history.sample(after(start, 2), &[seen("app", 20, 0)], NONE);
        let stages = &rendered(&history)["stages"];
        assert_eq!(stages.as_array().unwrap().len(), 1);
        assert_eq!(stages[0]["completed_per_second"], json!([10.0, 20.0]));
        let recent = history.recent(after(start, 2), &seen("app", 20, 0), 0).unwrap();
        assert_eq!((recent.seconds, recent.completed), (1.0, 20));
    }

    #[tokio::test]
    async fn requests_that_left_no_time_are_not_recent_and_their_rejections_are_drawn() {
        let (history, start) = (History::default(), Instant::now());
        history.sample(start, &[seen("app", 5, 7)], |_| 7);
        history.sample(after(start, 1), &[seen("app", 8, 17)], |_| 16);
        let recent = history.recent(after(start, 2), &seen("app", 9, 20), 18).unwrap();
        // Of 13 rejected since the first sample, 11.
        let expected =
            Recent { seconds: 2.0, offered: 6, completed: 4, rejected: 2, ..Recent::default() };
        assert_eq!(recent, expected);
        assert_eq!(rendered(&history)["stages"][0]["rejected_per_second"], json!([10.0]));
    }

    #[tokio::test]
    async fn a_class_without_answers_has_no_time() {
        let gate: Gate = StageBuilder::new("app").gate().unwrap();
        let (history, start) = (History::default(), Instant::now());
        history.sample(start, &[gate.observe()], NONE);
        history.sample(after(start, 1), &[gate.observe()], NONE);
        assert_eq!(rendered(&history)["stages"][0]["response_seconds"], json!([null]));
    }
}
