//! The P controller, and the pre-compensator that removes its steady-state error.
//!
//! **Intuition.** Twice as far off, twice the push. At the goal there is no push,
//! so a plant that needs one to stay there never quite gets there.
//!
//! **Mechanism** [Fair07 eq. 22, 25–28]. `u(k) = Kp·e(k)` in the loop of
//! [`closed_loop`](super::closed_loop):
//! ```text
//!            Kp·b
//! F(z) = ──────────────    pole p = a − Kp·b    output after a step of 1:
//!         1 − p·z⁻¹                              y(n) = F(1)·(1 − pⁿ⁺¹)
//! F(1) = Kp·b ÷ (1 − p)    1 − F(1) = (1 − a) ÷ (1 − p)
//! ```
//! It is stable for |p| < 1 (27), has no overshoot for p ≥ 0 and |p| of it for p < 0,
//! and settles within 2 % from the first n on with |p|ⁿ⁺¹ ≤ 0.02. A steady-state error
//! remains unless the plant itself keeps what it has (a = 1).
//!
//! **Placement.** p is the slowest pole that settles in time, for such a loop makes
//! the least of noise and forgives the most: a plant whose b is really m times as
//! large is stable for m < (1 + a) ÷ (a − p), which for a = 1 is 2 ÷ (1 − p) and twice
//! as much at p = 0.5 as at p = 0. It is no slower than half the plant's own pole
//! (with p = a there is no control left). A plant with a ≤ 0 is faster than any
//! such p, and p is as far on the negative side as overshoot and settling time let it.
//!
//! **Pre-compensator** [Fair07 fig. 4-10]. The reference is multiplied by
//! `α = 1 ÷ F(1) = (1 − p) ÷ (a − p)` before the loop sees it: no steady-state error
//! under the model. It corrects ahead, by the model, and measures nothing: if b is
//! really m times as large, the output ends at
//! `m·(1 − p) ÷ (1 − a + m·(a − p))` of the reference. At a = 1 that is 1 for any m,
//! and the farther a is from 1, the more of the error of the model stays. Integral
//! action ([`Pi`](super::Pi)) would remove it; the thesis identifies the model anew.
//!
//! **Slips of the print.** (26) and (28) take the impulse response for the output
//! and the unit step `u[n]` of the transform's table for the input; sums and not
//! products of them make the output. (29) asks for F(1) = 1; (30) however sets F(1)'s
//! *denominator* to 1, which yields `Kp = a ÷ b` (31), the dead-beat pole p = 0, and
//! F(1) = a. The α = 1 ÷ a of (33) then repairs that: the two together are right, and
//! are [`P::deadbeat`] with its pre-compensator here. Neither exists for a = 0.

use super::Arx;
use super::closed_loop::{Controller, Demands, Design, InfeasibleDesign, controllable, examine};

/// `u(k) = Kp·(α·r(k) − y(k−1))`, with α = 1 unless pre-compensated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct P {
    kp: f64,
    precompensator: f64,
}

impl P {
    /// The gain that puts the closed loop's pole at `pole`.
    ///
    /// # Errors
    /// [`InfeasibleDesign`] if `b` is nothing or the pole is not within the unit circle.
    pub fn with_pole(plant: Arx, pole: f64) -> Result<Self, InfeasibleDesign> {
        let b = controllable(plant)?;
        let is_stable = pole.abs() < 1.0;
        if !is_stable {
            return Err(InfeasibleDesign::Unstable { radius: pole.abs() });
        }
        let kp = (plant.a() - pole) / b;
        if kp.is_finite() {
            Ok(Self { kp, precompensator: 1.0 })
        } else {
            Err(InfeasibleDesign::Uncontrollable { b })
        }
    }

    /// `Kp = a ÷ b` [Fair07 eq. 31]: at its end within one sample, if the model is exact.
    ///
    /// # Errors
    /// [`InfeasibleDesign::Uncontrollable`] if `b` is nothing.
    pub fn deadbeat(plant: Arx) -> Result<Self, InfeasibleDesign> {
        Self::with_pole(plant, 0.0)
    }

