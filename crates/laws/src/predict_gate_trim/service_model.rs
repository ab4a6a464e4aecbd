//! The service-time model: how long an event of each class takes to serve.
//!
//! A rare class has too few samples to be believed and too many users to be
//! rejected. Its estimates are therefore shrunk towards those of the stage as a
//! whole, and the stage's towards a prior, as if the parent had lent each child
//! a handful of samples: the first event of a class is judged like an average
//! event, the tenth mostly by its own past.

use std::time::Duration;

use tamarisk_control::{Backlog, ClassId, Classes, Ending, Timestamp, Together};

use super::batch_cost::{BatchCost, BatchPace};
use crate::recent_samples::RecentSamples;

/// How many of a class's latest service times are kept. At p = 0.9 twenty of
/// 200 lie above the quantile, enough to tell it within a few per cent of rank,
/// and a change of the service has replaced them all after 200 events.
pub(crate) const SAMPLES_KEPT: usize = 200;

/// A class is unknown until it has so many: at p = 0.9 three of them lie above
/// the quantile, so that no single event decides it.
const SAMPLES_KNOWN: usize = 30;

/// Estimates of all classes are refreshed once in so many samples of the stage;
/// the class of a sample at once.
const REFRESH_EVERY: u32 = 32;

/// A class that is known already takes a sample at most so often: 200 of them
/// then speak of at least ten milliseconds, and a stage that is crossed a million
/// times a second spends no more than a few thousandths of its time on learning.
const SAMPLES_APART: Duration = Duration::from_micros(50);

/// A longer service counts as so long: no target is longer, and sums stay finite.
const SERVICE_MAX: Duration = Duration::from_secs(24 * 3600);

/// Per-class estimates of service time.
#[derive(Clone, Debug)]
pub(crate) struct ServiceModel {
    /// Estimated means in seconds, in a row of their own: every decision adds
    /// up the work in the queue with them.
    means: Box<[f64]>,
    classes: Box<[ClassModel]>,
    stage: RecentSamples,
    batches: BatchCost,
    prior_seconds: f64,
    shrinkage: f64,
    until_refresh: u32,
}

/// Which estimates a sample has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refreshed {
    Nothing,
    OneClass,
    AllClasses,
}

#[derive(Clone, Debug)]
struct ClassModel {
    samples: RecentSamples,
    /// When the next sample is wanted, once there are enough.
    wanted_at: Timestamp,
    percentile: f64,
    quantile: f64,
    median: f64,
}

impl ServiceModel {
    /// `prior` stands for every estimate until samples come; `shrinkage` (κ) is
    /// how many samples a parent's estimate is worth.
    pub(crate) fn new(classes: &Classes, prior: Duration, shrinkage: f64) -> Self {
        let prior_seconds = prior.as_secs_f64();
        let models = classes.iter().map(|(_, class)| ClassModel {
            samples: RecentSamples::new(SAMPLES_KEPT),
            wanted_at: Timestamp::ZERO,
            percentile: class.target.at().get(),
            quantile: prior_seconds,
            median: prior_seconds,
        });
        Self {
            means: vec![prior_seconds; classes.len()].into(),
            classes: models.collect(),
            stage: RecentSamples::new(SAMPLES_KEPT),
            batches: BatchCost::default(),
            prior_seconds,
            shrinkage,
            until_refresh: REFRESH_EVERY,
        }
    }

    /// An event has been completed that took `seconds`, together with others.
    #[inline]
    pub(crate) fn learn_batch(&mut self, together: Together, seconds: f64) {
        self.batches.learn(together, seconds);
    }

    /// What the events in `backlog` and `more` that wait with them cost, beside the means.
    #[inline]
    pub(crate) fn pace(&self, backlog: &Backlog<'_>, more: u32) -> BatchPace {
        self.batches.pace(backlog, more)
    }

