//! The laws of a simulated stage, and its settings at the start.

use std::time::Duration;

use tamarisk_control::{
    Activity, AdmissionLaw, Backlog, BatchSize, ClassId, Classes, Concurrency, Finished, PerSecond,
    Ratio, Timestamp,
};
use tamarisk_laws::{InvalidKnob, Knobs, Laws, Open, Ruling, SlowLaws, StageLaws};

/// Rules all of a simulated stage: an admission law, and slow laws that are combined in a way
/// of their own, neither [`Independent`](tamarisk_laws::Independent) nor in a
/// [`Composition`](tamarisk_laws::Composition).
pub trait Governor: Send {
    /// The law that is asked about each event.
    fn admission(&self) -> &dyn AdmissionLaw;

    /// The same, to be asked.
    fn admission_mut(&mut self) -> &mut dyn AdmissionLaw;

    /// An event ended after it had run. Whoever implements this tells the admission law.
    fn on_finish(&mut self, now: Timestamp, finished: &Finished, backlog: &Backlog<'_>) {
        self.admission_mut().on_finish(now, finished, backlog);
    }

    /// A tick, after that of the admission law: what the stage is set to from now on.
    fn on_tick(&mut self, now: Timestamp, activity: &Activity<'_>) -> Knobs;

    /// A law over the whole network wants so many events a second completed.
    fn set_throughput(&mut self, _target: PerSecond) {}

    /// How long an event of this class may run; `None` if nothing ends it.
    fn limit(&self, _class: ClassId) -> Option<Duration> {
        None
    }
}

/// Who rules a stage.
pub(in crate::sim) enum Ruler {
    Laws(Ruling),
    Governor(Box<dyn Governor>),
}

impl Ruler {
    #[inline]
    pub(in crate::sim) fn admission(&self) -> &dyn AdmissionLaw {
        match self {
            Self::Laws(ruling) => ruling.admission(),
            Self::Governor(governor) => governor.admission(),
        }
    }

    #[inline]
    pub(super) fn admission_mut(&mut self) -> &mut dyn AdmissionLaw {
        match self {
            Self::Laws(ruling) => ruling.admission_mut(),
            Self::Governor(governor) => governor.admission_mut(),
        }
    }

    #[inline]
    pub(super) fn on_finish(&mut self, now: Timestamp, finished: &Finished, backlog: &Backlog<'_>) {
        match self {
            Self::Laws(ruling) => ruling.admission_mut().on_finish(now, finished, backlog),
            Self::Governor(governor) => governor.on_finish(now, finished, backlog),
        }
    }

    /// An event has come for which no worker is idle: how many there are from now on.
    pub(super) fn on_shortage(&mut self, now: Timestamp, backlog: &Backlog<'_>) -> Concurrency {
        match self {
            Self::Laws(ruling) => ruling.on_shortage(now, backlog),
            Self::Governor(_) => backlog.workers,
        }
    }

    /// A tick of the slow laws: what they have set, if there are any.
    pub(super) fn govern(&mut self, now: Timestamp, activity: &Activity<'_>) -> Option<Knobs> {
        match self {
            Self::Laws(ruling) => ruling.govern(now, activity),
            Self::Governor(governor) => Some(governor.on_tick(now, activity)),
        }
    }

    pub(super) fn set_throughput(&mut self, target: PerSecond) {
        match self {
            Self::Laws(ruling) => ruling.set_throughput(target),
            Self::Governor(governor) => governor.set_throughput(target),
        }
    }

    pub(super) fn has_slow_laws(&self) -> bool {
        match self {
            Self::Laws(ruling) => ruling.knobs().is_some(),
            Self::Governor(_) => true,
        }
    }

    pub(super) fn limit(&self, class: ClassId) -> Option<Duration> {
        match self {
            Self::Laws(ruling) => ruling.limit(class),
            Self::Governor(governor) => governor.limit(class),
        }
    }

    pub(in crate::sim) fn slow_names(&self) -> Vec<(&'static str, &'static str)> {
        match self {
            Self::Laws(ruling) => ruling.slow_names(),
            Self::Governor(_) => Vec::new(),
        }
    }
}

/// Laws, and what the stage begins with under them.
pub(super) struct Ruled {
    pub(super) ruling: Ruler,
    pub(super) knobs: Knobs,
    /// Whether running events are ended early.
    pub(super) terminates: bool,
}

impl Ruled {
    /// `law` alone, at a stage of so many workers.
    pub(super) fn by(law: Box<dyn AdmissionLaw>, workers: Concurrency) -> Self {
        let knobs = Knobs { workers, batch: BatchSize::ONE, quality: Ratio::ONE };
        Self { ruling: Ruler::Laws(Ruling::by(law)), knobs, terminates: false }
    }

    /// All of `laws`. Without an admission law everybody may enter.
    ///
    /// # Errors
    /// [`InvalidKnob`] if constants do not go together.
    pub(super) fn by_all(
        laws: &Laws,
        classes: &Classes,
        workers: Concurrency,
    ) -> Result<Self, InvalidKnob> {
        let admission = laws.make_admission(classes, || Box::new(Open))?;
        let slow = SlowLaws::named(laws, classes)?;
        let terminates = slow.termination.is_some();
        let knobs = Knobs {
            workers: slow.first_workers(workers),
            batch: slow.first_batch(BatchSize::ONE),
            quality: Ratio::ONE,
        };
        let slow = StageLaws::coordinated(slow, laws.coordination);
        let ruling = Ruler::Laws(slow.with(admission, classes, knobs));
        Ok(Self { ruling, knobs, terminates })
    }

    /// `governor`, at a stage that begins with these knobs.
    pub(super) fn by_governor(governor: Box<dyn Governor>, knobs: Knobs) -> Self {
        Self { ruling: Ruler::Governor(governor), knobs, terminates: true }
    }
}
