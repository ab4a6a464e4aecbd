//! The minRTT gradient: a concurrency limit from the ratio of a periodically measured minimum to
//! the current response time.
//!
//! **Intuition.** To know what an answer takes when nothing queues, let almost
//! nothing in for a moment and look. After that, as long as answers take hardly
//! longer than this, there is room for more; when they do, there are too many
//! inside, by just that factor.
//!
//! **Mechanism** (Envoy's adaptive concurrency). Every 100 ms, with `sample` the median
//! of the answers since,
//! ```text
//! g = clamp(1.25·minRTT ÷ sample, ½, 2)          L ← g·L + √(g·L)
//! ```
//! within 3 … 1000. Each minute, a little later by chance so that a fleet does not
//! do it all at once, and when L has been at its least for five updates in a row,
//! minRTT is measured: L is held at 3 until 50 answers to events that came after
//! have been seen, and their median is the new minRTT. That is also how it
//! starts. An arrival is rejected while L are inside; L is also what may be in
//! flight to an upstream whose workers cannot be seen.
//!
//! **Source.** \[Envoy\], `gradient_controller.cc` and the defaults of
//! `GradientControllerConfig`: median, buffer 25 %, 50 requests, jitter 15 %, limits 3 and
//! 1000. The two intervals have no default there; 100 ms and 60 s are those of its
//! documentation's example. `fixed_value`, which replaces the measurement, is its
//! answer to what the measurement costs.
//!
//! **What we chose.** Events that failed or were ended early are left out: their
//! times are no samples. The median is that of the first 1000 answers of an interval.
//! The jitter comes from a sequence with a seed.
//!
//! **Limits.** The measurement itself rejects: whatever the load, for 50 answers only 3
//! are let in, and a wide service rejects nearly all for that long; at a cold
//! start too. Without answers it does not end. minRTT is of a mix of requests: when
//! the mix becomes slower, the limit falls although nothing queues. What
//! lasts longer than it should, as streams do, is no round trip. The limit is
//! one for all classes, and follows no target.

use std::time::Duration;

use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, Concurrency, Decision, Ending, Finished, PlaceLimits, Reading,
    Timestamp,
};

use tamarisk_laws::constants::constants;
use tamarisk_laws::limit_range::{InvalidLimitRange, LimitRange, admit_below};
use tamarisk_laws::period_samples::PeriodSamples;
use tamarisk_laws::seeded::Seeded;

constants! {
    /// Of [`MinRttGradient`]: `min_concurrency` and `max_concurrency_limit`; it begins at the least.
    pub(crate) struct MinRttGradientConstants {
        /// least limit
        limit_min_count: Concurrency = 3.0 in 1.0..=1e6,
        /// first limit
        limit_initial_count: Concurrency = 3.0 in 1.0..=1e6,
        /// greatest limit
        limit_max_count: Concurrency = 1000.0 in 1.0..=1e6,
    }
}

/// `buffer`: minRTT is taken to be so many times as long as measured.
const BUFFER: f64 = 1.25;

/// `sample_aggregate_percentile`.
const QUANTILE: f64 = 0.5;

/// `request_count`: answers that a measurement takes.
const PROBE_ANSWERS: usize = 50;

/// `jitter`: by which share of the interval a measurement may be late.
const JITTER: f64 = 0.15;

/// The documentation's `concurrency_update_interval` and `interval`.
const UPDATE_INTERVAL: Duration = Duration::from_millis(100);
const PROBE_INTERVAL: Duration = Duration::from_secs(60);

/// Bounds of one step, in both directions.
const GRADIENT: (f64, f64) = (0.5, 2.0);

/// So many updates in a row at the least limit: minRTT must be wrong.
const STUCK_UPDATES: u32 = 5;

/// Answers of one interval of which the median is taken.
const SAMPLES_MAX: usize = 1000;

/// Times are compared in microseconds there; no time is shorter.
const RESPONSE_MIN: f64 = 1e-6;

/// Limits how many are inside by the ratio of the least to the present response time.
#[derive(Clone, Debug)]
pub struct MinRttGradient {
    range: LimitRange,
    /// Where minRTT comes from: measured, unless it is fixed.
    fixed: bool,
    min_rtt: f64,
    limit: u32,
    /// The limit to go back to after the measurement under way.
    deferred: Option<u32>,
    /// Answers to what came before say nothing.
    epoch: Timestamp,
    samples: PeriodSamples,
    updated: Timestamp,
    next_probe: Timestamp,
    updates_at_min: u32,
    draws: Seeded,
}