    /// Whether there is anything to learn from an event of `class` that ends now.
    #[inline]
    pub(crate) fn wants(&self, now: Timestamp, class: ClassId) -> bool {
        let model = &self.classes[class.index()];
        !model.samples.is_full() || now >= model.wanted_at
    }

    /// Learns from an event of `class` that was in service for `service`.
    pub(crate) fn record(
        &mut self,
        now: Timestamp,
        class: ClassId,
        service: Duration,
        ending: Ending,
    ) -> Refreshed {
        let index = class.index();
        self.classes[index].wanted_at = now + SAMPLES_APART;
        let seconds = service.as_secs_f64();
        let known = self.means[index];
        let sample = match ending {
            Ending::Completed => seconds,
            // An error that came fast must not make the service look fast.
            Ending::Failed => seconds.max(known),
            // A censored sample: it says something only if it is already long.
            Ending::Terminated | Ending::Abandoned if seconds > known => seconds,
            Ending::Terminated | Ending::Abandoned | Ending::Untimed => return Refreshed::Nothing,
        };
        let sample = sample.min(SERVICE_MAX.as_secs_f64());
        self.classes[index].samples.push(sample);
        self.stage.push(sample);
        self.until_refresh -= 1;
        if self.until_refresh == 0 {
            self.until_refresh = REFRESH_EVERY;
            (0..self.classes.len()).for_each(|each| self.refresh(each));
            Refreshed::AllClasses
        } else {
            self.refresh(index);
            Refreshed::OneClass
        }
    }

    /// The quantile of `class` is that of another percentile from now on.
    pub(crate) fn set_percentile(&mut self, class: ClassId, percentile: f64) {
        self.classes[class.index()].percentile = percentile;
        self.refresh(class.index());
    }

    /// s_k of every class, in seconds. Of events that are worked on together, a share each.
    #[inline]
    pub(crate) fn means(&self) -> &[f64] {
        &self.means
    }

    /// s_k: the mean service time in seconds.
    #[inline]
    pub(crate) fn mean(&self, class: ClassId) -> f64 {
        self.means[class.index()]
    }

    /// q_k: the service time in seconds at the percentile of the class's target.
    #[inline]
    pub(crate) fn quantile(&self, class: ClassId) -> f64 {
        self.classes[class.index()].quantile
    }

    /// The longest of the latest service times, in seconds; zero of none.
    pub(crate) fn longest(&self, class: ClassId) -> f64 {
        self.classes[class.index()].samples.quantile(1.0)
    }

    /// The median service time in seconds.
    #[inline]
    pub(crate) fn median(&self, class: ClassId) -> f64 {
        self.classes[class.index()].median
    }

    /// Whether the class has too few samples of its own to be judged by them.
    pub(crate) fn is_unknown(&self, class: ClassId) -> bool {
        self.classes[class.index()].samples.len() < SAMPLES_KNOWN
    }

    /// The mean service time of all classes together, in seconds: a share of that of its batch.
    pub(crate) fn stage_mean(&self) -> f64 {
        self.shrink(&self.stage, self.stage.mean(), self.prior_seconds) / self.batches.count()
    }

    fn refresh(&mut self, index: usize) {
        let percentile = self.classes[index].percentile;
        let estimate = |of: &dyn Fn(&RecentSamples) -> f64| {
            let stage = self.shrink(&self.stage, of(&self.stage), self.prior_seconds);
            let own = &self.classes[index].samples;
            self.shrink(own, of(own), stage)
        };
        let mean = estimate(&RecentSamples::mean);
        let quantile = estimate(&|samples| samples.quantile(percentile));
        let median = estimate(&|samples| samples.quantile(0.5));
        self.means[index] = mean / self.batches.count();
        let class = &mut self.classes[index];
        (class.quantile, class.median) = (quantile, median);
    }

    /// (n·own + κ·parent) / (n + κ)
    fn shrink(&self, samples: &RecentSamples, own: f64, parent: f64) -> f64 {
        let n = samples.len() as f64;
        (n * own + self.shrinkage * parent) / (n + self.shrinkage)
    }
}

