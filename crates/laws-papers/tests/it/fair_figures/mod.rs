//! Figures 4-11, 4-14 and 4-15 of Fair07 as data: a stage under P, PI and PD control
//! after a step of its reference.
//!
//! The thesis prints the curves without the numbers behind them: neither the model nor
//! the demands of its simulation are given. These are ours; what its text says of the
//! curves is asserted in `tests/it/fair_step_responses.rs`.

#![allow(dead_code, unreachable_pub, reason = "shared by a test and an example")]

use std::fmt::Write;

use tamarisk_laws_papers::fair::{
    Arx, Demands, Design, InfeasibleDesign, P, Pd, Pi, step_response,
};

/// y(k) = 0.9·y(k−1) + 0.5·u(k): a stage that is slower than what is asked of it.
pub const COEFFICIENTS: (f64, f64) = (0.9, 0.5);
/// Within 2 % after 8 samples, with a tenth of overshoot at most.
pub const SETTLING: u32 = 8;
pub const OVERSHOOT: f64 = 0.1;
const SAMPLES: usize = 30;

/// One curve.
pub struct Figure {
    pub number: &'static str,
    pub outputs: Vec<f64>,
}

impl Figure {
    /// A line for each sample: its number, the reference, the output.
    pub fn csv(&self) -> String {
        let mut csv = String::from("sample,reference,output\n");
        for (sample, output) in self.outputs.iter().enumerate() {
            writeln!(csv, "{sample},1,{output:.6}").expect("writing to a string does not fail");
        }
        csv
    }

    /// The greatest share by which the output exceeds the reference.
    pub fn overshoot(&self) -> f64 {
        self.outputs.iter().fold(0.0, |most: f64, y| most.max(y - 1.0))
    }

    /// The first sample from which the output stays within 2 % of the reference.
    pub fn settling(&self) -> usize {
        self.outputs.iter().rposition(|y| (y - 1.0).abs() > 0.02 + 1e-9).map_or(0, |last| last + 1)
    }

    /// The sum of errors, whatever their sign.
    pub fn absolute_error(&self) -> f64 {
        self.outputs.iter().map(|y| (y - 1.0).abs()).sum()
    }
}

pub fn plant() -> Arx {
    let (a, b) = COEFFICIENTS;
    Arx::new(a, b).expect("the coefficients are finite")
}

pub fn demands() -> Demands {
    Demands::new(SETTLING, OVERSHOOT).expect("the demands mean something")
}

/// Fig. 4-11: P at the dead-beat pole, with the pre-compensator of fig. 4-10.
pub fn p_precompensated() -> Figure {
    let controller = P::deadbeat(plant())
        .and_then(|p| p.precompensated(plant()))
        .expect("the plant can be controlled and has memory");
    Figure {
        number: "4-11",
        outputs: step_response(plant(), controller, 1.0).take(SAMPLES).collect(),
    }
}

/// The PI design with the least overshoot that settles in time.
pub fn best_pi() -> Design<Pi> {
    let asked = match Pi::place(plant(), demands()) {
        Err(InfeasibleDesign::Overshoot { least, .. }) => {
            Demands::new(SETTLING, least).expect("a share of zero or more")
        }
        _ => demands(),
    };
    Pi::place(plant(), asked).expect("what was said to be possible is")
}

/// Fig. 4-14: PI.
pub fn pi() -> Figure {
    let outputs = step_response(plant(), best_pi().controller, 1.0).take(SAMPLES).collect();
    Figure { number: "4-14", outputs }
}

/// Fig. 4-15: PD, its reference scaled as in fig. 4-10: without it no PD loop
/// around a plant with a ≠ 1 ends where it should.
pub fn pd() -> Figure {
    let design = Pd::place(plant(), demands()).expect("P does it, so PD does");
    let reference = 1.0 / design.steady_gain;
    let outputs = step_response(plant(), design.controller, reference).take(SAMPLES).collect();
    Figure { number: "4-15", outputs }
}