impl MinRttGradient {
    /// With the published constants.
    pub fn new() -> Self {
        Self::of(&MinRttGradientConstants::default()).expect("the published bounds are in order")
    }

    /// With the bounds that `its` say.
    pub(crate) fn of(its: &MinRttGradientConstants) -> Result<Self, InvalidLimitRange> {
        LimitRange::new(its.limit_min_count, its.limit_initial_count, its.limit_max_count)
            .map(Self::with)
    }

    /// With bounds of one's own for the limit; it is at its least while minRTT is
    /// measured.
    pub fn with(range: LimitRange) -> Self {
        Self {
            range,
            fixed: false,
            min_rtt: 0.0,
            limit: range.least(),
            deferred: Some(range.initial()),
            epoch: Timestamp::ZERO,
            samples: PeriodSamples::new(SAMPLES_MAX),
            updated: Timestamp::ZERO,
            next_probe: Timestamp::MAX,
            updates_at_min: 0,
            draws: Seeded::new(0),
        }
    }

    /// `fixed_value`: the same law with a minRTT that is known, and never measured.
    #[must_use]
    pub fn min_rtt(mut self, min_rtt: Duration) -> Self {
        self.fixed = true;
        self.min_rtt = min_rtt.as_secs_f64().max(RESPONSE_MIN);
        self.limit = self.range.initial();
        self.deferred = None;
        self
    }

    /// The same law with another sequence of draws.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.draws = Seeded::new(seed);
        self
    }

    fn pass_time(&mut self, now: Timestamp) {
        if self.deferred.is_some() {
            return;
        }
        if now >= self.next_probe && !self.fixed {
            self.begin_probe(now);
        } else if now.since(self.updated) >= UPDATE_INTERVAL {
            self.updated = now;
            if !self.samples.is_empty() {
                let sample = self.take_median();
                self.update(now, sample);
            }
        }
    }

    fn begin_probe(&mut self, now: Timestamp) {
        self.deferred = Some(self.limit);
        self.limit = self.range.least();
        self.updates_at_min = 0;
        self.take_median();
        self.epoch = now;
    }

    fn end_probe(&mut self, now: Timestamp, deferred: u32) {
        self.min_rtt = self.take_median();
        self.limit = deferred;
        self.deferred = None;
        self.updated = now;
        self.next_probe = now + PROBE_INTERVAL.mul_f64(1.0 + JITTER * self.draws.uniform());
    }

    fn update(&mut self, now: Timestamp, sample: f64) {
        let gradient = (BUFFER * self.min_rtt / sample).clamp(GRADIENT.0, GRADIENT.1);
        let limit = f64::from(self.limit) * gradient;
        let new = self.range.whole(limit + limit.sqrt());
        let stuck = self.limit == self.range.least() && new == self.range.least();
        self.updates_at_min = if stuck { self.updates_at_min.saturating_add(1) } else { 0 };
        self.limit = new;
        if self.updates_at_min >= STUCK_UPDATES {
            self.next_probe = now;
        }
    }

    fn take_median(&mut self) -> f64 {
        self.samples.take_quantile(QUANTILE).max(RESPONSE_MIN)
    }
}

impl Default for MinRttGradient {
    fn default() -> Self {
        Self::new()
    }
}

impl AdmissionLaw for MinRttGradient {
    fn name(&self) -> &'static str {
        "min-rtt-gradient"
    }

    fn on_arrival(&mut self, now: Timestamp, _: &Arrival, backlog: &Backlog<'_>) -> Decision {
        self.pass_time(now);
        admit_below(self.limit, backlog)
    }

    fn on_finish(&mut self, now: Timestamp, finished: &Finished, _: &Backlog<'_>) {
        let response = finished.response;
        let came_before = now.since(self.epoch) < response;
        if finished.ending == Ending::Completed && !came_before {
            self.samples.push(response.as_secs_f64());
        }
        match self.deferred {
            Some(deferred) if self.samples.len() >= PROBE_ANSWERS => self.end_probe(now, deferred),
            _ => self.pass_time(now),
        }
    }

    fn on_tick(&mut self, now: Timestamp, _: &Backlog<'_>) {
        self.pass_time(now);
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        let mut show = |name, value| visit(Reading { name, class: None, value });
        show("limit_count", f64::from(self.limit));
        show("response_least_seconds", self.min_rtt);
        show("measuring_ratio", f64::from(u8::from(self.deferred.is_some())));
    }

    fn place_limits(&self) -> Option<&dyn PlaceLimits> {
        Some(self)
    }
}

