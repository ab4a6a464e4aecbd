//! A stage with a queue and workers of its own.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tamarisk_control::{AdmissionLaw, Concurrency};

use crate::batch::Payload;
use crate::builder::{BuildError, StageBuilder};
use crate::clock::Clock;
use crate::context::{Observed, Running};
use crate::core::{Core, govern};
use crate::crew::Crew;
use crate::drain::{self, DrainReport};
use crate::handler::{BlockingHandler, Handler};
use crate::observation::StageObservation;
use crate::sink::{Door, Sink, TrySink};
use crate::termination::EventId;

/// A running stage. Dropping it destroys it: its sinks answer *closed*.
pub struct Stage<E: Send + 'static> {
    draft: Draft<E>,
    crew: Mutex<Arc<Crew<E>>>,
}

/// A stage that has a queue, and no workers yet.
pub(crate) struct Draft<E: Send + 'static> {
    pub(crate) door: Arc<Door<E>>,
    least: u32,
    most: u32,
    batch: usize,
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
        let runtime = builder.runtime()?;
        let (least, most) = (*builder.range().start(), *builder.range().end());
        let batch = builder.batching();
        let queue = builder.queue();
        let core = Core::new(builder.into_config()?, queue);
        Ok(Self { door: Arc::new(Door::new(core)), least, most, batch, runtime })
    }

    pub(crate) fn with_tasks<H: Handler<E>>(
        self,
        factory: impl Fn() -> H + Send + Sync + 'static,
    ) -> Result<Stage<E>, BuildError> {
        let (core, runtime) = (Arc::clone(&self.door.core), self.runtime.clone());
        self.door.core.runs("tasks");
        let crew = Crew::of_tasks(core, self.batch, runtime, factory);
        Stage::start(self, crew)
    }

    pub(crate) fn with_threads<H: BlockingHandler<E>>(
        self,
        factory: impl Fn() -> H + Send + Sync + 'static,
    ) -> Result<Stage<E>, BuildError> {
        let (core, runtime) = (Arc::clone(&self.door.core), self.runtime.clone());
        self.door.core.runs("threads");
        let crew = Crew::of_threads(core, self.batch, runtime, factory);
        Stage::start(self, crew)
    }
}

impl<E: Send + 'static> Stage<E> {
    fn start(draft: Draft<E>, crew: Arc<Crew<E>>) -> Result<Self, BuildError> {
        let core: std::sync::Weak<Core<Payload<E>>> = Arc::downgrade(&draft.door.core);
        govern(&draft.runtime, core);
        crew.resize(draft.least)?;
        Ok(Self { draft, crew: Mutex::new(crew) })
    }

    /// A way in.
    pub fn sink(&self) -> Sink<E> {
        Sink::new(TrySink::new(Arc::clone(&self.draft.door)))
    }

    /// The stage at this instant.
    pub fn observe(&self) -> StageObservation {
        self.draft.door.core.observe()
    }

    /// Changes how many workers it has, within the bounds it was built with, and
    /// returns how many that is. No event is lost: workers that are too many end
    /// when the events that they hold are done.
    ///
    /// # Errors
    /// [`BuildError::Thread`] if the system has no thread left; the workers that
    /// there are go on.
    pub fn set_workers(&self, workers: u32) -> Result<u32, BuildError> {
        let workers = workers.clamp(self.draft.least, self.draft.most);
        self.draft.door.core.set_workers(Concurrency::new(workers));
        let crew = Arc::clone(&self.crew.lock());
        crew.resize(workers)?;
        Ok(workers)
    }

    /// Changes the batching factor: the most events that a worker takes at once.
    pub fn set_batch(&self, events: u32) {
        self.crew.lock().set_batch(events);
    }

    /// Replaces the admission law; the new one starts without experience.
    pub fn set_law(&self, law: Box<dyn AdmissionLaw>) {
        self.draft.door.core.set_law(law);
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
        let (core, runtime) = (Arc::clone(&self.draft.door.core), self.draft.runtime.clone());
        self.draft.door.core.runs("tasks");
        self.replace(Crew::of_tasks(core, self.draft.batch, runtime, factory))
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
        let (core, runtime) = (Arc::clone(&self.draft.door.core), self.draft.runtime.clone());
        self.draft.door.core.runs("threads");
        self.replace(Crew::of_threads(core, self.draft.batch, runtime, factory))
    }

    fn replace(&self, crew: Arc<Crew<E>>) -> Result<(), BuildError> {
        crew.resize(self.draft.door.core.workers().get())?;
        let old = std::mem::replace(&mut *self.crew.lock(), crew);
        old.resize(0)
    }

    /// The events that run now, for whoever judges which of them have overstayed.
    pub fn running(&self) -> Vec<Running> {
        let crew = Arc::clone(&self.crew.lock());
        crew.running(self.draft.door.core.clock.now())
    }

    /// Asks a running event to end; `false` if it has ended by itself.
    pub fn terminate(&self, event: EventId) -> bool {
        self.crew.lock().terminate(event)
    }

    /// Admits nothing more and waits until nothing is inside. After `timeout`, what
    /// is queued is dropped and what runs is terminated; then the stage is closed.
    pub async fn drain(&self, timeout: Duration) -> DrainReport {
        let crew = Arc::clone(&self.crew.lock());
        drain::drain(&self.draft.door.core, timeout, || crew.terminate_all()).await
    }

    /// Destroys it at once: what is queued is discarded, what runs is told to end.
    pub fn close(&self) {
        self.draft.door.core.close();
        self.crew.lock().terminate_all();
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
}
