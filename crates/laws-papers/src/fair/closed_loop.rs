//! Controller design for a closed loop: demands on settling and overshoot, pole placement, step
//! responses.
//!
//! **The loop** [Fair07 fig. 4-8]. A stage follows its input within the sample, so
//! the newest output cannot be known when the input is chosen. The delay sits in the
//! feedback path:
//! ```text
//! e(k) = r(k) − y(k−1)      u(k) = C(e)      y(k) = a·y(k−1) + b·u(k)
//! F(z) = C·G ÷ (1 + C·G·z⁻¹)                                        (20)
//! ```
//! Every pole of F within the unit circle: the loop is stable. A pole at distance
//! `r` from the centre dies out like `rⁿ`, a pair at the angles ±θ swings once in
//! `2π ÷ θ` samples. The zeros of F, which no placement of poles moves, decide how
//! much of each is seen: a design has to be checked on the whole response.
//!
//! **What is asked** ([`Demands`]). After a step of the reference the output is, from
//! the settling time on, within 2 % of where it ends, and never goes beyond its end
//! by more than the overshoot. Sample 0 is the first one that sees the step.
//!
//! **Where the thesis takes another way, and errs.** It sets the *impulse* response
//! to zero at the settling time (eq. 43–45, 49) and calls the sum up to there the
//! final output. That response is the change of the output from one sample to the
//! next: its zero marks an extreme of the step response, a peak or a trough, not its
//! end. The test `the_printed_condition_places_the_peak` shows it. The poles are
//! therefore searched for here: those within `0.02^(1 ÷ (settling + 1))` of the centre
//! die out in time, and of these the gentlest that meet the demands in simulation
//! are taken.

use super::Arx;

/// The customary band around the final value.
const BAND: f64 = 0.02;

/// What differs by less is the same: a pole on the bound itself settles in time.
const ROUNDING: f64 = 1e-9;

/// More samples to settle in are no demand, and each costs time to check.
const SETTLING_MAX: u32 = 1000;

/// An input that does less than this is none.
pub(super) const B_MIN: f64 = 1e-9;

/// What the response to a step of the reference must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demands {
    settling: u32,
    overshoot: f64,
}

/// Demands that mean nothing.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum InvalidDemands {
    /// None, or so many that it is no demand.
    #[error("a settling time of {0} samples is not between 1 and {SETTLING_MAX}")]
    Settling(u32),
    /// Negative, infinite or NaN.
    #[error("an overshoot of {0} is not a finite share of zero or more")]
    Overshoot(f64),
}

impl Demands {
    /// Within 2 % of the end from the sample `settling` on, and beyond it by no more
    /// than `overshoot` times the end at any time.
    ///
    /// # Errors
    /// [`InvalidDemands`] if either means nothing.
    pub fn new(settling: u32, overshoot: f64) -> Result<Self, InvalidDemands> {
        if !(1..=SETTLING_MAX).contains(&settling) {
            return Err(InvalidDemands::Settling(settling));
        }
        if !(overshoot.is_finite() && overshoot >= 0.0) {
            return Err(InvalidDemands::Overshoot(overshoot));
        }
        Ok(Self { settling, overshoot })
    }

    /// For demands that are known to mean something.
    pub(super) const fn of(settling: u32, overshoot: f64) -> Self {
        Self { settling, overshoot }
    }

    /// Samples until the output stays within 2 % of its end.
    pub const fn settling(&self) -> u32 {
        self.settling
    }

    /// The greatest share of the end by which the output may exceed it.
    pub const fn overshoot(&self) -> f64 {
        self.overshoot
    }

    /// The same with another overshoot.
    #[must_use]
    pub(super) const fn with_overshoot(self, overshoot: f64) -> Self {
        Self { overshoot, ..self }
    }

    /// Poles no farther from the centre than this die out in time.
    pub(super) fn radius_max(&self) -> f64 {
        BAND.powf(1.0 / f64::from(self.settling + 1))
    }
}

/// Why no gains can be given.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum InfeasibleDesign {
    /// The input does nothing to the output, so no gain helps.
    #[error("the input hardly moves the output (b = {b:e}): no gain can control it")]
    Uncontrollable {
        /// The model's coefficient.
        b: f64,
    },
    /// The closed loop would not come to rest.
    #[error("the closed loop has a pole at {radius} from the centre and is not stable")]
    Unstable {
        /// Distance of the farthest pole from the centre; stable below 1.
        radius: f64,
    },
    /// No placement settles in time with so little overshoot.
    #[error("an overshoot of {asked} cannot be had within the settling time; {least} can")]
    Overshoot {
        /// The share asked for.
        asked: f64,
        /// The least of the placements that settle in time.
        least: f64,
    },
    /// No placement settles in time, whatever the overshoot.
    #[error("no placement of the poles settles within {samples} samples")]
    Settling {
        /// Samples asked for.
        samples: u32,
    },
}

