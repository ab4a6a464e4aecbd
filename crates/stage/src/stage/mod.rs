//! A stage with a queue and workers of its own.

mod start;

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tamarisk_control::{AdmissionLaw, ClassId, Classes, Concurrency, Ratio, Target};

use crate::any_stage::{AnyStage, Erased};
use crate::build_error::BuildError;
use crate::builder::StageBuilder;
use crate::call::{CallError, Request};
use crate::core::{Core, Governed, Payload, spawn_governor};
use crate::entry::Entry;
use crate::handler::{BlockingHandler, Handler};
use crate::observe::{DrainReport, StageObservation};
use crate::pool::PoolConfig;
use crate::sink::{Endpoint, Sink, TrySink};
use crate::termination::EventId;
use crate::worker::{Running, WorkerRegistry, watch};
use crate::workers::WorkerPool;

pub use crate::core::ReplaceError;
use start::StageFrame;
pub(crate) use start::UnstartedStage;

/// A running stage; clones share it. Dropping the last clone destroys it: its sinks
/// answer *closed*.
pub struct Stage<E: Send + 'static> {
    parts: Arc<StageParts<E>>,
    sink: Sink<E>,
}

/// A stage's queue and those who serve it, as its governor sees them too.
struct StageParts<E: Send + 'static> {
    frame: StageFrame<E>,
    pool: Mutex<Arc<WorkerPool<E>>>,
}

impl Stage<()> {
    /// Describes a stage, of whatever events; see [`StageBuilder`].
    pub fn builder(name: impl Into<String>) -> StageBuilder {
        StageBuilder::new(name)
    }
}

impl<E: Send + 'static> Stage<E> {
    fn start(
        frame: StageFrame<E>,
        config: PoolConfig,
        pool: Arc<WorkerPool<E>>,
    ) -> Result<Self, BuildError> {
        let (runtime, least) = (frame.runtime.clone(), *config.workers.start());
        frame.endpoint.core.settle(config);
        let sink = Sink::new(TrySink::new(Arc::clone(&frame.endpoint)));
        let stage = Self { parts: Arc::new(StageParts { frame, pool: Mutex::new(pool) }), sink };
        let governed: Weak<StageParts<E>> = Arc::downgrade(&stage.parts);
        spawn_governor(&runtime, governed, stage.parts.core().shortage());
        let Endpoint { core, workers, .. } = &*stage.parts.frame.endpoint;
        runtime.spawn(watch(Arc::clone(workers), core.clock.clone()));
        let pool = stage.parts.pool.lock();
        pool.install();
        // If not all can start, dropping the stage ends those that did.
        let started = pool.resize(least);
        drop(pool);
        started?;
        Ok(stage)
    }

    /// A sink of the stage.
    pub fn sink(&self) -> Sink<E> {
        self.sink.clone()
    }

    pub(crate) fn endpoint(&self) -> Arc<Endpoint<E>> {
        Arc::clone(&self.parts.frame.endpoint)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.parts.core().name
    }

    /// The class of this name, if it has one.
    pub fn class(&self, name: &str) -> Option<ClassId> {
        self.parts.core().classes.named(name)
    }

    /// The stage at this instant.
    pub fn observe(&self) -> StageObservation {
        self.parts.core().observe()
    }

    /// Changes how many workers it has, within the bounds it was built with, and
    /// returns how many that is. No event is lost: workers that are too many end
    /// when the events that they hold are done.
    ///
    /// # Errors
    /// [`BuildError::Thread`] if the system has no thread left; the workers that
    /// there are go on.
    pub fn set_workers(&self, workers: u32) -> Result<u32, BuildError> {
        self.parts.set_workers(Concurrency::new(workers)).map(Concurrency::get)
    }

    /// Changes the batching factor: the most events that a worker takes at once.
    pub fn set_batch(&self, events: u32) {
        self.parts.pool.lock().set_batch(events);
    }

    /// Its classes, with the targets that they have now.
    pub fn classes(&self) -> Classes {
        self.parts.core().promised()
    }

    /// Changes the targets of some classes. Events inside go on, and the laws keep their
    /// estimates.
    pub fn set_targets(&self, targets: &[(ClassId, Target)]) {
        self.parts.core().set_targets(targets);
    }

    /// Replaces the laws by this admission law, which starts without estimates. Settings made
    /// by slow laws stay. [`WorkLimit`](tamarisk_laws::WorkLimit) is for gates only.
    pub fn set_law(&self, law: Box<dyn AdmissionLaw>) {
        self.parts.core().set_law(law);
    }

    /// Replaces the handlers by ones that run as tasks. Queue, accounts, sinks and the batching
    /// factor stay ([`set_batch`](Self::set_batch) changes it); old workers end when the events that
    /// they hold are done.
    ///
    /// # Errors
    /// [`BuildError`] if the new workers cannot start; then the old ones stay.
    pub fn replace_with_tasks<H: Handler<E>>(
        &self,
        factory: impl Fn() -> H + Send + Sync + 'static,
    ) -> Result<(), BuildError> {
        self.replace(|batch| self.parts.frame.tasks(batch, move || Ok(factory())))
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
        self.replace(|batch| self.parts.frame.threads(batch, move || Ok(factory())))
    }

    /// As many workers as there should be, of the pool that `make` makes with the
    /// batching factor that there is.
    fn replace(&self, make: impl FnOnce(u32) -> Arc<WorkerPool<E>>) -> Result<(), BuildError> {
        let mut pool = self.parts.pool.lock();
        let new = make(pool.batch());
        if let Err(error) = new.resize(pool.wanted()) {
            new.retire();
            return Err(error);
        }
        let before = self.parts.install(&mut pool, new);
        drop(pool);
        drop(before);
        Ok(())
    }

    /// Goes on with the handlers, laws, targets, workers and capacity of `new`, which has to be
    /// closed then. Queue, accounts and sinks stay; workers end when the events that they hold are
    /// done.
    ///
    /// # Errors
    /// [`ReplaceError`]; then nothing changes.
    pub(crate) fn take_over(&self, new: &Self) -> Result<(), ReplaceError> {
        if Arc::ptr_eq(&self.parts, &new.parts) {
            return Err(ReplaceError::InUse);
        }
        let new_pool = Arc::clone(&new.parts.pool.lock());
        let mut pool = self.parts.pool.lock();
        self.parts.core().check_replaceable(new.parts.core())?;
        let Endpoint { core, workers, .. } = &*self.parts.frame.endpoint;
        let made = new_pool.for_stage(Arc::clone(core), Arc::clone(workers));
        if let Err(error) = made.resize(new_pool.wanted()) {
            made.retire();
            return Err(ReplaceError::NoThread(error));
        }
        let ruling = self.parts.core().follow(new.parts.core());
        let before = self.parts.install(&mut pool, made);
        // What users wrote may ask for the lock when it is dropped.
        drop(pool);
        drop((before, ruling));
        Ok(())
    }

    /// The events that run now: for a watchdog that terminates those that run for too long.
    pub fn running(&self) -> Vec<Running> {
        self.parts.workers().running(self.parts.core().clock.now())
    }

    /// Asks a running event to end; `false` if it has ended already.
    pub fn terminate(&self, event: EventId) -> bool {
        self.parts.workers().terminate(event)
    }

    /// Admits nothing more and waits until nothing is inside. After `timeout`, what
    /// is queued is dropped and what runs is terminated; then the stage is closed.
    pub async fn drain(&self, timeout: Duration) -> DrainReport {
        self.parts.frame.endpoint.drain(timeout).await
    }

    /// Destroys it at once: what is queued is discarded, what runs is asked to end.
    pub fn close(&self) {
        self.parts.close();
    }
}

