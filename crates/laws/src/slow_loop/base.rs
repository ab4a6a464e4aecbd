//! An admission law, alone or composed with slow laws: what independent slow laws act beside.

use std::time::Duration;

use tamarisk_control::{
    Activity, AdmissionLaw, Backlog, ClassId, Concurrency, PerSecond, Timestamp,
};

use super::{Composition, Knobs};

pub(super) enum Base {
    Admission(Box<dyn AdmissionLaw>),
    Composed(Box<Composition>),
}

impl Base {
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

    pub(super) fn into_admission(self) -> Box<dyn AdmissionLaw> {
        match self {
            Self::Admission(law) => law,
            Self::Composed(composition) => composition,
        }
    }

    pub(super) fn composition(&self) -> Option<&Composition> {
        match self {
            Self::Admission(_) => None,
            Self::Composed(composition) => Some(composition),
        }
    }

    pub(super) fn composition_mut(&mut self) -> Option<&mut Composition> {
        match self {
            Self::Admission(_) => None,
            Self::Composed(composition) => Some(composition),
        }
    }

    pub(super) fn govern(&mut self, now: Timestamp, activity: &Activity<'_>) -> Option<Knobs> {
        self.composition_mut().map(|composition| composition.govern(now, activity))
    }

    pub(super) fn on_shortage(&mut self, now: Timestamp, backlog: &Backlog<'_>) -> Concurrency {
        match self {
            Self::Admission(_) => backlog.workers,
            Self::Composed(composition) => composition.on_shortage(now, backlog),
        }
    }

    pub(super) fn set_throughput(&mut self, target: PerSecond) {
        if let Some(composition) = self.composition_mut() {
            composition.set_throughput(target);
        }
    }

    pub(super) fn limit(&self, class: ClassId) -> Option<Duration> {
        self.composition().and_then(|composition| composition.limit(class))
    }

    /// The names of the laws for workers, batches, quality and termination.
    pub(super) fn names(&self) -> [Option<&'static str>; 4] {
        self.composition().map_or([None; 4], |composition| composition.names().map(Some))
    }
}
