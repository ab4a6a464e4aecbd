//! A stage with a queue and workers of its own.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tamarisk_control::{AdmissionLaw, ClassId, Classes, Concurrency, Ratio, Target};

use crate::batch::Payload;
use crate::builder::{BuildError, StageBuilder};
use crate::clock::Clock;
use crate::context::{Observed, Running};
use crate::core::{Core, Governed, govern};
use crate::crew::{Crew, Roster};
use crate::drain::{self, DrainReport};
use crate::handler::{BlockingHandler, Handler};
use crate::observation::StageObservation;
use crate::sink::{Door, Sink, TrySink};
use crate::termination::EventId;

/// A running stage. Dropping it destroys it: its sinks answer *closed*.
pub struct Stage<E: Send + 'static> {
    works: Arc<Works<E>>,
}

/// A stage's queue and those who serve it, as its governor sees them too.
struct Works<E: Send + 'static> {
    draft: Draft<E>,
    crew: Mutex<Arc<Crew<E>>>,
}

/// A stage that has a queue, and no workers yet.
pub(crate) struct Draft<E: Send + 'static> {
    pub(crate) door: Arc<Door<E>>,
    roster: Arc<Roster>,
    least: u32,
    batch: u32,
    runtime: tokio::runtime::Handle,
}

impl StageBuilder {
    /// A stage whose handlers run as tasks of the async runtime that this is
    /// called on.
    ///
    /// # Errors
    /// [`BuildError`] if it could not work as described.
    pub fn tasks<E: Send + 'static, H: Handler<E>>(
        self,
        factory: impl Fn() -> H + Send + Sync + 'static,
    ) -> Result<Stage<E>, BuildError> {
        Draft::new(self)?.with_tasks(factory)
    }

    /// A stage whose handlers run on threads of their own.
    ///
    /// # Errors
    /// [`BuildError`] if it could not work as described.
    pub fn threads<E: Send + 'static, H: BlockingHandler<E>>(
        self,
        factory: impl Fn() -> H + Send + Sync + 'static,
    ) -> Result<Stage<E>, BuildError> {
        Draft::new(self)?.with_threads(factory)
    }
}

impl<E: Send + 'static> Draft<E> {
    pub(crate) fn new(builder: StageBuilder) -> Result<Self, BuildError> {
        let builder = builder.with_named_laws()?;
        let runtime = builder.runtime()?;
        let least = *builder.range().start();
        let batch = u32::try_from(builder.batching()).unwrap_or(u32::MAX);
        let queue = builder.queue();
        let core = Core::new(builder.into_config()?, queue);
        let (door, roster) = (Arc::new(Door::new(core)), Arc::default());
        Ok(Self { door, roster, least, batch, runtime })
    }

    pub(crate) fn with_tasks<H: Handler<E>>(
        self,
        factory: impl Fn() -> H + Send + Sync + 'static,
    ) -> Result<Stage<E>, BuildError> {
        let crew = self.tasks(self.batch, factory);
        Stage::start(self, crew)
    }

    pub(crate) fn with_threads<H: BlockingHandler<E>>(
        self,
        factory: impl Fn() -> H + Send + Sync + 'static,
    ) -> Result<Stage<E>, BuildError> {
        let crew = self.threads(self.batch, factory);
        Stage::start(self, crew)
    }

    fn tasks<H: Handler<E>>(
        &self,
        batch: u32,
        factory: impl Fn() -> H + Send + Sync + 'static,
    ) -> Arc<Crew<E>> {
        let (core, roster) = (Arc::clone(&self.door.core), Arc::clone(&self.roster));
        core.runs("tasks");
        Crew::of_tasks(core, roster, batch, self.runtime.clone(), factory)
    }

    fn threads<H: BlockingHandler<E>>(
        &self,
        batch: u32,
        factory: impl Fn() -> H + Send + Sync + 'static,
    ) -> Arc<Crew<E>> {
        let (core, roster) = (Arc::clone(&self.door.core), Arc::clone(&self.roster));
        core.runs("threads");
        Crew::of_threads(core, roster, batch, self.runtime.clone(), factory)
    }
}

