//! Who rules a stage: an admission law alone, or together with slow laws.

use tamarisk_control::catalogue::{InvalidKnob, Laws};
use tamarisk_control::{
    Activity, AdmissionLaw, BatchSize, Classes, Composition, Concurrency, Knobs, Open, Ratio,
    Timestamp,
};

/// A stage's laws.
pub(super) enum Ruling {
    /// The stage stays as it is built.
    Admission(Box<dyn AdmissionLaw>),
    /// Laws that take turns.
    Composed(Box<Composition>),
}

/// Laws, and what the stage begins with under them.
pub(super) struct Ruled {
    pub(super) ruling: Ruling,
    pub(super) knobs: Knobs,
    /// Whether running events are ended early.
    pub(super) terminates: bool,
}

impl Ruled {
    /// `law` alone, at a stage of so many workers.
    pub(super) fn by(law: Box<dyn AdmissionLaw>, workers: Concurrency) -> Self {
        let knobs = Knobs { workers, batch: BatchSize::ONE, quality: Ratio::ONE };
        Self { ruling: Ruling::Admission(law), knobs, terminates: false }
    }

    /// All of `laws`, put together as a live stage does it. Without an admission law
    /// everybody may enter.
    ///
    /// # Errors
    /// [`InvalidKnob`] if constants do not go together.
    pub(super) fn by_all(
        laws: &Laws,
        classes: &Classes,
        workers: Concurrency,
    ) -> Result<Self, InvalidKnob> {
        let admission = laws.make_admission(classes, || Box::new(Open))?;
        let sizing = laws.workers.as_ref().map(|law| law.make(classes)).transpose()?;
        let batching = laws.batching.as_ref().map(|law| law.make(classes)).transpose()?;
        let quality = laws.quality.as_ref().map(|law| law.make(classes)).transpose()?;
        let termination = laws.termination.as_ref().map(|law| law.make(classes)).transpose()?;
        let terminates = termination.is_some();
        if sizing.is_none() && batching.is_none() && quality.is_none() && !terminates {
            return Ok(Self::by(admission, workers));
        }
        let knobs = Knobs {
            workers: sizing.as_ref().map_or(workers, |law| *law.range().start()),
            batch: batching.as_ref().map_or(BatchSize::ONE, |law| law.most()),
            quality: Ratio::ONE,
        };
        let mut composition = Composition::new(classes, admission, knobs);
        if let Some(law) = sizing {
            composition = composition.workers(law);
        }
        if let Some(law) = batching {
            composition = composition.batch(law);
        }
        if let Some(law) = quality {
            composition = composition.quality(law);
        }
        if let Some(law) = termination {
            composition = composition.termination(law);
        }
        Ok(Self { ruling: Ruling::Composed(Box::new(composition)), knobs, terminates })
    }
}

impl Ruling {
    #[inline]
    pub(super) fn admission(&self) -> &dyn AdmissionLaw {
        match self {
            Self::Admission(law) => &**law,
            Self::Composed(composition) => &**composition,
        }
    }

    #[inline]
    pub(super) fn admission_mut(&mut self) -> &mut dyn AdmissionLaw {
        match self {
            Self::Admission(law) => &mut **law,
            Self::Composed(composition) => &mut **composition,
        }
    }

    /// A tick of the slow laws: what they have set, if there are any.
    pub(super) fn govern(&mut self, now: Timestamp, activity: &Activity<'_>) -> Option<Knobs> {
        match self {
            Self::Admission(_) => None,
            Self::Composed(composition) => Some(composition.govern(now, activity)),
        }
    }

    /// What slow laws rule, and their names.
    pub(super) fn slow_names(&self) -> Vec<(&'static str, &'static str)> {
        match self {
            Self::Admission(_) => Vec::new(),
            Self::Composed(composition) => {
                let ruled = ["workers", "batching", "quality", "termination"];
                ruled.into_iter().zip(composition.names()).collect()
            }
        }
    }
}
