//! SERT's threshold controller: the more events are lost, the sooner overdue events are terminated.
//!
//! **Intuition.** One in two hundred requests takes a hundred times as long as the
//! others, and half of all work goes into it. At leisure let it run: its answer may
//! be of use yet. When others are rejected, end it once it is overdue, and a
//! hundred short ones fit into its place [SERT06 §2.2].
//!
//! **Why the obvious way fails.** A fixed limit is wrong twice: a short one ends
//! requests that there was time for, a long one lets them crowd out the rest
//! [SERT06 fig. 15]. Rejecting them on arrival would be better still, but they do
//! not look long from outside.
//!
//! **Mechanism** [SERT06 §3.2]. After each interval, with
//! `p = lost ÷ arrived` in it, and for each class its bounds LB and UB:
//! ```text
//! limit = LB + F(p) · (UB − LB)
//! F(p)  = 1  if p ≤ LW;   ((HW − p) ÷ (HW − LW))^α  between;   0  if p ≥ HW
//! ```
//! LB is the time that every event is to be allowed; at UB its result is of no use.
//!
//! **What the paper leaves open, and we chose.**
//! - Its bounds were measured for two services [SERT06 table 2]. Ours follow from
//!   the target: LB is the target (an event that has not run so long may yet be in
//!   time), UB ten times as much. Table 2 has 30 and 5 times its LB.
//! - An interval in which nothing arrived lost nothing: p is 0.
//! - Losses are those of the whole stage, as printed: it is the work of one class
//!   that turns the others away.
//! - A limit holds from an event's begin: an event that began under a longer one keeps it. The paper's
//!   timer has a "selected processing time limit" for each request [SERT06 §3.1], and does not say
//!   whether a threshold that falls meanwhile ends what has run for longer.
//!
//! **Limits.** What is ended counts as lost, so the law sees its own effect; with
//! LW at 5 % of losses it stays where it is only if fewer than that are long.

use std::ops::RangeInclusive;
use std::time::Duration;

use tamarisk_control::{
    Activity, ClassId, Classes, Leeway, Ratio, Reading, Strain, Target, TerminationLaw, Timestamp,
};

use tamarisk_laws::constants::constants;

constants! {
    /// Of [`TerminationThreshold`]: [SERT06 table 2], and bounds by the target.
    pub(crate) struct TerminationThresholdConstants {
        /// LB, in targets
        lower_targets_ratio: f64 = 1.0 in 0.01..=1000.0,
        /// UB, in targets
        upper_targets_ratio: f64 = 10.0 in 0.01..=1000.0,
        /// the monitoring period
        interval_seconds: Duration = 10.0 in 0.1..=3600.0,
        /// alpha: the greater, the sooner LB
        scaling_exponent: f64 = 4.0 in 0.0..=100.0,
        /// LW: losses up to which UB applies
        low_watermark_ratio: Ratio = 0.05 in 0.0..=1.0,
        /// HW: losses from which on LB does
        high_watermark_ratio: Ratio = 0.15 in 0.0..=1.0,
    }
}

/// A limit for each class on how long its events run, set by what is lost.
#[derive(Clone, Debug)]
pub struct TerminationThreshold {
    parameters: Settings,
    classes: Box<[Bounds]>,
    /// F(p), as it applies now.
    share: f64,
    interval_began: Option<(Timestamp, Counts)>,
}

/// One class's bounds.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    lower: Duration,
    upper: Duration,
    /// They are these multiples of the target, and move with it.
    of_target: Option<(f64, f64)>,
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    interval: Duration,
    alpha: f64,
    high: f64,
    low: f64,
}

#[derive(Clone, Copy, Debug)]
struct Counts {
    offered: u64,
    lost: u64,
}

impl TerminationThreshold {
    /// The law with the published parameters, and bounds by the targets.
    pub fn new(classes: &Classes) -> Self {
        Self::builder(classes).law()
    }

