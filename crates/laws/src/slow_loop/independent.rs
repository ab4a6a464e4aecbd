//! Slow laws that act as printed: each as if it were alone, beside an admission law.
//!
//! A law that a user names acts as its authors describe it. It is asked at every tick, may
//! move either way, and sees what is really queued and lost. Whoever names several of
//! them gets what comes of laws that do not know of each other;
//! [`Composition`](super::Composition) is for those who want them to take turns.

use std::time::Duration;

use tamarisk_control::{
    Activity, AdmissionLaw, Arrival, Backlog, ClassId, Classes, Concurrency, Decision, Dequeue,
    Finished, Leeway, Moved, PerSecond, PlaceLimits, QueueOrder, Ratio, Reading, Strain, Timestamp,
    Waiting,
};

use super::base::Base;
use super::composition::{wanted, within_reach};
use super::{Knobs, SlowLaws};

/// Slow laws that do not know of each other, beside an admission law or a composition of
/// other laws. It is itself an [`AdmissionLaw`].
pub struct Independent {
    base: Base,
    laws: SlowLaws,
    knobs: Knobs,
}

impl Independent {
    /// `laws` beside those of `base`, on a stage that begins with these knobs.
    pub(super) fn new(base: Base, laws: SlowLaws, knobs: Knobs) -> Self {
        Self { base, laws, knobs }
    }

    /// A tick: the knobs from now on.
    pub(super) fn govern(&mut self, now: Timestamp, activity: &Activity<'_>) -> Knobs {
        if let Some(composition) = self.base.composition_mut() {
            composition.note_workers(self.knobs.workers);
        }
        let mut knobs = self.base.govern(now, activity).unwrap_or(self.knobs);
        let SlowLaws { workers, batch, quality, termination } = &mut self.laws;
        if let Some(law) = workers {
            knobs.workers = law.on_tick(now, activity, Leeway::Either);
        }
        if let Some(law) = batch {
            knobs.batch = law.on_tick(now, activity);
        }
        if let Some(law) = quality {
            knobs.quality = law.on_tick(now, activity, Leeway::Either);
        }
        if let Some(law) = termination {
            law.on_tick(now, activity, Leeway::Either);
        }
        self.knobs = knobs;
        knobs
    }

    /// An event has come for which none of the workers is idle: how many there are from now on.
    pub(super) fn on_shortage(&mut self, now: Timestamp, backlog: &Backlog<'_>) -> Concurrency {
        let Some(law) = &mut self.laws.workers else {
            let workers = self.base.on_shortage(now, backlog);
            self.knobs.workers = self.base.composition().map_or(workers, |it| it.knobs().workers);
            return workers;
        };
        let wanted = wanted(backlog, self.knobs.batch);
        if wanted <= backlog.workers {
            return backlog.workers;
        }
        self.knobs.workers = law.on_shortage(now, wanted, backlog.workers);
        self.knobs.workers
    }

    /// A law over the whole graph wants so many events a second completed.
    pub(super) fn set_throughput(&mut self, target: PerSecond) {
        match &mut self.laws.workers {
            Some(law) => law.set_throughput(target),
            None => self.base.set_throughput(target),
        }
    }

    pub(super) fn knobs(&self) -> Knobs {
        self.knobs
    }

    pub(super) fn limit(&self, class: ClassId) -> Option<Duration> {
        match &self.laws.termination {
            Some(law) => law.limit(class),
            None => self.base.limit(class),
        }
    }

    /// The names of the laws for workers, batches, quality and termination.
    pub(super) fn names(&self) -> [Option<&'static str>; 4] {
        let SlowLaws { workers, batch, quality, termination } = &self.laws;
        let [others_workers, others_batch, others_quality, others_termination] = self.base.names();
        [
            workers.as_ref().map(|law| law.name()).or(others_workers),
            batch.as_ref().map(|law| law.name()).or(others_batch),
            quality.as_ref().map(|law| law.name()).or(others_quality),
            termination.as_ref().map(|law| law.name()).or(others_termination),
        ]
    }

