//! The response-time distribution of a centre: mean, variance, percentiles, density.

use tamarisk_control::Ratio;

use super::{PhaseType, Seconds, Steps};
use crate::matrix::Matrix;

/// The distribution of a response time.
#[derive(Clone, Debug, PartialEq)]
pub struct ResponseTime(Form);

#[derive(Clone, Debug, PartialEq)]
enum Form {
    /// With `probability` an exponential wait, then an exponential service.
    Waiting { probability: f64, wait_rate: f64, service_rate: f64 },
    /// A walk over exponential steps.
    Phases(PhaseType),
}

impl ResponseTime {
    pub(super) fn waiting(probability: f64, wait_rate: f64, service_rate: f64) -> Self {
        Self(Form::Waiting { probability, wait_rate, service_rate })
    }

    pub(crate) fn phases(walk: PhaseType) -> Self {
        Self(Form::Phases(walk))
    }

    /// The mean [Welsh02 eq. 4.8].
    pub fn mean(&self) -> Seconds {
        Seconds::computed(match &self.0 {
            Form::Waiting { probability, wait_rate, service_rate } => {
                1.0 / service_rate + probability / wait_rate
            }
            Form::Phases(walk) => walk.mean_seconds(),
        })
    }

    /// The variance, in s².
    pub fn variance(&self) -> f64 {
        match &self.0 {
            Form::Waiting { probability, wait_rate, service_rate } => {
                let wait = probability * (2.0 - probability) / (wait_rate * wait_rate);
                wait + 1.0 / (service_rate * service_rate)
            }
            Form::Phases(walk) => walk.variance(),
        }
    }

    /// `Pr[R > t]`, with all its digits also where it is tiny.
    pub fn exceeds(&self, t: Seconds) -> Ratio {
        Ratio::saturating(self.tail(t.get()).0)
    }

    /// `Pr[R ≤ t]` [Welsh02 eq. 4.9].
    pub fn within(&self, t: Seconds) -> Ratio {
        Ratio::saturating(match &self.0 {
            Form::Waiting { probability, wait_rate, service_rate } => {
                let t = t.get();
                let detour = convolution(*wait_rate, *service_rate, t);
                -(-service_rate * t).exp_m1() - probability * service_rate * detour
            }
            Form::Phases(_) => 1.0 - self.tail(t.get()).0,
        })
    }

    /// The density at `t`, per second.
    pub fn density(&self, t: Seconds) -> f64 {
        self.tail(t.get()).1
    }

    /// The response time that a share `percentile` of events does not exceed.
    /// That none exceeds does not exist; [`Ratio::ONE`] is taken as the
    /// greatest number below it.
    pub fn quantile(&self, percentile: Ratio) -> Seconds {
        /// A bisection of all positive numbers takes fewer.
        const STEPS: u32 = 2_200;
        const LAST_BELOW_ONE: f64 = 1.0 - f64::EPSILON / 2.0;
        let percentile = percentile.get().min(LAST_BELOW_ONE);
        if self.tail(0.0).0 <= 1.0 - percentile {
            return Seconds::ZERO;
        }
        // Newton's method on ln Pr[R > t], which is nearly a line, inside a
        // bracket that bisection shrinks. Markov's inequality gives its end.
        let wanted = (-percentile).ln_1p();
        let mean = self.mean().get();
        let (mut low, mut high) = (0.0, mean / (1.0 - percentile));
        let mut t = (-wanted * mean).min(high);
        for _ in 0..STEPS {
            let (tail, density) = self.tail(t);
            let excess = tail.ln() - wanted;
            if excess > 0.0 {
                low = t;
            } else {
                high = t;
            }
            let newton = t + excess * tail / density;
            let inside = newton > low && newton < high;
            let next = if inside { newton } else { low + (high - low) / 2.0 };
            if (next - t).abs() <= 2.0 * f64::EPSILON * t || next <= low || next >= high {
                t = next;
                break;
            }
            t = next;
        }
        Seconds::computed(t)
    }

    /// As a walk over steps, to be joined with others.
    pub(crate) fn walk(&self) -> PhaseType {
        match &self.0 {
            &Form::Waiting { probability, wait_rate, service_rate } => {
                let mut routes = Matrix::zeros(2, 2);
                routes[(0, 1)] = 1.0;
                PhaseType::from_steps(Steps {
                    entry: vec![probability, 1.0 - probability],
                    rates: vec![wait_rate, service_rate],
                    routes,
                    exits: vec![0.0, 1.0],
                })
            }
            Form::Phases(walk) => walk.clone(),
        }
    }

    /// `Pr[R > t]` and the density at t.
    fn tail(&self, t: f64) -> (f64, f64) {
        match &self.0 {
            &Form::Waiting { probability, wait_rate, service_rate } => {
                let served = (-service_rate * t).exp();
                let detour = service_rate * convolution(wait_rate, service_rate, t);
                let at_once = (1.0 - probability) * service_rate * served;
                (served + probability * detour, at_once + probability * wait_rate * detour)
            }
            Form::Phases(walk) => {
                let state = walk.state_after(t);
                let leaving = walk.rates().iter().zip(walk.exits());
                let density = state.iter().zip(leaving).map(|(s, (rate, exit))| s * rate * exit);
                (state.iter().sum(), density.sum())
            }
        }
    }
}

/// (e^(−at) − e^(−bt)) ÷ (b − a), also where a = b.
fn convolution(a: f64, b: f64, t: f64) -> f64 {
    let x = (b - a).abs() * t;
    let quotient = if x == 0.0 { 1.0 } else { -(-x).exp_m1() / x };
    t * (-a.min(b) * t).exp() * quotient
}
