//! Figures 4-11, 4-14 and 4-15 of Fair07, and what its text says of them.

use crate::fair_figures;
use crate::fair_figures::{OVERSHOOT, SETTLING, demands, plant};
use tamarisk_laws_papers::fair::{InfeasibleDesign, P, Pd, Pi, step_response};

#[test]
fn figure_4_11_has_no_steady_state_error() {
    // "This approach can eliminate the steady-state error", with Kp = A ÷ B and α = 1 ÷ A.
    let figure = fair_figures::p_precompensated();
    assert!(figure.outputs.iter().all(|y| (y - 1.0).abs() < 1e-12), "{:?}", figure.outputs);
    let p = P::deadbeat(plant()).unwrap();
    assert!((p.kp() - plant().a() / plant().b()).abs() < 1e-12);
    let alpha = p.precompensated(plant()).unwrap().precompensator();
    assert!((alpha - 1.0 / plant().a()).abs() < 1e-12);
    // "Proportional control … cannot remove the steady-state error" by itself.
    let plain = step_response(plant(), p, 1.0).nth(100).unwrap();
    assert!((plain - plant().a()).abs() < 1e-12);
}

#[test]
fn figure_4_14_settles_with_an_overshoot_that_is_the_best_and_not_good_enough() {
    let figure = fair_figures::pi();
    assert!(figure.settling() <= SETTLING as usize && figure.overshoot() > OVERSHOOT);
    assert!((figure.outputs.last().unwrap() - 1.0).abs() < 1e-3, "no steady-state error");
    // No other pair of poles (eq. 46, 47) that settles in time does better by more than
    // the search's grid is wide.
    let (a, b) = (plant().a(), plant().b());
    let (radii, angles) = (150, 100);
    let mut least = f64::INFINITY;
    for index in 0..radii * angles {
        let radius = f64::from(index / angles + 1) / f64::from(radii);
        let angle = f64::from(index % angles) / f64::from(angles) * std::f64::consts::FRAC_PI_2;
        let kp = (a - radius * radius) / b;
        let ki = (radius * radius + 1.0 - 2.0 * radius * angle.cos()) / b;
        let Ok(pi) = Pi::new(plant(), kp, ki) else { continue };
        let y: Vec<f64> = step_response(plant(), pi, 1.0).take(60).collect();
        if radius <= 0.02_f64.powf(1.0 / 9.0) && y[8..].iter().all(|y| (y - 1.0).abs() <= 0.02) {
            least = least.min(y.iter().fold(0.0, |most: f64, y| most.max(y - 1.0)));
        }
    }
    assert!(figure.overshoot() <= 1.05 * least, "{} where {least} can be had", figure.overshoot());
}

#[test]
fn figure_4_15_meets_its_demands() {
    // "The simulation results are the same as the above theoretical proof."
    let figure = fair_figures::pd();
    assert!(figure.settling() <= SETTLING as usize && figure.overshoot() <= OVERSHOOT);
    assert!((figure.outputs.last().unwrap() - 1.0).abs() < 1e-3);
    let design = Pd::place(plant(), demands()).unwrap();
    let (gain, push) = (design.steady_gain, plant().b() * design.controller.kp());
    assert!((gain - push / (1.0 - plant().a() + push)).abs() < 1e-12);
}

#[test]
fn p_is_best_and_pi_is_worst_as_the_thesis_finds() {
    // §5.1: "the performance of the P and PD controller are better than PI, and the design
    // of the P-control-based pre-compensator is best".
    let [p, pi, pd] = [fair_figures::p_precompensated(), fair_figures::pi(), fair_figures::pd()];
    assert!(p.absolute_error() < pd.absolute_error() && p.absolute_error() < pi.absolute_error());
    assert!(p.overshoot() < pi.overshoot() && pd.overshoot() < pi.overshoot());
    assert!(matches!(
        Pi::place(plant(), demands()),
        Err(InfeasibleDesign::Overshoot { asked: OVERSHOOT, .. })
    ));
}

#[test]
fn a_figure_is_a_line_for_each_sample() {
    let csv = fair_figures::p_precompensated().csv();
    assert!(csv.starts_with("sample,reference,output\n0,1,1.000000\n1,1,1.000000\n"));
    assert_eq!(csv.lines().count(), 31);
}
