//! The builder of the response-time controller: its parameters, validated.

use std::time::Duration;

use tamarisk_control::{Class, Classes, PerSecond, Ratio};

use super::{ClassController, Parameters, ResponseTime};
use tamarisk_laws::constants::constants;
use tamarisk_laws::smoothed_percentile::Period;

/// More samples than this between two runs are no control any more, and memory
/// is kept for each of them.
const NREQ_MAX: u32 = 10_000;

constants! {
    /// Of [`ResponseTime`] and [`Multiclass`](crate::Multiclass), with the published values
    /// [Welsh03 fig. 4; Welsh02 fig. 50]; the first rate and the depth are those of the released
    /// code \[Sandstorm\].
    pub(crate) struct ResponseTimeConstants {
        /// nreq: completions between two runs
        requests_count: u32 = 100.0 in 1.0..=10_000.0 searched 10.0..=1000.0,
        /// alpha: the weight of the past
        filter_ratio: Ratio = 0.7 in 0.0..=0.99,
        // Where it is within the target by half of it, and no nearer.
        /// err_i: the rate rises below this error
        error_increase_ratio: f64 = -0.5 in -1.0..=0.0 searched -0.9..=-0.1,
        // Far above the target the law never acts, and is a fixed rate.
        /// err_d: the rate falls above it
        error_decrease_ratio: f64 = 0.0 in 0.0..=10.0 searched 0.0..=0.5,
        /// adj_i: what is added, for each unit of error
        increase_per_second: f64 = 2.0 in 0.01..=1000.0 searched 0.5..=100.0,
        /// adj_d: what the rate is divided by
        decrease_ratio: f64 = 1.2 in 1.001..=100.0 searched 1.05..=4.0,
        /// c_i: the error at which nothing is added
        increase_weight_ratio: f64 = -0.1 in -1.0..=0.0 searched -0.1..=-0.1,
        // A least rate near the capacity is a fixed one.
        /// the least rate
        rate_min_per_second: f64 = 0.05 in 0.001..=1e6 searched 0.05..=0.05,
        // And so is a greatest one, or a first one that hardly moves.
        /// the greatest rate
        rate_max_per_second: f64 = 5000.0 in 0.01..=1e9 searched 5000.0..=5000.0,
        /// the first rate, unless the greatest is less
        rate_initial_per_second: f64 = 100.0 in 0.001..=1e9 searched 100.0..=100.0,
        /// tokens that a bucket keeps
        burst_count: f64 = 1.0 in 1.0..=1e6 searched 1.0..=100.0,
    }
}

/// "E.g., 10% above the administrator-specified target" [Welsh01 §3.2]
const HALVING_ERROR: f64 = 0.1;
/// "E.g., dividing the admission rate by 2" [Welsh01 §3.2]
const HALVING_DECREASE: f64 = 2.0;

constants! {
    /// Of the variant of the position paper [Welsh01 §3.2]; what it does not print is as in
    /// [`ResponseTimeConstants`].
    pub(crate) struct HalvingConstants {
        /// the greatest rate
        rate_max_per_second: f64 = 5000.0 in 0.01..=1e9,
        /// the first rate, unless the greatest is less
        rate_initial_per_second: f64 = 100.0 in 0.001..=1e9,
    }
}

/// Sets the parameters of [`ResponseTime`]; the defaults are the published ones.
#[derive(Clone, Debug)]
#[must_use]
pub struct ResponseTimeBuilder<'a> {
    name: &'static str,
    classes: &'a Classes,
    parameters: Parameters,
}

/// Why the parameters of [`ResponseTime`] do not go together.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InvalidResponseTime {
    /// None, or too many.
    #[error("the controller runs after 1 to {NREQ_MAX} requests, not {0}")]
    Requests(u32),
    /// It would run all the time.
    #[error("the controller cannot run every {0:?}")]
    Timeout(Duration),
    /// With α = 1 no sample counts.
    #[error("a filter constant of {0} is not below 1")]
    Filter(Ratio),
    /// The rate would rise and fall at once, or an error is no number.
    #[error("an increase below an error of {increase} and a decrease above {decrease} overlap")]
    Errors {
        /// err_i
        increase: f64,
        /// err_d
        decrease: f64,
    },
    /// The rate would not move, or move the wrong way.
    #[error("the rate cannot rise by {increase} a second and fall by a factor of {decrease}")]
    Adjustments {
        /// adj_i
        increase: f64,
        /// adj_d
        decrease: f64,
    },
    /// c_i must lie at or above err_i: else a rate below its target would sink.
    #[error("an increase weight of {0} is not between the increase error and 0")]
    Weight(f64),
    /// At a rate of zero no event would ever show that things are better.
    #[error("a rate between {min} and {max} is none")]
    Rates {
        /// rate_min
        min: PerSecond,
        /// rate_max
        max: PerSecond,
    },
    /// It would admit nothing at first, and so never learn.
    #[error("the first rate is 0: it must be greater")]
    RateInitial,
    /// A bucket that holds less than a token admits nothing.
    #[error("a burst of {0} events admits none: it must be 1 or more")]
    Burst(f64),
}

