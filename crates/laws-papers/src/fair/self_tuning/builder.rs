//! The builder of the self-tuning law: its constants, validated.

use std::time::Duration;

use tamarisk_control::{Classes, PerSecond, Ratio};

use super::{DEPTH, Form, Promise, RATE_MAX, SampleSums, SelfTuning};
use crate::fair::tuned::Tuned;
use crate::fair::{Demands, OnLineFit, PercentileMapping};
use tamarisk_laws::TokenBucket;
use tamarisk_laws::constants::constants;
use tamarisk_laws::period_samples::PeriodSamples;

/// As the thesis's shortest [Fair07 §5.2].
const PERIOD_MAX: Duration = Duration::from_secs(2);
/// Below it, a stage of a hundred a second finishes next to nothing in a sample.
const PERIOD_MIN: Duration = Duration::from_millis(20);
/// Ours: two targets, and about what a queue's noise is worth.
const DEMANDS: Demands = Demands::of(4, 0.1);
/// More responses of one sample say nothing new about its percentile.
const RESPONSES: usize = 1000;

constants! {
    /// Of [`SelfTuning`].
    pub(crate) struct SelfTuningConstants {
        // 80 ms of a target of 100 ms [Fair07 §5.3].
        /// the share of the target to aim at
        aim_ratio: Ratio = 0.8 in 0.05..=1.0,
        // Ours: about fifty samples are remembered.
        /// λ of the identification
        forgetting_ratio: Ratio = 0.98 in 0.8..=1.0,
    }
}

/// Sets the constants of [`SelfTuning`].
#[derive(Clone, Debug)]
#[must_use]
pub struct SelfTuningBuilder<'a> {
    classes: &'a Classes,
    form: Form,
    constants: SelfTuningConstants,
    period: Option<Duration>,
    demands: Demands,
}

/// Why the constants of [`SelfTuning`] do not go together.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InvalidSelfTuning {
    /// No time at all, or more than a day.
    #[error("a sample cannot last {0:?}")]
    Period(Duration),
    /// No event could be on time.
    #[error("the share of the target to aim at cannot be {0}")]
    Aim(Ratio),
    /// The on-line identification would remember too little.
    #[error(transparent)]
    Forgetting(#[from] crate::fair::InvalidForgetting),
    /// The demands cannot be met.
    #[error(transparent)]
    Demands(#[from] crate::fair::InfeasibleDesign),
}

impl<'a> SelfTuningBuilder<'a> {
    pub(super) fn new(classes: &'a Classes, form: Form) -> Self {
        let constants = SelfTuningConstants::default();
        Self { classes, form, constants, period: None, demands: DEMANDS }
    }

    pub(crate) fn constants(mut self, constants: SelfTuningConstants) -> Self {
        self.constants = constants;
        self
    }

    /// How long a sample lasts. Default: half the strictest target, 20 ms to 2 s.
    pub fn period(mut self, period: Duration) -> Self {
        self.period = Some(period);
        self
    }

    /// The share of the target to aim at. Default 0.8.
    pub fn aim(mut self, share: Ratio) -> Self {
        self.constants.aim_ratio = share;
        self
    }

    /// Settling time in samples, and overshoot. Default 4 and 0.1.
    pub fn demands(mut self, demands: Demands) -> Self {
        self.demands = demands;
        self
    }

    /// λ of the identification. Default 0.98.
    pub fn forgetting(mut self, factor: Ratio) -> Self {
        self.constants.forgetting_ratio = factor;
        self
    }

    /// The law, if the constants go together.
    ///
    /// # Errors
    /// [`InvalidSelfTuning`] says which do not.
    pub fn build(self) -> Result<SelfTuning, InvalidSelfTuning> {
        const DAY: Duration = Duration::from_secs(24 * 3600);
        if let Some(period) = self.period
            && (period.is_zero() || period > DAY)
        {
            return Err(InvalidSelfTuning::Period(period));
        }
        if self.constants.aim_ratio == Ratio::ZERO {
            return Err(InvalidSelfTuning::Aim(self.constants.aim_ratio));
        }
        let identification = OnLineFit::new(self.constants.forgetting_ratio)?;
        let tuned = Tuned::new(self.form.placement(), self.demands, identification)?;
        Ok(self.law_with(tuned))
    }

    /// The law with the default constants, which are known to go together.
    pub(super) fn law(self) -> SelfTuning {
        self.build().expect("the default demands can be met where events are conserved")
    }

    fn law_with(self, tuned: Tuned) -> SelfTuning {
        let promise = Promise::new(self.classes, self.constants.aim_ratio, self.period);
        let rate = PerSecond::new(RATE_MAX).unwrap_or(PerSecond::ZERO);
        SelfTuning {
            form: self.form,
            mapping: PercentileMapping::new(Ratio::saturating(promise.percentile)),
            promise,
            tuned,
            bucket: TokenBucket::new(rate, DEPTH),
            began: None,
            sample: SampleSums::default(),
            responses: PeriodSamples::new(RESPONSES),
            departure_rate: None,
            population_wanted: 0.0,
            base_rate: RATE_MAX,
            u: 0.0,
        }
    }
}

impl Promise {
    /// `period` as far as it does not follow from the targets.
    fn new(classes: &Classes, aim_share: Ratio, period: Option<Duration>) -> Self {
        let strictest = classes.strictest();
        Self {
            aim_share,
            aim: strictest.mul_f64(aim_share.get()),
            targets: classes.targets().map(|it| it.response_time().as_secs_f64()).collect(),
            strictest: strictest.as_secs_f64(),
            percentile: classes.targets().map(|it| it.at().get()).fold(0.0, f64::max),
            period: period.unwrap_or_else(|| (strictest / 2).clamp(PERIOD_MIN, PERIOD_MAX)),
            period_follows: period.is_none(),
        }
    }

    /// The same for other targets.
    pub(super) fn renewed(&self, classes: &Classes) -> Self {
        Self::new(classes, self.aim_share, (!self.period_follows).then_some(self.period))
    }
}

#[cfg(test)]
mod tests {
    use tamarisk_control::Target;

    use super::*;

    fn check(
        set: impl FnOnce(SelfTuningBuilder<'_>) -> SelfTuningBuilder<'_>,
    ) -> Option<InvalidSelfTuning> {
        let classes = Classes::single(Target::p90(Duration::from_secs(1)).unwrap());
        set(SelfTuning::builder(&classes, Form::Pd)).build().err()
    }

    #[test]
    fn the_defaults_go_together() {
        let classes = Classes::single(Target::p90(Duration::from_secs(1)).unwrap());
        for form in Form::ALL {
            assert_eq!(SelfTuning::builder(&classes, form).build().err(), None);
            assert_eq!(SelfTuning::new(&classes, form).form, form);
        }
    }

    #[test]
    fn constants_without_sense_are_rejected() {
        assert!(check(|builder| builder.period(Duration::ZERO)).is_some());
        assert!(check(|builder| builder.period(Duration::MAX)).is_some());
        assert!(check(|builder| builder.aim(Ratio::ZERO)).is_some());
        assert!(check(|builder| builder.forgetting(Ratio::saturating(0.5))).is_some());
    }

    #[test]
    fn the_period_is_half_the_target_within_bounds() {
        let check = |target_ms, period_ms| {
            let target = Target::p90(Duration::from_millis(target_ms)).unwrap();
            let law = SelfTuning::new(&Classes::single(target), Form::P);
            assert_eq!(law.promise.period, Duration::from_millis(period_ms));
        };
        check(1000, 500);
        check(5, 20);
        check(60_000, 2000);
    }
}
