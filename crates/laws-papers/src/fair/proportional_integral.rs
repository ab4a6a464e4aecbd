//! The PI controller: its output follows the error and the sum of past errors.
//!
//! **Intuition.** To the multiple of the error add a memory of all errors so far.
//! It stops growing only when the error is gone, whatever the model said; and since
//! it has to be unlearnt as well, the output goes beyond its goal first.
//!
//! **Mechanism** [Fair07 eq. 22, 23, 34]. In the loop of
//! [`closed_loop`](super::closed_loop), in the form that needs no sum of errors:
//! ```text
//! u(k) = u(k−1) + (Kp + Ki)·e(k) − Kp·e(k−1)
//!
//!               b(Kp + Ki)·z² − b·Kp·z
//! F(z) = ─────────────────────────────────────────────    F(1) = 1
//!         z² − (a + 1 − b(Kp + Ki))·z + (a − b·Kp)
//!
//! Kp = (a − p₁p₂) ÷ b        Ki = (1 − p₁)(1 − p₂) ÷ b                   (46, 47)
//! ```
//! for poles p₁, p₂; with a pair at r, ±θ that is (46) and (47), which are correct. The
//! loop is stable with both poles inside the unit circle, and then Ki·b > 0.
//!
//! **An overshoot that no gain avoids.** From `1 − z⁻¹·F = (z − 1)(z − a) ÷ (z − p₁)(z − p₂)`
//! follows, for a step, `Σ e(k)·a⁻ᵏ = 0` whenever |a| exceeds both poles (and for a = 1
//! simply Σ e(k) = 0). With a > 0, errors that sum up to zero change their sign: a PI
//! loop that is faster than its plant overshoots. That is what the thesis meets
//! under fig. 4-14: *the best overshoot that we can achieve*. A plant that is itself
//! fast enough (0 < a ≤ the radius allowed) can do without: with the zero of F on top
//! of it, `Kp ÷ (Kp + Ki) = a`, the response is that of a P loop without its error.
//!
//! **Slips of the print.** (36): the discriminant of (34) is
//! `V = (a + 1 − b(Kp + Ki))² − 4(a − b·Kp)`, with a minus. (37), (38): the roots begin
//! with `+(a + 1 − b(Kp + Ki))`. *"For stability we need V < 0"*: V < 0 makes the poles a
//! pair; stability is r < 1, and real poles can be stable too. (43)–(45), (48) are solved
//! correctly, for the first extreme of the response and not for its settling;
//! (49) is the output at that extreme, and its sum begins at n = 0. The flowcharts
//! *3.12* and *3.15* are figures 4-12 and 4-13.
//!
//! **Limits.** If the plant cannot take the input (a rate at its bound), the memory
//! grows without meaning; [`Controller::applied`] tells it what was really done.

use super::Arx;
use super::closed_loop::{
    Controller, Demands, Design, InfeasibleDesign, Poles, candidates, controllable, gentlest,
    pole_radius,
};

/// `u(k) = u(k−1) + (Kp + Ki)·e(k) − Kp·e(k−1)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pi {
    kp: f64,
    ki: f64,
    u: f64,
    error: f64,
}

impl Pi {
    /// A controller with these gains, if it is stable around `plant`.
    ///
    /// # Errors
    /// [`InfeasibleDesign::Unstable`] if it is not.
    pub fn new(plant: Arx, kp: f64, ki: f64) -> Result<Self, InfeasibleDesign> {
        let controller = Self { kp, ki, u: 0.0, error: 0.0 };
        let radius = controller.pole_radius(plant);
        if radius < 1.0 { Ok(controller) } else { Err(InfeasibleDesign::Unstable { radius }) }
    }

    /// The gentlest gains that meet the demands.
    ///
    /// # Errors
    /// [`InfeasibleDesign`] if there are none; [`InfeasibleDesign::Overshoot`] says which
    /// overshoot can be had.
    pub fn place(plant: Arx, demands: Demands) -> Result<Design<Self>, InfeasibleDesign> {
        controllable(plant)?;
        let a = plant.a();
        let radius_max = demands.radius_max();
        let onto_the_plant =
            (0.0 < a && a <= radius_max).then_some(Poles::Real(radius_max, a)).into_iter();
        let controllers = candidates(radius_max)
            .chain(onto_the_plant)
            .map(|poles| Self::with_poles(plant, poles));
        gentlest(plant, demands, controllers, |_| 1.0, |controller| controller.kp + controller.ki)
    }