impl<'a> ResponseTimeBuilder<'a> {
    pub(super) fn new(classes: &'a Classes) -> Self {
        let parameters = ResponseTimeConstants::default().into();
        Self { name: "response-time", classes, parameters }
    }

    /// The variant of the position paper: the rate is halved when the percentile exceeds 1.1
    /// times the target [Welsh01 §3.2].
    pub fn halving(mut self) -> Self {
        self.name = "response-time-halving";
        self.error_decrease(HALVING_ERROR).decrease(HALVING_DECREASE)
    }

    pub(crate) fn halving_constants(mut self, constants: &HalvingConstants) -> Self {
        self.parameters.rate_max = constants.rate_max_per_second;
        self.parameters.rate_initial = constants.rate_initial_per_second;
        self.halving()
    }

    pub(crate) fn constants(mut self, constants: ResponseTimeConstants) -> Self {
        self.parameters = constants.into();
        self
    }

    /// nreq: completions between two runs of the controller. Default 100.
    pub fn requests(mut self, nreq: u32) -> Self {
        self.parameters.period.samples = nreq;
        self
    }

    /// timeout: the longest time between two runs. Default 1 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.parameters.period.timeout = timeout;
        self
    }

    /// α: the weight of the past in the smoothed percentile. Default 0.7.
    pub fn filter(mut self, alpha: Ratio) -> Self {
        self.parameters.period.alpha = alpha.get();
        self
    }

    /// err_i: the rate rises while the error, relative to the target, is below
    /// this. Default −0.5.
    pub fn error_increase(mut self, err_i: f64) -> Self {
        self.parameters.err_i = err_i;
        self
    }

    /// err_d: the rate falls while the error is above this. Default 0.
    pub fn error_decrease(mut self, err_d: f64) -> Self {
        self.parameters.err_d = err_d;
        self
    }

    /// adj_i: requests a second to add, for each unit of error. Default 2.
    pub fn increase(mut self, adj_i: f64) -> Self {
        self.parameters.adj_i = adj_i;
        self
    }

    /// adj_d: what the rate is divided by. Default 1.2.
    pub fn decrease(mut self, adj_d: f64) -> Self {
        self.parameters.adj_d = adj_d;
        self
    }

    /// c_i: the error at which nothing would be added. Default −0.1.
    pub fn increase_weight(mut self, c_i: f64) -> Self {
        self.parameters.c_i = c_i;
        self
    }

    /// The least rate. Default 0.05 a second.
    pub fn rate_min(mut self, rate: PerSecond) -> Self {
        self.parameters.rate_min = rate.get();
        self
    }

    /// The greatest rate. Default 5000 a second.
    pub fn rate_max(mut self, rate: PerSecond) -> Self {
        self.parameters.rate_max = rate.get();
        self
    }

    /// The first rate, unless the greatest is less. Default 100 a second.
    pub fn rate_initial(mut self, rate: PerSecond) -> Self {
        self.parameters.rate_initial = rate.get();
        self
    }

    /// The depth of the bucket: how many events may enter at once after a pause. Default 1,
    /// which is the least.
    pub fn burst(mut self, events: f64) -> Self {
        self.parameters.burst = events;
        self
    }

    /// The law, if the parameters go together.
    ///
    /// # Errors
    /// [`InvalidResponseTime`] says which do not.
    pub fn build(self) -> Result<ResponseTime, InvalidResponseTime> {
        self.check()?;
        Ok(self.law())
    }

    /// Whether the parameters go together.
    pub(crate) fn check(&self) -> Result<(), InvalidResponseTime> {
        use InvalidResponseTime as Invalid;
        let Parameters { period, err_i, err_d, adj_i, adj_d, c_i, .. } = self.parameters;
        let Period { samples: nreq, timeout, alpha } = period;
        if nreq == 0 || nreq > NREQ_MAX {
            return Err(Invalid::Requests(nreq));
        }
        if timeout.is_zero() {
            return Err(Invalid::Timeout(timeout));
        }
        if alpha >= 1.0 {
            return Err(Invalid::Filter(Ratio::saturating(alpha)));
        }
        if !(err_i.is_finite() && err_d.is_finite() && err_i <= err_d) {
            return Err(Invalid::Errors { increase: err_i, decrease: err_d });
        }
        let moves = adj_i.is_finite() && adj_i > 0.0 && adj_d.is_finite() && adj_d > 1.0;
        if !moves {
            return Err(Invalid::Adjustments { increase: adj_i, decrease: adj_d });
        }
        if !(err_i..=0.0).contains(&c_i) {
            return Err(Invalid::Weight(c_i));
        }
        let (min, max) = self.rates();
        if min == PerSecond::ZERO || min > max {
            return Err(Invalid::Rates { min, max });
        }
        let Parameters { rate_initial, burst, .. } = self.parameters;
        if rate_initial <= 0.0 {
            return Err(Invalid::RateInitial);
        }
        if !(burst.is_finite() && burst >= 1.0) {
            return Err(Invalid::Burst(burst));
        }
        Ok(())
    }

    /// The law with parameters that are known to go together.
    pub(super) fn law(self) -> ResponseTime {
        let controllers = self.controllers();
        ResponseTime { name: self.name, parameters: self.parameters, controllers }
    }

    pub(crate) fn controllers(&self) -> Box<[ClassController]> {
        let controller =
            |(_, class): (_, &Class)| ClassController::new(class.target, &self.parameters);
        self.classes.iter().map(controller).collect()
    }

    pub(crate) fn classes(&self) -> &'a Classes {
        self.classes
    }

    pub(crate) fn parameters(&self) -> Parameters {
        self.parameters
    }

    fn rates(&self) -> (PerSecond, PerSecond) {
        let rate = |rate| PerSecond::new(rate).unwrap_or(PerSecond::ZERO);
        (rate(self.parameters.rate_min), rate(self.parameters.rate_max))
    }
}

