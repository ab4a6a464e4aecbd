//! All laws of one stage in one value, for live and simulated stages.

use tamarisk_control::{
    Activity, AdmissionLaw, BatchLaw, Classes, PerSecond, QualityLaw, TerminationLaw, Timestamp,
    WorkersLaw,
};

use super::{Composition, Knobs};
use crate::catalogue::{InvalidKnob, Laws};

/// Who rules a stage: an admission law alone, or together with slow laws.
pub enum Ruling {
    /// The stage stays as it is built.
    Admission(Box<dyn AdmissionLaw>),
    /// Laws that take turns.
    Composed(Box<Composition>),
}

/// The slow laws of a stage; it stays as it is built in what none is for.
#[derive(Default)]
pub struct SlowLaws {
    /// How many workers it has.
    pub workers: Option<Box<dyn WorkersLaw>>,
    /// How many events a worker takes at once.
    pub batch: Option<Box<dyn BatchLaw>>,
    /// How well events are served.
    pub quality: Option<Box<dyn QualityLaw>>,
    /// How long events may run.
    pub termination: Option<Box<dyn TerminationLaw>>,
}

impl SlowLaws {
    /// Those that are chosen by name.
    ///
    /// # Errors
    /// [`InvalidKnob`] if constants do not go together.
    pub fn named(laws: &Laws, classes: &Classes) -> Result<Self, InvalidKnob> {
        Ok(Self {
            workers: laws.workers.as_ref().map(|named| named.make(classes)).transpose()?,
            batch: laws.batching.as_ref().map(|named| named.make(classes)).transpose()?,
            quality: laws.quality.as_ref().map(|named| named.make(classes)).transpose()?,
            termination: laws.termination.as_ref().map(|named| named.make(classes)).transpose()?,
        })
    }

    /// These, and where there is none, that of `others`.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self {
            workers: self.workers.or(others.workers),
            batch: self.batch.or(others.batch),
            quality: self.quality.or(others.quality),
            termination: self.termination.or(others.termination),
        }
    }

    /// Together with `admission`, for a stage that begins with such knobs.
    pub fn with(self, admission: Box<dyn AdmissionLaw>, classes: &Classes, knobs: Knobs) -> Ruling {
        let Self { workers, batch, quality, termination } = self;
        if workers.is_none() && batch.is_none() && quality.is_none() && termination.is_none() {
            return Ruling::Admission(admission);
        }
        let mut composition = Composition::new(classes, admission, knobs);
        if let Some(law) = workers {
            composition = composition.workers(law);
        }
        if let Some(law) = batch {
            composition = composition.batch(law);
        }
        if let Some(law) = quality {
            composition = composition.quality(law);
        }
        if let Some(law) = termination {
            composition = composition.termination(law);
        }
        Ruling::Composed(Box::new(composition))
    }
}

impl Ruling {
    /// The law that is asked about each event.
    #[inline]
    pub fn admission(&self) -> &dyn AdmissionLaw {
        match self {
            Self::Admission(law) => &**law,
            Self::Composed(composition) => &**composition,
        }
    }

    /// The same, to be asked.
    #[inline]
    pub fn admission_mut(&mut self) -> &mut dyn AdmissionLaw {
        match self {
            Self::Admission(law) => &mut **law,
            Self::Composed(composition) => &mut **composition,
        }
    }

    /// For a stage that has nothing which slow laws could set.
    pub fn into_admission(self) -> Box<dyn AdmissionLaw> {
        match self {
            Self::Admission(law) => law,
            Self::Composed(composition) => composition,
        }
    }

    /// The laws that take turns, if there are slow ones.
    pub fn composition(&self) -> Option<&Composition> {
        match self {
            Self::Admission(_) => None,
            Self::Composed(composition) => Some(composition),
        }
    }

    /// A tick of the slow laws: what they have set, if there are any.
    pub fn govern(&mut self, now: Timestamp, activity: &Activity<'_>) -> Option<Knobs> {
        match self {
            Self::Admission(_) => None,
            Self::Composed(composition) => Some(composition.govern(now, activity)),
        }
    }

    /// Tells the workers law, if there is one, how many events a second to complete.
    pub fn set_throughput(&mut self, target: PerSecond) {
        match self {
            Self::Admission(_) => {}
            Self::Composed(composition) => composition.set_throughput(target),
        }
    }

    /// What slow laws rule, and their names; what none rules stays as it was built.
    pub fn slow_names(&self) -> Vec<(&'static str, &'static str)> {
        let ruled = ["workers", "batching", "quality", "termination"];
        let names = self.composition().map(Composition::names);
        names.map_or(Vec::new(), |names| ruled.into_iter().zip(names).collect())
    }
}
