//! A stage with a queue and workers of its own.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tamarisk_control::{AdmissionLaw, ClassId, Classes, Concurrency, Ratio, Target};

use crate::builder::{BuildError, StageBuilder, Workers};
use crate::call::{CallError, Request};
use crate::clock::Clock;
use crate::core::{Core, Governed, govern};
use crate::drain::{self, DrainReport};
use crate::handler::Payload;
use crate::handler::{AnswerFn, BlockingHandler, BoxError, EventFn, Handler};
use crate::handler::{Context, Observed, Running};
use crate::observe::StageObservation;
use crate::sink::Entry;
use crate::sink::{Endpoint, Sink, TrySink};
use crate::termination::EventId;
use crate::workers::{Roster, WorkerPool};

/// A running stage; clones share it. Dropping the last clone destroys it: its sinks
/// answer *closed*.
pub struct Stage<E: Send + 'static> {
    parts: Arc<StageParts<E>>,
    sink: Sink<E>,
}

/// A stage's queue and those who serve it, as its governor sees them too.
struct StageParts<E: Send + 'static> {
    unstarted: UnstartedStage<E>,
    pool: Mutex<Arc<WorkerPool<E>>>,
}

/// A stage that has a queue, and no workers yet.
pub(crate) struct UnstartedStage<E: Send + 'static> {
    pub(crate) endpoint: Arc<Endpoint<E>>,
    roster: Arc<Roster>,
    least: u32,
    batch: u32,
    runtime: tokio::runtime::Handle,
}

impl Stage<()> {
    /// Describes a stage, of whatever events; see [`StageBuilder`].
    pub fn builder(name: impl Into<String>) -> StageBuilder {
        StageBuilder::new(name)
    }
}

impl StageBuilder {
    /// A stage of tasks that answers each request with what `handle` returns.
    ///
    /// The function is cloned for each request: what it captures (other stages, clients)
    /// should be cheap to clone. An error that it returns arrives at the caller, as
    /// [`CallError::Failed`] with its text, or as the [`CallError`] that it is.
    ///
    /// # Errors
    /// [`BuildError`] if it could not work as described.
    ///
    /// # Examples
    /// ```
    /// use tamarisk_stage::{Context, Stage};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let root = Stage::builder("root").handler(async |square: f64, _: Context| {
    ///     if square < 0.0 { Err("negative")? }
    ///     Ok(square.sqrt())
    /// })?;
    /// let norm = Stage::builder("norm").handler(async move |(x, y): (f64, f64), cx: Context| {
    ///     Ok(cx.call(&root, x * x + y * y).await?)
    /// })?;
    /// assert_eq!(norm.call((3.0, 4.0)).await?, 5.0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn handler<Q, R, F, W>(self, handle: F) -> Result<Stage<Request<Q, R>>, BuildError>
    where
        Q: Send + 'static,
        R: Send + 'static,
        F: FnOnce(Q, Context) -> W + Clone + Send + Sync + 'static,
        W: Future<Output = Result<R, BoxError>> + Send,
    {
        self.tasks(move || AnswerFn(handle.clone()))
    }

    /// A stage of threads that answers each request with what `handle` returns: for
    /// blocking or CPU-bound work. Otherwise as [`handler`](Self::handler).
    ///
    /// # Errors
    /// [`BuildError`] if it could not work as described.
    pub fn blocking_handler<Q, R, F>(self, handle: F) -> Result<Stage<Request<Q, R>>, BuildError>
    where
        Q: Send + 'static,
        R: Send + 'static,
        F: Fn(Q, Context) -> Result<R, BoxError> + Clone + Send + Sync + 'static,
    {
        self.threads(move || AnswerFn(handle.clone()))
    }

