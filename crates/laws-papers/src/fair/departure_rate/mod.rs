//! The departure-rate controller: holds a stage's throughput at a target by its number of workers.
//!
//! **Intuition.** A stage that must finish two hundred a second and finishes a hundred and
//! fifty, with workers that do twenty-five each, lacks two workers. Measure what a worker
//! does, and add as many as the error is worth: no probing step by step, no thresholds.
//!
//! **Why the obvious way fails.** A step of one worker a second ([`PoolSizing`]) takes a
//! minute to meet a load that doubled, and knows of queues, not of the promise.
//!
//! **Mechanism** [Fair07 §4.2.2, §4.3, fig. 4-2, 4-8]. After each sample:
//! ```text
//! r(k+1) = R̃·T ÷ (α·R)                the throughput that keeps the promise    (2–5)
//!        ≥ the highest recent arrival rate, while the load moves               §4.3.1
//!        = what was stated, or what a global law shares out                    §4.2.1
//! e      = r(k+1) − T(k)
//! u(k+1) = C(e)                       workers to add; below zero, to take away
//! T(k)   = a·T(k−1) + b·u(k)          the model                                   (8)
//! ```
//! `u` is the *change* of the number of workers, as the text under (8) and fig. 4-8 have it:
//! read as their number, the model of a stage has a = 0, and the printed gain `a ÷ b` is zero.
//! A worker that was added stays, so that a = 1 and b = 1 ÷ s̄, with s̄ the mean service time,
//! hold until something else was measured.
//!
//! **The forms.** C(z) is [`P`](super::P), [`Pi`](super::Pi) or [`Pd`](super::Pd), placed for
//! 4 samples and 0.1 of overshoot; `fair-precompensated` is P as printed, `Kp = a ÷ b` with
//! `α = 1 ÷ a` (31, 33), at its end within one sample. `fair-heuristic` is what the thesis
//! compares with: one worker more or fewer a sample, by constants. `fair-hybrid` is
//! `fair-precompensated`, and under overload the heuristic ([`fine_tuning`]). It is meant to
//! work with a [`SelectiveDropper`](crate::SelectiveDropper) at the first stage, "as requests
//! overwhelm the server" [Fair07 §4.3.1].
//!
//! **Identification** ([`OnLineFit`](super::OnLineFit), eq. 9–19). It learns from pairs of
//! samples in which events were queued at every tick: throughput is that of the workers only
//! then, and otherwise that of the clients. A model is believed as in
//! [`SelfTuning`](crate::SelfTuning), with b between a quarter of and twice 1 ÷ s̄.
//!
//! **What the thesis leaves open, and we chose.**
//! - While the load moves the thesis takes the highest arrival rate for r; here (5) counts if it
//!   asks for more, as in [`PercentileMapping`](crate::fair::PercentileMapping).
//! - The pool is a fraction inside and rounded outside, so that small errors add up.
//! - Workers that had nothing to do throughout the sample are taken away, and nobody is added
//!   then: throughput is what the clients make it.
//! - (5) holds for a constant number of clients, who come less often when answers take longer.
//!   Others do not, and a stage with room to spare, which answers in a fraction of the promise,
//!   would be made slower than its arrivals. So a pool does not shrink below `λ·s̄ + √(λ·s̄)`,
//!   the workers that arrivals keep busy and the usual reserve for chance, unless events were
//!   queued at every tick of two samples: clients who wait are a constant number of them. A
//!   `reserve_ratio` of 0 takes all clients for such, as (5) is printed.
//! - A sample lasts 2 s [Fair07 §5.2]; in §5.3 it is 30 s, which the thesis names as the
//!   cause of its spikes.
//! - Response times of several classes count in parts of their class's target, so that the
//!   strictest promise rules.
//! - After a pause of four periods, or a change by another law, the next sample is not learnt
//!   from; service times that doubled or halved are those of another stage, and the model is
//!   begun anew.
//! - The heuristic's step is one worker, beyond a band of 5 % around the target.
//!
//! **Limits.** PI acts on a change of workers, so it integrates twice: with a = 1 no gain
//! avoids its overshoot, and the thesis finds it the worst of the three. The pre-compensator
//! trusts the model: if a worker stays (a = 1) and 0.95 was identified, throughput ends 5 %
//! beyond its target. A dead-beat gain answers noise as if it were error, and makes a percentile
//! swing about its target where P and PD hold it: a stage follows a stated throughput within a
//! sample, and response times a queue later. (5) calls for workers whenever the percentile is late, also when they
//! would not help: `fair-hybrid` notices, the others go to their bound.

mod feedback;
mod fine_tuning;
mod sample;
#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;
use std::time::Duration;

use tamarisk_control::{
    Activity, Classes, Concurrency, Finished, Leeway, PerSecond, Reading, Strain, Timestamp,
    WorkersLaw,
};

