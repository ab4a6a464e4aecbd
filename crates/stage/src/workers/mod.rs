//! The workers of a stage: how many there are, and how each serves the queue.

mod handler_slot;
mod size;
mod task_worker;
mod thread_worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::build_error::BuildError;
use crate::call::{BoxError, CallError, destroy_returned};
use crate::core::{Core, Payload};
use crate::handler::{Batch, BlockingHandler, Handler};
use crate::observe::Outcome;
use crate::panics::Panic;
use crate::termination::Terminated;
use crate::worker::{StageView, Worker, WorkerRegistry};

use size::PoolSize;

/// All workers that serve a stage with handlers from one factory.
pub(crate) struct WorkerPool<E: Send + 'static> {
    core: Arc<Core<Payload<E>>>,
    /// All workers of the stage, these and those of pools that were replaced.
    registry: Arc<WorkerRegistry>,
    /// Where they run, as observations say.
    runs: &'static str,
    size: PoolSize,
    /// Whether the stage is served by these workers and no others.
    installed: AtomicBool,
    /// Events that a worker takes at once.
    batch: AtomicU32,
    start: Arc<Start<E>>,
}

/// Where workers run that block.
const THREADS: &str = "threads";

/// Starts one worker.
type Start<E> = dyn Fn(PoolWorker<E>) -> Result<(), BuildError> + Send + Sync;

/// Worker ids are unique in the process, so that an event's name never means
/// an event of another worker.
static NEXT_WORKER: AtomicU64 = AtomicU64::new(0);

impl<E: Send + 'static> WorkerPool<E> {
    /// Workers on the async runtime `runtime`.
    pub(crate) fn of_tasks<H: Handler<E>>(
        core: Arc<Core<Payload<E>>>,
        registry: Arc<WorkerRegistry>,
        batch: u32,
        runtime: tokio::runtime::Handle,
        factory: impl Fn() -> Result<H, BoxError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let factory = Arc::new(factory);
        Self::new(core, registry, batch, "tasks", move |this| {
            runtime.spawn(task_worker::serve(this, Arc::clone(&factory)));
            Ok(())
        })
    }

    /// Workers on threads of their own.
    pub(crate) fn of_threads<H: BlockingHandler<E>>(
        core: Arc<Core<Payload<E>>>,
        registry: Arc<WorkerRegistry>,
        batch: u32,
        runtime: tokio::runtime::Handle,
        factory: impl Fn() -> Result<H, BoxError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let factory = Arc::new(factory);
        Self::new(core, registry, batch, THREADS, move |this| {
            let stage = this.pool.core.name.to_string();
            let (factory, runtime) = (Arc::clone(&factory), runtime.clone());
            std::thread::Builder::new()
                // The one character that names of threads cannot have.
                .name(stage.replace('\0', " "))
                .spawn(move || {
                    let _runtime = runtime.enter();
                    thread_worker::serve(this, &*factory);
                })
                .map(drop)
                .map_err(|error| BuildError::Thread { stage, reason: error.to_string() })
        })
    }

    fn new(
        core: Arc<Core<Payload<E>>>,
        registry: Arc<WorkerRegistry>,
        batch: u32,
        runs: &'static str,
        start: impl Fn(PoolWorker<E>) -> Result<(), BuildError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Self::with(core, registry, batch, runs, Arc::new(start))
    }

    fn with(
        core: Arc<Core<Payload<E>>>,
        registry: Arc<WorkerRegistry>,
        batch: u32,
        runs: &'static str,
        start: Arc<Start<E>>,
    ) -> Arc<Self> {
        let (size, installed, batch) =
            (PoolSize::new(), AtomicBool::new(false), AtomicU32::new(batch));
        Arc::new(Self { core, registry, runs, size, installed, batch, start })
    }

    /// A pool of the same workers for another stage: none yet.
    pub(crate) fn for_stage(
        &self,
        core: Arc<Core<Payload<E>>>,
        registry: Arc<WorkerRegistry>,
    ) -> Arc<Self> {
        Self::with(core, registry, self.batch(), self.runs, Arc::clone(&self.start))
    }

    /// From now on the stage is served by these workers: without any it is closed.
    pub(crate) fn install(&self) {
        self.core.runs(self.runs);
        self.installed.store(true, Ordering::Relaxed);
        if self.size.is_lost() {
            self.core.close();
        }
    }

    /// Has all workers end once the events that they hold are done.
    pub(crate) fn retire(&self) {
        self.size.set_wanted(0);
        self.core.wake_all_workers();
    }

    /// Changes how many workers there are. Those too many end once the events
    /// that they hold are done.
    pub(crate) fn resize(self: &Arc<Self>, wanted: u32) -> Result<(), BuildError> {
        let before = self.wanted();
        for left in (0..self.size.set_wanted(wanted)).rev() {
            if let Err(error) = (self.start)(PoolWorker::new(Arc::clone(self))) {
                (0..left).for_each(|_| self.lose());
                return Err(error);
            }
        }
        if wanted < before {
            self.core.wake_all_workers();
        }
        Ok(())
    }

    /// Starts none, if there are fewer; those too many end.
    pub(crate) fn set_wanted(&self, wanted: u32) {
        self.size.set_wanted(wanted);
        self.core.wake_all_workers();
    }

    /// How many workers there should be.
    pub(crate) fn wanted(&self) -> u32 {
        self.size.wanted()
    }

    pub(crate) fn set_batch(&self, events: u32) {
        self.batch.store(events.max(1), Ordering::Relaxed);
    }

    pub(crate) fn batch(&self) -> u32 {
        self.batch.load(Ordering::Relaxed)
    }

    /// A worker ended that was still wanted. If it was the last, nothing would serve the queue
    /// any more: the stage is closed, so that its callers get an error. While others serve it, it
    /// stays open.
    fn lose(&self) {
        if self.size.lose() && self.installed.load(Ordering::Relaxed) {
            self.core.close();
        }
    }
}

