//! Starting a stage: its queue first, then workers for a handler.

use std::sync::Arc;

use parking_lot::Mutex;

use super::Stage;
use crate::build_error::{BuildError, GATE_LAW};
use crate::builder::StageBuilder;
use crate::call::{BoxError, Request};
use crate::core::Core;
use crate::handler::{AnswerFn, BlockingHandler, Context, EventFn, Handler};
use crate::panics::{contained, shown};
use crate::pool::{PoolDescription, WorkerKind};
use crate::sink::Endpoint;
use crate::workers::WorkerPool;

impl StageBuilder {
    /// A stage of tasks that answers each request with what `handle` returns.
    ///
    /// The function is cloned for each request: what it captures (other stages, clients)
    /// should be cheap to clone. An error that it returns arrives at the caller, in a
    /// [`CallError::Failed`](crate::CallError::Failed), or as the
    /// [`CallError`](crate::CallError) that it is.
    ///
    /// What the compiler rejects, and the cure:
    /// - *expected `Result<_, Box<dyn Error …>>`*: a function with an error type of its own. Have it
    ///   return [`BoxError`], into which `?` turns any error.
    /// - *future cannot be sent between threads safely*: something that is not `Send`, such as an `Rc`
    ///   or the guard of a lock, is held across an `await`. End its scope before.
    /// - *borrowed value does not live long enough*, *`FnOnce` is not general enough*: the function
    ///   borrows from its surroundings, or takes its request by reference. Make the closure
    ///   `async move` with clones of what it needs, and have it own its request.
    /// - *the trait `Clone` is not implemented*: something captured cannot be cloned. Put it into an
    ///   `Arc`.
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

    /// A stage of tasks that runs `handle` on each event. An event may be a
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
        UnstartedStage::new(self)?.with_tasks(move || Ok(factory()))
    }

    /// The same with a factory that can fail. The first handler is made at once, and if that fails,
    /// so does this. Where a later one cannot be made (another worker starts, or one is replaced after
    /// a panic), its worker tries again every second, for one event, which fails if that does: with
    /// the factory's error, which [`StageObservation`](crate::StageObservation) shows, too. Other
    /// workers go on.
    ///
    /// # Errors
    /// [`BuildError`] if it could not work as described; [`BuildError::Handler`] with the error of
    /// the factory.
    ///
    /// # Examples
    /// ```
    /// use tamarisk_stage::{Batch, BoxError, Handler, Request, Stage};
    ///
    /// struct Lookup(std::collections::HashMap<String, u16>);
    ///
    /// impl Handler<Request<String, u16>> for Lookup {
    ///     async fn handle(&mut self, batch: &mut Batch<Request<String, u16>>) -> Result<(), BoxError> {
    ///         while let Some((Request { body, reply }, _)) = batch.next() {
    ///             let _ = reply.send(*self.0.get(&body).ok_or("no such service")?);
    ///         }
    ///         Ok(())
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let read = || {
    ///     let port = "25".parse()?; // as from a file
    ///     Ok(Lookup([("smtp".to_owned(), port)].into()))
    /// };
    /// let stage = Stage::builder("lookup").try_tasks(read)?;
    /// assert_eq!(stage.call("smtp".to_owned()).await?, 25);
    ///
    /// let broken = Stage::builder("lookup").try_tasks(|| Err::<Lookup, _>("no such file".into()));
    /// let error = broken.err().ok_or("it has no handler")?;
    /// assert_eq!(error.to_string(), "stage \"lookup\" has no handler: no such file");
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_tasks<E: Send + 'static, H: Handler<E>>(
        self,
        factory: impl Fn() -> Result<H, BoxError> + Send + Sync + 'static,
    ) -> Result<Stage<E>, BuildError> {
        let unstarted = UnstartedStage::new(self)?;
        let factory = unstarted.tried(factory)?;
        unstarted.with_tasks(factory)
    }

    /// The same on threads.
    ///
    /// # Errors
    /// [`BuildError`] if it could not work as described.
    pub fn threads<E: Send + 'static, H: BlockingHandler<E>>(
        self,
        factory: impl Fn() -> H + Send + Sync + 'static,
    ) -> Result<Stage<E>, BuildError> {
        UnstartedStage::new(self)?.with_threads(move || Ok(factory()))
    }

    /// The same with a factory that can fail; see [`try_tasks`](Self::try_tasks).
    ///
    /// # Errors
    /// Those of [`try_tasks`](Self::try_tasks).
    pub fn try_threads<E: Send + 'static, H: BlockingHandler<E>>(
        self,
        factory: impl Fn() -> Result<H, BoxError> + Send + Sync + 'static,
    ) -> Result<Stage<E>, BuildError> {
        let unstarted = UnstartedStage::new(self)?;
        let factory = unstarted.tried(factory)?;
        unstarted.with_threads(factory)
    }
}