/// A control law in its smallest form: an error in, an input for the plant out.
pub trait Controller {
    /// u(k) for the reference r(k), the last output y(k−1) being `measured`.
    fn control(&mut self, reference: f64, measured: f64) -> f64;

    /// What was really done, where the plant could not take u(k) as it was.
    fn applied(&mut self, _u: f64) {}
}

/// Gains and what they amount to under the model that they were made for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Design<C> {
    /// The controller, at rest.
    pub controller: C,
    /// F(1): where the output ends after a step of 1; 1 means no steady-state error.
    pub steady_gain: f64,
    /// The samples until the output stays within 2 % of its end.
    pub settling: u32,
    /// The greatest share of the end by which the output exceeds it.
    pub overshoot: f64,
}

/// y(0), y(1), … of `plant` under `controller` after a step of the reference from
/// 0 to `reference`, everything having been at rest.
pub fn step_response(
    plant: Arx,
    mut controller: impl Controller,
    reference: f64,
) -> impl Iterator<Item = f64> {
    let mut y = 0.0;
    std::iter::repeat_with(move || {
        let u = controller.control(reference, y);
        y = plant.predict(y, u);
        y
    })
}

/// Two poles of a closed loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Poles {
    /// A conjugate pair at `radius` and ±`angle` [Fair07 eq. 39].
    Pair { radius: f64, angle: f64 },
    /// Two on the real axis.
    Real(f64, f64),
}

impl Poles {
    /// p₁ + p₂ and p₁·p₂; the denominator of F is z² − sum·z + product.
    pub(super) fn sum_and_product(self) -> (f64, f64) {
        match self {
            Self::Pair { radius, angle } => (2.0 * radius * angle.cos(), radius * radius),
            Self::Real(first, second) => (first + second, first * second),
        }
    }
}

/// The distance of the farther root of z² − sum·z + product from the centre.
pub(super) fn pole_radius(sum: f64, product: f64) -> f64 {
    let discriminant = sum * sum - 4.0 * product;
    if discriminant < 0.0 { product.sqrt() } else { (sum.abs() + discriminant.sqrt()) / 2.0 }
}

/// Pairs and real poles within `radius_max`; finer than the demands distinguish.
pub(super) fn candidates(radius_max: f64) -> impl Iterator<Item = Poles> {
    const RADII: u32 = 24;
    const ANGLES: u32 = 16;
    const RATIOS: i32 = 8;
    let part = |of: u32, all: u32| f64::from(of) / f64::from(all);
    (0..=RADII).flat_map(move |index| {
        let radius = radius_max * part(index, RADII);
        let pairs = (1..=ANGLES).map(move |index| {
            let angle = std::f64::consts::PI * part(index, ANGLES);
            Poles::Pair { radius, angle }
        });
        let real = (-RATIOS..=RATIOS)
            .map(move |index| Poles::Real(radius, radius * f64::from(index) / f64::from(RATIOS)));
        pairs.chain(real)
    })
}

/// The gentlest design that meets the demands: the one with the least first input
/// `first_input(&controller)` in answer to a step.
pub(super) fn gentlest<C: Controller + Copy>(
    plant: Arx,
    demands: Demands,
    controllers: impl Iterator<Item = C>,
    steady_gain: impl Fn(&C) -> f64,
    first_input: impl Fn(&C) -> f64,
) -> Result<Design<C>, InfeasibleDesign> {
    let mut best: Option<(f64, Design<C>)> = None;
    let mut least = f64::INFINITY;
    for controller in controllers {
        let cost = first_input(&controller).abs();
        let settled_by_less = best.as_ref().is_some_and(|(least_cost, _)| *least_cost <= cost);
        if settled_by_less {
            continue;
        }
        // What overshoots more than is asked and more than another need not be known.
        let overshoot_max = demands.overshoot.max(least);
        let steady_gain = steady_gain(&controller);
        let Some(design) = examine(plant, demands, controller, steady_gain, overshoot_max) else {
            continue;
        };
        least = least.min(design.overshoot);
        if design.overshoot <= demands.overshoot {
            best = Some((cost, design));
        }
    }
    match best {
        Some((_, design)) => Ok(design),
        None if least.is_finite() => {
            Err(InfeasibleDesign::Overshoot { asked: demands.overshoot, least })
        }
        None => Err(InfeasibleDesign::Settling { samples: demands.settling }),
    }
}

