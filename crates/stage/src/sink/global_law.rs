//! The law over a graph, as the sinks of its stages ask it.

use parking_lot::Mutex;
use tamarisk_control::{Decision, GlobalLaw, Rejection, Timestamp};

/// A law over a graph, shared by its sinks and its governor.
pub(crate) struct SharedGlobalLaw(Mutex<Box<dyn GlobalLaw>>);

impl SharedGlobalLaw {
    pub(crate) fn new(law: Box<dyn GlobalLaw>) -> Self {
        Self(Mutex::new(law))
    }

    /// Whether an event may enter from outside.
    pub(crate) fn ask(&self, now: Timestamp) -> Result<(), Rejection> {
        match self.0.lock().on_entry(now) {
            Decision::Admit => Ok(()),
            Decision::Reject(rejection) => Err(rejection),
        }
    }

    pub(crate) fn law(&self) -> parking_lot::MutexGuard<'_, Box<dyn GlobalLaw>> {
        self.0.lock()
    }
}