    /// (46) and (47).
    fn with_poles(plant: Arx, poles: Poles) -> Self {
        let (sum, product) = poles.sum_and_product();
        let (a, b) = (plant.a(), plant.b());
        Self { kp: (a - product) / b, ki: (1.0 - sum + product) / b, u: 0.0, error: 0.0 }
    }

    /// Kp.
    pub const fn kp(&self) -> f64 {
        self.kp
    }

    /// Ki.
    pub const fn ki(&self) -> f64 {
        self.ki
    }

    /// The distance from the centre of the farther pole of the loop that these gains
    /// make with `plant`; stable below 1.
    pub fn pole_radius(&self, plant: Arx) -> f64 {
        let (a, b) = (plant.a(), plant.b());
        pole_radius(a + 1.0 - b * (self.kp + self.ki), a - b * self.kp)
    }

    /// The same memory with the gains of `design`.
    pub(super) fn retuned(self, design: Self) -> Self {
        Self { u: self.u, error: self.error, ..design }
    }
}

impl Controller for Pi {
    fn control(&mut self, reference: f64, measured: f64) -> f64 {
        let error = reference - measured;
        self.u += (self.kp + self.ki) * error - self.kp * self.error;
        self.error = error;
        self.u
    }

    fn applied(&mut self, u: f64) {
        self.u = u;
    }
}

#[cfg(test)]
mod tests {
    use super::super::closed_loop::step_response;
    use super::*;

    fn model(a: f64, b: f64) -> Arx {
        Arx::new(a, b).unwrap()
    }

    fn response(plant: Arx, controller: Pi, count: usize) -> Vec<f64> {
        step_response(plant, controller, 1.0).take(count).collect()
    }

    #[test]
    fn the_gains_put_the_poles_where_they_were_wanted() {
        let plant = model(0.9, 2.0);
        for (radius, angle) in [(0.3, 0.4), (0.7, 1.0), (0.95, 1.5)] {
            // [Fair07 eq. 46, 47]
            let kp = (0.9 - radius * radius) / 2.0;
            let ki = (radius * radius + 1.0 - 2.0 * radius * f64::cos(angle)) / 2.0;
            let controller = Pi::new(plant, kp, ki).unwrap();
            let placed = Pi::with_poles(plant, Poles::Pair { radius, angle });
            assert!((placed.kp - kp).abs() < 1e-12 && (placed.ki - ki).abs() < 1e-12);
            assert!((controller.pole_radius(plant) - radius).abs() < 1e-9);
            // (42), summed up, is the response to a step.
            let mut sum = 0.0;
            for (n, y) in response(plant, controller, 30).into_iter().enumerate() {
                let n = n as f64;
                sum += (2.0 * (kp + ki) * radius.powf(n + 1.0) * (angle * (n + 1.0)).sin()
                    - 2.0 * kp * radius.powf(n) * (angle * n).sin())
                    / (radius * angle.sin());
                assert!((y - sum).abs() < 1e-9, "r {radius}, θ {angle}, n {n}");
            }
        }
    }

    #[test]
    fn the_printed_condition_places_the_peak() {
        let (a, plant) = (0.9, model(0.9, 1.0));
        let (settling, angle) = (5.0, 0.3_f64);
        // [Fair07 eq. 48] solved for r.
        let ratio = (angle * (settling + 1.0)).sin() / (angle * settling).sin();
        let (square, linear) = (1.0 - 2.0 * ratio * angle.cos(), ratio * (1.0 + a));
        let root = (linear * linear + 4.0 * square * a).sqrt();
        let radius = [(-linear + root) / (2.0 * square), (-linear - root) / (2.0 * square)]
            .into_iter()
            .find(|radius| (0.0..1.0).contains(radius))
            .unwrap();
        let (kp, ki) = (a - radius * radius, radius * radius + 1.0 - 2.0 * radius * angle.cos());
        let y = response(plant, Pi::new(plant, kp, ki).unwrap(), 100);
        // No change at the 5th sample, and yet not at the end: it is the peak.
        assert!((y[5] - y[4]).abs() < 1e-9);
        assert!(y[5] - 1.0 > 0.02, "{y:?}");
        assert!(y.iter().all(|&other| other <= y[5] + 1e-9));
    }

