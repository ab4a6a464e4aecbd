//! System identification by least squares, off line and recursive.
//!
//! **Intuition.** Of all pairs (a, b), take the one whose predictions would have
//! missed the least. If the data could have come from many pairs, say so instead.
//!
//! **Mechanism** [Fair07 eq. 10–19]. The sum of squared misses is least where
//! ```text
//! S₁·a + S₂·b = S₄      S₁ = Σy(k−1)²       S₄ = Σy(k−1)·y(k)
//! S₂·a + S₃·b = S₅      S₂ = Σy(k−1)·u(k)   S₅ = Σu(k)·y(k)
//!                       S₃ = Σu(k)²
//! ```
//! Off line, [`fit`] sums over all data. On line, [`OnLineFit`] multiplies the sums
//! by a forgetting factor λ before each new sample, so that data of `n` samples ago
//! weigh λⁿ: this is recursive least squares in its information form. The more
//! common covariance form updates the inverse of the matrix instead; a matrix of
//! order two needs no such help, and when the excitation fades the inverse grows
//! without bound and without a word, where these sums can still be asked.
//!
//! **When the data cannot tell** ([`Unidentifiable`]). The two equations are scaled
//! by √S₁ and √S₃; what is left is the correlation ρ of past output and input, and
//! the condition number `(1 + |ρ|) ÷ (1 − |ρ|)`. An input that never moves, an output
//! that stays zero, and an input that is a fixed multiple of the last output (which
//! is what a settled proportional controller produces!) all have infinitely many
//! answers, and none is given.
//!
//! **Slips of the print.** The method is called *least mean squares*; that is the
//! name of the gradient method that follows one sample at a time. Equations 10–19
//! are ordinary least squares, and correct. They were checked against the scaled
//! solution used here, which neither overflows nor cancels as `S₂² − S₁·S₃` does.

use tamarisk_control::Ratio;

use super::Arx;

/// Fewer samples than this do not speak for two coefficients and an error.
const SAMPLES_MIN: u32 = 4;

/// Above this condition number the last digits of the data decide; half of the
/// digits of a double are left below it.
const CONDITION_MAX: f64 = 1e8;

/// What is larger in size is not a measurement; its powers could overflow.
const SIZE_MAX: f64 = 1e60;

/// A model, and how well it explains the data that it was made from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// The coefficients with the least sum of squared misses.
    pub model: Arx,
    /// R²: the share of the outputs' variance that the model explains; zero where
    /// they do not vary.
    pub r_squared: Ratio,
    /// Of the scaled equations: 1 is best; errors of the data may grow by as much.
    pub condition: f64,
}

/// Why data do not determine a model.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Unidentifiable {
    /// Two unknowns, and hardly more equations.
    #[error("{have} samples are too few to fit a model; it takes {need}")]
    TooFewSamples {
        /// Pairs of successive samples that there are, the forgotten ones left out.
        have: u32,
        /// Pairs that it takes.
        need: u32,
    },
    /// The input was zero throughout: nothing says what it does.
    #[error("the input never moved, so what it does cannot be told")]
    NoExcitation,
    /// The output was zero before every sample: nothing says how it lasts.
    #[error("the output was always zero, so how it lasts cannot be told")]
    NoResponse,
    /// The input was (nearly) a fixed multiple of the last output.
    #[error(
        "input and last output move together (condition {condition:e}), so their effects cannot be told apart"
    )]
    IllConditioned {
        /// The condition number of the scaled equations.
        condition: f64,
    },
    /// A sample that is no number, or one beyond 10⁶⁰.
    #[error("sample {index} is not a number that can be fitted")]
    NotFinite {
        /// Which one.
        index: usize,
    },
    /// As many inputs as outputs are needed.
    #[error("{inputs} inputs do not go with {outputs} outputs")]
    Lengths {
        /// Inputs given.
        inputs: usize,
        /// Outputs given.
        outputs: usize,
    },
}