impl<E: Send + 'static> Stage<E> {
    fn start(draft: Draft<E>, crew: Arc<Crew<E>>) -> Result<Self, BuildError> {
        let (runtime, least) = (draft.runtime.clone(), draft.least);
        let stage = Self { works: Arc::new(Works { draft, crew: Mutex::new(crew) }) };
        let governed: Weak<Works<E>> = Arc::downgrade(&stage.works);
        govern(&runtime, governed);
        // If not all can start, dropping the stage ends those that did.
        stage.works.crew.lock().resize(least)?;
        Ok(stage)
    }

    /// A way in.
    pub fn sink(&self) -> Sink<E> {
        Sink::new(TrySink::new(Arc::clone(&self.works.draft.door)))
    }

    /// The stage at this instant.
    pub fn observe(&self) -> StageObservation {
        self.works.draft.door.core.observe()
    }

    /// Changes how many workers it has, within the bounds it was built with, and
    /// returns how many that is. No event is lost: workers that are too many end
    /// when the events that they hold are done.
    ///
    /// # Errors
    /// [`BuildError::Thread`] if the system has no thread left; the workers that
    /// there are go on.
    pub fn set_workers(&self, workers: u32) -> Result<u32, BuildError> {
        self.works.set_workers(Concurrency::new(workers)).map(Concurrency::get)
    }

    /// Changes the batching factor: the most events that a worker takes at once.
    pub fn set_batch(&self, events: u32) {
        self.works.crew.lock().set_batch(events);
    }

    /// Its classes, with the targets that they have now.
    pub fn classes(&self) -> Classes {
        self.works.draft.door.core.promised()
    }

    /// Promises some classes something else from now on. Nobody inside is disturbed,
    /// and the laws keep what they have learned.
    pub fn set_targets(&self, targets: &[(ClassId, Target)]) {
        self.works.draft.door.core.set_targets(targets);
    }

    /// Replaces the laws by this admission law, which starts without experience;
    /// what slow laws have set stays as it is.
    pub fn set_law(&self, law: Box<dyn AdmissionLaw>) {
        self.works.draft.door.core.set_law(law);
    }

    /// Replaces the handlers by ones that run as tasks. Queue, accounts and sinks
    /// stay; old workers end when the events that they hold are done.
    ///
    /// # Errors
    /// [`BuildError`] if the new workers cannot start; then the old ones stay.
    pub fn replace_with_tasks<H: Handler<E>>(
        &self,
        factory: impl Fn() -> H + Send + Sync + 'static,
    ) -> Result<(), BuildError> {
        self.replace(|batch| self.works.draft.tasks(batch, factory))
    }

    /// Replaces the handlers by ones that run on threads; see
    /// [`replace_with_tasks`](Self::replace_with_tasks).
    ///
    /// # Errors
    /// [`BuildError`] if the new workers cannot start; then the old ones stay.
    pub fn replace_with_threads<H: BlockingHandler<E>>(
        &self,
        factory: impl Fn() -> H + Send + Sync + 'static,
    ) -> Result<(), BuildError> {
        self.replace(|batch| self.works.draft.threads(batch, factory))
    }

    /// As many workers as there should be, of the crew that `make` makes with the
    /// batching factor that there is.
    fn replace(&self, make: impl FnOnce(u32) -> Arc<Crew<E>>) -> Result<(), BuildError> {
        let mut crew = self.works.crew.lock();
        let new = make(crew.batch());
        if let Err(error) = new.resize(crew.wanted()) {
            new.resize(0)?;
            return Err(error);
        }
        let old = std::mem::replace(&mut *crew, new);
        old.resize(0)
    }

    /// The events that run now, for whoever judges which of them have overstayed.
    pub fn running(&self) -> Vec<Running> {
        self.works.draft.roster.running(self.works.draft.door.core.clock.now())
    }

    /// Asks a running event to end; `false` if it has ended by itself.
    pub fn terminate(&self, event: EventId) -> bool {
        self.works.draft.roster.terminate(event)
    }

    /// Admits nothing more and waits until nothing is inside. After `timeout`, what
    /// is queued is dropped and what runs is terminated; then the stage is closed.
    pub async fn drain(&self, timeout: Duration) -> DrainReport {
        drain::drain(&self.works.draft.door.core, timeout, || self.works.draft.roster.stop_all())
            .await
    }

    /// Destroys it at once: what is queued is discarded, what runs is told to end.
    pub fn close(&self) {
        self.works.draft.door.core.close();
        self.works.draft.roster.stop_all();
    }
}

impl<E: Send + 'static> Works<E> {
    fn set_workers(&self, workers: Concurrency) -> Result<Concurrency, BuildError> {
        let core = &self.draft.door.core;
        let workers = core.within_bounds(workers);
        let crew = self.crew.lock();
        crew.resize(workers.get())?;
        core.set_workers(workers);
        Ok(workers)
    }
}

impl<E: Send + 'static> Governed for Works<E> {
    fn tick(&self, cpu: Option<Ratio>) {
        let core = &self.draft.door.core;
        let wanted = core.tick(cpu);
        if let Some(batch) = wanted.batch {
            self.crew.lock().set_batch(batch.get());
        }
        let changed = wanted.workers.filter(|workers| workers.get() != self.crew.lock().wanted());
        if let Some(Err(error)) = changed.map(|workers| self.set_workers(workers)) {
            core.note_failure(error.to_string());
        }
    }
}

impl<E: Send + 'static> Drop for Stage<E> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<E: Send + 'static> Observed for Core<Payload<E>> {
    fn observe(&self) -> StageObservation {
        Self::observe(self)
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn quality(&self) -> Ratio {
        self.knobs.quality()
    }
}
