//! Who waits for the events of blocking workers, and when the watch is to look at these.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use tamarisk_control::Timestamp;
use tokio::sync::Notify;

use crate::call::Caller;

/// When the watch of a stage looks at its workers.
pub(crate) struct Schedule {
    /// At this instant, in nanoseconds, unless it is told of an earlier one.
    pub(super) looks_at: AtomicU64,
    pub(super) changed: Notify,
    pub(super) is_closed: AtomicBool,
}

/// The caller that waits for the event of a blocking worker, if it has to end at a set time.
#[derive(Default)]
pub(super) struct Attended(pub(super) Mutex<Attendance>);

/// Who that is.
#[derive(Default)]
pub(super) enum Attendance {
    #[default]
    Nobody,
    Waits {
        sequence: u64,
        caller: Caller,
    },
    /// It was told that its event is overdue.
    Told,
}

impl Default for Schedule {
    fn default() -> Self {
        let looks_at = AtomicU64::new(u64::MAX);
        Self { looks_at, changed: Notify::new(), is_closed: AtomicBool::new(false) }
    }
}

impl Schedule {
    /// An event begins that is to end then.
    fn expect(&self, end: Timestamp) {
        if end.as_nanos() < self.looks_at.load(Ordering::SeqCst) {
            self.changed.notify_one();
        }
    }

    /// The stage has been closed: the watch ends with the last of its events.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.changed.notify_one();
    }
}

impl Attended {
    /// The worker begins the event that `caller` waits for.
    pub(super) fn begin(&self, sequence: u64, caller: Caller, end: Timestamp, watch: &Schedule) {
        *self.0.lock() = Attendance::Waits { sequence, caller };
        watch.expect(end);
    }

    /// The event has ended. Returns whether its caller was told before that it is overdue.
    pub(super) fn end(&self) -> bool {
        matches!(std::mem::take(&mut *self.0.lock()), Attendance::Told)
    }
}
