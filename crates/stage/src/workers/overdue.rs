//! Answers callers of blocking handlers when their events are overdue: a thread cannot be ended, but
//! its caller need not wait for it. The thread is busy until the handler returns.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use tamarisk_control::Timestamp;
use tokio::sync::Notify;

use super::{Worker, WorkerRegistry};
use crate::call::Caller;
use crate::clock::Clock;

/// When the watch of a stage looks at its workers.
pub(crate) struct Schedule {
    /// At this instant, in nanoseconds, unless it is told of an earlier one.
    looks_at: AtomicU64,
    changed: Notify,
    is_closed: AtomicBool,
}

/// The caller that waits for the event of a blocking worker, if it has to end at a set time.
#[derive(Default)]
pub(super) struct Attended(Mutex<State>);

#[derive(Default)]
enum State {
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
        *self.0.lock() = State::Waits { sequence, caller };
        watch.expect(end);
    }

    /// The event has ended. Returns whether its caller was told before that it is overdue.
    pub(super) fn end(&self) -> bool {
        matches!(std::mem::take(&mut *self.0.lock()), State::Told)
    }

    /// Tells the caller, if the event of `worker` is overdue; else returns when it will be.
    fn tell_overdue(&self, worker: &Worker, now: Timestamp) -> Option<Timestamp> {
        let mut state = self.0.lock();
        let State::Waits { sequence, caller } = &*state else { return None };
        let end = worker.end();
        if end > now {
            return Some(end);
        }
        worker.slot.request(*sequence);
        let told = caller.end_overdue(worker, *sequence);
        *state = if told { State::Told } else { State::Nobody };
        None
    }
}

/// Watches the workers of a stage, until it is closed and none has an event that may become overdue.
pub(crate) async fn watch(registry: Arc<WorkerRegistry>, clock: Clock) {
    let schedule = &registry.schedule;
    loop {
        // What begins from here on wakes the watch, unless it is seen below.
        schedule.looks_at.store(u64::MAX, Ordering::SeqCst);
        let now = clock.now();
        let workers = registry.workers().into_iter();
        let next = workers.filter_map(|worker| worker.attended.tell_overdue(&worker, now)).min();
        let Some(next) = next else {
            if schedule.is_closed.load(Ordering::SeqCst) {
                return;
            }
            schedule.changed.notified().await;
            continue;
        };
        schedule.looks_at.store(next.as_nanos(), Ordering::SeqCst);
        // Either is a reason to look.
        let _ = tokio::time::timeout(next.since(now), schedule.changed.notified()).await;
    }
}