    /// The gentlest gain that meets the demands.
    ///
    /// # Errors
    /// [`InfeasibleDesign`] if there is none.
    pub fn place(plant: Arx, demands: Demands) -> Result<Design<Self>, InfeasibleDesign> {
        let pole = slowest_pole(plant.a(), demands)?;
        let controller = Self::with_pole(plant, pole)?;
        let steady_gain = steady_gain(plant.a(), pole);
        examine(plant, demands, controller, steady_gain, demands.overshoot())
            .ok_or_else(|| InfeasibleDesign::Settling { samples: demands.settling() })
    }

    /// The same with the pre-compensator that removes the steady-state error.
    ///
    /// # Errors
    /// [`InfeasibleDesign`] if there is none.
    pub fn place_precompensated(
        plant: Arx,
        demands: Demands,
    ) -> Result<Design<Self>, InfeasibleDesign> {
        let design = Self::place(plant, demands)?;
        let controller = design.controller.precompensated(plant)?;
        Ok(Design { controller, steady_gain: 1.0, ..design })
    }

    /// The controller with the reference scaled by 1 ÷ F(1) under `plant`.
    ///
    /// # Errors
    /// [`InfeasibleDesign`] if the loop is not stable, or the output would stay at zero.
    pub fn precompensated(self, plant: Arx) -> Result<Self, InfeasibleDesign> {
        let radius = self.pole(plant).abs();
        let is_stable = radius < 1.0;
        if !is_stable {
            return Err(InfeasibleDesign::Unstable { radius });
        }
        let precompensator = 1.0 / steady_gain(plant.a(), self.pole(plant));
        if !precompensator.is_finite() {
            return Err(InfeasibleDesign::Uncontrollable { b: self.kp * plant.b() });
        }
        Ok(Self { precompensator, ..self })
    }

    /// Kp.
    pub const fn kp(&self) -> f64 {
        self.kp
    }

    /// α, the factor on the reference; 1 without a pre-compensator.
    pub const fn precompensator(&self) -> f64 {
        self.precompensator
    }

    /// a − Kp·b: the pole of the loop that this gain makes with `plant`, which need
    /// not be the model that it was designed for.
    pub fn pole(&self, plant: Arx) -> f64 {
        plant.a() - self.kp * plant.b()
    }
}

/// F(1) of a loop with its pole at `pole`.
pub(super) fn steady_gain(a: f64, pole: f64) -> f64 {
    (a - pole) / (1.0 - pole)
}

/// The slowest pole that settles in time and leaves the loop something to do.
pub(super) fn slowest_pole(a: f64, demands: Demands) -> Result<f64, InfeasibleDesign> {
    let slowest = demands.radius_max();
    if a > 0.0 {
        return Ok(slowest.min(a / 2.0));
    }
    let pole = -slowest.min(demands.overshoot());
    if pole < a {
        return Ok(pole);
    }
    let least = -a;
    Err(if least < slowest {
        InfeasibleDesign::Overshoot { asked: demands.overshoot(), least }
    } else {
        InfeasibleDesign::Settling { samples: demands.settling() }
    })
}

impl Controller for P {
    fn control(&mut self, reference: f64, measured: f64) -> f64 {
        self.kp * (self.precompensator * reference - measured)
    }
}

#[cfg(test)]
mod tests {
    use super::super::closed_loop::step_response;
    use super::*;

    fn model(a: f64, b: f64) -> Arx {
        Arx::new(a, b).unwrap()
    }

    fn end(plant: Arx, controller: P) -> f64 {
        step_response(plant, controller, 1.0).nth(2000).unwrap()
    }

    #[test]
    fn the_response_is_the_closed_form() {
        let plant = model(0.8, 2.0);
        for pole in [0.5, 0.0, -0.3] {
            let controller = P::with_pole(plant, pole).unwrap();
            let response = step_response(plant, controller, 1.0).take(20);
            for (n, y) in response.enumerate() {
                let expected = steady_gain(0.8, pole) * (1.0 - pole.powi(n as i32 + 1));
                assert!((y - expected).abs() < 1e-12, "pole {pole}, n {n}: {y}");
            }
        }
    }

