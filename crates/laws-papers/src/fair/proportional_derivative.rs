//! The PD controller: its output follows the error and the change of the error.
//!
//! **Intuition.** An error that grows deserves more than its size, one that shrinks
//! less. What does not change adds nothing, so PD leaves the steady-state error
//! that P leaves.
//!
//! **Mechanism** [Fair07 eq. 22, 24, 50]. In the loop of
//! [`closed_loop`](super::closed_loop):
//! ```text
//! u(k) = Kp·e(k) + Kd·(e(k) − e(k−1))
//!
//!            b(Kp + Kd)·z² − b·Kd·z                      b·Kp
//! F(z) = ──────────────────────────────────     F(1) = ──────────────
//!         z² − (a − b(Kp + Kd))·z − b·Kd                 1 − a + b·Kp
//!
//! Kd = −p₁p₂ ÷ b            Kp = (a − p₁ − p₂) ÷ b − Kd                  (53, 54)
//! ```
//! for poles p₁, p₂; with a pair at r, ±θ that is (53) and (54), which are correct.
//! 1 − F(1) = (1 − a) ÷ ((1 − p₁)(1 − p₂)). With Kd = 0 it is P with a second pole at 0.
//!
//! **Placement.** Of the gains that meet the demands and end no farther from the
//! reference than the P design does, the gentlest.
//!
//! **What the print does not say.** (53) gives *every* conjugate pair a Kd below zero
//! (times b): such a loop leans against changes of the error, smooths, and adds lag.
//! A derivative that looks ahead, Kd·b > 0, has two real poles of opposite sign; the
//! search looks at both. (52) solves (43) for PD correctly (`K` there is `K_s`), and with
//! `2·cosθ·sin((K_s+1)θ) − sin(K_sθ) = sin((K_s+2)θ)` reads
//! `r = a·sin((K_s+1)θ) ÷ sin((K_s+2)θ)`; like (43) it places the first extreme of the
//! response, not its settling.
//!
//! **Limits.** Differences of noisy measurements are mostly noise.

use super::Arx;
use super::closed_loop::{
    Controller, Demands, Design, InfeasibleDesign, Poles, candidates, controllable, gentlest,
    pole_radius,
};
use super::proportional::{slowest_pole, steady_gain};

/// `u(k) = Kp·e(k) + Kd·(e(k) − e(k−1))`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pd {
    kp: f64,
    kd: f64,
    error: f64,
}

impl Pd {
    /// A controller with these gains, if it is stable around `plant`.
    ///
    /// # Errors
    /// [`InfeasibleDesign::Unstable`] if it is not.
    pub fn new(plant: Arx, kp: f64, kd: f64) -> Result<Self, InfeasibleDesign> {
        let controller = Self { kp, kd, error: 0.0 };
        let radius = controller.pole_radius(plant);
        if radius < 1.0 { Ok(controller) } else { Err(InfeasibleDesign::Unstable { radius }) }
    }

    /// The gentlest gains that meet the demands.
    ///
    /// # Errors
    /// [`InfeasibleDesign`] if there are none; [`InfeasibleDesign::Overshoot`] says which
    /// overshoot can be had.
    pub fn place(plant: Arx, demands: Demands) -> Result<Design<Self>, InfeasibleDesign> {
        let b = controllable(plant)?;
        let a = plant.a();
        let as_p = steady_gain(a, slowest_pole(a, demands)?);
        let gain = |controller: &Self| {
            let push = b * controller.kp;
            push / (1.0 - a + push)
        };
        let controllers = candidates(demands.radius_max())
            .map(|poles| Self::with_poles(plant, poles))
            .filter(|controller| (1.0 - gain(controller)).abs() <= (1.0 - as_p).abs() + 1e-9);
        gentlest(plant, demands, controllers, gain, |controller| controller.kp + controller.kd)
    }

    /// (53) and (54).
    fn with_poles(plant: Arx, poles: Poles) -> Self {
        let (sum, product) = poles.sum_and_product();
        let kd = -product / plant.b();
        Self { kp: (plant.a() - sum) / plant.b() - kd, kd, error: 0.0 }
    }

    /// Kp.
    pub const fn kp(&self) -> f64 {
        self.kp
    }

    /// Kd.
    pub const fn kd(&self) -> f64 {
        self.kd
    }

    /// The distance from the centre of the farther pole of the loop that these gains
    /// make with `plant`; stable below 1.
    pub fn pole_radius(&self, plant: Arx) -> f64 {
        let b = plant.b();
        pole_radius(plant.a() - b * (self.kp + self.kd), -b * self.kd)
    }

    /// The same memory with the gains of `design`.
    pub(super) fn retuned(self, design: Self) -> Self {
        Self { error: self.error, ..design }
    }
}

impl Controller for Pd {
    fn control(&mut self, reference: f64, measured: f64) -> f64 {
        let error = reference - measured;
        let u = self.kp * error + self.kd * (error - self.error);
        self.error = error;
        u
    }
}

#[cfg(test)]
mod tests {
    use super::super::P;
    use super::super::closed_loop::step_response;
    use super::*;

    fn model(a: f64, b: f64) -> Arx {
        Arx::new(a, b).unwrap()
    }

