//! Laws by name, each with its constants, and a stage's choice of them: what files, the simulator
//! and the tuner make laws of. `tamarisk-catalogue` lists all that there are.
//!
//! # Examples
//! ```
//! # use std::time::Duration;
//! # use tamarisk_control::*;
//! use tamarisk_laws::entries;
//!
//! let classes = Classes::single(Target::p90(Duration::from_millis(200))?);
//! let law = entries::THRESHOLD.law_with(&classes, &[("queued_count", 20.0)])?;
//! assert_eq!(law.name(), "threshold");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod laws;

use std::fmt;

pub use crate::constants::Knob;
pub use laws::{Coordination, Laws};

use tamarisk_control::{
    AdmissionLaw, BatchLaw, Classes, Concurrency, GlobalLaw, QualityLaw, TerminationLaw, WorkersLaw,
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
pub struct Conflict(String);

impl Conflict {
    /// Whether `workers_min_count` exceeds `workers_max_count`.
    ///
    /// # Errors
    /// This, if it does.
    pub fn in_workers(least: Concurrency, most: Concurrency) -> Result<(), Self> {
        if least > most {
            let reason =
                format!("`workers_min_count` ({least}) exceeds `workers_max_count` ({most})");
            return Err(Self(reason));
        }
        Ok(())
    }
}

impl<E: std::error::Error> From<E> for Conflict {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// An [`Entry`]: a name, a summary, and the law that is made of the classes of
/// its stage and of its own constants.
///
/// # Examples
/// ```
/// use tamarisk_laws::entry;
/// use tamarisk_laws::named::AdmissionEntry;
///
/// pub const OPEN: AdmissionEntry = entry!("open", "admits everything", |_| tamarisk_laws::Open);
/// ```
#[macro_export]
macro_rules! entry {
    ($name:literal, $summary:literal, |$classes:pat_param| $law:expr) => {
        $crate::entry!($name, $summary, |$classes, _none: ()| $law)
    };
    ($name:literal, $summary:literal, |$classes:pat_param, $constants:ident: $type:ty| $law:expr) => {
        $crate::named::Entry::new(
            $name,
            $summary,
            <$type as $crate::constants::Constants>::KNOBS,
            |$classes, values| {
                let mut values = values.iter().copied();
                let $constants = <$type as $crate::constants::Constants>::from_values(&mut values);
                Ok(Box::new($law))
            },
        )
    };
}
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

impl<L: ?Sized> Entry<L> {
    /// A law of this name; [`entry!`](crate::entry) writes `knobs` and `make`.
    pub const fn new(
        name: &'static str,
        summary: &'static str,
        knobs: &'static [Knob],
        make: fn(&Classes, &[f64]) -> Result<Box<L>, Conflict>,
    ) -> Self {
        Self { name, summary, knobs, make }
    }

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