    fn admission_mut(&mut self) -> &mut dyn AdmissionLaw {
        self.base.admission_mut()
    }

    /// Whether a law changes how many workers there are or what an event costs.
    fn changes_capacity(&self) -> bool {
        let SlowLaws { workers, batch, quality, .. } = &self.laws;
        let strains = [
            workers.as_ref().map(|law| law.strain()),
            batch.as_ref().map(|law| law.strain()),
            quality.as_ref().map(|law| law.strain()),
        ];
        strains.into_iter().flatten().any(|strain| strain != Strain::Fixed)
    }
}

impl AdmissionLaw for Independent {
    /// The admission law's name.
    fn name(&self) -> &'static str {
        self.base.admission().name()
    }

    #[inline]
    fn on_arrival(&mut self, now: Timestamp, arrival: &Arrival, backlog: &Backlog<'_>) -> Decision {
        match &self.laws.workers {
            Some(law) => {
                let backlog = within_reach(backlog, &**law);
                self.admission_mut().on_arrival(now, arrival, &backlog)
            }
            None => self.admission_mut().on_arrival(now, arrival, backlog),
        }
    }

    fn on_dequeue(&mut self, now: Timestamp, waiting: &Waiting, backlog: &Backlog<'_>) -> Dequeue {
        self.admission_mut().on_dequeue(now, waiting, backlog)
    }

    fn on_sweep(&mut self, now: Timestamp, waiting: &Waiting, backlog: &Backlog<'_>) -> Dequeue {
        self.admission_mut().on_sweep(now, waiting, backlog)
    }

    fn on_finish(&mut self, now: Timestamp, finished: &Finished, backlog: &Backlog<'_>) {
        self.admission_mut().on_finish(now, finished, backlog);
        if let Some(law) = &mut self.laws.workers {
            law.on_finish(now, finished);
        }
        if let Some(law) = &mut self.laws.quality {
            law.on_finish(now, finished);
        }
    }

    fn on_move(&mut self, now: Timestamp, moved: &Moved, backlog: &Backlog<'_>) {
        self.admission_mut().on_move(now, moved, backlog);
    }

    fn on_tick(&mut self, now: Timestamp, backlog: &Backlog<'_>) {
        self.admission_mut().on_tick(now, backlog);
    }

    fn on_cpu(&mut self, now: Timestamp, busy: Ratio) {
        self.admission_mut().on_cpu(now, busy);
    }

    fn set_targets(&mut self, classes: &Classes) {
        self.admission_mut().set_targets(classes);
        if let Some(law) = &mut self.laws.workers {
            law.set_targets(classes);
        }
        if let Some(law) = &mut self.laws.quality {
            law.set_targets(classes);
        }
        if let Some(law) = &mut self.laws.termination {
            law.set_targets(classes);
        }
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        self.base.admission().readings(visit);
        let SlowLaws { workers, batch, quality, termination } = &self.laws;
        workers.iter().for_each(|law| law.readings(visit));
        batch.iter().for_each(|law| law.readings(visit));
        quality.iter().for_each(|law| law.readings(visit));
        termination.iter().for_each(|law| law.readings(visit));
    }

    fn place_limits(&self) -> Option<&dyn PlaceLimits> {
        Some(self)
    }

    fn queue_order(&self) -> Option<&dyn QueueOrder> {
        self.base.admission().queue_order()
    }
}

impl PlaceLimits for Independent {
    fn concurrency(&self) -> Option<Concurrency> {
        self.base.admission().concurrency()
    }

    /// As the admission law has it, unless another law changes the capacity: of two that try
    /// things out at once each would mistake the other's effect for its own.
    fn useful_workers(&self) -> Option<Concurrency> {
        let limits = self.base.admission().place_limits()?;
        limits.useful_workers().filter(|_| !self.changes_capacity())
    }

    fn park_after(&self, class: ClassId, kind: u64) -> Option<Duration> {
        self.base.admission().park_after(class, kind)
    }

    fn may_start(&self, class: ClassId, kind: u64, backlog: &Backlog<'_>) -> bool {
        self.base.admission().may_start(class, kind, backlog)
    }
}