impl<E: Send + 'static> StageParts<E> {
    fn core(&self) -> &Core<Payload<E>> {
        &self.frame.endpoint.core
    }

    fn workers(&self) -> &WorkerRegistry {
        &self.frame.endpoint.workers
    }

    fn close(&self) {
        self.core().close();
        self.workers().stop_all();
    }

    /// Has `new` serve the stage, and returns what did, to be dropped when the lock is released.
    fn install(
        &self,
        pool: &mut Arc<WorkerPool<E>>,
        new: Arc<WorkerPool<E>>,
    ) -> Arc<WorkerPool<E>> {
        let before = std::mem::replace(pool, new);
        before.retire();
        pool.install();
        before
    }

    fn set_workers(&self, workers: Concurrency) -> Result<Concurrency, BuildError> {
        self.resize(&self.pool.lock(), workers)
    }

    fn resize(
        &self,
        pool: &Arc<WorkerPool<E>>,
        workers: Concurrency,
    ) -> Result<Concurrency, BuildError> {
        let core = self.core();
        let workers = core.within_bounds(workers);
        pool.resize(workers.get())?;
        core.set_workers(workers);
        Ok(workers)
    }
}

impl<E: Send + 'static> Governed for StageParts<E> {
    fn tick(&self, cpu: Option<Ratio>) {
        let core = self.core();
        // It drops events, whose destructors may ask for the lock.
        let wanted = core.tick(cpu);
        let pool = self.pool.lock();
        if wanted.generation != core.generation() {
            // The laws that want this have been replaced.
            return;
        }
        if let Some(batch) = wanted.batch {
            pool.set_batch(batch.get());
        }
        let changed = wanted.workers.filter(|workers| workers.get() != pool.wanted());
        if let Some(Err(error)) = changed.map(|workers| self.resize(&pool, workers)) {
            core.note_failure(error.to_string());
        }
    }

    fn start_workers(&self) {
        let (core, pool) = (self.core(), self.pool.lock());
        let before = pool.wanted();
        let wanted = core.worker_count().get();
        if wanted > before
            && let Err(error) = pool.resize(wanted)
        {
            core.note_failure(error.to_string());
            pool.set_wanted(before);
            core.have_no_more_workers(Concurrency::new(before));
        }
    }
}

impl<Q: Send + 'static, R: Send + 'static> Stage<Request<Q, R>> {
    /// Sends a request of the default class and waits for its answer.
    ///
    /// # Errors
    /// [`CallError`] says why there is none.
    pub async fn call(&self, body: Q) -> Result<R, CallError> {
        self.sink.call(body).await
    }

    /// The same with a class, deadline, cost or flow.
    ///
    /// # Errors
    /// As [`Stage::call`].
    pub async fn call_as(&self, body: Q, entry: Entry) -> Result<R, CallError> {
        self.sink.call_as(body, entry).await
    }
}

impl<E: Send + 'static> Drop for StageParts<E> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<E: Send + 'static> Clone for Stage<E> {
    fn clone(&self) -> Self {
        Self { parts: Arc::clone(&self.parts), sink: self.sink.clone() }
    }
}

impl<E: Send + 'static> AsRef<Sink<E>> for Stage<E> {
    fn as_ref(&self) -> &Sink<E> {
        &self.sink
    }
}

impl<E: Send + 'static> From<&Stage<E>> for AnyStage {
    fn from(stage: &Stage<E>) -> Self {
        Self::new(stage.endpoint())
    }
}