impl From<ResponseTimeConstants> for Parameters {
    fn from(constants: ResponseTimeConstants) -> Self {
        Self {
            period: Period {
                samples: constants.requests_count,
                alpha: constants.filter_ratio.get(),
                ..Period::PUBLISHED
            },
            err_i: constants.error_increase_ratio,
            err_d: constants.error_decrease_ratio,
            adj_i: constants.increase_per_second,
            adj_d: constants.decrease_ratio,
            c_i: constants.increase_weight_ratio,
            rate_min: constants.rate_min_per_second,
            rate_max: constants.rate_max_per_second,
            rate_initial: constants.rate_initial_per_second,
            burst: constants.burst_count,
        }
    }
}

#[cfg(test)]
mod tests {
    use tamarisk_control::Target;

    use super::*;

    fn check(
        set: impl FnOnce(ResponseTimeBuilder<'_>) -> ResponseTimeBuilder<'_>,
    ) -> Option<InvalidResponseTime> {
        let classes = Classes::single(Target::p90(Duration::from_secs(1)).unwrap());
        set(ResponseTime::builder(&classes)).build().err()
    }

    #[test]
    fn the_published_parameters_go_together() {
        assert_eq!(check(|builder| builder), None);
    }

    #[test]
    fn parameters_without_sense_are_rejected() {
        assert!(check(|builder| builder.requests(0)).is_some());
        assert!(check(|builder| builder.requests(10_001)).is_some());
        assert!(check(|builder| builder.timeout(Duration::ZERO)).is_some());
        assert!(check(|builder| builder.filter(Ratio::ONE)).is_some());
        assert!(check(|builder| builder.error_increase(0.5)).is_some());
        assert!(check(|builder| builder.error_decrease(f64::NAN)).is_some());
        assert!(check(|builder| builder.increase(0.0)).is_some());
        assert!(check(|builder| builder.decrease(1.0)).is_some());
        assert!(check(|builder| builder.increase_weight(-0.6)).is_some());
        assert!(check(|builder| builder.rate_min(PerSecond::ZERO)).is_some());
        assert!(check(|builder| builder.rate_max(PerSecond::new(0.01).unwrap())).is_some());
        assert!(check(|builder| builder.rate_initial(PerSecond::ZERO)).is_some());
        assert!(check(|builder| builder.burst(0.5)).is_some());
        assert!(check(|builder| builder.burst(f64::NAN)).is_some());
    }

    #[test]
    fn an_error_names_the_values() {
        let error = check(|builder| builder.decrease(0.5)).unwrap();
        assert_eq!(
            error.to_string(),
            "the rate cannot rise by 2 a second and fall by a factor of 0.5"
        );
    }
}