    /// The law with parameters of one's own.
    pub fn builder(classes: &Classes) -> TerminationThresholdBuilder {
        Self::with(classes, TerminationThresholdConstants::default())
    }

    pub(crate) fn with(
        classes: &Classes,
        constants: TerminationThresholdConstants,
    ) -> TerminationThresholdBuilder {
        let multiples = (constants.lower_targets_ratio, constants.upper_targets_ratio);
        TerminationThresholdBuilder {
            parameters: Settings {
                interval: constants.interval_seconds,
                alpha: constants.scaling_exponent,
                high: constants.high_watermark_ratio.get(),
                low: constants.low_watermark_ratio.get(),
            },
            targets: classes.targets().collect(),
            classes: classes.targets().map(|target| Bounds::of(target, multiples)).collect(),
        }
    }
}

impl Settings {
    /// F(p)
    fn share(&self, p: f64) -> f64 {
        if p <= self.low {
            1.0
        } else if p >= self.high {
            0.0
        } else {
            ((self.high - p) / (self.high - self.low)).powf(self.alpha)
        }
    }
}

impl Bounds {
    /// These multiples of `target`.
    fn of(target: Target, multiples: (f64, f64)) -> Self {
        let times = |multiple: f64| {
            let seconds = multiple * target.response_time().as_secs_f64();
            Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
        };
        let (lower, upper) = multiples;
        Self { lower: times(lower), upper: times(upper), of_target: Some(multiples) }
    }

    fn at(&self, share: f64) -> Duration {
        self.lower + (self.upper - self.lower).mul_f64(share)
    }
}

impl TerminationLaw for TerminationThreshold {
    fn name(&self) -> &'static str {
        "termination-threshold"
    }

    fn on_tick(&mut self, now: Timestamp, activity: &Activity<'_>, leeway: Leeway) {
        let counts = Counts { offered: activity.offered, lost: activity.lost };
        let (began, before) = *self.interval_began.get_or_insert((now, counts));
        if now.since(began) < self.parameters.interval {
            return;
        }
        self.interval_began = Some((now, counts));
        let arrived = counts.offered.saturating_sub(before.offered);
        let lost = counts.lost.saturating_sub(before.lost);
        let p = if arrived == 0 { 0.0 } else { lost as f64 / arrived as f64 };
        let share = self.parameters.share(p);
        let may = if share < self.share { leeway.may_press() } else { leeway.may_ease() };
        if may {
            self.share = share;
        }
    }

    fn limit(&self, class: ClassId) -> Option<Duration> {
        let limit = self.classes.get(class.index()).or_else(|| self.classes.first())?;
        Some(limit.at(self.share))
    }

    fn interval(&self) -> Duration {
        self.parameters.interval
    }

    fn strain(&self) -> Strain {
        if self.share >= 1.0 {
            Strain::Eased
        } else if self.share > 0.0 {
            Strain::Partial
        } else {
            Strain::Spent
        }
    }

    /// Bounds that were stated as times stay.
    fn set_targets(&mut self, classes: &Classes) {
        for (limit, target) in self.classes.iter_mut().zip(classes.targets()) {
            if let Some(multiples) = limit.of_target {
                *limit = Bounds::of(target, multiples);
            }
        }
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        for (index, limit) in self.classes.iter().enumerate() {
            let class = Some(ClassId::new(index));
            let value = limit.at(self.share).as_secs_f64();
            visit(Reading { name: "run_limit_seconds", class, value });
        }
    }
}

/// Sets the parameters of [`TerminationThreshold`]; each has a default.
#[derive(Clone, Debug)]
#[must_use]
pub struct TerminationThresholdBuilder {
    parameters: Settings,
    targets: Box<[Target]>,
    classes: Box<[Bounds]>,
}