/// A stage that has a queue, and no workers yet.
pub(crate) struct UnstartedStage<E: Send + 'static> {
    frame: StageFrame<E>,
    pool: PoolDescription,
}

/// A stage's queue, and what workers need besides that and a handler.
pub(super) struct StageFrame<E: Send + 'static> {
    pub(super) endpoint: Arc<Endpoint<E>>,
    pub(super) runtime: tokio::runtime::Handle,
}

impl<E: Send + 'static> UnstartedStage<E> {
    pub(crate) fn new(builder: StageBuilder) -> Result<Self, BuildError> {
        let builder = builder.with_named_laws()?;
        let runtime = builder.runtime()?;
        let queue = builder.queue();
        let (config, pool) = builder.into_config()?;
        if config.law.name() == GATE_LAW {
            return Err(BuildError::GateLaw { stage: config.name });
        }
        let core = Core::new(config, queue);
        let endpoint = Arc::new(Endpoint::new(core));
        Ok(Self { frame: StageFrame { endpoint, runtime }, pool })
    }

    pub(crate) fn endpoint(&self) -> &Arc<Endpoint<E>> {
        &self.frame.endpoint
    }

    /// The factory, after it has made its first handler.
    fn tried<H: Send + 'static>(
        &self,
        factory: impl Fn() -> Result<H, BoxError> + Send + Sync + 'static,
    ) -> Result<impl Fn() -> Result<H, BoxError> + Send + Sync + 'static, BuildError> {
        let _runtime = self.frame.runtime.enter();
        let fails = |reason| {
            let stage = self.frame.endpoint.core.name.to_string();
            BuildError::Handler { stage, reason }
        };
        let first = contained(&factory).map_err(|panic| fails(panic.to_string()))?;
        let first = Mutex::new(Some(first.map_err(|error| fails(shown(&error)))?));
        Ok(move || {
            let first = first.lock().take();
            first.map_or_else(&factory, Ok)
        })
    }

    pub(crate) fn with_tasks<H: Handler<E>>(
        self,
        factory: impl Fn() -> Result<H, BoxError> + Send + Sync + 'static,
    ) -> Result<Stage<E>, BuildError> {
        let config = self.pool.settle(WorkerKind::Tasks, H::batch());
        let pool = self.frame.tasks(config.batch, factory);
        Stage::start(self.frame, config, pool)
    }

    pub(crate) fn with_threads<H: BlockingHandler<E>>(
        self,
        factory: impl Fn() -> Result<H, BoxError> + Send + Sync + 'static,
    ) -> Result<Stage<E>, BuildError> {
        let config = self.pool.settle(WorkerKind::Threads, H::batch());
        let pool = self.frame.threads(config.batch, factory);
        Stage::start(self.frame, config, pool)
    }
}

impl<E: Send + 'static> StageFrame<E> {
    pub(super) fn tasks<H: Handler<E>>(
        &self,
        batch: u32,
        factory: impl Fn() -> Result<H, BoxError> + Send + Sync + 'static,
    ) -> Arc<WorkerPool<E>> {
        let Endpoint { core, workers, .. } = &*self.endpoint;
        let (core, workers) = (Arc::clone(core), Arc::clone(workers));
        WorkerPool::of_tasks(core, workers, batch, self.runtime.clone(), factory)
    }

    pub(super) fn threads<H: BlockingHandler<E>>(
        &self,
        batch: u32,
        factory: impl Fn() -> Result<H, BoxError> + Send + Sync + 'static,
    ) -> Arc<WorkerPool<E>> {
        let Endpoint { core, workers, .. } = &*self.endpoint;
        let (core, workers) = (Arc::clone(core), Arc::clone(workers));
        WorkerPool::of_threads(core, workers, batch, self.runtime.clone(), factory)
    }
}