    fn response(plant: Arx, controller: Pd, count: usize) -> Vec<f64> {
        step_response(plant, controller, 1.0).take(count).collect()
    }

    #[test]
    fn the_gains_put_the_poles_where_they_were_wanted() {
        let plant = model(0.9, 2.0);
        for (radius, angle) in [(0.3, 0.4), (0.5, 1.0), (0.8, 1.5)] {
            // [Fair07 eq. 53, 54]
            let kd = -radius * radius / 2.0;
            let kp = (0.9 - 2.0 * radius * f64::cos(angle)) / 2.0 - kd;
            let controller = Pd::new(plant, kp, kd).unwrap();
            let placed = Pd::with_poles(plant, Poles::Pair { radius, angle });
            assert!((placed.kp - kp).abs() < 1e-12 && (placed.kd - kd).abs() < 1e-12);
            assert!((controller.pole_radius(plant) - radius).abs() < 1e-9);
            // (51), summed up, is the response to a step.
            let mut sum = 0.0;
            for (n, y) in response(plant, controller, 30).into_iter().enumerate() {
                let n = n as f64;
                sum += (2.0 * (kp + kd) * radius.powf(n + 1.0) * (angle * (n + 1.0)).sin()
                    - 2.0 * kd * radius.powf(n) * (angle * n).sin())
                    / (radius * angle.sin());
                assert!((y - sum).abs() < 1e-9, "r {radius}, θ {angle}, n {n}");
            }
        }
    }

    #[test]
    fn the_printed_radius_places_an_extreme() {
        let (a, plant) = (1.0, model(1.0, 1.0));
        let (settling, angle) = (2.0, 0.5_f64);
        // [Fair07 eq. 52]
        let upper = (angle * (settling + 1.0)).sin();
        let radius = a * upper / (2.0 * angle.cos() * upper - (angle * settling).sin());
        assert!((radius - a * upper / (angle * (settling + 2.0)).sin()).abs() < 1e-12);
        // It is a radius beyond the unit circle here, and the design is rejected …
        let kd = -radius * radius;
        let kp = a - 2.0 * radius * angle.cos() - kd;
        assert!(matches!(Pd::new(plant, kp, kd), Err(InfeasibleDesign::Unstable { .. })));
        // … and where it is inside, the output does not change at that sample.
        let angle = 0.9_f64;
        let upper = (angle * (settling + 1.0)).sin();
        let radius = a * upper / (angle * (settling + 2.0)).sin();
        assert!(radius.abs() < 1.0, "{radius}");
        let kd = -radius * radius;
        let kp = a - 2.0 * radius * angle.cos() - kd;
        let y = response(plant, Pd::new(plant, kp, kd).unwrap(), 50);
        assert!((y[2] - y[1]).abs() < 1e-9 && (y[2] - y[49]).abs() > 0.02, "{y:?}");
    }

    #[test]
    fn a_grid_of_models_settles_in_time_and_within_the_overshoot() {
        for a in [0.1, 0.3, 0.6, 0.9, 1.0, 1.1] {
            for (b, settling) in [(0.02, 4), (1.0, 8), (-30.0, 16), (1.0, 60)] {
                for overshoot in [0.0, 0.05, 0.2] {
                    let demands = Demands::new(settling, overshoot).unwrap();
                    let design = Pd::place(model(a, b), demands).unwrap();
                    let y = response(model(a, b), design.controller, 1000);
                    let end = design.steady_gain;
                    let context = format!("a {a}, b {b}, {demands:?}: {design:?}");
                    assert!((y[999] - end).abs() < 1e-9, "{context}");
                    assert!(
                        y[settling as usize..].iter().all(|y| (y / end - 1.0).abs() <= 0.02 + 1e-9),
                        "{context}"
                    );
                    assert!(y.iter().all(|&y| y / end - 1.0 <= overshoot + 1e-9), "{context}");
                    let p = P::place(model(a, b), demands).unwrap().steady_gain;
                    assert!((1.0 - end).abs() <= (1.0 - p).abs() + 1e-9, "{context}");
                }
            }
        }
    }

    #[test]
    fn it_never_begins_with_a_stronger_push_than_p() {
        for a in [0.3, 0.9, 1.0] {
            let demands = Demands::new(8, 0.1).unwrap();
            let pd = Pd::place(model(a, 1.0), demands).unwrap().controller;
            let p = P::place(model(a, 1.0), demands).unwrap().controller;
            assert!(pd.kp() + pd.kd() <= p.kp() + 1e-9, "a {a}");
        }
    }

    #[test]
    fn what_cannot_be_controlled_or_is_not_stable_is_rejected() {
        let demands = Demands::new(4, 0.1).unwrap();
        let error = Pd::place(model(0.5, 0.0), demands).unwrap_err();
        assert_eq!(error, InfeasibleDesign::Uncontrollable { b: 0.0 });
        assert!(Pd::new(model(1.0, 1.0), 1.0, 2.0).is_err());
        assert!(Pd::new(model(1.0, 1.0), f64::NAN, 0.0).is_err());
        assert!(Pd::place(model(-0.2, 1.0), demands).is_err());
    }
}