/// Why the parameters of [`TerminationThreshold`] do not go together.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InvalidTerminationThreshold {
    /// The controller would run all the time.
    #[error("the controller cannot run every {0:?}")]
    Interval(Duration),
    /// A limit of nothing, one that falls as load does, or one beyond a day.
    #[error("events cannot be ended after {lower:?} under load and {upper:?} without")]
    Bounds {
        /// LB
        lower: Duration,
        /// UB
        upper: Duration,
    },
    /// LW must lie below HW.
    #[error("a low watermark of {low} is not below a high one of {high}")]
    Watermarks {
        /// LW
        low: Ratio,
        /// HW
        high: Ratio,
    },
    /// α is not a number of 0 or more.
    #[error("a scaling factor of {0} is none")]
    Scaling(f64),
}

impl TerminationThresholdBuilder {
    /// LB and UB of one class. Default: its target, and ten times as much. A class
    /// that the stage does not have is ignored.
    pub fn bounds(mut self, class: ClassId, bounds: RangeInclusive<Duration>) -> Self {
        if let Some(limit) = self.classes.get_mut(class.index()) {
            let (lower, upper) = bounds.into_inner();
            *limit = Bounds { lower, upper, of_target: None };
        }
        self
    }

    /// LB and UB of every class as multiples of its target. Default 1 and 10.
    pub fn bounds_in_targets(mut self, multiples: RangeInclusive<f64>) -> Self {
        let multiples = multiples.into_inner();
        self.classes = self.targets.iter().map(|&target| Bounds::of(target, multiples)).collect();
        self
    }

    /// The monitoring period. Default 10 s.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.parameters.interval = interval;
        self
    }

    /// α: 0 keeps UB until HW is reached; the greater, the sooner LB. Default 4.
    pub fn scaling(mut self, alpha: f64) -> Self {
        self.parameters.alpha = alpha;
        self
    }

    /// LW and HW: the losses up to which UB and from which on LB applies. Default
    /// 0.05 and 0.15.
    pub fn watermarks(mut self, low: Ratio, high: Ratio) -> Self {
        self.parameters.low = low.get();
        self.parameters.high = high.get();
        self
    }

    /// The law, if the parameters go together.
    ///
    /// # Errors
    /// [`InvalidTerminationThreshold`] says which do not.
    pub fn build(self) -> Result<TerminationThreshold, InvalidTerminationThreshold> {
        use InvalidTerminationThreshold as Invalid;
        const TEN_DAYS: Duration = Duration::from_secs(10 * 24 * 3600);
        let Settings { interval, alpha, high, low } = self.parameters;
        if interval.is_zero() {
            return Err(Invalid::Interval(interval));
        }
        for &Bounds { lower, upper, .. } in &self.classes {
            if lower.is_zero() || lower > upper || upper > TEN_DAYS {
                return Err(Invalid::Bounds { lower, upper });
            }
        }
        if low >= high {
            let (low, high) = (Ratio::saturating(low), Ratio::saturating(high));
            return Err(Invalid::Watermarks { low, high });
        }
        if !(alpha.is_finite() && alpha >= 0.0) {
            return Err(Invalid::Scaling(alpha));
        }
        Ok(self.law())
    }

    fn law(self) -> TerminationThreshold {
        let Self { parameters, classes, .. } = self;
        TerminationThreshold { parameters, classes, share: 1.0, interval_began: None }
    }
}

#[cfg(test)]
mod tests {
    use tamarisk_control::{Backlog, Concurrency, Target};

    use super::*;

    fn classes() -> Classes {
        Classes::single(Target::p90(Duration::from_millis(500)).unwrap())
    }

    /// The bounds of the ranking service [SERT06 table 2].
    fn ranking() -> TerminationThreshold {
        let bounds = Duration::from_millis(500)..=Duration::from_secs(15);
        TerminationThreshold::builder(&classes()).bounds(ClassId::DEFAULT, bounds).build().unwrap()
    }

    fn tick(law: &mut TerminationThreshold, second: u64, offered: u64, lost: u64, leeway: Leeway) {
        let backlog = Backlog {
            queued: &[0],
            running: &[0],
            queued_total: 0,
            running_total: 0,
            workers: Concurrency::ONE,
        };
        let activity = Activity { backlog, offered, lost, completed: 0, workers_idle: 0 };
        law.on_tick(Timestamp::ZERO + Duration::from_secs(second), &activity, leeway);
    }

