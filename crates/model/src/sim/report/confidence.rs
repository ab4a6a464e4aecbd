//! Confidence intervals of means, from batches.

use std::f64::consts::FRAC_PI_2;

/// A mean, and how far the true one may be from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half the width of the confidence interval around it.
    pub half_width: f64,
}

impl Estimate {
    /// The mean of independent values with its interval at `confidence` (0.95, say), by
    /// Student's distribution: of batch means of one run, or of one value from each
    /// of several runs. `None` of fewer than two values, of a value that is not
    /// finite, or of a confidence that is not strictly between 0 and 1.
    ///
    /// # Examples
    /// ```
    /// use tamarisk_model::sim::Estimate;
    ///
    /// // s = 1, n = 3, t(0.975; 2) = 4.3027: the half width is 4.3027 ÷ √3.
    /// let estimate = Estimate::of(&[1.0, 2.0, 3.0], 0.95).ok_or("three values are enough")?;
    /// assert!((estimate.half_width - 2.4841).abs() < 1e-4);
    /// # Ok::<(), &str>(())
    /// ```
    pub fn of(values: &[f64], confidence: f64) -> Option<Self> {
        let sound = values.len() >= 2 && values.iter().all(|value| value.is_finite());
        if !(sound && confidence > 0.0 && confidence < 1.0) {
            return None;
        }
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let error = (squares / (count - 1.0) / count).sqrt();
        let freedom = u32::try_from(values.len() - 1).unwrap_or(u32::MAX);
        Some(Self { mean, half_width: student_quantile(freedom, confidence) * error })
    }

    /// Whether `value` lies within the interval.
    pub fn covers(&self, value: f64) -> bool {
        (value - self.mean).abs() <= self.half_width
    }
}

/// The t for which `P(|T| ≤ t) = share`, at most 10⁹.
fn student_quantile(freedom: u32, share: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while central_share(freedom, high) < share && high < 1e9 {
        low = high;
        high *= 2.0;
    }
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if central_share(freedom, middle) < share {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// `P(|T| ≤ t)` for Student's distribution [Abramowitz64 §26.7].
fn central_share(freedom: u32, t: f64) -> f64 {
    /// Beyond so many degrees the quantile differs from this one's by less than 10⁻⁴.
    const FREEDOM_MAX: u32 = 10_000;
    let freedom = freedom.min(FREEDOM_MAX);
    let theta = (t / f64::from(freedom).sqrt()).atan();
    let (sine, cosine) = theta.sin_cos();
    // Even: sin θ·(1 + ½cos² + ½·¾cos⁴ + …); odd: (2/π)·(θ + sin θ·(cos + ⅔cos³ + …)).
    let odd = freedom % 2 == 1;
    let mut term = if odd { cosine } else { 1.0 };
    let mut sum = 0.0;
    let mut order = if odd { 3 } else { 2 };
    while order <= freedom {
        sum += term;
        term *= cosine * cosine * f64::from(order - 1) / f64::from(order);
        order += 2;
    }
    if odd { (theta + sine * sum) / FRAC_PI_2 } else { sine * sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the usual table.
    #[test]
    fn quantiles_are_those_of_the_table() {
        let table = [
            (1, 0.95, 12.706),
            (2, 0.95, 4.303),
            (3, 0.99, 5.841),
            (4, 0.90, 2.132),
            (9, 0.95, 2.262),
            (10, 0.95, 2.228),
            (19, 0.95, 2.093),
            (19, 0.999, 3.883),
            (30, 0.99, 2.750),
            (120, 0.95, 1.980),
            (1_000_000, 0.95, 1.960),
        ];
        for (freedom, share, expected) in table {
            let quantile = student_quantile(freedom, share);
            assert!((quantile - expected).abs() < 6e-4, "{freedom} {share}: {quantile}");
        }
    }

    #[test]
    fn nothing_is_said_of_too_little() {
        assert_eq!(Estimate::of(&[1.0], 0.95), None);
        assert_eq!(Estimate::of(&[1.0, f64::NAN], 0.95), None);
        assert_eq!(Estimate::of(&[1.0, 2.0], 1.0), None);
    }

    #[test]
    fn equal_values_are_sure() {
        let estimate = Estimate::of(&[4.0; 5], 0.95).unwrap();
        assert_eq!(estimate, Estimate { mean: 4.0, half_width: 0.0 });
    }
}