    /// A stage of tasks that does with each event what `handle` says. An event may be a
    /// [`Request`]: then `handle` answers it, or [forwards](Context::forward) it to another
    /// stage, which answers in its stead.
    ///
    /// The function is cloned for each event.
    ///
    /// # Errors
    /// [`BuildError`] if it could not work as described.
    ///
    /// # Examples
    /// ```
    /// use tamarisk_stage::{Context, Request, Stage};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let double = Stage::builder("double").handler(async |n: u64, _: Context| Ok(n * 2))?;
    /// let parse = Stage::builder("parse").event_handler(
    ///     async move |Request { body, reply }: Request<&str, u64>, cx: Context| {
    ///         cx.forward(&double, body.parse()?, reply);
    ///         Ok(())
    ///     },
    /// )?;
    /// assert_eq!(parse.call("21").await?, 42);
    /// let error = parse.call("many").await.unwrap_err();
    /// assert_eq!(error.to_string(), "the handler failed: invalid digit found in string");
    /// # Ok(())
    /// # }
    /// ```
    pub fn event_handler<E, F, W>(self, handle: F) -> Result<Stage<E>, BuildError>
    where
        E: Send + 'static,
        F: FnOnce(E, Context) -> W + Clone + Send + Sync + 'static,
        W: Future<Output = Result<(), BoxError>> + Send,
    {
        self.tasks(move || EventFn(handle.clone()))
    }

    /// A stage of tasks with a handler of its own for each worker, made by `factory`: for
    /// private state and for batches.
    ///
    /// # Errors
    /// [`BuildError`] if it could not work as described.
    pub fn tasks<E: Send + 'static, H: Handler<E>>(
        self,
        factory: impl Fn() -> H + Send + Sync + 'static,
    ) -> Result<Stage<E>, BuildError> {
        UnstartedStage::new(self, Workers::Tasks)?.with_tasks(factory)
    }

    /// The same on threads.
    ///
    /// # Errors
    /// [`BuildError`] if it could not work as described.
    pub fn threads<E: Send + 'static, H: BlockingHandler<E>>(
        self,
        factory: impl Fn() -> H + Send + Sync + 'static,
    ) -> Result<Stage<E>, BuildError> {
        UnstartedStage::new(self, Workers::Threads)?.with_threads(factory)
    }
}

impl<E: Send + 'static> UnstartedStage<E> {
    pub(crate) fn new(builder: StageBuilder, workers: Workers) -> Result<Self, BuildError> {
        let builder = builder.with_named_laws()?.with_default_workers(workers);
        let runtime = builder.runtime()?;
        let least = *builder.range().start();
        let batch = u32::try_from(builder.batching()).unwrap_or(u32::MAX);
        let queue = builder.queue();
        let core = Core::new(builder.into_config()?, queue);
        let (endpoint, roster) = (Arc::new(Endpoint::new(core)), Arc::default());
        Ok(Self { endpoint, roster, least, batch, runtime })
    }

    pub(crate) fn with_tasks<H: Handler<E>>(
        self,
        factory: impl Fn() -> H + Send + Sync + 'static,
    ) -> Result<Stage<E>, BuildError> {
        let pool = self.tasks(self.batch, factory);
        Stage::start(self, pool)
    }

    pub(crate) fn with_threads<H: BlockingHandler<E>>(
        self,
        factory: impl Fn() -> H + Send + Sync + 'static,
    ) -> Result<Stage<E>, BuildError> {
        let pool = self.threads(self.batch, factory);
        Stage::start(self, pool)
    }

    fn tasks<H: Handler<E>>(
        &self,
        batch: u32,
        factory: impl Fn() -> H + Send + Sync + 'static,
    ) -> Arc<WorkerPool<E>> {
        let (core, roster) = (Arc::clone(&self.endpoint.core), Arc::clone(&self.roster));
        core.runs("tasks");
        WorkerPool::of_tasks(core, roster, batch, self.runtime.clone(), factory)
    }

    fn threads<H: BlockingHandler<E>>(
        &self,
        batch: u32,
        factory: impl Fn() -> H + Send + Sync + 'static,
    ) -> Arc<WorkerPool<E>> {
        let (core, roster) = (Arc::clone(&self.endpoint.core), Arc::clone(&self.roster));
        core.runs("threads");
        WorkerPool::of_threads(core, roster, batch, self.runtime.clone(), factory)
    }
}

