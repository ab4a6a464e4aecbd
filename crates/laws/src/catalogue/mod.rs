//! The catalogue of laws: each by name, with its constants, for configuration files, the simulator
//! and the tuner.
//!
//! # Examples
//! ```
//! # use std::time::Duration;
//! # use tamarisk_control::*;
//! # use tamarisk_laws::*;
//! let classes = Classes::single(Target::p90(Duration::from_millis(200))?);
//! let entry = catalogue::admission("threshold").expect("it is listed");
//! let law = entry.law_with(&classes, &[("queued_count", 20.0)])?;
//! assert_eq!(law.name(), "threshold");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod admission;
mod global;
mod laws;
mod slow;

use std::fmt;

pub use crate::constants::Knob;
pub use admission::{ADMISSION, DROPPING};
pub use global::{GLOBAL, global};
pub use laws::{Coordination, InvalidLaw, Laws};
pub use slow::{BATCHING, QUALITY, TERMINATION, WORKERS};

use tamarisk_control::{
    AdmissionLaw, BatchLaw, Classes, GlobalLaw, QualityLaw, TerminationLaw, WorkersLaw,
};

/// A law that can be named; `L` says of which kind.
pub struct Entry<L: ?Sized + 'static> {
    /// As the law's own, such as [`AdmissionLaw::name`].
    pub name: &'static str,
    /// In one line.
    pub summary: &'static str,
    /// Its constants.
    pub knobs: &'static [Knob],
    /// Makes the law of one value for each knob, in their order.
    make: fn(&Classes, &[f64]) -> Result<Box<L>, Conflict>,
}

/// Why constants do not go together, as the law says it.
struct Conflict(String);

impl<E: std::error::Error> From<E> for Conflict {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// An [`Entry`] whose law is made of the classes of its stage and of its own constants.
macro_rules! entry {
    ($name:literal, $summary:literal, |$classes:pat_param| $law:expr) => {
        entry!($name, $summary, |$classes, _none: ()| $law)
    };
    ($name:literal, $summary:literal, |$classes:pat_param, $constants:ident: $type:ty| $law:expr) => {
        $crate::catalogue::Entry {
            name: $name,
            summary: $summary,
            knobs: <$type as $crate::constants::Constants>::KNOBS,
            make: |$classes, values| {
                let mut values = values.iter().copied();
                let $constants = <$type as $crate::constants::Constants>::from_values(&mut values);
                Ok(Box::new($law))
            },
        }
    };
}
use entry;

/// An admission law that can be named.
pub type AdmissionEntry = Entry<dyn AdmissionLaw>;
/// A workers law that can be named.
pub type WorkersEntry = Entry<dyn WorkersLaw>;
/// A batching law that can be named.
pub type BatchEntry = Entry<dyn BatchLaw>;
/// A quality law that can be named.
pub type QualityEntry = Entry<dyn QualityLaw>;
/// A termination law that can be named.
pub type TerminationEntry = Entry<dyn TerminationLaw>;
/// A global law that can be named.
pub type GlobalEntry = Entry<dyn GlobalLaw>;

/// A law of the catalogue, and the values of its constants.
pub struct Named<L: ?Sized + 'static> {
    entry: &'static Entry<L>,
    values: Box<[f64]>,
}

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

impl<L: ?Sized> Entry<L> {
    /// The law with its default constants.
    pub fn law(&'static self, classes: &Classes) -> Box<L> {
        self.named().make(classes).expect("defaults go together")
    }

    /// The law with some constants of one's own.
    ///
    /// # Errors
    /// [`InvalidKnob`] says which cannot be.
    pub fn law_with(
        &'static self,
        classes: &Classes,
        knobs: &[(&str, f64)],
    ) -> Result<Box<L>, InvalidKnob> {
        let mut named = self.named();
        for &(knob, value) in knobs {
            named.set(knob, value)?;
        }
        named.make(classes)
    }

    /// The choice of this law, with its default constants.
    pub fn named(&'static self) -> Named<L> {
        Named { entry: self, values: self.knobs.iter().map(|knob| knob.default).collect() }
    }
}

impl<L: ?Sized> Named<L> {
    /// The law's name.
    pub fn name(&self) -> &'static str {
        self.entry.name
    }

    /// The constants by name, and their values.
    pub fn knobs(&self) -> impl Iterator<Item = (&'static str, f64)> + '_ {
        self.entry.knobs.iter().map(|knob| knob.name).zip(self.values.iter().copied())
    }

    /// Gives one constant another value.
    ///
    /// # Errors
    /// [`InvalidKnob`] if there is no such constant, or no law would work with it.
    pub fn set(&mut self, knob: &str, value: f64) -> Result<(), InvalidKnob> {
        let (law, knobs) = (self.entry.name, self.entry.knobs);
        let mut slots = knobs.iter().zip(&mut self.values);
        let Some((known, slot)) = slots.find(|(known, _)| known.name == knob) else {
            let names: Vec<_> = knobs.iter().map(|knob| knob.name).collect();
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return Err(InvalidKnob::Unknown { law, knob: knob.to_owned(), known });
        };
        let Knob { name: knob, least, greatest, .. } = *known;
        if !(least..=greatest).contains(&value) {
            return Err(InvalidKnob::Range { law, knob, value, least, greatest });
        }
        *slot = value;
        Ok(())
    }

    /// The law itself.
    ///
    /// # Errors
    /// [`InvalidKnob::Together`] if its constants do not go together.
    pub fn make(&self, classes: &Classes) -> Result<Box<L>, InvalidKnob> {
        let law = self.entry.name;
        let made = (self.entry.make)(classes, &self.values);
        made.map_err(|Conflict(reason)| InvalidKnob::Together { law, reason })
    }
}

impl<L: ?Sized> fmt::Debug for Entry<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<L: ?Sized> fmt::Debug for Named<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple(self.name()).field(&self.values).finish()
    }
}

impl<L: ?Sized> Clone for Named<L> {
    fn clone(&self) -> Self {
        Self { entry: self.entry, values: self.values.clone() }
    }
}

impl<L: ?Sized> PartialEq for Named<L> {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name() && self.values == other.values
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tamarisk_control::Target;

    use super::*;

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

    fn check_slow<L: ?Sized>(entries: &'static [Entry<L>], name: fn(&L) -> &'static str) {
        for entry in entries {
            assert_eq!(name(&entry.law(&classes())), entry.name);
            for knob in entry.knobs {
                assert!((knob.least..=knob.greatest).contains(&knob.default), "{}", knob.name);
                for value in [knob.least, knob.greatest] {
                    let made = entry.law_with(&classes(), &[(knob.name, value)]);
                    assert!(matches!(made, Ok(_) | Err(InvalidKnob::Together { .. })));
                }
            }
        }
    }

    #[test]
    fn slow_laws_are_listed_as_admission_laws_are() {
        check_slow(WORKERS, |law| law.name());
        check_slow(BATCHING, |law| law.name());
        check_slow(QUALITY, |law| law.name());
        check_slow(TERMINATION, |law| law.name());
        check_slow(GLOBAL, |law| law.name());
    }

    #[test]
    fn droppers_are_admission_laws() {
        for name in DROPPING {
            assert!(admission(name).is_some(), "{name}");
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
