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
    bounds: ResourceBounds,
    /// Whether anybody is rejected: read without the lock.
    rejects: AtomicBool,
    /// Arrivals ask it under the stage's lock, so nothing is read from the system under this one.
    guard: Mutex<ResourceGuard>,
    meter: Mutex<Meter>,
}

/// What reads the resources.
struct Meter {
    system: System,
    /// When it read last.
    read: Option<Timestamp>,
    /// The shares of processor time since then: their sum, and how many they are.
    busy: (f64, u32),
}

impl Resources {
    /// None where nothing is bounded.
    pub(crate) fn new(classes: &Classes, bounds: ResourceBounds) -> Option<Self> {
        (!bounds.is_empty()).then(|| Self {
            bounds,
            rejects: AtomicBool::new(false),
            guard: Mutex::new(ResourceGuard::new(classes, bounds)),
            meter: Mutex::new(Meter { system: System::own(), read: None, busy: (0.0, 0) }),
        })
    }

    pub(crate) fn bounds(&self) -> ResourceBounds {
        self.bounds
    }

    /// Reads what is in use, if it is time. `cpu` is the share of processor time since the last
    /// tick.
    pub(crate) fn tick(&self, now: Timestamp, cpu: Option<Ratio>) {
        let Some(usage) = self.meter.lock().read(now, cpu) else { return };
        let mut guard = self.guard.lock();
        guard.on_usage(&usage);
        self.rejects.store(!guard.is_idle(), Ordering::Relaxed);
    }

    /// Whether an event of this class may ask for admission.
    #[inline]
    pub(crate) fn check(&self, class: ClassId) -> Result<(), Rejection> {
        if self.rejects.load(Ordering::Relaxed) { self.guard.lock().check(class) } else { Ok(()) }
    }

    pub(crate) fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        self.guard.lock().readings(visit);
    }
}

impl Meter {
    /// What is in use, if it is time; of processor time, the mean since the last reading.
    fn read(&mut self, now: Timestamp, cpu: Option<Ratio>) -> Option<Usage> {
        if let Some(busy) = cpu {
            self.busy = (self.busy.0 + busy.get(), self.busy.1 + 1);
        }
        if self.read.is_some_and(|last| now.since(last) < INTERVAL) {
            return None;
        }
        self.read = Some(now);
        let (sum, count) = std::mem::take(&mut self.busy);
        let cpu = (count > 0).then(|| Ratio::saturating(sum / f64::from(count)));
        Some(Usage { memory: self.system.memory(), descriptors: self.system.descriptors(), cpu })
    }
}

#[cfg(test)]
mod tests {
    use tamarisk_control::Target;

    use super::*;

    #[test]
    fn processor_time_is_the_mean_since_the_last_reading() {
        let bounds = ResourceBounds::new().cpu(Ratio::saturating(0.8));
        let target = Target::p90(Duration::from_secs(1)).unwrap();
        let resources = Resources::new(&Classes::single(target), bounds).unwrap();
        let mut now = 0;
        let mut tick = |busy| {
            resources.tick(Timestamp::from_nanos(now), Some(Ratio::saturating(busy)));
            now += 100_000_000;
            resources.check(ClassId::DEFAULT).is_ok()
        };
        assert!(tick(0.5));
        // 0.1 four times and 1.0 once: 0.28.
        assert!([0.1, 0.1, 0.1, 0.1, 1.0].map(&mut tick).iter().all(|admitted| *admitted));
        // 1.0 four times and 0.1 once: 0.82.
        assert_eq!([1.0, 1.0, 1.0, 1.0, 0.1].map(&mut tick), [true, true, true, true, false]);
    }
}