    #[test]
    fn a_grid_of_models_settles_in_time_without_overshoot() {
        for a in [0.05, 0.3, 0.6, 0.9, 1.0, 1.1, 1.5] {
            for b in [0.01, 1.0, -40.0] {
                for settling in [1, 4, 16, 100] {
                    let demands = Demands::new(settling, 0.0).unwrap();
                    let design = P::place(model(a, b), demands).unwrap();
                    assert!(design.settling <= settling && design.overshoot == 0.0, "{design:?}");
                    let error = (1.0 - a) / (1.0 - design.controller.pole(model(a, b)));
                    assert!((1.0 - error - design.steady_gain).abs() < 1e-9, "{design:?}");
                    let whole = P::place_precompensated(model(a, b), demands).unwrap().controller;
                    assert!((end(model(a, b), whole) - 1.0).abs() < 1e-9, "a {a}, b {b}");
                }
            }
        }
    }

    #[test]
    fn a_plant_without_memory_needs_an_overshoot() {
        let demands = |overshoot| Demands::new(8, overshoot).unwrap();
        let error = P::place(model(-0.2, 1.0), demands(0.1)).unwrap_err();
        assert_eq!(error, InfeasibleDesign::Overshoot { asked: 0.1, least: 0.2 });
        let design = P::place(model(-0.2, 1.0), demands(0.3)).unwrap();
        assert!((design.overshoot - 0.3).abs() < 1e-9, "{design:?}");
        let error = P::place(model(-0.9, 1.0), demands(2.0)).unwrap_err();
        assert_eq!(error, InfeasibleDesign::Settling { samples: 8 });
    }

    #[test]
    fn the_thesis_settings_are_the_deadbeat_pole_and_its_compensator() {
        let plant = model(0.8, 2.0);
        let printed = P::deadbeat(plant).unwrap().precompensated(plant).unwrap();
        assert!((printed.kp() - 0.8 / 2.0).abs() < 1e-12);
        assert!((printed.precompensator() - 1.0 / 0.8).abs() < 1e-12);
        // Without α the output ends at a, as (32) says.
        assert!((end(plant, P::deadbeat(plant).unwrap()) - 0.8).abs() < 1e-12);
        assert!(step_response(plant, printed, 1.0).take(10).all(|y| (y - 1.0).abs() < 1e-12));
        let memoryless = model(0.0, 2.0);
        assert!(P::deadbeat(memoryless).unwrap().precompensated(memoryless).is_err());
    }

    #[test]
    fn with_a_wrong_model_the_compensated_output_ends_where_the_formula_says() {
        let designed_for = model(0.8, 2.0);
        let pole = 0.5;
        let controller =
            P::with_pole(designed_for, pole).unwrap().precompensated(designed_for).unwrap();
        for m in [0.5, 0.8, 1.0, 1.25, 2.0] {
            let expected = m * (1.0 - pole) / (1.0 - 0.8 + m * (0.8 - pole));
            assert!((end(model(0.8, 2.0 * m), controller) - expected).abs() < 1e-9, "m = {m}");
        }
        assert!((end(model(0.8, 4.0), controller) - 1.25).abs() < 1e-9);
        // Where the plant keeps what it has, no error of b shows.
        let keeper = model(1.0, 2.0);
        let controller = P::with_pole(keeper, pole).unwrap().precompensated(keeper).unwrap();
        assert!((end(model(1.0, 4.0), controller) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_slower_pole_forgives_a_larger_error_of_the_model() {
        let plant = model(1.0, 1.0);
        let at = |pole: f64, m: f64| P::with_pole(plant, pole).unwrap().pole(model(1.0, m)).abs();
        assert!(at(0.0, 1.9) < 1.0 && at(0.0, 2.1) > 1.0);
        assert!(at(0.5, 3.9) < 1.0 && at(0.5, 4.1) > 1.0);
    }

    #[test]
    fn what_cannot_be_controlled_or_is_not_stable_is_rejected() {
        let demands = Demands::new(4, 0.1).unwrap();
        let error = P::place(model(0.5, 0.0), demands).unwrap_err();
        assert_eq!(error, InfeasibleDesign::Uncontrollable { b: 0.0 });
        let error = P::with_pole(model(0.5, 1.0), -1.0).unwrap_err();
        assert_eq!(error, InfeasibleDesign::Unstable { radius: 1.0 });
        assert!(P::with_pole(model(0.5, 1.0), f64::NAN).is_err());
        let strong = P::with_pole(model(0.9, 1.0), 0.0).unwrap();
        assert!(strong.precompensated(model(0.9, 3.0)).is_err());
    }
}