/// What `controller` amounts to, if it settles in time and within `overshoot_max`.
pub(super) fn examine<C: Controller + Copy>(
    plant: Arx,
    demands: Demands,
    controller: C,
    steady_gain: f64,
    overshoot_max: f64,
) -> Option<Design<C>> {
    if !(steady_gain.is_finite() && steady_gain > 0.0) {
        return None;
    }
    // By four times the settling time poles within `radius_max` have died out to BAND⁴.
    let horizon = 4 * (demands.settling as usize + 1);
    let (mut settling, mut overshoot) = (0, 0.0_f64);
    for (sample, y) in step_response(plant, controller, 1.0).take(horizon).enumerate() {
        let beyond = y / steady_gain - 1.0;
        overshoot = overshoot.max(beyond);
        if overshoot > overshoot_max + ROUNDING {
            return None;
        }
        let is_within = beyond.abs() <= BAND + ROUNDING;
        if !is_within {
            settling = sample as u32 + 1;
            if settling > demands.settling {
                return None;
            }
        }
    }
    let overshoot = if overshoot < ROUNDING { 0.0 } else { overshoot };
    Some(Design { controller, steady_gain, settling, overshoot })
}

/// The model's `b`, if it is enough to control with.
pub(super) fn controllable(plant: Arx) -> Result<f64, InfeasibleDesign> {
    let b = plant.b();
    if b.abs() < B_MIN { Err(InfeasibleDesign::Uncontrollable { b }) } else { Ok(b) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{P, Pd, Pi};
    use super::*;

    fn any_coefficient() -> impl Strategy<Value = f64> {
        prop_oneof![4 => -2.0..2.0_f64, 1 => Just(0.0), 1 => Just(1.0), 1 => -1e300..1e300_f64]
    }

    /// The first hundred outputs are finite, and those in the band that must be.
    fn check<C: Controller + Copy>(
        plant: Arx,
        demands: Demands,
        design: Result<Design<C>, InfeasibleDesign>,
    ) {
        let Ok(design) = design else { return };
        let settled = demands.settling as usize;
        for (sample, y) in step_response(plant, design.controller, 1.0).take(100).enumerate() {
            let beyond = y / design.steady_gain - 1.0;
            assert!(beyond <= demands.overshoot + 1e-6, "{plant:?}, sample {sample}: {y}");
            assert!(sample < settled || beyond.abs() <= BAND + 1e-6, "{plant:?}, {sample}: {y}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

        #[test]
        fn whatever_the_model_a_design_does_what_was_asked_or_is_an_error(
            a in any_coefficient(),
            b in any_coefficient(),
            settling in 1..40_u32,
            overshoot in prop_oneof![Just(0.0), 0.0..2.0_f64],
        ) {
            let (plant, demands) = (Arx::of(a, b), Demands::of(settling, overshoot));
            check(plant, demands, P::place(plant, demands));
            let compensated = P::place_precompensated(plant, demands);
            check(plant, demands, compensated);
            check(plant, demands, Pi::place(plant, demands));
            check(plant, demands, Pd::place(plant, demands));
        }
    }

    #[test]
    fn demands_without_meaning_are_rejected() {
        assert!(Demands::new(0, 0.1).is_err());
        assert!(Demands::new(1001, 0.1).is_err());
        assert!(Demands::new(5, -0.1).is_err());
        assert!(Demands::new(5, f64::NAN).is_err());
    }

    #[test]
    fn the_radius_is_that_of_the_farther_pole() {
        let check = |poles: Poles, expected: f64| {
            let (sum, product) = poles.sum_and_product();
            assert!((pole_radius(sum, product) - expected).abs() < 1e-9, "{poles:?}");
        };
        check(Poles::Pair { radius: 0.7, angle: 1.0 }, 0.7);
        check(Poles::Real(0.2, -0.9), 0.9);
        check(Poles::Real(1.5, 0.5), 1.5);
        check(Poles::Real(0.0, 0.0), 0.0);
    }

    #[test]
    fn candidates_lie_within_the_radius() {
        for poles in candidates(0.6) {
            let (sum, product) = poles.sum_and_product();
            assert!(pole_radius(sum, product) <= 0.6 + 1e-9, "{poles:?}");
        }
    }
}
