//! The slow laws of a stage, one for each thing that they can set.

use tamarisk_control::{
    BatchLaw, BatchSize, Classes, Concurrency, QualityLaw, TerminationLaw, WorkersLaw,
};

use crate::named::{InvalidKnob, Laws};

/// Some slow laws; a stage stays as it is built in what none is for.
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

    /// How many workers their stage begins with, which otherwise would be `workers`.
    pub fn first_workers(&self, workers: Concurrency) -> Concurrency {
        self.workers.as_ref().map_or(workers, |law| *law.range().start())
    }

    /// How many events a worker takes at once at first, which otherwise would be `batch`.
    pub fn first_batch(&self, batch: BatchSize) -> BatchSize {
        self.batch.as_ref().map_or(batch, |law| law.most())
    }

    /// Without those for which `others` has one.
    pub(super) fn without(self, others: &Self) -> Self {
        Self {
            workers: self.workers.filter(|_| others.workers.is_none()),
            batch: self.batch.filter(|_| others.batch.is_none()),
            quality: self.quality.filter(|_| others.quality.is_none()),
            termination: self.termination.filter(|_| others.termination.is_none()),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        let Self { workers, batch, quality, termination } = self;
        workers.is_none() && batch.is_none() && quality.is_none() && termination.is_none()
    }
}