/// A worker of a pool, for as long as it lives.
struct PoolWorker<E: Send + 'static> {
    pool: Arc<WorkerPool<E>>,
    worker: Arc<Worker>,
    retired: bool,
}

impl<E: Send + 'static> PoolWorker<E> {
    fn new(pool: Arc<WorkerPool<E>>) -> Self {
        let observed: Arc<dyn StageView> = Arc::clone(&pool.core) as _;
        let id = NEXT_WORKER.fetch_add(1, Ordering::Relaxed);
        let blocks = pool.runs == THREADS;
        let schedule = blocks.then(|| Arc::clone(&pool.registry.schedule));
        let worker = Arc::new(Worker::new(id, observed, schedule));
        pool.registry.register(Arc::clone(&worker));
        Self { pool, worker, retired: false }
    }

    fn batch(&self) -> Batch<E> {
        Batch::new(Arc::clone(&self.pool.core), Arc::clone(&self.worker))
    }

    /// Waits for events, `most` of them; `false` when the worker is to end.
    async fn fill(&mut self, batch: &mut Batch<E>, most: u32) -> bool {
        let Self { pool, retired, .. } = self;
        let retires = || {
            *retired = *retired || pool.size.try_retire();
            *retired
        };
        batch.fill(|| pool.batch().min(most) as usize, retires).await
    }
}

impl<E: Send + 'static> Drop for PoolWorker<E> {
    fn drop(&mut self) {
        self.pool.registry.remove(&self.worker);
        if !self.retired {
            self.pool.lose();
        }
    }
}

/// How a handler's run came to an end.
enum HandlerEnd {
    Returned(Result<(), BoxError>),
    Terminated,
    Panicked(Panic),
}

/// Records how the events that had begun ended; `false` if the handler panicked and must be
/// replaced, because its state may be inconsistent.
fn record_end<E: Send + 'static>(batch: &mut Batch<E>, end: HandlerEnd, offered: usize) -> bool {
    let good = !matches!(end, HandlerEnd::Panicked(_));
    let outcome = match end {
        HandlerEnd::Returned(Ok(())) => Outcome::Completed,
        HandlerEnd::Terminated => Outcome::Terminated,
        HandlerEnd::Returned(Err(error)) if error.is::<Terminated>() => Outcome::Terminated,
        HandlerEnd::Returned(Err(error)) => {
            let returned = CallError::returned(&error);
            let is_answer = returned.is_expected();
            if !is_answer {
                batch.core().note_failure(returned.shown());
            }
            drop(returned);
            destroy_returned(error);
            if is_answer {
                batch.forgive_unanswered();
                Outcome::Completed
            } else {
                Outcome::Failed
            }
        }
        HandlerEnd::Panicked(panic) => {
            batch.core().note_failure(panic.to_string());
            Outcome::Failed
        }
    };
    batch.conclude(outcome);
    // A handler that took nothing would be offered the same events indefinitely:
    // the first of them fails in its stead.
    if batch.len() == offered {
        batch.fail_next(if good { CallError::Unanswered } else { CallError::Panicked });
    }
    good
}

#[cfg(all(test, not(tamarisk_loom)))]
mod tests {
    use super::*;
    use crate::builder::StageBuilder;

    #[test]
    fn only_workers_that_serve_the_stage_close_it_when_none_is_left() {
        let builder = StageBuilder::new("work").workers(1);
        let queue = builder.queue();
        let (config, _) = builder.into_config().unwrap();
        let core = Arc::new(Core::<Payload<u32>>::new(config, queue));
        let is_closed = || core.lock().is_closed();
        let none_starts = |_| {
            Err(BuildError::Thread { stage: "work".into(), reason: "there is none left".into() })
        };
        let pool = WorkerPool::new(Arc::clone(&core), Arc::default(), 1, "threads", none_starts);
        assert!(pool.resize(2).is_err());
        pool.retire();
        assert!(!is_closed(), "others serve it");
        assert_eq!(core.observe().runs, "nowhere yet");

        // Its workers were lost before it was installed.
        let pool = WorkerPool::new(Arc::clone(&core), Arc::default(), 1, "threads", none_starts);
        assert!(pool.resize(1).is_err());
        pool.install();
        assert!(is_closed());
        assert_eq!(core.observe().runs, "threads");
    }
}
