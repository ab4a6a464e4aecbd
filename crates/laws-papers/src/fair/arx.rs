//! The ARX model of a stage: a first-order linear difference equation.
//!
//! **Intuition.** What a stage does in one sample follows from what it did in the
//! one before and from what it was told just now. Two numbers say how much of each.
//!
//! **Mechanism** [Fair07 eq. 8].
//! ```text
//! y(k) = a·y(k−1) + b·u(k)
//! ```
//! The general ARX form (eq. 6, 7) lets only *past* inputs count; a stage follows a
//! change of its input within the sample, so that `u(k)` stands where others have
//! `u(k−1)`. In the z-plane that is `G(z) = b·z ÷ (z − a)` (eq. 21), and a loop
//! around it needs the delay in its feedback path that [`closed_loop`](super::closed_loop)
//! describes.
//!
//! **What it leaves out.** There is no constant term: `y` and `u` are deviations
//! from an operating point, or quantities that are zero together. A stage is only
//! nearly linear, and only around where it was measured.

/// `y(k) = a·y(k−1) + b·u(k)`, both coefficients finite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arx {
    a: f64,
    b: f64,
}

/// Coefficients that make no model.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("y(k) = {a}·y(k−1) + {b}·u(k) is not a model: both coefficients must be finite")]
pub struct InvalidArx {
    a: f64,
    b: f64,
}

impl Arx {
    /// The model with these coefficients.
    ///
    /// # Errors
    /// [`InvalidArx`] unless both are finite.
    pub fn new(a: f64, b: f64) -> Result<Self, InvalidArx> {
        if a.is_finite() && b.is_finite() { Ok(Self { a, b }) } else { Err(InvalidArx { a, b }) }
    }

    /// For coefficients that are known to be finite.
    pub(super) const fn of(a: f64, b: f64) -> Self {
        Self { a, b }
    }

    /// How much of the last output stays; the plant's own pole.
    #[inline]
    pub const fn a(&self) -> f64 {
        self.a
    }

    /// Output per unit of input, within the sample.
    #[inline]
    pub const fn b(&self) -> f64 {
        self.b
    }

    /// ŷ(k): the output that follows `y_before` under the input `u` [Fair07 eq. 9].
    #[inline]
    pub fn predict(&self, y_before: f64, u: f64) -> f64 {
        self.a * y_before + self.b * u
    }

    /// R²: how much of the outputs' variance the one-step predictions explain, at
    /// most 1, and below 0 where their plain mean predicts better. Meant for data
    /// that the model was not fitted to: `inputs[k]` led to `outputs[k]`. The thesis
    /// validates by eye (fig. 4-7); 0.8 is the customary bound [Hellerstein04 ch. 2].
    ///
    /// `None` if there are fewer than three pairs, the outputs never vary, or the
    /// sums are not finite.
    pub fn r_squared(&self, inputs: &[f64], outputs: &[f64]) -> Option<f64> {
        let count = inputs.len().min(outputs.len());
        if count < 3 {
            return None;
        }
        let predicted = &outputs[1..count];
        let mean = predicted.iter().sum::<f64>() / predicted.len() as f64;
        let total: f64 = predicted.iter().map(|y| (y - mean).powi(2)).sum();
        let missed: f64 = (1..count)
            .map(|k| (outputs[k] - self.predict(outputs[k - 1], inputs[k])).powi(2))
            .sum();
        let r_squared = 1.0 - missed / total;
        (total > 0.0 && r_squared.is_finite()).then_some(r_squared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coefficients_that_are_no_numbers_make_no_model() {
        assert!(Arx::new(f64::NAN, 1.0).is_err());
        assert!(Arx::new(0.5, f64::INFINITY).is_err());
    }

    #[test]
    fn a_model_explains_all_of_its_own_outputs_and_little_of_noise() {
        let model = Arx::new(0.5, 2.0).unwrap();
        let inputs = [1.0, 0.0, -1.0, 2.0, 0.5];
        let mut y = 0.0;
        let outputs = inputs.map(|u| {
            y = model.predict(y, u);
            y
        });
        assert_eq!(model.r_squared(&inputs, &outputs), Some(1.0));
        let unrelated = [3.0, -3.0, 3.0, -3.0, 3.0];
        assert!(model.r_squared(&inputs, &unrelated).unwrap() < 0.5);
    }

    #[test]
    fn what_does_not_vary_cannot_be_explained() {
        let model = Arx::new(1.0, 1.0).unwrap();
        assert_eq!(model.r_squared(&[0.0; 5], &[2.0; 5]), None);
        assert_eq!(model.r_squared(&[0.0; 2], &[1.0, 2.0]), None);
        assert_eq!(model.r_squared(&[0.0; 3], &[1.0, f64::NAN, 2.0]), None);
    }
}
