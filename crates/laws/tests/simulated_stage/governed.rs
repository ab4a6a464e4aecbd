//! What a stage obeys besides its admission law.

use std::time::Duration;

use tamarisk_control::{
    Activity, AdmissionLaw, BatchLaw, BatchSize, ClassId, Concurrency, Finished, Leeway,
    QualityLaw, Ratio, TerminationLaw, Timestamp, WorkersLaw,
};
use tamarisk_laws::{Composition, Knobs};

/// The laws of a stage.
pub trait Governor {
    fn admission(&mut self) -> &mut dyn AdmissionLaw;

    /// What the admission law makes of so many workers.
    fn places(&self, workers: Concurrency) -> Concurrency;

    fn on_finish(&mut self, _now: Timestamp, _finished: &Finished) {}

    /// The knobs from now on, if it has any.
    fn on_tick(&mut self, _now: Timestamp, _activity: &Activity<'_>) -> Option<Knobs> {
        None
    }

    fn limit(&self, _class: ClassId) -> Option<Duration> {
        None
    }
}

/// An admission law alone.
pub struct Ungoverned<'a>(pub &'a mut dyn AdmissionLaw);

impl Governor for Ungoverned<'_> {
    fn admission(&mut self) -> &mut dyn AdmissionLaw {
        self.0
    }

    fn places(&self, workers: Concurrency) -> Concurrency {
        self.0.places(workers)
    }
}

impl Governor for Composition {
    fn admission(&mut self) -> &mut dyn AdmissionLaw {
        self
    }

    fn places(&self, workers: Concurrency) -> Concurrency {
        (self as &dyn AdmissionLaw).places(workers)
    }

    fn on_tick(&mut self, now: Timestamp, activity: &Activity<'_>) -> Option<Knobs> {
        Some(self.govern(now, activity))
    }

    fn limit(&self, class: ClassId) -> Option<Duration> {
        Self::limit(self, class)
    }
}

/// Laws side by side, none of which knows of another.
pub struct SideBySide {
    pub admission: Box<dyn AdmissionLaw>,
    pub workers: Box<dyn WorkersLaw>,
    pub batch: Box<dyn BatchLaw>,
    pub quality: Box<dyn QualityLaw>,
    pub termination: Box<dyn TerminationLaw>,
}

impl Governor for SideBySide {
    fn admission(&mut self) -> &mut dyn AdmissionLaw {
        &mut *self.admission
    }

    fn places(&self, workers: Concurrency) -> Concurrency {
        self.admission.places(workers)
    }

    fn on_finish(&mut self, now: Timestamp, finished: &Finished) {
        self.quality.on_finish(now, finished);
    }

    fn on_tick(&mut self, now: Timestamp, activity: &Activity<'_>) -> Option<Knobs> {
        self.termination.on_tick(now, activity, Leeway::Either);
        Some(Knobs {
            workers: self.workers.on_tick(now, activity, Leeway::Either),
            batch: self.batch.on_tick(now, activity),
            quality: self.quality.on_tick(now, activity, Leeway::Either),
        })
    }

    fn limit(&self, class: ClassId) -> Option<Duration> {
        self.termination.limit(class)
    }
}

/// Knobs of a stage with so many workers, and nothing else to turn.
pub fn plain(workers: u32) -> Knobs {
    Knobs { workers: Concurrency::new(workers), batch: BatchSize::ONE, quality: Ratio::ONE }
}
