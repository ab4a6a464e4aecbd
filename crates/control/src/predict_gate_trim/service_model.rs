//! How long an event of each class takes to serve.
//!
//! A rare class has too few samples to be believed and too many users to be
//! refused. Its estimates are therefore shrunk towards those of the stage as a
//! whole, and the stage's towards a prior, as if the parent had lent each child
//! a handful of samples: the first event of a class is judged like an average
//! event, the tenth mostly by its own past.

use std::time::Duration;

use crate::recent_samples::RecentSamples;
use crate::{ClassId, Classes, Ending};

/// How many of a class's latest service times are kept. At p = 0.9 twenty of
/// 200 lie above the quantile, enough to tell it within a few per cent of rank,
/// and a change of the service has replaced them all after 200 events.
const SAMPLES_KEPT: usize = 200;

/// Estimates of all classes are refreshed once in so many samples of the stage;
/// the class of a sample at once.
const REFRESH_EVERY: u32 = 32;

/// Per-class estimates of service time.
#[derive(Clone, Debug)]
pub(crate) struct ServiceModel {
    /// Estimated means in seconds, in a row of their own: every decision adds
    /// up the work in the queue with them.
    means: Box<[f64]>,
    classes: Box<[ClassModel]>,
    stage: RecentSamples,
    prior_seconds: f64,
    shrinkage: f64,
    until_refresh: u32,
}

#[derive(Clone, Debug)]
struct ClassModel {
    samples: RecentSamples,
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
            percentile: class.target.at().get(),
            quantile: prior_seconds,
            median: prior_seconds,
        });
        Self {
            means: vec![prior_seconds; classes.len()].into(),
            classes: models.collect(),
            stage: RecentSamples::new(SAMPLES_KEPT),
            prior_seconds,
            shrinkage,
            until_refresh: REFRESH_EVERY,
        }
    }

    /// Learns from an event of `class` that was in service for `service`.
    pub(crate) fn record(&mut self, class: ClassId, service: Duration, ending: Ending) {
        let index = class.index();
        let seconds = service.as_secs_f64();
        let known = self.means[index];
        let sample = match ending {
            Ending::Completed => seconds,
            // An error that came fast must not make the service look fast.
            Ending::Failed => seconds.max(known),
            // A censored sample: it says something only if it is already long.
            Ending::Terminated if seconds > known => seconds,
            Ending::Terminated | Ending::Untimed => return,
        };
        self.classes[index].samples.push(sample);
        self.stage.push(sample);
        self.until_refresh -= 1;
        if self.until_refresh == 0 {
            self.until_refresh = REFRESH_EVERY;
            (0..self.classes.len()).for_each(|each| self.refresh(each));
        } else {
            self.refresh(index);
        }
    }

    /// s_k of every class, in seconds.
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

    /// The median service time in seconds.
    #[inline]
    pub(crate) fn median(&self, class: ClassId) -> f64 {
        self.classes[class.index()].median
    }

    /// n_k: how many samples of its own the class's estimates rest on.
    #[inline]
    pub(crate) fn samples(&self, class: ClassId) -> usize {
        self.classes[class.index()].samples.len()
    }

    /// The mean service time of all classes together, in seconds.
    pub(crate) fn stage_mean(&self) -> f64 {
        self.shrink(&self.stage, self.stage.mean(), self.prior_seconds)
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
        self.means[index] = mean;
        let class = &mut self.classes[index];
        (class.quantile, class.median) = (quantile, median);
    }

    /// (n·own + κ·parent) / (n + κ)
    fn shrink(&self, samples: &RecentSamples, own: f64, parent: f64) -> f64 {
        let n = samples.len() as f64;
        (n * own + self.shrinkage * parent) / (n + self.shrinkage)
    }
}