use self::feedback::Feedback;
use self::fine_tuning::FineTuning;
use self::sample::{Sample, Sampling};
use super::throughput_target::ThroughputTarget;
use super::tuned::Placement;
#[cfg(doc)]
use crate::PoolSizing;
use tamarisk_laws::constants::constants;

/// Around the target, for `fair-heuristic`.
const BAND: f64 = 0.05;

constants! {
    /// Of [`DepartureRate`].
    pub(crate) struct DepartureRateConstants {
        /// the fewest, and the first
        workers_min_count: Concurrency = 1.0 in 1.0..=32_768.0,
        /// the most
        workers_max_count: Concurrency = 64.0 in 1.0..=32_768.0,
        // [Fair07 §5.2]
        /// the length of a sample
        period_seconds: Duration = 2.0 in 0.02..=600.0,
        /// the throughput to hold; 0: what the response-time target needs
        throughput_per_second: PerSecond = 0.0 in 0.0..=1e6,
        // Ours: the usual square root of what is busy.
        /// workers for chance, in square roots of those busy; 0: clients wait, and come less often
        reserve_ratio: f64 = 1.0 in 0.0..=10.0,
    }
}

/// Which controller holds the throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DepartureControl {
    /// Proportional.
    P,
    /// Proportional-integral.
    Pi,
    /// Proportional-derivative.
    Pd,
    /// Proportional as printed, with its pre-compensator.
    Precompensated,
    /// A step a sample.
    Heuristic,
    /// [`Precompensated`](Self::Precompensated), and the heuristic under overload.
    Hybrid,
}

impl DepartureControl {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::P, Self::Pi, Self::Pd, Self::Precompensated, Self::Heuristic, Self::Hybrid];

    /// The name of the law that has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::P => "fair-p",
            Self::Pi => "fair-pi",
            Self::Pd => "fair-pd",
            Self::Precompensated => "fair-precompensated",
            Self::Heuristic => "fair-heuristic",
            Self::Hybrid => "fair-hybrid",
        }
    }

    const fn placement(self) -> Option<Placement> {
        match self {
            Self::P => Some(Placement::P),
            Self::Pi => Some(Placement::Pi),
            Self::Pd => Some(Placement::Pd),
            Self::Precompensated | Self::Hybrid => Some(Placement::Deadbeat),
            Self::Heuristic => None,
        }
    }

    const fn tunes_under_overload(self) -> bool {
        matches!(self, Self::Heuristic | Self::Hybrid)
    }
}

/// As many workers as the throughput target needs.
#[derive(Clone, Debug)]
pub struct DepartureRate {
    control: DepartureControl,
    range: [f64; 2],
    reserve: f64,
    sampling: Sampling,
    target: ThroughputTarget,
    /// None for the heuristic.
    feedback: Option<Feedback>,
    fine_tuning: Option<FineTuning>,
    /// The workers, and the fraction that is not enough for one.
    size: f64,
    /// Events were queued at every tick of the last sample.
    stayed_full: bool,
    throughput: f64,
    reference: f64,
}

/// More workers at least than at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`workers_min_count` ({least}) exceeds `workers_max_count` ({most})")]
pub struct InvalidDepartureRate {
    least: u32,
    most: u32,
}

impl DepartureRate {
    /// With between the ends of `workers`, beginning with the fewer, and samples of 2 s, for
    /// the promises of `classes`.
    ///
    /// # Errors
    /// [`InvalidDepartureRate`] if the range ends before it starts.
    pub fn new(
        classes: &Classes,
        control: DepartureControl,
        workers: RangeInclusive<Concurrency>,
    ) -> Result<Self, InvalidDepartureRate> {
        let constants = DepartureRateConstants {
            workers_min_count: *workers.start(),
            workers_max_count: *workers.end(),
            ..DepartureRateConstants::default()
        };
        Self::with(classes, control, &constants)
    }

    pub(crate) fn with(
        classes: &Classes,
        control: DepartureControl,
        its: &DepartureRateConstants,
    ) -> Result<Self, InvalidDepartureRate> {
        let (least, most) = (its.workers_min_count.get(), its.workers_max_count.get());
        if least > most {
            return Err(InvalidDepartureRate { least, most });
        }
        let sampling = Sampling::new(classes, its.period_seconds);
        Ok(Self {
            control,
            range: [f64::from(least), f64::from(most)],
            reserve: its.reserve_ratio,
            target: ThroughputTarget::new(sampling.percentile(), its.throughput_per_second),
            sampling,
            feedback: control.placement().map(Feedback::new),
            fine_tuning: control.tunes_under_overload().then(FineTuning::default),
            size: f64::from(least),
            stayed_full: false,
            throughput: 0.0,
            reference: 0.0,
        })
    }

