//! The guard of a stage's resources: read now and then, asked about each arrival.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tamarisk_control::{ClassId, Classes, Ratio, Reading, Rejection, Timestamp, Usage};
use tamarisk_laws::{ResourceBounds, ResourceGuard};

use crate::system::System;

/// Between two readings, which are the steps of the guard: a resource can be used up in seconds, and
/// counting ten thousand descriptors takes an old kernel milliseconds.
const INTERVAL: Duration = Duration::from_millis(500);

/// What bounds a stage by its resources.
pub(crate) struct Resources {
    /// Whether anybody is rejected: read without the lock.
    rejects: AtomicBool,
    state: Mutex<Guarded>,
}

struct Guarded {
    guard: ResourceGuard,
    system: System,
    /// When it was read last.
    read: Option<Timestamp>,
}

impl Resources {
    /// None where nothing is bounded.
    pub(crate) fn new(classes: &Classes, bounds: ResourceBounds) -> Option<Self> {
        let guard = ResourceGuard::new(classes, bounds);
        let state = || Mutex::new(Guarded { guard, system: System::own(), read: None });
        (!bounds.is_empty()).then(|| Self { rejects: AtomicBool::new(false), state: state() })
    }

    /// Reads what is in use, if it is time. `cpu` is the share of processor time.
    pub(crate) fn tick(&self, now: Timestamp, cpu: Option<Ratio>) {
        let mut state = self.state.lock();
        if state.read.is_some_and(|last| now.since(last) < INTERVAL) {
            return;
        }
        state.read = Some(now);
        let (memory, descriptors) = (state.system.memory(), state.system.descriptors());
        state.guard.on_usage(&Usage { memory, descriptors, cpu });
        self.rejects.store(!state.guard.is_idle(), Ordering::Relaxed);
    }

    /// Whether an event of this class may ask for admission.
    #[inline]
    pub(crate) fn check(&self, class: ClassId) -> Result<(), Rejection> {
        if self.rejects.load(Ordering::Relaxed) {
            self.state.lock().guard.check(class)
        } else {
            Ok(())
        }
    }

    pub(crate) fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        self.state.lock().guard.readings(visit);
    }
}