/// The model that explains a record best, off line: `inputs[k]` led to `outputs[k]`.
///
/// # Errors
/// [`Unidentifiable`] if the record does not determine one.
///
/// # Examples
/// ```
/// use tamarisk_laws_papers::fair::fit;
///
/// let inputs = [1.0, 0.0, 2.0, -1.0, 0.5, 0.0];
/// let mut y = 0.0;
/// let outputs = inputs.map(|u| { y = 0.8 * y + 3.0 * u; y });
/// let found = fit(&inputs, &outputs)?;
/// assert!((found.model.a() - 0.8).abs() < 1e-12);
/// assert!((found.model.b() - 3.0).abs() < 1e-12);
/// # Ok::<(), tamarisk_laws_papers::fair::Unidentifiable>(())
/// ```
pub fn fit(inputs: &[f64], outputs: &[f64]) -> Result<Fit, Unidentifiable> {
    if inputs.len() != outputs.len() {
        let (inputs, outputs) = (inputs.len(), outputs.len());
        return Err(Unidentifiable::Lengths { inputs, outputs });
    }
    let measurable = |(&u, &y): (&f64, &f64)| is_measurement(u) && is_measurement(y);
    if let Some(index) = inputs.iter().zip(outputs).position(|pair| !measurable(pair)) {
        return Err(Unidentifiable::NotFinite { index });
    }
    let mut sums = Sums::default();
    for k in 1..outputs.len() {
        sums.add(outputs[k - 1], inputs[k], outputs[k]);
    }
    sums.solve()
}

/// The model that explains the recent past best, updated with every sample.
#[derive(Clone, Debug)]
pub struct OnLineFit {
    forgetting: f64,
    sums: Sums,
    y_before: Option<f64>,
}

/// A forgetting factor that would keep nothing.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("with a forgetting factor of {0} fewer samples are remembered than a model takes")]
pub struct InvalidForgetting(Ratio);

impl OnLineFit {
    /// `forgetting` is λ: the weight of a sample relative to the next one. About
    /// `1 ÷ (1 − λ)` samples are remembered, and all of them with λ = 1.
    ///
    /// # Errors
    /// [`InvalidForgetting`] for less than 0.8: five samples, one more than it takes.
    pub fn new(forgetting: Ratio) -> Result<Self, InvalidForgetting> {
        if forgetting.get() < 0.8 {
            return Err(InvalidForgetting(forgetting));
        }
        Ok(Self::remembering(forgetting.get()))
    }

    /// For factors that are known to suit.
    pub(super) fn remembering(forgetting: f64) -> Self {
        Self { forgetting, sums: Sums::default(), y_before: None }
    }

    /// The input `u` led to the output `y`. What is not a number, or is beyond
    /// 10⁶⁰, is not learnt from, and cuts the record as [`OnLineFit::cut`] does.
    pub fn observe(&mut self, u: f64, y: f64) {
        if !is_measurement(u) || !is_measurement(y) {
            self.cut();
            return;
        }
        if let Some(y_before) = self.y_before {
            self.sums.forget(self.forgetting);
            self.sums.add(y_before, u, y);
        }
        self.y_before = Some(y);
    }

    /// The next sample does not follow the last one: the two make no pair.
    pub fn cut(&mut self) {
        self.y_before = None;
    }

    /// Forgets all samples.
    pub(super) fn restart(&mut self) {
        *self = Self::remembering(self.forgetting);
    }

    /// The model by now.
    ///
    /// # Errors
    /// [`Unidentifiable`] if the remembered samples do not determine one.
    pub fn fit(&self) -> Result<Fit, Unidentifiable> {
        self.sums.solve()
    }
}

fn is_measurement(value: f64) -> bool {
    value.is_finite() && value.abs() <= SIZE_MAX
}

/// The sums of the normal equations [Fair07 eq. 13–17], and those that R² takes.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    s1: f64,
    s2: f64,
    s3: f64,
    s4: f64,
    s5: f64,
    y: f64,
    yy: f64,
    weight: f64,
}

impl Sums {
    fn forget(&mut self, factor: f64) {
        let Self { s1, s2, s3, s4, s5, y, yy, weight } = self;
        for sum in [s1, s2, s3, s4, s5, y, yy, weight] {
            *sum *= factor;
        }
    }

    fn add(&mut self, y_before: f64, u: f64, y: f64) {
        self.s1 += y_before * y_before;
        self.s2 += y_before * u;
        self.s3 += u * u;
        self.s4 += y_before * y;
        self.s5 += u * y;
        self.y += y;
        self.yy += y * y;
        self.weight += 1.0;
    }

