//! The pool of Python processes: a bounded number, each lent to one event at a time.
//!
//! How many processes there are follows from how many events run: a process is started when an
//! event needs one and none is idle, and ends when it has been idle for long. How many events run
//! at once is what the workers laws of the stages decide; the pool has the bound of all together.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::Backoff;
use super::worker::{RunError, Setup, StartError, Work, Worker, WorkerOptions};
use crate::request::PageAnswer;

/// Processes, and those that wait for one in order of arrival.
pub(crate) struct Pool {
    current: RwLock<Arc<Current>>,
    processes: u32,
    /// One for each process that is lent, starts or ends. Idle ones have none: a process is started
    /// only where none is idle, so there are never more than permits.
    permits: Arc<Semaphore>,
    /// The one that was used last is the next.
    idle: Mutex<Vec<Worker>>,
    idle_time_max: Duration,
    starts: Mutex<Backoff>,
    runtime: Handle,
}

/// What a process is started with now.
struct Current {
    options: WorkerOptions,
    /// Of the site's folder and modules; processes of an older one are replaced.
    generation: u64,
}

/// A process that is lent, until this is dropped. If it is dropped while a page runs, the process
/// is killed.
pub(crate) struct Lease {
    pool: Arc<Pool>,
    worker: Option<Worker>,
    permit: Option<OwnedSemaphorePermit>,
    runs: bool,
}

impl Pool {
    /// Up to so many processes, none of which is started yet. Needs a runtime of tokio.
    pub(crate) fn new(
        options: WorkerOptions,
        processes: u32,
        idle_time_max: Duration,
    ) -> Arc<Self> {
        Arc::new(Self {
            current: RwLock::new(Arc::new(Current { options, generation: 0 })),
            processes,
            permits: Arc::new(Semaphore::new(processes as usize)),
            idle: Mutex::default(),
            idle_time_max,
            starts: Mutex::default(),
            runtime: Handle::current(),
        })
    }

    /// A process: an idle one, or a new one; waits while as many as may be are lent.
    pub(crate) async fn lease(self: &Arc<Self>) -> Result<Lease, StartError> {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.map_err(|_| StartError::Closed)?;
        let mut unusable = Vec::new();
        loop {
            let idle = self.idle.lock().pop();
            let Some(worker) = idle else { break };
            if worker.is_usable(self.generation()) {
                return Ok(self.lend(worker, permit));
            }
            unusable.push(worker);
        }
        // A start is finished even if the event that wants it is terminated meanwhile: else a
        // site whose deadlines are shorter than a start would never have a process.
        let pool = Arc::clone(self);
        let start = self.runtime.spawn(async move {
            for mut worker in unusable {
                worker.kill();
                worker.end().await;
            }
            pool.start().await.map(|worker| pool.lend(worker, permit))
        });
        start.await.map_err(|_| StartError::Closed)?
    }

    async fn start(&self) -> Result<Worker, StartError> {
        let current = Arc::clone(&self.current.read());
        {
            let starts = self.starts.lock();
            if let Some(pause) = starts.pause(Instant::now()) {
                let python = current.options.python.display().to_string();
                return Err(StartError::Pausing { python, failures: starts.failures(), pause });
            }
        }
        let started = Worker::start(&current.options, current.generation).await;
        let mut starts = self.starts.lock();
        match &started {
            Ok(_) => starts.succeeded(),
            Err(_) => starts.failed(Instant::now()),
        }
        started
    }

    fn lend(self: &Arc<Self>, worker: Worker, permit: OwnedSemaphorePermit) -> Lease {
        Lease { pool: Arc::clone(self), worker: Some(worker), permit: Some(permit), runs: false }
    }

    fn generation(&self) -> u64 {
        self.current.read().generation
    }

    /// Replaces every process before its next event by one that is started with this: the site's
    /// folder or modules have changed.
    pub(crate) fn renew(&self, setup: Setup) {
        let mut current = self.current.write();
        let options = WorkerOptions { python: current.options.python.clone(), setup };
        *current = Arc::new(Current { options, generation: current.generation + 1 });
    }

    /// Ends processes that have been idle for long, and those that nobody will use.
    pub(crate) async fn end_idle(&self) {
        // Those that end have permits, so that there are never too many.
        let Ok(permit) = self.permits.try_acquire() else { return };
        let now = Instant::now();
        let generation = self.generation();
        let keeps = |worker: &Worker| {
            now.duration_since(worker.idle_since) < self.idle_time_max
                && worker.is_usable(generation)
        };
        let ending: Vec<_> = self.idle.lock().extract_if(.., |worker| !keeps(worker)).collect();
        for mut worker in ending {
            worker.kill();
            worker.end().await;
        }
        drop(permit);
    }

    /// Lends nothing more, waits until all that is lent is back, and ends all processes.
    pub(crate) async fn close(&self) {
        let all = self.permits.acquire_many(self.processes).await;
        self.permits.close();
        let idle = std::mem::take(&mut *self.idle.lock());
        for mut worker in idle {
            worker.kill();
            worker.end().await;
        }
        drop(all);
    }
}

impl Lease {
    /// Runs a page in the process.
    pub(crate) async fn run(
        &mut self,
        work: Work<'_>,
        body: &[u8],
    ) -> Result<PageAnswer, RunError> {
        let worker = self.worker.as_mut().expect("it has a process until it is dropped");
        self.runs = true;
        let ended = worker.run(work, body).await;
        self.runs = false;
        ended
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let (Some(mut worker), permit) = (self.worker.take(), self.permit.take()) else { return };
        if self.runs || !worker.is_usable(self.pool.generation()) {
            // At once, whether or not the runtime still has time for the rest.
            worker.kill();
            self.pool.runtime.spawn(async move {
                worker.end().await;
                drop(permit);
            });
        } else {
            worker.idle_since = Instant::now();
            self.pool.idle.lock().push(worker);
            drop(permit);
        }
    }
}