    /// The limit, in seconds, after an interval in which `lost` of 1000 were lost.
    fn limit_after(lost: u64) -> f64 {
        let mut law = ranking();
        tick(&mut law, 0, 0, 0, Leeway::Either);
        tick(&mut law, 10, 1000, lost, Leeway::Either);
        law.limit(ClassId::DEFAULT).unwrap().as_secs_f64()
    }

    #[test]
    fn the_limit_falls_from_the_upper_to_the_lower_bound_as_losses_grow() {
        assert_eq!(limit_after(0), 15.0);
        assert_eq!(limit_after(50), 15.0);
        // ((0.15 − 0.10) ÷ 0.10)⁴ = 1/16; 0.5 + 14.5 ÷ 16
        assert!((limit_after(100) - 1.40625).abs() < 1e-6);
        assert_eq!(limit_after(150), 0.5);
        assert_eq!(limit_after(1000), 0.5);
    }

    #[test]
    fn it_is_revised_every_ten_seconds() {
        let mut law = ranking();
        tick(&mut law, 0, 0, 0, Leeway::Either);
        tick(&mut law, 9, 1000, 1000, Leeway::Either);
        assert_eq!(law.strain(), Strain::Eased);
        tick(&mut law, 10, 1000, 1000, Leeway::Either);
        assert_eq!(law.strain(), Strain::Spent);
        tick(&mut law, 20, 2000, 1000, Leeway::Either);
        assert_eq!(law.strain(), Strain::Eased);
    }

    #[test]
    fn an_interval_without_arrivals_lost_nothing() {
        let mut law = ranking();
        tick(&mut law, 0, 0, 0, Leeway::Either);
        tick(&mut law, 10, 1000, 1000, Leeway::Either);
        tick(&mut law, 20, 1000, 1000, Leeway::Either);
        assert_eq!(law.strain(), Strain::Eased);
    }

    #[test]
    fn counts_that_go_back_are_no_losses() {
        let mut law = ranking();
        tick(&mut law, 0, 1000, 1000, Leeway::Either);
        tick(&mut law, 10, 3, 2, Leeway::Either);
        assert_eq!(law.strain(), Strain::Eased);
    }

    #[test]
    fn it_moves_only_the_way_it_may() {
        let mut law = ranking();
        tick(&mut law, 0, 0, 0, Leeway::Either);
        tick(&mut law, 10, 1000, 1000, Leeway::Ease);
        assert_eq!(law.strain(), Strain::Eased);
        tick(&mut law, 20, 2000, 2000, Leeway::Press);
        tick(&mut law, 30, 3000, 2000, Leeway::Press);
        assert_eq!(law.strain(), Strain::Spent);
    }

    #[test]
    fn by_default_the_bounds_are_the_target_and_ten_times_as_much() {
        let mut law = TerminationThreshold::new(&classes());
        assert_eq!(law.limit(ClassId::DEFAULT), Some(Duration::from_secs(5)));
        tick(&mut law, 0, 0, 0, Leeway::Either);
        tick(&mut law, 10, 1000, 1000, Leeway::Either);
        assert_eq!(law.limit(ClassId::new(9)), Some(Duration::from_millis(500)));
    }

    #[test]
    fn parameters_without_sense_are_rejected() {
        let builder = || TerminationThreshold::builder(&classes());
        let second = Duration::from_secs(1);
        let wrong_way = second..=second / 2;
        assert!(builder().build().is_ok());
        assert!(builder().interval(Duration::ZERO).build().is_err());
        assert!(builder().bounds(ClassId::DEFAULT, wrong_way).build().is_err());
        assert!(builder().bounds(ClassId::DEFAULT, second..=Duration::MAX).build().is_err());
        assert!(builder().watermarks(Ratio::ONE, Ratio::ONE).build().is_err());
        assert!(builder().scaling(f64::NAN).build().is_err());
    }
}
