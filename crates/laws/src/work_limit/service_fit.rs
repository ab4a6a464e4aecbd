//! How well services agree with each other: the likelihood of a gamma distribution.
//!
//! Its shape k is the same for all kinds of work, its mean m is that of each kind. Exponential
//! service has k = 1, equal services have a large k. With
//! D = ln m − (the mean of the logarithms), about 1 ÷ 2k, the likeliest shape is near
//! (3 − D + √((D − 3)² + 24 D)) ÷ 12 D.

/// D is thought to be this, that of Erlang-4, with the weight of so many services: enough that none
/// agree by chance, and so little that constant service shows.
const DIFFERENCE: f64 = 0.13;
const PRIOR: f64 = 0.02;
/// Clocks do not tell services apart that differ less.
const DIFFERENCE_MIN: f64 = 1e-9;

/// Services, added up.
#[derive(Clone, Debug, Default)]
pub(super) struct ServiceFit {
    rows: Vec<Sum>,
    weight: f64,
    logarithms: f64,
}

/// The services of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    weight: f64,
    seconds: f64,
}

impl ServiceFit {
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        (self.weight, self.logarithms) = (0.0, 0.0);
    }

    /// One of the kind in `row` took so many seconds, more than none.
    pub(super) fn add(&mut self, row: usize, weight: f64, seconds: f64) {
        if row >= self.rows.len() {
            self.rows.resize(row + 1, Sum::default());
        }
        let sum = &mut self.rows[row];
        sum.weight += weight;
        sum.seconds += weight * seconds;
        self.weight += weight;
        self.logarithms += weight * seconds.ln();
    }

    /// How likely they are with the shape that fits them best (its logarithm, of a density in seconds).
    pub(super) fn likelihood(&self) -> f64 {
        let present = self.rows.iter().filter(|sum| sum.weight > 0.0);
        let means: f64 = present.map(|sum| sum.weight * (sum.seconds / sum.weight).ln()).sum();
        let difference = means - self.logarithms;
        let usual = (difference + PRIOR * DIFFERENCE) / (self.weight + PRIOR);
        let shape = shape(usual.max(DIFFERENCE_MIN));
        let normal = shape * shape.ln() - shape - ln_gamma(shape);
        self.weight * normal - shape * difference - self.logarithms
    }
}

/// The likeliest shape.
fn shape(difference: f64) -> f64 {
    (3.0 - difference + ((difference - 3.0).powi(2) + 24.0 * difference).sqrt())
        / (12.0 * difference)
}

/// ln Γ, by Stirling's series, which is exact to ten digits from 8 on, and Γ(x + 1) = x · Γ(x).
fn ln_gamma(x: f64) -> f64 {
    const SHIFT: u32 = 8;
    let below: f64 = (0..SHIFT).map(|step| x + f64::from(step)).product();
    let y = x + f64::from(SHIFT);
    let series = (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / (1260.0 * y * y)) / (y * y)) / y;
    (y - 0.5) * y.ln() - y + 0.5 * std::f64::consts::TAU.ln() + series - below.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn likelihood(services: &[f64]) -> f64 {
        let mut fit = ServiceFit::default();
        services.iter().for_each(|seconds| fit.add(0, 1.0, *seconds));
        fit.likelihood()
    }

    /// Quantiles of the exponential distribution with the mean of a second.
    fn exponential(count: u32) -> Vec<f64> {
        (0..count).map(|k| -(1.0 - (f64::from(k) + 0.5) / f64::from(count)).ln()).collect()
    }

    #[test]
    fn exponential_services_are_as_likely_as_their_density_says() {
        let services = exponential(1000);
        // The density is e^-s.
        let expected = -services.iter().sum::<f64>();
        let found = likelihood(&services);
        assert!((found / expected - 1.0).abs() < 0.01, "{found} for {expected}");
    }

    #[test]
    fn services_that_agree_are_the_likelier() {
        let equal = likelihood(&[1.0; 8]);
        let similar = likelihood(&[0.9, 1.1, 0.9, 1.1, 0.9, 1.1, 0.9, 1.1]);
        let unlike = likelihood(&[0.1, 1.9, 0.1, 1.9, 0.1, 1.9, 0.1, 1.9]);
        assert!(equal > similar && similar > unlike, "{equal}, {similar}, {unlike}");
    }

    #[test]
    fn each_kind_has_a_mean_of_its_own() {
        let mut fit = ServiceFit::default();
        for _ in 0..8 {
            fit.add(0, 1.0, 0.01);
            fit.add(1, 1.0, 10.0);
        }
        let apart = fit.likelihood();
        fit.clear();
        for seconds in [0.01, 10.0].repeat(8) {
            fit.add(0, 1.0, seconds);
        }
        assert!(apart > fit.likelihood());
    }

    #[test]
    fn ln_gamma_is_that_of_factorials_and_of_a_half() {
        let factorial = |n: u32| (1..=n).map(f64::from).product::<f64>().ln();
        for n in 0..20 {
            let found = ln_gamma(f64::from(n) + 1.0);
            assert!((found - factorial(n)).abs() < 1e-9, "{n}: {found}");
        }
        let of_a_half = std::f64::consts::PI.sqrt().ln();
        assert!((ln_gamma(0.5) - of_a_half).abs() < 1e-9);
    }

    #[test]
    fn a_single_service_has_a_likelihood() {
        assert!(likelihood(&[1.0]).is_finite());
    }
}