    #[test]
    fn a_grid_of_models_settles_in_time_and_within_the_overshoot_or_says_what_can_be_had() {
        for a in [-0.5, 0.0, 0.3, 0.6, 0.9, 1.0, 1.1] {
            for (b, settling) in [(0.02, 4), (1.0, 8), (-30.0, 16), (1.0, 60)] {
                for overshoot in [0.0, 0.05, 0.2, 1.0] {
                    let demands = Demands::new(settling, overshoot).unwrap();
                    let demands = match Pi::place(model(a, b), demands) {
                        Ok(_) => demands,
                        Err(InfeasibleDesign::Overshoot { asked, least }) => {
                            assert!(least > asked, "a {a}: {least} of {asked}");
                            demands.with_overshoot(least)
                        }
                        Err(error) => panic!("a {a}, b {b}, {demands:?}: {error}"),
                    };
                    let design = Pi::place(model(a, b), demands).unwrap();
                    let y = response(model(a, b), design.controller, 1000);
                    let context = format!("a {a}, b {b}, {demands:?}: {design:?}");
                    assert!(
                        y[settling as usize..].iter().all(|y| (y - 1.0).abs() <= 0.02 + 1e-9),
                        "{context}"
                    );
                    assert!(y.iter().all(|&y| y - 1.0 <= demands.overshoot() + 1e-9), "{context}");
                    assert!((y[999] - 1.0).abs() < 1e-9, "{context}");
                }
            }
        }
    }

    #[test]
    fn a_loop_faster_than_its_plant_overshoots_and_one_no_faster_need_not() {
        let demands = Demands::new(8, 0.0).unwrap();
        let radius_max = demands.radius_max();
        assert!(Pi::place(model(radius_max - 0.01, 1.0), demands).is_ok());
        for a in [0.9, 1.0, 1.1] {
            let error = Pi::place(model(a, 1.0), demands).unwrap_err();
            assert!(matches!(error, InfeasibleDesign::Overshoot { .. }), "a {a}: {error}");
            let demands = Demands::new(8, 2.0).unwrap();
            let controller = Pi::place(model(a, 1.0), demands).unwrap().controller;
            let y = response(model(a, 1.0), controller, 300);
            // e(k) = 1 − y(k−1)
            let errors = std::iter::once(1.0).chain(y.into_iter().map(|y| 1.0 - y));
            let sum: f64 = errors.zip(0..).map(|(e, k)| e * f64::powi(a, -k)).take(80).sum();
            assert!(sum.abs() < 1e-6, "a {a}: {sum}");
        }
    }

    #[test]
    fn an_error_of_the_model_leaves_no_error_of_the_output() {
        let demands = Demands::new(8, 0.5).unwrap();
        let controller = Pi::place(model(0.9, 2.0), demands).unwrap().controller;
        for m in [0.5, 1.5] {
            let actual = model(0.8, 2.0 * m);
            assert!(controller.pole_radius(actual) < 1.0);
            assert!((response(actual, controller, 1000)[999] - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn what_was_not_done_is_not_remembered() {
        let plant = model(1.0, 1.0);
        let mut controller = Pi::new(plant, 0.5, 0.1).unwrap();
        for _ in 0..100 {
            let asked = controller.control(1.0, 0.0);
            controller.applied(asked.min(0.3));
        }
        // Ki·e on top of what the actuator gave, not a hundred of it.
        assert!((controller.control(1.0, 0.0) - 0.4).abs() < 1e-12);
    }

    #[test]
    fn what_cannot_be_controlled_or_is_not_stable_is_rejected() {
        let demands = Demands::new(4, 0.1).unwrap();
        let error = Pi::place(model(0.5, 0.0), demands).unwrap_err();
        assert_eq!(error, InfeasibleDesign::Uncontrollable { b: 0.0 });
        assert!(matches!(
            Pi::new(model(1.0, 1.0), 2.0, 1.0),
            Err(InfeasibleDesign::Unstable { radius }) if radius > 1.0
        ));
        assert!(Pi::new(model(1.0, 1.0), f64::NAN, 1.0).is_err());
    }
}