    fn solve(&self) -> Result<Fit, Unidentifiable> {
        if self.weight < f64::from(SAMPLES_MIN) - 0.5 {
            let have = self.weight.round() as u32;
            return Err(Unidentifiable::TooFewSamples { have, need: SAMPLES_MIN });
        }
        let (past, input) = (self.s1.sqrt(), self.s3.sqrt());
        if input < f64::MIN_POSITIVE.sqrt() {
            return Err(Unidentifiable::NoExcitation);
        }
        if past < f64::MIN_POSITIVE.sqrt() {
            return Err(Unidentifiable::NoResponse);
        }
        let rho = (self.s2 / past / input).clamp(-1.0, 1.0);
        let condition = (1.0 + rho.abs()) / (1.0 - rho.abs());
        if condition > CONDITION_MAX {
            return Err(Unidentifiable::IllConditioned { condition });
        }
        let (c4, c5) = (self.s4 / past, self.s5 / input);
        let rest = 1.0 - rho * rho;
        let a = (c4 - rho * c5) / rest / past;
        let b = (c5 - rho * c4) / rest / input;
        let model = Arx::new(a, b).map_err(|_| Unidentifiable::IllConditioned { condition })?;
        Ok(Fit { model, r_squared: self.r_squared(a, b), condition })
    }

