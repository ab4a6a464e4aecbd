//! The workers of a stage: how many there are, and how each serves the queue.

mod tasks;
mod threads;

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;
use tamarisk_control::Timestamp;

use crate::batch::{Batch, Payload};
use crate::builder::BuildError;
use crate::context::{Running, Worker};
use crate::core::Core;
use crate::handler::{BlockingHandler, BoxError, Handler};
use crate::ledger::Outcome;
use crate::termination::{EventId, Terminated};

/// All workers that serve a stage with handlers from one factory.
pub(crate) struct Crew<E: Send + 'static> {
    core: Arc<Core<Payload<E>>>,
    /// How many there should be, and are.
    wanted: AtomicU32,
    live: AtomicU32,
    /// Events that a worker takes at once.
    batch: AtomicU32,
    workers: Mutex<Vec<Arc<Worker>>>,
    start: Box<Start<E>>,
}

/// Starts one worker.
type Start<E> = dyn Fn(Arc<Crew<E>>, Arc<Worker>) -> Result<(), BuildError> + Send + Sync;

/// Worker ids are unique in the process, so that an event's name never means
/// an event of another worker.
static NEXT_WORKER: AtomicU64 = AtomicU64::new(0);

impl<E: Send + 'static> Crew<E> {
    /// Workers on the async runtime `runtime`.
    pub(crate) fn of_tasks<H: Handler<E>>(
        core: Arc<Core<Payload<E>>>,
        batch: usize,
        runtime: tokio::runtime::Handle,
        factory: impl Fn() -> H + Send + Sync + 'static,
    ) -> Arc<Self> {
        let factory = Arc::new(factory);
        Self::new(core, batch, move |crew, worker| {
            runtime.spawn(tasks::serve(crew, worker, Arc::clone(&factory)));
            Ok(())
        })
    }

    /// Workers on threads of their own.
    pub(crate) fn of_threads<H: BlockingHandler<E>>(
        core: Arc<Core<Payload<E>>>,
        batch: usize,
        runtime: tokio::runtime::Handle,
        factory: impl Fn() -> H + Send + Sync + 'static,
    ) -> Arc<Self> {
        let factory = Arc::new(factory);
        Self::new(core, batch, move |crew, worker| {
            let stage = crew.core.name.clone();
            let (factory, runtime) = (Arc::clone(&factory), runtime.clone());
            std::thread::Builder::new()
                .name(stage.clone())
                .spawn(move || {
                    let _runtime = runtime.enter();
                    threads::serve(&crew, worker, &*factory);
                })
                .map(drop)
                .map_err(|error| BuildError::Thread { stage, reason: error.to_string() })
        })
    }

    fn new(
        core: Arc<Core<Payload<E>>>,
        batch: usize,
        start: impl Fn(Arc<Self>, Arc<Worker>) -> Result<(), BuildError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            core,
            wanted: AtomicU32::new(0),
            live: AtomicU32::new(0),
            batch: AtomicU32::new(u32::try_from(batch).unwrap_or(u32::MAX)),
            workers: Mutex::new(Vec::new()),
            start: Box::new(start),
        })
    }

    /// Changes how many workers there are. Those too many end once the events
    /// that they hold are done.
    pub(crate) fn resize(self: &Arc<Self>, wanted: u32) -> Result<(), BuildError> {
        let mut workers = self.workers.lock();
        self.wanted.store(wanted, Ordering::Release);
        while self.live.load(Ordering::Acquire) < wanted {
            let observed: Arc<dyn crate::context::Observed> = Arc::clone(&self.core) as _;
            let id = NEXT_WORKER.fetch_add(1, Ordering::Relaxed);
            let worker = Arc::new(Worker::new(id, observed));
            (self.start)(Arc::clone(self), Arc::clone(&worker))?;
            self.live.fetch_add(1, Ordering::AcqRel);
            workers.push(worker);
        }
        drop(workers);
        self.core.wake_all_workers();
        Ok(())
    }

    pub(crate) fn set_batch(&self, events: u32) {
        self.batch.store(events.max(1), Ordering::Relaxed);
    }

    fn batching(&self) -> usize {
        self.batch.load(Ordering::Relaxed) as usize
    }

    /// Whether the worker that asks is one too many; if so, it must end.
    fn retires(&self) -> bool {
        let wanted = self.wanted.load(Ordering::Acquire);
        self.live
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |live| {
                (live > wanted).then(|| live - 1)
            })
            .is_ok()
    }

    /// A worker has ended.
    fn leave(&self, worker: &Worker) {
        self.workers.lock().retain(|other| other.id != worker.id);
    }

    /// Asks the event to end; `false` if it does not run here any more.
    pub(crate) fn terminate(&self, event: EventId) -> bool {
        let workers = self.workers.lock();
        let worker = workers.iter().find(|worker| worker.id == event.worker);
        worker.is_some_and(|worker| worker.slot.request(event.sequence))
    }

    /// Asks all running events to end.
    pub(crate) fn terminate_all(&self) {
        for worker in self.workers.lock().iter() {
            if let Some(sequence) = worker.slot.running() {
                worker.slot.request(sequence);
            }
        }
    }

    /// The events that run now.
    pub(crate) fn running(&self, now: Timestamp) -> Vec<Running> {
        self.workers.lock().iter().filter_map(|worker| worker.running(now)).collect()
    }
}

/// How a handler's run came to an end.
enum Ran {
    Returned(Result<(), BoxError>),
    Terminated,
    Panicked(Box<dyn Any + Send>),
}

/// Books how the events that were begun ended; `true` if the handler is still
/// good: one that panicked may have left its state torn.
fn settle<E: Send + 'static>(batch: &mut Batch<E>, ran: Ran, offered: usize) -> bool {
    match ran {
        Ran::Returned(Ok(())) => batch.conclude(Outcome::Completed),
        Ran::Returned(Err(error)) if error.is::<Terminated>() => {
            batch.conclude(Outcome::Terminated);
        }
        Ran::Returned(Err(error)) => {
            batch.core().note_failure(&error);
            batch.conclude(Outcome::Failed);
        }
        Ran::Terminated => batch.conclude(Outcome::Terminated),
        Ran::Panicked(panic) => {
            batch.core().note_failure(&format_args!("panicked: {}", message(&*panic)));
            batch.conclude(Outcome::Failed);
            if batch.len() == offered {
                batch.fail_next();
            }
            return false;
        }
    }
    if batch.len() == offered {
        batch.fail_next();
    }
    true
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("(no message)")
}
