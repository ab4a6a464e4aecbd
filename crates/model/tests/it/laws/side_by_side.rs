//! Laws side by side, none of which knows of another.

use std::time::Duration;

use tamarisk_control::{
    Activity, AdmissionLaw, Backlog, BatchLaw, BatchSize, ClassId, Concurrency, Finished, Leeway,
    QualityLaw, Ratio, TerminationLaw, Timestamp, WorkersLaw,
};
use tamarisk_laws::{DeadlineOnly, FixedBatch, FixedWorkers, FullQuality, Knobs, Open};
use tamarisk_model::sim::Governor;

pub(crate) struct SideBySide {
    pub(crate) admission: Box<dyn AdmissionLaw>,
    pub(crate) workers: Box<dyn WorkersLaw>,
    pub(crate) batch: Box<dyn BatchLaw>,
    pub(crate) quality: Box<dyn QualityLaw>,
    pub(crate) termination: Box<dyn TerminationLaw>,
}

impl SideBySide {
    /// Nothing but a stage with so many workers.
    pub(crate) fn nothing(workers: u32) -> Self {
        Self {
            admission: Box::new(Open),
            workers: Box::new(FixedWorkers(Concurrency::new(workers))),
            batch: Box::new(FixedBatch(BatchSize::ONE)),
            quality: Box::new(FullQuality),
            termination: Box::new(DeadlineOnly),
        }
    }
}

impl Governor for SideBySide {
    fn admission(&self) -> &dyn AdmissionLaw {
        &*self.admission
    }

    fn admission_mut(&mut self) -> &mut dyn AdmissionLaw {
        &mut *self.admission
    }

    fn on_finish(&mut self, now: Timestamp, finished: &Finished, backlog: &Backlog<'_>) {
        self.admission.on_finish(now, finished, backlog);
        self.quality.on_finish(now, finished);
    }

    fn on_tick(&mut self, now: Timestamp, activity: &Activity<'_>) -> Knobs {
        self.termination.on_tick(now, activity, Leeway::Either);
        Knobs {
            workers: self.workers.on_tick(now, activity, Leeway::Either),
            batch: self.batch.on_tick(now, activity),
            quality: self.quality.on_tick(now, activity, Leeway::Either),
        }
    }

    fn limit(&self, class: ClassId) -> Option<Duration> {
        self.termination.limit(class)
    }
}

/// Knobs of a stage with so many workers, and nothing else to turn.
pub(crate) fn plain(workers: u32) -> Knobs {
    Knobs { workers: Concurrency::new(workers), batch: BatchSize::ONE, quality: Ratio::ONE }
}
