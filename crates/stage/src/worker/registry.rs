//! All workers of a stage, those of replaced handlers included: while they finish their events,
//! these still show and can be terminated.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tamarisk_control::Timestamp;

use super::overdue::Schedule;
use super::{Running, Worker};
use crate::termination::EventId;

/// Workers by their ids.
#[derive(Default)]
pub(crate) struct WorkerRegistry {
    workers: Mutex<BTreeMap<u64, Arc<Worker>>>,
    /// Of the watch over blocking ones.
    pub(crate) schedule: Arc<Schedule>,
}

impl WorkerRegistry {
    pub(crate) fn register(&self, worker: Arc<Worker>) {
        self.workers.lock().insert(worker.id, worker);
    }

    pub(crate) fn remove(&self, worker: &Worker) {
        self.workers.lock().remove(&worker.id);
    }

    pub(crate) fn workers(&self) -> Vec<Arc<Worker>> {
        self.workers.lock().values().cloned().collect()
    }

    /// The events that run now.
    pub(crate) fn running(&self, now: Timestamp) -> Vec<Running> {
        self.workers.lock().values().filter_map(|worker| worker.running(now)).collect()
    }

    /// Asks the event to end; `false` if it does not run here any more.
    pub(crate) fn terminate(&self, event: EventId) -> bool {
        let workers = self.workers.lock();
        workers.get(&event.worker).is_some_and(|worker| worker.slot.request(event.sequence))
    }

    /// Asks every worker of a closed stage to end what it runs, and to begin
    /// nothing else.
    pub(crate) fn stop_all(&self) {
        for worker in self.workers.lock().values() {
            worker.slot.stop();
        }
        self.schedule.close();
    }
}