#[cfg(test)]
mod tests {
    use tamarisk_control::{Class, Priority, Target};

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn model() -> ServiceModel {
        let class = |name: &str| Class {
            name: name.into(),
            target: Target::p90(Duration::from_secs(1)).unwrap(),
            priority: Priority(0),
        };
        let classes = Classes::new(vec![class("common"), class("rare")]).unwrap();
        ServiceModel::new(&classes, 10 * MS, 5.0)
    }

    fn close(actual: f64, expected: f64) -> bool {
        (actual - expected).abs() < 1e-9
    }

    #[test]
    fn the_prior_stands_until_a_sample_comes() {
        let model = model();
        assert!(close(model.mean(ClassId::new(1)), 0.010));
        assert!(close(model.quantile(ClassId::new(1)), 0.010));
    }

    #[test]
    fn one_sample_is_shrunk_towards_the_stage_and_the_prior() {
        let mut model = model();
        model.record(Timestamp::ZERO, ClassId::new(0), 70 * MS, Ending::Completed);
        // Stage: (1·70 + 5·10) ÷ 6 = 20 ms. Class: (1·70 + 5·20) ÷ 6 = 28.33 ms.
        assert!(close(model.stage_mean(), 0.020));
        assert!(close(model.mean(ClassId::new(0)), 0.170 / 6.0));
    }

    #[test]
    fn a_rare_class_is_judged_by_the_stage_until_it_has_samples() {
        let mut model = model();
        for event in 0..320 {
            let now = Timestamp::ZERO + event * MS;
            model.record(now, ClassId::new(0), 20 * MS, Ending::Completed);
        }
        // (200·20 + 5·10) ÷ 205 ms
        assert!(close(model.mean(ClassId::new(1)), 4.05 / 205.0));
        for _ in 0..5 {
            model.record(Timestamp::ZERO, ClassId::new(1), 600 * MS, Ending::Completed);
        }
        let mean = model.mean(ClassId::new(1));
        assert!((0.30..0.33).contains(&mean), "five samples weigh as much as the stage: {mean}");
    }

    #[test]
    fn a_fast_failure_does_not_make_the_service_look_fast() {
        let mut model = model();
        for _ in 0..50 {
            model.record(Timestamp::ZERO, ClassId::new(0), 40 * MS, Ending::Completed);
        }
        let before = model.mean(ClassId::new(0));
        model.record(Timestamp::ZERO, ClassId::new(0), Duration::ZERO, Ending::Failed);
        assert!(model.mean(ClassId::new(0)) >= before);
    }

    #[test]
    fn a_service_cut_short_counts_only_if_it_was_long_already() {
        let mut model = model();
        model.record(Timestamp::ZERO, ClassId::new(0), 5 * MS, Ending::Terminated);
        assert!(close(model.mean(ClassId::new(0)), 0.010));
        model.record(Timestamp::ZERO, ClassId::new(0), 70 * MS, Ending::Terminated);
        assert!(model.mean(ClassId::new(0)) > 0.010);
    }

    #[test]
    fn a_class_that_is_known_learns_only_now_and_then() {
        let (mut model, class) = (model(), ClassId::new(0));
        let mut record = |micros: u64, service| {
            let now = Timestamp::from_nanos(micros * 1000);
            let wanted = model.wants(now, class);
            model.record(now, class, service, Ending::Completed);
            wanted
        };
        for sample in 0..200 {
            assert!(record(sample, 20 * MS), "sample {sample} is wanted");
        }
        assert!(!record(200, 70 * MS), "1 µs after the last one");
        assert!(!record(249, 70 * MS), "49 µs after it");
        assert!(record(299, 70 * MS), "50 µs after it");
    }

    #[test]
    fn an_untimed_event_leaves_no_trace() {
        let mut model = model();
        model.record(Timestamp::ZERO, ClassId::new(0), Duration::from_secs(3600), Ending::Untimed);
        assert!(close(model.mean(ClassId::new(0)), 0.010));
    }
}