    /// With samples of this length. Default 2 s.
    #[must_use]
    pub fn period(mut self, period: Duration) -> Self {
        self.sampling.set_period(period);
        self
    }

    fn end_sample(&mut self, sample: &Sample, leeway: Leeway) {
        let reference = self.target.after(&sample.rates, self.sampling.desired());
        if let Some(feedback) = &mut self.feedback {
            feedback.learn(sample);
        }
        self.throughput = sample.rates.throughput;
        let Some(reference) = reference else { return };
        self.reference = reference;
        let before = self.size;
        let wanted = self.wanted(sample, reference);
        self.size = self.allowed(wanted, sample, leeway);
        self.stayed_full = sample.stayed_full;
        if let Some(feedback) = &mut self.feedback {
            feedback.applied(self.size - before, self.size.round() - before.round());
        }
    }

    /// The size that the controller asks for.
    fn wanted(&mut self, sample: &Sample, reference: f64) -> f64 {
        let [_, most] = self.range;
        let mut at_most = most;
        if let Some(tuning) = &mut self.fine_tuning {
            if let Some(size) = tuning.size_after(sample, reference, self.size, most) {
                return size;
            }
            at_most = tuning.at_most();
        }
        let change = match &mut self.feedback {
            Some(feedback) => feedback.control(reference, sample.rates.throughput),
            None if sample.rates.throughput < (1.0 - BAND) * reference => 1.0,
            None if sample.rates.throughput > (1.0 + BAND) * reference => -1.0,
            None => 0.0,
        };
        (self.size + change).min(at_most)
    }

    /// Of that, what helps and is within bounds.
    fn allowed(&self, wanted: f64, sample: &Sample, leeway: Leeway) -> f64 {
        let [least, most] = self.range;
        let used = self.size - f64::from(sample.idle);
        let may_grow = sample.idle == 0 && leeway.may_press();
        let needed = self.needed(sample).min(self.size);
        let highest = if may_grow { most } else { used.max(needed) };
        let lowest = if leeway.may_ease() { needed } else { self.size };
        if !wanted.is_finite() {
            return self.size;
        }
        wanted.min(highest).max(lowest).clamp(least, most)
    }

    /// What arrivals need whatever the target says.
    fn needed(&self, sample: &Sample) -> f64 {
        match sample.service {
            Some(service) if !(sample.stayed_full && self.stayed_full) && self.reserve > 0.0 => {
                let busy = sample.rates.arrivals * service;
                busy + self.reserve * busy.sqrt()
            }
            _ => 0.0,
        }
    }

    fn is_overwhelmed(&self) -> bool {
        self.fine_tuning.as_ref().is_some_and(FineTuning::is_overwhelmed)
    }

    /// The next sample does not follow the last one.
    fn cut(&mut self) {
        if let Some(feedback) = &mut self.feedback {
            feedback.cut();
        }
        if let Some(fine_tuning) = &mut self.fine_tuning {
            fine_tuning.restart();
        }
    }
}

impl WorkersLaw for DepartureRate {
    fn name(&self) -> &'static str {
        self.control.as_str()
    }

    fn on_tick(&mut self, now: Timestamp, activity: &Activity<'_>, leeway: Leeway) -> Concurrency {
        if let Some(sample) = self.sampling.on_tick(now, activity) {
            self.end_sample(&sample, leeway);
        }
        Concurrency::new(self.size.round() as u32)
    }

    fn on_finish(&mut self, _: Timestamp, finished: &Finished) {
        self.sampling.on_finish(finished);
    }

    fn set_targets(&mut self, classes: &Classes) {
        self.sampling.set_targets(classes);
        self.target.set_percentile(self.sampling.percentile());
        self.cut();
    }

    fn set_throughput(&mut self, target: PerSecond) {
        self.target.give(target);
    }

    fn on_shift(&mut self, _: Timestamp, _: &Activity<'_>) {
        self.sampling.restart();
        self.cut();
    }

    fn range(&self) -> RangeInclusive<Concurrency> {
        let [least, most] = self.range.map(|size| Concurrency::new(size as u32));
        least..=most
    }

    fn interval(&self) -> Duration {
        self.sampling.period()
    }

    fn strain(&self) -> Strain {
        let [least, most] = self.range;
        if least >= most {
            Strain::Fixed
        } else if self.size >= most || self.is_overwhelmed() {
            Strain::Spent
        } else if self.size <= least {
            Strain::Eased
        } else {
            Strain::Partial
        }
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        let mut show = |name, value| visit(Reading { name, class: None, value });
        show("workers_count", self.size.round());
        show("throughput_per_second", self.throughput);
        show("throughput_target_per_second", self.reference);
        show("mean_per_percentile_ratio", self.target.alpha());
        if let Some(model) = self.feedback.as_ref().and_then(Feedback::model) {
            show("model_a_ratio", model.a());
            show("model_b_per_second", model.b());
        }
    }
}