impl PlaceLimits for MinRttGradient {
    fn concurrency(&self) -> Option<Concurrency> {
        Some(Concurrency::new(self.limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_bench::{arrival, at, backlog, ended, finished_in};

    const IDLE: fn() -> Backlog<'static> = || backlog(&[0], &[0]);

    /// A law that has measured 100 ms by 10 s.
    fn measured() -> MinRttGradient {
        let mut law = MinRttGradient::new();
        answer(&mut law, 10_000, 50, 100);
        law
    }

    fn answer(law: &mut MinRttGradient, now_ms: u64, count: usize, millis: u64) {
        (0..count).for_each(|_| law.on_finish(at(now_ms), &finished_in(millis), &IDLE()));
    }

    #[test]
    fn it_begins_with_three_until_fifty_answers_have_come() {
        let mut law = MinRttGradient::new();
        answer(&mut law, 10_000, 49, 100);
        assert_eq!((law.limit, law.deferred), (3, Some(3)));
        answer(&mut law, 10_000, 1, 100);
        assert_eq!((law.limit, law.deferred, law.min_rtt), (3, None, 0.1));
        assert!(matches!(
            law.on_arrival(at(10_000), &arrival(0), &backlog(&[1], &[2])),
            Decision::Reject(_)
        ));
    }

    #[test]
    fn each_update_follows_the_published_rule() {
        let mut law = measured();
        law.limit = 100;
        // 1.25·100/125 = 1: 100 + √100 = 110.
        answer(&mut law, 10_050, 1, 125);
        law.on_tick(at(10_100), &IDLE());
        assert_eq!(law.limit, 110);
        // 1.25·100/250 = ½: 55 + √55 = 62.4.
        answer(&mut law, 10_150, 1, 250);
        law.on_tick(at(10_200), &IDLE());
        assert_eq!(law.limit, 62);
        // 1.25·100/1 is more than 2: 124 + √124 = 135.1.
        answer(&mut law, 10_250, 1, 1);
        law.on_tick(at(10_300), &IDLE());
        assert_eq!(law.limit, 135);
    }

    #[test]
    fn an_interval_without_answers_changes_nothing() {
        let mut law = measured();
        (10_000..60_000).step_by(100).for_each(|now| law.on_tick(at(now), &IDLE()));
        assert_eq!(law.limit, 3);
    }

    #[test]
    fn each_minute_and_up_to_nine_seconds_later_it_measures_again() {
        let mut law = measured();
        law.limit = 100;
        let mut now = 10_000;
        while law.deferred.is_none() {
            now += 10;
            law.on_tick(at(now), &IDLE());
        }
        assert!((70_000..79_010).contains(&now), "at {now}");
        assert_eq!((law.limit, law.deferred), (3, Some(100)));
        // What came before it is no sample.
        answer(&mut law, now + 50, 1000, 51);
        assert_eq!(law.deferred, Some(100));
        answer(&mut law, now + 50, 50, 50);
        assert_eq!((law.limit, law.min_rtt), (100, 0.05));
    }

    #[test]
    fn five_updates_at_the_least_limit_bring_a_measurement() {
        let mut law = measured();
        for update in 1..=5 {
            let now = 10_000 + 100 * update;
            assert_eq!(law.deferred, None, "before update {update}");
            answer(&mut law, now, 1, 5000);
            law.on_tick(at(now + 1), &IDLE());
        }
        law.on_tick(at(10_502), &IDLE());
        assert_eq!(law.deferred, Some(3));
    }

    #[test]
    fn failures_are_no_samples() {
        let mut law = MinRttGradient::new();
        for _ in 0..1000 {
            law.on_finish(at(10_000), &ended(1, Ending::Failed), &IDLE());
        }
        assert_eq!(law.deferred, Some(3));
    }

    #[test]
    fn a_fixed_min_rtt_is_never_measured() {
        let mut law = MinRttGradient::new().min_rtt(Duration::from_millis(100));
        for second in 1..1000 {
            answer(&mut law, 1000 * second, 1, 5000);
            assert_eq!(law.deferred, None);
        }
        assert_eq!((law.limit, law.min_rtt), (3, 0.1));
    }
}
