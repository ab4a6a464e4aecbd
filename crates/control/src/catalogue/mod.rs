//! The laws by their names, with the constants that one may want to change: what
//! configuration files, the simulator and its search choose from.
//!
//! # Examples
//! ```
//! # use std::time::Duration;
//! # use tamarisk_control::*;
//! let classes = Classes::single(Target::p90(Duration::from_millis(200))?);
//! let entry = catalogue::admission("threshold").expect("it is listed");
//! let law = entry.law_with(&classes, &[("queued_count", 20.0)])?;
//! assert_eq!(law.name(), "threshold");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod admission;

pub use admission::ADMISSION;

use crate::{AdmissionLaw, Classes};

/// A constant of a law. Its name is snake case and ends in its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knob {
    /// Such as `standing_wait_ratio`.
    pub name: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// What it is if nobody says.
    pub default: f64,
    /// The least that makes sense.
    pub least: f64,
    /// The greatest that makes sense.
    pub greatest: f64,
}

/// An admission law that can be named.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionEntry {
    /// As [`AdmissionLaw::name`].
    pub name: &'static str,
    /// In one line.
    pub summary: &'static str,
    /// Its constants.
    pub knobs: &'static [Knob],
    /// Makes the law of one value for each knob, in their order.
    make: Make,
}

type Make = fn(&Classes, &[f64]) -> Result<Box<dyn AdmissionLaw>, String>;

/// Why a law cannot have such constants.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InvalidKnob {
    /// It has no such constant.
    #[error("{law} has no {knob:?}; it has {known}")]
    Unknown {
        /// The law.
        law: &'static str,
        /// What was asked for.
        knob: String,
        /// What there is.
        known: String,
    },
    /// No law would work with it.
    #[error("{knob} of {law} cannot be {value}: it lies between {least} and {greatest}")]
    Range {
        /// The law.
        law: &'static str,
        /// The constant.
        knob: &'static str,
        /// What was asked for.
        value: f64,
        /// The least.
        least: f64,
        /// The greatest.
        greatest: f64,
    },
    /// Each is possible, and all together are not.
    #[error("{law}: {reason}")]
    Together {
        /// The law.
        law: &'static str,
        /// What the law says.
        reason: String,
    },
}

/// The admission law of this name.
pub fn admission(name: &str) -> Option<&'static AdmissionEntry> {
    ADMISSION.iter().find(|entry| entry.name == name)
}

impl AdmissionEntry {
    /// The law with its default constants.
    pub fn law(&self, classes: &Classes) -> Box<dyn AdmissionLaw> {
        (self.make)(classes, &self.defaults()).expect("defaults go together")
    }

    /// The law with some constants of one's own.
    ///
    /// # Errors
    /// [`InvalidKnob`] says which cannot be.
    pub fn law_with(
        &self,
        classes: &Classes,
        knobs: &[(&str, f64)],
    ) -> Result<Box<dyn AdmissionLaw>, InvalidKnob> {
        let law = self.name;
        let mut values = self.defaults();
        for &(name, value) in knobs {
            let Some(index) = self.knobs.iter().position(|knob| knob.name == name) else {
                let names: Vec<_> = self.knobs.iter().map(|knob| knob.name).collect();
                let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                return Err(InvalidKnob::Unknown { law, knob: name.to_owned(), known });
            };
            let Knob { name: knob, least, greatest, .. } = self.knobs[index];
            if !(least..=greatest).contains(&value) {
                return Err(InvalidKnob::Range { law, knob, value, least, greatest });
            }
            values[index] = value;
        }
        (self.make)(classes, &values).map_err(|reason| InvalidKnob::Together { law, reason })
    }

    fn defaults(&self) -> Vec<f64> {
        self.knobs.iter().map(|knob| knob.default).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Target;

    fn classes() -> Classes {
        Classes::single(Target::p90(Duration::from_millis(200)).unwrap())
    }

    #[test]
    fn every_law_is_listed_once_under_its_own_name() {
        for entry in ADMISSION {
            assert_eq!(entry.law(&classes()).name(), entry.name);
            let alike = ADMISSION.iter().filter(|other| other.name == entry.name);
            assert_eq!(alike.count(), 1, "{}", entry.name);
        }
    }

    #[test]
    fn every_constant_can_have_its_least_and_its_greatest_value() {
        for entry in ADMISSION {
            for knob in entry.knobs {
                assert!((knob.least..=knob.greatest).contains(&knob.default), "{}", knob.name);
                for value in [knob.least, knob.greatest] {
                    match entry.law_with(&classes(), &[(knob.name, value)]) {
                        Ok(_) | Err(InvalidKnob::Together { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        }
    }

    #[test]
    fn an_error_says_what_can_be() {
        let red = admission("red").unwrap();
        let error = |knobs: &[(&str, f64)]| match red.law_with(&classes(), knobs) {
            Ok(_) => panic!("it cannot be"),
            Err(error) => error.to_string(),
        };
        assert!(error(&[("weigth_ratio", 0.1)]).contains("it has queue_min_count"));
        assert_eq!(
            error(&[("weight_ratio", f64::NAN)]),
            "weight_ratio of red cannot be NaN: it lies between 0.00001 and 1"
        );
        assert!(error(&[("queue_min_count", 50.0)]).starts_with("red: "));
    }
}