    fn r_squared(&self, a: f64, b: f64) -> Ratio {
        let total = self.yy - self.y * self.y / self.weight;
        // Where the normal equations hold, this is the sum of squared misses.
        let missed = (self.yy - a * self.s4 - b * self.s5).max(0.0);
        if total > 0.0 { Ratio::saturating(1.0 - missed / total) } else { Ratio::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// A record of `y(k) = a·y(k−1) + b·u(k) + noise` under a random input.
    fn record(a: f64, b: f64, noise: f64, count: usize) -> (Vec<f64>, Vec<f64>) {
        let mut random = StdRng::seed_from_u64(7);
        let mut symmetric = move || random.random::<f64>() * 2.0 - 1.0;
        let mut y = 0.0;
        (0..count)
            .map(|_| {
                let u = symmetric();
                y = a * y + b * u + noise * symmetric();
                (u, y)
            })
            .unzip()
    }

    fn on_line(inputs: &[f64], outputs: &[f64], forgetting: f64) -> OnLineFit {
        let mut fit = OnLineFit::new(Ratio::new(forgetting).unwrap()).unwrap();
        inputs.iter().zip(outputs).for_each(|(&u, &y)| fit.observe(u, y));
        fit
    }

    #[test]
    fn exact_data_give_the_exact_model() {
        for (a, b) in [(0.0, 1.0), (0.5, 2.0), (-0.7, 0.01), (1.0, -3.0), (1.02, 1e4)] {
            let (inputs, outputs) = record(a, b, 0.0, 100);
            let found = fit(&inputs, &outputs).unwrap();
            assert!((found.model.a() - a).abs() < 1e-9, "{found:?}");
            assert!((found.model.b() / b - 1.0).abs() < 1e-9, "{found:?}");
            assert!(found.r_squared.get() > 1.0 - 1e-9, "{found:?}");
        }
    }

    #[test]
    fn it_is_the_printed_solution() {
        let (u, y) = record(0.6, 1.5, 0.5, 50);
        let sum = |term: &dyn Fn(usize) -> f64| (1..50).map(term).sum::<f64>();
        let s1 = sum(&|k| y[k - 1] * y[k - 1]);
        let s2 = sum(&|k| y[k - 1] * u[k]);
        let s3 = sum(&|k| u[k] * u[k]);
        let s4 = sum(&|k| y[k - 1] * y[k]);
        let s5 = sum(&|k| u[k] * y[k]);
        let below = s2 * s2 - s1 * s3;
        let found = fit(&u, &y).unwrap();
        // [Fair07 eq. 18, 19]
        assert!((found.model.a() - (s2 * s5 - s3 * s4) / below).abs() < 1e-12);
        assert!((found.model.b() - (s2 * s4 - s1 * s5) / below).abs() < 1e-12);
        let validated = found.model.r_squared(&u, &y).unwrap();
        assert!((found.r_squared.get() - validated).abs() < 1e-9);
    }

    #[test]
    fn noise_blurs_the_model_and_shows_in_r_squared() {
        let (inputs, outputs) = record(0.8, 2.0, 0.5, 2000);
        let found = fit(&inputs, &outputs).unwrap();
        assert!((found.model.a() - 0.8).abs() < 0.02, "{found:?}");
        assert!((found.model.b() - 2.0).abs() < 0.05, "{found:?}");
        assert!((0.9..0.99).contains(&found.r_squared.get()), "{found:?}");
    }

    #[test]
    fn without_forgetting_on_line_is_off_line() {
        let (inputs, outputs) = record(0.8, 2.0, 0.5, 200);
        let (once, bit_by_bit) =
            (fit(&inputs, &outputs).unwrap(), on_line(&inputs, &outputs, 1.0).fit().unwrap());
        assert_eq!(once, bit_by_bit);
    }

    #[test]
    fn with_forgetting_a_changed_stage_is_learnt_anew() {
        let (inputs, outputs) = record(0.9, 1.0, 0.1, 500);
        let mut fit = on_line(&inputs, &outputs, 0.95);
        let (inputs, outputs) = record(0.3, 4.0, 0.1, 100);
        fit.cut();
        inputs.iter().zip(&outputs).for_each(|(&u, &y)| fit.observe(u, y));
        let found = fit.fit().unwrap().model;
        assert!((found.a() - 0.3).abs() < 0.05 && (found.b() - 4.0).abs() < 0.1, "{found:?}");
    }

    #[test]
    fn too_few_samples_are_no_model() {
        let error = fit(&[1.0, 2.0, -1.0, 0.0], &[1.0, 2.0, 5.0, 1.0]).unwrap_err();
        assert_eq!(error, Unidentifiable::TooFewSamples { have: 3, need: 4 });
        assert!(matches!(fit(&[], &[]), Err(Unidentifiable::TooFewSamples { .. })));
    }

    #[test]
    fn an_input_at_rest_excites_nothing() {
        let decaying: Vec<f64> = (0..20).map(|k| 0.9_f64.powi(k)).collect();
        assert_eq!(fit(&[0.0; 20], &decaying), Err(Unidentifiable::NoExcitation));
        let busy: Vec<f64> = (0..20).map(f64::from).collect();
        assert_eq!(fit(&busy, &[0.0; 20]), Err(Unidentifiable::NoResponse));
    }

    #[test]
    fn a_constant_input_and_a_settled_output_cannot_be_told_apart() {
        let error = fit(&[2.0; 50], &[8.0; 50]).unwrap_err();
        assert!(matches!(error, Unidentifiable::IllConditioned { .. }), "{error}");
    }

    #[test]
    fn a_proportional_controller_at_work_hides_the_model() {
        // u(k) = −0.5·y(k−1) is the feedback itself.
        let mut y = 1.0;
        let (inputs, outputs): (Vec<f64>, Vec<f64>) = (0..30)
            .map(|_| {
                let u = -0.5 * y;
                y = 0.9 * y + u;
                (u, y)
            })
            .unzip();
        let error = fit(&inputs, &outputs).unwrap_err();
        assert!(matches!(error, Unidentifiable::IllConditioned { .. }), "{error}");
    }

    #[test]
    fn what_is_no_number_is_named_off_line_and_skipped_on_line() {
        let (mut inputs, outputs) = record(0.8, 2.0, 0.0, 50);
        inputs[20] = f64::NAN;
        assert_eq!(fit(&inputs, &outputs), Err(Unidentifiable::NotFinite { index: 20 }));
        let found = on_line(&inputs, &outputs, 0.98).fit().unwrap().model;
        assert!((found.a() - 0.8).abs() < 1e-9 && (found.b() - 2.0).abs() < 1e-9, "{found:?}");
        let lengths = Unidentifiable::Lengths { inputs: 1, outputs: 2 };
        assert_eq!(fit(&[1.0], &[1.0, 2.0]), Err(lengths));
    }

    #[test]
    fn what_remembers_too_little_is_rejected() {
        assert!(OnLineFit::new(Ratio::saturating(0.5)).is_err());
    }

    fn any_number() -> impl Strategy<Value = f64> {
        prop_oneof![4 => -10.0..10.0_f64, 1 => Just(0.0), 1 => Just(1.0), 2 => any::<f64>()]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

        #[test]
        fn whatever_is_measured_the_answer_is_finite_or_an_error(
            samples in prop::collection::vec((any_number(), any_number()), 0..60),
        ) {
            let mut on_line = OnLineFit::new(Ratio::saturating(0.9)).unwrap();
            for (u, y) in samples {
                on_line.observe(u, y);
                if let Ok(Fit { model, condition, .. }) = on_line.fit() {
                    prop_assert!(model.a().is_finite() && model.b().is_finite());
                    prop_assert!((1.0..=CONDITION_MAX).contains(&condition));
                }
            }
        }
    }
}