impl<E: Send + 'static> Stage<E> {
    fn start(unstarted: UnstartedStage<E>, pool: Arc<WorkerPool<E>>) -> Result<Self, BuildError> {
        let (runtime, least) = (unstarted.runtime.clone(), unstarted.least);
        let sink = Sink::new(TrySink::new(Arc::clone(&unstarted.endpoint)));
        let stage =
            Self { parts: Arc::new(StageParts { unstarted, pool: Mutex::new(pool) }), sink };
        let governed: Weak<StageParts<E>> = Arc::downgrade(&stage.parts);
        govern(&runtime, governed);
        // If not all can start, dropping the stage ends those that did.
        stage.parts.pool.lock().resize(least)?;
        Ok(stage)
    }

    /// A way in.
    pub fn sink(&self) -> Sink<E> {
        self.sink.clone()
    }

    /// What its owner calls it.
    pub fn name(&self) -> &str {
        &self.parts.unstarted.endpoint.core.name
    }

    /// The class of this name, if it has one.
    pub fn class(&self, name: &str) -> Option<ClassId> {
        self.parts.unstarted.endpoint.core.classes.named(name)
    }

    /// The stage at this instant.
    pub fn observe(&self) -> StageObservation {
        self.parts.unstarted.endpoint.core.observe()
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
        self.parts.unstarted.endpoint.core.promised()
    }

    /// Promises some classes something else from now on. Nobody inside is disturbed,
    /// and the laws keep what they have learned.
    pub fn set_targets(&self, targets: &[(ClassId, Target)]) {
        self.parts.unstarted.endpoint.core.set_targets(targets);
    }

    /// Replaces the laws by this admission law, which starts without experience;
    /// what slow laws have set stays as it is.
    pub fn set_law(&self, law: Box<dyn AdmissionLaw>) {
        self.parts.unstarted.endpoint.core.set_law(law);
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
        self.replace(|batch| self.parts.unstarted.tasks(batch, factory))
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
        self.replace(|batch| self.parts.unstarted.threads(batch, factory))
    }

    /// As many workers as there should be, of the pool that `make` makes with the
    /// batching factor that there is.
    fn replace(&self, make: impl FnOnce(u32) -> Arc<WorkerPool<E>>) -> Result<(), BuildError> {
        let mut pool = self.parts.pool.lock();
        let new = make(pool.batch());
        if let Err(error) = new.resize(pool.wanted()) {
            new.resize(0)?;
            return Err(error);
        }
        let old = std::mem::replace(&mut *pool, new);
        old.resize(0)
    }

    /// The events that run now, for whoever judges which of them have overstayed.
    pub fn running(&self) -> Vec<Running> {
        self.parts.unstarted.roster.running(self.parts.unstarted.endpoint.core.clock.now())
    }

    /// Asks a running event to end; `false` if it has ended by itself.
    pub fn terminate(&self, event: EventId) -> bool {
        self.parts.unstarted.roster.terminate(event)
    }

    /// Admits nothing more and waits until nothing is inside. After `timeout`, what
    /// is queued is dropped and what runs is terminated; then the stage is closed.
    pub async fn drain(&self, timeout: Duration) -> DrainReport {
        drain::drain(&self.parts.unstarted.endpoint.core, timeout, || {
            self.parts.unstarted.roster.stop_all()
        })
        .await
    }

    /// Destroys it at once: what is queued is discarded, what runs is told to end.
    pub fn close(&self) {
        self.parts.close();
    }
}

impl<E: Send + 'static> StageParts<E> {
    fn set_workers(&self, workers: Concurrency) -> Result<Concurrency, BuildError> {
        let core = &self.unstarted.endpoint.core;
        let workers = core.within_bounds(workers);
        let pool = self.pool.lock();
        pool.resize(workers.get())?;
        core.set_workers(workers);
        Ok(workers)
    }
}

impl<E: Send + 'static> Governed for StageParts<E> {
    fn tick(&self, cpu: Option<Ratio>) {
        let core = &self.unstarted.endpoint.core;
        let wanted = core.tick(cpu);
        if let Some(batch) = wanted.batch {
            self.pool.lock().set_batch(batch.get());
        }
        let changed = wanted.workers.filter(|workers| workers.get() != self.pool.lock().wanted());
        if let Some(Err(error)) = changed.map(|workers| self.set_workers(workers)) {
            core.note_failure(error.to_string());
        }
    }
}

impl<Q: Send + 'static, R: Send + 'static> Stage<Request<Q, R>> {
    /// Sends a request of the default class and waits for its answer.
    ///
    /// # Errors
    /// [`CallError`] says which way the request went without one.
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

impl<E: Send + 'static> StageParts<E> {
    fn close(&self) {
        self.unstarted.endpoint.core.close();
        self.unstarted.roster.stop_all();
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

impl<E: Send + 'static> Observed for Core<Payload<E>> {
    fn observe(&self) -> StageObservation {
        Self::observe(self)
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn quality(&self, class: ClassId) -> Ratio {
        self.knobs.quality_of(class)
    }
}
