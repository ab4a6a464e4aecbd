//! The builder of the multiclass controller: its parameters, validated.

use super::{Multiclass, Place};
use crate::response_time::{InvalidResponseTime, ResponseTimeBuilder};

/// adjlo_d [Welsh03 §3.3; Welsh02 §7.2.3]
const LOWER_DECREASE: f64 = 10.0;

/// lc_thresh [Welsh03 §3.3; Welsh02 §7.2.3]
const LAG_THRESHOLD: u32 = 20;

/// Sets the parameters of [`Multiclass`]; the defaults are the published ones.
#[derive(Clone, Debug)]
#[must_use]
pub struct MulticlassBuilder<'a> {
    each_class: ResponseTimeBuilder<'a>,
    adjlo_d: f64,
    lc_thresh: u32,
}

/// Why the parameters of [`Multiclass`] do not go together.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InvalidMulticlass {
    /// Those of the controllers of the single classes.
    #[error(transparent)]
    EachClass(#[from] InvalidResponseTime),
    /// Lower classes would not be cut, or be raised.
    #[error("the rates of lower classes cannot be cut by a factor of {0}")]
    LowerDecrease(f64),
}

impl<'a> MulticlassBuilder<'a> {
    /// With these parameters for the controller of each class.
    pub fn new(each_class: ResponseTimeBuilder<'a>) -> Self {
        Self { each_class, adjlo_d: LOWER_DECREASE, lc_thresh: LAG_THRESHOLD }
    }

    /// adjlo_d: what the rates of lower classes are divided by. Default 10.
    pub fn lower_decrease(mut self, adjlo_d: f64) -> Self {
        self.adjlo_d = adjlo_d;
        self
    }

    /// lc_thresh: periods in which a class is late although all lower ones are shut
    /// out, until it is cut itself. Default 20.
    pub fn lag_threshold(mut self, periods: u32) -> Self {
        self.lc_thresh = periods;
        self
    }

    /// The law, if the parameters go together.
    ///
    /// # Errors
    /// [`InvalidMulticlass`] says which do not.
    pub fn build(self) -> Result<Multiclass, InvalidMulticlass> {
        self.each_class.check()?;
        if !(self.adjlo_d.is_finite() && self.adjlo_d > 1.0) {
            return Err(InvalidMulticlass::LowerDecrease(self.adjlo_d));
        }
        Ok(self.law())
    }

    /// The law with parameters that are known to go together.
    pub(super) fn law(self) -> Multiclass {
        let places = self.each_class.classes().iter().map(|(_, class)| Place {
            priority: class.priority,
            lag: 0,
            flagged: false,
        });
        Multiclass {
            parameters: self.each_class.parameters(),
            adjlo_d: self.adjlo_d,
            lc_thresh: self.lc_thresh,
            controllers: self.each_class.controllers(),
            places: places.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tamarisk_control::{Classes, Target};

    use super::*;
    use crate::ResponseTime;

    #[test]
    fn parameters_without_sense_are_rejected() {
        let classes = Classes::single(Target::p90(Duration::from_secs(1)).unwrap());
        let builder = || MulticlassBuilder::new(ResponseTime::builder(&classes));
        assert!(builder().build().is_ok());
        assert!(builder().lower_decrease(1.0).build().is_err());
        assert!(builder().lower_decrease(f64::NAN).build().is_err());
        let each_class = ResponseTime::builder(&classes).requests(0);
        assert_eq!(
            MulticlassBuilder::new(each_class).build().err(),
            Some(InvalidMulticlass::EachClass(InvalidResponseTime::Requests(0)))
        );
    }
}
