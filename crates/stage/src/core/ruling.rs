//! Who rules a stage: an admission law alone, or together with slow laws.

use std::ops::RangeInclusive;

use tamarisk_control::catalogue::{InvalidKnob, Laws};
use tamarisk_control::{
    Activity, AdmissionLaw, BatchLaw, BatchSize, ClassId, Classes, Composition, Concurrency,
    Knobs as Settings, QualityLaw, Ratio, TerminationLaw, Timestamp, WorkersLaw,
};

use super::knobs::Knobs;

/// A stage's laws.
pub(crate) enum Ruling {
    /// The stage stays as it is built.
    Admission(Box<dyn AdmissionLaw>),
    /// Laws that take turns, and what they decided last.
    Composed(Box<Composition>, Settings),
}

/// The slow laws that a stage is built with; it stays as it is in what none is for.
#[derive(Default)]
pub(crate) struct SlowLaws {
    pub(crate) workers: Option<Box<dyn WorkersLaw>>,
    pub(crate) batch: Option<Box<dyn BatchLaw>>,
    pub(crate) quality: Option<Box<dyn QualityLaw>>,
    pub(crate) termination: Option<Box<dyn TerminationLaw>>,
}

/// What slow laws want changed of the workers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Adjustment {
    pub(crate) workers: Option<Concurrency>,
    pub(crate) batch: Option<BatchSize>,
}

impl SlowLaws {
    /// Those that are chosen by name.
    ///
    /// # Errors
    /// [`InvalidKnob`] if constants do not go together.
    pub(crate) fn named(laws: &Laws, classes: &Classes) -> Result<Self, InvalidKnob> {
        Ok(Self {
            workers: laws.workers.as_ref().map(|named| named.make(classes)).transpose()?,
            batch: laws.batching.as_ref().map(|named| named.make(classes)).transpose()?,
            quality: laws.quality.as_ref().map(|named| named.make(classes)).transpose()?,
            termination: laws.termination.as_ref().map(|named| named.make(classes)).transpose()?,
        })
    }

    /// These, and where there is none, that of `others`.
    pub(crate) fn or(self, others: Self) -> Self {
        Self {
            workers: self.workers.or(others.workers),
            batch: self.batch.or(others.batch),
            quality: self.quality.or(others.quality),
            termination: self.termination.or(others.termination),
        }
    }

    /// Together with `admission`, for a stage that begins with so many workers and
    /// such a batch.
    pub(crate) fn with(
        self,
        admission: Box<dyn AdmissionLaw>,
        classes: &Classes,
        workers: Concurrency,
        batch: BatchSize,
    ) -> Ruling {
        let Self { workers: sizing, batch: batching, quality, termination } = self;
        if sizing.is_none() && batching.is_none() && quality.is_none() && termination.is_none() {
            return Ruling::Admission(admission);
        }
        let settings = Settings { workers, batch, quality: Ratio::ONE };
        let mut composition = Composition::new(classes, admission, settings);
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
        Ruling::Composed(Box::new(composition), settings)
    }
}

/// The fewest and the most workers that `law` may set.
pub(crate) fn bounds(law: &dyn WorkersLaw) -> RangeInclusive<u32> {
    let range = law.range();
    range.start().get()..=range.end().get()
}

impl Ruling {
    #[inline]
    pub(crate) fn admission(&self) -> &dyn AdmissionLaw {
        match self {
            Self::Admission(law) => &**law,
            Self::Composed(composition, _) => &**composition,
        }
    }

    #[inline]
    pub(crate) fn admission_mut(&mut self) -> &mut dyn AdmissionLaw {
        match self {
            Self::Admission(law) => &mut **law,
            Self::Composed(composition, _) => &mut **composition,
        }
    }

    /// For a stage that has nothing which slow laws could set.
    pub(crate) fn into_admission(self) -> Box<dyn AdmissionLaw> {
        match self {
            Self::Admission(law) => law,
            Self::Composed(composition, _) => composition,
        }
    }

    /// What the laws rule, and their names; what none rules stays as it was built.
    pub(super) fn names(&self) -> Vec<(&'static str, &'static str)> {
        let mut names = vec![("admission", self.admission().name())];
        if let Self::Composed(composition, _) = self {
            let ruled = ["workers", "batching", "quality", "termination"];
            names.extend(ruled.into_iter().zip(composition.names()));
        }
        names
    }

    /// How many events a worker takes at once, where slow laws have a say.
    pub(super) fn batch(&self) -> Option<BatchSize> {
        match self {
            Self::Admission(_) => None,
            Self::Composed(_, settings) => Some(settings.batch),
        }
    }

    /// A tick of the slow laws. What did not change is left alone, for an operator
    /// may have set it otherwise.
    pub(super) fn govern(
        &mut self,
        now: Timestamp,
        activity: &Activity<'_>,
        knobs: &Knobs,
    ) -> Adjustment {
        let Self::Composed(composition, last) = self else { return Adjustment::default() };
        let wanted = composition.govern(now, activity);
        for index in 0..activity.backlog.queued.len() {
            let class = ClassId::new(index);
            knobs.set_limit(class, composition.limit(class));
        }
        knobs.set_quality(wanted.quality);
        let before = std::mem::replace(last, wanted);
        Adjustment {
            workers: (wanted.workers != before.workers).then_some(wanted.workers),
            batch: (wanted.batch != before.batch).then_some(wanted.batch),
        }
    }
}
