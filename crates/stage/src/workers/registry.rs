//! All workers of a stage, those of replaced handlers included: while they finish their events,
//! these still show and can be terminated.

use std::sync::Arc;

use parking_lot::Mutex;
use tamarisk_control::Timestamp;

use super::{Running, Worker};
use crate::termination::EventId;

#[derive(Default)]
pub(crate) struct WorkerRegistry(Mutex<Vec<Arc<Worker>>>);

impl WorkerRegistry {
    pub(super) fn register(&self, worker: Arc<Worker>) {
        self.0.lock().push(worker);
    }

    pub(super) fn remove(&self, worker: &Worker) {
        self.0.lock().retain(|other| other.id != worker.id);
    }

    /// The events that run now.
    pub(crate) fn running(&self, now: Timestamp) -> Vec<Running> {
        self.0.lock().iter().filter_map(|worker| worker.running(now)).collect()
    }

    /// Asks the event to end; `false` if it does not run here any more.
    pub(crate) fn terminate(&self, event: EventId) -> bool {
        let workers = self.0.lock();
        let worker = workers.iter().find(|worker| worker.id == event.worker);
        worker.is_some_and(|worker| worker.slot.request(event.sequence))
    }

    /// Asks every worker of a closed stage to end what it runs, and to begin
    /// nothing else.
    pub(crate) fn stop_all(&self) {
        for worker in self.0.lock().iter() {
            worker.slot.stop();
        }
    }
}
